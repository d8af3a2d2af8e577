"""The same bytes from any number of workers, after any crash; nothing lost, nothing mixed up."""

import os
import pickle
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from albert_tf.data.jobs import scratch, shards
from albert_tf.data.jobs.local import run_local
from albert_tf.data.jobs.manifest import read_manifest
from albert_tf.data.pretraining.records import decode, read_records
from albert_tf.errors import UserError

pytestmark = pytest.mark.usefixtures("ctrl_c_is_heard")

BUCKETS, COPIES, PARTS = 5, 3, 12  # PARTS or more
RANDOM = random.Random(int(os.environ["ALBERT_TF_SEED"]))
SCRIPT = """
import os, pickle, sys
from pathlib import Path
from albert_tf.data.jobs.local import run_local

def main():
    job = pickle.loads(Path(sys.argv[1]).read_bytes())
    workers, left = int(sys.argv[2]), int(sys.argv[3])

    def count(event, arguments):
        nonlocal left
        if event in ("open", "os.rename", "os.mkdir", "os.remove", "os.rmdir") and any(
            isinstance(each, (str, os.PathLike)) and os.fspath(each).startswith(job.output)
            for each in arguments
        ):
            left -= 1
            if left == 0:
                os._exit(9)

    if left:
        sys.addaudithook(count)
    run_local(job, workers)
    assert not {"keras", "tensorflow"} & sys.modules.keys()

if __name__ == "__main__":
    main()
"""


@pytest.fixture
def start(tmp_path):
    """Starts a job in a process, in a group of its own, that ends at the n-th touch of a file."""
    script, pickled = tmp_path / "run.py", tmp_path / "job.pickle"
    script.write_text(SCRIPT)

    def start(job, workers, last_touch=0):
        pickled.write_bytes(pickle.dumps(job))
        command = [sys.executable, str(script), str(pickled), str(workers), str(last_touch)]
        path = os.pathsep.join([str(Path(scratch.__file__).parents[3]), *sys.path])
        return subprocess.Popen(
            command,
            start_new_session=True,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": path},
        )

    return start


def test_every_document_is_in_every_copy(finished, make):
    manifest = read_manifest(finished)
    assert manifest.totals["documents"] == 96
    assert len(manifest.shards) == BUCKETS * COPIES
    records = [
        sum(shard.records for shard in manifest.shards[copy * BUCKETS : (copy + 1) * BUCKETS])
        for copy in range(COPIES)
    ]
    assert sum(records) == manifest.totals["examples"] and min(records) > 150
    ids = [
        decode(record)["input_ids"]
        for record in read_records(finished / "examples-00003-of-00015.tfrecord")
    ]
    assert {len(row) for row in ids} == {40}
    names = {path.name for path in finished.iterdir()} - {shard.file for shard in manifest.shards}
    assert names == {
        "manifest.json",
        "spiece.model",
        "tokenizer_config.json",
        "special_tokens_map.json",
    }


def test_one_process_needs_no_tensorflow(make, content, finished, tmp_path, start):
    process = start(make(tmp_path / "examples"), 1)
    _, errors = process.communicate()
    assert process.returncode == 0, errors
    assert content(tmp_path / "examples") == content(finished)


def test_the_bytes_depend_on_neither_workers_nor_splits(finished, make, content, tmp_path):
    for workers, split_bytes in ((2, 100), (5, 1 << 20)):
        folder = tmp_path / str(workers)
        run_local(make(folder, corpus={"split_bytes": split_bytes}), workers)
        assert content(folder) == content(finished)


def test_nor_on_where_the_corpus_is(finished, make, corpus, content, tmp_path):
    shutil.copytree(corpus, tmp_path / "moved")
    run_local(make(tmp_path / "examples", inputs=[tmp_path / "moved"]), 1)
    assert content(tmp_path / "examples") == content(finished)


def test_another_seed_and_a_dynamic_job_give_other_files(finished, make, content, tmp_path):
    run_local(make(tmp_path / "seed", random_seed=6), 1)
    ours, others = content(finished), content(tmp_path / "seed")
    assert ours.keys() == others.keys()
    assert not {ours[name] for name in ours if name.startswith("ex")} & {*others.values()}
    run_local(make(tmp_path / "dynamic", mode="dynamic", buckets=7), 1)
    assert len(list((tmp_path / "dynamic").glob("examples-*-of-00007.tfrecord"))) == 7


def test_a_finished_folder_is_checked_and_mended(finished, make, content, tmp_path):
    folder = tmp_path / "examples"
    shutil.copytree(finished, folder)
    job = make(folder)
    assert run_local(job, 1).made == ()
    cut, changed, lost = (
        folder / f"examples-{number:05d}-of-00015.tfrecord" for number in (2, 8, 11)
    )
    cut.write_bytes(cut.read_bytes()[:-1])
    changed.write_bytes(b"x" + changed.read_bytes()[1:])
    lost.unlink()
    (folder / "tokenizer_config.json").unlink()
    assert run_local(job, 2).made == (cut.name, changed.name, lost.name)
    assert content(folder) == content(finished)


def test_mending_deals_the_documents_of_what_is_missing_alone(
    finished, make, content, tmp_path, monkeypatch
):
    folder = tmp_path / "examples"
    shutil.copytree(finished, folder)
    (folder / "examples-00007-of-00015.tfrecord").unlink()  # of bucket 2
    wanted = []
    deal = scratch.deal
    monkeypatch.setattr(
        scratch,
        "deal",
        lambda job, part, buckets, tell: wanted.append(buckets) or deal(job, part, buckets, tell),
    )
    run_local(make(folder), 1)
    assert len(wanted) >= PARTS and set(wanted) == {frozenset({2})}
    assert content(folder) == content(finished)


