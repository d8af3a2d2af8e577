"""Exports TensorFlow Lite (LiteRT) files, which take strings, or ids alone."""

import contextlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

import tensorflow as tf

from albert_tf.errors import UserError
from albert_tf.exported import model_files
from albert_tf.files import written_atomically
from albert_tf.models import AlbertForSequenceClassification
from albert_tf.models.base import PreTrainedModel
from albert_tf.options import accepts_keywords
from albert_tf.text.base_tokenizer import BaseTokenizer
from albert_tf.text.preprocessing import AlbertPreprocessor
from albert_tf.text.tokenizer import AlbertTokenizer, check_fit
from albert_tf_export import check as checks
from albert_tf_export.early_exit import check_early_exit, leaving_early
from albert_tf_export.graphs import convert
from albert_tf_export.metadata import LABELS, label_lines, with_files, with_metadata
from albert_tf_export.options import (
    TFLiteOptions,
    all_depths,
    check_counts,
    check_model,
    in_precision,
    refuse_left,
)
from albert_tf_export.signatures import (
    IDS,
    MASKED,
    TEXT,
    Signature,
    Tensors,
    classes,
    ids_signature,
    masked_signature,
    of_depth,
    text_signature,
    with_depths,
)

REPORT: Final = "export.json"
DEFAULT_CHOICES: Final = 4  # as in RACE and SWAG
# MediaPipe's name of each input in the metadata (bert_preprocessor_calculator.cc), and its output.
NAMES: Final = {"input_ids": "ids", "attention_mask": "mask", "token_type_ids": "segment_ids"}
OUTPUT: Final = "probabilities"


