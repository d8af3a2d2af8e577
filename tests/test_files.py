import ast
import contextlib
import errno
import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from albert_tf.errors import UserError
from albert_tf.files import (
    LOCK,
    check_apart,
    check_own,
    locked,
    read_bytes,
    read_json,
    read_text,
    replace_files,
    require_same,
    user_path,
    write_json,
    written_atomically,
)


def write_files(folder, names):
    """Makes a folder with files, and with empty folders whose names end in a slash."""
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        if name.endswith("/"):
            (folder / name).mkdir()
        else:
            (folder / name).write_text("old")
    return folder


def test_a_file_and_a_folder_take_their_places(tmp_path):
    with written_atomically(tmp_path / "new" / "a.txt") as path:
        path.write_text("a")
        assert not (tmp_path / "new" / "a.txt").exists()
    (tmp_path / "new" / "folder").mkdir()  # empty
    with written_atomically(tmp_path / "new" / "folder", own=("b.txt",)) as path:
        path.mkdir()
        (path / "b.txt").write_text("b")
    assert sorted(os.listdir(tmp_path / "new")) == ["a.txt", "folder"]
    assert (tmp_path / "new" / "folder" / "b.txt").read_text() == "b"


def test_json_replaces_a_file(tmp_path):
    write_json(tmp_path / "a.json", {"b": 1})
    write_json(tmp_path / "a.json", {"b": "é", "a": 2}, sort_keys=True, ensure_ascii=False)
    assert (tmp_path / "a.json").read_text("utf-8") == '{\n  "a": 2,\n  "b": "é"\n}\n'
    with pytest.raises(TypeError, match="not JSON serializable"):
        write_json(tmp_path / "a.json", {"b": {1}})
    assert os.listdir(tmp_path) == ["a.json"]


@pytest.mark.parametrize("interruption", [OSError("No space left on device"), KeyboardInterrupt()])
def test_an_interruption_leaves_the_earlier_output(tmp_path, interruption):
    target = tmp_path / "a.txt"
    target.write_text("old")
    with pytest.raises(type(interruption)), written_atomically(target, force=True) as path:
        path.write_text("half")
        raise interruption
    assert os.listdir(tmp_path) == ["a.txt"]
    assert target.read_text() == "old"


OWN = ("main.bin", "*.txt", "logs/events.*", "step-[0-9]/a.txt")


def test_a_folder_replaces_an_earlier_one(tmp_path):
    target = write_files(tmp_path / "a", ["main.bin", "old.txt"])
    refused = pytest.raises(UserError, match="a already exists. .*force=True")
    with refused, written_atomically(target, own=OWN):
        raise AssertionError("the block must not run")
    with written_atomically(target, force=True, own=OWN) as path:
        path.mkdir()
        (path / "new.txt").write_text("new")
    assert os.listdir(target) == ["new.txt"]
    assert os.listdir(tmp_path) == ["a"]


@pytest.mark.posix
def test_a_link_to_a_folder_stays(tmp_path):
    (tmp_path / "link").symlink_to(write_files(tmp_path / "disk/a", ["main.bin"]))
    with written_atomically(tmp_path / "link", force=True, own=OWN) as path:
        path.mkdir()
        (path / "new.txt").write_text("new")
    assert (tmp_path / "link").is_symlink()
    assert os.listdir(tmp_path / "disk/a") == ["new.txt"]
    assert os.listdir(tmp_path / "disk") == ["a"]


def test_folders_that_can_not_be_replaced(tmp_path, monkeypatch):
    (tmp_path / "a/b").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "a/b")
    mount = tmp_path / "mount"
    mount.mkdir()
    monkeypatch.setattr(os.path, "ismount", lambda path: path == mount)
    for target, kind in ((".", "current folder"), ("..", "current folder"), (mount, "mount point")):
        advice = re.escape(f"such as {Path(target, 'model')}")
        refused = pytest.raises(UserError, match=f"{kind}.*Received: .*{advice}")
        with refused, written_atomically(target, force=True, own=OWN):
            raise AssertionError("the block must not run")
    assert os.listdir(tmp_path / "a") == ["b"]
    assert os.listdir("..") == ["b"]


