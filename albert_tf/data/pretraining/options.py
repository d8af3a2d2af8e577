"""The options of pretraining examples, and of `build_data`."""

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Final, Literal

from albert_tf.data.corpus.documents import CorpusInput, CorpusOptions
from albert_tf.errors import UserError
from albert_tf.options import COUNT, SHARE, Checked, Range, option, part

if TYPE_CHECKING:
    import numpy as np

PairTask = Literal["sop", "nsp", "none"]

LONGEST: Final = 2048  # tokens, four times as many as published models read
MOST_WORDS: Final = 10  # of an n-gram
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
_EXECUTION: Final = "execution (only --shard-bytes changes the output)"


@dataclass(frozen=True)
class ExampleOptions(Checked):
    """How documents become examples. Names and defaults are the original's where it has them."""

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
        range=Range(minimum=1, maximum=MOST_WORDS),
        group=_EXAMPLES,
    )
    favor_shorter_ngram: bool = option(
        True,
        help="probability 1/n of an n-gram (ALBERT, section 4.1); false reverses the order",
        group=_EXAMPLES,
        metavar=_FLAG,
        only={"ngram": Range(minimum=2)},
    )
    do_whole_word_mask: bool = option(
        True, help="mask whole words, not single tokens", group=_EXAMPLES, metavar=_FLAG
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
        super().__post_init__()
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
    def ngram_probabilities(self) -> "np.ndarray":
        """Returns the probabilities of masking 1 … N words together: float64 `[N]`."""
        import numpy as np

        weights = 1.0 / np.arange(1, self.ngram + 1)
        return (weights if self.favor_shorter_ngram else weights[::-1]) / weights.sum()

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

    output: str = option(help="folder to write, or its URL", metavar="DIR", is_path=True)
    vocab: str = option(
        help="vocabulary file (spiece.model), model folder, or name on the hub",
        metavar="FILE",
        is_path=True,
    )
    shard_bytes: int | None = option(
        None,
        help="approximate bytes of text in a shard; default: 8 MiB, less for a small corpus",
        range=Range(minimum=1 << 10, maximum=1 << 50),
        group=_EXECUTION,
    )
    force: bool = option(False, help="replace an earlier or unfinished output", group=_EXECUTION)
    engine: Literal["local", "spark"] = option(
        "local", help="run in processes of this machine, or on Spark", group=_EXECUTION
    )
    workers: int | None = option(
        None,
        help="processes; default: all cores",
        range=Range(minimum=1, maximum=1024),
        group=_EXECUTION,
        only={"engine": ("local",)},
    )
    engine_option: tuple[str, ...] = option(
        (),
        help="setting of Spark, such as spark.master=spark://HOST:7077; may be repeated",
        group=_EXECUTION,
        metavar="NAME=VALUE",
        repeated=True,
        only={"engine": ("spark",)},
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if not all("=" in setting for setting in self.engine_option):
            raise UserError(
                "--engine-option must be NAME=VALUE, a setting of Spark. "
                f"Received: {' '.join(self.engine_option)}."
            )

    @property
    def examples(self) -> ExampleOptions:
        """Returns the options of examples."""
        return part(ExampleOptions, self)

    @property
    def corpus(self) -> CorpusOptions:
        """Returns the options of reading a corpus."""
        return part(CorpusOptions, self)
