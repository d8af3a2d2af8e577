"""`albert-tf export saved-model`, `tflite`, `onnx` and `web`"""

import json
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from albert_tf.commands.parsing import read_yaml
from albert_tf.commands.text_options import check_model
from albert_tf.data.options import TASKS as EVALUATED
from albert_tf.data.options import LabelledData
from albert_tf.errors import UserError, check_extra
from albert_tf.files import check_free
from albert_tf.options import (
    COUNT,
    FILE,
    NOT_NEGATIVE,
    Range,
    check_options,
    declared,
    option,
    save_options,
)
from albert_tf.tasks import TASKS

SUMMARY = "write a model for serving, for phones or for browsers"
EXAMPLES = """examples:
  albert-tf export saved-model --model my-model --output serving/my-model/1
  albert-tf export saved-model --model my-model --output serving/my-model/1 --precision bfloat16
  albert-tf export saved-model --model my-model --name reviews --output serving \\
      --warmup requests.txt --max-batch 256
  albert-tf export tflite --model my-model --output my-model.tflite --quantize dynamic
  albert-tf export tflite --model my-model --output my-model.tflite --lengths 16,64,128 --ids-only
  albert-tf export tflite --model my-model --output my-model.tflite --quantize dynamic \\
      --eval-data SST-2 --max-drop 0.01
  albert-tf export tflite --model my-model --task masked-lm --predictions 1 --ids-only \\
      --output my-model.tflite
  albert-tf export tflite --model my-model --output my-model.tflite --for mediapipe
  albert-tf export onnx --model my-model --output my-model.onnx --quantize dynamic
  albert-tf export web --model my-model --output site

The task is the one in the model's config.json. The result takes strings, or ids with --ids-only and
in ONNX.
Before it is published, a fresh process loads it and compares it with Keras.
"""

SAVED_MODEL = ("name", "max_bytes", "max_batch", "warmup", "top_k", "pooling", "normalize")
# For each option that not all formats take, those that do.
FORMATS = {
    **dict.fromkeys(SAVED_MODEL, ("saved-model",)),
    **dict.fromkeys(("max_length", "ids_only", "layers"), ("saved-model", "tflite")),
    "pairs": ("saved-model", "tflite", "web"),
    **dict.fromkeys(("fixed", "batch", "host", "choices"), ("tflite",)),
    **dict.fromkeys(("predictions", "eval_data", "eval_task", "max_drop"), ("tflite", "onnx")),
    "lengths": ("tflite", "web"),
    "quantize": ("saved-model", "tflite", "onnx", "web"),
    "precision": ("saved-model",),
    "node_modules": ("web",),
}


