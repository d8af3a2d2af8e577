"""Parts of a SavedModel for TensorFlow Serving: its calls, a limit on requests, and a warm-up."""

import json
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import tensorflow as tf

from albert_tf.errors import UserError, check_extra
from albert_tf.models import AlbertForSequenceClassification
from albert_tf.models.base import PreTrainedModel
from albert_tf_export.signatures import CLASSIFY, REGRESS, TEXT, TEXT_PAIR, Signature
from albert_tf_export.task_outputs import Tensors

WARMUP: Final = "assets.extra/tf_serving_warmup_requests"  # TensorFlow Serving's name
MOST_REQUESTS: Final = 1000  # TensorFlow Serving refuses a model with more


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


def check_limit(max_batch: int | None) -> None:
    """Refuses a limit that no request meets."""
    if max_batch is not None and max_batch < 1:
        raise UserError(f"max_batch must be 1 or more. Received: {max_batch}.")


def read_warmup(
    path: str | os.PathLike[str] | None, model: PreTrainedModel, pairs: bool, ids_only: bool
) -> list[dict[str, Any]]:
    """Returns the sample requests in a file for the signature `text`; none without a file."""
    if path is None:
        return []
    if ids_only:
        raise UserError("warmup must be left out with ids_only. Received: both.")
    check_extra("serving", "warmup")
    return read_requests(
        Path(path), (TEXT, TEXT_PAIR) if pairs else (TEXT,), model.task.has_choices
    )


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
        return isinstance(value, list) and all(isinstance(each, str) for each in value)
    return isinstance(value, str)


def write_warmup(folder: Path, requests: Sequence[dict[str, Any]]) -> None:
    """Writes requests that the server answers before it uses a version, so that no user waits."""
    from tensorflow_serving.apis import prediction_log_pb2

    file = folder / WARMUP
    file.parent.mkdir()
    with tf.io.TFRecordWriter(str(file)) as writer:
        for each in requests:
            log = prediction_log_pb2.PredictionLog()
            log.predict_log.request.model_spec.signature_name = TEXT
            for name, value in sorted(each.items()):
                tensor = tf.make_tensor_proto([value], tf.string)
                log.predict_log.request.inputs[name].CopyFrom(tensor)
            writer.write(log.SerializeToString(deterministic=True))
