"""Exports SavedModels for TensorFlow Serving and other runtimes."""

import contextlib
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import tensorflow as tf

from albert_tf.errors import UserError
from albert_tf.files import user_path, written_atomically
from albert_tf.layers.encoder import Unroll
from albert_tf.models.base import PreTrainedModel
from albert_tf.options import accepts_keywords
from albert_tf.outputs import SAVED_MODEL
from albert_tf.runtimes.run import BATCH, TEXTS
from albert_tf.text.base_tokenizer import BaseTokenizer
from albert_tf.text.preprocessing import AlbertPreprocessor
from albert_tf.text.texts import as_text
from albert_tf_export import check as checks
from albert_tf_export.fresh import FreshProcess
from albert_tf_export.graphs import write
from albert_tf_export.options import (
    SavedModelOptions,
    check_model,
    in_precision,
    sentence_embedding,
)
from albert_tf_export.report import Report
from albert_tf_export.samples import check_tokens, sample
from albert_tf_export.signatures import (
    MASKED,
    TEXT,
    Signature,
    Tensors,
    ids_signature,
    text_signature,
)
from albert_tf_export.words import text_function

UNROLL: Final = "last"  # a loop over all layers except the last
WARMUP: Final = "assets.extra/tf_serving_warmup_requests"  # TensorFlow Serving's name
MOST_REQUESTS: Final = 1000  # TensorFlow Serving rejects a model with more requests


@accepts_keywords(SavedModelOptions)
def export_saved_model(
    model: PreTrainedModel,
    tokenizer: BaseTokenizer,
    path: str | os.PathLike[str],
    options: SavedModelOptions,
) -> Report:
    """Writes a SavedModel, runs it in a fresh process, and compares its outputs with Keras.

    The signatures take any batch size and up to `max_position_embeddings` ids per row
    (`signatures.py` and `words.py` define their inputs and outputs):
        `text`: takes strings and, if the task allows it, returns text; also named
            `serving_default`.
        `ids`: takes ids; also named `serving_default` if there is no `text` signature.
        `masked`: takes ids and the positions to score; only for masked-LM models.

    For untrusted clients, set `max_bytes` and `max_batch`. Memory grows with the text regardless of
    `max_length` (10 MB of English text takes 317 MB). Batches of more than `max_batch` rows fail
    before they use memory. `precision="bfloat16"` halves the size of the weights, and the inference
    time on processors that support bfloat16 matmuls. Outputs remain float32. Each line of the
    `warmup` file is plain text, or JSON with the inputs of `text`.

    Args:
        model: a model with a task head, or an encoder, with any dtype policy.
        tokenizer: the model's tokenizer.
        path: folder to write. TensorFlow Serving expects `NAME/VERSION`, where VERSION is a number.
    Returns:
        A `Report` with the size, the SHA-256, and the differences from Keras.
    Raises:
        UserError: if options conflict, or `path` exists.
        ParityError: if the outputs differ from Keras's; the SavedModel is removed.
        OSError: if the SavedModel can't be written.

    Example:
        >>> import tensorflow as tf, tensorflow_text
        >>> from albert_tf import AlbertModel, AlbertTokenizer, export_saved_model
        >>> model = AlbertModel.from_pretrained("small")
        >>> tokenizer = AlbertTokenizer.from_pretrained("small")
        >>> report = export_saved_model(model, tokenizer, "served/1", pooling="mean", check=False)
        >>> signature = tf.saved_model.load("served/1").signatures["text"]
        >>> signature(text=tf.constant(["A quiet film."]))["embedding"].shape  # [B, H]
        TensorShape([1, 384])
    """
    path = user_path(path)
    export = _SavedModel(model, tokenizer, path, options)
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(
            written_atomically(path, force=options.force, nowait=True, own=SAVED_MODEL)
        )
        if options.check:
            if not options.ids_only:
                check_tokens(tokenizer)
            package = "tensorflow" if options.ids_only else "tensorflow_text"
            # The fresh process imports TensorFlow while this one writes.
            process = stack.enter_context(FreshProcess(package))
        signatures = export.signatures(in_precision(model, options.precision))
        write(signatures, folder)
        if export.requests:
            write_warmup(folder, export.requests)
        differences = {}
        if options.check:
            exact = in_precision(model, "float32")
            in_words = export.in_words(exact, unroll=True)
            cases = sample(exact, tokenizer, export.max_length, export.pairs, in_words=in_words)
            names = [signature.name for signature in signatures]
            differences = checks.compare(
                "saved-model",
                folder,
                {name: cases[name] for name in names},
                options.precision,
                batch=min(options.max_batch or BATCH, BATCH),
                processes=dict.fromkeys(names, process),
            )
        return Report.of(path, folder, differences)