@dataclass(frozen=True, kw_only=True)
class OPTIONS:
    """The options of `albert-tf export`."""

    format: Literal["saved-model", "tflite", "onnx", "web"] = option(
        help="saved-model, for TensorFlow Serving, tflite, for LiteRT (TensorFlow Lite), onnx, for "
        "ONNX Runtime, or web, a folder with a page for browsers",
        metavar="FORMAT",
        positional=True,
    )
    model: str = option(help="model directory, name on the hub, or small", metavar="NAME")
    output: Path = option(help="folder or file to write; with --name the server's folder")
    name: str | None = option(
        None,
        help="name of the model in TensorFlow Serving: saved-model writes OUTPUT/NAME/1, the next "
        "time OUTPUT/NAME/2",
    )
    task: str | None = option(
        None,
        help=f"task of the model ({', '.join(TASKS)}); default: the one of its config.json",
        choices=tuple(TASKS),
        metavar="TASK",
    )
    max_length: int | None = option(
        None,
        help="most pieces of a row; default: the tokenizer's or the model's limit",
        range=COUNT,
    )
    max_bytes: int | None = option(
        None,
        help="most bytes of a text that saved-model reads, against huge ones; at least 16 for each "
        "piece of --max-length; default: all",
        range=Range(minimum=1024),
    )
    max_batch: int | None = option(
        None, help="most rows of a request to saved-model; default: any number", range=COUNT
    )
    warmup: Path | None = option(
        None,
        help="file of sample requests, one a line, which TensorFlow Serving answers before it uses "
        "saved-model; needs albert_tf[serving]",
    )
    top_k: int | None = option(
        None, help="pieces that saved-model returns for a mask; default: 5", range=COUNT
    )
    pooling: Literal["mean", "cls", "pooler"] | None = option(
        None,
        help="vector of a text that saved-model returns from an encoder; default: the states of "
        "all pieces",
    )
    normalize: bool | None = option(None, help="length of 1 for these vectors")
    ids_only: bool | None = option(None, help="signature of ids alone, without tensorflow-text")
    pairs: bool | None = option(
        None, help="strings in pairs; for questions and choices they always are"
    )
    fixed: bool | None = option(
        None, help="tflite with rows of --max-length pieces, padded; by default of any length"
    )
    lengths: tuple[int, ...] = option(
        (),
        help="tflite with signatures ids_16, ids_64, … for --lengths 16,64, which share the "
        "weights, for hosts that can't change the length",
        range=COUNT,
    )
    batch: str | None = option(
        None,
        help="rows in a call of tflite: a number, or dynamic for any number; default: 1",
        metavar="N",
    )
    layers: Literal["loop", "unrolled"] | None = option(
        None, help="form of the shared layers: a loop of the graph, or one after the other"
    )
    quantize: Literal["none", "float16", "dynamic"] | None = option(
        None,
        help="storage of the weights: none (default for tflite and onnx), float16 (not for onnx), "
        "or dynamic, 8-bit (default for web); saved-model writes a model.tflite for TensorFlow "
        "Serving too",
    )
    precision: Literal["float32", "bfloat16"] | None = option(
        None, help="what saved-model stores and computes in; default: float32"
    )
    host: Literal["mediapipe"] | None = option(
        None,
        help="tflite in the form that a host demands: mediapipe, for its TextClassifier",
        original=("for",),
    )
    choices: int | None = option(
        None, help="choices of multiple choice in tflite; default: 4", range=COUNT
    )
    predictions: int | None = option(
        None,
        help="masked words in tflite and onnx: number of positions to take, and of logits to "
        "return",
        range=COUNT,
    )
    eval_data: Path | None = option(
        None,
        help="labelled data to score the tflite or onnx file on, beside Keras: a folder with a "
        "dev file or a file",
        metavar="PATH",
    )
    eval_task: str | None = option(
        None,
        help="task of that data; default: the one in the model's options.yaml, with its columns",
        choices=EVALUATED,
        metavar="TASK",
    )
    max_drop: float | None = option(
        None,
        help="most of the task's score that the file may lose; default: 0.01",
        range=NOT_NEGATIVE,
    )
    node_modules: Path | None = option(
        None, help="folder with the packages of the page; default: npm installs them"
    )
    json: bool = option(False, help="output as one JSON object")
    check: bool = option(True, help="comparison with Keras, which --no-check skips")
    force: bool = option(False, help="replacement of an existing output")

    def __post_init__(self) -> None:
        check_options(self)
        for name, formats in FORMATS.items():
            value = getattr(self, name)
            if self.format not in formats and value not in (None, ()):
                flag = f"--{'no-' * (value is False)}{name.replace('_', '-')}"
                given = flag if isinstance(value, bool) else f"{flag} {value}"
                raise UserError(
                    f"{flag} goes with {' and '.join(formats)}. Received: export {self.format} "
                    f"{given}. Leave it out."
                )
        for name in ("eval_task", "max_drop"):
            if self.eval_data is None and getattr(self, name) is not None:
                raise UserError(
                    f"{name} goes with eval_data. Received: {getattr(self, name)}. Give both."
                )
        if self.name is not None and not re.fullmatch(r"\w[\w.-]*", self.name, re.ASCII):
            raise UserError(
                "name must be letters, digits, dots, dashes and underscores. "
                f"Received: {self.name!r}."
            )
        if self.name is not None and self.force:
            raise UserError(
                "force must be left out with name, whose exports get a new number each. "
                f"Received: --name {self.name} --force."
            )
        if self.warmup is not None:
            check_extra("serving", "warmup")
        if self.format == "onnx":
            check_extra("onnx", "export onnx")
        if self.batch not in (None, "dynamic") and not (self.batch or "").isdecimal():
            raise UserError(f"batch must be a whole number or dynamic. Received: {self.batch!r}.")
        if self.batch not in (None, "dynamic") and not int(self.batch):
            raise UserError(f"batch must be above 0. Received: {self.batch}.")
        if self.normalize and self.pooling is None:
            raise UserError("normalize needs a pooling. Received: none. Add --pooling mean or cls.")
        if self.lengths and (self.max_length or self.fixed):
            other = f"max_length={self.max_length}" if self.max_length else "fixed=True"
            raise UserError(
                "lengths must be the only choice of length. Received: "
                f"lengths={self.lengths} and {other}."
            )

    @property
    def target(self) -> Path:
        """The folder or file of the export; with a name the next version's folder."""
        if self.name is None:
            return self.output
        versions = (self.output / self.name).glob("[0-9]*")
        numbers = [int(each.name) for each in versions if re.fullmatch("[0-9]+", each.name)]
        return self.output / self.name / str(max(numbers, default=0) + 1)


