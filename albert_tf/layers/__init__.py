"""The layers of ALBERT, in `keras.ops` only: they run on every Keras backend."""

from albert_tf.layers.attention import SelfAttention, attention_bias
from albert_tf.layers.embedding import FactorizedEmbedding
from albert_tf.layers.encoder import AlbertBlock, AlbertEncoder, group_schedule
from albert_tf.layers.heads import ClassificationHead, pooler

__all__ = [
    "AlbertBlock",
    "AlbertEncoder",
    "ClassificationHead",
    "FactorizedEmbedding",
    "SelfAttention",
    "attention_bias",
    "group_schedule",
    "pooler",
]
