"""The options of pretraining examples: every choice of the original's code."""

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Final, Literal

from albert_tf.errors import UserError
from albert_tf.options import COUNT, SHARE, Range, check_options, option

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

EXAMPLE_GROUP: Final = (
    "examples (names and defaults are those of the original's create_pretraining_data.py, where it "
    "has them)"
)
_FLAG: Final = "true|false"


@dataclass(frozen=True)
class ExampleOptions:
    """How documents become examples. Names and defaults are the original's where it has them."""

    mode: Mode = option(
        "dynamic",
        help="when to mask: dynamic masks anew in every epoch, as the files are read; static masks "
        "dupe_factor copies now",
        group=EXAMPLE_GROUP,
    )
    dupe_factor: int | None = option(
        None,
        help=f"differently masked copies in static mode; default: {COPIES}",
        range=Range(minimum=1, maximum=1000),
        group=EXAMPLE_GROUP,
    )
    max_seq_length: int = option(
        512,
        help="tokens in an example, [CLS] and two [SEP] included",
        range=Range(minimum=8, maximum=LONGEST),
        group=EXAMPLE_GROUP,
    )
    # The original's 20 masks a sequence of 512 to 4 % alone.
    max_predictions_per_seq: int | None = option(
        None,
        help="most tokens to predict; default: masked_lm_prob of max_seq_length",
        range=COUNT,
        group=EXAMPLE_GROUP,
    )
    masked_lm_prob: float = option(
        0.15, help="share of tokens to predict", range=SHARE, group=EXAMPLE_GROUP
    )
    short_seq_prob: float = option(
        0.1,
        help="share of documents that are cut into shorter examples of random length",
        range=SHARE,
        group=EXAMPLE_GROUP,
    )
    ngram: int = option(
        3,
        help="longest n-gram to mask, in words",
        range=Range(minimum=1, maximum=10),
        group=EXAMPLE_GROUP,
    )
    favor_shorter_ngram: bool = option(
        True,
        help="probability 1/n of an n-gram (ALBERT, section 4.1); false reverses the order",
        group=EXAMPLE_GROUP,
        metavar=_FLAG,
    )
    do_whole_word_mask: bool = option(
        True, help="mask whole words, not single tokens", group=EXAMPLE_GROUP, metavar=_FLAG
    )
    do_permutation: bool = option(
        False,
        help="permute further n-grams, as many tokens again, and predict them too",
        group=EXAMPLE_GROUP,
        metavar=_FLAG,
    )
    span_masking: bool = option(
        False,
        help="mask spans of up to 10 words instead of n-grams, with SpanBERT's lengths; a span "
        "becomes [MASK] or random, or stays, as a whole",
        group=EXAMPLE_GROUP,
        metavar=_FLAG,
    )
    pair_task: PairTask = option(
        "sop",
        help="task of a pair: sop swaps half of them, nsp takes half of the second segments from "
        "another document, none leaves them in order (ALBERT, table 5)",
        group=EXAMPLE_GROUP,
    )
    random_seed: int = option(
        12345,
        help="seed of all random numbers, with the document's name and position",
        range=Range(minimum=0, below=2**64),
        group=EXAMPLE_GROUP,
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
