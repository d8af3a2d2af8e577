import keras
import numpy as np
import pytest
from albert_tf_export import signatures

from albert_tf.models import AlbertModel


def test_a_model_without_a_task(classifier):
    with pytest.raises(TypeError, match="a task that exports know.*Received: AlbertModel"):
        signatures.answer(AlbertModel(classifier.config), {}, True)
    with pytest.raises(TypeError, match="Received: Sequential"):
        signatures.answer(keras.Sequential(), {}, True)


def test_answer_of_a_classifier(classifier, features, logits):
    answer = signatures.answer(classifier, features, False)
    np.testing.assert_allclose(answer["logits"], logits, rtol=0, atol=2e-6)
    labels = np.array(["bad", "naïve", "good"])
    assert [each.decode() for each in answer["label"].numpy()] == list(labels[logits.argmax(-1)])


def test_labels_without_names(make_classifier, features):
    model = make_classifier(id2label=None)
    answer = signatures.answer(model, features, True)
    assert answer["classes"].numpy()[0].tolist() == [b"LABEL_0", b"LABEL_1"]


def test_fixed_shapes(classifier):
    signature = signatures.ids_signature(classifier, unroll=True, batch=1, length=9)
    assert {tuple(each.shape) for each in signature.inputs} == {(1, 9)}
    assert {each.dtype.name for each in signature.inputs} == {"int32"}
    names = [each.name for each in signature.inputs]
    assert names == ["input_ids", "attention_mask", "token_type_ids"]
