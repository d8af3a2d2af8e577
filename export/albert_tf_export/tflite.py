"""Exports TensorFlow Lite (LiteRT) files that take strings and ids, or only ids."""

import contextlib
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

import keras
import numpy as np
import tensorflow as tf

from albert_tf.checkpoints.sentence_transformers import SentenceEmbedding
from albert_tf.errors import UserError
from albert_tf.files import user_path, written_atomically
from albert_tf.models import AlbertForSequenceClassification, AlbertModel
from albert_tf.models.base import PreTrainedModel
from albert_tf.options import accepts_keywords
from albert_tf.runtimes.exported import with_checksum
from albert_tf.text.base_tokenizer import BaseTokenizer
from albert_tf.text.preprocessing import AlbertPreprocessor
from albert_tf.text.tokenizer import AlbertTokenizer, check_length
from albert_tf_export import check as checks
from albert_tf_export.check import Case
from albert_tf_export.fresh import FreshProcess
from albert_tf_export.graphs import convert
from albert_tf_export.metadata import (
    LABELS,
    VOCABULARY,
    label_lines,
    model_files,
    with_files,
    with_metadata,
)
from albert_tf_export.options import (
    TFLiteOptions,
    check_counts,
    check_model,
    in_precision,
    refuse_left,
    sentence_embedding,
)
from albert_tf_export.report import Report
from albert_tf_export.samples import check_tokens, numeric, sample
from albert_tf_export.signatures import (
    IDS,
    MASKED,
    TEXT,
    Signature,
    Tensors,
    classes,
    ids_signature,
    text_signature,
)

REPORT: Final = "export.json"
DEFAULT_CHOICES: Final = 4  # as in RACE and SWAG
# The name of a MediaPipe file's only output, for a classifier and for an encoder.
PROBABILITIES: Final = "probabilities"
EMBEDDING: Final = "embedding"


@accepts_keywords(TFLiteOptions)
def export_tflite(
    model: PreTrainedModel,
    tokenizer: BaseTokenizer,
    path: str | os.PathLike[str],
    options: TFLiteOptions,
) -> Report:
    """Writes a .tflite file, runs it in fresh processes, and compares its outputs with Keras.

    The file's signatures (`signatures.py` lists their inputs and outputs):
        `ids`: takes `input_ids`, `attention_mask`, and `token_type_ids`, int32 `[1, T]`, or
            `[1, C, T]` for multiple choice, T being at most `max_position_embeddings`. Returns only
            numbers and runs in every interpreter.
        `ids_16`, …: replace `ids` if `lengths` is set. Each takes that many ids, including padding,
            for runtimes that don't support dynamic shapes, such as LiteRT.js.
        `masked`, or `masked_16`, …: replace `ids` if `predictions` is set. They also take
            `masked_lm_positions`, int32 `[1, predictions]`, and return logits at these positions.
        `text`: takes strings `[1]` (`text`, plus `text_pair` for pairs), and returns numbers and
            label names. The interpreter needs tensorflow-text's operators.

    Unrolled layers take several times as much memory as a loop. With `host="mediapipe"`, the file
    contains the vocabulary in its metadata and one signature, `ids`, with unrolled layers. Its only
    output is `probabilities` or, for an encoder with pooling, `embedding`, `[1, H]`.

    `config.json`, the tokenizer's files, and the label names are appended to the file, so
    `albert_tf.pipeline` can load it. `unzip -p my-model.tflite labels.txt` prints the labels. The
    label names are also written to `my-model.tflite.labels.txt`, next to `my-model.tflite`, and the
    report to `my-model.tflite.export.json`.

    Args:
        model: a model with a task head, or an encoder, with any dtype policy.
        tokenizer: the model's tokenizer.
        path: file to write.
    Returns:
        A `Report` with the size, the SHA-256, differences from Keras, time, and memory.
    Raises:
        UserError: if options conflict, or `path` exists.
        ParityError: if the outputs differ from Keras's; the file is removed.
        OSError: if the file can't be written.

    Example:
        >>> from albert_tf import AlbertModel, AlbertTokenizer, export_tflite
        >>> model = AlbertModel.from_pretrained("small")
        >>> tokenizer = AlbertTokenizer.from_pretrained("small")
        >>> report = export_tflite(
        ...     model, tokenizer, "small.tflite", quantize="dynamic", ids_only=True, check=False
        ... )
        >>> report.path.name
        'small.tflite'
    """
    path = user_path(path)
    export = _TFLiteFile(model, tokenizer, options)
    with contextlib.ExitStack() as stack:
        file, report_file = stack.enter_context(
            written_with_companions(path, options.force, export.labels)
        )
        processes = {}
        if options.check and export.has_text:
            check_tokens(tokenizer)
            # The new process imports TensorFlow while this one converts the model.
            processes[TEXT] = stack.enter_context(FreshProcess("tensorflow_text"))
        model = in_precision(model, "float32")
        file.write_bytes(export.content(model))
        differences = {}
        if options.check:
            differences = checks.compare(
                "tflite", file, export.samples(model), options.quantize, processes=processes
            )
        report = Report.of(path, file, differences)
        report.write(report_file)
        return report


