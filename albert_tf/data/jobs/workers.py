"""Processes that work for one job: none outlives it, and one that is killed is noticed."""

import contextlib
import functools
import multiprocessing
import os
import pickle
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.connection import Connection
from pathlib import Path
from types import FrameType
from typing import Any, Final, TypeVar

from albert_tf.data.jobs.job import Job
from albert_tf.errors import UserError

Tell = Callable[[Mapping[str, int]], None]
Task = TypeVar("Task")
Result = TypeVar("Result")

WAITING: Final = 2  # tasks of each process that are handed out ahead
SECONDS_TO_LISTEN: Final = 5.0  # for news that are on their way when all is done

_path: Path  # in a worker process: what `_begin` was given
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
        except BrokenProcessPool as error:
            raise UserError(
                "A process of the job was ended from outside, most often because the machine has "
                f"no more memory. Received: {self._count} processes. What is finished is kept: "
                "go on by the same command, with fewer --workers."
            ) from error


@contextlib.contextmanager
def started(job: Job, folder: Path, count: int, tell: Tell) -> Iterator[Workers]:
    """Workers that end with the block, and at once if it raises or this process is killed.

    Args:
        folder: where the job is left for the processes to read.
        count: processes; one is this one.
        tell: hears, from a thread, what the functions tell.
    """
    if count == 1:
        yield Workers(job, tell, count, None)
        return
    # What a process is started with must fit into a pipe: if it dies before it reads all of that,
    # Python waits for ever to write the rest.
    path = folder / "job.pickle"
    path.write_bytes(pickle.dumps(job))
    context = multiprocessing.get_context("spawn")  # a fork would share threads' locks
    lifeline, life = context.Pipe(duplex=False)
    news, teller = context.Pipe(duplex=False)
    executor = ProcessPoolExecutor(count, context, _begin, (path, lifeline, teller))
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
        listener.join(SECONDS_TO_LISTEN)


def _submit(executor: ProcessPoolExecutor, function: Callable[..., Any], task: Any) -> Future[Any]:
    with undisturbed():
        try:
            return executor.submit(_do, function, task)
        except BrokenPipeError as error:  # killed before it read what it was to begin with
            raise BrokenProcessPool from error
        except (OSError, ValueError):
            # Was another process to start while the executor closed its pipes, since one is dead?
            # It noted that it is broken before, and says so when it is asked once more.
            executor.submit(int)
            raise


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """Puts Ctrl-C and SIGTERM off: half a start would leave a process that waits for ever.

    A second one isn't. A process that starts in here never hears of Ctrl-C, which is for us.
    """
    seen: list[int] = []
    handlers: dict[signal.Signals, Any] = {}

    def note(number: int, frame: FrameType | None) -> None:
        seen.append(number)
        if len(seen) > 1:
            raise KeyboardInterrupt

    if threading.current_thread() is threading.main_thread():  # the one where handlers run
        handlers = {each: signal.signal(each, note) for each in (signal.SIGINT, signal.SIGTERM)}
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        for each, handler in handlers.items():
            signal.signal(each, handler or signal.SIG_DFL)
    for number in seen:
        signal.raise_signal(number)


def _begin(path: Path, lifeline: Connection, teller: Connection) -> None:
    """What a process does first."""
    global _path, _teller
    _path, _teller = path, teller
    threading.Thread(target=_end_with, args=(lifeline,), daemon=True).start()


def _end_with(lifeline: Connection) -> None:
    """Ends this process when the other end of the line closes, be it by the death of its holder."""
    lifeline.poll(None)
    os._exit(1)


def _do(function: Callable[[Job, Any, Tell], Result], task: Any) -> Result:
    return function(_job(_path), task, _teller.send)


@functools.cache
def _job(path: Path) -> Job:
    """Read with the first task: the last process to start may find all done, and its file gone."""
    return pickle.loads(path.read_bytes())


def _listen(news: Connection, tell: Tell) -> None:
    # Many processes write to one pipe: what is shorter than PIPE_BUF, 4096 bytes, arrives whole.
    with contextlib.suppress(EOFError, OSError):
        while True:
            tell(news.recv())
