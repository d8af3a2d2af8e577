"""ALBERT's encoder and the models for its tasks."""

from albert_tf.models.albert import AlbertModel
from albert_tf.models.masked_lm import AlbertForMaskedLM
from albert_tf.models.multiple_choice import AlbertForMultipleChoice
from albert_tf.models.outputs import ModelOutput
from albert_tf.models.pretraining import AlbertForPreTraining
from albert_tf.models.question_answering import AlbertForQuestionAnswering
from albert_tf.models.sequence_classification import AlbertForSequenceClassification
from albert_tf.models.sharing import unshare
from albert_tf.models.token_classification import AlbertForTokenClassification

__all__ = [
    "AlbertForMaskedLM",
    "AlbertForMultipleChoice",
    "AlbertForPreTraining",
    "AlbertForQuestionAnswering",
    "AlbertForSequenceClassification",
    "AlbertForTokenClassification",
    "AlbertModel",
    "ModelOutput",
    "unshare",
]
