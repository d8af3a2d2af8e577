"""`albert-tf export saved-model`, `tflite`, `onnx` and `web`"""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from albert_tf_export.options import OnnxOptions, SavedModelOptions, TFLiteOptions, WebOptions

from albert_tf import bfloat16
from albert_tf.cli.text_options import check_model
from albert_tf.errors import UserError
from albert_tf.files import check_apart, check_free, fault
from albert_tf.options import Checked, option, part
from albert_tf.outputs import SAVED_MODEL, WEB_PAGE
from albert_tf.tasks import TASKS

SUMMARY = "export a model for servers, phones, or browsers"
EXAMPLES = """examples:
  albert-tf export saved-model --model my-model --output serving/my-model/1
  albert-tf export saved-model --model my-model --output serving/my-model/1 --precision bfloat16
  albert-tf export saved-model --model my-model --output serving/my-model/2 \\
      --warmup requests.txt --max-batch 256
  albert-tf export tflite --model my-model --output my-model.tflite --quantize dynamic
  albert-tf export tflite --model my-model --output my-model.tflite --lengths 16,64,128 --ids-only
  albert-tf export tflite --model my-model --task masked-lm --predictions 1 --ids-only \\
      --output my-model.tflite
  albert-tf export tflite --model my-model --output my-model.tflite --for mediapipe
  albert-tf export tflite --model my-encoder --output vectors.tflite --for mediapipe --pooling mean
  albert-tf export onnx --model my-model --output my-model.onnx --quantize dynamic
  albert-tf export web --model my-model --output site

The model's config.json determines the task. The exported model takes strings; with --ids-only, and
in ONNX, it takes token ids. Before it appears at --output, a fresh process loads it and compares
its outputs with Keras.
"""


@dataclass(frozen=True, kw_only=True)
class Options(Checked):
    """The options that all formats share."""

    model: str = option(
        help='model directory, Hub model ID, or "small"', metavar="NAME", is_path=True
    )
    output: Path = option(help="folder or file to write")
    task: str | None = option(
        None,
        help=f"task of the model ({', '.join(TASKS)}); default: the task in its config.json",
        choices=tuple(TASKS),
        metavar="TASK",
    )


@dataclass(frozen=True, kw_only=True)
class SavedModel(SavedModelOptions, Options):
    """Writes a SavedModel for TensorFlow Serving."""


@dataclass(frozen=True, kw_only=True)
class TFLite(TFLiteOptions, Options):
    """Writes a .tflite file for LiteRT (TensorFlow Lite)."""


@dataclass(frozen=True, kw_only=True)
class Onnx(OnnxOptions, Options):
    """Writes an .onnx file for ONNX Runtime."""


@dataclass(frozen=True, kw_only=True)
class Web(WebOptions, Options):
    """Writes a folder with a web page that runs the model in the browser."""


FOLDERS: Final = {SavedModel: SAVED_MODEL, Web: WEB_PAGE}  # other formats write a file
OPTIONS = {"saved-model": SavedModel, "tflite": TFLite, "onnx": Onnx, "web": Web}


def check(options: Any) -> None:
    """Checks the model's files and rejects an output that exists or would replace the model."""
    from albert_tf.checkpoints import finder, sentence_transformers, tf_checkpoint
    from albert_tf.text.tokenizer import check_length

    warmup = getattr(options, "warmup", None)
    if warmup is not None and not warmup.is_file():
        raise UserError(
            f"--warmup must be a file with requests. Received: {warmup}, which {fault(warmup)}."
        )
    source = Path(options.model)
    if source.exists() or tf_checkpoint.find_prefix(source):  # not a Hub model ID
        check_apart(source, options.output)
    check_free(options.output, options.force, FOLDERS.get(type(options), ()))
    config = check_model(options.model)
    lengths = (*getattr(options, "lengths", ()), getattr(options, "max_length", None))
    for length in filter(None, lengths):
        if config:
            check_length(config, length)
    if getattr(options, "normalize", None) and options.pooling is None:
        read_folder = partial(sentence_transformers.read, finder.find(options.model).folder)
        sentence_transformers.chosen(read_folder, sentence_transformers.FOLDER, True)


def run(options: Any) -> int:
    """Exports the model and prints the result of the comparison with Keras."""
    from albert_tf_export import export_onnx, export_saved_model, export_tflite, export_web

    from albert_tf.models import load_pretrained
    from albert_tf.text.tokenizer import AlbertTokenizer

    exporters: dict[Any, Any] = {
        SavedModel: (export_saved_model, SavedModelOptions),
        TFLite: (export_tflite, TFLiteOptions),
        Onnx: (export_onnx, OnnxOptions),
        Web: (export_web, WebOptions),
    }
    export, options_class = exporters[type(options)]
    bfloat16.suggest(bfloat16.SAVED_MODEL, getattr(options, "precision", None))
    model = load_pretrained(options.model, options.task)
    if model.newly_initialized:
        raise UserError(
            f"{options.model} has no weights for {', '.join(model.newly_initialized)} of "
            f"{type(model).__name__}. Fine-tune the model first, or choose another --task."
        )
    tokenizer = AlbertTokenizer.from_pretrained(options.model)
    title = {"name": Path(options.model).resolve().name} if isinstance(options, Web) else {}
    print(export(model, tokenizer, options.output, part(options_class, options, **title)))
    return 0