class _TFLiteFile:
    """The signatures of a .tflite file, its content, and the samples that check it.

    Raises:
        UserError: if options conflict.
    """

    def __init__(self, model: PreTrainedModel, tokenizer: BaseTokenizer, options: TFLiteOptions):
        self.tokenizer, self.options = tokenizer, options
        self.embedding = None  # how an encoder pools vectors for MediaPipe
        if options.host:
            self.embedding = sentence_embedding(model, options.pooling, options.normalize)
            check_mediapipe(model, tokenizer, options, self.embedding)
        longest = options.max_length or max(options.lengths, default=None)
        self.max_length, self.pairs = check_model(
            model, tokenizer, longest, options.pairs, self.embedding
        )
        check_length(model.config, min(options.lengths, default=self.max_length))
        check_counts(model, options.choices, options.predictions)
        if integers := {weight.dtype for weight in model.weights if "int" in weight.dtype}:
            raise UserError(
                f"The model is quantized: it has {', '.join(sorted(integers))} weights. Export it "
                "before calling quantize(); for 8-bit weights, export with quantize='dynamic' "
                "(--quantize dynamic)."
            )
        self.labels = label_lines(classes(model))
        self.choices = options.choices or DEFAULT_CHOICES
        self.has_text = not (options.ids_only or options.host)
        self.name = MASKED if options.predictions else IDS
        # The number of tokens of each signature that takes ids; None for any number.
        self.lengths: dict[str, int | None] = {self.name: None}
        if options.lengths:
            self.lengths = {f"{self.name}_{length}": length for length in options.lengths}

    def content(self, model: PreTrainedModel) -> bytes:
        """Returns the bytes of the file."""
        graph = convert(self.signatures(model), self.options.quantize)
        described = {LABELS: self.labels.encode()} if self.labels else {}
        if self.options.host:
            described[VOCABULARY] = self.tokenizer.model_bytes
        graph = with_metadata(graph, type(model).__name__, described)
        if self.options.host:
            return with_files(graph, described)
        files = with_checksum(graph, model_files(model, self.tokenizer))
        return with_files(graph, described | files)

    def signatures(self, model: PreTrainedModel) -> list[Signature]:
        """Returns the signatures of the file."""
        options = self.options
        unroll = options.layers == "unrolled" or options.host is not None
        # Hosts that don't support signatures run the graph whose name comes first alphabetically.
        signatures = [
            ids_signature(
                model,
                unroll=unroll,
                name=name,
                batch=options.batch,
                length=length,
                choices=self.choices,
                predictions=options.predictions or 0,
                strings=False,
            )
            for name, length in self.lengths.items()
        ]
        if options.host:
            return [for_mediapipe(each, self.max_length, self.embedding) for each in signatures]
        if self.has_text:
            preprocessor = AlbertPreprocessor(
                self.tokenizer, self.max_length, "max_length" if options.lengths else "longest"
            )
            text = text_signature(
                model,
                preprocessor,
                unroll=unroll,
                pairs=self.pairs,
                batch=options.batch,
                choices=self.choices,
            )
            signatures.append(text)
        return signatures

    def samples(self, model: PreTrainedModel) -> dict[str, Case]:
        """Returns the samples of each signature."""
        predictions = self.options.predictions or 1
        cases = {
            length: sample(model, self.tokenizer, length, self.pairs, self.choices, predictions)
            for length in {self.max_length, *self.options.lengths}
        }
        if self.options.host:
            case, embedding = cases[self.max_length][IDS], self.embedding
            if embedding is None:
                return {IDS: numeric(case, (PROBABILITIES,))}
            states = [row["last_hidden_state"] for row in case.expected]
            vectors = [embedding(row[None], np.ones((1, len(row)), row.dtype))[0] for row in states]
            return {IDS: case._replace(expected=[{EMBEDDING: vector} for vector in vectors])}
        samples = {
            key: numeric(cases[length or self.max_length][self.name])
            for key, length in self.lengths.items()
        }
        return samples | ({TEXT: cases[self.max_length][TEXT]} if self.has_text else {})