def test_files_and_folders_do_not_replace_each_other(tmp_path):
    folder = write_files(tmp_path / "folder", ["old.txt"])
    for target, own, message in (
        (folder, (), "folder is a directory; force=True replaces only files"),
        (folder / "old.txt", OWN, "must be a folder. Received: .*old.txt, a file"),
    ):
        for force in (False, True):
            refused = pytest.raises(UserError, match=message)
            with refused, written_atomically(target, force=force, own=own):
                raise AssertionError("the block must not run")
    assert (folder / "old.txt").read_text() == "old"


@pytest.mark.parametrize(
    ("names", "foreign"),
    [
        (["main.bin", "a.txt", "logs/events.1", "step-1/a.txt"], None),
        (["main.bin", ".lock", ".a.txt.partial/.lock", ".logs.removed/events.1"], None),
        ([".main.bin.partial/main.bin", "empty/"], None),  # of a process that was killed
        (["main.bin", "diary.md"], "diary.md"),
        (["main.bin", ".DS_Store"], ".DS_Store"),
        (["main.bin", "logs/events.1", "logs/diary.txt"], "logs/diary.txt"),
        (["main.bin", "step-1/logs/events.1"], "step-1/logs/events.1"),
        (["1/main.bin", "2/main.bin"], "1/main.bin"),  # the version was forgotten
        (["a.txt"], "a.txt"),  # has a usual name, and nothing else speaks for it
        (["a.txt", "diary.md"], "diary.md"),
    ],
)
def test_only_an_earlier_output_of_the_same_kind_is_replaced(tmp_path, names, foreign):
    folder = write_files(tmp_path / "out", names)
    refused = pytest.raises(UserError, match=f"out contains {re.escape(str(foreign))}, which is")
    with refused if foreign else contextlib.nullcontext():
        check_own(folder, OWN)


@pytest.mark.posix
def test_links_are_foreign(tmp_path):
    elsewhere = write_files(tmp_path / "elsewhere", ["diary.md"])
    folder = write_files(tmp_path / "out", ["main.bin"])
    (tmp_path / "link").symlink_to(folder)
    check_own(tmp_path / "link", OWN)
    for name, target in (("a.txt", elsewhere / "diary.md"), ("logs", elsewhere)):
        (folder / name).symlink_to(target)
        with pytest.raises(UserError, match=f"out contains {name}, which is not part"):
            check_own(folder, OWN)
        (folder / name).unlink()


def test_home_folders(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))  # of Windows
    assert user_path("~/a") == tmp_path / "a"
    assert user_path("a/~b") == Path("a/~b")
    monkeypatch.chdir(tmp_path)
    assert user_path(user_path("./~b")) == tmp_path / "~b"
    with pytest.raises(UserError, match="There is no user ~no-such-user. Received: .*/a"):
        user_path("~no-such-user/a")


@pytest.mark.posix
def test_a_path_that_the_file_system_can_not_store(tmp_path):
    assert user_path("a\udcff") == Path("a\udcff")  # a byte that isn't UTF-8
    with pytest.raises(UserError, match=r"can't store the name '.*\\ud800'"):
        write_json(f"{tmp_path}/\ud800", {})


@pytest.mark.posix
def test_others_may_read_it(tmp_path):
    with written_atomically(tmp_path / "a.txt") as path:
        path.touch(mode=0o600)
    (tmp_path / "b.txt").touch()
    assert (tmp_path / "a.txt").stat().st_mode == (tmp_path / "b.txt").stat().st_mode


