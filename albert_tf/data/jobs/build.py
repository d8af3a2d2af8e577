"""`build_data`: from text to a directory of pretraining examples, on the engine of choice."""

from dataclasses import replace

from albert_tf.data.jobs.job import Job, make_job
from albert_tf.data.jobs.options import BuildDataOptions
from albert_tf.data.jobs.run import Outcome
from albert_tf.options import accepts_keywords, as_yaml


@accepts_keywords(BuildDataOptions)
def build_data(options: BuildDataOptions) -> Outcome:
    """Makes the shards that are missing or damaged; resumes an interrupted run.

    Raises:
        UserError: settings that differ from the interrupted run's, a bad line, no space left, …
    """
    return _run(replace(make_job(options), options=as_yaml(options).encode()), options)


def _run(job: Job, options: BuildDataOptions) -> Outcome:
    # Each engine's package is imported on demand.
    if options.engine == "spark":
        from albert_tf.data.jobs.spark import run_spark

        settings = dict(each.split("=", 1) for each in options.engine_option)
        return run_spark(job, options.master, settings, options.force)
    if options.engine == "beam":
        from albert_tf.data.jobs.beam import run_beam

        return run_beam(job, options.runner, options.engine_option, options.force)
    from albert_tf.data.jobs.local import run_local

    return run_local(job, options.workers, options.force)
