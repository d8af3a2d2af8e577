import json
from collections import Counter
from pathlib import Path

import pytest

from albert_tf.data.corpus.documents import Document
from albert_tf.data.corpus.files import InputFile
from albert_tf.data.jobs.job import bucket_of, default_buckets
from albert_tf.errors import UserError

FIRST = [2, 2, 4, 0, 3, 3, 1, 5]


def test_settings_are_json_and_say_all_that_the_bytes_depend_on(make, corpus, tmp_path):
    settings = make(tmp_path / "a", random_seed=6).settings()
    assert settings == json.loads(json.dumps(settings))
    names = ["a.txt", "b.txt.gz", "c.jsonl", "d/a.txt", "d/e/empty.txt"]
    assert settings["inputs"] == {name: (corpus / name).stat().st_size for name in names}
    assert settings["examples"]["random_seed"] == 6
    assert settings["tokenizer"]["do_lower_case"] is True
    assert len(settings["tokenizer"]["spiece.model"]) == 64
    assert "split_bytes" not in settings["corpus"]
    assert settings == make(tmp_path / "b", random_seed=6, corpus={"split_bytes": 5}).settings()
    assert settings != make(tmp_path / "b", random_seed=7).settings()


def test_buckets_are_alike_and_for_ever_the_same(make, tmp_path):
    job = make(tmp_path, buckets=7)
    counts = Counter(bucket_of(job, Document("a.txt", n, b"")) for n in range(7000))
    assert sorted(counts) == [*range(7)]
    assert all(900 < count < 1100 for count in counts.values())
    first = [bucket_of(job, Document("a.txt", n, b"")) for n in range(8)]
    assert first == FIRST  # a change would leave no directory as it is


@pytest.mark.parametrize(
    ("name", "size", "buckets"),
    [
        ("a.txt", 0, 1),
        ("a.txt", 200_000, 1),
        ("a.txt", 1 << 20, 4),
        ("a.txt", 50 << 20, 32),
        ("a.txt.gz", 100 << 20, 38),
        ("a.txt", (2 << 30) + 1, 257),
    ],
)
def test_buckets_of_8_mb_but_enough_for_several_workers(name, size, buckets):
    assert default_buckets([InputFile(name, name, size)]) == buckets


@pytest.mark.parametrize("output", ["gs://bucket/examples", "s3://a"])
def test_an_output_without_a_file_system_is_refused(make, output):
    with pytest.raises(UserError, match=f"of a file system, .* Received: {output}. .*copy it"):
        make(output)


def test_an_output_in_the_input_or_around_it_is_refused(make, corpus):
    for output in (corpus, corpus / "examples", corpus.parent, corpus / "a.txt"):
        with pytest.raises(UserError, match=r"must not be in the input.*Choose another folder"):
            make(output)
    make(corpus.parent / Path("examples"))


def test_no_bucket_is_refused(make, tmp_path):
    with pytest.raises(UserError, match=r"buckets must be 1 or more. Received: 0"):
        make(tmp_path, buckets=0)