def test_errors_name_the_given_path(tmp_path):
    target = tmp_path / "a"
    missing = pytest.raises(FileNotFoundError, match="No such file")
    with missing as raised, written_atomically(target) as path:
        (path / "inside" / "b.txt").write_text("b")
    assert raised.value.filename == str(target / "inside" / "b.txt")
    with pytest.raises(OSError, match="No space left") as full, written_atomically(target):
        raise OSError(errno.ENOSPC, "No space left on device")
    assert full.value.filename == str(target)
    with pytest.raises(OSError, match="No space") as full, written_atomically(target) as path:
        raise OSError(errno.ENOSPC, "No space left on device", "source", None, str(path / "copy"))
    assert full.value.filename == str(target / "copy")
    with (
        pytest.raises(UserError, match=f"^{target} is damaged$"),
        written_atomically(target) as path,
    ):
        raise UserError(f"{path} is damaged")
    with pytest.raises(FileNotFoundError, match=target.name), written_atomically(target):
        pass  # writes nothing
    assert os.listdir(tmp_path) == []


def test_a_failed_save_changes_nothing(tmp_path):
    replace_files(tmp_path, dict.fromkeys(("a.bin", "b.bin"), lambda path: path.write_text("old")))

    def full(path):
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(OSError, match="No space left on device: .*b.bin"):
        replace_files(tmp_path, {"a.bin": Path.touch, "b.bin": full})
    found = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert found == {"a.bin": "old", "b.bin": "old"}


def test_an_output_around_the_input_is_refused(tmp_path):
    for output in ("m", ".", "m/../m"):
        with pytest.raises(UserError, match="would replace the input"):
            check_apart(tmp_path / "m", tmp_path / output)
    for output in ("m/inside", "other", "m2"):
        check_apart(tmp_path / "m", tmp_path / output)


def test_settings_that_differ_are_listed_with_both_values():
    then = {"seed": 1, "inputs": {"a": 5, "b": 6}, "examples": {"ngram": 3}, "same": [1]}
    now = {"seed": 2, "inputs": {"a": 7, "c": None}, "examples": {"ngram": 2}, "same": [1]}
    message = (
        "examples ngram was 3, is 2; inputs a was 5, is 7; inputs b was 6, is nothing; "
        "inputs c was nothing, is None; seed was 1, is 2. To resume, use the same"
    )
    with pytest.raises(UserError, match=f"^out contains .* settings: {message}"):
        require_same("out", then, now)
    require_same("out", then, then)
    many = {str(number): number for number in range(9)}
    with pytest.raises(UserError, match=r"0 was 0, is nothing; .* and 4 more. To resume"):
        require_same("out", many, {})


