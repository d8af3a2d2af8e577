import io
import re

import pytest

from albert_tf.data.jobs import progress
from albert_tf.data.jobs.progress import Progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture(autouse=True)
def wide(monkeypatch):
    """Makes the terminal wide: older versions of tqdm cut its lines."""
    monkeypatch.setenv("COLUMNS", "200")


def test_a_terminal_shows_a_bar_with_counts_and_ends_it():
    stream = Terminal()
    with Progress(stream) as shown:
        shown.phase("building", 5_000_000)
        shown.count({"documents": 1200})
        shown.at(2_000_000)
        shown.count({"documents": 34})
        shown.at(5_000_000)
    last = stream.getvalue().split("\r")[-1]
    assert re.fullmatch(
        r"building: 100%\|.*\| 5.00M/5.00M \[.*B/s, 00:00 left, 1,234 documents\] *\n", last
    )


def test_a_file_gets_a_line_every_half_minute(monkeypatch):
    stream = io.StringIO()
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    with Progress(stream) as shown:
        shown.phase("building", 800)
        for second in range(0, 100, 5):
            now[0] = float(second)
            shown.count({"tokens": 300, "examples": 2})
            shown.at(2 * (second + 5))
        shown.phase("checking", 0)
    lines = stream.getvalue().splitlines()
    assert len(lines) == 3
    assert lines[1].startswith("building:  16% 130/800 [")
    assert lines[1].endswith(" left, 26 examples, 3,900 tokens]")
