"""Exports for TensorFlow Lite (LiteRT): one file that takes strings, or ids alone."""

import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal, get_args

import tensorflow as tf

from albert_tf.files import written_atomically
from albert_tf.text.base_tokenizer import BaseTokenizer
from albert_tf.text.preprocessing import AlbertPreprocessor
from albert_tf.text.tokenizer import check_fit
from albert_tf_export import parity, saved_model
from albert_tf_export.options import (
    LAYERS,
    Layers,
    check_backend,
    check_choice,
    check_counts,
    in_float32,
    paired,
)
from albert_tf_export.samples import sample
from albert_tf_export.sharing import share_loops
from albert_tf_export.signatures import (
    Signature,
    ids_signature,
    masked_signature,
    text_signature,
)

Quantize = Literal["none", "float16", "dynamic"]
QUANTIZE: Final = get_args(Quantize)
DEFAULT_LENGTH: Final = 128
DEFAULT_CHOICES: Final = 4  # RACE's and SWAG's.


def export_tflite(
    model: Any,
    tokenizer: BaseTokenizer,
    path: str | os.PathLike[str],
    *,
    max_length: int | None = None,
    pairs: bool | None = None,
    quantize: Quantize = "none",
    layers: Layers = "loop",
    ids_only: bool = False,
    choices: int | None = None,
    predictions: int | None = None,
    force: bool = False,
    check: bool = True,
) -> parity.Report:
    """Writes a .tflite file, and compares what fresh processes get from it with Keras.

    Its signatures (`signatures.py` has their inputs, `answers.py` their outputs), for one text, one
    pair or one list of choices at a time:
        `ids`: ids of `max_length`, padded. Every interpreter runs it.
        `text`: strings. Its interpreter needs tensorflow-text's operators.

    Args:
        model: a task's model, of any dtype policy.
        tokenizer: the one it was trained with.
        path: the file to write.
        max_length: pieces of a row, and of what a text is cut to. Default: 128, or what the
            tokenizer and the model allow if that is less.
        pairs: the `text` signature takes pairs, `text` and `text_pair`. Question answering and
            multiple choice always do.
        quantize: "none" is float32; "float16" stores weights in half; "dynamic" stores them in 8
            bits and multiplies in 8 bits.
        layers: "loop", a loop of the graph, or "unrolled", which takes several times the memory.
        ids_only: leave `text` out, for hosts that take files of one signature.
        choices: how many texts multiple choice is among. Default: 4.
        predictions: for logits over the vocabulary: `masked` takes the place of `ids`, whose inputs
            it has and as many positions as this; it gives logits there alone.
        force: replace what stands at `path`.
        check: compare.
    Raises:
        UserError: the arguments don't fit together, or `path` exists.
        ParityError: the file answers otherwise than Keras; it is removed.
        OSError: it can't be written.
    """
    if max_length is None:
        limit = min(tokenizer.model_max_length, model.config.max_position_embeddings)
        max_length = min(DEFAULT_LENGTH, limit)
    check_choice("quantize", quantize, QUANTIZE)
    check_choice("layers", layers, LAYERS)
    check_backend()
    check_fit(tokenizer, model.config, max_length)
    check_counts(model, choices, predictions)
    pairs = paired(model, pairs)
    with written_atomically(path, force=force) as file:
        model = in_float32(model)
        unroll, choices = layers == "unrolled", choices or DEFAULT_CHOICES
        # The first signature's graph is what hosts without signatures run.
        shape = {"batch": 1, "length": max_length}
        signatures = [
            masked_signature(model, unroll=unroll, predictions=predictions, **shape)
            if predictions
            else ids_signature(model, unroll=unroll, choices=choices, **shape)
        ]
        if not ids_only:
            preprocessor = AlbertPreprocessor(tokenizer, max_length)
            text = text_signature(
                model, preprocessor, unroll=unroll, pairs=pairs, batch=1, choices=choices
            )
            signatures.append(text)
        file.write_bytes(convert(signatures, quantize))
        size = file.stat().st_size
        differences: Mapping[str, parity.Difference] = {}
        if check:
            names = [signature.name for signature in signatures]
            samples = sample(model, tokenizer, max_length, pairs, choices, predictions or 1)
            differences = parity.check_tflite(file, names, samples, tokenizer, quantize)
    return parity.Report(Path(path), size, differences)


def convert(signatures: Sequence[Signature], quantize: Quantize) -> bytes:
    """The content of a .tflite file with these signatures, of fixed shapes.

    It is made by way of a SavedModel: from concrete functions, the converter loses variables.
    """
    with tempfile.TemporaryDirectory() as folder:
        saved_model.write(signatures, Path(folder))
        converter = tf.lite.TFLiteConverter.from_saved_model(
            folder, signature_keys=[signature.name for signature in signatures]
        )
        converter.allow_custom_ops = True
        if quantize != "none":
            converter.optimizations = [tf.lite.Optimize.DEFAULT]
        if quantize == "float16":
            converter.target_spec.supported_types = [tf.float16]
        return share_loops(converter.convert())
