"""Maps `make_part` over the parts of a job on the executors of Apache Spark.

All machines must see the corpus and the output under the same path or URL.
"""

import contextlib
import functools
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from albert_tf.data.jobs.job import (
    ERROR,
    SETTINGS,
    Job,
    Output,
    Part,
    PartReport,
    make_part,
    report_name,
)
from albert_tf.errors import UserError
from albert_tf.progress import Progress

# Errors of executors whose Python is missing, has another version or lacks albert_tf, and of Spark
# when no master answers or somebody ends the application.
_SETUP: Final = re.compile(
    r"No module named '[^']+'|Python in worker has different version: [^\n]*|"
    r"Cannot run program \"[^\n]*|SparkContext (?:has been|was) shut ?down"
)
MOST_TASKS: Final = 10_000  # a task takes several parts of a corpus above 80 GB


def map_on_spark(
    job: Job, parts: Sequence[Part], progress: Progress, settings: Mapping[str, str]
) -> list[PartReport]:
    """Makes parts on the executors of Spark, which shows its own progress.

    Executors start the Python that PYSPARK_PYTHON names; default: the path of this one. It needs
    albert_tf and its packages for data, but not TensorFlow.

    Args:
        settings: Spark's settings by name, beside its own configuration.
    Raises:
        UserError: pyspark or Java is missing, a master that doesn't answer, or as in `make_part`.
    """
    with _context(settings) as context:
        make = functools.partial(_make, job)
        context.parallelize(parts, min(len(parts), MOST_TASKS)).foreach(make)
    return _reports(job, parts)


def _make(job: Job, part: Part) -> None:
    """Makes a part on an executor; does nothing once another part has failed.

    Spark buries the text of an exception in its own. An error of the user's is therefore written to
    a file, and `_reports` raises it.
    """
    output = Output(job.output)
    if not output.read_json(SETTINGS) or output.read_json(ERROR):
        return  # _reports raises both
    try:
        make_part(job, part)
    except (UserError, OSError) as error:
        output.write_json(ERROR, {"error": str(error)})


def _reports(job: Job, parts: Sequence[Part]) -> list[PartReport]:
    """Reads the reports that the executors wrote.

    Raises:
        UserError: an error that an executor wrote, or executors that don't see the output.
    """
    output = Output(job.output)
    if error := output.read_json(ERROR):
        raise UserError(error["error"])
    reports = PartReport.read(output, map(report_name, parts))
    if len(reports) < len(parts):
        raise UserError(
            "All workers and this machine must see the output under the same path. Received: "
            f"{job.output}, where {len(parts) - len(reports)} of {len(parts)} parts are missing."
        )
    return reports


@contextlib.contextmanager
def _context(settings: Mapping[str, str]) -> Iterator[Any]:
    """Yields a SparkContext, and stops it in the end; says in a line what Spark lacks."""
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
    if settings.get("spark.master", "").startswith("local"):  # no other machine needs to reach it
        conf.set("spark.driver.host", "127.0.0.1").set("spark.driver.bindAddress", "127.0.0.1")
    context = None
    try:
        with SparkContext(conf=conf.setAll(settings.items())) as context:
            yield context
    except Exception as error:
        fault = _SETUP.search(str(error))
        if fault is None and context is not None:
            raise
        # Java's exceptions follow the line of the call.
        reason = fault[0] if fault else str(error).split("\n: ")[-1].splitlines()[0]
        raise UserError(
            "Spark must be able to run albert_tf: with Java 17 or later, a master that answers, "
            f"and a Python with the packages. Received: {reason.rstrip('.')}. See docs/clusters.md."
        ) from error
