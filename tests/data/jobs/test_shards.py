import hashlib

import pytest

from albert_tf.data.corpus.documents import Document
from albert_tf.data.jobs.shards import file_name, kept, read_report, write_bucket
from albert_tf.data.pretraining.records import decode, read_records
from tests.conftest import SENTENCES

DOCUMENTS = [
    Document(name, 100 * number, "\n".join(SENTENCES[number:] + SENTENCES[:number]).encode())
    for name in ("b.txt", "a.txt")
    for number in range(8)
]


@pytest.fixture
def job(make, tmp_path):
    (tmp_path / "examples").mkdir()
    return make(tmp_path / "examples", buckets=7)


def test_names_count_over_copies_and_buckets(job):
    assert [file_name(job, *each) for each in ((0, 0), (0, 6), (2, 6))] == [
        "examples-00000-of-00021.tfrecord",
        "examples-00006-of-00021.tfrecord",
        "examples-00020-of-00021.tfrecord",
    ]


def test_a_file_is_a_function_of_its_documents_in_any_order(job, make, content, tmp_path):
    reports = write_bucket(job, 4, DOCUMENTS)
    (tmp_path / "again").mkdir()
    again = make(tmp_path / "again", buckets=7)
    assert write_bucket(again, 4, DOCUMENTS[::-1]) == reports
    assert content(again.folder) == content(job.folder)


def test_reports_say_what_is_in_the_files(job):
    reports = write_bucket(job, 4, DOCUMENTS)
    assert [report.file for report in reports] == [file_name(job, copy, 4) for copy in range(3)]
    for copy, report in enumerate(reports):
        path = job.folder / report.file
        assert len(list(read_records(path))) == report.records == report.counts["examples"] > 20
        assert path.stat().st_size == report.bytes
        assert hashlib.sha256(path.read_bytes()).hexdigest() == report.sha256
        assert read_report(job, report.file) == report == kept(job, report.file)
        assert ("tokens" in report.counts) == (copy == 0)  # counted once, not for each copy
    assert len({report.sha256 for report in reports}) == 3


def test_records_are_shuffled_across_documents(job):
    write_bucket(job, 4, DOCUMENTS)
    rows = [
        tuple(decode(record)["input_ids"])
        for record in read_records(job.folder / file_name(job, 1, 4))
    ]
    assert len(rows) == len({*rows})
    assert rows != sorted(rows)


def test_what_is_there_and_right_is_kept(job):
    write_bucket(job, 4, DOCUMENTS)
    (job.folder / file_name(job, 0, 4)).write_bytes(b"")
    (job.folder / file_name(job, 2, 4)).unlink()
    before = (job.folder / file_name(job, 1, 4)).stat().st_ino
    made = []
    reports = write_bucket(job, 4, DOCUMENTS, made.append)
    assert made == [reports[0], reports[2]]
    assert (job.folder / file_name(job, 1, 4)).stat().st_ino == before
    assert all(kept(job, report.file) for report in reports)
    assert "tokens" in reports[0].counts
    assert write_bucket(job, 4, [], made.append) == reports and len(made) == 2


def test_a_bucket_without_a_document_is_an_empty_file(job):
    reports = write_bucket(job, 3, [])
    assert [(report.records, report.bytes, report.counts) for report in reports] == [(0, 0, {})] * 3
    assert list(read_records(job.folder / reports[0].file)) == []
