"""An engine: maps the parts of a job over the executors of Apache Spark.

All machines must see the corpus and the output under the same path or URL.
"""

import contextlib
import functools
import os
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from albert_tf.data.jobs.job import Job, Part, PartReport, make_part_on_cluster, read_reports
from albert_tf.errors import UserError
from albert_tf.progress import Progress

# Errors of executors whose Python is missing, has another version or lacks albert_tf, and of Spark
# when no master answers or somebody ends the application.
_SETUP: Final = re.compile(
    r"No module named '[^']+'|Python in worker has different version: [^\n]*|"
    r"Cannot run program \"[^\n]*|SparkContext (?:has been|was) shut ?down"
)
MOST_TASKS: Final = 10_000  # a task takes several parts of a corpus above 80 GB

# Spark reports lost machines and missing workers; the error of a task reaches us anyway.
_LOG4J: Final = """rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = Spark: %p %c{1}: %m%ex{0}%n
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = error
logger.scheduler.name = org.apache.spark.scheduler.TaskSchedulerImpl
logger.scheduler.level = warn
logger.tasks.name = org.apache.spark.scheduler.TaskSetManager
logger.tasks.level = off
logger.executor.name = org.apache.spark.executor.Executor
logger.executor.level = off
"""


def map_on_spark(
    job: Job,
    parts: Sequence[Part],
    progress: Progress,
    master: str | None = None,
    settings: Mapping[str, str] | None = None,
) -> list[PartReport]:
    """Makes parts on the executors of Spark, which shows its own progress.

    Executors start the Python that PYSPARK_PYTHON names; default: the path of this one. It needs
    albert_tf and its packages for data, but not TensorFlow.

    Args:
        master: `local[N]`, `spark://HOST:PORT`, `yarn` or `k8s://…`; None for Spark's own
            configuration.
        settings: Spark's settings by name.
    Raises:
        UserError: pyspark or Java is missing, a master that doesn't answer, or as in `make_part`.
    """
    with _context(master, settings or {}) as context, _reasons_named():
        make = functools.partial(make_part_on_cluster, job)
        context.parallelize(parts, min(len(parts), MOST_TASKS)).foreach(make)
    return read_reports(job, parts)


@contextlib.contextmanager
def _context(master: str | None, settings: Mapping[str, str]) -> Iterator[Any]:
    """Yields a SparkContext, and stops it in the end."""
    try:
        from pyspark import SparkConf, SparkContext
    except ImportError as error:
        raise UserError(
            "--engine spark needs the package pyspark. Received an environment without it. "
            "Install it: pip install 'albert_tf[spark]'."
        ) from error
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    conf = SparkConf().setAppName("albert_tf build-data")
    conf.set("spark.ui.showConsoleProgress", str(sys.stderr.isatty()).lower())
    if master is not None:
        conf.setMaster(master)
        if master.startswith("local"):  # no other machine needs to reach it
            conf.set("spark.driver.host", "127.0.0.1").set("spark.driver.bindAddress", "127.0.0.1")
    for name, value in settings.items():
        conf.set(name, value)
    context = _started(SparkContext, conf)
    try:
        yield context
    finally:
        context.stop()


@contextlib.contextmanager
def _reasons_named() -> Iterator[None]:
    """Turns errors of the cluster's setup into one line."""
    try:
        yield
    except Exception as error:
        fault = _SETUP.search(str(error))
        if fault is None:
            raise
        reason = fault[0].rstrip(".")
        raise UserError(
            f"Spark must be able to run albert_tf. Received: {reason}. See docs/clusters.md."
        ) from error


def _started(make: Any, conf: Any) -> Any:
    """Returns a SparkContext, whose JVM logs little if it starts now."""
    with tempfile.TemporaryDirectory() as folder:
        log4j = Path(folder, "log4j2.properties")
        log4j.write_text(_LOG4J, encoding="utf-8", newline="\n")
        given = os.environ.get("SPARK_SUBMIT_OPTS")
        if given is None:
            os.environ["SPARK_SUBMIT_OPTS"] = f"-Dlog4j2.configurationFile={log4j}"
        try:
            return make(conf=conf)
        except Exception as error:
            lines = str(error).splitlines()
            reason = next((line[2:] for line in lines if line.startswith(": ")), lines[0])
            raise UserError(
                "--engine spark needs Java 17 or later and, unless it is local, a master that "
                f"answers. Received: {reason.rstrip('.')}. See docs/clusters.md."
            ) from error
        finally:
            if given is None:
                del os.environ["SPARK_SUBMIT_OPTS"]
