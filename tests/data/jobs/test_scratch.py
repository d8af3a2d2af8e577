import random
from collections import Counter

import pytest

from albert_tf.data.corpus.documents import documents, splits
from albert_tf.data.jobs import scratch
from albert_tf.data.jobs.job import bucket_of

RUNS = [10, 100, 40 << 20]  # bytes that are held before they are written


@pytest.fixture
def job(make, tmp_path):
    return make(tmp_path / "examples", buckets=7)


def deal_all(job, buckets=None, tell=lambda news: None):
    return [scratch.deal(job, part, buckets, tell) for part in scratch.parts(job)]


def found(job, buckets):
    runs = scratch.run_files(job)
    return [scratch.bucket_documents(job, bucket, runs) for bucket in buckets]


def expected(job):
    counts = Counter()
    all_splits = splits(job.inputs, job.corpus)
    return [each for split in all_splits for each in documents(split, job.corpus, counts)], counts


@pytest.mark.parametrize("held", RUNS)
def test_every_document_comes_back_from_its_bucket(job, held, monkeypatch):
    monkeypatch.setattr(scratch, "HELD_BYTES", held)
    reports = deal_all(job)
    assert (len(scratch.run_files(job)) > len(reports)) == (held < 1000)
    given, counts = expected(job)
    assert len(given) == 96
    buckets = found(job, range(7))
    for number, bucket in enumerate(buckets):
        assert sorted(bucket) == sorted(each for each in given if bucket_of(job, each) == number)
    assert sum((Counter(report.counts) for report in reports), Counter()) == +counts


def test_only_wanted_buckets_are_kept_and_all_is_counted(job):
    reports = deal_all(job, {2, 5})
    assert [bool(bucket) for bucket in found(job, range(7))] == [n in (2, 5) for n in range(7)]
    assert sum(report.counts.get("documents", 0) for report in reports) == 96
    part = scratch.parts(job)[0]
    assert scratch.kept(job, part, [5]) == reports[0]
    assert scratch.kept(job, part, [5, 6]) is None
    assert scratch.kept(job, part, None) is None


def test_what_is_told_adds_up_to_the_size_of_the_corpus(job, monkeypatch):
    monkeypatch.setattr(scratch, "NEWS_BYTES", 700)
    told = []
    deal_all(job, tell=told.append)
    assert len(told) > 2 * len(scratch.parts(job))
    assert sum(news["documents"] for news in told) == 96
    assert sum(news["advance"] for news in told) == sum(
        part.text_bytes for part in scratch.parts(job)
    )


def test_small_files_share_a_part_and_large_ones_are_cut(make, tmp_path):
    sizes = [random.Random(3).randint(1, 300) for _ in range(50)] + [2500]
    (tmp_path / "texts").mkdir()
    for number, size in enumerate(sizes):
        (tmp_path / "texts" / f"{number:02d}.txt").write_text("a" * size)
    job = make(tmp_path / "out", inputs=[tmp_path / "texts"], corpus={"split_bytes": 1000})
    parts = scratch.parts(job)
    assert len(parts) < 20
    assert all(part.text_bytes <= 1000 for part in parts)
    assert [split for part in parts for split in part.splits] == splits(job.inputs, job.corpus)
    assert len({part.name for part in parts}) == len(parts)


def test_a_damaged_run_or_report_is_dealt_again_and_strangers_go(job, make, tmp_path):
    reports = deal_all(job)
    parts = scratch.parts(job)
    folder = job.folder / scratch.FOLDER
    assert [scratch.kept(job, part, None) for part in parts] == reports
    run = folder / reports[0].runs[0].file
    run.write_bytes(run.read_bytes()[:-1] + b"\1")
    (folder / f"{parts[1].name}.json").write_text('{"name": ')
    (folder / reports[2].runs[0].file).unlink()
    assert [scratch.kept(job, part, None) for part in parts] == [None] * 3 + reports[3:]
    scratch.tidy(job, reports[3:])
    assert {path.name for path in scratch.run_files(job)} == {
        run.file for report in reports[3:] for run in report.runs
    }
    otherwise = make(tmp_path / "examples", buckets=7, corpus={"split_bytes": 2000})
    assert not any(scratch.kept(otherwise, part, None) for part in scratch.parts(otherwise)[1:])
