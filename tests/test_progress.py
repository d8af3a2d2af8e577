import io
import re
import threading

import pytest

from albert_tf import progress
from albert_tf.cli import embed, pretrain
from albert_tf.data.tasks.classification import ONE_CLASS
from albert_tf.progress import Progress, in_words


class Stream(io.StringIO):
    """A stream that is a terminal or not, and says when a line has been written."""

    def __init__(self, terminal=False):
        super().__init__()
        self.terminal, self.written = terminal, threading.Event()

    def isatty(self):
        return self.terminal

    def flush(self):
        self.written.set()


def test_a_terminal_shows_a_bar_with_counts_and_ends_it(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")  # older versions of tqdm cut lines
    stream = Stream(terminal=True)
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
    stream = Stream()
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


def test_scores_of_a_task_have_their_names():
    scores = {"step": 3, "loss": 0.5, "accuracy": 0.75, "matthews": 0.12345}
    assert in_words(scores) == "loss 0.500, accuracy 75.0%, matthews 0.1235"
    assert in_words({ONE_CLASS: 1.0}) == "nearly all predictions are the same"


def test_a_line_now_and_then(monkeypatch):
    stream = Stream()
    monkeypatch.setattr(progress, "SECONDS_A_LINE", 0.01)
    monkeypatch.setattr("sys.stderr", stream)
    with progress.heartbeat(embed):
        assert stream.written.wait(60)
        progress.count("results")
        progress.count("results")
        stream.written.clear()
        assert stream.written.wait(60)
    assert stream.getvalue().startswith("embed: 0 s\n")
    assert "embed: 0 s, 2 results\n" in stream.getvalue()


@pytest.mark.parametrize(("command", "terminal"), [(embed, True), (pretrain, False)])
def test_terminals_and_progress_bars_need_none(monkeypatch, command, terminal):
    stream = Stream(terminal)
    monkeypatch.setattr(progress, "SECONDS_A_LINE", 0.01)
    monkeypatch.setattr("sys.stderr", stream)
    with progress.heartbeat(command):
        assert not stream.written.wait(0.1)
