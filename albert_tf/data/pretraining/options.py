"""What a pretraining example is: every choice of the original's create_pretraining_data.py."""

from dataclasses import dataclass, fields
from typing import Any, Final, Literal

import numpy as np

from albert_tf.errors import UserError

PairTask = Literal["sop", "nsp", "none"]
Mode = Literal["dynamic", "static"]

SPAN_PROBABILITY: Final = 0.2  # of ending a span after a word; SpanBERT, arXiv 1907.10529, 3.1
LONGEST_SPAN: Final = 10  # words; as there
NUMBER_BITS: Final = 11  # for a position, beside the 53 of a draw
LONGEST: Final = 2**NUMBER_BITS
SPECIAL_COUNT: Final = 3  # [CLS] and two [SEP]


@dataclass(frozen=True)
class ExampleOptions:
    """How documents become examples. Names and defaults are the original's where it has them.

    Attributes:
        max_seq_length: pieces of an example, `[CLS]` and two `[SEP]` included.
        max_predictions_per_seq: most pieces to predict; None for `masked_lm_prob` of
            `max_seq_length`. (The original's 20 masks a sequence of 512 to 4 % alone.)
        masked_lm_prob: share of pieces to predict.
        short_seq_prob: share of documents that are cut into shorter examples, of a length drawn
            anew for each.
        ngram: longest n-gram in words; n is drawn with p ∝ 1/n (ALBERT, section 4.1).
        favor_shorter_ngram: False turns these probabilities around.
        do_whole_word_mask: words are masked whole; False takes each piece for a word.
        do_permutation: further n-grams, as many pieces again, change places and are predicted too.
        span_masking: spans of up to 10 words in the place of n-grams, their lengths drawn as
            SpanBERT does; `[MASK]`, kept or random is one draw for a whole span.
        pair_task: "sop" swaps the segments of half the pairs; "nsp" takes half of the second
            segments from another document; "none" leaves all as they are (ALBERT, table 5).
        random_seed: what every draw depends on, together with the document's name and place.
        mode: "static" masks `dupe_factor` copies ahead; "dynamic" stores segments once, and they
            are masked anew in every epoch.
        dupe_factor: copies of each document in static mode.
    Raises:
        UserError: a value out of its range.
    """

    max_seq_length: int = 512
    max_predictions_per_seq: int | None = None
    masked_lm_prob: float = 0.15
    short_seq_prob: float = 0.1
    ngram: int = 3
    favor_shorter_ngram: bool = True
    do_whole_word_mask: bool = True
    do_permutation: bool = False
    span_masking: bool = False
    pair_task: PairTask = "sop"
    random_seed: int = 12345
    mode: Mode = "dynamic"
    dupe_factor: int = 40

    def __post_init__(self) -> None:
        for name, holds, rule in (
            ("max_seq_length", 8 <= self.max_seq_length <= LONGEST, f"between 8 and {LONGEST}"),
            (
                "max_predictions_per_seq",
                self.max_predictions_per_seq != 0 and self.predictions >= 1,
                "1 or more",
            ),
            ("masked_lm_prob", 0 <= self.masked_lm_prob <= 1, "between 0 and 1"),
            ("short_seq_prob", 0 <= self.short_seq_prob <= 1, "between 0 and 1"),
            ("ngram", 1 <= self.ngram <= 10, "between 1 and 10"),
            ("dupe_factor", self.dupe_factor >= 1, "1 or more"),
            ("random_seed", self.random_seed >= 0, "0 or more"),
            ("pair_task", self.pair_task in ("sop", "nsp", "none"), "sop, nsp or none"),
            ("mode", self.mode in ("dynamic", "static"), "dynamic or static"),
        ):
            if not holds:
                raise UserError(f"{name} must be {rule}. Received: {getattr(self, name)!r}.")
        if self.predictions > self.max_seq_length - SPECIAL_COUNT:
            raise UserError(
                "max_predictions_per_seq must leave room for [CLS] and two [SEP]. Received: "
                f"max_predictions_per_seq={self.predictions}, max_seq_length={self.max_seq_length}."
            )

    @property
    def predictions(self) -> int:
        """Most pieces to predict in an example."""
        if self.max_predictions_per_seq is not None:
            return self.max_predictions_per_seq
        return max(1, round(self.masked_lm_prob * self.max_seq_length))

    @property
    def masked_predictions(self) -> int:
        """Most of them that are masked: a permutation moves as many again, and needs room too."""
        return self.predictions // (2 if self.do_permutation else 1)

    @property
    def copies(self) -> int:
        """Times that each document is used."""
        return self.dupe_factor if self.mode == "static" else 1

    @property
    def ngram_probabilities(self) -> np.ndarray:
        """float64 `[N]`: of masking 1 … N words together."""
        if self.span_masking:
            lengths = np.arange(LONGEST_SPAN)
            weights = SPAN_PROBABILITY * (1 - SPAN_PROBABILITY) ** lengths
        else:
            weights = 1.0 / np.arange(1, self.ngram + 1)
            weights = weights if self.favor_shorter_ngram else weights[::-1]
        return weights / weights.sum()

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "ExampleOptions":
        """From what `dataclasses.asdict` gave, as a manifest keeps it.

        Raises:
            UserError: a name that isn't one of the attributes, or a value out of its range.
        """
        strangers = sorted(values.keys() - {field.name for field in fields(cls)})
        if strangers:
            raise UserError(
                f"Options of examples must be known ones. Received: {', '.join(strangers)}. "
                "They were written by another version of albert_tf; use that one."
            )
        return cls(**values)
