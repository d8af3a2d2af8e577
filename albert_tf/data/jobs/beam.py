"""A job on Apache Beam, on any of its runners: parts mapped over its workers.

All machines must see the corpus and the output under the same path or URL.
"""

import contextlib
import logging
from collections.abc import Iterator, Sequence
from typing import Final

from albert_tf.data.jobs.job import Job, Part
from albert_tf.data.jobs.progress import Progress
from albert_tf.data.jobs.run import Outcome, reports_of, run_job
from albert_tf.data.jobs.shards import PartReport, attempt_part
from albert_tf.errors import UserError

QUIET: Final = "--default_sdk_harness_log_level=ERROR"  # each worker logs each step otherwise


def run_beam(
    job: Job, runner: str | None = None, options: Sequence[str] = (), force: bool = False
) -> Outcome:
    """Makes the shards of a job that are missing or damaged, the same ones as `run_local`.

    Args:
        runner: Beam's name for it, such as `DirectRunner`.
        options: the runner's, as on a command line: `--direct_num_workers=2`.
        force: start anew.
    Raises:
        UserError: apache_beam is missing, or as in `run_local`.
    """
    named = [f"--runner={runner}"] if runner else []

    def mapped(job: Job, parts: Sequence[Part], progress: Progress) -> list[PartReport]:
        _run([QUIET, *named, *options], job, parts)
        return reports_of(job, parts)

    return run_job(job, mapped, force)


def _run(arguments: list[str], job: Job, parts: Sequence[Part]) -> None:
    try:
        import apache_beam as beam
        from apache_beam.options.pipeline_options import PipelineOptions
    except ImportError as error:
        raise UserError(
            "--engine beam needs the package apache-beam. Received an environment without it. "
            "Install it: pip install 'albert_tf[beam]'."
        ) from error
    try:
        pipeline = beam.Pipeline(options=PipelineOptions(arguments))
    except ValueError as error:  # no such runner, or options that it doesn't take
        raise UserError(f"Beam must know the runner and its options. Received: {error}") from error
    with _quiet(), pipeline as started:
        (
            started
            | beam.Create(parts)
            | beam.Reshuffle()  # otherwise one worker gets all parts
            | beam.Map(lambda part, job: attempt_part(job, part), job)
        )


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keeps Beam from printing the error that it raises too."""
    logger = logging.getLogger("apache_beam")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)
