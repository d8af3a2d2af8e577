"""The likeliest pieces in the place of `[MASK]`."""

import dataclasses
import logging
from collections.abc import Iterable, Mapping, Sequence
from numbers import Integral
from typing import Any

import numpy as np
from scipy.special import softmax

from albert_tf.errors import UserError
from albert_tf.models import AlbertForMaskedLM, AlbertForPreTraining
from albert_tf.pipelines.base import Outputs, Pipeline
from albert_tf.pipelines.batches import POSITIONS, Row
from albert_tf.pipelines.inputs import as_text
from albert_tf.pipelines.long_texts import FEATURES, LengthOptions, row_length
from albert_tf.text.tokenizer import SPACE
from albert_tf.text.vocabulary import USER_DEFINED_PIECES

logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class FillMaskOptions(LengthOptions):
    """What is asked of a mask.

    Attributes:
        top_k: how many pieces, best first.
        targets: a piece of the vocabulary, or several, or their ids, to choose among. A word of a
            SentencePiece vocabulary starts with "▁". What is no piece stands for its first one.
    """

    top_k: int = 5
    targets: str | int | Sequence[str | int] | np.ndarray | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.top_k, Integral) or self.top_k < 1:
            raise UserError(f"top_k must be 1 or more. Received: {self.top_k!r}.")
        if isinstance(self.targets, Sequence | np.ndarray) and not len(self.targets):
            raise UserError("targets must be one piece or more. Received: none.")


