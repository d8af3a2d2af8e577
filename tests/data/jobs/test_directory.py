import os
import shutil
import subprocess
import sys

import pytest

from albert_tf.data.jobs.directory import opened
from albert_tf.data.jobs.local import run_local
from albert_tf.data.jobs.manifest import read_manifest
from albert_tf.errors import UserError


def test_a_folder_with_something_else_is_refused_and_untouched(make, content, tmp_path):
    (tmp_path / "folder" / "work").mkdir(parents=True)
    (tmp_path / "folder" / "manifest.json").write_text('{"name": "an app"}')
    (tmp_path / "folder" / "work" / "notes.txt").write_text("mine")
    before = content(tmp_path)
    for force in (False, True):
        with pytest.raises(UserError, match=r"new or an empty folder.*Received: .*folder, which"):
            run_local(make(tmp_path / "folder"), 1, force=force)
        assert content(tmp_path) == before
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match=r"must be a folder. Received: .*file, which is a file"):
        run_local(make(tmp_path / "file"), 1)


@pytest.mark.parametrize("is_finished", [False, True])
def test_other_settings_are_refused_with_both_values(
    make, finished, corpus, content, tmp_path, is_finished
):
    folder = tmp_path / "examples"
    if is_finished:
        shutil.copytree(finished, folder)
    else:
        with opened(make(folder)):
            pass
    before = content(folder)
    others = [
        (make(folder, max_seq_length=41), r"Received for .*: max_seq_length: 40 then, 41 now\."),
        (make(folder, buckets=6), r"buckets: 5 then, 6 now\. Give the same"),
        (make(folder, corpus={"lines": "sentences"}), r"lines: 'paragraphs' then, 'sentences' now"),
        (make(folder, inputs=[corpus / "a.txt"]), r"inputs b.txt.gz: \d+ then, nothing now"),
    ]
    for job, message in others:
        with pytest.raises(UserError, match=message):
            run_local(job, 1)
        assert content(folder) == before


@pytest.mark.parametrize("is_finished", [False, True])
def test_force_starts_anew(make, finished, content, tmp_path, is_finished):
    folder = tmp_path / "examples"
    if is_finished:
        shutil.copytree(finished, folder)
    else:
        with opened(make(folder, max_seq_length=41)) as directory:
            (folder / "work" / "scratch").mkdir()
            (folder / "work" / "scratch" / "a.run").touch()
            (folder / "work" / "spiece.model").touch()
            (folder / "examples-00000-of-00015.tfrecord").write_text("old")
            assert directory.claimed() == []
    job = make(folder, buckets=4)
    run_local(job, 1, force=True)
    run_local(make(tmp_path / "new", buckets=4), 1)
    assert content(folder) == content(tmp_path / "new")
    assert read_manifest(folder).settings["buckets"] == 4


def test_only_force_takes_what_is_left_of_a_run(make, finished, content, tmp_path):
    folder = tmp_path / "examples"
    shutil.copytree(finished, folder)
    for name in ("manifest.json", "spiece.model", "tokenizer_config.json"):
        (folder / name).unlink()
    (folder / "special_tokens_map.json").unlink()
    with pytest.raises(UserError, match=r"holds examples-000\d\d-of-00015.tfrecord and no manif"):
        run_local(make(folder), 1)
    run_local(make(folder), 1, force=True)
    assert content(folder) == content(finished)


def test_two_runs_at_once_are_refused(make, tmp_path):
    job = make(tmp_path / "examples")
    holder = (
        "import fcntl, os, sys; fcntl.flock(os.open(sys.argv[1], os.O_RDONLY), fcntl.LOCK_EX); "
        "print('held', flush=True); sys.stdin.read()"
    )
    job.folder.mkdir()
    process = subprocess.Popen(
        [sys.executable, "-c", holder, job.output],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    process.stdout.readline()
    for force in (False, True):
        with pytest.raises(UserError, match=r"One run at a time.*examples, where another run is"):
            run_local(job, 1, force=force)
    assert os.listdir(job.folder) == []
    process.kill()  # the lock dies with it
    process.communicate()
    with opened(job), pytest.raises(UserError, match="One run at a time"), opened(job):
        pass


def test_a_folder_where_a_run_was_killed_as_it_began_is_taken(make, tmp_path):
    (tmp_path / "examples" / ".work.abc" / "work").mkdir(parents=True)
    with opened(make(tmp_path / "examples")):
        assert os.listdir(tmp_path / "examples") == ["work"]
