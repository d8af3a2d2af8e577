"""Any number of workers gives the same bytes; no process outlives the run."""

import os
import pickle
import shutil
import signal
import subprocess
import sys
import time
import types
from pathlib import Path

import pytest

from albert_tf.data.jobs import local
from albert_tf.data.jobs.job import Output
from albert_tf.data.jobs.run import read_manifest
from albert_tf.data.pretraining.records import decode, read_records
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
    run_job(job, functools.partial(map_in_processes, workers=int(sys.argv[2])))
    assert not {"keras", "tensorflow"} & sys.modules.keys()

if __name__ == "__main__":
    main()
"""


@pytest.fixture
def start(tmp_path):
    """Returns a function that starts a job in a process group of its own."""
    script, pickled = tmp_path / "run.py", tmp_path / "job.pickle"
    script.write_text(SCRIPT)

    def start(job, workers):
        pickled.write_bytes(pickle.dumps(job))
        command = [sys.executable, str(script), str(pickled), str(workers)]
        return subprocess.Popen(
            command,
            start_new_session=True,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])},
        )

    return start


@pytest.fixture
def slowly(tmp_path, monkeypatch):
    """Returns the options of a job whose sentence splitter takes 0.2 s for a document."""
    split = "import time\n\ndef split(text):\n    time.sleep(0.2)\n    return [text]\n"
    (tmp_path / "slow_sentences.py").write_text(split)
    monkeypatch.syspath_prepend(tmp_path)
    return {"sentence_splitter": "slow_sentences:split"}


@pytest.fixture
def long_job(make, tmp_path, start, slowly):
    """Starts a job of ten seconds with two workers; yields it after its first shards."""
    job = make(tmp_path / "examples", **slowly)
    process = start(job, 2)
    while not list(Path(job.output).glob("*.tfrecord")):
        assert process.poll() is None
        time.sleep(0.01)
    return job, process


def test_every_document_is_there(finished):
    manifest = read_manifest(Output(str(finished)))
    assert manifest.totals["documents"] == 96
    assert manifest.totals["examples"] == sum(shard.records for shard in manifest.shards) > 150
    found = [decode(record) for record in read_records(next(finished.glob("ex*")))]
    assert max(len(each["segment_a"] + each["segment_b"]) for each in found) == 37
    names = {path.name for path in finished.iterdir()} - {shard.file for shard in manifest.shards}
    assert names == {
        "manifest.json",
        "spiece.model",
        "tokenizer_config.json",
        "special_tokens_map.json",
        "words.json",
    }


def test_the_bytes_depend_neither_on_workers_nor_on_where_the_corpus_is(
    finished, make, corpus, content, tmp_path, start
):
    moved = shutil.copytree(corpus, tmp_path / "moved")
    run_local(make(tmp_path / "three", inputs=[moved]), 3)
    assert content(tmp_path / "three") == content(finished)
    process = start(make(tmp_path / "one"), 1)
    _, errors = process.communicate()
    assert process.returncode == 0, errors
    assert content(tmp_path / "one") == content(finished)


def test_another_seed_gives_other_files(finished, make, content, tmp_path):
    run_local(make(tmp_path / "seed", random_seed=6))
    ours, others = content(finished), content(tmp_path / "seed")
    assert ours.keys() == others.keys()
    assert not {ours[name] for name in ours if name.startswith("ex")} & {*others.values()}


@pytest.mark.slow
@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_no_worker_outlives_the_run(long_job, stop):
    _, process = long_job
    if stop == signal.SIGINT:
        os.killpg(process.pid, stop)  # as a terminal sends it
    else:
        process.send_signal(stop)
    _, errors = process.communicate()
    assert process.returncode == -stop
    assert errors.count("Traceback") == (stop == signal.SIGINT), "the script's own"
    _wait_for_the_end_of(process.pid)


def test_only_the_parent_notices_ctrl_c_while_workers_start(make, tmp_path, start, slowly):
    process = start(make(tmp_path / "examples", **slowly), 2)
    while not any("spawn_main" in _command(pid) for pid in _alive(process.pid)):
        assert process.poll() is None
        time.sleep(0.001)
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate()
    assert process.returncode == -signal.SIGINT
    assert errors.count("Traceback") == 1, "the script's own"
    _wait_for_the_end_of(process.pid)


def test_ctrl_c_is_deferred_where_signals_cannot_be_blocked(monkeypatch):
    monkeypatch.setattr(local, "sys", types.SimpleNamespace(platform="win32"))
    monkeypatch.delattr(signal, "pthread_sigmask")
    is_finished = False
    with pytest.raises(KeyboardInterrupt), local._sigint_deferred():
        signal.raise_signal(signal.SIGINT)
        is_finished = True
    assert is_finished


def test_a_killed_worker_is_an_error_and_the_run_resumes(long_job):
    _, process = long_job
    workers = [pid for pid in _alive(process.pid) if "spawn_main" in _command(pid)]
    os.kill(workers[0], signal.SIGKILL)
    _, errors = process.communicate()
    assert "UserError: A worker process was killed" in errors
    assert "Received: 2 workers" in errors
    _wait_for_the_end_of(process.pid)


def test_a_worker_killed_as_it_starts_is_an_error(make, tmp_path, monkeypatch):
    monkeypatch.setattr(local, "_begin", _die)
    with pytest.raises(UserError, match="A worker process was killed"):
        run_local(make(tmp_path / "examples"), 2)


def test_a_full_disk(make, tmp_path, files_of_at_most):
    """tests/faults resumes such a run, and kills others at any touch of a file."""
    job = make(tmp_path / "examples")
    message = r"have room. Received: .*examples: .*File too large.*resumes"
    with pytest.raises(UserError, match=message), files_of_at_most(5000):
        run_local(job)


def _die(job):
    os.kill(os.getpid(), signal.SIGKILL)


def _wait_for_the_end_of(session):
    """Fails if a process of the session is alive after ten seconds."""
    for _ in range(1000):
        if not _alive(session):
            return
        time.sleep(0.01)
    raise AssertionError(f"still there: {_alive(session)}")


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


def _command(pid):
    return Path(f"/proc/{pid}/cmdline").read_text()
