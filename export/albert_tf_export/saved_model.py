"""Exports SavedModels, for TensorFlow Serving and other hosts."""

import contextlib
import json
import os
import warnings
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import tensorflow as tf

from albert_tf.errors import UserError
from albert_tf.files import WILDCARDS, written_atomically
from albert_tf.layers.encoder import Unroll
from albert_tf.models import AlbertForSequenceClassification
from albert_tf.models.base import PreTrainedModel
from albert_tf.options import accepts_keywords
from albert_tf.runtimes import BATCH
from albert_tf.text.base_tokenizer import BaseTokenizer
from albert_tf.text.preprocessing import AlbertPreprocessor
from albert_tf_export import check as checks
from albert_tf_export.early_exit import check_early_exit, leaving_early
from albert_tf_export.graphs import convert_for_serving, write
from albert_tf_export.options import (
    SavedModelOptions,
    all_depths,
    check_model,
    in_precision,
    warn_without_bfloat16,
)
from albert_tf_export.signatures import (
    CLASSIFY,
    IDS,
    PADDED_IDS,
    REGRESS,
    TEXT,
    TEXT_PAIR,
    Signature,
    Tensors,
    ids_signature,
    masked_signature,
    of_depth,
    padded_ids_signature,
    text_signature,
    with_depths,
)
from albert_tf_export.words import check_words, text_function

TFLITE: Final = "model.tflite"  # TensorFlow Serving looks for this name
WARMUP: Final = "assets.extra/tf_serving_warmup_requests"  # TensorFlow Serving's name
MOST_REQUESTS: Final = 1000  # TensorFlow Serving refuses a model with more


