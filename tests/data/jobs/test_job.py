import json
from pathlib import Path

import pytest

from albert_tf.data.corpus.files import InputFile
from albert_tf.data.jobs.job import FILE_BYTES, Job, default_shard_bytes
from albert_tf.errors import UserError

SIZES = {"a.txt": 25_000, "b.txt.gz": 9_000, "c/1.txt": 300, "c/2.txt": 0, "c/3.txt": 400}


@pytest.fixture
def sized(make, tmp_path):
    """Makes a job on files of zeros with the given sizes."""
    job = make(tmp_path / "examples")

    def sized(sizes, shard_bytes=10_000):
        files = tuple(InputFile(f"/{name}", name, size) for name, size in sizes.items())
        fields = {**vars(job), "inputs": files, "shard_bytes": shard_bytes}
        return Job(**fields)

    return sized


def test_settings_are_json_and_contain_all_that_the_bytes_depend_on(make, corpus, tmp_path):
    settings = make(tmp_path / "a", random_seed=6).settings()
    assert settings == json.loads(json.dumps(settings))
    names = ["a.txt", "b.txt.gz", "c.jsonl", "d/a.txt", "d/e/empty.txt"]
    assert settings["inputs"] == {name: (corpus / name).stat().st_size for name in names}
    assert settings["examples"]["random_seed"] == 6
    assert settings["tokenizer"]["do_lower_case"] is True
    assert len(settings["tokenizer"]["spiece.model"]) == 64
    assert settings == make(tmp_path / "b", random_seed=6).settings()
    assert settings != make(tmp_path / "b", random_seed=7).settings()
    assert settings != make(tmp_path / "b", random_seed=6, shard_bytes=5000).settings()


def test_parts_are_ranges_whole_gz_files_and_groups_of_small_files(sized):
    parts = sized(SIZES).parts()
    assert [
        [(split.file.name, split.start, split.end) for split in part.splits] for part in parts
    ] == [
        [("a.txt", 0, 8333)],
        [("a.txt", 8333, 16666)],
        [("a.txt", 16666, 25_000)],
        [("b.txt.gz", 0, None)],
        [("c/1.txt", 0, 300), ("c/3.txt", 0, 400)],
    ]
    assert [part.number for part in parts] == [0, 1, 2, 3, 4]
    assert [part.text_bytes for part in parts] == [8333, 8333, 8334, 27_000, 700]


def test_a_part_has_a_bounded_number_of_small_files(sized):
    parts = sized({f"{number}.txt": 1 for number in range(1000)}).parts()
    assert max(len(part.splits) for part in parts) <= 10_000 // FILE_BYTES


def test_workers_get_a_small_job(make, tmp_path):
    job = make(tmp_path / "examples").for_workers()
    assert job.inputs == ()
    assert all(len(digest) == 32 for _, digest in job.tokenizer)


@pytest.mark.parametrize(
    ("name", "size", "expected"),
    [
        ("a.txt", 200_000, 64 << 10),
        ("a.txt", 48 << 20, 1 << 20),
        ("a.txt.gz", 16 << 20, 1 << 20),
        ("a.txt", 2 << 30, 8 << 20),
    ],
)
def test_a_small_corpus_has_small_shards(name, size, expected):
    assert default_shard_bytes([InputFile(name, name, size)]) == expected


def test_an_output_in_the_input_or_around_it_is_refused(make, corpus):
    for output in (corpus, corpus / "examples", corpus.parent, corpus / "a.txt"):
        with pytest.raises(UserError, match=r"must not be in the input.*Choose another folder"):
            make(output)
    make(corpus.parent / Path("examples"))


def test_shards_that_are_too_small_are_refused(make, tmp_path):
    with pytest.raises(UserError, match=r"shard_bytes must be between 1024 and .* Received: 0"):
        make(tmp_path, shard_bytes=0)
