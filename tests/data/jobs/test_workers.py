import multiprocessing
import os
import signal
import threading
import time
from concurrent.futures.process import BrokenProcessPool

import pytest

from albert_tf.data.jobs.workers import Workers, started, undisturbed
from albert_tf.errors import UserError

pytestmark = pytest.mark.usefixtures("ctrl_c_is_heard")

TASKS = 23


def double(job, task, tell):
    tell({"advance": task})
    return os.getpid(), task * job


def fail(job, task, tell):
    if task == 3:
        raise UserError(f"three is too many for {job}")
    return task


def die(job, task, tell):
    os.kill(os.getpid(), signal.SIGKILL)


def sleep(job, task, tell):
    tell({"pid": os.getpid()})
    time.sleep(600)


@pytest.mark.parametrize("count", [1, 3])
def test_every_task_is_done_once_and_told_of(count, tmp_path):
    told = []
    with started(10, tmp_path, count, told.append) as workers:
        results = list(workers.map(double, range(TASKS)))
        assert sorted(result for _, result in results) == [10 * task for task in range(TASKS)]
        assert ({pid for pid, _ in results} == {os.getpid()}) == (count == 1)
        assert len(list(workers.map(double, []))) == 0
    assert sorted(news["advance"] for news in told) == [*range(TASKS)]


@pytest.mark.parametrize("count", [1, 2])
def test_an_error_reaches_us_and_ends_all(count, tmp_path):
    with (
        pytest.raises(UserError, match="three is too many for 10"),
        started(10, tmp_path, count, print) as workers,
    ):
        list(workers.map(fail, range(TASKS)))


def test_a_process_that_is_killed_is_said(tmp_path):
    with (
        pytest.raises(UserError, match=r"ended from outside.*Received: 2 processes.*--workers"),
        started(10, tmp_path, 2, print) as workers,
    ):
        list(workers.map(die, range(TASKS)))


def test_no_process_is_waited_for_when_the_block_raises(tmp_path):
    told = []

    def stop(news):
        told.append(news["pid"])
        if len(told) == 2:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt), started(10, tmp_path, 2, stop) as workers:
        list(workers.map(sleep, range(2)))
    for pid in told:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_waits_until_a_process_has_started_and_a_second_does_not(number):
    happened = []
    before = signal.signal(number, lambda *_: happened.append("signal"))
    try:
        with undisturbed():
            signal.raise_signal(number)
            happened.append("started")
        assert happened == ["started", "signal"]
        with pytest.raises(KeyboardInterrupt), undisturbed():
            signal.raise_signal(signal.SIGTERM)
            signal.raise_signal(signal.SIGTERM)
            happened.append("never")
    finally:
        signal.signal(number, before)
    assert happened == ["started", "signal"]
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, [])


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_process_that_is_killed_as_it_starts_is_said(tmp_path, number):
    ended = []

    def end():
        while not (children := multiprocessing.active_children()):
            time.sleep(0.001)
        ended.append(children[0].pid)
        os.kill(children[0].pid, number)

    killer = threading.Thread(target=end)
    killer.start()
    with (
        pytest.raises(UserError, match="ended from outside"),
        started("a job" * 1_000_000, tmp_path, 2, print) as workers,
    ):
        list(workers.map(double, [0] * TASKS))
    killer.join()
    assert len(ended) == 1


class Executor:
    """Stands in for one that has to start another process for its first task."""

    def __init__(self, *errors):
        self.errors = [*errors]

    def submit(self, function, *arguments):
        if self.errors:
            raise self.errors.pop(0)


@pytest.mark.parametrize(
    "error", [ValueError("bad value(s) in fds_to_keep"), OSError("handle is closed")], ids=repr
)
def test_what_stops_a_start_is_said_unless_a_killed_process_is_the_cause(error):
    broken = Workers(10, print, 2, Executor(error, BrokenProcessPool()))
    with pytest.raises(UserError, match="ended from outside"):
        next(broken.map(double, range(TASKS)))
    sound = Workers(10, print, 2, Executor(error))
    with pytest.raises(type(error), match=str(error).split()[-1]):
        next(sound.map(double, range(TASKS)))
