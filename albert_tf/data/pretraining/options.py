"""The options of pretraining examples, every choice of the original's code, and of `build_data`."""

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Final, Literal

from albert_tf.data.corpus.documents import CorpusInput, CorpusOptions
from albert_tf.errors import UserError
from albert_tf.options import COUNT, SHARE, Range, check_options, option, part

if TYPE_CHECKING:
    import numpy as np

PairTask = Literal["sop", "nsp", "none"]
Mode = Literal["dynamic", "static"]

SPAN_PROBABILITY: Final = 0.2  # of ending a span after a word; SpanBERT, arXiv 1907.10529, 3.1
LONGEST_SPAN: Final = 10  # words; as there
LONGEST: Final = 2048  # tokens, four times as many as published models read
COPIES: Final = 40  # the original's dupe_factor
SPECIAL_COUNT: Final = 3  # [CLS] and two [SEP]
# Labels of a pair.
IN_ORDER: Final = 0
SWAPPED: Final = 1  # for "nsp": the second segment is from another document
NO_LABEL: Final = -100  # ignored by the losses

_EXAMPLES: Final = (
    "examples (names and defaults are those of the original's create_pretraining_data.py, where it "
    "has them)"
)
_FLAG: Final = "true|false"
_MASTERS: Final = ("local", "spark://", "yarn", "k8s://")
_EXECUTION: Final = "execution (only --shard-bytes changes the output)"


@dataclass(frozen=True)
class ExampleOptions:
    """How documents become examples. Names and defaults are the original's where it has them."""

    mode: Mode = option(
        "dynamic",
        help="when to mask: dynamic masks anew in every epoch, as the files are read; static masks "
        "dupe_factor copies now",
        group=_EXAMPLES,
    )
    dupe_factor: int | None = option(
        None,
        help=f"differently masked copies in static mode; default: {COPIES}",
        range=Range(minimum=1, maximum=1000),
        group=_EXAMPLES,
    )
    max_seq_length: int = option(
        512,
        help="tokens in an example, [CLS] and two [SEP] included",
        range=Range(minimum=8, maximum=LONGEST),
        group=_EXAMPLES,
    )
    # The original's 20 masks a sequence of 512 to 4 % alone.
    max_predictions_per_seq: int | None = option(
        None,
        help="most tokens to predict; default: masked_lm_prob of max_seq_length",
        range=COUNT,
        group=_EXAMPLES,
    )
    masked_lm_prob: float = option(
        0.15, help="share of tokens to predict", range=SHARE, group=_EXAMPLES
    )
    short_seq_prob: float = option(
        0.1,
        help="share of documents that are cut into shorter examples of random length",
        range=SHARE,
        group=_EXAMPLES,
    )
    ngram: int = option(
        3,
        help="longest n-gram to mask, in words",
        range=Range(minimum=1, maximum=10),
        group=_EXAMPLES,
    )
    favor_shorter_ngram: bool = option(
        True,
        help="probability 1/n of an n-gram (ALBERT, section 4.1); false reverses the order",
        group=_EXAMPLES,
        metavar=_FLAG,
    )
    do_whole_word_mask: bool = option(
        True, help="mask whole words, not single tokens", group=_EXAMPLES, metavar=_FLAG
    )
    do_permutation: bool = option(
        False,
        help="permute further n-grams, as many tokens again, and predict them too",
        group=_EXAMPLES,
        metavar=_FLAG,
    )
    span_masking: bool = option(
        False,
        help="mask spans of up to 10 words instead of n-grams, with SpanBERT's lengths; a span "
        "becomes [MASK] or random, or stays, as a whole",
        group=_EXAMPLES,
        metavar=_FLAG,
    )
    pair_task: PairTask = option(
        "sop",
        help="task of a pair: sop swaps half of them, nsp takes half of the second segments from "
        "another document, none leaves them in order (ALBERT, table 5)",
        group=_EXAMPLES,
    )
    random_seed: int = option(
        12345,
        help="seed of all random numbers, with the document's name and position",
        range=Range(minimum=0, below=2**64),
        group=_EXAMPLES,
        original=("seed",),
    )

    def __post_init__(self) -> None:
        check_options(self)
        if self.predictions > self.max_seq_length - SPECIAL_COUNT:
            raise UserError(
                "max_predictions_per_seq must leave room for [CLS] and two [SEP]. Received: "
                f"max_predictions_per_seq={self.predictions}, max_seq_length={self.max_seq_length}."
            )

    @property
    def predictions(self) -> int:
        """Returns the most tokens to predict in an example."""
        if self.max_predictions_per_seq is not None:
            return self.max_predictions_per_seq
        return max(1, round(self.masked_lm_prob * self.max_seq_length))

    @property
    def masked_predictions(self) -> int:
        """Returns the most tokens to mask: a permutation moves as many again, and needs room."""
        return self.predictions // (2 if self.do_permutation else 1)

    @property
    def copies(self) -> int:
        """Returns how often a document is used."""
        return (self.dupe_factor or COPIES) if self.mode == "static" else 1

    @property
    def ngram_probabilities(self) -> "np.ndarray":
        """Returns the probabilities of masking 1 … N words together: float64 `[N]`."""
        import numpy as np

        if self.span_masking:
            lengths = np.arange(LONGEST_SPAN)
            weights = SPAN_PROBABILITY * (1 - SPAN_PROBABILITY) ** lengths
        else:
            weights = 1.0 / np.arange(1, self.ngram + 1)
            weights = weights if self.favor_shorter_ngram else weights[::-1]
        return weights / weights.sum()

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "ExampleOptions":
        """Reads the result of `dataclasses.asdict`, which a manifest holds.

        Raises:
            UserError: a name that isn't one of the attributes, or a value out of its range.
        """
        unknown = sorted(values.keys() - {field.name for field in fields(cls)})
        if unknown:
            raise UserError(
                f"Options of examples must be known ones. Received: {', '.join(unknown)}. "
                "They were written by another version of albert_tf; use that one."
            )
        return cls(**values)


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
        group=_EXAMPLES,
        metavar=_FLAG,
    )
    pair_task: PairTask | None = option(  # type: ignore[assignment]
        None,
        help="task of a pair: sop (default) swaps half of them, nsp takes half of the second "
        "segments from another document, none leaves them in order (ALBERT, table 5)",
        group=_EXAMPLES,
    )
    random_next_sentence: bool | None = option(
        None,
        help="the original's name for --pair-task nsp",
        group=_EXAMPLES,
        metavar=_FLAG,
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