class FillMaskPipeline(Pipeline[FillMaskOptions]):
    """`[{"score": …, "token": …, "token_str": …, "sequence": …}]` for a text with `[MASK]`.

    Several masks give a list of such lists, each mask filled for itself. A text that is too long is
    not cut, unless `truncation` says so: each mask is filled from the window in whose middle it
    stands, and "sequence" is the whole text.

    Args: see `Pipeline`, and `FillMaskOptions` for the options.
    """

    task = "fill-mask"
    models = (AlbertForMaskedLM, AlbertForPreTraining)
    options_type = FillMaskOptions

    def example(self, given: Any, options: FillMaskOptions) -> list[int]:
        """The ids of a text, special tokens included."""
        text = as_text(given)
        ids = list(
            self.tokenizer(
                text,
                truncation=bool(options.truncation),
                max_length=row_length(options, self.max_length),
                split_special_tokens=False,
            )["input_ids"]
        )
        if self.tokenizer.mask_token_id not in ids:
            cut = " in what truncation leaves of it" if options.truncation else ""
            raise UserError(
                f"A text must have the mask token, {self.tokenizer.mask_token}. "
                f"Received: {text[:60]!r}, without one{cut}."
            )
        return self._closed_up(ids)

    def encode(
        self, examples: Sequence[list[int]], options: FillMaskOptions
    ) -> Iterable[list[Row]]:
        length = row_length(options, self.max_length)
        return [_rows(ids, self.tokenizer.mask_token_id, length) for ids in examples]

    def finish(
        self,
        example: list[int],
        rows: Sequence[Row],
        found: Sequence[Outputs],
        options: FillMaskOptions,
    ) -> Any:
        targets = None if options.targets is None else np.array(options.targets)
        output = self.model.targets["labels"]
        results = []
        for row, each in zip(rows, found, strict=True):
            for place, logits in zip(row.details, each[output], strict=False):  # [P, V], padded
                results.append(self._ranked(example, place, softmax(logits), targets, options))
        if len(results) > 1:
            return results
        return results[0]

    def _closed_up(self, ids: list[int]) -> list[int]:
        """`ids` without the lone "▁" between a mask and a full stop, bracket or dash.

        What stands after a special token is cut into pieces apart, and starts with "▁"; in
        pretraining, where a mask took the place of a word's last piece, none came before such a
        mark. transformers' tokenizer gives none either.
        """
        number = self.tokenizer.convert_tokens_to_ids
        mask, space = self.tokenizer.mask_token_id, number(SPACE)
        marks = {number(mark) for mark in USER_DEFINED_PIECES}
        if space == self.tokenizer.unk_token_id:
            return ids
        return [
            token
            for place, token in enumerate(ids)
            if not (token == space and ids[place - 1] == mask and ids[place + 1] in marks)
        ]

    def _ranked(
        self,
        ids: Sequence[int],
        place: int,
        odds: np.ndarray,
        targets: np.ndarray | None,
        options: FillMaskOptions,
    ) -> list[dict[str, Any]]:
        candidates = np.arange(len(odds)) if targets is None else targets
        best = np.argsort(-odds[candidates], kind="stable")[: options.top_k]
        is_only = list(ids).count(self.tokenizer.mask_token_id) == 1
        ranked = []
        for token in candidates[best].tolist():
            filled = [*ids[:place], token, *ids[place + 1 :]]
            ranked.append(
                {
                    "score": float(odds[token]),
                    "token": token,
                    "token_str": self.tokenizer.decode([token]),
                    "sequence": self.tokenizer.decode(filled, skip_special_tokens=is_only),
                }
            )
        return ranked

    def _chosen(self, options: Mapping[str, Any]) -> FillMaskOptions:
        chosen = super()._chosen(options)
        if chosen.targets is None:
            return chosen
        given = chosen.targets
        names = [given] if isinstance(given, str | Integral) else np.asarray(given, object).ravel()
        ids = tuple(dict.fromkeys(self._target_id(name) for name in names))
        return dataclasses.replace(chosen, targets=ids)

    def _space_id(self) -> int | None:
        """The id of a lone "▁"; None if the vocabulary has none."""
        number = self.tokenizer.convert_tokens_to_ids(SPACE)
        return None if number == self.tokenizer.unk_token_id else number

    def _target_id(self, target: str | int) -> int:
        tokenizer = self.tokenizer
        if isinstance(target, Integral):
            if not 0 <= target < tokenizer.vocab_size:
                raise UserError(
                    f"A target's id must lie between 0 and {tokenizer.vocab_size - 1}. "
                    f"Received: {target}."
                )
            return int(target)
        if not isinstance(target, str):
            raise TypeError(f"A target must be a piece or its id. Received: {target!r}.")
        token = tokenizer.convert_tokens_to_ids(target)
        start = SPACE + target
        if token == tokenizer.unk_token_id and target != tokenizer.unk_token:
            ids = tokenizer(target, add_special_tokens=False)["input_ids"]
            # A lone "▁" is where a word starts whose pieces are unknown.
            if not ids or tokenizer.unk_token_id in ids[:1] or ids[0] == self._space_id():
                raise UserError(
                    "A target must be a piece of the vocabulary, or start with one. "
                    f"Received: {target!r}."
                )
            token = ids[0]
            logger.warning(
                "The target %r is no piece of the vocabulary; %r stands for it.",
                target,
                tokenizer.convert_ids_to_tokens(token),
            )
        elif tokenizer.convert_tokens_to_ids(start) != tokenizer.unk_token_id:
            logger.warning("The target %r continues a word; %r is the word.", target, start)
        return token


def _rows(ids: list[int], mask_id: int, length: int) -> list[Row]:
    """One row with all masks if `ids` fit, otherwise one for each mask."""
    masks = [place for place, token in enumerate(ids) if token == mask_id]
    if len(ids) <= length:
        return [_row(ids, masks, 0)]
    opening, text, closing = ids[:1], ids[1:-1], ids[-1:]
    room = length - 2
    rows = []
    for mask in masks:
        start = min(max(mask - 1 - room // 2, 0), len(text) - room)
        rows.append(_row(opening + text[start : start + room] + closing, [mask], start))
    return rows


def _row(ids: list[int], masks: list[int], start: int) -> Row:
    """A row that starts `start` pieces into a text, with the masks at `masks` of the text."""
    features = {FEATURES[0]: ids, FEATURES[1]: [0] * len(ids)}
    return Row({**features, POSITIONS: [mask - start for mask in masks]}, masks)
