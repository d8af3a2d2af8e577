"""An engine: maps the parts of a job over the workers of Apache Beam, on any of its runners.

All machines must see the corpus and the output under the same path or URL.
"""

import contextlib
import logging
from collections.abc import Iterator, Sequence
from typing import Final

from albert_tf.data.jobs.job import Job, Part, PartReport, make_part_on_cluster, read_reports
from albert_tf.errors import UserError
from albert_tf.progress import Progress

QUIET: Final = "--default_sdk_harness_log_level=ERROR"  # each worker logs each step otherwise


def map_on_beam(
    job: Job,
    parts: Sequence[Part],
    progress: Progress,
    runner: str | None = None,
    arguments: Sequence[str] = (),
) -> list[PartReport]:
    """Makes parts on the workers of Beam, without progress.

    Args:
        runner: Beam's name for it, such as `DirectRunner`.
        arguments: options of the runner, as on a command line: `--direct_num_workers=2`.
    Raises:
        UserError: apache_beam is missing, no such runner or option, or as in `make_part`.
    """
    try:
        import apache_beam as beam
        from apache_beam.options.pipeline_options import PipelineOptions
    except ImportError as error:
        raise UserError(
            "--engine beam needs the package apache-beam. Received an environment without it. "
            "Install it: pip install 'albert_tf[beam]'."
        ) from error
    named = [f"--runner={runner}"] if runner else []
    try:
        pipeline = beam.Pipeline(options=PipelineOptions([QUIET, *named, *arguments]))
    except ValueError as error:  # no such runner, or options that it doesn't take
        raise UserError(f"Beam must know the runner and its options. Received: {error}") from error
    with _quiet(), pipeline as started:
        (
            started
            | beam.Create(parts)
            | beam.Reshuffle()  # otherwise one worker gets all parts
            | beam.Map(lambda part, job: make_part_on_cluster(job, part), job)
        )
    return read_reports(job, parts)


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
