"""Maps `make_part` over the parts of a job in processes of this machine."""

import contextlib
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from multiprocessing.connection import wait as wait_for
from typing import Final

from albert_tf.data.jobs.job import Job, Part, PartReport, make_part
from albert_tf.errors import UserError
from albert_tf.options import cores
from albert_tf.progress import Progress

SECONDS: Final = 0.5  # Windows notices Ctrl-C only between two waits
_SHOWN: Final = ("documents", "tokens", "examples")

_job: Job  # in a worker process


def map_in_processes(
    job: Job, parts: Sequence[Part], progress: Progress, workers: int | None = None
) -> Iterator[PartReport]:
    """Makes parts in processes, or in this one if a single worker is enough.

    Args:
        workers: processes; default: all cores.
    Raises:
        UserError: a worker was killed, or as in `make_part`.
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


def _in_processes(job: Job, parts: Sequence[Part], workers: int) -> Iterator[PartReport]:
    context = multiprocessing.get_context("spawn")  # a fork would share threads' locks
    others = multiprocessing.active_children()
    executor = ProcessPoolExecutor(workers, context, _begin, (job,))
    todo, waiting = iter(parts), set[Future[PartReport]]()
    try:
        while True:
            for part in islice(todo, 2 * workers - len(waiting)):
                try:
                    with _sigint_deferred():  # starts a process if there are too few
                        waiting.add(executor.submit(_make, part))
                except OSError as error:
                    if error.errno is not None:
                        raise
                    raise BrokenProcessPool("its pipes are closed") from error  # meanwhile
            if not waiting:
                return
            ready, waiting = wait(waiting, SECONDS, FIRST_COMPLETED)
            yield from (future.result() for future in ready)
    except (BrokenProcessPool, BrokenPipeError) as error:
        raise UserError(
            "A worker process was killed, most often because the machine has no more memory. "
            f"Received: {workers} workers. Give the same command again with fewer --workers: it "
            "resumes."
        ) from error
    except BaseException:
        for process in multiprocessing.active_children():
            if process not in others:
                process.kill()  # a part may take minutes
        raise
    finally:
        executor.shutdown(cancel_futures=True)


@contextlib.contextmanager
def _sigint_deferred() -> Iterator[None]:
    """Defers SIGINT here until the end, and blocks it for good in processes started within.

    A terminal sends Ctrl-C to all of them. The parent ends its workers, which would otherwise print
    tracebacks, even before `_begin` runs in them (Windows can't block it there). Another thread of
    the parent may receive the signal, and its handler then runs here all the same: so the handler
    is replaced too.
    """
    received: list[int] = []
    is_main = threading.current_thread() is threading.main_thread()  # no other has handlers
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


def _begin(job: Job) -> None:
    """Starts a worker process."""
    global _job
    _job = job
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent gets it too, and kills us
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """Ends this process when its parent was killed: otherwise it waits for work forever."""
    wait_for([multiprocessing.parent_process().sentinel])  # type: ignore[union-attr]
    os._exit(1)


def _make(part: Part) -> PartReport:
    return make_part(_job, part)
