"""ALBERT for text embeddings, whose cosine similarity measures how similar two texts are."""

from typing import Any, Final

import keras
from keras import ops

from albert_tf import tasks
from albert_tf.checkpoints import sentence_transformers
from albert_tf.checkpoints.sentence_transformers import POOLINGS, SentenceEmbedding
from albert_tf.checkpoints.weights import Checkpoint
from albert_tf.config import AlbertConfig
from albert_tf.errors import UserError
from albert_tf.layers.common import Tensor
from albert_tf.layers.encoder import Unroll
from albert_tf.models import losses
from albert_tf.models.examples import Target
from albert_tf.models.multiple_choice import NO_CHOICE
from albert_tf.models.outputs import ModelOutput
from albert_tf.models.task import Inputs, TaskModel, merge_choices
from albert_tf.tasks import IGNORED

# Factor for the cosine similarities in the `groups` loss, as in sentence-transformers.
SCALE: Final = 20.0


@keras.saving.register_keras_serializable("albert_tf")
class AlbertForSimilarity(TaskModel):
    """ALBERT as an encoder that maps the C texts of each example to unit vectors and compares them.

    With `labels`, the loss is the squared error of the cosine similarity of the first two texts.

    With `groups`, the loss is the cross-entropy of identifying an example's second text (its
    partner) among candidates in the batch. The logits are 20 times the cosine similarities with the
    example's first text. The candidates exclude first texts, partners of other examples in the same
    group, and texts with the same `input_ids` as the example's first or second text.

    Checkpoints have the format of an `AlbertModel` with sentence-transformers modules. The pooler
    isn't trained.

    Args:
        config: an `AlbertConfig`.
        pooling: a key of `sentence_transformers.POOLINGS`. Default: "mean".
        **kwargs: `dtype` and `name`, as in `keras.Model`.
    Call arguments: the same as for `AlbertModel`, with a text axis (`input_ids` `[B, C, T]`), plus
        labels: float `[B]`, the target cosine similarities.
        groups: int `[B]`, the group of each example. All texts in a group belong together.
    Returns:
        A `ModelOutput` with `loss` (if labels or groups are passed), float32 `embeddings`
        `[B, C, H]`, `similarity` `[B, C - 1]` (the cosine similarities of the first text with the
        others), and on request `hidden_states` and `attentions` of the `B·C` sequences.
    Source: Sentence-BERT, arXiv 1908.10084, section 3; in-batch negatives: arXiv 1705.00652.

    Example:
        >>> from albert_tf import AlbertForSimilarity, AlbertTokenizer
        >>> tokenizer = AlbertTokenizer.from_pretrained("small")
        >>> model = AlbertForSimilarity.from_pretrained("small")
        >>> pair = tokenizer(["A quiet film.", "A loud one."], padding=True, return_tensors="np")
        >>> model({name: values[None] for name, values in pair.items()}).embeddings.shape
        TensorShape([1, 2, 384])
    """

    task = tasks.SIMILARITY
    targets = {
        "labels": Target("similarity", "number", limits=(-1, 1)),
        "groups": Target("embeddings", "group"),
    }
    pooled = True
    form_options = ("pooling",)
    saved_class = "AlbertModel"

    def __init__(self, config: AlbertConfig, pooling: str | None = None, **kwargs: Any):
        super().__init__(config, **kwargs)
        self.pooling = pooling or "mean"
        if self.pooling not in POOLINGS:
            raise UserError(
                f"pooling must be one of {', '.join(POOLINGS)}. Received: {self.pooling!r}."
            )
        if self.albert.pooler is not None:
            self.albert.pooler.trainable = False

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "pooling": self.pooling}

    @classmethod
    def from_checkpoint(cls, checkpoint: Checkpoint, *args: Any, **fields: Any) -> Any:
        """Creates a model with the maximum length and, by default, the pooling from its folder."""
        model = super().from_checkpoint(checkpoint, *args, **fields)
        folder = checkpoint.folder
        modules = None if folder is None else sentence_transformers.read(folder)
        if modules is not None:
            modules.require_cosine(folder)
            model._max_length = modules.max_length
            if fields.get("pooling") is None:
                model.pooling = modules.pooling
        return model

    def sentence_embedding(self) -> SentenceEmbedding:
        """Returns the model's pooling and maximum length, with normalization to unit length."""
        tokenizer = self._tokenizer
        length = self._max_length if tokenizer is None else tokenizer.model_max_length
        return SentenceEmbedding(self.pooling, normalize=True, max_length=length)

    def call(
        self,
        input_ids: Tensor = None,
        attention_mask: Tensor = None,
        token_type_ids: Tensor = None,
        position_ids: Tensor = None,
        inputs_embeds: Tensor = None,
        labels: Tensor = None,
        groups: Tensor = None,
        output_attentions: bool = False,
        output_hidden_states: bool = False,
        unroll: Unroll = True,
        training: bool | None = None,
    ) -> ModelOutput:
        return self.compute_outputs(locals())

    def head_outputs(self, encoded: ModelOutput, inputs: Inputs, training: bool | None) -> Inputs:
        given = inputs["inputs_embeds" if inputs["input_ids"] is None else "input_ids"]
        batch, count, length = ops.shape(given)[:3]
        states = ops.cast(encoded["last_hidden_state"], "float32")
        if inputs["attention_mask"] is None:
            mask = ops.ones((batch * count, length), "float32")
        else:
            mask = ops.cast(merge_choices("attention_mask", inputs["attention_mask"]), "float32")
            if len(mask.shape) == 3:  # queries and keys
                mask = ops.max(mask, axis=1)
        vectors = self.sentence_embedding()(states, mask, ops)
        embeddings = ops.reshape(vectors, (batch, count, self.config.hidden_size))
        similarity = ops.sum(embeddings[:, :1] * embeddings[:, 1:], axis=-1)
        return {"embeddings": embeddings, "similarity": similarity}

    def loss_terms(self, labels: Inputs, outputs: Inputs, inputs: Inputs) -> list[losses.Term]:
        """Returns the squared error for `labels` and the cross-entropy for `groups`."""
        return [
            losses.squared_error(label, ops.reshape(outputs["similarity"][:, 0], (-1, 1)))
            if name == "labels"
            else _partner_loss(outputs["embeddings"], label, inputs.get("input_ids"))
            for name, label in labels.items()
        ]


