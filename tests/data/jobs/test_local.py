"""Any number of workers writes the same bytes, and no process outlives the run."""

import contextlib
import dataclasses
import hashlib
import multiprocessing
import os
import pickle
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from albert_tf.data.jobs import local
from albert_tf.data.jobs.job import Output
from albert_tf.data.jobs.run import build_data, read_manifest
from albert_tf.data.pretraining.records import decode
from albert_tf.data.pretraining.sources import stored_records
from albert_tf.errors import UserError
from tests.data.jobs import workers
from tests.data.jobs.conftest import run_local

pytestmark = pytest.mark.usefixtures("ctrl_c_enabled")

ROOT = Path(local.__file__).parents[3]
BUSY = {"sentence_splitter": f"{workers.__name__}:split"}
SCRIPT = """
import functools, pickle, sys
from pathlib import Path
from albert_tf.data.jobs.local import map_in_processes
from albert_tf.data.jobs.run import run_job

def main():
    job = pickle.loads(Path(sys.argv[1]).read_bytes())
    run_job(job, functools.partial(map_in_processes, workers=2))

if __name__ == "__main__":
    main()
"""


@pytest.fixture
def start(tmp_path):
    """Returns a function that starts a job with two workers in a process group of its own."""
    script, pickled = tmp_path / "run.py", tmp_path / "job.pickle"
    script.write_text(SCRIPT)

    def start(job):
        pickled.write_bytes(pickle.dumps(job))
        return subprocess.Popen(
            [sys.executable, str(script), str(pickled)],
            start_new_session=True,
            stderr=subprocess.PIPE,
            text=True,
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path]),
                "BUSY": str(tmp_path / "busy"),
            },
        )

    return start


@pytest.fixture
def busy_job(make, tmp_path, start):
    """Returns the process of a job after one of its workers has started a part."""
    process = start(make(tmp_path / "examples", **BUSY))
    while not (tmp_path / "busy").exists():
        assert process.poll() is None
        time.sleep(0.01)
    return process


def test_every_document_is_there(finished):
    manifest = read_manifest(Output(str(finished)))
    assert manifest.totals["documents"] == 96
    assert manifest.totals["examples"] == sum(shard.records for shard in manifest.shards) > 150
    for shard in manifest.shards:
        path = finished / shard.file
        assert len(list(stored_records(str(path)))) == shard.records > 0
        assert path.stat().st_size == shard.bytes
        assert hashlib.sha256(path.read_bytes()).hexdigest() == shard.sha256
    found = [decode(record) for record in stored_records(str(next(finished.glob("ex*"))))]
    assert max(len(each["segment_a"] + each["segment_b"]) for each in found) == 37
    names = {path.name for path in finished.iterdir()} - {shard.file for shard in manifest.shards}
    tokenizer = {"spiece.model", "tokenizer_config.json", "special_tokens_map.json"}
    assert names == {"manifest.json", "words.json", *tokenizer}


def test_the_bytes_depend_neither_on_workers_nor_on_where_the_corpus_is(
    finished, make, corpus, content, tmp_path
):
    moved = shutil.copytree(corpus, tmp_path / "moved")
    run_local(make(tmp_path / "two", inputs=[moved]), workers=2)
    assert content(tmp_path / "two") == content(finished)


@pytest.mark.slow
@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGKILL])
def test_no_worker_outlives_the_run(busy_job, stop):
    if stop == signal.SIGINT:
        os.killpg(busy_job.pid, stop)  # as a terminal sends it
    else:
        busy_job.send_signal(stop)
    _expect_end(busy_job, stop)


def test_only_the_parent_notices_ctrl_c_while_workers_start(make, tmp_path, start):
    process = start(make(tmp_path / "examples", **BUSY))
    while not _workers(process):
        assert process.poll() is None
        time.sleep(0.001)
    os.killpg(process.pid, signal.SIGINT)
    _expect_end(process, signal.SIGINT)


def test_a_killed_worker_is_an_error(busy_job):
    os.kill(_workers(busy_job)[0], signal.SIGKILL)
    _, errors = busy_job.communicate()
    assert "UserError: One of 2 worker processes was killed" in errors
    _wait_for_the_end_of(busy_job.pid)


@pytest.mark.parametrize(
    ("begin", "message"),
    [
        (workers.kill_itself, "One of 2 worker processes was killed"),
        (workers.fail, "A worker process ended with an error when it started"),
    ],
)
def test_a_worker_that_can_not_start_is_an_error(make, tmp_path, monkeypatch, begin, message):
    monkeypatch.setattr(local, "_begin", begin)
    with pytest.raises(UserError, match=message):
        run_local(make(tmp_path / "examples"), workers=2)


@pytest.mark.slow
def test_a_script_without_a_guard_ends_with_an_error(make, tmp_path, start):
    """Its workers start it again. They end before they read the job, which fills a pipe."""
    script = tmp_path / "run.py"
    script.write_text(
        script.read_text().replace('if __name__ == "__main__":\n    main()', "main()")
    )
    job = make(tmp_path / "examples")
    large = ("large", bytes(2**20))
    process = start(dataclasses.replace(job, tokenizer=(*job.tokenizer, large)))
    try:
        _, errors = process.communicate(timeout=300)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    assert "UserError: A worker process ended with an error when it started" in errors


def test_a_worker_does_not_start_the_script_again(monkeypatch):
    monkeypatch.setattr(multiprocessing.current_process(), "_inheriting", True, raising=False)
    with pytest.raises(UserError, match="imports the script .*if __name__"):
        build_data(input=["text.txt"], output="examples", vocab="small")


def test_a_full_disk(make, tmp_path, files_of_at_most):
    """tests/faults resumes such a run, and kills others at any touch of a file."""
    job = make(tmp_path / "examples")
    message = "examples failed: .*File too large.*resume"
    with pytest.raises(UserError, match=message), files_of_at_most(5000):
        run_local(job)


def _expect_end(process, stop):
    _, errors = process.communicate()
    assert process.returncode == -stop
    assert errors.count("Traceback") == (stop == signal.SIGINT), "the script's own"
    _wait_for_the_end_of(process.pid)


def _wait_for_the_end_of(session):
    """Fails if a process of the session is alive after ten seconds."""
    for _ in range(1000):
        if not _alive(session):
            return
        time.sleep(0.01)
    raise AssertionError(f"still there: {_alive(session)}")


def _workers(process):
    pids = _alive(process.pid)
    return [pid for pid in pids if "spawn_main" in Path(f"/proc/{pid}/cmdline").read_text()]


def _alive(group):
    """Returns the processes of a group, without zombies."""
    alive = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            state, _, its_group = path.joinpath("stat").read_text().rpartition(")")[2].split()[:3]
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(its_group) == group and state != "Z":
            alive.append(int(path.name))
    return alive
