"""The options for pretraining examples and for `build_data`."""

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Final, Literal

from albert_tf.data.corpus.options import CorpusInput, CorpusOptions
from albert_tf.errors import UserError
from albert_tf.options import COUNT, SHARE, Checked, Range, option, part

if TYPE_CHECKING:
    import numpy as np

PairTask = Literal["sop", "nsp", "none"]

MOST_TOKENS: Final = 2048  # in a sequence; the published models support 512
MOST_WORDS: Final = 10  # in an n-gram
SPECIAL_COUNT: Final = 3  # [CLS] and two [SEP] tokens
IN_ORDER: Final = 0
SWAPPED: Final = 1  # for "nsp": the second segment is from another document

_EXAMPLES: Final = (
    "examples (names and defaults follow the original's create_pretraining_data.py, if it has the "
    "option)"
)
_FLAG: Final = "true|false"
_EXECUTION: Final = "execution (only --shard-bytes changes the output)"


@dataclass(frozen=True)
class ExampleOptions(Checked):
    """The options for turning documents into examples.

    Names and defaults follow the original code where possible.
    """

    max_seq_length: int = option(
        512,
        help="maximum number of tokens in an example, including [CLS] and two [SEP] tokens",
        range=Range(minimum=8, maximum=MOST_TOKENS),
        group=_EXAMPLES,
    )
    # The original default of 20 masks only 4% of a 512-token sequence.
    max_predictions_per_seq: int | None = option(
        None,
        help="maximum number of tokens to predict; default: masked_lm_prob * max_seq_length",
        range=COUNT,
        group=_EXAMPLES,
    )
    masked_lm_prob: float = option(
        0.15, help="fraction of tokens to predict", range=SHARE, group=_EXAMPLES
    )
    short_seq_prob: float = option(
        0.1,
        help="fraction of documents that are split into shorter examples of random length",
        range=SHARE,
        group=_EXAMPLES,
    )
    ngram: int = option(
        3,
        help="maximum number of words in a masked n-gram",
        range=Range(minimum=1, maximum=MOST_WORDS),
        group=_EXAMPLES,
    )
    favor_shorter_ngram: bool = option(
        True,
        help="draw the length n of an n-gram with probability proportional to 1/n (ALBERT, section "
        "4.1); false reverses these probabilities",
        group=_EXAMPLES,
        metavar=_FLAG,
        only={"ngram": Range(minimum=2)},
    )
    do_whole_word_mask: bool = option(
        True, help="mask whole words instead of single tokens", group=_EXAMPLES, metavar=_FLAG
    )
    pair_task: PairTask = option(
        "sop",
        help="task for segment pairs: sop swaps half of the pairs; nsp takes half of the second "
        "segments from other documents; with none, all pairs stay in order (ALBERT, table 5)",
        group=_EXAMPLES,
    )
    random_seed: int = option(
        12345,
        help="seed for random numbers, which also depend on a document's file name and position",
        range=Range(minimum=0, below=2**64),
        group=_EXAMPLES,
        original=("seed",),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.predictions > self.max_seq_length - SPECIAL_COUNT:
            raise UserError(
                "max_predictions_per_seq must be at most max_seq_length - 3, because [CLS] and the "
                "two [SEP] tokens are never masked. Received: "
                f"max_predictions_per_seq={self.predictions}, max_seq_length={self.max_seq_length}."
            )

    @property
    def predictions(self) -> int:
        """Returns the maximum number of tokens to predict in an example."""
        if self.max_predictions_per_seq is not None:
            return self.max_predictions_per_seq
        return max(1, round(self.masked_lm_prob * self.max_seq_length))

    @property
    def ngram_probabilities(self) -> "np.ndarray":
        """Returns the probabilities of masking n-grams of 1 to N words: float64 `[N]`."""
        import numpy as np

        weights = 1.0 / np.arange(1, self.ngram + 1)
        return (weights if self.favor_shorter_ngram else weights[::-1]) / weights.sum()

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "ExampleOptions":
        """Creates options from the result of `dataclasses.asdict`, as stored in a manifest.

        Raises:
            UserError: a name is unknown, or a value is out of range.
        """
        unknown = sorted(values.keys() - {field.name for field in fields(cls)})
        if unknown:
            raise UserError(
                f"The examples were built with unknown options: {', '.join(unknown)}. Use the "
                "version of albert_tf that built them."
            )
        return cls(**values)


@dataclass(frozen=True, kw_only=True)
class BuildDataOptions(CorpusInput, ExampleOptions):
    """The options for `build_data`.

    On the command line, the original's options can also be spelled as in
    create_pretraining_data.py: --max_seq_length, --nodo_whole_word_mask.
    """

    output: str = option(help="output folder or URL", metavar="DIR", is_path=True)
    vocab: str = option(
        help="vocabulary file (spiece.model), model folder, or Hub model ID",
        metavar="FILE",
        is_path=True,
    )
    shard_bytes: int | None = option(
        None,
        help="approximate bytes of text per shard; default: 8 MiB, less for a small corpus",
        range=Range(minimum=1 << 10, maximum=1 << 50),
        group=_EXECUTION,
    )
    force: bool = option(
        False, help="replace an earlier or unfinished output of build-data", group=_EXECUTION
    )
    engine: Literal["local", "spark"] = option(
        "local", help="where to run: in processes on this machine, or on Spark", group=_EXECUTION
    )
    workers: int | None = option(
        None,
        help="number of worker processes; default: number of cores",
        range=Range(minimum=1, maximum=1024),
        group=_EXECUTION,
        only={"engine": ("local",)},
    )
    engine_option: tuple[str, ...] = option(
        (),
        help="Spark setting, such as spark.master=spark://HOST:7077; may be repeated",
        group=_EXECUTION,
        metavar="NAME=VALUE",
        repeated=True,
        only={"engine": ("spark",)},
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if not all("=" in setting for setting in self.engine_option):
            raise UserError(
                "--engine-option must be NAME=VALUE, a Spark setting. "
                f"Received: {' '.join(self.engine_option)}."
            )

    @property
    def examples(self) -> ExampleOptions:
        """Returns the options for examples."""
        return part(ExampleOptions, self)

    @property
    def corpus(self) -> CorpusOptions:
        """Returns the options for reading a corpus."""
        return part(CorpusOptions, self)