@accepts_keywords(TFLiteOptions)
def export_tflite(
    model: PreTrainedModel,
    tokenizer: BaseTokenizer,
    path: str | os.PathLike[str],
    options: TFLiteOptions,
) -> checks.Report:
    """Writes a .tflite file, runs it in fresh processes, and compares its outputs with Keras.

    Its signatures (`signatures.py` lists their inputs and outputs):
        `ids`: takes any number of ids, and returns numbers. Every interpreter runs it.
        `ids_16`, …: replace `ids` where `lengths` are given; each takes that many ids, padded.
        `text`: takes strings. The interpreter needs tensorflow-text's operators.
        `ids_3`, `text_3`, …: end after so many layers, where `depths` are given. `ids` and `text`
            have the model's own depth, or with a gate the first that keeps the score. With
            `early_exit` they have another output `depth`, int32 `[B]`: the number of layers after
            which a row was answered.

    Unrolled layers take several times the memory of a loop. For `host="mediapipe"` the file has one
    signature `ids`, unrolled, that returns `probabilities` alone, and the vocabulary in its
    metadata. With `predictions` the signature `masked` replaces `ids`: the positions are an input.

    Behind the graph the file carries `config.json`, the tokenizer's files and the names of classes
    (`unzip -p my-model.tflite labels.txt`), so that `albert_tf.pipeline` reads it; the names are
    also beside `my-model.tflite` in `my-model.labels.txt`, and the report in
    `my-model.export.json`.

    Args:
        model: a task's model, with any dtype policy.
        tokenizer: the model's tokenizer.
        path: file to write.
        gate: labelled examples that the file is scored on, and how much worse than Keras it may be.
    Returns:
        A `Report`: size, SHA-256, differences from Keras, time, memory and scores.
    Raises:
        UserError: the arguments don't fit together, or `path` exists.
        ParityError: the outputs differ from those of Keras, or the gate refuses the scores; the
            file is removed.
        OSError: it can't be written.

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
    gate, lengths, predictions = options.gate, options.lengths, options.predictions
    unroll, ids_only = options.layers == "unrolled", options.ids_only
    if options.host:
        check_mediapipe(model, tokenizer, options)
        unroll, ids_only = True, True
    limit = min(tokenizer.model_max_length, model.config.max_position_embeddings)
    max_length = options.max_length or max(lengths, default=limit)
    pairs = check_model(model, tokenizer, max_length, options.pairs)
    check_fit(tokenizer, model.config, min(lengths, default=max_length))
    check_counts(model, options.choices, predictions)
    depths = all_depths(model.config, options.depths)
    if options.early_exit:
        check_early_exit(model, options.depths)
    labels = classes(model)
    lines = label_lines(labels)
    text_process: checks.FreshProcess | None = None
    with contextlib.ExitStack() as stack:
        file, companions = stack.enter_context(
            written_with_companions(Path(path), options.force, bool(labels))
        )
        if options.check and not ids_only:
            checks.check_tokens(tokenizer)
            # It imports TensorFlow while this process converts.
            text_process = stack.enter_context(checks.FreshProcess("tensorflow_text"))
        model = in_precision(model, "float32")
        early = leaving_early(model, depths, options.early_exit) if options.early_exit else None
        choices = options.choices or DEFAULT_CHOICES
        name = MASKED if predictions else IDS
        shapes: dict[str, int | None] = {f"{name}_{length}": length for length in lengths}
        shapes = shapes or {name: max_length if options.fixed else None}
        make_ids = (
            partial(masked_signature, predictions=predictions)
            if predictions
            else partial(ids_signature, choices=choices, strings=False)
        )
        makers = [
            partial(make_ids, unroll=unroll, name=key, batch=options.batch, length=length)
            for key, length in shapes.items()
        ]
        if not ids_only:
            preprocessor = AlbertPreprocessor(
                tokenizer, max_length, "max_length" if options.fixed or lengths else "longest"
            )
            makers.append(
                partial(
                    text_signature,
                    preprocessor=preprocessor,
                    unroll=unroll,
                    pairs=pairs,
                    batch=options.batch,
                    choices=choices,
                )
            )

        def write(default: int) -> None:
            """Writes the file, whose default signatures have that depth."""
            # Hosts that don't know signatures run the graph of the first name in the alphabet.
            signatures = [
                signature
                for make in makers
                for signature in with_depths(make, model, depths, default, early)
            ]
            if options.host:
                signatures = [for_mediapipe(signature, max_length) for signature in signatures]
            content = with_metadata(
                convert(signatures, options.quantize),
                type(model).__name__,
                labels,
                *((tokenizer.model_bytes, NAMES) if options.host else ()),
            )
            if not options.host:
                config = model.config.at_depth(default) if depths else model.config
                embedding = model.sentence_embedding()
                files = model_files(config, model.task.model, tokenizer, embedding)
                content = with_files(content, files)
            file.write_bytes(content)

        default = deepest = model.config.num_hidden_layers
        write(default)
        scores: dict[str, checks.Scores] = {}
        if gate:
            by_name = {of_depth(IDS, depth): depth for depth in depths}
            by_name |= {IDS: deepest} if early or not depths else {}
            scores = checks.scored(gate, model, tokenizer, "tflite", file, max_length, by_name)
            candidates = {IDS: scores[IDS]} if early else scores
            scores[IDS] = scores[chosen := checks.first_kept(gate, candidates)]
            default = by_name[chosen]
            if default != deepest:
                write(default)
        if labels:
            companions[LABELS].write_text(lines, encoding="utf-8", newline="\n")
        differences: Mapping[str, checks.Difference] = {}
        if options.check:

            def sampled(model: PreTrainedModel) -> dict[str, checks.Case]:
                """Returns the cases of the signatures of a model."""
                cases = {
                    length: checks.sample(
                        model, tokenizer, length, pairs, choices, predictions or 1
                    )
                    for length in {max_length, *lengths}
                }
                names = (OUTPUT,) if options.host else ()
                found = {
                    key: checks.numeric(cases[length or max_length][name], names)
                    for key, length in shapes.items()
                }
                return found if ids_only else {**found, TEXT: cases[max_length][TEXT]}

            by_depth = {depth: sampled(model.with_depth(depth)) for depth in depths}
            samples = dict(by_depth[default] if depths else sampled(model))
            if options.early_exit:
                samples = checks.early_cases(by_depth, name, model, options.early_exit)
            for depth, cases in by_depth.items():
                samples |= {of_depth(key, depth): case for key, case in cases.items()}
            of_texts = [key for key in samples if key.startswith(TEXT)]
            processes = dict.fromkeys(of_texts, text_process) if text_process else {}
            differences = checks.compare(
                "tflite", file, samples, options.quantize, processes=processes
            )
        report = checks.report(
            Path(path),
            file,
            differences,
            scores.get(IDS),
            default if depths and not early else None,
            {depth: scores[of_depth(IDS, depth)] for depth in depths if scores},
        )
        report.write(companions[REPORT])
        return report


def beside(path: Path, name: str) -> Path:
    """Returns the path of a file that belongs to a .tflite or .onnx file."""
    return path.with_name(f"{path.name.removesuffix('.tflite').removesuffix('.onnx')}.{name}")


@contextlib.contextmanager
def written_with_companions(
    path: Path, force: bool, has_labels: bool
) -> Iterator[tuple[Path, dict[str, Path]]]:
    """Yields temporary paths of the file, and of those beside it, which get their names first."""
    names = (LABELS, REPORT) if has_labels else (REPORT,)
    with (
        written_atomically(path, force=force, nowait=True) as file,
        contextlib.ExitStack() as stack,
    ):
        yield (
            file,
            {
                name: stack.enter_context(written_atomically(beside(path, name), force=force))
                for name in names
            },
        )
        if force and not has_labels:  # of the file that is replaced
            beside(path, LABELS).unlink(missing_ok=True)


def check_mediapipe(
    model: PreTrainedModel,
    tokenizer: BaseTokenizer,
    options: TFLiteOptions,
) -> None:
    """Refuses models and options that MediaPipe's TextClassifier can't have.

    It demands one graph, so that the layers can't be a loop, and reads the tokenizer and the names
    of the tensors from the metadata. It lower-cases ASCII letters, cuts the text into tokens with
    SentencePiece, and puts `[CLS]` and `[SEP]` around them.
    """
    is_of_texts = isinstance(model, AlbertForSequenceClassification)
    if not is_of_texts or model.problem_type == "regression":
        raise UserError(
            "A model for MediaPipe must be a classifier of texts. Received: "
            f"{'regression' if is_of_texts else type(model).__name__}. Leave host out."
        )
    if not isinstance(tokenizer, AlbertTokenizer) or not tokenizer.do_lower_case:
        raise UserError(
            "A vocabulary for MediaPipe must be SentencePiece's and lower-case its texts, as "
            f"MediaPipe does before it. Received: {tokenizer!r}."
        )
    refuse_left(tokenizer, "MediaPipe")
    given = {
        "lengths": options.lengths,
        "depths": options.depths,
        "batch": options.batch != 1,
        "pairs": options.pairs,
        "gate": options.gate,
    }
    wrong = [name for name, value in given.items() if value]
    if wrong:
        raise UserError(
            "A file for MediaPipe must take one text at a time, and return probabilities alone. "
            f"Received: {', '.join(wrong)}. Leave {'it' if len(wrong) == 1 else 'them'} out."
        )


def for_mediapipe(signature: Signature, max_length: int) -> Signature:
    """Returns the signature with probabilities alone, and with longer sequences truncated.

    MediaPipe pads and truncates for a fixed length. For any length it does neither, and after a
    sequence that is too long every further call fails, so the graph truncates.
    """

    def function(*values: tf.Tensor) -> Tensors:
        if values[0].shape[1] is None:
            length = tf.shape(values[0])[1]
            kept = tf.range(tf.minimum(length, max_length))
            kept = tf.where(kept == max_length - 1, length - 1, kept)  # The last one is [SEP].
            values = tuple(tf.gather(value, kept, axis=1) for value in values)
        return {OUTPUT: signature.function(*values)[OUTPUT]}

    return replace(signature, function=function)
