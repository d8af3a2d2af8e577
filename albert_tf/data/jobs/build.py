"""`build_data`: from text to a directory of pretraining examples, on the engine of choice."""

from dataclasses import dataclass, field
from typing import Final, Literal

from albert_tf.data.corpus.options import CorpusOptions
from albert_tf.data.corpus.sentences import DEFAULT
from albert_tf.data.jobs.job import make_job
from albert_tf.data.jobs.run import Outcome
from albert_tf.data.pretraining.options import ExampleOptions
from albert_tf.errors import UserError

Engine = Literal["local", "spark", "beam"]
# Options that only some engines take.
_ENGINES: Final = {
    "workers": ("local",),
    "master": ("spark",),
    "runner": ("beam",),
    "engine_option": ("spark", "beam"),
}


@dataclass(frozen=True)
class BuildDataOptions:
    """What `build_data` builds, and how.

    Attributes:
        input: files, folders and globs of text, or URLs of these.
        output: folder to write, or its URL.
        vocab: vocabulary file, model folder, or name on the hub.
        examples, corpus: see there.
        sentence_splitter: "sentencex", or "module:function".
        do_lower_case: Default: as the vocabulary says.
        shard_bytes: bytes of text in a shard, about. Default: 8 MiB, less for a small corpus.
        force: start anew in the output.
        engine: "local" for processes of this machine, "spark" or "beam".
        workers: processes; default: all cores.
        master: Spark's master; default: as Spark is configured.
        runner: Beam's runner; default: its local one.
        engine_option: Spark's (NAME=VALUE) or Beam's (--NAME=VALUE).
    Raises:
        UserError: an option that the engine doesn't take.
    """

    input: tuple[str, ...]
    output: str
    vocab: str
    examples: ExampleOptions = field(default_factory=ExampleOptions)
    corpus: CorpusOptions = field(default_factory=CorpusOptions)
    sentence_splitter: str = DEFAULT
    do_lower_case: bool | None = None
    shard_bytes: int | None = None
    force: bool = False
    engine: Engine = "local"
    workers: int | None = None
    master: str | None = None
    runner: str | None = None
    engine_option: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.workers is not None and self.workers < 1:
            raise UserError(f"--workers must be 1 or more. Received: {self.workers}.")
        for name, engines in _ENGINES.items():
            if getattr(self, name) not in (None, ()) and self.engine not in engines:
                raise UserError(
                    f"--{name.replace('_', '-')} needs --engine {' or '.join(engines)}. "
                    f"Received: --engine {self.engine}."
                )
        if self.engine == "spark" and not all("=" in each for each in self.engine_option):
            raise UserError(
                "--engine-option must be NAME=VALUE for Spark. "
                f"Received: {' '.join(self.engine_option)}."
            )


def build_data(options: BuildDataOptions) -> Outcome:
    """Makes the shards that are missing or damaged; resumes an interrupted run.

    Raises:
        UserError: settings that differ from the interrupted run's, a bad line, no space left, …
    """
    job = make_job(
        options.input,
        options.output,
        options.vocab,
        options.examples,
        options.corpus,
        options.sentence_splitter,
        options.shard_bytes,
        options.do_lower_case,
    )
    # Each engine's package is imported on demand.
    if options.engine == "spark":
        from albert_tf.data.jobs.spark import run_spark

        settings = dict(each.split("=", 1) for each in options.engine_option)
        return run_spark(job, options.master, settings, options.force)
    if options.engine == "beam":
        from albert_tf.data.jobs.beam import run_beam

        return run_beam(job, options.runner, options.engine_option, options.force)
    from albert_tf.data.jobs.local import run_local

    return run_local(job, options.workers, force=options.force)
