"""Exported signatures answer anything that they admit with finite numbers, or refuse it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from tests.fuzz.test_tokenizer import ANY

pytestmark = pytest.mark.slow

LENGTH = 16
NAMES = ("input_ids", "attention_mask", "token_type_ids")
INTEGERS = st.one_of(st.integers(-2, 60), st.sampled_from([-(2**31), 2**31 - 1, 2**30]))
SHAPES = st.tuples(st.integers(0, 3), st.integers(0, 2 * LENGTH))


def rows(shape):
    """Draws the inputs of the signature `ids`: right in most, or any numbers."""
    low = {"input_ids": st.integers(0, 59), "attention_mask": st.integers(0, 1)}
    return st.fixed_dictionaries(
        {
            name: arrays.arrays(
                np.int32, shape, elements=st.one_of(low.get(name, st.integers(0, 1)), INTEGERS)
            )
            for name in NAMES
        }
    )


@pytest.fixture(scope="module")
def signatures(scrambled, tiny_vocabulary):
    from albert_tf_export.signatures import ids_signature, text_signature

    from albert_tf.config import AlbertConfig
    from albert_tf.models import AlbertForSequenceClassification
    from albert_tf.text.preprocessing import AlbertPreprocessor
    from albert_tf.text.tokenizer import AlbertTokenizer

    tokenizer = AlbertTokenizer(tiny_vocabulary)
    config = AlbertConfig.from_size(
        "tiny", vocab_size=tokenizer.vocab_size, max_position_embeddings=LENGTH
    )
    model = scrambled(AlbertForSequenceClassification(config))
    layer = AlbertPreprocessor(tokenizer, LENGTH)

    def make(batch=None, length=None):
        return [
            ids_signature(model, unroll=True, batch=batch, length=length),
            text_signature(model, layer, unroll=True, batch=batch),
        ]

    return make


@pytest.fixture(scope="module")
def saved_model(signatures, tmp_path_factory):
    import tensorflow as tf
    from albert_tf_export.graphs import write

    folder = tmp_path_factory.mktemp("saved_model")
    write(signatures(), folder)
    loaded = tf.saved_model.load(str(folder))
    return lambda name, **inputs: loaded.signatures[name](
        **{key: tf.constant(value) for key, value in inputs.items()}
    )


@pytest.fixture(scope="module")
def tflite(signatures):
    import tensorflow_text
    from ai_edge_litert.interpreter import InterpreterWithCustomOps
    from albert_tf_export.graphs import convert

    loaded = InterpreterWithCustomOps(
        model_content=convert(signatures(1, LENGTH), "none"),
        custom_op_registerers=tensorflow_text.tflite_registrar.SELECT_TFTEXT_OPS,
    )
    return lambda name, **inputs: loaded.get_signature_runner(name)(**inputs)


def finite_or_refused(run, name, **inputs):
    from tensorflow.errors import InvalidArgumentError

    try:
        outputs = run(name, **inputs)
    except (InvalidArgumentError, RuntimeError, ValueError):
        return
    assert np.isfinite(np.asarray(outputs["logits"])).all()


@given(inputs=SHAPES.flatmap(rows))
def test_saved_model_ids(saved_model, inputs):
    finite_or_refused(saved_model, "ids", **inputs)


@given(texts=st.lists(ANY, min_size=1, max_size=3))
def test_saved_model_text(saved_model, texts):
    texts = [each if isinstance(each, bytes) else each.encode("utf-8", "replace") for each in texts]
    finite_or_refused(saved_model, "text", text=texts)


@given(inputs=rows((1, LENGTH)))
def test_tflite_ids(tflite, inputs):
    finite_or_refused(tflite, "ids", **inputs)


@given(text=ANY)
def test_tflite_text(tflite, text):
    text = text if isinstance(text, bytes) else text.encode("utf-8", "replace")
    finite_or_refused(tflite, "text", text=np.array([text], object))
