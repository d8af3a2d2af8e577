"""Exports SavedModels, for TensorFlow Serving and other hosts."""

import os
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Final

from albert_tf.files import WILDCARDS, written_atomically
from albert_tf.layers.encoder import Unroll
from albert_tf.models.base import PreTrainedModel
from albert_tf.text.base_tokenizer import BaseTokenizer
from albert_tf.text.preprocessing import AlbertPreprocessor
from albert_tf_export import parity
from albert_tf_export.graphs import QUANTIZE, Quantize, convert_for_serving, write
from albert_tf_export.options import (
    PRECISIONS,
    Layers,
    Precision,
    check_choice,
    check_max_bytes,
    check_options,
    in_precision,
    warn_without_bfloat16,
)
from albert_tf_export.samples import Case, check_tokens, numeric, sample
from albert_tf_export.serving import (
    check_limit,
    limited,
    read_warmup,
    with_examples,
    write_warmup,
)
from albert_tf_export.signatures import (
    IDS,
    PADDED_IDS,
    Signature,
    ids_signature,
    masked_signature,
    padded_ids_signature,
    text_signature,
)
from albert_tf_export.words import Pooling, answerer, check_words

BATCH: Final = 8  # rows of a batch in the check
TFLITE: Final = "model.tflite"  # TensorFlow Serving looks for this name


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
    precision: Precision = "float32",
    quantize: Quantize | None = None,
    max_batch: int | None = None,
    warmup: str | os.PathLike[str] | None = None,
    top_k: int | None = None,
    pooling: Pooling | None = None,
    normalize: bool = False,
    force: bool = False,
    check: bool = True,
) -> parity.Report:
    """Writes a SavedModel, runs it in a fresh process, and compares its outputs with Keras.

    Its signatures, for any batch and length (`signatures.py` lists their inputs, `task_outputs.py`
    their outputs, `words.py` answers in words):
        `text`: takes strings, and answers in words where the task has them; also `serving_default`.
        `classify` or `regress`: takes tf.Examples with strings; for models that classify texts.
        `ids`: takes ids; `serving_default` if there is no `text`.
        `padded_ids`: takes `input_ids` alone, for servers that pad requests.
        `masked`: takes ids and the positions to score; for models that predict masked pieces.

    Args:
        model: a task's model, with any dtype policy.
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
        precision: "bfloat16" halves the weights, and on processors with products of bfloat16 takes
            0.6 of the time; a warning says if this one has none. Outputs stay float32.
        quantize: write `model.tflite` too, as `export_tflite` quantizes it. TensorFlow Serving runs
            it instead with `--prefer_tflite_model`. It takes `input_ids` alone, int32
            `[B, max_length]`, padded. Default: no such file.
        max_batch: number of rows that a request may have, likewise; more are an error before they
            take memory. Default: any.
        warmup: file of sample requests for `text`, one a line: a text, or JSON with its inputs.
            TensorFlow Serving answers them before it uses the model. Needs tensorflow-serving-api.
        top_k: number of pieces that `text` returns for a mask. Default: 5.
        pooling: "mean", "cls" or "pooler": `text` returns one vector for a text. For encoders;
            their default is the state of every piece.
        normalize: give these vectors the length 1.
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
        >>> signature(text=tf.constant(["A [MASK] film."]))["token_str"].shape  # [B, P, K]
        TensorShape([1, 1, 5])
    """
    if max_length is None:
        max_length = min(tokenizer.model_max_length, model.config.max_position_embeddings)
    check_choice("precision", precision, PRECISIONS)
    if quantize is not None:
        check_choice("quantize", quantize, QUANTIZE)
    pairs = check_options(model, tokenizer, max_length, layers, pairs)
    check_max_bytes(max_bytes, max_length)
    check_words(model, top_k, pooling, normalize)
    check_limit(max_batch)
    requests = read_warmup(warmup, model, pairs, ids_only)
    if precision == "bfloat16":
        warn_without_bfloat16()
    if WILDCARDS & set(Path(path).resolve().as_posix()):
        warnings.warn(
            "TensorFlow loads no SavedModel from a path with *, ?, [ or a backslash. Received: "
            f"{path}. Rename the folder before you load it.",
            stacklevel=2,
        )
    with written_atomically(path, force=force, alone=True) as folder:
        exact, unrolled = in_precision(model, "float32"), layers == "unrolled"
        unroll: Unroll = unrolled or "last"
        model, in_words, text = in_precision(model, precision), None, None
        if not ids_only:
            preprocessor = AlbertPreprocessor(tokenizer, max_length, padding="longest")
            in_words = answerer(
                model,
                tokenizer,
                preprocessor,
                unroll=unroll,
                pairs=pairs,
                top_k=top_k,
                pooling=pooling,
                normalize=normalize,
            )
            text = text_signature(
                model,
                preprocessor,
                unroll=unroll,
                pairs=pairs,
                max_bytes=max_bytes,
                in_words=in_words,
            )
        signatures = _signatures(model, tokenizer, text, unroll)
        if max_batch is not None:
            signatures = [limited(each, max_batch) for each in signatures]
        write(signatures, folder)
        if requests:
            write_warmup(folder, requests)
        if quantize is not None:
            signature = padded_ids_signature(
                exact, tokenizer.special, unroll=unrolled, length=max_length, strings=False
            )
            (folder / TFLITE).write_bytes(convert_for_serving(signature, quantize))
        differences: dict[str, parity.Difference] = {}
        if check:
            if text is not None:
                check_tokens(tokenizer)
            keras = None if in_words is None else replace(in_words, model=exact, unroll=True)
            cases = sample(exact, tokenizer, max_length, pairs, in_words=keras)
            cases[PADDED_IDS] = _padded(cases[IDS], max_length, tokenizer.special.pad_id)
            samples = {each.name: cases[each.name] for each in signatures}
            batch = () if max_batch is None else ("--batch", str(min(max_batch, BATCH)))
            differences = parity.check("saved_model.py", folder, samples, precision, options=batch)
            if quantize is not None:
                samples = {PADDED_IDS: numeric(cases[PADDED_IDS])}
                found = parity.check("tflite.py", folder / TFLITE, samples, quantize)
                differences[TFLITE] = found[PADDED_IDS]
        return parity.report(Path(path), folder, differences)


def _signatures(
    model: PreTrainedModel, tokenizer: BaseTokenizer, text: Signature | None, unroll: Unroll
) -> list[Signature]:
    """Returns all signatures, the one that is `serving_default` first."""
    signatures = [] if text is None else with_examples(model, text)
    signatures.append(ids_signature(model, unroll=unroll))
    signatures.append(padded_ids_signature(model, tokenizer.special, unroll=unroll))
    if model.task.takes_positions:
        signatures.append(masked_signature(model, unroll=unroll))
    return signatures


def _padded(case: Case, length: int, pad_id: int) -> Case:
    """Returns the case with rows of padded ids alone."""
    rows = []
    for row in case.inputs:
        ids = row["input_ids"]
        choices = ids if isinstance(ids[0], list) else [ids]
        padded = [[*each, *[pad_id] * (length - len(each))] for each in choices]
        rows.append({"input_ids": padded if isinstance(ids[0], list) else padded[0]})
    return case._replace(inputs=rows, texts=())
