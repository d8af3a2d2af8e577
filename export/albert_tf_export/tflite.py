"""Exports for TensorFlow Lite (LiteRT): one file that takes strings, or ids alone."""

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Literal, get_args

import tensorflow as tf

from albert_tf.files import written_atomically
from albert_tf.text.fit import check_fit
from albert_tf.text.preprocessing import AlbertPreprocessor
from albert_tf.text.tokenizer import AlbertTokenizer
from albert_tf_export import parity, saved_model
from albert_tf_export.options import LAYERS, Layers, check_backend, check_choice, in_float32
from albert_tf_export.sharing import share_loops
from albert_tf_export.signatures import Signature, ids_signature, text_signature

Quantize = Literal["none", "float16", "dynamic"]
QUANTIZE: Final = get_args(Quantize)
DEFAULT_LENGTH: Final = 128


def export_tflite(
    model: Any,
    tokenizer: AlbertTokenizer,
    path: str | os.PathLike[str],
    *,
    max_length: int | None = None,
    pairs: bool = False,
    quantize: Quantize = "none",
    layers: Layers = "loop",
    ids_only: bool = False,
    force: bool = False,
    check: bool = True,
) -> parity.Report:
    """Writes a .tflite file, and compares what fresh processes get from it with Keras.

    Its signatures (`signatures.py` has their inputs and outputs), for one text at a time:
        `ids`: ids of `max_length`, padded. Every interpreter runs it.
        `text`: strings. Its interpreter needs tensorflow-text's operators.

    Args:
        model: a task's model, of any dtype policy.
        tokenizer: the one it was trained with.
        path: the file to write.
        max_length: pieces of a row, and of what a text is cut to. Default: 128, or what the
            tokenizer and the model allow if that is less.
        pairs: the `text` signature takes pairs, `text` and `text_pair`.
        quantize: "none" is float32; "float16" stores weights in half; "dynamic" stores them in 8
            bits and multiplies in 8 bits.
        layers: "loop", a loop of the graph, or "unrolled", which takes several times the memory.
        ids_only: leave `text` out, for hosts that take files of one signature.
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
    with written_atomically(path, force=force) as file:
        model = in_float32(model)
        unroll = layers == "unrolled"
        # The first signature's graph is what hosts without signatures run.
        signatures = [ids_signature(model, unroll=unroll, batch=1, length=max_length)]
        if not ids_only:
            preprocessor = AlbertPreprocessor(tokenizer, max_length)
            text = text_signature(model, preprocessor, unroll=unroll, pairs=pairs, batch=1)
            signatures.append(text)
        file.write_bytes(convert(signatures, quantize))
        size = file.stat().st_size
        differences, tolerance = {}, parity.TOLERANCES[quantize]
        if check:
            samples = parity.sample(model, tokenizer, max_length, pairs)
            names = [signature.name for signature in signatures]
            differences = parity.check_tflite(file, names, samples, tokenizer, quantize)
            tolerance = samples.tolerance(quantize)
    return parity.Report(Path(path), size, differences, tolerance)


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