class _SavedModel:
    """The signatures of a SavedModel, and the requests for its warm-up.

    Raises:
        UserError: if options conflict.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: BaseTokenizer,
        path: Path,
        options: SavedModelOptions,
    ):
        self.tokenizer, self.options = tokenizer, options
        self.embedding = sentence_embedding(model, options.pooling, options.normalize)
        max_length, self.pairs = check_model(
            model, tokenizer, options.max_length, options.pairs, self.embedding
        )
        self.max_length = max_length  # number of tokens to truncate texts to
        least = max(1024, 16 * max_length)  # so that only max_length truncates ordinary texts
        if options.max_bytes is not None and options.max_bytes < least:
            raise UserError(
                f"max_bytes must be at least {least} for max_length={max_length}. "
                f"Received: {options.max_bytes}."
            )
        self.requests: Sequence[dict[str, Any]] = ()
        if options.warmup is not None:
            names = TEXTS if self.pairs else (TEXT,)
            self.requests = read_requests(options.warmup, names, model.task.has_choices)
        if set("*?[\\") & set(path.resolve().as_posix()):
            raise UserError(
                "TensorFlow can't load a SavedModel from a path with *, ?, [, or a backslash. "
                f"Received: {path}. Choose another path."
            )
        self.preprocessor = None  # None if there is no `text` signature
        if not options.ids_only:
            self.preprocessor = AlbertPreprocessor(tokenizer, max_length, padding="longest")

    def signatures(self, model: PreTrainedModel) -> list[Signature]:
        """Returns the signatures of the SavedModel, the default first."""
        signatures = [ids_signature(model, unroll=UNROLL)]
        if self.preprocessor is not None:
            text = text_signature(
                model,
                self.preprocessor,
                unroll=UNROLL,
                pairs=self.pairs,
                max_bytes=self.options.max_bytes,
                in_words=self.in_words(model, UNROLL),
            )
            signatures.insert(0, text)
        if model.task.takes_positions:
            signatures.append(ids_signature(model, unroll=UNROLL, name=MASKED, predictions=None))
        if self.options.max_batch is None:
            return signatures
        return [limit_rows(signature, self.options.max_batch) for signature in signatures]

    def in_words(self, model: PreTrainedModel, unroll: Unroll) -> Callable[..., Tensors] | None:
        """Returns the function that maps texts to words or answers, or None if there is none."""
        if self.preprocessor is None:
            return None
        return text_function(
            model,
            self.tokenizer,
            self.preprocessor,
            unroll=unroll,
            pairs=self.pairs,
            embedding=self.embedding,
        )


def limit_rows(signature: Signature, max_batch: int) -> Signature:
    """Returns a signature that rejects more than `max_batch` rows before it computes anything."""

    def function(*values: tf.Tensor) -> Tensors:
        rule = f"A request must have at most {max_batch} rows. Split it into several."
        fits = tf.debugging.assert_less_equal(tf.shape(values[0])[0], max_batch, rule)
        with tf.control_dependencies([fits]):
            return signature.function(*map(tf.identity, values))

    return replace(signature, function=function)


def read_requests(path: Path, names: Sequence[str], nested: bool) -> list[dict[str, Any]]:
    """Reads warm-up requests, one per line: plain text, or JSON with the signature's inputs.

    Args:
        names: names of the inputs.
        nested: whether an input is a list of texts, one per choice.
    """
    try:
        lines = path.read_text(encoding="utf-8-sig").removesuffix("\n").split("\n")
    except UnicodeDecodeError as error:
        raise UserError(f"Warm-up requests must be encoded in UTF-8. Received: {path}.") from error
    if len(lines) > MOST_REQUESTS:
        raise UserError(
            f"A warm-up file can have at most {MOST_REQUESTS} lines. "
            f"Received: {path} with {len(lines)} lines."
        )
    requests = []
    for number, line in enumerate(lines, 1):
        try:
            request = json.loads(line) if line.startswith("{") else {TEXT: line}
        except (ValueError, RecursionError):
            request = {}
        values = list(request.values()) if nested else [[value] for value in request.values()]
        are_texts = all(  # lists of strings that UTF-8 can encode
            isinstance(value, list)
            and value
            and all(isinstance(text, str) and as_text(text) == text for text in value)
            for value in values
        )
        has_names = request.keys() == set(names)
        if not (has_names and are_texts) or len({len(value) for value in values}) > 1:
            raise UserError(
                f"A warm-up request must be plain text, or JSON with {' and '.join(names)}, each a "
                f"{'list with one text per choice' if nested else 'text'}. "
                f"Received: {line[:60]!r} in line {number} of {path}."
            )
        requests.append(request)
    return requests


def write_warmup(folder: Path, requests: Sequence[dict[str, Any]]) -> None:
    """Writes the requests that the server runs before it serves a version."""
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
