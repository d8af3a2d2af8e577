import dataclasses
import json

import pytest

from albert_tf.data.corpus.documents import Document
from albert_tf.data.corpus.files import InputFile
from albert_tf.data.jobs import job as jobs
from albert_tf.data.jobs import spark
from albert_tf.data.jobs.job import (
    FILE_BYTES,
    Output,
    default_shard_bytes,
    make_part,
)
from albert_tf.errors import UserError

SIZES = {"a.txt": 25_000, "b.txt.gz": 9_000, "c/1.txt": 300, "c/2.txt": 0, "c/3.txt": 400}


@pytest.fixture
def sized(make, tmp_path):
    """Creates a job on files of zeros with these sizes."""
    job = make(tmp_path / "examples")

    def sized(sizes):
        files = tuple(InputFile(f"/{name}", name, size) for name, size in sizes.items())
        return dataclasses.replace(job, inputs=files, shard_bytes=10_000)

    return sized


@pytest.fixture
def job(make, tmp_path):
    """Returns a job whose output is ready for its workers."""
    job = make(tmp_path / "examples")
    output = Output(job.output)
    with output.locked():
        output.write_json(output.SETTINGS, job.settings())
        for name, content in job.tokenizer:
            output.write(name, content)
    return job


def test_settings_are_json_and_contain_all_that_the_bytes_depend_on(make, corpus, tmp_path):
    settings = make(tmp_path / "a", random_seed=6).settings()
    assert settings == json.loads(json.dumps(settings))
    names = ["a.txt", "b.txt.gz", "c.jsonl", "d/a.txt", "d/e/empty.txt"]
    assert settings["inputs"] == {name: (corpus / name).stat().st_size for name in names}
    assert settings["examples"]["random_seed"] == 6
    assert settings["tokenizer"]["do_lower_case"] is True
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


@pytest.mark.parametrize(
    ("name", "size", "expected"),
    [
        ("a.txt", 200_000, 64 << 10),
        ("a.txt", 10_000_007, 208_333),
        ("a.txt.gz", 16 << 20, 1 << 20),
        ("a.txt", 2 << 30, 8 << 20),
    ],
)
def test_a_small_corpus_has_small_shards(name, size, expected):
    size = default_shard_bytes([InputFile(name, name, size)])
    assert (size, type(size)) == (expected, int)


def test_an_output_in_the_input_or_around_it_is_refused(make, corpus):
    for output in (corpus, corpus / "examples", corpus.parent, corpus / "a.txt"):
        with pytest.raises(UserError, match=r"output folder must not contain.*Choose"):
            make(output)
    make(corpus.parent / "examples")


def test_examples_are_shuffled(job, monkeypatch):
    ranks = []
    records = jobs.ExampleMaker.records

    def spied(self, *arguments):
        for rank, record in records(self, *arguments):
            ranks.append(rank)
            yield rank, record

    monkeypatch.setattr(jobs.ExampleMaker, "records", spied)
    (shard,) = make_part(job, job.parts()[0]).shards
    assert len(ranks) == shard.records
    assert ranks != sorted(ranks), "the text's order is another one"


@pytest.mark.parametrize("count", [1, 9, 14, 15, 16, 40])
def test_groups_have_no_small_rest(count):
    documents = [Document("a.txt", number, b"x" * 44) for number in range(count)]  # 300 bytes each
    groups = list(jobs._groups(documents, 3000))
    assert [document for group in groups for document in group] == documents
    assert all(len(group) <= 15 for group in groups)
    assert count < 10 or all(len(group) >= 5 for group in groups)


def test_an_error_of_a_worker_reaches_the_driver_as_a_file(job, monkeypatch):
    def refuse(job, part):
        raise UserError("A line must be UTF-8. Received: a.txt, line 31.")

    part, other = job.parts()[:2]
    with monkeypatch.context() as patch:
        patch.setattr(spark, "make_part", refuse)
        spark._make(job, part)
    spark._make(job, other)  # does nothing
    assert not Output(job.output).sizes(Output.REPORTS)
    with pytest.raises(UserError, match="^A line must be UTF-8. Received: a.txt, line 31.$"):
        spark._reports(job, [part])


def test_workers_that_see_another_folder_are_an_error(job, make, tmp_path):
    elsewhere = make(tmp_path / "elsewhere")
    spark._make(elsewhere, job.parts()[0])
    with pytest.raises(UserError, match="under the same path. Received: .*, where 1 of 1 parts"):
        spark._reports(job, job.parts()[:1])
