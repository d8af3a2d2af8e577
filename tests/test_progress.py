import io
import re
import threading

import numpy as np
import pytest

from albert_tf import progress
from albert_tf.commands import embed, pretrain
from albert_tf.data.tasks.classification import ONE_CLASS
from albert_tf.progress import Interval, Progress, ProgressLine, in_words
from albert_tf.training.loss import pretraining_means

TOKENS = 96  # tokens in a step


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture(autouse=True)
def wide(monkeypatch):
    """Makes the terminal wide: older versions of tqdm cut its lines."""
    monkeypatch.setenv("COLUMNS", "200")


@pytest.fixture
def clock(monkeypatch):
    """Returns a clock that the test sets."""
    now = [1000.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def test_a_terminal_shows_a_bar_with_counts_and_ends_it():
    stream = Terminal()
    with Progress(stream) as shown:
        shown.start("building", 5_000_000)
        shown.add_counts({"documents": 1200})
        shown.update_to(2_000_000)
        shown.add_counts({"documents": 34})
        shown.update_to(5_000_000)
    last = stream.getvalue().split("\r")[-1]
    assert re.fullmatch(
        r"building: 100%\|.*\| 5.00M/5.00M \[.*B/s, 00:00 left, 1,234 documents\] *\n", last
    )


def test_a_file_gets_a_line_every_half_minute(monkeypatch):
    stream = io.StringIO()
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    with Progress(stream) as shown:
        shown.start("building", 800)
        for second in range(0, 100, 5):
            now[0] = float(second)
            shown.add_counts({"tokens": 300, "examples": 2})
            shown.update_to(2 * (second + 5))
        shown.start("checking", 0)
    lines = stream.getvalue().splitlines()
    assert len(lines) == 3
    assert lines[1].startswith("building:  16% 130/800 [")
    assert lines[1].endswith(" left, 26 examples, 3,900 tokens]")


def sums(loss, predictions, sentences=4.0):
    return np.array(
        [
            [loss * predictions, predictions / 2, predictions],
            [0.7 * sentences, 3.0 * bool(sentences), sentences],
        ]
    )


def new_interval():
    return Interval(pretraining_means, {"tokens_per_second": TOKENS})


def shown(total, stream, **options):
    return ProgressLine("pretraining", total, new_interval(), stream=stream, **options)


def test_averages_are_weighted_by_predictions():
    interval = new_interval()
    interval.add(sums(2.0, 30.0), 0.5)
    interval.add(sums(8.0, 10.0), 0.5)
    values = interval.pop()
    assert values["masked_lm_loss"] == pytest.approx((2 * 30 + 8 * 10) / 40)  # not 5
    assert values["masked_lm_accuracy"] == pytest.approx(0.5)
    assert values["sentence_order_loss"] == pytest.approx(0.7)
    assert values["sentence_order_accuracy"] == pytest.approx(6 / 8)
    interval.add(sums(5.0, 7.0), 0.5)
    assert interval.pop()["masked_lm_loss"] == pytest.approx(5.0)


def test_speed_excludes_the_first_step():
    interval = new_interval()
    interval.add(sums(2.0, 3.0), 60.0)  # compilation
    assert "tokens_per_second" not in interval.pop()
    for seconds in (0.5, 0.5, 1.0):
        interval.add(sums(2.0, 3.0), seconds)
    assert interval.pop()["tokens_per_second"] == pytest.approx(TOKENS * 3 / 2.0)


def test_a_terminal_shows_a_bar(clock):
    stream = Terminal()
    line = shown(1500, stream, step=1498)
    for step, loss in ((1499, 6.0), (1500, 4.0)):
        clock[0] += 10.0
        line.on_step(step, sums(loss, 20.0), 1e-3, 1.0)
    line.close()
    last = stream.getvalue().split("\r")[-1]
    assert re.fullmatch(
        r"pretraining: 100%\|.*\| 1500/1500 \[.*step.*, 00:00 left, loss 4\.700, "
        r"masked LM 50\.0%, sentence order 75\.0%, 96 tokens/s\] *\n",
        last,
    )


def test_a_file_gets_a_line_at_intervals_and_at_the_end(clock):
    stream = io.StringIO()
    line = shown(400, stream)
    for step in range(1, 62):
        clock[0] += 1.0
        line.on_step(step, sums(float(step), 20.0, sentences=0.0), 1e-3, 1.0)
        if step == 40:
            line.on_evaluation(40, {"loss": 7.5, "masked_lm_loss": 7.5, "masked_lm_accuracy": 0.2})
    line.close()
    first, second, evaluation, third = stream.getvalue().splitlines()
    assert first.startswith("pretraining:   0% 1/400 [")
    assert first.endswith(", ? left, loss 1.000, masked LM 50.0%]")
    assert second.startswith("pretraining:   8% 31/400 [")
    assert second.endswith(" left, loss 16.500, masked LM 50.0%, 96 tokens/s]")  # mean of 2 to 31
    assert evaluation == "step 40, held out: loss 7.500, masked LM 20.0%"
    assert third.startswith("pretraining:  15% 61/400 [")
    assert third.endswith(" left, loss 46.500, masked LM 50.0%, 96 tokens/s]")


def test_the_last_steps_are_shown_at_the_end(clock):
    stream = io.StringIO()
    line = shown(3, stream)
    for step in (1, 2, 3):
        clock[0] += 1.0
        line.on_step(step, sums(float(step), 20.0), 1e-3, 1.0)
    line.close()
    assert [re.match(r".*% (\d)/3 ", each)[1] for each in stream.getvalue().splitlines()] == [
        "1",
        "3",
    ]
    assert "loss 3.200" in stream.getvalue()  # (2 + 3) / 2 + 0.7


def test_the_time_left_includes_evaluations(clock, monkeypatch):
    monkeypatch.setattr("tqdm.std.time", lambda: clock[0])
    stream = io.StringIO()
    line = shown(300, stream)
    for step in range(1, 132):
        clock[0] += 1.0
        line.on_step(step, sums(2.0, 20.0), 1e-3, 1.0)
        if step == 101:
            clock[0] += 100.0
            line.on_evaluation(step, {"loss": 7.5, "masked_lm_accuracy": 0.2})
    line.close()
    left = [re.search(r" (\d+):(\d\d) left", each) for each in stream.getvalue().splitlines()]
    minutes, seconds = map(int, left[-1].groups())
    assert 60 * minutes + seconds == pytest.approx(169 * 230 / 130, abs=1)  # mean of 2 to 131


def test_scores_of_a_task_have_their_names():
    scores = {"step": 3, "loss": 0.5, "accuracy": 0.75, "matthews": 0.12345}
    assert in_words(scores) == "loss 0.500, accuracy 75.0%, matthews 0.1235"
    assert in_words({ONE_CLASS: 1.0}) == "nearly all predictions alike"


class Stream(io.StringIO):
    """Tells when a line has been written."""

    def __init__(self, terminal=False):
        super().__init__()
        self.terminal, self.written = terminal, threading.Event()

    def isatty(self):
        return self.terminal

    def flush(self):
        self.written.set()


@pytest.fixture
def stream(monkeypatch):
    monkeypatch.setattr(progress, "SECONDS_A_LINE", 0.01)

    def use(**settings):
        made = Stream(**settings)
        monkeypatch.setattr("sys.stderr", made)
        return made

    return use


def test_a_line_now_and_then(stream):
    found = stream()
    with progress.heartbeat(embed):
        assert found.written.wait(60)
        progress.count("results")
        progress.count("results")
        found.written.clear()
        assert found.written.wait(60)
    assert found.getvalue().startswith("embed: 0 s\n")
    assert "embed: 0 s, 2 results\n" in found.getvalue()


@pytest.mark.parametrize(("command", "terminal"), [(embed, True), (pretrain, False)])
def test_terminals_and_progress_bars_need_none(stream, command, terminal):
    found = stream(terminal=terminal)
    with progress.heartbeat(command):
        assert not found.written.wait(0.1)
