import pytest

from albert_tf.data.jobs.manifest import (
    differences,
    make_manifest,
    read_manifest,
    require_same,
    write_manifest,
)
from albert_tf.data.jobs.shards import ShardReport
from albert_tf.errors import UserError

SHARDS = [
    ShardReport("b", 3, 50, "beef", {"examples": 3, "single_words": 1}),
    ShardReport("a", 2, 40, "cafe", {"examples": 2, "tokens": 11}),
]


def test_it_reads_as_it_was_written(make, tmp_path):
    job = make(tmp_path / "examples")
    made = make_manifest(job, {"documents": 7, "bytes": 60}, SHARDS)
    assert made.totals == {
        "bytes": 60,
        "documents": 7,
        "examples": 5,
        "single_words": 1,
        "tokens": 11,
    }
    assert [shard.file for shard in made.shards] == ["a", "b"]
    assert made.settings == job.settings()
    write_manifest(tmp_path, made, tmp_path / "work")
    assert read_manifest(tmp_path) == made
    first = (tmp_path / "manifest.json").read_bytes()
    again = make_manifest(job, {"bytes": 60, "bad_lines": 0, "documents": 7}, SHARDS[::-1])
    write_manifest(tmp_path, again, tmp_path / "work")
    assert (tmp_path / "manifest.json").read_bytes() == first


@pytest.mark.parametrize("text", ["", "{", "[]", '{"kind": "another"}'])
def test_what_is_no_manifest_of_ours_is_none(tmp_path, text):
    assert read_manifest(tmp_path) is None
    (tmp_path / "manifest.json").write_text(text)
    assert read_manifest(tmp_path) is None


def test_differences_are_told_with_both_values():
    then = {"seed": 1, "inputs": {"a": 5, "b": 6}, "examples": {"ngram": 3}, "same": [1]}
    now = {"seed": 2, "inputs": {"a": 7, "c": None}, "examples": {"ngram": 2}, "same": [1]}
    assert differences(then, now) == [
        "ngram: 3 then, 2 now",
        "inputs a: 5 then, 7 now",
        "inputs b: 6 then, nothing now",
        "inputs c: nothing then, None now",
        "seed: 1 then, 2 now",
    ]


def test_many_differences_are_counted(tmp_path):
    then = {"inputs": {str(number): number for number in range(9)}}
    require_same(tmp_path, then, then)
    with pytest.raises(UserError, match=r"inputs 0: 0 then, nothing now; .* and 4 more. Give"):
        require_same(tmp_path, then, {"inputs": {}})
