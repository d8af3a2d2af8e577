import ast
import contextlib
import errno
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from albert_tf.errors import UserError
from albert_tf.files import (
    LOCK,
    check_apart,
    locked,
    read_bytes,
    read_json,
    read_text,
    replace_files,
    require_same,
    write_json,
    written_atomically,
)


def test_a_file_and_a_folder_take_their_places(tmp_path):
    with written_atomically(tmp_path / "new" / "a.txt") as path:
        path.write_text("a")
        assert not (tmp_path / "new" / "a.txt").exists()
    with written_atomically(tmp_path / "new" / "folder") as path:
        path.mkdir()
        (path / "b.txt").write_text("b")
    assert sorted(entry.name for entry in (tmp_path / "new").iterdir()) == ["a.txt", "folder"]
    assert (tmp_path / "new" / "folder" / "b.txt").read_text() == "b"


def test_json_replaces_a_file(tmp_path):
    write_json(tmp_path / "a.json", {"b": 1})
    write_json(tmp_path / "a.json", {"b": "é", "a": 2}, sort_keys=True, ensure_ascii=False)
    assert (tmp_path / "a.json").read_text("utf-8") == '{\n  "a": 2,\n  "b": "é"\n}\n'
    with pytest.raises(TypeError, match="not JSON serializable"):
        write_json(tmp_path / "a.json", {"b": {1}})
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]


@pytest.mark.parametrize("interruption", [OSError("No space left on device"), KeyboardInterrupt()])
def test_an_interruption_leaves_the_earlier_output(tmp_path, interruption):
    target = tmp_path / "a.txt"
    target.write_text("old")
    with pytest.raises(type(interruption)), written_atomically(target, force=True) as path:
        path.write_text("half")
        raise interruption
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.txt"]
    assert target.read_text() == "old"


def test_a_folder_is_replaced_whole(tmp_path):
    target = tmp_path / "folder"
    target.mkdir()
    (target / "old.txt").write_text("old")
    with written_atomically(target, force=True) as path:
        path.mkdir()
        (path / "new.txt").write_text("new")
    assert [entry.name for entry in target.iterdir()] == ["new.txt"]
    assert [entry.name for entry in tmp_path.iterdir()] == ["folder"]


def test_an_existing_output_is_refused_and_an_empty_folder_is_not(tmp_path):
    (tmp_path / "a.txt").write_text("old")
    refused = pytest.raises(UserError, match="must not exist yet. Received: .*a.txt.*--force")
    with refused, written_atomically(tmp_path / "a.txt"):
        raise AssertionError("the block must not run")
    (tmp_path / "empty").mkdir()
    with written_atomically(tmp_path / "empty") as path:
        path.mkdir()
        (path / "a.txt").write_text("a")
    assert (tmp_path / "empty" / "a.txt").exists()


@pytest.mark.posix
def test_others_may_read_it(tmp_path):
    with written_atomically(tmp_path / "a.txt") as path:
        path.touch(mode=0o600)
    (tmp_path / "b.txt").touch()
    assert (tmp_path / "a.txt").stat().st_mode == (tmp_path / "b.txt").stat().st_mode


def test_a_block_that_writes_nothing_is_an_error(tmp_path):
    with (
        pytest.raises(FileNotFoundError, match="nothing"),
        written_atomically(tmp_path / "nothing"),
    ):
        pass
    assert not list(tmp_path.iterdir())


def test_a_file_never_replaces_a_folder(tmp_path):
    target = tmp_path / "folder"
    target.mkdir()
    (target / "old.txt").write_text("old")
    refused = pytest.raises(UserError, match="folder is a directory; --force replaces files only")
    with refused, written_atomically(target, force=True) as path:
        path.write_text("new")
    assert [entry.name for entry in target.iterdir()] == ["old.txt"]
    assert [entry.name for entry in tmp_path.iterdir()] == ["folder"]


def test_a_folder_replaces_a_file(tmp_path):
    (tmp_path / "a").write_text("old")
    with written_atomically(tmp_path / "a", force=True) as path:
        path.mkdir()
        (path / "new.txt").write_text("new")
    assert [entry.name for entry in (tmp_path / "a").iterdir()] == ["new.txt"]


def test_errors_name_the_given_path(tmp_path):
    failing = pytest.raises(FileNotFoundError, match="No such file")
    with failing as raised, written_atomically(tmp_path / "a") as path:
        (path / "inside" / "b.txt").write_text("b")
    assert raised.value.filename == str(tmp_path / "a" / "inside" / "b.txt")


@pytest.mark.parametrize("output", ["m", ".", "m/../m"])
def test_an_output_around_the_input_is_refused(tmp_path, output):
    (tmp_path / "m").mkdir()
    with pytest.raises(UserError, match="must not be the input's folder or one around it"):
        check_apart(tmp_path / "m", tmp_path / output)


@pytest.mark.parametrize("output", ["m/inside", "other", "m2"])
def test_an_output_apart_from_the_input(tmp_path, output):
    check_apart(tmp_path / "m", tmp_path / output)


