"""Parts of a SavedModel that only TensorFlow Serving reads."""

import json

import pytest
import tensorflow as tf
from albert_tf_export import export_saved_model, saved_model

from albert_tf.errors import UserError


@pytest.fixture(scope="module")
def folder(checked, classifier, tmp_path_factory):
    """A classifier for at most two rows, with two requests for the warm-up."""
    pytest.importorskip("tensorflow_serving.apis")
    requests = tmp_path_factory.mktemp("serving") / "requests"
    requests.write_text('a quiet boat\n{"text": "naïve"}\n', encoding="utf-8")
    report = checked(export_saved_model, classifier, warmup=requests, max_batch=2)
    assert set(report.differences) == {"text", "ids"}
    return report.path


@pytest.fixture(scope="module")
def served(folder):
    return tf.saved_model.load(folder)


def test_requests_of_the_warm_up(folder, served):
    from tensorflow_serving.apis import prediction_log_pb2

    texts = []
    for record in tf.data.TFRecordDataset(str(folder / saved_model.WARMUP)):
        request = prediction_log_pb2.PredictionLog.FromString(record.numpy()).predict_log.request
        inputs = {name: tf.make_ndarray(each) for name, each in request.inputs.items()}
        signature = served.signatures[request.model_spec.signature_name]
        outputs = signature(**{name: tf.constant(value) for name, value in inputs.items()})
        assert outputs["logits"].shape == (1, 3)
        texts += [each.decode() for each in inputs["text"]]
    assert texts == ["a quiet boat", "naïve"]


def test_a_limit_on_rows(served):
    ids = tf.ones([3, 4], tf.int32)
    for name, inputs in (
        ("text", {"text": tf.constant(["a", "b", "c"])}),
        ("ids", {"input_ids": ids, "attention_mask": ids, "token_type_ids": 0 * ids}),
    ):
        with pytest.raises(tf.errors.InvalidArgumentError, match="at most 2 rows. Send several"):
            served.signatures[name](**inputs)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ('a\n{"texts": "a"}\n', "must be JSON with text, each a text; .* in line 2 of"),
        ('{"text": 1}', "must be JSON with text, each a text"),
        ("{text", "must be JSON with text, each a text"),
        ("a\n" * 1001, "Received: 1001 in"),
    ],
)
def test_requests_that_are_refused(lines, message, tmp_path):
    (tmp_path / "requests").write_text(lines)
    with pytest.raises(UserError, match=message):
        saved_model.read_requests(tmp_path / "requests", ["text"], nested=False)


def test_requests_have_the_inputs_of_the_task(tmp_path):
    row = {"text": ["Who?", "Who?"], "text_pair": ["A boat.", "Smoke."]}
    (tmp_path / "requests").write_text(json.dumps(row))
    found = saved_model.read_requests(tmp_path / "requests", ["text", "text_pair"], nested=True)
    assert found == [row]
    with pytest.raises(UserError, match="JSON with text and text_pair, each a text;"):
        saved_model.read_requests(tmp_path / "requests", ["text", "text_pair"], nested=False)
