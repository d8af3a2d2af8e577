"""Exports SavedModels, for TensorFlow Serving and other hosts."""

import hashlib
import os
import re
import uuid
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import tensorflow as tf
from tensorflow.core.protobuf import fingerprint_pb2

from albert_tf.files import written_atomically
from albert_tf.models.base import PreTrainedModel
from albert_tf.text.base_tokenizer import BaseTokenizer
from albert_tf.text.preprocessing import AlbertPreprocessor
from albert_tf_export import parity
from albert_tf_export.options import Layers, check_max_bytes, check_options, in_float32
from albert_tf_export.samples import sample
from albert_tf_export.signatures import (
    Signature,
    ids_signature,
    masked_signature,
    padded_ids_signature,
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
    max_bytes: int | None = None,
    force: bool = False,
    check: bool = True,
) -> parity.Report:
    """Writes a SavedModel, runs it in a fresh process, and compares its outputs with Keras.

    Its signatures, for any batch and length (`signatures.py` lists their inputs, `task_outputs.py`
    their outputs):
        `text`: takes strings; also `serving_default`.
        `ids`: takes ids; `serving_default` if there is no `text`.
        `padded_ids`: takes `input_ids` alone, for servers that pad requests.
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
        max_bytes: number of bytes of a text that `text` reads, for hosts that strangers reach: 10
            MB of English take 317 MB of memory, whatever `max_length` is. Longer texts are
            truncated. At least 1,024, and 16 for each piece of `max_length`, so that ordinary
            texts are truncated by pieces alone. Default: all.
        force: replace an existing `path`.
        check: run the export and compare it.
    Returns:
        A `Report`: size, SHA-256, and differences from Keras.
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
    pairs = check_options(model, tokenizer, max_length, layers, pairs)
    check_max_bytes(max_bytes, max_length)
    with written_atomically(path, force=force, alone=True) as folder:
        model = in_float32(model)
        unroll = layers == "unrolled"
        signatures = [
            ids_signature(model, unroll=unroll),
            padded_ids_signature(model, tokenizer.special, unroll=unroll),
        ]
        if not ids_only:
            preprocessor = AlbertPreprocessor(tokenizer, max_length, padding="longest")
            text = text_signature(
                model, preprocessor, unroll=unroll, pairs=pairs, max_bytes=max_bytes
            )
            signatures.insert(0, text)
        if takes_positions(model):
            signatures.append(masked_signature(model, unroll=unroll))
        write(signatures, folder)
        differences: Mapping[str, parity.Difference] = {}
        if check:
            cases = sample(model, tokenizer, max_length, pairs)
            names = [each.name for each in signatures if each.name in cases]
            samples = {name: cases[name] for name in names}
            differences = parity.check("saved_model.py", folder, samples)
        return parity.report(Path(path), folder, differences)


def write(signatures: Sequence[Signature], folder: Path) -> None:
    """Writes a SavedModel; the first signature is also `serving_default`.

    In a fresh process the same model gives the same bytes; `keras.export.ExportArchive` numbers the
    variables by their place in memory.

    Raises:
        OSError: it can't be written.
    """
    root, graphs = tf.Module(), {}
    for signature in signatures:
        function = tf.function(
            signature.function, input_signature=list(signature.inputs), autograph=False
        )
        setattr(root, signature.name, function)
        graphs[signature.name] = function.get_concrete_function()
    root.weights = _in_order_of_use(graphs.values())
    served = {"serving_default": graphs[signatures[0].name], **graphs}
    try:
        tf.saved_model.save(root, str(folder), signatures=served)
        _make_fingerprint_stable(folder)
    except tf.errors.OpError as error:  # TensorFlow's writers raise it on a full disk.
        reason = re.sub(r"\{\{.*\}\} | \[Op:.*\]", "", error.message)
        raise OSError(f"The SavedModel could not be written. {reason}") from error


def _in_order_of_use(graphs: Iterable[Any]) -> list[tf.Variable]:
    """Returns the variables of graphs, each once."""
    found: dict[int, tf.Variable] = {}
    for graph in graphs:
        by_handle = {id(variable.handle): variable for variable in graph.variables}
        for captured in graph.captured_inputs:
            if id(captured) in by_handle:
                found.setdefault(id(captured), by_handle[id(captured)])
    return list(found.values())


def _make_fingerprint_stable(folder: Path) -> None:
    """Replaces TensorFlow's random id of an export by one that depends on its content."""
    file = folder / "fingerprint.pb"
    fingerprint = fingerprint_pb2.FingerprintDef.FromString(file.read_bytes())
    fingerprint.uuid = ""
    content = hashlib.sha256(fingerprint.SerializeToString(deterministic=True)).digest()
    fingerprint.uuid = str(uuid.UUID(bytes=content[:16]))
    file.write_bytes(fingerprint.SerializeToString(deterministic=True))
