"""Runs a command with a fault, in its own process."""

import ctypes
import os
import resource
import signal
import sys
import threading
from typing import NamedTuple

from tqdm import tqdm

from albert_tf.cli import main

TOUCHES = {"open", "os.chmod", "os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.truncate"}
VERSION = 0x20080522  # of capget and capset
MODES_IGNORED = 0b110  # CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH, which root has


class Fault(NamedTuple):
    """A kind of fault in a run.

    Attributes:
        touch: number of the touch of a file in the folder at which the fault comes; 0: the start.
        limit: most bytes of a file from `touch` on; None: any, and it is killed at `touch`.
        cut: whether it is killed when a file grows beyond `limit`.
        obeys: whether root obeys the modes of files too.
    """

    touch: int = 0
    limit: int | None = None
    cut: bool = False
    obeys: bool = False


def run(arguments, folder, fault, output):
    """Runs a command in a folder, and prints the number of touches as the last line."""
    os.chdir(folder)
    for descriptor in (1, 2):
        os.dup2(output.fileno(), descriptor)
    output.close()
    tqdm.set_lock(threading.RLock())  # its own is a semaphore that a killed process would leave
    if fault.cut:
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)  # Python ignores it
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    touches = 0

    def count(event, arguments):
        """Counts touches of files in the folder, and triggers the fault at one of them."""
        nonlocal touches
        if event in TOUCHES and any(
            isinstance(each, str | os.PathLike) and os.path.abspath(each).startswith(str(folder))
            for each in arguments
        ):
            touches += 1
            if touches == fault.touch:
                _begin(fault)

    sys.addaudithook(count)
    if fault.obeys and os.geteuid() == 0:
        _obey_modes()
    if not fault.touch:
        _begin(fault)
    try:
        status = main(arguments)
    except SystemExit as end:
        status = end.code
    except BaseException:
        sys.excepthook(*sys.exc_info())
        status = 1
    print(f"\n{touches}", flush=True)
    os._exit(status)


def _begin(fault):
    if fault.limit is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (fault.limit, resource.RLIM_INFINITY))
    elif fault.touch:
        os.kill(os.getpid(), signal.SIGKILL)


def _obey_modes():
    libc = ctypes.CDLL(None)
    header, sets = (ctypes.c_uint32 * 2)(VERSION, 0), (ctypes.c_uint32 * 6)()
    libc.capget(header, sets)
    sets[0] &= ~MODES_IGNORED
    libc.capset(header, sets)
