import dataclasses
import json
import math
import shutil
from pathlib import Path

import pytest
import tensorflow as tf

from albert_tf.data.pretraining import records
from albert_tf.data.pretraining.batches import (
    dynamic_batch,
    evaluation_batches,
    static_batch,
    whole_records,
)
from albert_tf.data.pretraining.masking import word_table
from albert_tf.data.pretraining.options import ExampleOptions
from albert_tf.data.pretraining.sources import find_records
from albert_tf.errors import UserError
from tests.data.pretraining.conftest import COUNTS, P, T


def test_a_directory_is_what_its_manifest_says(static, dynamic):
    for directory in (static, dynamic):
        files = find_records(directory.source)
        assert files.counts == COUNTS
        assert Path(files.paths[2]).name == "examples-00002-of-00005.tfrecord"
        assert (files.max_seq_length, files.predictions) == (T, P)
    assert find_records(static.source).dynamic is None
    local, remote = find_records(dynamic.path), find_records(f"file://{dynamic.path}")
    assert local.dynamic == ExampleOptions(max_seq_length=T, max_predictions_per_seq=P)
    assert len(local.table.starts) == dynamic.tokenizer.vocab_size
    assert (remote.counts, remote.dynamic) == (local.counts, local.dynamic)
    assert remote.paths == tuple(f"file://{path}" for path in local.paths)


def test_several_directories(tmp_path, dynamic, static):
    one, other = find_records(dynamic.path), tmp_path / "other"
    shutil.copytree(dynamic.path, other)
    both = find_records([dynamic.path, other])
    assert both.counts == 2 * one.counts
    assert both.paths[: len(COUNTS)] == one.paths
    assert both.paths[len(COUNTS) :] == find_records(other).paths
    assert (both.dynamic, both.vocab_size) == (one.dynamic, one.vocab_size)
    with pytest.raises(UserError, match=f"Received: {other} and {static.path}"):
        find_records([other, static.source])
    content = json.loads((other / "manifest.json").read_text())
    content["settings"]["examples"]["max_predictions_per_seq"] += 1
    (other / "manifest.json").write_text(json.dumps(content))
    with pytest.raises(UserError, match=f"Received: {dynamic.path} and {other}, which differ"):
        find_records([dynamic.path, other])


def test_epochs_have_full_batches(static):
    files = find_records(static.source)
    assert [files.steps_per_epoch(size) for size in (4, 8, 59)] == [14, 7, 1]
    with pytest.raises(UserError, match="59 records .* batch of 60"):
        files.steps_per_epoch(60)


SHARD = '{"settings": {"examples": {}}, "shards": [%s]}'


def test_a_strange_manifest_is_refused(tmp_path):
    for content in (
        "[]",
        '{"settings": {"exa',
        "[" * 100_000,
        "\udcff",
        '{"settings": {}, "shards": []}',
        '{"settings": {"examples": []}, "shards": []}',
        SHARD % '{"file": "a", "records": 1}',
        SHARD % '{"file": "../a", "records": 1, "bytes": 3}',
        SHARD % '{"file": "a", "records": -1, "bytes": 3}',
        SHARD % '{"file": "a", "records": "1", "bytes": 3}',
    ):
        (tmp_path / "manifest.json").write_text(content, errors="surrogateescape")
        with pytest.raises(UserError, match="manifest.json is damaged"):
            find_records(tmp_path)


def test_a_truncated_or_missing_file_is_named(tmp_path, dynamic):
    shutil.copytree(dynamic.path, tmp_path, dirs_exist_ok=True)
    cut = tmp_path / "examples-00003-of-00005.tfrecord"
    cut.write_bytes(cut.read_bytes()[:-7])
    with pytest.raises(UserError, match=rf"{cut.name} has \d+ bytes"):
        find_records(tmp_path)
    with pytest.raises(UserError, match=f"^Record 30 of .*{cut.name}"):
        find_records(f"{tmp_path}/*.tfrecord")
    cut.unlink()
    with pytest.raises(UserError, match=f"{cut.name} is missing"):
        find_records(tmp_path)


def test_files_of_something_else_are_refused(tmp_path, dynamic):
    empty, other = tmp_path / "empty.tfrecord", tmp_path / "other.tfrecord"
    empty.touch()
    other.write_bytes(records.frame(b"\xffno example"))
    for source, message in (
        (tmp_path, f"^{tmp_path} contains no manifest.json"),
        (empty, "^No records in .*empty.tfrecord"),
        (other, "^Record 0 of .*other.tfrecord is not a tf.train.Example"),
        (dynamic.path / "*.tfrecord", "Received: .* with next_sentence_labels, segment_a, segm"),
        (tmp_path / "none*.tfrecord", "none.*.tfrecord"),
    ):
        with pytest.raises(UserError, match=message):
            find_records(source)


