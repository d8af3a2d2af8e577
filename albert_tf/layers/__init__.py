"""The ALBERT layers, written with `keras.ops` so that they run on every Keras backend."""

from albert_tf.layers.embedding import FactorizedEmbedding
from albert_tf.layers.encoder import (
    AlbertBlock,
    AlbertEncoder,
    FeedForward,
    SelfAttention,
    attention_bias,
)
from albert_tf.layers.heads import AnswerSpans, ClassificationHead, MaskedLMHead, SpanHead, pooler

__all__ = [
    "AlbertBlock",
    "AlbertEncoder",
    "AnswerSpans",
    "ClassificationHead",
    "FactorizedEmbedding",
    "FeedForward",
    "MaskedLMHead",
    "SelfAttention",
    "SpanHead",
    "attention_bias",
    "pooler",
]
