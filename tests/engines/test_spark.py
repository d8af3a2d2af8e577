"""Spark makes the files that one machine makes, whatever happens to its own machines."""

import os
import sys

import pytest

from albert_tf.data.jobs import directory, spark
from albert_tf.data.jobs.spark import run_spark
from albert_tf.errors import UserError

pytest.importorskip("pyspark")
pytestmark = pytest.mark.engines


def test_the_same_files_as_on_one_machine(fresh, expected, read, spark_settings):
    outcome = run_spark(fresh, "local[2]", spark_settings)
    assert read(fresh.folder) == expected
    assert outcome.made == tuple(sorted(name for name in expected if name.startswith("examples")))


def test_goes_on_where_it_was(fresh, expected, read, spark_settings, monkeypatch):
    """After a run that wrote all files but no manifest; two of them were lost or damaged since.

    Several buckets to a task, as on a large corpus.
    """
    monkeypatch.setattr(spark, "MOST_TASKS", 4)

    def stopped(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(directory.Directory, "finish", stopped)
        run_spark(fresh, "local[2]", spark_settings)
    lost, damaged, *kept = sorted(fresh.folder.glob("examples-*"))
    lost.unlink()
    damaged.write_bytes(b"")
    times = {path: path.stat().st_mtime_ns for path in kept}
    outcome = run_spark(fresh, "local[2]", spark_settings)
    assert read(fresh.folder) == expected
    assert outcome.made == (lost.name, damaged.name)
    assert {path: path.stat().st_mtime_ns for path in kept} == times


def test_a_finished_directory_needs_no_spark(fresh, expected, read, spark_settings):
    fresh.folder.mkdir()
    for name, content in expected.items():
        (fresh.folder / name).write_bytes(content)
    assert run_spark(fresh, "spark://127.0.0.1:9", spark_settings).made == ()
    assert read(fresh.folder) == expected


def test_a_bad_line_is_one_clean_error(bad, spark_settings, capfd):
    with pytest.raises(UserError, match=bad.message):
        run_spark(bad.job, "local[2]", spark_settings)
    noise = capfd.readouterr()
    assert "Traceback" not in noise.err + noise.out
    assert len((noise.err + noise.out).splitlines()) < 8


def test_a_python_without_the_packages_is_named(fresh, spark_settings, monkeypatch):
    monkeypatch.setenv("PYSPARK_PYTHON", os.path.realpath(sys.executable))  # of no environment
    with pytest.raises(UserError, match=r"able to run .* No module named '\w+'. See docs"):
        run_spark(fresh, "local[2]", spark_settings)


def test_a_master_that_is_none(fresh, spark_settings):
    with pytest.raises(UserError, match="local, spark://, yarn, k8s://. Received: 'nonsense'"):
        run_spark(fresh, "nonsense", spark_settings)
