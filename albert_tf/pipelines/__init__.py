"""Raw texts to answers in one call, as Hugging Face's `pipeline`."""

from albert_tf.pipelines.base import Pipeline
from albert_tf.pipelines.factory import pipeline
from albert_tf.pipelines.feature_extraction import FeatureExtractionPipeline
from albert_tf.pipelines.fill_mask import FillMaskPipeline
from albert_tf.pipelines.question_answering import QuestionAnsweringPipeline
from albert_tf.pipelines.sentence_order import SentenceOrderPipeline
from albert_tf.pipelines.text_classification import TextClassificationPipeline
from albert_tf.pipelines.token_classification import TokenClassificationPipeline

__all__ = [
    "FeatureExtractionPipeline",
    "FillMaskPipeline",
    "Pipeline",
    "QuestionAnsweringPipeline",
    "SentenceOrderPipeline",
    "TextClassificationPipeline",
    "TokenClassificationPipeline",
    "pipeline",
]
