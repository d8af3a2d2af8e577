"""What a driver does before and after, with an engine of a few lines in the place of Spark's."""

from operator import itemgetter

import pytest

from albert_tf.data.jobs import scratch, tasks
from albert_tf.data.jobs.cluster import run_on
from albert_tf.data.jobs.local import run_local
from albert_tf.errors import UserError


def engine(job, missing):
    """Sorts in memory what engines shuffle."""
    dealt = [pair for part in scratch.parts(job) for pair in tasks.deal(part, job, missing)]
    dealt.sort(key=itemgetter(0))
    counts = tasks.total(value for bucket, value in dealt if bucket == job.buckets)
    made = tasks.write_all((pair for pair in dealt if pair[0] < job.buckets), job)
    return counts, [report for reports in made for report in reports]


def broken(job, missing):
    raise AssertionError("nothing is left to do")


def test_the_same_files_as_on_one_machine(make, finished, content, tmp_path):
    outcome = run_on(engine, make(tmp_path / "examples"))
    assert content(tmp_path / "examples") == content(finished)
    assert len(outcome.made) == 15


def test_a_bucket_without_a_document_is_written_too(make, content, tmp_path):
    buckets = 211
    run_on(engine, make(tmp_path / "here", buckets=buckets))
    outcome = run_local(make(tmp_path / "there", buckets=buckets), 1)
    assert min(shard.records for shard in outcome.manifest.shards) == 0
    assert content(tmp_path / "here") == content(tmp_path / "there")


def test_goes_on_where_it_was(make, finished, content, tmp_path):
    """What has no manifest yet and what has one, each with two files lost."""
    job = make(tmp_path / "examples")

    def stopped(job, missing):
        engine(job, {1, 4})
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_on(stopped, job)
    made = [run_on(engine, job).made]
    assert content(job.folder) == content(finished)
    for name in made[0][:2]:
        (job.folder / name).unlink()
    made.append(run_on(engine, job).made)
    assert content(job.folder) == content(finished)
    assert [len(each) for each in made] == [9, 2]
    assert run_on(broken, job).made == ()


def test_an_error_of_a_worker_is_the_users(make, tmp_path):
    def stumbling(job, missing):
        with tasks._told():
            raise UserError("A line must be UTF-8. Received: a.txt, line 31.")

    with pytest.raises(UserError, match="^A line must be UTF-8. Received: a.txt, line 31.$"):
        run_on(stumbling, make(tmp_path / "examples"))


def test_an_error_of_the_engine_stays_its_own(make, tmp_path):
    def lost(job, missing):
        raise ConnectionError("no executors")

    with pytest.raises(ConnectionError, match="no executors"):
        run_on(lost, make(tmp_path / "examples"))


def test_workers_elsewhere_get_an_absolute_path(make, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    seen = []

    def looking(job, missing):
        seen.append(job.output)
        return engine(job, missing)

    run_on(looking, make("examples"))
    assert seen == [str(tmp_path / "examples")]
