"""`albert-tf export saved-model` and `albert-tf export tflite`"""

import argparse
from pathlib import Path
from typing import Any

from albert_tf.commands.model_options import add_model_option
from albert_tf.errors import UserError

SUMMARY = "write a model for serving or for phones"
# Those of `albert_tf.models.auto`, which loads TensorFlow.
TASKS = (
    "encoder",
    "pretraining",
    "masked-lm",
    "sequence-classification",
    "token-classification",
    "question-answering",
    "multiple-choice",
)
EXAMPLES = """examples:
  albert-tf export saved-model --model my-model --output serving/my-model/1
  albert-tf export tflite --model my-model --output my-model.tflite --quantize dynamic
  albert-tf export tflite --model my-model --task masked-lm --predictions 1 --ids-only \\
      --output my-model.tflite

The model's task is the one that its config.json names. The result takes strings, or ids with
--ids-only; it is loaded in a fresh process and compared with Keras before it takes its place.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options of both formats."""
    formats = parser.add_subparsers(dest="format", required=True, metavar="FORMAT")
    saved_model = formats.add_parser("saved-model", help="for TensorFlow Serving")
    tflite = formats.add_parser("tflite", help="for LiteRT (TensorFlow Lite)")
    for one in (saved_model, tflite):
        add_model_option(one)
        one.add_argument("--output", required=True, type=Path, help="what to write")
        one.add_argument("--task", choices=TASKS, metavar="TASK", help=f"one of {', '.join(TASKS)}")
        one.add_argument("--max-length", type=int, help="longest row in pieces")
        one.add_argument("--ids-only", action="store_true", help="no operator of tensorflow-text")
        one.add_argument(
            "--pairs",
            action="store_true",
            default=None,
            help="strings come in pairs, as for questions and choices they always do",
        )
        one.add_argument("--force", action="store_true", help="replace what is there")
        one.add_argument("--no-check", action="store_true", help="don't compare with Keras")
        one.add_argument(
            "--layers",
            choices=("loop", "unrolled"),
            help="run the shared layers as a loop of the graph, or one after the other",
        )
    tflite.add_argument(
        "--quantize",
        choices=("none", "float16", "dynamic"),
        default="none",
        help="how weights are stored; dynamic is 8-bit (default: %(default)s)",
    )
    tflite.add_argument("--choices", type=int, help="of multiple choice (default: 4)")
    tflite.add_argument(
        "--predictions",
        type=int,
        help="masked words: take so many positions, and give logits there alone",
    )


def run(options: argparse.Namespace) -> int:
    """Exports, and prints what the check found."""
    from albert_tf_export import export_saved_model, export_tflite

    _check_apart(options.model, options.output)
    model, tokenizer = _load(options.model, options.task)
    names = ("max_length", "layers", "pairs", "quantize", "choices", "predictions")
    given = {name: getattr(options, name, None) for name in names}
    chosen = {name: value for name, value in given.items() if value is not None}
    chosen |= {"ids_only": options.ids_only, "force": options.force, "check": not options.no_check}
    export = export_saved_model if options.format == "saved-model" else export_tflite
    print(export(model, tokenizer, options.output, **chosen))
    return 0


def _check_apart(name_or_path: str, output: Path) -> None:
    """Refuses an output that would replace the model, if that is not a name on the hub."""
    from albert_tf.checkpoints import google
    from albert_tf.files import check_apart

    source = Path(name_or_path).expanduser()
    if source.exists() or google.matches(source):
        check_apart(source, output)


def _load(name_or_path: str, task: str | None) -> tuple[Any, Any]:
    """The model of a task, all of whose weights were trained, and its tokenizer."""
    from albert_tf.models.auto import load_pretrained
    from albert_tf.text.tokenizer import AlbertTokenizer

    model = load_pretrained(name_or_path, task)
    if model.fresh_parts:
        raise UserError(
            "What is exported must have been trained. Received: a checkpoint without weights for "
            f"{', '.join(model.fresh_parts)} of {type(model).__name__}. "
            "Fine-tune it first, or choose another --task."
        )
    return model, AlbertTokenizer.from_pretrained(name_or_path)