@pytest.mark.posix
def test_only_regular_files_are_read(tmp_path):
    """A pipe never ends, and neither does /dev/zero. A link leads to a file."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "device").symlink_to("/dev/zero")
    for name in ("pipe", "device"):
        with pytest.raises(UserError, match=f"{name} is a {name}, not a regular file"):
            read_json(tmp_path / name)
    (tmp_path / "blob").write_text('\ufeff{"a": "é"}', encoding="utf-8")
    (tmp_path / "config.json").symlink_to("blob")
    assert read_json(tmp_path / "config.json") == {"a": "é"}


def test_a_file_is_read_up_to_a_limit(tmp_path, monkeypatch):
    path = tmp_path / "a.json"
    with path.open("wb") as file:
        file.truncate(2**40)  # sparse
    with pytest.raises(UserError, match="a.json must not be larger than 67,108,864 bytes"):
        read_json(path)
    path.write_bytes(b"12345")
    monkeypatch.setattr("albert_tf.files.MAX_BYTES", 5)
    assert read_bytes(path) == b"12345"
    monkeypatch.setattr("albert_tf.files.MAX_BYTES", 4)
    with pytest.raises(UserError, match="a.json must not be larger than 4 bytes"):
        read_bytes(path)


@pytest.mark.parametrize("content", ["{", "[]", '{"id2label": ' + "[" * 100_000])
def test_files_without_a_json_object(tmp_path, content):
    (tmp_path / "a.json").write_text(content)
    with pytest.raises(UserError, match="a.json must contain a JSON object: "):
        read_json(tmp_path / "a.json")


@pytest.mark.posix
def test_a_pipe_that_the_user_typed(tmp_path):
    read, write = os.pipe()
    os.write(write, b"seed: 3\n")
    os.close(write)
    try:
        assert read_text(f"/dev/fd/{read}", pipes=True) == "seed: 3\n"
    finally:
        os.close(read)


ROOT = Path(__file__).resolve().parents[1]


def test_texts_are_written_alike_on_every_system():
    """In UTF-8, with line ends of one character; a mode of `open` says whether it is text."""
    for path in [*(ROOT / "albert_tf").rglob("*.py"), *(ROOT / "export").rglob("*.py")]:
        text = path.read_text("utf-8")
        is_writer = "write_text" in text or "open(" in text
        for call in ast.walk(ast.parse(text)) if is_writer else ():
            if not isinstance(call, ast.Call):
                continue
            name = getattr(call.func, "attr", getattr(call.func, "id", None))
            modes = [each.value for each in call.args if isinstance(each, ast.Constant)]
            is_text = name == "write_text" or (name == "open" and "w" in modes)
            if is_text and "devnull" not in ast.unparse(call):
                given = {keyword.arg for keyword in call.keywords}
                given |= {"encoding"} if "utf-8" in modes else set()
                assert given >= {"newline", "encoding"}, f"{path}:{call.lineno}"


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
with written_atomically(sys.argv[1], force=True, own=("*.txt",)) as path:
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


def test_the_lock_of_a_killed_process_is_taken_over(tmp_path, owner):
    refused = pytest.raises(UserError, match="Another run is writing to .*out")
    with refused, locked(tmp_path / "out"):
        pass
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
    with locked(tmp_path / "new" / "out"), locked(tmp_path / "new" / "out"):
        (tmp_path / "new" / "out" / "a.txt").write_text("a")
    assert os.listdir(tmp_path / "new" / "out") == ["a.txt"]


@pytest.mark.posix
def test_a_link_is_not_followed(tmp_path):
    (tmp_path / "letter.txt").write_text("Dear all")
    (tmp_path / LOCK).symlink_to(tmp_path / "letter.txt")
    with pytest.raises(OSError, match="symbolic links"), locked(tmp_path):
        pass
    assert (tmp_path / "letter.txt").read_text() == "Dear all"


@pytest.mark.parametrize("what", ["os.mkdir", "filelock.FileLock.acquire"])
def test_a_folder_that_can_not_be_created(tmp_path, monkeypatch, what):
    """For example on a missing drive, or in a working directory that was deleted."""
    tries = iter(range(1000))

    def missing(*_, **__):
        next(tries)  # ends a loop without an end
        raise FileNotFoundError(errno.ENOENT, "No such file or directory", "/drive")

    monkeypatch.setattr(what, missing)
    with pytest.raises(FileNotFoundError, match="No such file .*out"), locked(tmp_path / "out"):
        pass


def test_a_file_is_not_a_folder(tmp_path):
    (tmp_path / "out").touch()
    with pytest.raises(UserError, match="must be a folder. Received: .*out, a file"):
        locked(tmp_path / "out").__enter__()


def test_one_writer_at_a_time(tmp_path):
    with written_atomically(tmp_path / "a.txt") as path:
        path.write_text("first")
        refused = pytest.raises(UserError, match="Another run is writing to .*a.txt")
        with refused, written_atomically(tmp_path / "a.txt", force=True, nowait=True):
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
    refused = pytest.raises(UserError, match="already exists")
    with refused, written_atomically(tmp_path / "out", own=("*.txt",)):
        pass
    assert os.listdir(tmp_path) == ["out"]
    assert os.listdir(tmp_path / "out") == [f"{then}.txt"]
