"""The curves of a run, for TensorBoard."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from albert_tf.files import written_atomically
from albert_tf.training.pretraining.metrics import Sums
from albert_tf.training.pretraining.progress import Interval, measured

STEPS_A_POINT: Final = 100
EVENTS: Final = "events.out.tfevents.*"  # TensorFlow's name for files of TensorBoard


class Scalars:
    """Writes the curves that TensorBoard shows: `NAMES`, `learning_rate`, `tokens_per_second`.

    A point is of all steps since the one before; a saved step has one, so that a run that goes on
    from there leaves none out and none twice. Held-out numbers are under `evaluation/`.

    Args:
        folder: of the event files; points after `step` are removed from those that are there.
        tokens_per_step: positions of a global batch.
        step: steps trained before.
        every: steps from one point to the next.
    """

    def __init__(
        self, folder: Path, tokens_per_step: int, step: int = 0, every: int = STEPS_A_POINT
    ):
        import tensorflow as tf  # on other backends too: it reads the examples anyway

        _forget(folder, step)
        self._summary = tf.summary
        self._writer = tf.summary.create_file_writer(str(folder))
        self._interval = Interval(tokens_per_step)
        self._every, self._step, self._learning_rate = every, step, 0.0

    def on_step(self, step: int, sums: Sums, learning_rate: float, seconds: float) -> None:
        self._interval.add(sums, seconds)
        self._step, self._learning_rate = step, learning_rate
        if step % self._every == 0:
            self._end_interval()

    def on_save(self, step: int, path: Path) -> None:
        self._end_interval()

    def on_evaluation(self, step: int, scores: Mapping[str, float]) -> None:
        self._write(step, {f"evaluation/{name}": scores[name] for name in measured(scores)})

    def close(self) -> None:
        self._end_interval()
        self._writer.close()

    def _end_interval(self) -> None:
        if self._interval.empty:
            return
        values = self._interval.taken()
        names = [*measured(values), "tokens_per_second"]
        point = {name: values[name] for name in names if name in values}
        self._write(self._step, {**point, "learning_rate": float(self._learning_rate)})

    def _write(self, step: int, values: Mapping[str, float]) -> None:
        with self._writer.as_default(step=step):
            for name, value in values.items():
                self._summary.scalar(name, value)
        self._writer.flush()


def _forget(folder: Path, after: int) -> None:
    """Removes what an interrupted run wrote of steps that are trained again."""
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
    """The records of a file, up to one that a killed run left unfinished."""
    import tensorflow as tf

    try:
        for record in tf.data.TFRecordDataset(str(path)):
            yield record.numpy()
    except tf.errors.DataLossError:
        return
