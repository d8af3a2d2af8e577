"""Early exit: a model that answers as soon as its head is sure.

The head of the last layer reads the output of earlier ones, too. Each row has the answer of the
first depth at which the head is sure of it, whatever rows share its batch; layers are applied until
all rows have one.

Sources: DeeBERT (arXiv 2004.12993) and FastBERT (arXiv 2004.02178), which stop at a sure head; BERT
Loses Patience (arXiv 2006.04152), which does so with ALBERT's shared layers.
"""

from collections.abc import Sequence
from typing import Any, Final

import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.errors import UserError
from albert_tf.layers.encoder import Unroll
from albert_tf.models import (
    AlbertForMultipleChoice,
    AlbertForSequenceClassification,
    AlbertForTokenClassification,
)
from albert_tf.models.base import PreTrainedModel
from albert_tf.models.inputs import ENCODER_INPUTS, named_inputs
from albert_tf.models.outputs import ModelOutput
from albert_tf.models.task import TaskModel

DEPTH: Final = "depth"
Sure = AlbertForSequenceClassification | AlbertForTokenClassification | AlbertForMultipleChoice


def check_early_exit(model: PreTrainedModel, depths: Sequence[int]) -> None:
    """Refuses models without probabilities, and depths that leave nothing out."""
    is_of_numbers = getattr(model, "problem_type", None) == "regression"
    if not isinstance(model, Sure) or is_of_numbers:
        raise UserError(
            "early_exit needs a head with probabilities: of classes, of tags or of choices. "
            f"Received: {'regression' if is_of_numbers else type(model).__name__}. Leave "
            "early_exit out: --depths 3 writes a signature that always ends there."
        )
    if min(depths) == model.config.num_hidden_layers:
        raise UserError(
            "early_exit needs a depth below the model's number of layers. Received: "
            f"depths={tuple(depths)} of {model.config.num_hidden_layers} layers."
        )


def confidence(model: PreTrainedModel, probabilities: Any, attention_mask: Any) -> tf.Tensor:
    """Returns how sure a model is of each row, float32 `[B]`.

    It is the probability of the best class or choice. Of several labels it is that of the label
    that the model is least sure of, present or absent; of tags that of the attended token.

    Args:
        probabilities: float32 `[B, C]`, or `[B, T, C]` for tags.
        attention_mask: `[B, T]`; only tags read it.
    """
    if getattr(model, "problem_type", None) == "multi_label_classification":
        return tf.reduce_min(tf.maximum(probabilities, 1 - probabilities), axis=-1)
    best = tf.reduce_max(probabilities, axis=-1)
    if isinstance(model, AlbertForTokenClassification):
        return tf.reduce_min(tf.where(attention_mask == 1, best, 1.0), axis=-1)
    return best


def leaving_early(
    model: PreTrainedModel, depths: Sequence[int], threshold: float
) -> PreTrainedModel:
    """Returns a model with the same weights that answers as soon as its head is sure.

    Args:
        model: a task's model that `check_early_exit` allows.
        depths: numbers of layers after which it may answer, rising to the model's own.
        threshold: the `confidence` that it takes, in (0, 1].
    Returns:
        A model of the same class. Its outputs are `logits`, and `depth`, int32 `[B]`: the number of
        layers after which each row was answered.
    """
    kind = type(type(model).__name__, (_EarlyExit, type(model)), {})
    made = kind(model.config, weights_of=model, dtype=model.dtype_policy)
    made.exits, made.threshold = tuple(depths), threshold
    return made


class _EarlyExit(TaskModel):
    """The `call` of `leaving_early`; its other base is the task's class."""

    exits: tuple[int, ...]
    threshold: float
    config: AlbertConfig

    def call(
        self,
        input_ids: Any = None,
        attention_mask: Any = None,
        token_type_ids: Any = None,
        unroll: Unroll = False,
        training: bool | None = None,
    ) -> ModelOutput:
        given = zip(ENCODER_INPUTS, (input_ids, attention_mask, token_type_ids), strict=False)
        inputs = named_inputs(dict(given), self._known_inputs)
        of_encoder = self.encoder_inputs({name: inputs[name] for name in ENCODER_INPUTS})
        mask = of_encoder.pop("attention_mask")
        # Rows that are padding don't keep others from leaving.
        rows = inputs["attention_mask"]
        is_padding = tf.reduce_all(rows == 0, axis=list(range(1, len(rows.shape))))

        def answer(hidden: Any, number: int = 0, before: Any = None) -> tuple[Any, Any]:
            """Returns logits and depths, by exits from `number` on; `before`: those until then."""
            start, end = (0, *self.exits)[number], self.exits[number]
            is_last = end == self.exits[-1]
            states, _ = self.albert.encoder(
                hidden,
                mask,
                unroll=unroll,
                cls_only=self.pooled_only and is_last,
                layers=slice(start, end),
            )
            logits = tf.cast(self.logits(self.albert.outputs_of(states[-1]), inputs), tf.float32)
            depth = tf.zeros_like(is_padding, tf.int32) + end
            done = is_padding
            if before:
                earlier, earlier_depth, done = before
                expanded = tf.reshape(done, [-1, *[1] * (len(logits.shape) - 1)])
                logits = tf.where(expanded, earlier, logits)
                depth = tf.where(done, earlier_depth, depth)
            if is_last:
                return logits, depth
            done |= confidence(self, self._probabilities(logits), rows) >= self.threshold
            return tf.cond(
                tf.reduce_all(done),
                lambda: (logits, depth),
                lambda: answer(states[-1], number + 1, (logits, depth, done)),
            )

        logits, depth = answer(self.albert.embedding(**of_encoder, training=False))
        return ModelOutput(logits=logits, depth=depth)

    def _probabilities(self, logits: tf.Tensor) -> tf.Tensor:
        is_of_texts = isinstance(self, AlbertForSequenceClassification)
        return self.probabilities(logits) if is_of_texts else tf.nn.softmax(logits)