def test_mending_from_another_text_is_refused(make, finished, corpus, content, tmp_path):
    moved, folder = tmp_path / "corpus", tmp_path / "examples"
    shutil.copytree(corpus, moved)
    shutil.copytree(finished, folder)
    (moved / "a.txt").write_text((corpus / "a.txt").read_text().replace("film", "book"))
    for path in folder.glob("examples-*"):
        path.unlink()
    job = make(folder, inputs=[moved])
    for _ in range(2):
        with pytest.raises(UserError, match=r"same as when .* was made.*otherwise.*--force"):
            run_local(job, 1)
    shutil.copy(corpus / "a.txt", moved)
    run_local(job, 1)
    assert content(folder) == content(finished)


def test_a_run_killed_at_any_touch_of_a_file_goes_on(finished, make, content, tmp_path, start):
    touches = 15 * 30  # about as many as there are
    for last in sorted(RANDOM.sample(range(1, touches), 5)):
        folder = tmp_path / str(last)
        job = make(folder)
        start(job, 1, last).communicate()
        if RANDOM.random() < 0.5:
            start(job, 1, RANDOM.randint(1, touches)).communicate()
        run_local(job, 1)
        assert content(folder) == content(finished), f"killed at touch {last}"


def test_a_mending_run_killed_at_any_touch_of_a_file_goes_on(
    finished, make, content, tmp_path, start
):
    for last in sorted(RANDOM.sample(range(1, 150), 4)):
        folder = tmp_path / str(last)
        shutil.copytree(finished, folder)
        (folder / f"examples-{RANDOM.randrange(15):05d}-of-00015.tfrecord").unlink()
        start(make(folder), 1, last).communicate()
        run_local(make(folder), 1)
        assert content(folder) == content(finished), f"killed at touch {last}"


@pytest.mark.slow
def test_all_processes_killed_at_once_again_and_again(finished, make, content, tmp_path, start):
    """Once for each number of finished files and parts that is drawn, then run to the end."""
    folder = tmp_path / "examples"
    job = make(folder)
    for threshold in sorted(RANDOM.sample(range(BUCKETS * COPIES + PARTS), 4)):
        process = start(job, 2)
        while process.poll() is None and _finished(folder) < threshold:
            time.sleep(0.002)
        time.sleep(RANDOM.random() / 50)
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    run_local(job, 1)
    assert content(folder) == content(finished)


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_no_process_outlives_the_one_that_began(make, tmp_path, start, stop):
    process = start(make(tmp_path / "examples", dupe_factor=400), 2)
    while not list((tmp_path / "examples").glob("work/reports/*.json")):
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(stop)
    _, errors = process.communicate()
    assert process.returncode == -stop
    assert errors.count("Traceback") == (stop == signal.SIGINT)  # the script's own
    for _ in range(1000):
        if not _alive(process.pid):
            return
        time.sleep(0.01)
    raise AssertionError(f"still there: {_alive(process.pid)}")


def test_a_worker_that_is_killed_is_named_and_the_run_goes_on_later(make, tmp_path, start):
    folder = tmp_path / "examples"
    job = make(folder, dupe_factor=50)
    process = start(job, 2)
    while not list(folder.glob("work/reports/*.json")):
        assert process.poll() is None
        time.sleep(0.005)
    workers = [pid for pid in _alive(process.pid) if "spawn_main" in _command(pid)]
    os.kill(workers[0], signal.SIGKILL)
    _, errors = process.communicate()
    assert "UserError: A process of the job was ended from outside" in errors
    assert "Received: 2 processes" in errors
    assert 0 < len(run_local(job, 1).made) < 250


def test_no_space_left_is_said_and_the_run_goes_on_later(
    make, content, finished, tmp_path, files_of_at_most
):
    sizes = sorted(path.stat().st_size for path in finished.glob("examples-*"))
    folder = tmp_path / "examples"
    job = make(folder)
    shards._maker(job)  # reads the vocabulary, through files that are longer
    with (
        pytest.raises(UserError, match=r"have room. Received: File too large: .*examples. What"),
        files_of_at_most(sizes[-1] - 1),
    ):
        run_local(job, 1)
    assert len(list(folder.glob("examples-*"))) > 1
    run_local(job, 1)
    assert content(folder) == content(finished)


def test_a_bad_line_stops_a_run_which_goes_on_when_it_is_to_be_skipped(
    make, corpus, content, tmp_path
):
    bad = tmp_path / "z.jsonl"
    bad.write_text('{"text": "One. Two."}\nnonsense\n')
    for workers in (1, 2):
        folder = tmp_path / str(workers)
        inputs = [corpus / "a.txt", bad]
        with pytest.raises(UserError, match=r"z.jsonl"):
            run_local(make(folder, inputs=inputs), workers)
        skipping = {"bad_lines": "skip"}
        manifest = run_local(make(folder, inputs=inputs, corpus=skipping), workers).manifest
        assert manifest.totals["bad_lines"] == 1
        assert manifest.settings["corpus"]["bad_lines"] == "skip"
    assert content(tmp_path / "1") == content(tmp_path / "2")


def test_a_corpus_without_a_document_is_refused(make, corpus, tmp_path):
    with pytest.raises(UserError, match=r"must have a document. Received: none in .*empty.txt"):
        run_local(make(tmp_path / "examples", inputs=[corpus / "d" / "e"]), 1)
    assert not any((tmp_path / "examples").iterdir())
    assert run_local(make(tmp_path / "examples", inputs=[corpus / "a.txt"]), 1).made


def _finished(folder):
    return sum(
        len(list(folder.glob(f"{place}/*.json"))) for place in ("work/scratch", "work/reports")
    )


def _alive(group):
    """The processes of a group, without those that have ended and wait to be noticed."""
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