def companion(path: Path, name: str) -> Path:
    """Returns the path of a companion file, for example `model.tflite.labels.txt`."""
    return path.with_name(f"{path.name}.{name}")


@contextlib.contextmanager
def written_with_companions(path: Path, force: bool, labels: str) -> Iterator[tuple[Path, Path]]:
    """Writes the text `labels` and yields temporary paths for the file and the report.

    The file is the last to be renamed to its final name.
    """
    with (
        written_atomically(path, force=force, nowait=True) as file,
        written_atomically(companion(path, REPORT), force=force) as report,
        contextlib.ExitStack() as stack,
    ):
        if labels:
            lines = stack.enter_context(written_atomically(companion(path, LABELS), force=force))
            lines.write_text(labels, encoding="utf-8", newline="\n")
        yield file, report
        if force and not labels:  # Removes the labels of the old file.
            companion(path, LABELS).unlink(missing_ok=True)


def check_mediapipe(
    model: PreTrainedModel,
    tokenizer: BaseTokenizer,
    options: TFLiteOptions,
    embedding: SentenceEmbedding | None = None,
) -> None:
    """Rejects models and options that MediaPipe's TextClassifier and TextEmbedder don't support.

    MediaPipe requires a single graph, so the layers can't run in a loop. It reads the tokenizer and
    the tensor names from the metadata, lowercases ASCII letters, splits the text into tokens with
    SentencePiece, and adds `[CLS]` and `[SEP]`.
    """
    is_classifier = isinstance(model, AlbertForSequenceClassification)
    is_regression = is_classifier and model.problem_type == "regression"
    if is_regression or not (is_classifier or isinstance(model, AlbertModel)):
        raise UserError(
            "MediaPipe supports only text classifiers and encoders. Received: "
            f"{'regression' if is_regression else type(model).__name__}. Drop host (--for)."
        )
    if not is_classifier and embedding is None:
        raise UserError(
            "MediaPipe requires one vector per text, but this encoder has no pooling. Pass "
            "pooling='mean' or 'cls' (--pooling)."
        )
    if not isinstance(tokenizer, AlbertTokenizer) or not tokenizer.do_lower_case:
        raise UserError(
            "MediaPipe requires a SentencePiece vocabulary with do_lower_case=True, because it "
            f"lowercases texts. Received: {tokenizer!r}."
        )
    if tokenizer.baked.special:
        raise UserError(
            "MediaPipe requires the special tokens [CLS] and [SEP]. Received: "
            f"{tokenizer.cls_token} and {tokenizer.sep_token}. Drop host (--for)."
        )
    if tokenizer.baked.turkish_i:
        raise UserError(
            "MediaPipe doesn't support vocabularies built with turkish_i, because it lowercases "
            "I to i."
        )
    refuse_left(tokenizer, "MediaPipe")
    given = {"lengths": options.lengths, "batch": options.batch != 1, "pairs": options.pairs}
    if wrong := [name for name, value in given.items() if value]:
        raise UserError(
            f"A file for MediaPipe takes one text of any length at a time. Drop {', '.join(wrong)}."
        )


def for_mediapipe(
    signature: Signature, max_length: int, embedding: SentenceEmbedding | None
) -> Signature:
    """Returns the signature with a single output, and with inputs truncated to `max_length`.

    MediaPipe doesn't truncate, and after a sequence that is too long, all later calls fail.

    Args:
        embedding: how to pool an encoder's states into one vector per text; None for classifiers.
    """

    def function(*values: tf.Tensor) -> Tensors:
        length = tf.shape(values[0])[1]
        kept = tf.range(tf.minimum(length, max_length))
        kept = tf.where(kept == max_length - 1, length - 1, kept)  # Keep [SEP].
        ids, mask, types = (tf.gather(value, kept, axis=1) for value in values)
        outputs = signature.function(ids, mask, types)
        if embedding is None:
            return {PROBABILITIES: outputs[PROBABILITIES]}
        return {
            EMBEDDING: embedding(outputs["last_hidden_state"], tf.cast(mask, tf.float32), keras.ops)
        }

    return replace(signature, function=function)
