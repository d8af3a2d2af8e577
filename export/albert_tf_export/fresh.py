"""Runs an export in a fresh process, without this package, just as it runs elsewhere."""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from typing import Any, Final

from albert_tf.runtimes import run as runtimes
from albert_tf_export.report import ParityError

# Imports the packages and the file, then calls the file's `main` with each line of arguments until
# a line is empty.
_PROGRAM: Final = """
import importlib.util, json, os, queue, sys, threading

def read():
    for line in open(0, "rb", buffering=0):
        lines.put(json.loads(line))
    os._exit(1)  # stdin closes when the parent process ends, even after `kill -9`.

lines = queue.SimpleQueue()
threading.Thread(target=read, daemon=True).start()
_, file, *packages = sys.argv
del sys.path[0]  # the current folder
for package in packages:
    importlib.import_module(package)
spec = importlib.util.spec_from_file_location("fresh", file)
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
while arguments := lines.get():
    module.main(*arguments)
"""


class FreshProcess:
    """Calls the `main` function of a file in a new process, which ends when this process ends.

    The process imports its packages immediately, which takes seconds for TensorFlow, and then waits
    for `run`. The export can be written in the meantime.
    """

    def __init__(self, *packages: str, file: str = runtimes.__file__):
        self.errors = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115
        self.process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, file, *packages],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=self.errors,
            encoding="utf-8",
            env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2", "PYTHONIOENCODING": "utf-8"},
        )

    def __enter__(self) -> "FreshProcess":
        return self

    def __exit__(self, *_: object) -> None:
        with self.errors, contextlib.suppress(OSError), self.process:
            self.process.kill()  # ends the process instead of waiting

    def run(self, *arguments: Any) -> None:
        """Calls `main` in the process with these arguments; without arguments, ends the process."""
        with contextlib.suppress(OSError):  # If the process has already ended, `wait` reports it.
            print(json.dumps(arguments, default=str), file=self.process.stdin, flush=True)

    def wait(self) -> None:
        """Waits until all calls have returned.

        Raises:
            ParityError: if a call failed.
            KeyboardInterrupt: if Ctrl-C ended the process. A terminal sends it to this process too,
                but Python drops the exception if it is raised in a destructor, such as those that
                run after a conversion.
        """
        self.run()
        if status := self.process.wait():
            self.errors.seek(0)
            reason = (self.errors.read().strip() or f"status {status}").splitlines()[-1]
            if reason == "KeyboardInterrupt":
                raise KeyboardInterrupt
            raise ParityError(f"The export failed to run in a fresh process: {reason}")
