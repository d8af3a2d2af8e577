"""Processes that work for one job: none outlives it, and one that is killed is noticed."""

import contextlib
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.connection import Connection
from typing import Any, Final, TypeVar

from albert_tf.data.jobs.job import Job
from albert_tf.errors import UserError

Tell = Callable[[Mapping[str, int]], None]
Task = TypeVar("Task")
Result = TypeVar("Result")

WAITING: Final = 2  # tasks of each process that are handed out ahead

_job: Job  # in a worker process: what `_begin` was given
_teller: Connection


class Workers:
    """Runs functions of (job, task, tell), in this process or in others.

    Args:
        executor: whose processes began with `_begin`; None for this process.
    """

    def __init__(self, job: Job, tell: Tell, count: int, executor: ProcessPoolExecutor | None):
        self._job, self._tell, self._count, self._executor = job, tell, count, executor

    def map(
        self, function: Callable[[Job, Task, Tell], Result], tasks: Iterable[Task]
    ) -> Iterator[Result]:
        """The results, in the order in which they are ready.

        Raises:
            UserError: a process was killed.
        """
        if self._executor is None:
            for task in tasks:
                yield function(self._job, task, self._tell)
            return
        pending: set[Future[Result]] = set()
        try:
            for task in tasks:
                pending.add(_submit(self._executor, function, task))
                if len(pending) >= self._count * WAITING:
                    done, pending = wait(pending, return_when=FIRST_COMPLETED)
                    yield from (future.result() for future in done)
            while pending:
                done, pending = wait(pending, return_when=FIRST_COMPLETED)
                yield from (future.result() for future in done)
        except (BrokenProcessPool, BrokenPipeError) as error:
            raise UserError(
                "A process of the job was ended from outside, most often because the machine has "
                f"no more memory. Received: {self._count} processes. What is finished is kept: "
                "go on by the same command, with fewer --workers."
            ) from error


@contextlib.contextmanager
def started(job: Job, count: int, tell: Tell) -> Iterator[Workers]:
    """Workers that end with the block, and at once if it raises or this process is killed.

    Args:
        count: processes; one is this one.
        tell: hears, from a thread, what the functions tell.
    """
    if count == 1:
        yield Workers(job, tell, count, None)
        return
    context = multiprocessing.get_context("spawn")  # a fork would share threads' locks
    lifeline, life = context.Pipe(duplex=False)
    news, teller = context.Pipe(duplex=False)
    executor = ProcessPoolExecutor(count, context, _begin, (job, lifeline, teller))
    listener = threading.Thread(target=_listen, args=(news, tell), daemon=True)
    listener.start()
    try:
        yield Workers(job, tell, count, executor)
    except BaseException:
        life.close()
        raise
    finally:
        executor.shutdown(cancel_futures=True)
        life.close()
        teller.close()
        listener.join()


def _submit(executor: ProcessPoolExecutor, function: Callable[..., Any], task: Any) -> Future[Any]:
    """Hands a task out; a process that this starts never hears of Ctrl-C, which is for us."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        return executor.submit(_do, function, task)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _begin(job: Job, lifeline: Connection, teller: Connection) -> None:
    """What a process does first."""
    global _job, _teller
    _job, _teller = job, teller
    threading.Thread(target=_end_with, args=(lifeline,), daemon=True).start()


def _end_with(lifeline: Connection) -> None:
    """Ends this process when the other end of the line closes, be it by the death of its holder."""
    lifeline.poll(None)
    os._exit(1)


def _do(function: Callable[[Job, Any, Tell], Result], task: Any) -> Result:
    return function(_job, task, _teller.send)


def _listen(news: Connection, tell: Tell) -> None:
    # Many processes write to one pipe: what is shorter than PIPE_BUF, 4096 bytes, arrives whole.
    with contextlib.suppress(EOFError, OSError):
        while True:
            tell(news.recv())
