import io
import re

from albert_tf.data.jobs import progress
from albert_tf.data.jobs.progress import Progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_terminal_shows_a_bar_with_counts_and_ends_it():
    stream = Terminal()
    with Progress(stream) as shown:
        shown.phase("reading", 5_000_000)
        shown.add({"advance": 2_000_000, "documents": 1200})
        shown.add({"advance": 3_000_000, "documents": 34})
    last = stream.getvalue().split("\r")[-1]
    assert re.fullmatch(
        r"reading: 100%\|.*\| 5.00M/5.00M \[.*B/s, 00:00 left, 1,234 documents\] *\n", last
    )


def test_elsewhere_it_is_a_line_now_and_then(monkeypatch):
    stream = io.StringIO()
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    with Progress(stream) as shown:
        shown.phase("writing", 800)
        for second in range(0, 100, 5):
            now[0] = float(second)
            shown.add({"advance": 10, "tokens": 300, "examples": 2})
        shown.phase("checking", 0)
    lines = stream.getvalue().splitlines()
    assert len(lines) == 3
    assert lines[1].startswith("writing:  16% 130/800 [")
    assert lines[1].endswith(" left, 26 examples, 3,900 tokens]")


def test_news_before_the_first_phase_and_after_the_last_are_nothing():
    stream = io.StringIO()
    with Progress(stream) as shown:
        shown.add({"advance": 1})
    shown.add({"advance": 1})
    assert stream.getvalue() == ""
