"""Parts of a SavedModel that only TensorFlow Serving reads."""

import json

import pytest
import tensorflow as tf
from albert_tf_export import export_saved_model, saved_model

from albert_tf.errors import UserError
from albert_tf.files import check_own
from albert_tf.outputs import SAVED_MODEL


def test_a_warm_up_and_a_limit_on_rows(checked, classifier, tmp_path):
    prediction_log_pb2 = pytest.importorskip("tensorflow_serving.apis.prediction_log_pb2")
    requests = tmp_path / "requests"
    requests.write_text('a quiet boat\n{"text": "naïve"}\n', encoding="utf-8")
    report = checked(export_saved_model, classifier, warmup=requests, max_batch=2)
    assert set(report.differences) == {"text", "ids"}
    check_own(report.path, SAVED_MODEL)
    served = tf.saved_model.load(report.path)
    texts = []
    for record in tf.data.TFRecordDataset(str(report.path / saved_model.WARMUP)):
        request = prediction_log_pb2.PredictionLog.FromString(record.numpy()).predict_log.request
        assert request.model_spec.signature_name == "text"
        (text,) = tf.make_ndarray(request.inputs["text"])
        texts.append(text.decode())
        assert served.signatures["text"](text=tf.constant([text]))["logits"].shape == (1, 3)
    assert texts == ["a quiet boat", "naïve"]
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
        ("{text", "must be JSON with text, each a text"),
        ("a\n" * 1001, "Received: 1001 in"),
        ('{"text": "\\ud800"}', "must be JSON with text, each a text"),
        ("caf\xe9", "must be UTF-8"),
    ],
)
def test_requests_that_are_refused(lines, message, tmp_path):
    (tmp_path / "requests").write_text(lines, encoding="latin-1")
    with pytest.raises(UserError, match=message):
        saved_model.read_requests(tmp_path / "requests", ["text"], nested=False)


def test_requests_have_the_inputs_of_the_task(tmp_path):
    names, row = ["text", "text_pair"], {"text": ["Who?"], "text_pair": ["A boat."]}
    (tmp_path / "requests").write_text(json.dumps(row))
    assert saved_model.read_requests(tmp_path / "requests", names, nested=True) == [row]
    with pytest.raises(UserError, match="JSON with text and text_pair, each a text;"):
        saved_model.read_requests(tmp_path / "requests", names, nested=False)
    for pairs in ([], ["A boat.", "A car."]):
        (tmp_path / "requests").write_text(json.dumps(row | {"text_pair": pairs}))
        with pytest.raises(UserError, match="each a list of as many texts;"):
            saved_model.read_requests(tmp_path / "requests", names, nested=True)
