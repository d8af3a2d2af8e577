"""Shows that the tests find faults: each patch in this folder, applied alone, must fail a test.

A test that takes longer than `LIMIT` counts as failed.

    python tests/mutants MARKERS [NAME … | --random COUNT]

The first line of a patch names its tests, as arguments of pytest: `# tests: tests/text -k pairs`.
With `--random`, the faults are drawn (draw.py) and those that no test finds are printed; some of
them change nothing that a user could notice.
They run in a copy of the sources, with pytest's MARKERS, up to the first failure. Errors, with exit
status 1: a patch that doesn't apply, one that no test finds, and a test that fails without its
patch too.
"""

import importlib.util
import multiprocessing
import multiprocessing.connection
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final, NamedTuple

from draw import draw

HERE: Final = Path(__file__).resolve().parent
ROOT: Final = HERE.parents[1]
AT_ONCE: Final = 2  # processes; each has TensorFlow's memory
LIMIT: Final = 300  # seconds of a test; a fault can make it wait forever, for example for a pipe
NAMES_TESTS: Final = "# tests: "
IGNORED: Final = shutil.ignore_patterns(".git", ".venv*", ".*_cache", "build", "dist", "*.egg-info")


class Result(NamedTuple):
    """The first test that failed, or what went wrong."""

    failed: str = ""
    error: str = ""


class FirstFailure:
    """A plugin of pytest's that notes the first test that fails, or ends one after `LIMIT`."""

    test = ""

    def __init__(self, pipe):
        self.pipe = pipe

    def pytest_runtest_logstart(self, nodeid):
        signal.signal(signal.SIGALRM, lambda *_: self.end(nodeid))
        signal.alarm(LIMIT)

    def end(self, test):
        self.pipe.send(Result(failed=test))
        os._exit(1)

    def pytest_runtest_logreport(self, report):
        if report.failed and not self.test:
            self.test = report.nodeid


def run_tests(tests, markers, patch, pipe):
    """Sends the result of the tests in a patched copy; with `patch` None in an unpatched one."""
    import pytest

    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "copy"
        shutil.copytree(ROOT, copy, ignore=IGNORED)  # with compiled modules and their times
        os.chdir(copy)
        if patch and subprocess.run(["git", "apply", patch]).returncode:
            pipe.send(Result(error="the patch doesn't apply"))
            return
        paths = [str(copy), str(copy / "export")]
        sys.path[:0] = paths
        os.environ["PYTHONPATH"] = os.pathsep.join(paths)  # of processes that tests start
        first = FirstFailure(pipe)
        options = ["-q", "-x", "-p", "no:cacheprovider", "--tb=short", "-m", markers]
        log = os.open("log", os.O_WRONLY | os.O_CREAT)
        os.dup2(log, 1)
        os.dup2(log, 2)
        code = pytest.main([*options, *tests], plugins=[first])
        ours = Path(importlib.util.find_spec("albert_tf").origin)
        if not ours.is_relative_to(copy):
            pipe.send(Result(error=f"the tests imported {ours}"))
        elif code in (0, 1):
            pipe.send(Result(failed=first.test))
        else:
            sys.stdout.flush()
            pipe.send(Result(error=f"pytest's status {code}: {Path('log').read_text()[-2000:]}"))


def start(tests, markers, patch=None):
    """Starts tests in a fork, which has TensorFlow imported; returns the pipe with the result."""
    context = multiprocessing.get_context("fork")
    receive, send = context.Pipe(duplex=False)
    context.Process(target=run_tests, args=(tests, markers, patch, send)).start()
    send.close()
    return receive


def result_of(pipe):
    try:
        return pipe.recv()
    except EOFError:
        return Result(error="the process ended")


def main(markers, *names):
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    import keras  # noqa: F401  (once for all forks)

    scratch = tempfile.TemporaryDirectory()  # until the process ends
    if names[:1] == ("--random",):
        seed = os.environ.get("ALBERT_TF_SEED", "0")
        waiting = draw(ROOT, int(names[1]), seed, Path(scratch.name))
    else:
        patches = sorted(HERE.glob("*.patch"))
        waiting = [patch for patch in patches if not names or patch.stem in names]
    texts = {patch.stem: patch.read_text("utf-8") for patch in waiting}
    running, found, missed = {}, [], []
    while waiting or running:
        while waiting and len(running) < AT_ONCE:
            patch = waiting.pop(0)
            first = texts[patch.stem].partition("\n")[0]
            pipe = start(first.removeprefix(NAMES_TESTS).split(), markers, patch)
            running[pipe] = patch.stem, time.monotonic()
        for pipe in multiprocessing.connection.wait(running):
            name, begun = running.pop(pipe)
            failed, error = result_of(pipe)
            seconds = time.monotonic() - begun
            print(f"{seconds:4.0f} s  {name}: {failed or f'NOT FOUND {error}'}", flush=True)
            (found if failed else missed).append(failed or name)
            if names[:1] == ("--random",) and not failed:
                print(texts[name].partition("\n")[2], flush=True)
    unpatched = result_of(start(sorted(set(found)), "")) if found else Result()
    print(f"Without a patch: {unpatched.failed or unpatched.error or 'all of these tests pass'}")
    print(f"{len(found)} of {len(found) + len(missed)} faults found.", *missed)
    return bool(missed or unpatched.failed or unpatched.error)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