def test_a_strange_table_of_words_is_refused(tmp_path, dynamic):
    shutil.copytree(dynamic.path, tmp_path, dirs_exist_ok=True)
    table = word_table(dynamic.tokenizer).as_json()
    strange = ({"vocab_size": 2**40}, {"vocab_size": "é"}, {"mask_id": 124}, {"random": "AA=="})
    for content in ([], *(table | change for change in strange)):
        (tmp_path / "words.json").write_text(json.dumps(content))
        with pytest.raises(UserError, match="words.json is missing or damaged"):
            find_records(tmp_path)
    (tmp_path / "words.json").unlink()
    with pytest.raises(UserError, match="words.json is missing or damaged"):
        find_records(tmp_path)


IN_A_GRAPH = 4  # rows of each table, one for each kind of TensorFlow's messages
STATIC = [
    ("input_ids", [-1] * 40, "input_ids must be .* Received: -1"),
    ("input_mask", None, "Feature: input_mask"),
    ("input_ids", [1] * 39, "Key: input_ids"),
    (None, b"\xff\xfe no example", "no tf.train.Example"),
    ("masked_lm_ids", [], "Key: masked_lm_ids"),
    ("masked_lm_ids", [2**31] * 5, "masked_lm_ids must be .* Received: 2147483648"),
    ("masked_lm_positions", [40] * 5, "masked_lm_positions must be .* Received: 40"),
    ("input_mask", [2] * 40, "input_mask must be .* Received: 2"),
    ("masked_lm_weights", [math.nan] * 5, "masked_lm_weights must be .* Received: "),
    ("masked_lm_weights", [math.inf] * 5, "masked_lm_weights must be .* Received: "),
    ("masked_lm_weights", [1] * 5, "Key: masked_lm_weights.* int64"),
    ("input_ids", [1.5] * 40, "Key: input_ids.* float"),
    ("next_sentence_labels", [7], "next_sentence_labels must be .* Received: 7"),
    ("next_sentence_labels", [0, 1], "Key: next_sentence_labels"),
]
DYNAMIC = [
    ("segment_b", [], "segment_b must contain tokens"),
    ("segment_a", [7] * 38, "at most 40 tokens. Received: "),
    ("segment_a", [10**6], "segment_a and segment_b must be .* Received: 1000000"),
    (None, b"no\nexample", "no tf.train.Example"),
    ("segment_b", None, "segment_b must contain tokens"),
    ("segment_b", [-3], "segment_a and segment_b must be .* Received: -3"),
]


@pytest.mark.parametrize(
    ("mode", "parse", "table", "before"),
    [("static", static_batch, STATIC, 1), ("dynamic", dynamic_batch, DYNAMIC, 0)],
)
def test_records_are_checked_as_they_are_read(tmp_path, request, mode, parse, table, before):
    """The message names the record and its file."""
    directory = request.getfixturevalue(mode)
    files = find_records(directory.source)
    valid = [records.encode(directory.record(number)) for number in range(4)]
    paths = [str(tmp_path / name) for name in ("valid", "invalid")]
    Path(paths[0]).write_bytes(b"".join(map(records.frame, valid[: 4 * before])))
    files = dataclasses.replace(files, paths=tuple(paths), counts=(4 * before, before + 2))
    dataset = evaluation_batches(files, 5)
    for row, (name, value, message) in enumerate(table):
        features = directory.record(5) | {name: value}
        changed = {key: found for key, found in features.items() if found is not None}
        record = records.encode(changed) if name else value
        content = [*valid[:before], record, valid[3]]
        Path(paths[1]).write_bytes(b"".join(map(records.frame, content)))
        place = rf"^Invalid .*{message}.* .record {before} of {paths[1]}"
        with pytest.raises(UserError, match=place), whole_records(files):
            if row < IN_A_GRAPH:
                list(dataset)
            else:
                parse(tf.zeros(len(content), tf.uint64), tf.constant(content), files, None)


def test_ids_stay_below_a_models_vocabulary(static):
    files = dataclasses.replace(find_records(static.source), vocab_size=60)
    stored = tf.constant([records.encode(static.record(58))])
    message = r"input_ids must be from 0 to 59. Received: 6\d"
    with pytest.raises(UserError, match=message), whole_records(files):
        static_batch(None, stored, files, None)


def test_records_damaged_since(tmp_path, static):
    shutil.copytree(static.path, tmp_path, dirs_exist_ok=True)
    files = find_records(f"{tmp_path}/*.tfrecord")
    path = tmp_path / "examples-00004-of-00005.tfrecord"
    content = bytearray(path.read_bytes())
    content[-9] ^= 1
    path.write_bytes(content)
    with pytest.raises(UserError, match="^Record 5 of .*4-of.* is damaged"), whole_records(files):
        list(tf.data.TFRecordDataset(files.paths))


def test_other_errors_stay(static):
    with pytest.raises(tf.errors.InvalidArgumentError, match="^another$"):  # noqa: SIM117
        with whole_records(find_records(static.source)):
            raise tf.errors.InvalidArgumentError(None, None, "another")
