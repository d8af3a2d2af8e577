"""Corpora and outputs in an object store: a real S3 interface on the loopback interface."""

from pathlib import Path

import pytest

from albert_tf.data.jobs.run import run_job
from albert_tf.data.pretraining import sources
from albert_tf.data.pretraining.records import encode, frame
from albert_tf.data.pretraining.sources import find_records
from albert_tf.errors import UserError
from tests.data.jobs.conftest import interrupted, run_local

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


def test_an_interrupted_run_resumes_with_the_same_bytes_as_on_a_local_disk(
    store, s3, make, expected
):
    job = make(f"{s3}/examples", inputs=[f"{s3}/corpus"])
    with pytest.raises(KeyboardInterrupt):
        run_job(job, interrupted(2))
    there = content(store, job.output)
    assert "settings.json" in there and "manifest.json" not in there
    shards = {name for name in there if name.endswith(".tfrecord")}
    made = run_local(job).made
    assert shards and shards == {name for name in expected if name.endswith(".tfrecord")} - {*made}
    assert content(store, job.output) == expected
    assert run_local(job).made == ()
    store.rm_file(f"{job.output}/examples-000002-00000.tfrecord")
    assert {name.split("-")[1] for name in run_local(job).made} == {"000002"}
    assert content(store, job.output) == expected


def test_a_bucket_that_does_not_exist_is_an_error(store, make):
    with pytest.raises(UserError, match="s3://nowhere/out failed: "):
        run_local(make("s3://nowhere/out"))
    with pytest.raises(UserError, match="s3://nowhere/corpus"):
        make("s3://albert/out", inputs=["s3://nowhere/corpus"])


def test_examples_are_downloaded_for_training(store, s3, finished, tmp_path, monkeypatch):
    """TensorFlow can't read s3:// URLs."""
    monkeypatch.setattr(sources, "CACHE", tmp_path)
    url, local = f"{s3}/finished", find_records(finished)
    store.put(f"{finished}/", f"{url}/", recursive=True)
    remote = find_records(url)
    assert (remote.counts, remote.dynamic) == (local.counts, local.dynamic)
    for path, copy in zip(local.paths, remote.paths, strict=True):
        assert copy.startswith(str(tmp_path))
        assert Path(copy).read_bytes() == Path(path).read_bytes()
    times = [Path(copy).stat().st_mtime_ns for copy in remote.paths]
    assert [Path(path).stat().st_mtime_ns for path in find_records(url).paths] == times
    store.rm_file(f"{url}/manifest.json")
    with pytest.raises(UserError, match=f"^{url} contains no manifest.json"):
        find_records(url)
    masked = {"input_ids": [7] * 9, "masked_lm_positions": [1, 2]}
    store.pipe_file(f"{s3}/original/a.tfrecord", frame(encode(masked)))
    assert find_records(f"{s3}/original/*.tfrecord").counts == (1,)
