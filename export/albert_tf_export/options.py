"""The options of each format, declared once for its function and its command; what models allow.

Needs no TensorFlow, as the command line demands.
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
    """The options of every export."""

    force: bool = option(False, help="replace an existing output")
    check: bool = option(
        True, help="compare the export with Keras, in a fresh process (--no-check: skip)"
    )


@dataclass(frozen=True, kw_only=True)
class TextExportOptions(ExportOptions):
    """The options of exports with a signature for strings."""

    max_length: int | None = option(
        None,
        help="number of tokens that a text is truncated to; default: the most that the tokenizer "
        "and the model allow",
        range=COUNT,
        excludes=("ids_only",),
    )
    pairs: bool | None = option(
        None,
        help="take strings in pairs; questions and choices always come in pairs",
        excludes=("ids_only",),
    )
    ids_only: bool = option(
        False, help="leave the signature `text` out, which needs tensorflow-text's operators"
    )


@dataclass(frozen=True, kw_only=True)
class FileOptions(ExportOptions):
    """The options of exports to one file."""

    predictions: int | None = option(
        None,
        help="number of positions to score, for masked-LM models; they become an input",
        range=COUNT,
    )


@dataclass(frozen=True, kw_only=True)
class SavedModelOptions(TextExportOptions):
    """The options of `export_saved_model`."""

    max_bytes: int | None = option(
        None,
        help="number of bytes of a text that `text` reads, a limit against huge ones; at least 16 "
        "for each token of max_length; default: all",
        range=Range(minimum=1024),
        excludes=("ids_only",),
    )
    max_batch: int | None = option(
        None, help="number of examples that a request may have; default: any", range=COUNT
    )
    warmup: Path | None = option(
        None,
        help="file of sample requests, one a line, which TensorFlow Serving answers before it uses "
        "the model; needs albert_tf[serving]",
        excludes=("ids_only",),
    )
    pooling: Pooling | None = option(
        None,
        help="vector that `text` returns for a text, from an encoder; default: that of a folder of "
        "sentence-transformers, else the states of all tokens",
        metavar="POOLING",
        excludes=("ids_only",),
    )
    normalize: bool | None = option(
        None,
        help="scale these vectors to unit length (L2); default: as such a folder says",
        excludes=("ids_only",),
    )
    precision: Precision = option("float32", help="dtype of the weights and of the computation")

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
        help="form of the shared layers: a loop of the graph, or one after the other",
        excludes=("host",),
    )
    lengths: tuple[int, ...] = option(
        (),
        help="signatures ids_16, ids_64, … for 16,64, which share the weights, for hosts that "
        "can't change the length of their input",
        range=COUNT,
        excludes=("max_length",),
    )
    batch: int | None = option(
        1,
        help="number of examples in a call, or dynamic (in Python None) for any",
        range=COUNT,
        none="dynamic",
    )
    quantize: Quantize = option(
        "none",
        help="storage of the weights: float32 (none), float16, or 8 bits, which also multiplies in "
        "8 bits (dynamic)",
    )
    host: Literal["mediapipe"] | None = option(
        None,
        help="runtime to write the file for: mediapipe, for its TextClassifier and TextEmbedder",
        original=("for",),
        excludes=("ids_only",),
    )
    pooling: Pooling | None = option(
        None,
        help="how an encoder makes one vector per text for MediaPipe; default: as defined in a "
        "sentence-transformers folder",
        needs="host",
    )
    normalize: bool | None = option(
        None,
        help="scale these vectors to unit length (L2); default: as defined in such a folder",
        needs="host",
    )
    choices: int | None = option(
        None, help="number of texts that multiple choice chooses from; default: 4", range=COUNT
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (self.ids_only or self.host):
            check_tensorflow_text()
        if len(set(self.lengths)) < len(self.lengths):
            raise UserError(
                f"lengths must be different whole numbers. Received: {list(self.lengths)}."
            )


@dataclass(frozen=True, kw_only=True)
class OnnxOptions(FileOptions):
    """The options of `export_onnx`."""

    quantize: Literal["none", "dynamic"] = option(
        "none",
        help="storage of the weights: float32 (none), or 8 bits, which also multiplies in 8 bits "
        "(dynamic)",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        check_extra("onnx", "export onnx")


@dataclass(frozen=True, kw_only=True)
class WebOptions(ExportOptions):
    """The options of `export_web`."""

    lengths: tuple[int, ...] = option(
        (),
        help="numbers of tokens to pad to; default: 16, 64, 128 and 384, or the model's limit",
        range=COUNT,
    )
    pairs: bool = option(False, help="take pairs of texts, on a classifier's page")
    quantize: Quantize = option(
        "dynamic", help="storage of the weights: float32 (none), float16, or 8 bits (dynamic)"
    )
    node_modules: Path | None = option(
        None, help="folder with the packages of the page; default: npm installs them"
    )
    name: str = "ALBERT"


def refuse_left(tokenizer: "BaseTokenizer", what: str) -> None:
    """Refuses a tokenizer that drops the beginnings of texts, where a reader cuts their ends."""
    if tokenizer.truncation_side == "left":
        raise UserError(
            f"{what} must have texts that are truncated on the right. Received: a tokenizer with "
            "truncation_side='left'. Set tokenizer.truncation_side = 'right' (also in "
            "tokenizer_config.json), or export with ids_only=True."
        )


def check_model(
    model: "PreTrainedModel",
    tokenizer: "BaseTokenizer",
    max_length: int,
    pairs: bool | None,
) -> bool:
    """Refuses vocabularies and lengths that don't fit, and every backend but TensorFlow.

    Returns:
        Whether the model's texts come in pairs: by its task, otherwise by the caller's choice.
    """
    import keras

    from albert_tf.text.tokenizer import check_fit

    if keras.backend.backend() != "tensorflow":
        raise UserError(
            "Exports need Keras on TensorFlow. "
            f"Received: the backend {keras.backend.backend()!r}. Save the model with "
            "save_pretrained, and load it with KERAS_BACKEND=tensorflow."
        )
    check_fit(tokenizer, model.config, max_length)
    if pairs and model.config.type_vocab_size < 2:
        raise UserError(
            "A model of pairs must have token types for both texts. Received: pairs=True with "
            f"type_vocab_size={model.config.type_vocab_size}. Leave pairs out."
        )
    if not model.task.needs_pairs:
        return bool(pairs)
    if pairs is False:
        raise UserError(
            f"The texts of {type(model).__name__} must come in pairs. Received: pairs=False. "
            "Leave pairs out."
        )
    return True


def sentence_embedding(
    model: "PreTrainedModel", pooling: Pooling | None, normalize: bool | None
) -> "SentenceEmbedding | None":
    """Returns the pooling that the options choose; by default, the one in the model's folder.

    Returns None for an encoder without a pooling, and for models of other tasks.

    Raises:
        UserError: the model isn't an encoder and an option is set, `normalize` is set without a
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
    """Refuses counts that don't apply to the model's task."""
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
    """Returns the model, or a copy of it that stores and computes in the precision."""
    import keras

    policy = model.dtype_policy
    if (policy.compute_dtype, policy.variable_dtype) == (precision, precision):
        return model
    policy = keras.dtype_policies.serialize(keras.DTypePolicy(precision))
    copy = type(model).from_config({**model.get_config(), "dtype": policy})
    if len(copy.weights) < len(model.weights):
        raise UserError(
            f"An export in {precision} of a model in another precision must have ALBERT's weights "
            "alone. Received: adapters (LoRA), or weights after quantize(). save_pretrained merges "
            "adapters: export from that folder."
        )
    copy.set_weights([weight.astype(precision) for weight in model.get_weights()])
    copy._module_folder = model._module_folder
    return copy
