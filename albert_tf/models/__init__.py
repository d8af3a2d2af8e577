"""ALBERT's encoder and the models for its tasks."""

from albert_tf.models.albert import AlbertModel
from albert_tf.models.outputs import ModelOutput
from albert_tf.models.sequence_classification import AlbertForSequenceClassification

__all__ = ["AlbertForSequenceClassification", "AlbertModel", "ModelOutput"]
