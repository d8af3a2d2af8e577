"""`albert-tf export saved-model` and `albert-tf export tflite`"""

import argparse
from pathlib import Path

from albert_tf.commands.model_options import add_model_option, load

SUMMARY = "write a model for serving or for phones"
EXAMPLES = """examples:
  albert-tf export saved-model --model my-model --output serving/my-model/1
  albert-tf export tflite --model my-model --output my-model.tflite --quantize dynamic

The result takes strings, or ids with --ids-only; it is loaded in a fresh process and compared with
Keras before it takes its place.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options of both formats."""
    formats = parser.add_subparsers(dest="format", required=True, metavar="FORMAT")
    saved_model = formats.add_parser("saved-model", help="for TensorFlow Serving")
    tflite = formats.add_parser("tflite", help="for LiteRT (TensorFlow Lite)")
    for one in (saved_model, tflite):
        add_model_option(one)
        one.add_argument("--output", required=True, type=Path, help="what to write")
        one.add_argument("--max-length", type=int, help="longest row in pieces")
        one.add_argument("--ids-only", action="store_true", help="no operator of tensorflow-text")
        one.add_argument("--pairs", action="store_true", help="strings come in pairs")
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


def run(options: argparse.Namespace) -> int:
    """Exports, and prints what the check found."""
    from albert_tf_export import export_saved_model, export_tflite

    model, tokenizer = load(options.model)
    names = ("max_length", "layers")
    chosen = {name: getattr(options, name) for name in names if getattr(options, name) is not None}
    chosen |= {"ids_only": options.ids_only, "pairs": options.pairs, "force": options.force}
    chosen["check"] = not options.no_check
    if options.format == "saved-model":
        report = export_saved_model(model, tokenizer, options.output, **chosen)
    else:
        report = export_tflite(
            model, tokenizer, options.output, quantize=options.quantize, **chosen
        )
    print(report)
    return 0
