"""A Spark cluster on the loopback interface, one of whose two workers is killed."""

import contextlib
import ctypes
import functools
import os
import re
import signal
import subprocess
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from albert_tf.data.jobs.run import run_job
from albert_tf.data.jobs.spark import map_on_spark

pyspark = pytest.importorskip("pyspark")
pytestmark = pytest.mark.engines

SECONDS = 120  # the longest wait; a few are usual
PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None)
# A sentence splitter for workers, which waits at the word "zebra" until a file exists.
GATED = """
import os, pathlib, time

import sentencex

GATE = pathlib.Path(os.environ["ALBERT_TF_TEST_GATE"])

def split(paragraph):
    if "zebra" in paragraph:
        (GATE / f"waiting-{os.getpid()}").touch()
        while not (GATE / "open").exists():
            time.sleep(0.05)
    return list(sentencex.segment("en", paragraph))
"""


@pytest.fixture
def gate(tmp_path, monkeypatch):
    """Returns a folder. A waiting process writes the file `waiting-PID` into it.

    The process continues as soon as the folder contains the file `open`.
    """
    folder = tmp_path / "gate"
    folder.mkdir()
    (folder / "gated.py").write_text(GATED)
    monkeypatch.setenv("ALBERT_TF_TEST_GATE", str(folder))
    monkeypatch.setenv("PYTHONPATH", str(folder), prepend=os.pathsep)
    monkeypatch.syspath_prepend(folder)
    return folder


def test_a_killed_worker_changes_nothing(
    make, read, finished, spark_settings, cluster, gate, tmp_path
):
    """Kills the worker that is inside a part, after other shards were written."""
    output, there = tmp_path / "examples", []

    def kill():
        waiting = until(lambda: [*gate.glob("waiting-*")], "a process at the gate")
        until(lambda: [*output.glob("examples-*")], "the first files")
        session = os.getsid(int(waiting[0].name.split("-")[1]))
        (victim,) = [worker for worker in cluster.workers if worker.pid == session]
        kill_session(victim)
        there.extend(output.glob("examples-*"))
        (gate / "open").touch()

    killer = threading.Thread(target=kill)
    killer.start()
    engine = functools.partial(
        map_on_spark, settings={**spark_settings, "spark.master": cluster.url}
    )
    try:
        outcome = run_job(make(output, sentence_splitter="gated:split"), engine)
    finally:
        (gate / "open").touch()
        killer.join()
    assert 0 < len(there) < len(outcome.made)
    assert len([*gate.glob("waiting-*")]) == 2, "another process made the part again"
    assert outcome.manifest.totals["documents"] == 96, "although some were read twice"
    different = read(output).items() ^ read(finished).items()
    assert {name for name, _ in different} == {"manifest.json"}, "which names the splitter"


@pytest.fixture
def cluster(gate, tmp_path):
    """Starts a master and two workers of one core each, in separate sessions.

    Yields:
        `url` of the master, and `workers`, their processes.
    """
    with contextlib.ExitStack() as stack:

        def start(name, number, *arguments):
            log = tmp_path / f"{name}-{number}.log"
            process = daemon(name, log, "--host", "127.0.0.1", "--port", "0", *arguments)
            stack.callback(kill_session, process)
            return process, log

        _, log = start("Master", 0, "--webui-port", "0")
        url = until(lambda: re.search(r"spark://127\.0\.0\.1:\d+", log.read_text()), "a master")[0]
        size = ["--webui-port", "0", "--cores", "1", "--memory", "1g"]
        folder = ["--work-dir", str(tmp_path / "spark")]
        workers = [start("Worker", number, *size, *folder, url) for number in range(2)]
        for _, log in workers:
            until(lambda log=log: "Successfully registered" in log.read_text(), "a worker")
        yield SimpleNamespace(url=url, workers=[process for process, _ in workers])


def daemon(name, log, *arguments):
    program = Path(pyspark.__file__).parent / "bin" / "spark-class"
    java = {"SPARK_DAEMON_MEMORY": "256m", "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1"}
    with log.open("w") as file:
        return subprocess.Popen(
            [program, f"org.apache.spark.deploy.{name.lower()}.{name}", *arguments],
            env={**os.environ, **java},
            stdout=file,
            stderr=file,
            start_new_session=True,
            # It ends with the tests even if they are killed.
            preexec_fn=lambda: LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL),
        )


def kill_session(process):
    """Kills a process and its children with signal 9, as a power failure would."""
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(ProcessLookupError):
            if os.getsid(int(path.name)) == process.pid:
                os.kill(int(path.name), signal.SIGKILL)
    process.wait()


def until(find, what):
    """Waits until `find` returns a result, and returns it."""
    end = time.monotonic() + SECONDS
    while not (found := find()):
        assert time.monotonic() < end, f"waited {SECONDS} s for {what}"
        time.sleep(0.05)
    return found
