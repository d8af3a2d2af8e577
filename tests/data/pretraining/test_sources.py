import dataclasses
import json
import math
import shutil
import struct
from pathlib import Path

import fsspec
import pytest

from albert_tf.data.pretraining import records, sources
from albert_tf.data.pretraining.batches import evaluation_batches, whole_records
from albert_tf.data.pretraining.masking import word_table
from albert_tf.data.pretraining.options import ExampleOptions
from albert_tf.data.pretraining.sources import find_records
from albert_tf.errors import UserError

COUNTS = (13, 0, 9, 31, 6)


def test_a_directory_is_what_its_manifest_says(static, dynamic):
    for directory in (static, dynamic):
        files = find_records(directory.source)
        assert files.counts == COUNTS
        assert [path[-24:] for path in files.paths][2:3] == ["-00002-of-00005.tfrecord"]
        assert (files.max_seq_length, files.predictions) == (40, 5)
    assert find_records(static.source).dynamic is None
    files = find_records(str(dynamic.path))
    assert files.dynamic == ExampleOptions(max_seq_length=40, max_predictions_per_seq=5)
    assert len(files.table.starts) == dynamic.tokenizer.vocab_size


def test_files_alone_are_counted(static):
    listed = find_records([static.path / "examples-00002-of-00005.tfrecord"])
    assert listed.counts == (9,)


def test_a_directory_is_read_as_in_a_bucket(dynamic):
    local, remote = (find_records(f"{way}{dynamic.path}") for way in ("", "file://"))
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


def test_epochs_have_full_batches(static):
    files = find_records(static.source)
    assert [files.steps_per_epoch(size) for size in (4, 8, 59)] == [14, 7, 1]
    with pytest.raises(UserError, match="Received: 59 records, batch_size=60"):
        files.steps_per_epoch(60)


def test_an_unfinished_directory_is_refused(tmp_path):
    (tmp_path / "examples-00000-of-00001.tfrecord").touch()
    with pytest.raises(UserError, match="must be finished. Received: .*, without manifest.json"):
        find_records(tmp_path)


SHARD = '{"settings": {"examples": {}}, "shards": [%s]}'


@pytest.mark.parametrize(
    "content",
    [
        "{}",
        "[]",
        '{"settings": {"exa',
        "[" * 100_000,
        "\udcff",
        '{"settings": {}, "shards": []}',
        '{"settings": {"examples": []}, "shards": []}',
        '{"settings": {"examples": {}}, "shards": 3}',
        SHARD % '{"file": "a", "records": 1}',
        SHARD % '{"file": "../a", "records": 1, "bytes": 3}',
        SHARD % '{"file": "a", "records": -1, "bytes": 3}',
        SHARD % '{"file": "a", "records": 1, "bytes": 9223372036854775808}',
        SHARD % '{"file": "a", "records": "1", "bytes": 3}',
    ],
)
def test_a_strange_manifest_is_refused(tmp_path, content):
    (tmp_path / "manifest.json").write_text(content, errors="surrogateescape")
    with pytest.raises(UserError, match="must be build-data's. Received: .*manifest.json"):
        find_records(tmp_path)


def test_a_missing_file_is_named(tmp_path, dynamic):
    (tmp_path / "manifest.json").write_bytes((dynamic.path / "manifest.json").read_bytes())
    with pytest.raises(UserError, match="examples-00000-of-00005.tfrecord, which is missing"):
        find_records(tmp_path)


def test_a_truncated_file_is_named(tmp_path, dynamic):
    shutil.copytree(dynamic.path, tmp_path, dirs_exist_ok=True)
    cut = tmp_path / "examples-00003-of-00005.tfrecord"
    cut.write_bytes(cut.read_bytes()[:-7])
    with pytest.raises(UserError, match=r"Received: .*examples-00003-of-00005.tfrecord, \d+ bytes"):
        find_records(tmp_path)
    with pytest.raises(UserError, match="must be whole. Received: .*examples-00003-of-00005.tfre"):
        find_records(f"{tmp_path}/*.tfrecord")


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


@pytest.mark.parametrize(
    "change", [[], {"vocab_size": 2**40}, {"vocab_size": "é"}, {"mask_id": 124}, {"random": "AA=="}]
)
def test_a_strange_table_of_words_is_refused(tmp_path, dynamic, change):
    shutil.copytree(dynamic.path, tmp_path, dirs_exist_ok=True)
    found = word_table(dynamic.tokenizer).as_json()
    (tmp_path / "words.json").write_text(json.dumps(found))
    assert len(find_records(tmp_path).table.starts) == 124
    (tmp_path / "words.json").unlink()
    with pytest.raises(UserError, match="words.json, which is missing, damaged or another one"):
        find_records(tmp_path)
    (tmp_path / "words.json").write_text(json.dumps({**found, **change} if change else []))
    with pytest.raises(UserError, match="words.json must be build-data's. Received: .*words.json"):
        find_records(tmp_path)