def _partner_loss(vectors: Tensor, groups: Tensor, input_ids: Tensor | None) -> losses.Term:
    """Returns the cross-entropy of identifying each partner; see `AlbertForSimilarity`.

    Args:
        vectors: unit vectors `[B, C, H]`.
        groups: int `[B]`; `IGNORED` for padding examples, whose texts aren't candidates.
        input_ids: int `[B, C, T]`, used to find equal texts; None if `inputs_embeds` is used.
    """
    batch, count, size = ops.shape(vectors)
    # The second texts come first, so that candidate i is the partner of row i.
    others = ops.reshape(ops.transpose(vectors[:, 1:], (1, 0, 2)), (-1, size))
    logits = SCALE * ops.matmul(vectors[:, 0], ops.transpose(others))
    groups = ops.reshape(groups, (-1,))
    fills = ops.equal(groups, IGNORED)
    places = ops.arange(batch)
    are_second = ops.equal(ops.arange(count - 1), 0)[:, None]  # [C - 1, 1]
    same_group = ops.equal(groups[:, None], groups)[:, None]  # [B, 1, B]
    is_own = ops.logical_and(ops.equal(places[:, None], places)[:, None], are_second)
    is_left_out = ops.logical_or(ops.logical_and(same_group, are_second), fills)  # [B, C - 1, B]
    if input_ids is not None:
        candidates = ops.transpose(input_ids[:, 1:], (1, 0, 2))
        for text in (input_ids[:, 0], input_ids[:, 1]):
            is_equal = ops.all(ops.equal(text[:, None, None], candidates), axis=-1)
            is_left_out = ops.logical_or(is_left_out, is_equal)
    is_left_out = ops.logical_and(is_left_out, ops.logical_not(is_own))
    logits = ops.where(ops.reshape(is_left_out, ops.shape(logits)), NO_CHOICE, logits)
    return losses.cross_entropy(ops.where(fills, IGNORED, places), logits)
