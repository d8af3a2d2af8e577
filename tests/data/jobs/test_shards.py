import hashlib

import pytest

from albert_tf.data.corpus.documents import Document
from albert_tf.data.jobs import shards
from albert_tf.data.jobs.output import Output
from albert_tf.data.jobs.run import reports_of
from albert_tf.data.jobs.shards import attempt_part, make_part
from albert_tf.data.pretraining.records import read_records
from albert_tf.errors import UserError


@pytest.fixture
def job(make, tmp_path):
    """Returns a job whose output is ready for its workers."""
    job = make(tmp_path / "examples")
    output = Output(job.output)
    with output.locked():
        output.write_json(shards.SETTINGS, job.settings())
        for name, content in job.tokenizer:
            output.write(name, content)
    return job


def test_the_report_describes_the_shards(job, tmp_path):
    for part in job.parts():
        report = make_part(job.for_workers(), part)
        assert report == reports_of(job, [part])[0]
        assert report.counts["examples"] == sum(shard.records for shard in report.shards)
        for number, shard in enumerate(report.shards):
            assert shard.file == f"examples-{part.number:06d}-{number:05d}.tfrecord"
            assert shard.part == part.number
            path = tmp_path / "examples" / shard.file
            assert len(list(read_records(path))) == shard.records > 0
            assert path.stat().st_size == shard.bytes
            assert hashlib.sha256(path.read_bytes()).hexdigest() == shard.sha256


def test_copies_differ_and_their_examples_are_shuffled(job, monkeypatch):
    ranks = []
    records = shards.ExampleMaker.records

    def spied(self, *arguments):
        pairs = list(records(self, *arguments))
        ranks.append([rank for rank, _ in pairs])
        return pairs

    monkeypatch.setattr(shards.ExampleMaker, "records", spied)
    found = make_part(job.for_workers(), job.parts()[0]).shards
    assert len({shard.sha256 for shard in found}) == len(ranks) == 3
    assert all(each != sorted(each) for each in ranks), "the text's order is another one"


def test_progress_ends_at_the_size_of_the_part(job):
    part = job.parts()[0]
    seen = []
    make_part(job.for_workers(), part, seen.append)
    assert seen == sorted(seen) and len(seen) == 4 and seen[-1] == part.text_bytes


@pytest.mark.parametrize("count", [1, 9, 14, 15, 16, 40])
def test_groups_have_no_small_rest(count):
    documents = [Document("a.txt", number, b"x" * 44) for number in range(count)]  # 300 bytes each
    groups = list(shards._groups(documents, 3000))
    assert [document for group in groups for document in group] == documents
    assert all(len(group) <= 15 for group in groups)
    assert count < 10 or all(len(group) >= 5 for group in groups)


def test_an_error_of_a_worker_reaches_the_driver_as_a_file(job, monkeypatch):
    def refuse(job, part):
        raise UserError("A line must be UTF-8. Received: a.txt, line 31.")

    part, other = job.parts()[:2]
    with monkeypatch.context() as patch:
        patch.setattr(shards, "make_part", refuse)
        attempt_part(job.for_workers(), part)
    attempt_part(job.for_workers(), other)  # does nothing
    assert not Output(job.output).sizes(shards.REPORTS)
    with pytest.raises(UserError, match="^A line must be UTF-8. Received: a.txt, line 31.$"):
        reports_of(job, [part])


def test_workers_that_see_another_folder_are_an_error(job, make, tmp_path):
    elsewhere = make(tmp_path / "elsewhere")
    attempt_part(elsewhere.for_workers(), job.parts()[0])
    with pytest.raises(UserError, match="under the same path. Received: .*, where 1 of 1 parts"):
        reports_of(job, job.parts()[:1])
