import json
from pathlib import Path

import fsspec
import pytest

from albert_tf.data.pretraining import records, sources
from albert_tf.data.pretraining.options import ExampleOptions
from albert_tf.data.pretraining.sources import find_records
from albert_tf.errors import UserError

COUNTS = (13, 0, 9, 31, 6)


def test_a_directory_is_what_its_manifest_says(static, dynamic):
    for directory in (static, dynamic):
        files = find_records(directory.path)
        assert files.counts == COUNTS
        assert [path[-24:] for path in files.paths][2:3] == ["-00002-of-00005.tfrecord"]
        assert (files.max_seq_length, files.predictions) == (40, 5)
    assert find_records(static.path).dynamic is None
    files = find_records(str(dynamic.path))
    assert files.dynamic == ExampleOptions(max_seq_length=40, max_predictions_per_seq=5)
    assert len(files.table.starts) == dynamic.tokenizer.vocab_size


def test_files_alone_are_counted(static):
    files = find_records(f"{static.path}/*.tfrecord")
    assert files.counts == COUNTS
    assert (files.max_seq_length, files.predictions) == (40, 5)
    listed = find_records([static.path / "examples-00002-of-00005.tfrecord"])
    assert listed.counts == (9,)


def test_a_directory_is_read_as_in_a_bucket(static, dynamic):
    for directory in (static, dynamic):
        local, remote = (find_records(f"{way}{directory.path}") for way in ("", "file://"))
        assert remote.counts == local.counts
        assert remote.dynamic == local.dynamic
        assert remote.paths == tuple(f"file://{path}" for path in local.paths)


def test_other_protocols_are_downloaded(s3, dynamic, tmp_path, monkeypatch):
    """Downloads from s3://, for which TensorFlow has no file system."""
    monkeypatch.setattr(sources, "CACHE", tmp_path)
    store, local = fsspec.filesystem("s3"), find_records(dynamic.path)
    url = f"{s3}/records"
    store.put(str(dynamic.path), url, recursive=True)
    remote = find_records(url)
    assert (remote.counts, remote.dynamic) == (local.counts, local.dynamic)
    for path, copy in zip(local.paths, remote.paths, strict=True):
        assert copy.startswith(str(tmp_path))
        assert Path(copy).read_bytes() == Path(path).read_bytes()
    times = [Path(copy).stat().st_mtime_ns for copy in remote.paths]
    assert [Path(path).stat().st_mtime_ns for path in find_records(url).paths] == times
    store.rm_file(f"{url}/manifest.json")
    with pytest.raises(UserError, match=f"must be finished. Received: {url}, without manifest"):
        find_records(url)


def test_files_of_the_original_at_other_protocols_are_downloaded(s3, static, tmp_path, monkeypatch):
    monkeypatch.setattr(sources, "CACHE", tmp_path)
    fsspec.filesystem("s3").put(str(static.path), f"{s3}/masked", recursive=True)
    assert find_records(f"{s3}/masked/*.tfrecord").counts == COUNTS


def test_files_of_the_original_code_are_found(golden):
    files = find_records(golden / "F_pretraining_data" / "sample_seq64_pred10.tfrecord")
    assert (files.counts, files.max_seq_length, files.predictions) == ((150,), 64, 10)


def test_epochs_have_full_batches_for_each_worker(static):
    files = find_records(static.path)
    assert [files.steps_per_epoch(4, workers) for workers in (1, 2, 3)] == [14, 7, 4]
    with pytest.raises(UserError, match="Received: 59 records, batch_size=20, workers=3"):
        files.steps_per_epoch(20, 3)


def test_an_unfinished_directory_is_refused(tmp_path):
    (tmp_path / "examples-00000-of-00001.tfrecord").touch()
    with pytest.raises(UserError, match="must be finished. Received: .*, without manifest.json"):
        find_records(tmp_path)


@pytest.mark.parametrize("content", ["{}", "[]", '{"settings": {"exa'])
def test_a_strange_manifest_is_refused(tmp_path, content):
    (tmp_path / "manifest.json").write_text(content)
    with pytest.raises(UserError, match="must be build-data's. Received: .*manifest.json"):
        find_records(tmp_path)


def test_a_missing_file_is_named(tmp_path, static):
    (tmp_path / "manifest.json").write_bytes((static.path / "manifest.json").read_bytes())
    with pytest.raises(UserError, match="examples-00000-of-00005.tfrecord, which is missing"):
        find_records(tmp_path)


@pytest.fixture
def truncated(tmp_path, static):
    for path in static.path.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    cut = tmp_path / "examples-00003-of-00005.tfrecord"
    cut.write_bytes(cut.read_bytes()[:-7])
    return tmp_path


def test_a_truncated_file_is_named(truncated):
    with pytest.raises(UserError, match=r"Received: .*examples-00003-of-00005.tfrecord, \d+ bytes"):
        find_records(truncated)
    with pytest.raises(UserError, match="must be whole. Received: .*examples-00003-of-00005.tfre"):
        find_records(f"{truncated}/*.tfrecord")


def test_files_of_something_else_are_refused(tmp_path, dynamic):
    empty, other = tmp_path / "empty.tfrecord", tmp_path / "other.tfrecord"
    empty.touch()
    with pytest.raises(UserError, match="must be records. Received: none in .*empty.tfrecord"):
        find_records(empty)
    with pytest.raises(UserError, match="Received: .* with next_sentence_labels, segment_a, segm"):
        find_records(f"{dynamic.path}/*.tfrecord")
    other.write_bytes(records.frame(b"\xffno example"))
    with pytest.raises(UserError, match="must be of tf.train.Example. Received: .*other.tfrecord"):
        find_records(other)
    with pytest.raises(UserError, match="matches no file"):
        find_records(tmp_path / "none*.tfrecord")


def test_options_of_another_version_are_refused(tmp_path):
    settings = {"examples": {"max_seq_length": 40, "knots": 3}}
    manifest = {"settings": settings, "shards": [], "totals": {}}
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(UserError, match="must be known ones. Received: knots"):
        find_records(tmp_path)
