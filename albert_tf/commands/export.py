"""`albert-tf export saved-model`, `tflite`, `onnx` and `web`"""

import json
import re
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

from albert_tf_export.options import (
    Gate,
    OnnxOptions,
    SavedModelOptions,
    TFLiteOptions,
    WebOptions,
    all_depths,
)

from albert_tf.commands.parsing import read_yaml
from albert_tf.commands.text_options import check_model
from albert_tf.data.options import TASKS as EVALUATED
from albert_tf.data.options import LabelledData
from albert_tf.errors import UserError
from albert_tf.files import check_apart, check_free, written_atomically
from albert_tf.options import (
    FILE,
    NOT_NEGATIVE,
    check_options,
    declared,
    option,
    part,
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
  albert-tf export tflite --model my-model --output my-model.tflite --depths 3,6 \\
      --early-exit 0.95
  albert-tf export tflite --model my-model --task masked-lm --predictions 1 --ids-only \\
      --output my-model.tflite
  albert-tf export tflite --model my-model --output my-model.tflite --for mediapipe
  albert-tf export onnx --model my-model --output my-model.onnx --quantize dynamic
  albert-tf export web --model my-model --output site

The task is the one in the model's config.json. The result takes strings, or ids with --ids-only and
in ONNX.
Before it is published, a fresh process loads it and compares it with Keras.
"""


@dataclass(frozen=True, kw_only=True)
class Options:
    """The options of every format, beside those of its function."""

    model: str = option(help="model directory, name on the hub, or small", metavar="NAME")
    output: Path = option(help="folder or file to write")
    task: str | None = option(
        None,
        help=f"task of the model ({', '.join(TASKS)}); default: the one of its config.json",
        choices=tuple(TASKS),
        metavar="TASK",
    )
    json: bool = option(False, help="print the report as JSON")

    def __post_init__(self) -> None:
        check_options(self)

    @property
    def target(self) -> Path:
        """The folder or file of the export."""
        return self.output

    @property
    def labelled(self) -> LabelledData | None:
        """The data to score the export on."""
        return None


@dataclass(frozen=True, kw_only=True)
class Scored(Options):
    """The options of formats that can be scored on labelled data."""

    eval_data: Path | None = option(
        None,
        help="labelled data to score the file on, beside Keras: a folder with a dev file or a file",
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

    def check_evaluation(self) -> None:
        """Refuses options of the data without the data."""
        for name in ("eval_task", "max_drop"):
            if self.eval_data is None and getattr(self, name) is not None:
                raise UserError(
                    f"{name} goes with eval_data. Received: {getattr(self, name)}. Give both."
                )

    @property
    def labelled(self) -> LabelledData | None:
        """The data to score on, with the columns in the `options.yaml` that fine-tuning wrote."""
        if self.eval_data is None:
            return None
        file = Path(self.model).expanduser() / FILE
        saved = read_yaml(file) if file.is_file() else {}
        if self.eval_task not in (None, saved.get("task")):
            saved = {"task": self.eval_task}
        if not saved.get("task"):
            raise UserError(
                f"eval_task must be given where the model's folder has no {FILE} of albert-tf "
                f"finetune. Received: {self.model}. Choose one of {', '.join(EVALUATED)}."
            )
        names = declared(LabelledData)
        chosen = {name: value for name, value in saved.items() if name in names}
        return LabelledData(**{**chosen, "data": self.eval_data})

    @property
    def given_gate(self) -> Gate | None:
        """The data, and how much of its score the file may lose."""
        data = self.labelled
        if data is None:
            return None
        return Gate(data) if self.max_drop is None else Gate(data, self.max_drop)


@dataclass(frozen=True, kw_only=True)
class SavedModel(SavedModelOptions, Options):
    """Writes a SavedModel, for TensorFlow Serving."""

    format: Literal["saved-model"] = option("saved-model", help="format of the export")
    name: str | None = option(
        None,
        help="name of the model in TensorFlow Serving: writes OUTPUT/NAME/1, the next time "
        "OUTPUT/NAME/2",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
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

    @property
    def target(self) -> Path:
        """The folder of the export; with a name the next version's."""
        if self.name is None:
            return self.output
        versions = (self.output / self.name).glob("[0-9]*")
        numbers = [int(each.name) for each in versions if re.fullmatch("[0-9]+", each.name)]
        return self.output / self.name / str(max(numbers, default=0) + 1)


@dataclass(frozen=True, kw_only=True)
class TFLite(TFLiteOptions, Scored):
    """Writes a .tflite file, for LiteRT (TensorFlow Lite)."""

    format: Literal["tflite"] = option("tflite", help="format of the export")

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_evaluation()


@dataclass(frozen=True, kw_only=True)
class Onnx(OnnxOptions, Scored):
    """Writes an .onnx file, for ONNX Runtime."""

    format: Literal["onnx"] = option("onnx", help="format of the export")

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_evaluation()


@dataclass(frozen=True, kw_only=True)
class Web(WebOptions, Options):
    """Writes a folder with a page that runs the model in browsers."""

    format: Literal["web"] = option("web", help="format of the export")


OPTIONS = {"saved-model": SavedModel, "tflite": TFLite, "onnx": Onnx, "web": Web}


def check(options: Any) -> None:
    """Checks the model's files, and refuses an output that exists or would replace the model."""
    from albert_tf.checkpoints import finder, sentence_transformers, tf_checkpoint
    from albert_tf.text.tokenizer import check_length

    target = options.target
    warmup = getattr(options, "warmup", None)
    if warmup is not None and not warmup.is_file():
        raise UserError(f"warmup must be a file of requests. Received: {warmup}.")
    check_free(target, options.force)
    source = Path(options.model).expanduser()
    if source.exists() or tf_checkpoint.find_prefix(source):  # not a name on the hub
        check_apart(source, target)
    config = check_model(options.model)
    lengths = (*getattr(options, "lengths", ()), getattr(options, "max_length", None))
    for length in filter(None, lengths):
        if config:
            check_length(config, length)
    if config:
        all_depths(config, getattr(options, "depths", ()))
    if getattr(options, "normalize", None) and options.pooling is None:
        read_folder = partial(sentence_transformers.read, finder.find(options.model).folder)
        sentence_transformers.chosen(read_folder, sentence_transformers.FOLDER, True)
    data = options.labelled
    if data:
        from albert_tf.data.tasks.registry import task_of

        task = task_of(data, config)
        examples = task.examples("dev")
        if config:
            task.check(examples, config)


def run(options: Any) -> int:
    """Exports, and prints the result of the comparison with Keras."""
    from albert_tf_export import export_onnx, export_saved_model, export_tflite, export_web

    from albert_tf.models import load_pretrained
    from albert_tf.text.tokenizer import AlbertTokenizer

    def loaded() -> tuple[Any, Any]:
        """Returns the model of a task, all of whose weights were trained, and its tokenizer."""
        model = load_pretrained(options.model, options.task)
        if model.newly_initialized:
            raise UserError(
                "All parts of an exported model must be trained. Received: a checkpoint without "
                f"weights for {', '.join(model.newly_initialized)} of {type(model).__name__}. "
                "Fine-tune it first, or choose another --task."
            )
        return model, AlbertTokenizer.from_pretrained(options.model)

    if isinstance(options, SavedModel):
        target = options.target
        with written_atomically(target, force=options.force, nowait=True) as written:
            report = export_saved_model(*loaded(), written, part(SavedModelOptions, options))
            save_options(options, written)
        report = replace(report, path=target)
    elif isinstance(options, TFLite):  # writes files beside it too, as ONNX does
        tflite = part(TFLiteOptions, options, gate=options.given_gate)
        report = export_tflite(*loaded(), options.output, tflite)
    elif isinstance(options, Onnx):
        onnx = part(OnnxOptions, options, gate=options.given_gate)
        report = export_onnx(*loaded(), options.output, onnx)
    else:
        web = part(WebOptions, options, name=Path(options.model).resolve().name)
        report = export_web(*loaded(), options.output, web)
    if options.json:
        print(json.dumps({**report.to_dict(), "output": str(report.path)}))
    else:
        print(report)
    return 0
