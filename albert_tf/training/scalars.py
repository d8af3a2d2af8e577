"""Curves of a run, for TensorBoard."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from albert_tf.files import written_atomically
from albert_tf.progress import Interval
from albert_tf.training.loss import Totals

STEPS_A_POINT: Final = 100
EVENTS: Final = "events.out.tfevents.*"  # TensorFlow's name for files of TensorBoard


class Scalars:
    """Writes event files with the means, `learning_rate` and the speed.

    A point covers all steps since the one before. A saved step has one, so that a resumed run
    neither leaves steps out nor counts them twice. Held-out scores are under `evaluation/`.

    Args:
        folder: of the event files; points after `step` are removed from existing ones.
        interval: of the steps since the last point.
        step: steps trained before.
        every: steps between points.
    """

    def __init__(self, folder: Path, interval: Interval, step: int = 0, every: int = STEPS_A_POINT):
        import tensorflow as tf  # on other backends too: it reads the examples anyway

        _drop_later(folder, step)
        self._summary = tf.summary
        self._writer = tf.summary.create_file_writer(str(folder))
        self._interval = interval
        self._every, self._step, self._learning_rate = every, step, 0.0

    def on_step(self, step: int, sums: Totals, learning_rate: float, seconds: float) -> None:
        self._interval.add(sums, seconds)
        self._step, self._learning_rate = step, learning_rate
        if step % self._every == 0:
            self._end_interval()

    def on_save(self, step: int, path: Path) -> None:
        self._end_interval()

    def on_evaluation(self, step: int, scores: Mapping[str, float]) -> None:
        self._write(step, {f"evaluation/{name}": score for name, score in scores.items()})

    def close(self) -> None:
        self._end_interval()
        self._writer.close()

    def _end_interval(self) -> None:
        if not self._interval.empty:
            point = {**self._interval.pop(), "learning_rate": self._learning_rate}
            self._write(self._step, point)

    def _write(self, step: int, values: Mapping[str, float]) -> None:
        with self._writer.as_default(step=step):
            for name, value in values.items():
                self._summary.scalar(name, value)
        self._writer.flush()


def _drop_later(folder: Path, after: int) -> None:
    """Removes the points of steps that a resumed run trains again."""
    import tensorflow as tf

    for path in folder.glob(EVENTS):
        events = map(tf.compat.v1.Event.FromString, _records(path))
        kept = [event.SerializeToString() for event in events if event.step <= after]
        if len(kept) <= 1:  # the version of the format
            path.unlink()
            continue
        with written_atomically(path, force=True) as new, tf.io.TFRecordWriter(str(new)) as file:
            for event in kept:
                file.write(event)


def _records(path: Path) -> Iterator[bytes]:
    """Yields the records of a file, up to one that a killed run left incomplete."""
    import tensorflow as tf

    try:
        for record in tf.data.TFRecordDataset(str(path)):
            yield record.numpy()
    except tf.errors.DataLossError:
        return
