"""Exports for TensorFlow Serving and every other host of SavedModels."""

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

from albert_tf.files import written_atomically
from albert_tf.text.base_tokenizer import BaseTokenizer
from albert_tf.text.preprocessing import AlbertPreprocessor
from albert_tf.text.tokenizer import check_fit
from albert_tf_export import parity
from albert_tf_export.options import (
    LAYERS,
    Layers,
    check_backend,
    check_choice,
    in_float32,
    paired,
)
from albert_tf_export.samples import sample
from albert_tf_export.signatures import (
    Signature,
    ids_signature,
    masked_signature,
    takes_positions,
    text_signature,
)


def export_saved_model(
    model: Any,
    tokenizer: BaseTokenizer,
    path: str | os.PathLike[str],
    *,
    max_length: int | None = None,
    pairs: bool | None = None,
    ids_only: bool = False,
    layers: Layers = "loop",
    force: bool = False,
    check: bool = True,
) -> parity.Report:
    """Writes a SavedModel, and compares what a fresh process gets from it with Keras.

    Its signatures (`signatures.py` has their inputs, `answers.py` their outputs), for any batch and
    length:
        `text`: strings; also `serving_default`.
        `ids`: ids; `serving_default` where there is no `text`.
        `masked`: ids, and the positions whose logits over the vocabulary are asked for; of models
            that have such logits.

    Args:
        model: a task's model, of any dtype policy; stored and computed in float32.
        tokenizer: the one it was trained with.
        path: the folder to write; TensorFlow Serving wants `NAME/VERSION`, VERSION a number.
        max_length: pieces that a text is cut to. Default: what the tokenizer and the model allow.
        pairs: the `text` signature takes pairs, `text` and `text_pair`. Question answering and
            multiple choice always do.
        ids_only: leave `text` out, for hosts without tensorflow-text's operators: a SavedModel that
            has them loads nowhere else.
        layers: "loop", a loop of the graph, or "unrolled", which is no faster and takes more memory
            (`benchmarks/memory.py`).
        force: replace what stands at `path`.
        check: compare.
    Raises:
        UserError: the arguments don't fit together, or `path` exists.
        ParityError: the SavedModel answers otherwise than Keras; it is removed.
        OSError: it can't be written.
    """
    if max_length is None:
        max_length = min(tokenizer.model_max_length, model.config.max_position_embeddings)
    check_choice("layers", layers, LAYERS)
    check_backend()
    check_fit(tokenizer, model.config, max_length)
    pairs = paired(model, pairs)
    with written_atomically(path, force=force) as folder:
        model = in_float32(model)
        unroll = layers == "unrolled"
        signatures = [ids_signature(model, unroll=unroll)]
        if not ids_only:
            preprocessor = AlbertPreprocessor(tokenizer, max_length, padding="longest")
            text = text_signature(model, preprocessor, unroll=unroll, pairs=pairs)
            signatures.insert(0, text)
        if takes_positions(model):
            signatures.append(masked_signature(model, unroll=unroll))
        write(signatures, folder)
        size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
        differences: Mapping[str, parity.Difference] = {}
        if check:
            names = [signature.name for signature in signatures]
            samples = sample(model, tokenizer, max_length, pairs)
            differences = parity.check_saved_model(folder, names, samples)
    return parity.Report(Path(path), size, differences)


def write(signatures: Sequence[Signature], folder: Path) -> None:
    """Writes a SavedModel; the first signature is also `serving_default`.

    Raises:
        OSError: it can't be written.
    """
    archive = keras.export.ExportArchive()
    # Without `track`, which would store each weight a second time: ExportArchive keeps the
    # variables that the functions use.
    for signature in signatures:
        archive.add_endpoint(
            signature.name, signature.function, input_signature=list(signature.inputs)
        )
    try:
        archive.write_out(folder, verbose=False)
    except tf.errors.OpError as error:  # What TensorFlow's writers raise on a full disk.
        reason = re.sub(r"\{\{.*\}\} | \[Op:.*\]", "", error.message)
        raise OSError(f"The SavedModel could not be written. {reason}") from error
