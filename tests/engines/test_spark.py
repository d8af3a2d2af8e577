"""Spark writes the same files as a single machine, even if workers are lost."""

import functools
import os
import sys

import fsspec
import pytest

from albert_tf.data.jobs import run, spark
from albert_tf.data.jobs.run import run_job
from albert_tf.data.jobs.spark import map_on_spark
from albert_tf.errors import UserError

pytest.importorskip("pyspark")
pytestmark = pytest.mark.engines


@pytest.fixture
def output(tmp_path):
    return tmp_path / "examples"


def run_spark(job, settings):
    return run_job(job, functools.partial(map_on_spark, settings=settings))


def test_the_same_files_as_on_one_machine(make, output, finished, read, spark_settings):
    outcome = run_spark(make(output), spark_settings)
    assert read(output) == read(finished)
    assert outcome.made == tuple(sorted(path.name for path in finished.glob("examples-*")))


def test_a_corpus_and_an_output_in_an_object_store(
    make, corpus, s3, finished, read, spark_settings
):
    store = fsspec.filesystem("s3")
    store.put(f"{corpus}/", f"{s3}/corpus/", recursive=True)
    job = make(f"{s3}/examples", inputs=[f"{s3}/corpus"])
    # The JVM may be older than the server; workers inherit its environment.
    keys = {name: value for name, value in os.environ.items() if name.startswith("AWS_")}
    environment = {f"spark.executorEnv.{name}": value for name, value in keys.items()}
    run_spark(job, {**spark_settings, **environment})
    store.invalidate_cache()
    found = {path.rsplit("/")[-1]: store.cat_file(path) for path in store.find(job.output)}
    assert found == read(finished)


def test_resumes(make, output, finished, read, spark_settings, monkeypatch):
    """Resumes a run without a manifest that lost a shard; a task has two parts."""
    monkeypatch.setattr(spark, "MOST_TASKS", 3)

    def stopped(*_):
        raise KeyboardInterrupt

    job = make(output)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(run, "_finish", stopped)
        run_spark(job, spark_settings)
    lost, *others = sorted(output.glob("examples-*"))
    lost.unlink()
    times = {path: path.stat().st_mtime_ns for path in others if part(path) != part(lost)}
    outcome = run_spark(job, spark_settings)
    assert read(output) == read(finished)
    assert {part(output / name) for name in outcome.made} == {part(lost)}
    assert {path: path.stat().st_mtime_ns for path in times} == times


def part(path):
    return path.name.split("-")[1]


def test_a_bad_line_is_one_clean_error(make, output, corpus, tmp_path, spark_settings, capfd):
    bad = tmp_path / "lines.jsonl"
    bad.write_text('{"text": "One. Two."}\nno JSON\n')
    with pytest.raises(UserError, match=r"lines\.jsonl.* 2\b"):
        run_spark(make(output, inputs=[corpus, bad]), spark_settings)
    noise = capfd.readouterr()
    assert "Traceback" not in noise.err + noise.out
    assert len((noise.err + noise.out).splitlines()) < 8


def test_a_python_without_the_packages_is_an_error(make, output, spark_settings, monkeypatch):
    outside_any_environment = os.path.realpath(sys.executable)
    monkeypatch.setenv("PYSPARK_PYTHON", outside_any_environment)
    message = r"can't run albert_tf: No module named '[\w.]+'"
    with pytest.raises(UserError, match=message):
        run_spark(make(output), spark_settings)


def test_a_master_that_does_not_exist(make, output, spark_settings):
    with pytest.raises(UserError, match="can't run albert_tf: .*nonsense"):
        run_spark(make(output), {**spark_settings, "spark.master": "nonsense"})
