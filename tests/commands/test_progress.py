import io
import threading

import pytest

from albert_tf.commands import embed, pretrain, progress


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
    with progress.signs_of_life(embed):
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
    with progress.signs_of_life(command):
        assert not found.written.wait(0.1)
