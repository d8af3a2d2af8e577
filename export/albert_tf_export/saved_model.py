"""Exports SavedModels, for TensorFlow Serving and other hosts."""

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import keras
import tensorflow as tf

from albert_tf.files import written_atomically
from albert_tf.models.base import PreTrainedModel
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
    model: PreTrainedModel,
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
    """Writes a SavedModel, runs it in a fresh process, and compares its outputs with Keras.

    Its signatures, for any batch and length (`signatures.py` lists their inputs, `task_outputs.py`
    their outputs):
        `text`: takes strings; also `serving_default`.
        `ids`: takes ids; `serving_default` if there is no `text`.
        `masked`: takes ids and the positions to score; for models that predict masked pieces.

    Args:
        model: a task's model, with any dtype policy; stored and computed in float32.
        tokenizer: the model's tokenizer.
        path: folder to write; TensorFlow Serving expects `NAME/VERSION`, VERSION a number.
        max_length: number of pieces that a text is truncated to. Default: the most that the
            tokenizer and the model allow.
        pairs: the signature `text` takes pairs, `text` and `text_pair`. Default: only for question
            answering and multiple choice, which always do.
        ids_only: leave `text` out, for hosts without tensorflow-text's operators: they can't load
            a SavedModel that contains them.
        layers: "loop", a loop of the graph, or "unrolled", which is no faster and takes more memory
            (`benchmarks/memory.py`).
        force: replace an existing `path`.
        check: run the export and compare it.
    Returns:
        A `Report`: size, and differences from Keras.
    Raises:
        UserError: the arguments don't fit together, or `path` exists.
        ParityError: the outputs differ from those of Keras; the SavedModel is removed.
        OSError: it can't be written.

    Example:
        >>> import tensorflow as tf, tensorflow_text
        >>> from albert_tf import AlbertTokenizer, export_saved_model, load_pretrained
        >>> model = load_pretrained("small", task="masked-lm")
        >>> tokenizer = AlbertTokenizer.from_pretrained("small")
        >>> report = export_saved_model(model, tokenizer, "served/1", check=False)
        >>> signature = tf.saved_model.load("served/1").signatures["text"]
        >>> signature(text=tf.constant(["A [MASK] film."]))["logits"].shape[0]
        1
    """
    if max_length is None:
        max_length = min(tokenizer.model_max_length, model.config.max_position_embeddings)
    check_choice("layers", layers, LAYERS)
    check_backend()
    check_fit(tokenizer, model.config, max_length)
    pairs = paired(model, pairs)
    with written_atomically(path, force=force, alone=True) as folder:
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
    # Without `track`, which would store each weight a second time: ExportArchive finds the
    # variables that the functions use.
    for signature in signatures:
        archive.add_endpoint(
            signature.name, signature.function, input_signature=list(signature.inputs)
        )
    try:
        archive.write_out(folder, verbose=False)
    except tf.errors.OpError as error:  # TensorFlow's writers raise it on a full disk.
        reason = re.sub(r"\{\{.*\}\} | \[Op:.*\]", "", error.message)
        raise OSError(f"The SavedModel could not be written. {reason}") from error