def check(options: OPTIONS) -> None:
    """Looks for the model, and refuses an output that exists or would replace it."""
    from albert_tf.text.tokenizer import check_length

    target = options.target
    if options.warmup is not None and not options.warmup.is_file():
        raise UserError(f"warmup must be a file of requests. Received: {options.warmup}.")
    check_free(target, options.force)
    _check_apart(options.model, target)
    config = check_model(options.model)
    for length in (*options.lengths, *([options.max_length] if options.max_length else [])):
        if config:
            check_length(config, length)
    data = _labelled(options)
    if data:
        from albert_tf.data.tasks.registry import task_of

        task = task_of(data)
        examples = task.examples("dev")
        if config:
            task.check(examples, config)


def run(options: OPTIONS) -> int:
    """Exports, and prints the result of the comparison with Keras."""
    from albert_tf_export import (
        Gate,
        export_onnx,
        export_saved_model,
        export_tflite,
        export_web,
    )

    from albert_tf.files import written_atomically

    names = {"check", *FORMATS} - {"name", "batch", "eval_data", "eval_task", "max_drop"}
    taken = {name for name in names if options.format in FORMATS.get(name, (options.format,))}
    given = {name: getattr(options, name) for name in taken}
    chosen = {name: value for name, value in given.items() if value not in (None, ())}
    data = _labelled(options)
    if data:
        chosen["gate"] = Gate(data) if options.max_drop is None else Gate(data, options.max_drop)
    if options.batch:
        chosen["batch"] = None if options.batch == "dynamic" else int(options.batch)
    if options.format == "web":
        model, tokenizer = _load(options.model, options.task)
        chosen |= {"name": Path(options.model).resolve().name, "force": options.force}
        return _print(export_web(model, tokenizer, options.output, **chosen), options)
    if options.format in ("tflite", "onnx"):  # which write files beside it too
        export = export_tflite if options.format == "tflite" else export_onnx
        model, tokenizer = _load(options.model, options.task)
        report = export(model, tokenizer, options.output, force=options.force, **chosen)
        return _print(report, options)
    target = options.target
    with written_atomically(target, force=options.force, nowait=True) as written:
        model, tokenizer = _load(options.model, options.task)
        report = export_saved_model(model, tokenizer, written, **chosen)
        save_options(options, written)
    return _print(replace(report, path=target), options)


def _print(report: Any, options: OPTIONS) -> int:
    if options.json:
        print(json.dumps({**report.to_dict(), "output": str(report.path)}))
    else:
        print(report)
    return 0


def _labelled(options: OPTIONS) -> LabelledData | None:
    """The data to score on, with the columns in the `options.yaml` that fine-tuning wrote."""
    if options.eval_data is None:
        return None
    file = Path(options.model).expanduser() / FILE
    saved = read_yaml(file) if file.is_file() else {}
    if options.eval_task not in (None, saved.get("task")):
        saved = {"task": options.eval_task}
    if not saved.get("task"):
        raise UserError(
            f"eval_task must be given where the model's folder has no {FILE} of albert-tf "
            f"finetune. Received: {options.model}. Choose one of {', '.join(EVALUATED)}."
        )
    names = declared(LabelledData)
    chosen = {name: value for name, value in saved.items() if name in names}
    return LabelledData(**{**chosen, "data": options.eval_data})


def _check_apart(name_or_path: str, output: Path) -> None:
    """Refuses an output that would replace the model, if that is not a name on the hub."""
    from albert_tf.checkpoints import tf_checkpoint
    from albert_tf.files import check_apart

    source = Path(name_or_path).expanduser()
    if source.exists() or tf_checkpoint.find_prefix(source):
        check_apart(source, output)


def _load(name_or_path: str, task: str | None) -> tuple[Any, Any]:
    """The model of a task, all of whose weights were trained, and its tokenizer."""
    from albert_tf.models import load_pretrained
    from albert_tf.text.tokenizer import AlbertTokenizer

    model = load_pretrained(name_or_path, task)
    if model.newly_initialized:
        raise UserError(
            "All parts of an exported model must be trained. Received: a checkpoint without "
            f"weights for {', '.join(model.newly_initialized)} of {type(model).__name__}. "
            "Fine-tune it first, or choose another --task."
        )
    return model, AlbertTokenizer.from_pretrained(name_or_path)