def test_settings_that_differ_are_listed_with_both_values():
    then = {"seed": 1, "inputs": {"a": 5, "b": 6}, "examples": {"ngram": 3}, "same": [1]}
    now = {"seed": 2, "inputs": {"a": 7, "c": None}, "examples": {"ngram": 2}, "same": [1]}
    message = (
        "examples ngram was 3, is 2; inputs a was 5, is 7; inputs b was 6, is nothing; "
        "inputs c was nothing, is None; seed was 1, is 2. Resume with the same"
    )
    with pytest.raises(UserError, match=f"^out holds an .* settings: {message}"):
        require_same("out", then, now)
    require_same("out", then, then)
    many = {str(number): number for number in range(9)}
    with pytest.raises(UserError, match=r"0 was 0, is nothing; .* and 4 more. Resume"):
        require_same("out", many, {})


def write(content):
    return lambda path: path.write_bytes(content)


def test_a_failed_save_changes_nothing(tmp_path):
    replace_files(tmp_path, {"a.bin": write(b"old"), "b.bin": write(b"old")})
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}

    def full(path):
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(OSError, match="No space left on device: .*b.bin"):
        replace_files(tmp_path, {"a.bin": write(b"new"), "b.bin": full})
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_errors_of_no_file_and_of_the_temporary_one_name_the_output(tmp_path):
    path = tmp_path / "a.bin"
    with pytest.raises(OSError, match="No space left") as full, written_atomically(path):
        raise OSError(errno.ENOSPC, "No space left on device")
    assert full.value.filename == str(path)
    with pytest.raises(UserError, match=f"^{path} is damaged$"), written_atomically(path) as made:
        raise UserError(f"{made} is damaged")


@pytest.mark.posix
@pytest.mark.parametrize("kind", ["a pipe", "a socket", "a device"])
def test_only_regular_files_are_read(tmp_path, kind):
    """A pipe never ends, and neither does /dev/zero."""
    import socket

    path = tmp_path / "config.json"
    with contextlib.ExitStack() as stack:
        if kind == "a pipe":
            os.mkfifo(path)
        elif kind == "a device":
            path.symlink_to("/dev/zero")
        else:
            server = stack.enter_context(socket.socket(socket.AF_UNIX))
            server.bind(os.path.relpath(path))
        with pytest.raises((UserError, OSError), match="must be a regular one|No such device"):
            read_json(path)


@pytest.mark.posix
def test_a_link_to_a_regular_file_is_read(tmp_path):
    (tmp_path / "blob").write_text('{"a": "é"}', encoding="utf-8")
    (tmp_path / "config.json").symlink_to("blob")
    assert read_json(tmp_path / "config.json") == {"a": "é"}


def test_a_file_is_read_up_to_a_limit(tmp_path, monkeypatch):
    path = tmp_path / "a.json"
    path.write_bytes(b"12345")
    with monkeypatch.context() as patch:
        patch.setattr("albert_tf.files.LONGEST", 5)
        assert read_bytes(path) == b"12345"
        patch.setattr("albert_tf.files.LONGEST", 4)
        with pytest.raises(UserError, match=r"a\.json must have 4 bytes at most. Received more"):
            read_bytes(path)
    with path.open("wb") as file:
        file.truncate(2**40)  # sparse
    with pytest.raises(UserError, match="must have 67,108,864 bytes at most"):
        read_json(path)


@pytest.mark.posix
def test_a_pipe_that_the_user_typed(tmp_path):
    read, write = os.pipe()
    os.write(write, b"seed: 3\n")
    os.close(write)
    try:
        assert read_text(f"/dev/fd/{read}", pipes=True) == "seed: 3\n"
    finally:
        os.close(read)


def test_a_folder_in_the_place_of_a_file(tmp_path):
    with pytest.raises(IsADirectoryError, match=str(tmp_path)):
        read_bytes(tmp_path)
    with pytest.raises(FileNotFoundError, match="none.json"):
        read_json(tmp_path / "none.json")


ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.parametrize("package", ["albert_tf", "export"])
def test_texts_are_written_alike_on_every_system(package):
    """In UTF-8, with line ends of one character; a mode of `open` says whether it is text."""
    for path in sorted((ROOT / package).rglob("*.py")):
        for call in ast.walk(ast.parse(path.read_text("utf-8"))):
            if not isinstance(call, ast.Call):
                continue
            name = getattr(call.func, "attr", getattr(call.func, "id", None))
            modes = [each.value for each in call.args if isinstance(each, ast.Constant)]
            if name == "write_text" or (name == "open" and "w" in modes):
                given = {keyword.arg for keyword in call.keywords}
                is_null = "devnull" in ast.unparse(call)
                assert is_null or "newline" in given, f"{path}:{call.lineno}"
                assert "encoding" in given or len(call.args) > 1, f"{path}:{call.lineno}"


OWNER = """
import sys
from albert_tf.files import locked
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
