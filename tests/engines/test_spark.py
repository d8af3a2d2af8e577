"""Spark writes the same files as a single machine, even if workers are lost."""

import dataclasses
import functools
import os
import sys
from pathlib import Path

import fsspec
import pytest

from albert_tf.data.corpus.files import find_inputs
from albert_tf.data.jobs import run, spark
from albert_tf.data.jobs.run import run_job
from albert_tf.data.jobs.spark import map_on_spark
from albert_tf.errors import UserError

pytest.importorskip("pyspark")
pytestmark = pytest.mark.engines


def run_spark(job, settings):
    return run_job(job, functools.partial(map_on_spark, settings=settings))


def test_the_same_files_as_on_one_machine(fresh, expected, read, spark_settings):
    outcome = run_spark(fresh, spark_settings)
    assert read(fresh.output) == expected
    assert outcome.made == tuple(sorted(name for name in expected if name.startswith("examples")))


def test_a_corpus_and_an_output_in_an_object_store(fresh, corpus, s3, expected, spark_settings):
    store = fsspec.filesystem("s3")
    store.put(f"{corpus}/", f"{s3}/corpus/", recursive=True)
    inputs = tuple(find_inputs([f"{s3}/corpus"]))
    job = dataclasses.replace(fresh, inputs=inputs, output=f"{s3}/examples")
    # The JVM may be older than the server; workers inherit its environment.
    keys = {name: value for name, value in os.environ.items() if name.startswith("AWS_")}
    environment = {f"spark.executorEnv.{name}": value for name, value in keys.items()}
    run_spark(job, {**spark_settings, **environment})
    store.invalidate_cache()
    found = {path.rsplit("/")[-1]: store.cat_file(path) for path in store.find(job.output)}
    assert found == expected


def test_resumes(fresh, expected, read, spark_settings, monkeypatch):
    """Resumes a run without a manifest that lost a shard; a task has two parts."""
    monkeypatch.setattr(spark, "MOST_TASKS", 4)

    def stopped(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(run, "_finish", stopped)
        run_spark(fresh, spark_settings)
    lost, *others = sorted(Path(fresh.output).glob("examples-*"))
    lost.unlink()
    times = {path: path.stat().st_mtime_ns for path in others if part(path) != part(lost)}
    outcome = run_spark(fresh, spark_settings)
    assert read(fresh.output) == expected
    assert {part(name) for name in outcome.made} == {part(lost)}
    assert {path: path.stat().st_mtime_ns for path in times} == times


def part(path):
    return Path(path).name.split("-")[1]


def test_a_bad_line_is_one_clean_error(fresh, spark_settings, capfd):
    corpus = dataclasses.replace(fresh.corpus, bad_lines="stop")
    with pytest.raises(UserError, match=r"lines\.jsonl.* 31\b"):
        run_spark(dataclasses.replace(fresh, corpus=corpus), spark_settings)
    noise = capfd.readouterr()
    assert "Traceback" not in noise.err + noise.out
    assert len((noise.err + noise.out).splitlines()) < 8


def test_a_python_without_the_packages_is_an_error(fresh, spark_settings, monkeypatch):
    outside_any_environment = os.path.realpath(sys.executable)
    monkeypatch.setenv("PYSPARK_PYTHON", outside_any_environment)
    message = r"can't run albert_tf: No module named '[\w.]+'"
    with pytest.raises(UserError, match=message):
        run_spark(fresh, spark_settings)


def test_a_master_that_does_not_exist(fresh, spark_settings):
    with pytest.raises(UserError, match="can't run albert_tf: .*nonsense"):
        run_spark(fresh, {**spark_settings, "spark.master": "nonsense"})
