"""Declares each export format's options for Python and the command line, and checks the model.

Doesn't import TensorFlow, so the command line starts quickly.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from albert_tf.checkpoints import Pooling
from albert_tf.errors import UserError, check_extra, check_tensorflow_text
from albert_tf.options import COUNT, Checked, Range, option

if TYPE_CHECKING:
    from albert_tf.checkpoints.sentence_transformers import SentenceEmbedding
    from albert_tf.models.base import PreTrainedModel
    from albert_tf.text.base_tokenizer import BaseTokenizer

Layers = Literal["loop", "unrolled"]
Precision = Literal["float32", "bfloat16"]
Quantize = Literal["none", "float16", "dynamic"]


@dataclass(frozen=True, kw_only=True)
class ExportOptions(Checked):
    """Options common to all exports."""

    force: bool = option(False, help="replace an existing output")
    check: bool = option(
        True, help="compare the export with Keras in a fresh process (--no-check: skip it)"
    )


@dataclass(frozen=True, kw_only=True)
class TextExportOptions(ExportOptions):
    """The options of exports that can have a `text` signature, which takes strings."""

    max_length: int | None = option(
        None,
        help="number of tokens to truncate texts to; default: as many as the tokenizer and model "
        "allow",
        range=COUNT,
        excludes=("ids_only",),
    )
    pairs: bool | None = option(
        None,
        help="take text pairs; question answering and multiple choice always take pairs",
        excludes=("ids_only",),
    )
    ids_only: bool = option(
        False, help="omit the `text` signature, which needs tensorflow-text's operators"
    )


@dataclass(frozen=True, kw_only=True)
class FileOptions(ExportOptions):
    """The options of exports to one file."""

    predictions: int | None = option(
        None,
        help="number of positions to score per example, as an additional input; only for "
        "masked-LM models",
        range=COUNT,
    )


@dataclass(frozen=True, kw_only=True)
class SavedModelOptions(TextExportOptions):
    """The options of `export_saved_model`."""

    max_bytes: int | None = option(
        None,
        help="maximum number of bytes that `text` reads per text, to limit memory; at least 16 "
        "times max_length; default: all",
        range=Range(minimum=1024),
        excludes=("ids_only",),
    )
    max_batch: int | None = option(
        None, help="maximum number of examples in a request; default: unlimited", range=COUNT
    )
    warmup: Path | None = option(
        None,
        help="file with requests, one per line, for TensorFlow Serving to run before it serves the "
        "model; requires albert_tf[serving]",
        excludes=("ids_only",),
    )
    pooling: Pooling | None = option(
        None,
        help="how `text` pools an encoder's states into one vector per text; default: the "
        "pooling of the sentence-transformers folder, if any, otherwise none",
        metavar="POOLING",
        excludes=("ids_only",),
    )
    normalize: bool | None = option(
        None,
        help="scale these vectors to unit length (L2); default: as in the "
        "sentence-transformers folder, if any",
        excludes=("ids_only",),
    )
    precision: Precision = option("float32", help="dtype of the weights and the computation")

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.ids_only:
            check_tensorflow_text()
        if self.warmup is not None:
            check_extra("serving", "warmup")


@dataclass(frozen=True, kw_only=True)
class TFLiteOptions(TextExportOptions, FileOptions):
    """The options of `export_tflite`."""

    layers: Layers = option(
        "loop",
        help="how to write the shared layers: as a loop in the graph, or unrolled",
        excludes=("host",),
    )
    lengths: tuple[int, ...] = option(
        (),
        help="fixed input lengths in tokens, for runtimes that can't resize inputs; 16,64 writes "
        "the signatures ids_16 and ids_64, which share the weights",
        range=COUNT,
        excludes=("max_length",),
    )
    batch: int | None = option(
        1,
        help="number of examples per call; dynamic (None in Python) allows any number",
        range=COUNT,
        none="dynamic",
    )
    quantize: Quantize = option(
        "none",
        help="how to store the weights: float32 (none), float16, or 8-bit with 8-bit matmuls "
        "(dynamic)",
    )
    host: Literal["mediapipe"] | None = option(
        None,
        help="runtime to write the file for: mediapipe (its TextClassifier and TextEmbedder)",
        original=("for",),
        excludes=("ids_only",),
    )
    pooling: Pooling | None = option(
        None,
        help="how to pool an encoder's states into one vector per text for MediaPipe; default: the "
        "pooling of the sentence-transformers folder, if any",
        needs="host",
    )
    normalize: bool | None = option(
        None,
        help="scale these vectors to unit length (L2); default: as in the "
        "sentence-transformers folder, if any",
        needs="host",
    )
    choices: int | None = option(
        None, help="number of choices per multiple-choice example; default: 4", range=COUNT
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (self.ids_only or self.host):
            check_tensorflow_text()
        if len(set(self.lengths)) < len(self.lengths):
            raise UserError(f"lengths must not contain duplicates. Received: {list(self.lengths)}.")


@dataclass(frozen=True, kw_only=True)
class OnnxOptions(FileOptions):
    """The options of `export_onnx`."""

    quantize: Literal["none", "dynamic"] = option(
        "none",
        help="how to store the weights: float32 (none), or 8-bit with 8-bit matmuls (dynamic)",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        check_extra("onnx", "export onnx")


@dataclass(frozen=True, kw_only=True)
class WebOptions(ExportOptions):
    """The options of `export_web`."""

    lengths: tuple[int, ...] = option(
        (),
        help="input lengths in tokens; default: 16, 64, 128, and 384 (or the model's maximum)",
        range=COUNT,
    )
    pairs: bool = option(False, help="take text pairs; only for classifiers")
    quantize: Quantize = option(
        "dynamic", help="how to store the weights: float32 (none), float16, or 8-bit (dynamic)"
    )
    node_modules: Path | None = option(
        None, help="folder with the page's npm packages; default: install them with npm"
    )
    name: str = "ALBERT"


def refuse_left(tokenizer: "BaseTokenizer", what: str) -> None:
    """Rejects tokenizers that truncate on the left, because exports truncate on the right."""
    if tokenizer.truncation_side == "left":
        raise UserError(
            f"{what} doesn't support truncation_side='left'. Set tokenizer.truncation_side = "
            "'right' (also in tokenizer_config.json), or export with ids_only=True."
        )


def check_model(
    model: "PreTrainedModel",
    tokenizer: "BaseTokenizer",
    max_length: int | None = None,
    pairs: bool | None = None,
    embedding: "SentenceEmbedding | None" = None,
) -> tuple[int, bool]:
    """Rejects unsuitable vocabularies and lengths, and all backends except TensorFlow.

    Returns:
        The number of tokens to truncate texts to (by default, as many as the tokenizer, the model,
        and the embedding allow), and whether the export takes text pairs, because the task requires
        them or `pairs` is True.
    """
    import keras

    from albert_tf.text.tokenizer import check_fit

    if keras.backend.backend() != "tensorflow":
        raise UserError(
            f"Exports require Keras's TensorFlow backend. Received: {keras.backend.backend()!r}. "
            "Save the model with save_pretrained, and load it with KERAS_BACKEND=tensorflow."
        )
    limits = [tokenizer.model_max_length, model.config.max_position_embeddings]
    if embedding is not None and embedding.max_length:
        limits.append(embedding.max_length)
    max_length = max_length or min(limits)
    check_fit(tokenizer, model.config, max_length)
    if pairs and model.config.type_vocab_size < 2:
        raise UserError(
            "A model for text pairs requires type_vocab_size >= 2. Received: "
            f"{model.config.type_vocab_size}. Drop pairs (--pairs)."
        )
    if pairs is False and model.task.needs_pairs:
        raise UserError(
            f"{type(model).__name__} always takes text pairs. Received: pairs=False. Drop pairs."
        )
    return max_length, model.task.needs_pairs or bool(pairs)


def sentence_embedding(
    model: "PreTrainedModel", pooling: Pooling | None, normalize: bool | None
) -> "SentenceEmbedding | None":
    """Returns the pooling set by the options, or by default the one from the model's folder.

    Returns None for an encoder without pooling, and for models with a task head.

    Raises:
        UserError: if an option is set but the model isn't an encoder, `normalize` is set without
            pooling, or the folder's modules aren't supported.
    """
    from albert_tf.checkpoints.sentence_transformers import FOLDER, chosen
    from albert_tf.models import AlbertModel

    if isinstance(model, AlbertModel):
        return chosen(model.sentence_embedding, pooling or FOLDER, normalize)
    if pooling is not None or normalize is not None:
        raise UserError(
            "pooling and normalize apply only to encoders. Received: "
            f"pooling={pooling!r}, normalize={normalize!r} with {type(model).__name__}. Export its "
            "encoder, with model.albert (--task encoder)."
        )
    return None


def check_counts(model: "PreTrainedModel", choices: int | None, predictions: int | None) -> None:
    """Rejects counts that don't apply to the model's task."""
    for name, count, fits, task in (
        ("choices", choices, model.task.has_choices, "AlbertForMultipleChoice"),
        ("predictions", predictions, model.task.takes_positions, "AlbertForMaskedLM"),
    ):
        if count is not None and not fits:
            raise UserError(
                f"{name} applies only to models such as {task}. "
                f"Received: {name}={count!r} with {type(model).__name__}."
            )


def in_precision(model: "PreTrainedModel", precision: Precision) -> "PreTrainedModel":
    """Returns the model, or a copy that stores and computes values in this precision."""
    import keras

    policy = model.dtype_policy
    if (policy.compute_dtype, policy.variable_dtype) == (precision, precision):
        return model
    policy = keras.dtype_policies.serialize(keras.DTypePolicy(precision))
    copy = type(model).from_config({**model.get_config(), "dtype": policy})
    if len(copy.weights) < len(model.weights):
        raise UserError(
            f"A model with quantized weights can't be converted to {precision}. Export the model "
            "before it is quantized."
        )
    copy.set_weights([weight.astype(precision) for weight in model.get_weights()])
    copy._inherit(model)
    return copy
