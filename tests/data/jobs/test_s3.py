"""Corpora and outputs in an object store: a real S3 interface on the loopback interface."""

import signal
import subprocess
import sys

import pytest

from albert_tf.errors import UserError
from tests.data.jobs.conftest import run_local

s3fs = pytest.importorskip("s3fs")


@pytest.fixture(scope="session")
def store(s3, corpus):
    """Returns the file system of a bucket with the corpus."""
    files = s3fs.S3FileSystem()
    files.put(f"{corpus}/", f"{s3}/corpus/", recursive=True)
    return files


@pytest.fixture
def expected(finished):
    """Returns the files of the same job on a local disk by name."""
    return {path.name: path.read_bytes() for path in finished.iterdir()}


def content(store, url):
    store.invalidate_cache()
    return {path.rsplit("/")[-1]: store.cat_file(path) for path in store.find(url)}


def test_the_same_bytes_as_on_a_local_disk(store, s3, make, expected):
    output = f"{s3}/same"
    job = make(output, inputs=[f"{s3}/corpus"])
    assert len(run_local(job).made) == 8
    assert content(store, output) == expected
    assert run_local(job).made == ()
    store.rm_file(f"{output}/examples-000002-00000.tfrecord")
    assert {name.split("-")[1] for name in run_local(job).made} == {"000002"}
    assert content(store, output) == expected


_KILLED_AFTER_TWO_PARTS = """
import os, signal, sys
from albert_tf import cli
from albert_tf.data.jobs import local

make_part, made = local.make_part, []

def counted(*arguments):
    if len(made) == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    made.append(make_part(*arguments))
    return made[-1]

local.make_part = counted
cli.main(sys.argv[1:])
"""


def test_a_killed_run_resumes_and_the_manifest_comes_last(store, s3, make, vocabulary, expected):
    output = f"{s3}/killed"
    command = [sys.executable, "-c", _KILLED_AFTER_TWO_PARTS, "build-data", "--workers", "1"]
    command += ["--input", f"{s3}/corpus", "--output", output, "--vocab", vocabulary]
    command += ["--max-seq-length", "40"]
    killed = subprocess.run([*command, "--shard-bytes", "9000"])
    assert killed.returncode == -signal.SIGKILL
    there = content(store, output)
    assert "settings.json" in there and "manifest.json" not in there
    shards = {name for name in there if name.endswith(".tfrecord")}
    made = run_local(make(output, inputs=[f"{s3}/corpus"])).made
    assert shards and shards == {name for name in expected if name.endswith(".tfrecord")} - {*made}
    assert content(store, output) == expected


def test_a_bucket_that_does_not_exist_is_an_error(store, make):
    with pytest.raises(UserError, match="s3://nowhere/out failed: "):
        run_local(make("s3://nowhere/out"))
    with pytest.raises(UserError, match="s3://nowhere/corpus"):
        make("s3://albert/out", inputs=["s3://nowhere/corpus"])
