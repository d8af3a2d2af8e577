"""Maps `make_part` over the parts of a job on Apache Spark executors.

The corpus and the output must have the same path or URL on all machines.
"""

import contextlib
import functools
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from albert_tf.data.jobs.job import Job, Output, Part, PartReport, make_part, report_name
from albert_tf.errors import UserError
from albert_tf.progress import Progress

# Errors from executors whose Python is missing, has a different version, or lacks albert_tf; and
# from Spark if no master responds or someone ends the application.
_SETUP: Final = re.compile(
    r"No module named '[^']+'|Python in worker has different version: [^\n]*|"
    r"Cannot run program \"[^\n]*|SparkContext (?:has been|was) shut ?down"
)
MOST_TASKS: Final = 10_000  # for a corpus larger than 80 GB, each task builds several parts


def map_on_spark(
    job: Job, parts: Sequence[Part], progress: Progress, settings: Mapping[str, str]
) -> list[PartReport]:
    """Builds the parts of the data on Spark executors. Spark itself shows the progress.

    PYSPARK_PYTHON is the path of the executors' Python interpreter (default: this interpreter's).
    That interpreter needs albert_tf and its data-processing dependencies, but not TensorFlow.

    Args:
        settings: Spark settings by name, in addition to Spark's own configuration.
    Raises:
        UserError: pyspark or Java is missing, or the master doesn't respond; see also `make_part`.
    """
    with _context(settings) as context:
        make = functools.partial(_make, job)
        context.parallelize(parts, min(len(parts), MOST_TASKS)).foreach(make)
    return _reports(job, parts)


def _make(job: Job, part: Part) -> None:
    """Builds a part on an executor, or does nothing if another part has already failed.

    Spark wraps an exception's message in its own. An error that the user can fix is
    therefore written to a file, and `_reports` raises it.
    """
    output = Output(job.output)
    if not output.read_json(output.SETTINGS) or output.read_json(output.ERROR):
        return  # _reports raises an error in both cases
    try:
        make_part(job, part)
    except (UserError, OSError) as error:
        output.write_json(output.ERROR, {"error": str(error)})


def _reports(job: Job, parts: Sequence[Part]) -> list[PartReport]:
    """Reads the reports or the error that the executors wrote."""
    output = Output(job.output)
    if error := output.read_json(output.ERROR):
        raise UserError(error["error"])
    reports = PartReport.read(output, map(report_name, parts))
    if len(reports) < len(parts):
        raise UserError(
            "All workers and this machine must share the output folder, under the same path. "
            f"Received: {job.output}, where {len(parts) - len(reports)} of {len(parts)} parts are "
            "missing."
        )
    return reports


@contextlib.contextmanager
def _context(settings: Mapping[str, str]) -> Iterator[Any]:
    """Yields a SparkContext and stops it at the end."""
    try:
        from pyspark import SparkConf, SparkContext
    except ImportError as error:
        raise UserError(
            "--engine spark requires the pyspark package. Run pip install 'albert_tf[spark]'."
        ) from error
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    conf = SparkConf().setAppName("albert_tf build-data")
    conf.set("spark.ui.showConsoleProgress", str(sys.stderr.isatty()).lower())
    if settings.get("spark.master", "").startswith("local"):  # no other machine connects
        conf.set("spark.driver.host", "127.0.0.1").set("spark.driver.bindAddress", "127.0.0.1")
    context = None
    try:
        with SparkContext(conf=conf.setAll(settings.items())) as context:
            yield context
    except Exception as error:
        fault = _SETUP.search(str(error))
        if fault is None and context is not None:
            raise
        # The Java exception is on the line after the call.
        reason = fault[0] if fault else str(error).split("\n: ")[-1].splitlines()[0]
        raise UserError(
            f"Spark can't run albert_tf: {reason.rstrip('.')}. It requires Java 17 or later, a "
            "Spark master that responds, and Python with albert_tf on all machines; see "
            "docs/clusters.md."
        ) from error
