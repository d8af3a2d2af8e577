"""A job on Apache Spark: its shuffle deals the documents, each task writes whole files.

    parts ─ deal ─> (bucket, document) ─ shuffle, sorted by bucket ─> write_bucket ─> reports

The output and the corpus must be where all machines see them under the same path.
"""

import contextlib
import functools
import os
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from albert_tf.data.jobs import scratch, tasks
from albert_tf.data.jobs.cluster import run_on
from albert_tf.data.jobs.job import Job
from albert_tf.data.jobs.local import Outcome
from albert_tf.data.jobs.shards import ShardReport
from albert_tf.errors import UserError

# Tasks of a phase. A shuffle moves a block for each pair of them, so that many more of them would
# make blocks of a few bytes; a task takes several parts or buckets, one after another.
MOST_TASKS: Final = 4000

# What executors say whose Python is missing, another, or without albert_tf; what Spark says when no
# master answers or somebody ends the application.
_SETUP: Final = re.compile(
    r"No module named '[^']+'|Python in worker has different version: [^\n]*|"
    r"Cannot run program \"[^\n]*|SparkContext (?:has been|was) shut ?down"
)
_MASTERS: Final = ("local", "spark://", "yarn", "k8s://")

# Lost machines and missing workers are told of; what fails in a task reaches us as its error.
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


def run_spark(
    job: Job,
    master: str | None = None,
    settings: Mapping[str, str] | None = None,
    force: bool = False,
) -> Outcome:
    """Makes the files of a job, those that aren't there yet: the same as `run_local`.

    Executors start the Python that PYSPARK_PYTHON names; by default the one that runs here, under
    its path here. They need albert_tf and its packages for data there, but not TensorFlow.

    Args:
        master: `local[N]`, `spark://HOST:PORT`, `yarn` or `k8s://…`; None for Spark's own
            configuration.
        settings: of Spark, by name.
        force: start anew.
    Raises:
        UserError: no pyspark or Java, no such master, or as `run_local`.
    """
    if master is not None and not master.startswith(_MASTERS):
        raise UserError(
            f"A master of Spark is one of {', '.join(_MASTERS)}. Received: {master!r}. "
            "On one machine give local[N] with N workers."
        )

    def engine(job: Job, missing: frozenset[int]) -> tuple[Mapping[str, int], list[ShardReport]]:
        with _context(master, settings or {}) as context, _reasons_named():
            return _run(context, job, missing)

    return run_on(engine, job, force)


def _run(
    context: Any, job: Job, missing: frozenset[int]
) -> tuple[Mapping[str, int], list[ShardReport]]:
    parts = scratch.parts(job)
    slices = min(len(parts), MOST_TASKS)
    partitions = min(job.buckets, MOST_TASKS)
    dealt = (
        context.parallelize(parts, max(1, slices))
        .flatMap(functools.partial(tasks.deal, job=job, wanted=missing))
        # The counts, whose key is one more than the last bucket's, get the last partition.
        .repartitionAndSortWithinPartitions(
            partitions + 1, lambda bucket: bucket * partitions // job.buckets
        )
    )
    # Two jobs, of which the second finds what the first one shuffled: faults in the corpus show
    # before a file is written.
    counts = context.runJob(dealt.values(), list, [partitions])
    wanted = sorted({bucket * partitions // job.buckets for bucket in missing})
    made = context.runJob(dealt, functools.partial(tasks.write_all, job=job), wanted)
    return tasks.total(counts), [report for reports in made for report in reports]


@contextlib.contextmanager
def _context(master: str | None, settings: Mapping[str, str]) -> Iterator[Any]:
    """A SparkContext, stopped in the end."""
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
        if master.startswith("local"):  # nobody else need reach it
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
    """Has errors that come from how the cluster is set up say so in a line."""
    try:
        yield
    except Exception as error:
        found = _SETUP.search(str(error))
        if found is None:
            raise
        reason = found[0].rstrip(".")
        raise UserError(
            f"Spark must be able to run albert_tf. Received: {reason}. See docs/clusters.md."
        ) from error


def _started(make: Any, conf: Any) -> Any:
    """A SparkContext whose JVM, if it starts now, says little."""
    with tempfile.TemporaryDirectory() as folder:
        log4j = Path(folder, "log4j2.properties")
        log4j.write_text(_LOG4J)
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