@accepts_keywords(SavedModelOptions)
def export_saved_model(
    model: PreTrainedModel,
    tokenizer: BaseTokenizer,
    path: str | os.PathLike[str],
    options: SavedModelOptions,
) -> checks.Report:
    """Writes a SavedModel, runs it in a fresh process, and compares its outputs with Keras.

    Its signatures, for any batch and length (`signatures.py` lists their inputs and outputs,
    `words.py` answers in words):
        `text`: takes strings, and answers in words where the task has them; also `serving_default`.
        `classify` or `regress`: takes tf.Examples with strings; for models that classify texts.
        `ids`: takes ids; `serving_default` if there is no `text`.
        `padded_ids`: takes `input_ids` alone, for servers that pad requests.
        `masked`: takes ids and the positions to score; for models that predict masked tokens.
        `ids_3`, `text_3`, …: end after so many layers, where `depths` are given. With `early_exit`
            the signatures without a number answer at the first depth that is sure, and those but
            `classify` say so: `depth`, int32 `[B]`.

    Strangers can send huge texts: 10 MB of English take 317 MB of memory, whatever `max_length` is.
    `max_bytes` and `max_batch` limit that; more examples are an error before they take memory.
    A loop of the layers is as fast as unrolled ones, and takes less memory. bfloat16 halves the
    weights, and on processors with products of bfloat16 takes 0.6 of the time; a warning says if
    this one has none. Outputs stay float32. TensorFlow Serving runs the file of
    `quantize`, `model.tflite`, with `--prefer_tflite_model`; it takes `input_ids` alone, int32
    `[B, max_length]`, padded. A request for the warm-up is a text, or JSON with the inputs of
    `text`.

    Args:
        model: a task's model, with any dtype policy.
        tokenizer: the model's tokenizer.
        path: folder to write; TensorFlow Serving expects `NAME/VERSION`, VERSION a number.
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
    limit = min(tokenizer.model_max_length, model.config.max_position_embeddings)
    embedding = model.sentence_embedding() if options.pooling is None else None
    if embedding is not None:
        limit = min(limit, embedding.max_length or limit)
    max_length = options.max_length or limit
    depths = all_depths(model.config, options.depths)
    if options.early_exit:
        check_early_exit(model, options.depths)
    quantize, max_batch = options.quantize, options.max_batch
    pairs = check_model(model, tokenizer, max_length, options.pairs)
    least = max(1024, 16 * max_length)  # so that ordinary texts are truncated by tokens alone
    if options.max_bytes is not None and options.max_bytes < least:
        raise UserError(
            f"max_bytes must be at least {least} for max_length={max_length}. "
            f"Received: {options.max_bytes}."
        )
    check_words(model, options.top_k, options.pooling, options.normalize)
    requests = []
    if options.warmup is not None:
        names = (TEXT, TEXT_PAIR) if pairs else (TEXT,)
        requests = read_requests(options.warmup, names, model.task.has_choices)
    if options.precision == "bfloat16":
        warn_without_bfloat16()
    if WILDCARDS & set(Path(path).resolve().as_posix()):
        warnings.warn(
            "TensorFlow loads no SavedModel from a path with *, ?, [ or a backslash. Received: "
            f"{path}. Rename the folder before you load it.",
            stacklevel=2,
        )
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(written_atomically(path, force=options.force, nowait=True))
        if options.check:
            package = "tensorflow"
            if not options.ids_only:
                checks.check_tokens(tokenizer)
                package = "tensorflow_text"
            # It imports TensorFlow while this process writes.
            process = stack.enter_context(checks.FreshProcess(package))
        exact, unrolled = in_precision(model, "float32"), options.layers == "unrolled"
        unroll: Unroll = unrolled or "last"
        model = in_precision(model, options.precision)
        threshold = options.early_exit
        early = leaving_early(model, depths, threshold) if threshold else None
        signatures: list[Signature] = []
        if not options.ids_only:
            preprocessor = AlbertPreprocessor(tokenizer, max_length, padding="longest")
            answers = partial(
                text_function,
                tokenizer=tokenizer,
                preprocessor=preprocessor,
                pairs=pairs,
                top_k=options.top_k,
                pooling=options.pooling,
                normalize=options.normalize,
            )

            def text(model: PreTrainedModel) -> Signature:
                return text_signature(
                    model,
                    preprocessor,
                    unroll=unroll,
                    pairs=pairs,
                    max_bytes=options.max_bytes,
                    in_words=answers(model, unroll=unroll),
                )

            deepest = model.config.num_hidden_layers
            default, *others = with_depths(text, model, depths, deepest, early)
            signatures = [*with_examples(model, default), *others]
        ids = partial(ids_signature, unroll=unroll)
        signatures += with_depths(ids, model, depths, model.config.num_hidden_layers, early)
        signatures.append(padded_ids_signature(early or model, tokenizer.special, unroll=unroll))
        if model.task.takes_positions:
            signatures.append(masked_signature(model, unroll=unroll))
        if max_batch is not None:
            signatures = [limited(signature, max_batch) for signature in signatures]
        write(signatures, folder)
        if requests:
            write_warmup(folder, requests)
        if quantize is not None:
            served = leaving_early(exact, depths, threshold) if threshold else exact
            signature = padded_ids_signature(
                served, tokenizer.special, unroll=unrolled, length=max_length, strings=False
            )
            (folder / TFLITE).write_bytes(convert_for_serving(signature, quantize))
        differences: dict[str, checks.Difference] = {}
        if options.check:

            def sampled(model: PreTrainedModel) -> dict[str, checks.Case]:
                in_words = None if options.ids_only else answers(model, unroll=True)
                return checks.sample(model, tokenizer, max_length, pairs, in_words=in_words)

            by_depth = {depth: sampled(exact.with_depth(depth)) for depth in depths}
            cases = dict(by_depth[max(depths)] if depths else sampled(exact))
            if threshold:
                cases = checks.early_cases(by_depth, IDS, exact, threshold)
            cases[PADDED_IDS] = _padded(cases[IDS], max_length, tokenizer.special.pad_id)
            for depth, of_model in by_depth.items():
                cases |= {of_depth(name, depth): of_model[name] for name in (TEXT, IDS)}
            samples = {name: cases[name] for signature in signatures for name in signature.names}
            differences = checks.compare(
                "saved-model",
                folder,
                samples,
                options.precision,
                batch=min(max_batch or BATCH, BATCH),
                processes=dict.fromkeys(samples, process),
            )
            if quantize is not None:
                samples = {PADDED_IDS: checks.numeric(cases[PADDED_IDS])}
                compared = checks.compare("tflite", folder / TFLITE, samples, quantize)
                differences[TFLITE] = compared[PADDED_IDS]
        last = depths[-1] if depths and not early else None
        return checks.report(Path(path), folder, differences, depth=last)


def _padded(case: checks.Case, length: int, pad_id: int) -> checks.Case:
    """Returns the case with rows of padded ids alone."""
    rows = []
    for row in case.inputs:
        ids = row["input_ids"]
        choices = ids if isinstance(ids[0], list) else [ids]
        padded = [[*row, *[pad_id] * (length - len(row))] for row in choices]
        rows.append({"input_ids": padded if isinstance(ids[0], list) else padded[0]})
    return case._replace(inputs=rows)


def with_examples(model: PreTrainedModel, text: Signature) -> list[Signature]:
    """Returns the signature `text`, and `classify` or `regress` where Serving has a call for it.

    That takes `inputs`, string `[B]`: serialized tf.Examples with the inputs of `text` as bytes. It
    returns `classes` and `scores` `[B, C]`, or `outputs` `[B]`.
    """
    if not isinstance(model, AlbertForSequenceClassification):
        return [text]
    is_regression = model.problem_type == "regression"
    if is_regression and model.config.num_labels > 1:
        return [text]
    # One graph for both.
    graph = tf.function(text.function, input_signature=list(text.inputs), autograph=False)
    features = {spec.name: tf.io.FixedLenFeature([], tf.string) for spec in text.inputs}

    def function(examples: tf.Tensor) -> Tensors:
        parsed = tf.io.parse_example(examples, features)
        outputs = graph(*(parsed[spec.name] for spec in text.inputs))
        if is_regression:
            return {"outputs": outputs["value"][:, 0]}
        return {"classes": outputs["classes"], "scores": outputs["probabilities"]}

    inputs = [tf.TensorSpec([None], tf.string, "inputs")]
    examples = Signature(REGRESS if is_regression else CLASSIFY, inputs, function)
    return [replace(text, function=graph), examples]


def limited(signature: Signature, max_batch: int) -> Signature:
    """Refuses batches of more than `max_batch` rows, before anything is computed."""

    def function(*values: tf.Tensor) -> Tensors:
        rule = f"A request must have at most {max_batch} rows. Send several."
        fits = tf.debugging.assert_less_equal(tf.shape(values[0])[0], max_batch, rule)
        with tf.control_dependencies([fits]):
            return signature.function(*map(tf.identity, values))

    return replace(signature, function=function)


def read_requests(path: Path, names: Sequence[str], nested: bool) -> list[dict[str, Any]]:
    """Returns sample requests, one a line: a text, or JSON with the inputs of `text`.

    Args:
        names: of the inputs.
        nested: an input is a list of texts, one for each choice.
    Raises:
        UserError: a line has other inputs, or there are none or too many.
    """
    lines = path.read_text(encoding="utf-8").removesuffix("\n").split("\n")
    if len(lines) > MOST_REQUESTS:
        raise UserError(
            f"The warm-up must have at most {MOST_REQUESTS} requests, one a line. "
            f"Received: {len(lines)} in {path}."
        )
    requests = []
    for number, line in enumerate(lines, 1):
        try:
            request = json.loads(line) if line.startswith("{") else {TEXT: line}
        except (ValueError, RecursionError):
            request = {}
        if request.keys() != set(names) or not all(
            _is_text(value, nested) for value in request.values()
        ):
            raise UserError(
                f"A request for the warm-up must be JSON with {' and '.join(names)}, each a "
                f"{'list of texts' if nested else 'text'}; a line of text is {TEXT} alone. "
                f"Received: {line[:60]!r} in line {number} of {path}."
            )
        requests.append(request)
    return requests


def _is_text(value: Any, nested: bool) -> bool:
    if nested:
        return isinstance(value, list) and all(isinstance(text, str) for text in value)
    return isinstance(value, str)


def write_warmup(folder: Path, requests: Sequence[dict[str, Any]]) -> None:
    """Writes requests that the server answers before it uses a version, so that no user waits."""
    from tensorflow_serving.apis import prediction_log_pb2

    file = folder / WARMUP
    file.parent.mkdir()
    with tf.io.TFRecordWriter(str(file)) as writer:
        for request in requests:
            log = prediction_log_pb2.PredictionLog()
            log.predict_log.request.model_spec.signature_name = TEXT
            for name, value in sorted(request.items()):
                tensor = tf.make_tensor_proto([value], tf.string)
                log.predict_log.request.inputs[name].CopyFrom(tensor)
            writer.write(log.SerializeToString(deterministic=True))
