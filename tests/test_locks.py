import errno
import os
import subprocess
import sys
import threading

import pytest

from albert_tf.errors import UserError
from albert_tf.files import written_atomically
from albert_tf.locks import LOCK, locked

OWNER = """
import sys
from albert_tf.locks import locked
with locked(sys.argv[1]):
    print("locked", flush=True)
    sys.stdin.read()
"""
WRITER = """
import os, signal, sys
from albert_tf.files import written_atomically
replace = os.replace
def killed(source, target):
    replace(source, target)
    if sys.argv[2] in str(target): os.kill(os.getpid(), signal.SIGKILL)
os.replace = killed
with written_atomically(sys.argv[1], force=True) as path:
    path.mkdir()
    path.joinpath("new.txt").write_text("new")
    if sys.argv[2] == "inside": os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def owner(tmp_path):
    """Yields a process that has locked a folder."""
    with subprocess.Popen(
        [sys.executable, "-c", OWNER, tmp_path / "out"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        process.stdout.readline()
        yield process
        process.kill()


def test_a_second_run_is_told_of_the_first(tmp_path, owner):
    with (
        pytest.raises(
            UserError, match="one run .* Received: .*out, to which another run is writing"
        ),
        locked(tmp_path / "out"),
    ):
        pass
    assert os.listdir(tmp_path / "out") == [LOCK]


def test_the_lock_of_a_killed_process_is_taken_over(tmp_path, owner):
    owner.kill()
    owner.wait()
    assert os.listdir(tmp_path / "out") == [LOCK]
    with locked(tmp_path / "out"):
        assert os.listdir(tmp_path / "out") == [LOCK]
    assert not (tmp_path / "out").exists()


def test_a_waiting_run_is_next(tmp_path, owner):
    entered = threading.Event()

    def wait():
        with locked(tmp_path / "out", wait=True):
            entered.set()

    thread = threading.Thread(target=wait)
    thread.start()
    assert not entered.wait(0.05)
    owner.communicate("")  # ends the owner, who removes the folder
    thread.join()
    assert entered.is_set() and not (tmp_path / "out").exists()


@pytest.mark.posix
@pytest.mark.parametrize("code", [errno.ENOLCK, errno.ENOSYS])
def test_a_file_system_without_locks(tmp_path, monkeypatch, code):
    def refused(*_, **__):
        raise OSError(code, "No locks available")

    monkeypatch.setattr("fcntl.flock", refused)
    with locked(tmp_path / "out"), locked(tmp_path / "out"):
        (tmp_path / "out" / "a.txt").write_text("a")
    assert os.listdir(tmp_path / "out") == ["a.txt"]


def test_what_was_written_stays_and_the_lock_goes(tmp_path):
    with locked(tmp_path / "new" / "out"):
        (tmp_path / "new" / "out" / "a.txt").write_text("a")
    assert os.listdir(tmp_path / "new" / "out") == ["a.txt"]


@pytest.mark.posix
def test_a_link_is_not_followed(tmp_path):
    (tmp_path / "letter.txt").write_text("Dear all")
    (tmp_path / LOCK).symlink_to(tmp_path / "letter.txt")
    with pytest.raises(OSError, match="symbolic links"), locked(tmp_path):
        pass
    assert (tmp_path / "letter.txt").read_text() == "Dear all"


def test_a_file_is_not_a_folder(tmp_path):
    (tmp_path / "out").touch()
    with pytest.raises(UserError, match="must be a folder. Received: .*out, a file"):
        locked(tmp_path / "out").__enter__()


def test_one_writer_at_a_time(tmp_path):
    with written_atomically(tmp_path / "a.txt") as path:
        path.write_text("first")
        with (
            pytest.raises(UserError, match="one run .* Received: .*a.txt, to which another"),
            written_atomically(tmp_path / "a.txt", force=True, nowait=True),
        ):
            raise AssertionError("the block must not run")
    assert (tmp_path / "a.txt").read_text() == "first"
    assert os.listdir(tmp_path) == ["a.txt"]


@pytest.mark.posix
@pytest.mark.parametrize(
    ("moment", "then"), [("inside", "old"), (".replaced", "old"), ("/out", "new")]
)
def test_the_next_writer_mends_what_a_killed_one_left(tmp_path, moment, then):
    """Kills a writer before it sets the old folder aside, after that, and after the exchange."""
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "old.txt").write_text("old")
    subprocess.run([sys.executable, "-c", WRITER, tmp_path / "out", moment], check=False)
    assert (tmp_path / ".out.partial" / LOCK).exists()
    assert (tmp_path / "out").exists() == (moment != ".replaced")
    with (
        pytest.raises(UserError, match="must not exist yet"),
        written_atomically(tmp_path / "out"),
    ):
        pass
    assert os.listdir(tmp_path) == ["out"]
    assert os.listdir(tmp_path / "out") == [f"{then}.txt"]
