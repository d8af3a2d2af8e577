"""Exported signatures either return finite numbers or reject their inputs."""

import numpy as np
import pytest
import tensorflow as tf
from albert_tf_export import export_saved_model, export_tflite
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from albert_tf.config import AlbertConfig
from albert_tf.models import AlbertForSequenceClassification
from albert_tf.text.tokenizer import AlbertTokenizer
from tests.fuzz.test_tokenizer import ANY

pytestmark = pytest.mark.slow

LENGTH = 16
# Right numbers in most rows, or any.
RIGHT = {"input_ids": 59, "attention_mask": 1, "token_type_ids": 1}
ANY_NUMBER = st.one_of(st.integers(-2, 60), st.sampled_from([-(2**31), 2**31 - 1, 2**30]))


def rows(shape):
    numbers = {name: st.one_of(st.integers(0, most), ANY_NUMBER) for name, most in RIGHT.items()}
    return st.fixed_dictionaries(
        {name: arrays.arrays(np.int32, shape, elements=each) for name, each in numbers.items()}
    )


@pytest.fixture(scope="module", params=["saved-model", "tflite"])
def answer(request, scrambled, tiny_vocabulary, tmp_path_factory):
    """Returns a function that returns a signature's logits, or None if it rejects its inputs."""
    tokenizer = AlbertTokenizer(tiny_vocabulary, model_max_length=LENGTH)
    config = AlbertConfig.from_size(
        "tiny", vocab_size=tokenizer.vocab_size, max_position_embeddings=LENGTH
    )
    model = scrambled(AlbertForSequenceClassification(config))
    path = tmp_path_factory.mktemp("exported") / "model"
    if request.param == "saved-model":
        export_saved_model(model, tokenizer, path, check=False)
        signatures = tf.saved_model.load(str(path)).signatures
    else:
        from ai_edge_litert.interpreter import InterpreterWithCustomOps
        from tensorflow_text import tflite_registrar

        export_tflite(model, tokenizer, path, check=False, batch=None)
        operators = tflite_registrar.SELECT_TFTEXT_OPS
        interpreter = InterpreterWithCustomOps(operators, model_path=str(path))
        signatures = {name: interpreter.get_signature_runner(name) for name in ("ids", "text")}

    def call(name, inputs):
        if request.param == "saved-model":
            inputs = {key: tf.constant(value) for key, value in inputs.items()}
        try:
            return np.asarray(signatures[name](**inputs)["logits"])
        except (tf.errors.InvalidArgumentError, RuntimeError, ValueError):
            return None

    return call


@given(inputs=st.tuples(st.integers(0, 3), st.integers(0, 2 * LENGTH)).flatmap(rows))
def test_ids(answer, inputs):
    logits = answer("ids", inputs)
    assert logits is None or np.isfinite(logits).all()


@given(texts=st.lists(ANY, min_size=1, max_size=3))
def test_texts(answer, texts):
    texts = [each if isinstance(each, bytes) else each.encode("utf-8", "replace") for each in texts]
    logits = answer("text", {"text": np.array(texts, object)})
    assert logits is not None and np.isfinite(logits).all()
