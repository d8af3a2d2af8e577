"""Any number of workers writes the same bytes, and no process outlives the run."""

import contextlib
import dataclasses
import importlib
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
from tests.data.jobs.conftest import run_local

pytestmark = pytest.mark.usefixtures("ctrl_c_enabled")

ROOT = Path(local.__file__).parents[3]
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
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])},
        )

    return start


@pytest.fixture
def slowly(tmp_path, monkeypatch):
    """Returns the options of a job whose sentence splitter takes 0.1 s for a document."""
    split = "import time\n\ndef split(text):\n    time.sleep(0.1)\n    return [text]\n"
    (tmp_path / "slow_sentences.py").write_text(split)
    monkeypatch.syspath_prepend(tmp_path)
    return {"sentence_splitter": "slow_sentences:split"}


@pytest.fixture
def long_job(make, tmp_path, start, slowly):
    """Returns the process of a job of five seconds after its first shards."""
    process = start(make(tmp_path / "examples", **slowly))
    while not list(tmp_path.glob("examples/*.tfrecord")):
        assert process.poll() is None
        time.sleep(0.01)
    return process


def test_every_document_is_there(finished):
    manifest = read_manifest(Output(str(finished)))
    assert manifest.totals["documents"] == 96
    assert manifest.totals["examples"] == sum(shard.records for shard in manifest.shards) > 150
    found = [decode(record) for record in stored_records(str(next(finished.glob("ex*"))))]
    assert max(len(each["segment_a"] + each["segment_b"]) for each in found) == 37
    names = {path.name for path in finished.iterdir()} - {shard.file for shard in manifest.shards}
    tokenizer = {"spiece.model", "tokenizer_config.json", "special_tokens_map.json"}
    assert names == {"manifest.json", "words.json", *tokenizer}


def test_the_bytes_depend_neither_on_workers_nor_on_where_the_corpus_is(
    finished, make, corpus, content, tmp_path
):
    moved = shutil.copytree(corpus, tmp_path / "moved")
    run_local(make(tmp_path / "three", inputs=[moved]), 3)
    assert content(tmp_path / "three") == content(finished)


def test_another_seed_gives_other_files(finished, make, content, tmp_path):
    run_local(make(tmp_path / "seed", random_seed=6))
    ours, others = content(finished), content(tmp_path / "seed")
    assert ours.keys() == others.keys()
    assert not {ours[name] for name in ours if name.startswith("ex")} & {*others.values()}


@pytest.mark.slow
@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGKILL])
def test_no_worker_outlives_the_run(long_job, stop):
    if stop == signal.SIGINT:
        os.killpg(long_job.pid, stop)  # as a terminal sends it
    else:
        long_job.send_signal(stop)
    _expect_end(long_job, stop)


def test_only_the_parent_notices_ctrl_c_while_workers_start(make, tmp_path, start, slowly):
    process = start(make(tmp_path / "examples", **slowly))
    while not _workers(process):
        assert process.poll() is None
        time.sleep(0.001)
    os.killpg(process.pid, signal.SIGINT)
    _expect_end(process, signal.SIGINT)


def test_a_killed_worker_is_an_error(long_job):
    os.kill(_workers(long_job)[0], signal.SIGKILL)
    _, errors = long_job.communicate()
    assert "UserError: One of 2 worker processes was killed" in errors
    _wait_for_the_end_of(long_job.pid)


def test_a_worker_killed_as_it_starts_is_an_error(make, tmp_path, monkeypatch):
    """The worker imports the function from a file of its own, because this one loads TensorFlow."""
    die = "import os, signal\n\ndef begin(file):\n    os.kill(os.getpid(), signal.SIGKILL)\n"
    (tmp_path / "deadly.py").write_text(die)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(local, "_begin", importlib.import_module("deadly").begin)
    with pytest.raises(UserError, match="worker processes was killed"):
        run_local(make(tmp_path / "examples"), 2)


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
