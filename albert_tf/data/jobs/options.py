"""The options of `build_data`."""

from dataclasses import dataclass
from typing import Final, Literal

from albert_tf.data.corpus.options import CorpusInput, CorpusOptions
from albert_tf.data.pretraining.options import EXAMPLE_GROUP, ExampleOptions, PairTask
from albert_tf.errors import UserError
from albert_tf.options import Range, option, part

_MASTERS: Final = ("local", "spark://", "yarn", "k8s://")
_EXECUTION: Final = "execution (only --shard-bytes changes the output)"


@dataclass(frozen=True, kw_only=True)
class BuildDataOptions(CorpusInput, ExampleOptions):
    """The options of `build_data`.

    The original's options may be spelled as in create_pretraining_data.py: --max_seq_length,
    --nodo_whole_word_mask.
    """

    output: str = option(help="folder to write, or its URL", metavar="DIR")
    vocab: str = option(
        help="vocabulary file (spiece.model), model folder, or name on the hub", metavar="FILE"
    )
    do_lower_case: bool | None = option(
        None,
        help="lower-case the text; default: as the vocabulary does",
        group=EXAMPLE_GROUP,
        metavar="true|false",
    )
    pair_task: PairTask | None = option(  # type: ignore[assignment]
        None,
        help="task of a pair: sop (default) swaps half of them, nsp takes half of the second "
        "segments from another document, none leaves them in order (ALBERT, table 5)",
        group=EXAMPLE_GROUP,
    )
    random_next_sentence: bool | None = option(
        None,
        help="the original's name for --pair-task nsp",
        group=EXAMPLE_GROUP,
        metavar="true|false",
    )
    shard_bytes: int | None = option(
        None,
        help="approximate bytes of text in a shard; default: 8 MiB, less for a small corpus",
        range=Range(minimum=1 << 10, maximum=1 << 50),
        group=_EXECUTION,
    )
    force: bool = option(False, help="replace an earlier or unfinished output", group=_EXECUTION)
    engine: Literal["local", "spark", "beam"] = option(
        "local", help="run in processes of this machine, on Spark or on Beam", group=_EXECUTION
    )
    workers: int | None = option(
        None,
        help="processes; default: all cores",
        range=Range(minimum=1, maximum=1024),
        group=_EXECUTION,
        only={"engine": ("local",)},
    )
    master: str | None = option(
        None,
        help="Spark's master; default: as Spark is configured",
        group=_EXECUTION,
        metavar="URL",
        only={"engine": ("spark",)},
    )
    runner: str | None = option(
        None,
        help="Beam's runner; default: its local one",
        group=_EXECUTION,
        metavar="NAME",
        only={"engine": ("beam",)},
    )
    engine_option: tuple[str, ...] = option(
        (),
        help="setting of Spark (NAME=VALUE) or Beam (=--NAME=VALUE); may be repeated",
        group=_EXECUTION,
        metavar="OPTION",
        repeated=True,
        only={"engine": ("spark", "beam")},
    )

    def __post_init__(self) -> None:
        CorpusInput.__post_init__(self)
        ExampleOptions.__post_init__(self)
        self._check_examples()
        self._check_engine()

    @property
    def examples(self) -> ExampleOptions:
        """Returns the options of examples."""
        pair_task = "nsp" if self.random_next_sentence else self.pair_task or "sop"
        return part(ExampleOptions, self, pair_task=pair_task)

    @property
    def corpus(self) -> CorpusOptions:
        """Returns the options of reading a corpus."""
        return part(CorpusOptions, self)

    def _check_examples(self) -> None:
        if self.random_next_sentence and self.pair_task not in ("nsp", None):
            raise UserError(
                "--random-next-sentence is --pair-task nsp. Received: --random-next-sentence and "
                f"--pair-task {self.pair_task}. Give one of them."
            )
        if self.dupe_factor is not None and self.mode != "static":
            raise UserError(
                "--dupe-factor goes with --mode static, which masks ahead as the original does. "
                f"Received: --dupe-factor {self.dupe_factor} --mode {self.mode}, which masks every "
                "epoch anew. Leave it out, or add --mode static."
            )

    def _check_engine(self) -> None:
        if self.master is not None and not self.master.startswith(_MASTERS):
            raise UserError(
                f"Spark's master must be one of {', '.join(_MASTERS)}. Received: {self.master!r}. "
                "On one machine give local[N] for N workers."
            )
        if self.engine == "spark" and not all("=" in setting for setting in self.engine_option):
            raise UserError(
                "--engine-option must be NAME=VALUE for Spark. "
                f"Received: {' '.join(self.engine_option)}."
            )
