"""ALBERT for Keras 3 and TensorFlow, from raw text to mobile deployment.

The names below are imported on first use, so `import albert_tf` loads neither Keras nor TensorFlow.
`keras.models.load_model` finds the classes once `albert_tf` has been imported.
"""

import importlib
import sys
from typing import TYPE_CHECKING, Any

from albert_tf.huggingface import NAMES
from albert_tf.registration import register_when_imported
from albert_tf.tasks import BY_MODEL

if TYPE_CHECKING:
    from albert_tf_export import export_onnx as export_onnx
    from albert_tf_export import export_saved_model as export_saved_model
    from albert_tf_export import export_tflite as export_tflite
    from albert_tf_export import export_web as export_web

    from albert_tf.checkpoints.conversion import convert as convert
    from albert_tf.config import AlbertConfig as AlbertConfig
    from albert_tf.data.jobs.run import build_data as build_data
    from albert_tf.data.pretraining.batches import pretraining_batches as pretraining_batches
    from albert_tf.errors import UserError as UserError
    from albert_tf.evaluation.keras_metrics import EntityF1 as EntityF1
    from albert_tf.evaluation.keras_metrics import ExactMatch as ExactMatch
    from albert_tf.models import *  # noqa: F403
    from albert_tf.optimizers import AlbertAdamW as AlbertAdamW
    from albert_tf.optimizers import Lamb as Lamb
    from albert_tf.optimizers import WarmupPolynomialDecay as WarmupPolynomialDecay
    from albert_tf.pipelines import pipeline as pipeline
    from albert_tf.text.preprocessing import AlbertPreprocessor as AlbertPreprocessor
    from albert_tf.text.tokenizer import AlbertTokenizer as AlbertTokenizer
    from albert_tf.text.vocabulary import train_vocabulary as train_vocabulary
    from albert_tf.text.wordpiece import WordPieceTokenizer as WordPieceTokenizer
    from albert_tf.training.callbacks import KeepBest as KeepBest
    from albert_tf.training.callbacks import Resume as Resume
    from albert_tf.training.evaluate import evaluate as evaluate
    from albert_tf.training.evaluate import soft_labels as soft_labels
    from albert_tf.training.finetune import finetune as finetune
    from albert_tf.training.pretrain import pretrain as pretrain

__version__ = "1.1.0"

_HOMES = {
    **dict.fromkeys(BY_MODEL, "albert_tf.models"),
    "AlbertAdamW": "albert_tf.optimizers",
    "AlbertConfig": "albert_tf.config",
    "AlbertPreprocessor": "albert_tf.text.preprocessing",
    "AlbertTokenizer": "albert_tf.text.tokenizer",
    "EntityF1": "albert_tf.evaluation.keras_metrics",
    "ExactMatch": "albert_tf.evaluation.keras_metrics",
    "KeepBest": "albert_tf.training.callbacks",
    "Lamb": "albert_tf.optimizers",
    "ModelOutput": "albert_tf.models",
    "Resume": "albert_tf.training.callbacks",
    "UserError": "albert_tf.errors",
    "WarmupPolynomialDecay": "albert_tf.optimizers",
    "WordPieceTokenizer": "albert_tf.text.wordpiece",
    "build_data": "albert_tf.data.jobs.run",
    "convert": "albert_tf.checkpoints.conversion",
    "evaluate": "albert_tf.training.evaluate",
    "export_onnx": "albert_tf_export",
    "export_saved_model": "albert_tf_export",
    "export_tflite": "albert_tf_export",
    "export_web": "albert_tf_export",
    "finetune": "albert_tf.training.finetune",
    "load_pretrained": "albert_tf.models",
    "pipeline": "albert_tf.pipelines",
    "pretrain": "albert_tf.training.pretrain",
    "pretraining_batches": "albert_tf.data.pretraining.batches",
    "soft_labels": "albert_tf.training.evaluate",
    "train_vocabulary": "albert_tf.text.vocabulary",
    "unshare": "albert_tf.models",
}
_RENAMED = {"AlbertForPreTrainingOutput": "ModelOutput", "BertTokenizer": "WordPieceTokenizer"}
__all__ = [*_HOMES, "__version__"]


def __getattr__(name: str) -> Any:
    ours = name
    if name not in _HOMES:  # transformers' TFAlbert…, FlaxAlbert…, and Auto…
        ours = name.removeprefix("TF").removeprefix("Flax").removesuffix("Fast")
        ours = ours.replace("AutoModelFor", "AlbertFor")
        ours = _RENAMED.get(ours, ours)
        ours = "Albert" + ours.removeprefix("Auto") if ours.startswith("Auto") else ours
    if ours not in _HOMES:
        albert = ours.replace("Bert", "Albert")
        way_out = NAMES.get(ours) or NAMES.get(albert)
        if albert in _HOMES:
            way_out = f"Use {albert}, which also loads BERT checkpoints."
        if way_out:  # `from albert_tf import name` would drop the message of an AttributeError.
            raise ImportError(f"albert_tf has no {name}. {way_out}")
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if "tensorflow" in sys.modules:
        return getattr(importlib.import_module(_HOMES[ours]), ours)
    from albert_tf.quiet import hidden_stderr

    with hidden_stderr():  # TensorFlow prints when imported.
        return getattr(importlib.import_module(_HOMES[ours]), ours)


def __dir__() -> list[str]:
    return sorted(__all__)


register_when_imported()
