"""The mask filling pipeline."""

import dataclasses
import logging
from collections.abc import Mapping, Sequence
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np

from albert_tf.data.tasks.rows import Rows
from albert_tf.errors import UserError, short_repr
from albert_tf.options import COUNT, check_number
from albert_tf.pipelines.base import (
    Outputs,
    Pipeline,
    TruncationOptions,
    as_text,
)
from albert_tf.probabilities import softmax
from albert_tf.tasks import INPUT_IDS, MASKED_LM, MASKED_LM_POSITIONS, PRETRAINING, TOKEN_TYPE_IDS
from albert_tf.text.added_tokens import SPACE
from albert_tf.text.sequences import special_count
from albert_tf.text.vocabulary import USER_DEFINED_PIECES
from albert_tf.text.windows import Truncation, make_sequences

logger = logging.getLogger(__name__)


class MaskedWindow(NamedTuple):
    """A part of a text with masks.

    Attributes:
        ids: token ids, including special tokens.
        masks: positions of the masks in the whole text.
        start: position of the window in the whole text.
    """

    ids: list[int]
    masks: list[int]
    start: int


class FillMaskPipeline(Pipeline):
    """Mask filling pipeline, which predicts the most likely tokens at `[MASK]`.

    The result for a text is a list of dicts with the keys "score", "token", "token_str", and
    "sequence". For a text with several masks, the result is a list of such lists, and each mask is
    filled independently. As in transformers, the result for a list with a single text is the result
    for that text.

    A long text is truncated only if `truncation` is set. Otherwise, each mask is filled from the
    window around it, and "sequence" is the whole text.

    Example:

    >>> from albert_tf import pipeline
    >>> fill = pipeline("fill-mask", "small", top_k=2)
    >>> [sorted(each) for each in fill("The [MASK] is open.")]
    [['score', 'sequence', 'token', 'token_str'], ['score', 'sequence', 'token', 'token_str']]

    Args: see `Pipeline` and `Options`.
    """

    task = "fill-mask"
    models = (MASKED_LM.model, PRETRAINING.model)

    @dataclasses.dataclass(frozen=True)
    class Options(TruncationOptions):
        """Options for mask filling.

        Attributes:
            top_k: number of tokens to return, best first.
            targets: tokens or ids to limit the results to. In a SentencePiece vocabulary, a word
                starts with "▁". A target that isn't a token is replaced with its first token.
        """

        top_k: int = 5
        targets: str | int | Sequence[str | int] | np.ndarray | None = None

        def __post_init__(self) -> None:
            super().__post_init__()
            check_number("top_k", self.top_k, COUNT)
            if isinstance(self.targets, Sequence | np.ndarray) and not len(self.targets):
                raise UserError("targets must not be empty. Pass at least one token.")

    def __call__(self, inputs: Any, *, batch_size: int | None = None, **options: Any) -> Any:
        found = super().__call__(inputs, batch_size=batch_size, **options)
        return found[0] if isinstance(inputs, list) and len(inputs) == 1 else found

    def preprocess(self, given: Any, options: Options) -> list[int]:
        """Returns the ids of a text, including special tokens."""
        tokenizer, length = self.tokenizer, options.max_length or self.max_length
        text = as_text(given)
        tokens = tokenizer.tokens_of([text], split_special=False)
        truncation = Truncation(length, side=tokenizer.truncation_side)
        [sequence] = make_sequences(
            tokens, None, tokenizer.special, truncation if options.truncation else None
        )
        ids = sequence.input_ids
        if self.tokenizer.mask_token_id not in ids:
            cut = " after truncation" if options.truncation else ""
            raise UserError(
                f"A text must contain the mask token {self.tokenizer.mask_token}{cut}. "
                f"Received: {text[:60]!r}."
            )
        return self._without_space_after_mask(ids)

    def encode(self, examples: Sequence[list[int]], options: Options) -> Rows:
        length = options.max_length or self.max_length
        windows = [self._windows(ids, length) for ids in examples]
        flat = [window for each in windows for window in each]
        arrays = {
            INPUT_IDS.name: [window.ids for window in flat],
            TOKEN_TYPE_IDS.name: [[0] * len(window.ids) for window in flat],
            MASKED_LM_POSITIONS.name: [
                [mask - window.start for mask in window.masks] for window in flat
            ],
        }
        numbers = [number for number, each in enumerate(windows) for _ in each]
        pad_id = self.tokenizer.pad_token_id
        return Rows(arrays, {}, pad_id, numbers, details=[window.masks for window in flat])

    def postprocess(
        self,
        example: list[int],
        windows: Sequence[tuple[list[int], Outputs]],
        options: Options,
    ) -> Any:
        targets = None if options.targets is None else np.array(options.targets)
        output = "prediction_logits" if self.model.task == PRETRAINING else "logits"
        results = []
        for masks, outputs in windows:
            for mask, logits in zip(masks, outputs[output], strict=False):  # [P, V], padded
                results.append(self._rank(example, mask, softmax(logits), targets, options))
        return results if len(results) > 1 else results[0]

    def _windows(self, ids: list[int], length: int) -> list[MaskedWindow]:
        """Returns one window with all masks, or one window per mask if the text is too long."""
        masks = [at for at, token in enumerate(ids) if token == self.tokenizer.mask_token_id]
        if len(ids) <= length:
            return [MaskedWindow(ids, masks, 0)]
        text, room = ids[1:-1], length - special_count(False)
        windows = []
        for mask in masks:
            start = min(max(mask - 1 - room // 2, 0), len(text) - room)
            row = [ids[0], *text[start : start + room], ids[-1]]
            windows.append(MaskedWindow(row, [mask], start))
        return windows

    def _without_space_after_mask(self, ids: list[int]) -> list[int]:
        """Drops the single "▁" between a mask and a full stop, bracket, or dash.

        The text after a special token is encoded separately, and therefore starts with "▁". In
        pretraining, a mask at the end of a word was never followed by "▁" and one of these
        characters. The transformers tokenizer doesn't add a "▁" either.
        """
        mask, space = self.tokenizer.mask_token_id, self._space_id()
        marks = set(self.tokenizer.convert_tokens_to_ids(list(USER_DEFINED_PIECES)))
        marks.discard(self.tokenizer.unk_token_id)  # some vocabularies lack one of these pieces
        return [
            token
            for at, token in enumerate(ids)
            if not (token == space and ids[at - 1] == mask and ids[at + 1] in marks)
        ]

    def _rank(
        self,
        ids: Sequence[int],
        mask: int,
        probabilities: np.ndarray,
        targets: np.ndarray | None,
        options: Options,
    ) -> list[dict[str, Any]]:
        candidates = np.arange(len(probabilities)) if targets is None else targets
        best = np.argsort(-probabilities[candidates], kind="stable")[: options.top_k]
        is_only = list(ids).count(self.tokenizer.mask_token_id) == 1
        pad = self.tokenizer.pad_token_id
        ranked = []
        for token in candidates[best].tolist():
            # As in transformers, a predicted <pad> leaves nothing in the sequence.
            filled = [each for each in [*ids[:mask], token, *ids[mask + 1 :]] if each != pad]
            ranked.append(
                {
                    "score": float(probabilities[token]),
                    "token": token,
                    "token_str": self.tokenizer.decode([token]),
                    "sequence": self.tokenizer.decode(filled, skip_special_tokens=is_only),
                }
            )
        return ranked

    def _merge_options(self, options: Mapping[str, Any]) -> Options:
        chosen = super()._merge_options(options)
        if chosen.targets is None:
            return chosen
        given: Any = chosen.targets
        names: Any = (
            [given] if isinstance(given, str | Integral) else np.asarray(given, object).ravel()
        )
        ids = tuple(dict.fromkeys(self._target_id(name) for name in names))
        return dataclasses.replace(chosen, targets=ids)

    def _space_id(self) -> int | None:
        """Returns the id of a single "▁", or None if the vocabulary lacks it."""
        number = self.tokenizer.convert_tokens_to_ids(SPACE)
        return None if number == self.tokenizer.unk_token_id else number

    def _target_id(self, target: str | int) -> int:
        tokenizer = self.tokenizer
        if isinstance(target, Integral):
            if not 0 <= target < tokenizer.vocab_size:
                raise UserError(
                    f"The id of a target must be in [0, {tokenizer.vocab_size}). "
                    f"Received: {target}."
                )
            return int(target)
        if not isinstance(target, str):
            raise TypeError(f"A target must be a token or its id. Received: {short_repr(target)}.")
        token = tokenizer.convert_tokens_to_ids(target)
        start = SPACE + target
        if token == tokenizer.unk_token_id and target != tokenizer.unk_token:
            [tokens] = tokenizer.tokens_of([target], split_special=False)
            ids = tokens.ids.tolist()
            # A word without known tokens is encoded as a single "▁" and unknown tokens.
            if not ids or ids[0] in (tokenizer.unk_token_id, self._space_id()):
                raise UserError(
                    "A target must be a token of the vocabulary or start with one. "
                    f"Received: {short_repr(target)}."
                )
            token = ids[0]
            logger.warning(
                "The target %r isn't a token, and is replaced with its first token, %r.",
                target,
                tokenizer.convert_ids_to_tokens(token),
            )
        elif tokenizer.convert_tokens_to_ids(start) != tokenizer.unk_token_id:
            logger.warning("The target %r continues a word. Pass %r to start one.", target, start)
        return token
