"""Maps `make_part` over the parts of a job in processes on this machine.

Uses `ProcessPoolExecutor`, because `multiprocessing.Pool` would wait forever for a killed worker.
With `Pool` and with joblib's loky, busy workers would outlive a killed parent.
"""

import contextlib
import multiprocessing
import os
import pickle
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from multiprocessing.connection import wait as wait_for
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Final

from albert_tf.data.jobs.job import Job, Part, PartReport, make_part
from albert_tf.errors import UserError
from albert_tf.options import cores
from albert_tf.progress import Progress

SECONDS: Final = 0.5  # maximum wait, because Windows notices Ctrl-C only between waits
_SHOWN: Final = ("documents", "tokens", "examples")
_GUARD: Final = (
    'In a script, write if __name__ == "__main__": above the calls that start the work, and indent '
    "them; or pass workers=1."
)

_job: Job  # set only in worker processes


def map_in_processes(
    job: Job, parts: Sequence[Part], progress: Progress, workers: int | None = None
) -> Iterator[PartReport]:
    """Builds parts in worker processes, or in this process if there is a single worker.

    Args:
        workers: number of processes. Default: the number of cores.
    Raises:
        UserError: a worker was killed; see also `make_part`.
    """
    workers = min(workers or cores(), len(parts))
    sizes, done = {part.number: part.text_bytes for part in parts}, 0
    progress.start("building", sum(sizes.values()))
    one_by_one = (make_part(job, part) for part in parts)
    for report in one_by_one if workers == 1 else _in_processes(job, parts, workers):
        done += sizes[report.part]
        progress.add_counts({name: report.counts.get(name, 0) for name in _SHOWN})
        progress.update_to(done)
        yield report


def check_main() -> None:
    """Rejects a call while a worker imports the script that the user ran.

    Raises:
        UserError: the call isn't under `if __name__ == "__main__":`.
    """
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        raise UserError(
            f"Each worker process imports the script and would start the work again. {_GUARD}"
        )


def _in_processes(job: Job, parts: Sequence[Part], workers: int) -> Iterator[PartReport]:
    context = multiprocessing.get_context("spawn")  # a fork would copy locks that threads hold
    others, started = multiprocessing.active_children(), set[BaseProcess]()
    folder = tempfile.TemporaryDirectory(prefix="albert_tf-")
    # A job is larger than the buffer of a pipe. If a worker died before reading it, `submit` would
    # wait forever. The job is therefore passed in a file that only this user can read and write.
    file = Path(folder.name, "job")
    file.write_bytes(pickle.dumps(job))
    executor = ProcessPoolExecutor(workers, context, _begin, (file,))
    todo, waiting = iter(parts), set[Future[PartReport]]()
    try:
        while True:
            for part in islice(todo, 2 * workers - len(waiting)):
                try:
                    with _defer_sigint():  # submit starts a process if there are too few
                        waiting.add(executor.submit(_make, part))
                except OSError as error:
                    if error.errno is not None:
                        raise
                    raise BrokenProcessPool("its pipes were closed in the meantime") from error
                started.update(multiprocessing.active_children())
            if not waiting:
                return
            ready, waiting = wait(waiting, SECONDS, FIRST_COMPLETED)
            yield from (future.result() for future in ready)
    except (BrokenProcessPool, BrokenPipeError) as error:
        executor.shutdown(cancel_futures=True)  # reads the exit codes of all workers
        if any((process.exitcode or 0) > 0 for process in started.difference(others)):
            raise UserError(
                f"A worker process ended with an error when it started; see above. {_GUARD}"
            ) from error
        raise UserError(
            f"One of {workers} worker processes was killed, usually because the machine ran out "
            "of memory. To resume, run the same command with fewer --workers."
        ) from error
    except BaseException:
        for process in multiprocessing.active_children():
            if process not in others:
                process.kill()  # a part may take minutes
        raise
    finally:
        executor.shutdown(cancel_futures=True)
        folder.cleanup()


@contextlib.contextmanager
def _defer_sigint() -> Iterator[None]:
    """Defers SIGINT until the end of the block, and blocks it in processes started in the block.

    A terminal sends Ctrl-C to the parent and to all workers. The parent kills the workers. A worker
    that hasn't run `_begin` yet would print a traceback if the signal weren't blocked (Windows
    can't block it). The parent's handler is replaced as well. Otherwise, if another thread received
    the signal, Python would run the handler in this thread.
    """
    received: list[int] = []
    is_main = threading.current_thread() is threading.main_thread()  # others can't set handlers
    if is_main:
        handler = signal.signal(signal.SIGINT, lambda number, _: received.append(number))
    if sys.platform != "win32":
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        if sys.platform != "win32":
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        if is_main:
            signal.signal(signal.SIGINT, handler)
        if received:
            signal.raise_signal(signal.SIGINT)


def _begin(file: Path) -> None:
    """Initializes a worker process with the job in a file."""
    global _job
    _job = pickle.loads(file.read_bytes())
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent kills its workers
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """Ends this process if its parent is killed. Otherwise it would wait for work forever."""
    wait_for([multiprocessing.parent_process().sentinel])  # type: ignore[union-attr]
    os._exit(1)


def _make(part: Part) -> PartReport:
    return make_part(_job, part)