STRANGE = [
    ("input_mask", None),
    ("masked_lm_weights", None),
    ("next_sentence_labels", None),
    ("input_ids", [1] * 39),
    ("segment_ids", [0] * 41),
    ("masked_lm_ids", []),
    ("input_ids", [-1] * 40),
    ("masked_lm_ids", [2**31] * 5),
    ("masked_lm_positions", [40] * 5),
    ("input_mask", [2] * 40),
    ("masked_lm_weights", [math.nan] * 5),
    ("masked_lm_weights", [math.inf] * 5),
    ("masked_lm_weights", [1] * 5),
    ("input_ids", [1.5] * 40),
    ("next_sentence_labels", [7]),
    ("next_sentence_labels", [0, 1]),
]
STRANGE_PAIRS = [
    ("segment_b", None),
    ("segment_b", []),
    ("segment_a", [7] * 38),
    ("segment_a", [10**6]),
    ("segment_b", [-3]),
]
EVERY = [("static", *each) for each in STRANGE] + [("dynamic", *each) for each in STRANGE_PAIRS]


def changed(directory, number, name, value):
    """Returns a record with another value of a feature, or without it."""
    record = {**directory.record(number), name: value}
    return records.encode({key: found for key, found in record.items() if found is not None})


def source_in(folder, directory):
    return folder if directory.options else folder / "*.tfrecord"


def with_record(folder, directory, place, record):
    """Copies a directory with another record at a place of its last file, of 6 records."""
    shutil.copytree(directory.path, folder, dirs_exist_ok=True)
    path = folder / "examples-00004-of-00005.tfrecord"
    found = list(records.read_records(path))
    found[place] = record
    path.write_bytes(b"".join(map(records.frame, found)))
    if directory.options:
        manifest = json.loads((folder / "manifest.json").read_text())
        manifest["shards"][4]["bytes"] = path.stat().st_size
        (folder / "manifest.json").write_text(json.dumps(manifest))
    return path


@pytest.mark.parametrize(("mode", "name", "value"), EVERY)
def test_records_are_checked_as_they_are_read(tmp_path, static, dynamic, mode, name, value):
    """The graph of batches ends with the same rule; `pretrain` shows it as a user's mistake."""
    directory = {"static": static, "dynamic": dynamic}[mode]
    with_record(tmp_path, directory, 3, changed(directory, 56, name, value))
    files = find_records(source_in(tmp_path, directory))
    with (
        pytest.raises(UserError, match=rf"^Records must be .*{name}.*build-data|most 40 pieces"),
        whole_records(),
    ):
        list(evaluation_batches(files, 8))


def test_ids_stay_below_a_models_vocabulary(static):
    files = dataclasses.replace(find_records(static.source), vocab_size=60)
    with (
        pytest.raises(UserError, match=r"input_ids must be from 0 to 59. Received: 6\d"),
        whole_records(),
    ):
        list(evaluation_batches(files, 8))


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [("dynamic", "static", "segment_a must have pieces"), ("static", "dynamic", "input_ids")],
)
def test_records_of_the_other_kind(tmp_path, request, first, second, message):
    directory, other = (request.getfixturevalue(name) for name in (first, second))
    with_record(tmp_path, directory, 3, records.encode(other.record(53)))
    files = find_records(source_in(tmp_path, directory))
    with pytest.raises(UserError, match=f"^Records must be .*{message}"), whole_records():
        list(evaluation_batches(files, 8))


@pytest.mark.parametrize("size", [2**63, 2**62, 2**64 - 1, 2**40])
def test_a_header_that_promises_too_much(tmp_path, static, size):
    """TensorFlow ends the process where a record claims 2^62 bytes."""
    shutil.copytree(static.path, tmp_path, dirs_exist_ok=True)
    path = tmp_path / "examples-00004-of-00005.tfrecord"
    length = struct.pack("<Q", size)
    content = path.read_bytes()
    path.write_bytes(length + records._checksum(length) + content[12:])
    with pytest.raises(UserError, match=f"must be whole. Received: record 0 of {path}"):
        find_records(tmp_path / "*.tfrecord")


def test_records_damaged_since_are_named_by_tensorflow(tmp_path, dynamic):
    shutil.copytree(dynamic.path, tmp_path, dirs_exist_ok=True)
    files = find_records(tmp_path)
    path = tmp_path / "examples-00004-of-00005.tfrecord"
    content = bytearray(path.read_bytes())
    content[-9] ^= 1
    path.write_bytes(content)
    with (
        pytest.raises(UserError, match="^Records must be whole .* Received: corrupted record at"),
        whole_records(),
    ):
        list(evaluation_batches(files, 8))
