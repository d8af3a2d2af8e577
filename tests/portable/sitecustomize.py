"""Takes from each Python process of `make test-portable` what Windows lacks.

It stays this system in all else: passing there is no test on Windows.

tensorflow-text can't be imported. Our packages can't import modules of POSIX alone (other packages
have code of their own for Windows), make links, rename or remove a file that is open or mapped in
this process, or read or write text without naming its encoding.
"""

import builtins
import os
import re
import sys
import warnings
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
OURS = (f"{ROOT}/albert_tf/", f"{ROOT}/export/")
POSIX = ("fcntl", "grp", "pwd", "resource", "termios")
LIBRARY = os.path.dirname(os.__file__)

sys.modules["tensorflow_text"] = None
warnings.filterwarnings("ignore", category=EncodingWarning)
warnings.filterwarnings("error", category=EncodingWarning, module="albert_tf")
imported = builtins.__import__


def without_posix(name, globals=None, *rest, **keywords):
    if name in POSIX and str((globals or {}).get("__file__", "")).startswith(OURS):
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)
    return imported(name, globals, *rest, **keywords)


def is_ours():
    """Returns whether one of our functions called, through the standard library or not."""
    frame = sys._getframe(2)
    while frame:
        name = frame.f_code.co_filename
        if name.startswith(f"{LIBRARY}/multiprocessing/"):  # its shared memory is a file here alone
            return False
        in_library = name.startswith(LIBRARY) and "site-packages" not in name
        if not in_library and not name.startswith(("<frozen", __file__)):
            return name.startswith(OURS)
        frame = frame.f_back
    return False


def open_files():
    """Yields the paths of files that this process has open or mapped, one maybe several times."""
    for descriptor in os.listdir("/proc/self/fd"):
        try:
            yield os.readlink(f"/proc/self/fd/{descriptor}")
        except FileNotFoundError:  # of the listing itself
            continue
    yield from re.findall(r"(?m) (/.+)$", Path("/proc/self/maps").read_text("utf-8"))


def refuse_open_files(event, arguments):
    if event not in ("os.rename", "os.remove", "os.symlink") or not is_ours():
        return
    if event == "os.symlink":
        raise OSError("A required privilege is not held by the client")
    # A rename's are its paths, then the folders that they are relative to; a removal has one.
    count = 2 if event == "os.rename" else 1
    for path, folder in zip(arguments[:count], arguments[count:], strict=True):
        base = os.getcwd() if folder < 0 else os.readlink(f"/proc/self/fd/{folder}")
        path = os.path.join(base, os.fsdecode(path))
        for file in open_files():
            if file == path or (file.startswith(f"{path}/") and os.path.isfile(file)):
                raise PermissionError(13, "The file is used by this process", path)


builtins.__import__ = without_posix
sys.addaudithook(refuse_open_files)
