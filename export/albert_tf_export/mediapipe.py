"""The form of TFLite files that MediaPipe's TextClassifier runs: strings in, labels out.

MediaPipe demands one graph, so that the layers can't be a loop, and reads the tokenizer and the
names of the tensors from the metadata. It lower-cases ASCII letters, cuts the text into pieces with
SentencePiece, and puts `[CLS]` and `[SEP]` around them. It pads and truncates rows for a fixed
length; for any length it does neither, and after a row that is too long every further call fails,
so the graph truncates.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import tensorflow as tf

from albert_tf.errors import UserError
from albert_tf.models import AlbertForSequenceClassification
from albert_tf.models.base import PreTrainedModel
from albert_tf.text.base_tokenizer import BaseTokenizer
from albert_tf.text.tokenizer import AlbertTokenizer
from albert_tf_export.options import refuse_left
from albert_tf_export.signatures import Signature
from albert_tf_export.task_outputs import Tensors

# The name of each input in the metadata (bert_preprocessor_calculator.cc).
NAMES: Final = {"input_ids": "ids", "attention_mask": "mask", "token_type_ids": "segment_ids"}
OUTPUT: Final = "probabilities"


def check_mediapipe(
    model: PreTrainedModel,
    tokenizer: BaseTokenizer,
    lengths: Sequence[int],
    batch: int | None,
    pairs: bool | None,
    gated: bool,
) -> None:
    """Refuses models and options that MediaPipe's TextClassifier can't have."""
    is_of_texts = isinstance(model, AlbertForSequenceClassification)
    if not is_of_texts or model.problem_type == "regression":
        raise UserError(
            "A model for MediaPipe must be a classifier of texts. Received: "
            f"{'regression' if is_of_texts else type(model).__name__}. Leave host out."
        )
    if not isinstance(tokenizer, AlbertTokenizer) or not tokenizer.do_lower_case:
        raise UserError(
            "A vocabulary for MediaPipe must be SentencePiece's and lower-case its texts, as "
            f"MediaPipe does before it. Received: {tokenizer!r}."
        )
    refuse_left(tokenizer, "MediaPipe")
    given = {"lengths": lengths, "batch": batch != 1, "pairs": pairs, "gate": gated}
    wrong = [name for name, value in given.items() if value]
    if wrong:
        raise UserError(
            "A file for MediaPipe must take one text at a time, and return probabilities alone. "
            f"Received: {', '.join(wrong)}. Leave {'it' if len(wrong) == 1 else 'them'} out."
        )


def for_mediapipe(signature: Signature, max_length: int) -> Signature:
    """Returns the signature with probabilities alone, and with longer rows truncated."""

    def function(*values: tf.Tensor) -> Tensors:
        if values[0].shape[1] is None:
            values = tuple(_truncated(value, max_length) for value in values)
        return {OUTPUT: signature.function(*values)[OUTPUT]}

    return replace(signature, function=function)


def _truncated(row: tf.Tensor, max_length: int) -> tf.Tensor:
    """Drops pieces before the last one, which is `[SEP]`."""
    length = tf.shape(row)[1]
    places = tf.range(tf.minimum(length, max_length))
    is_last = places == max_length - 1
    return tf.gather(row, tf.where(is_last, length - 1, places), axis=1)
