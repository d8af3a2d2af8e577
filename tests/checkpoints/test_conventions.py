import numpy as np
import pytest

from albert_tf.checkpoints import hugging_face
from albert_tf.errors import UserError

WORDS = np.arange(12, dtype="float32").reshape(4, 3)
KERNEL = np.arange(10, dtype="float32").reshape(2, 5)


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("albert.pooler.bias", "pooler.bias"),
        ("pooler.bias", "pooler.bias"),
        ("module.albert.pooler.bias", "pooler.bias"),  # torch.nn.DataParallel
        ("module.classifier.bias", "classifier.bias"),
        ("albert.embeddings.LayerNorm.gamma", "embeddings.LayerNorm.weight"),  # transformers 1, 2
        ("predictions.LayerNorm.beta", "predictions.LayerNorm.bias"),
        ("albert.embeddings.position_ids", "embeddings.position_ids"),
        ("lm_head.extra", "lm_head.extra"),
    ],
)
def test_pytorch(source, name):
    named = hugging_face.from_pytorch({source: WORDS})
    np.testing.assert_array_equal(named.tensors[name], WORDS)
    assert named.sources == {name: source}


@pytest.mark.parametrize(
    ("source", "groups", "name"),
    [
        (
            "albert/tf_albert_model/albert/encoder/albert_layer_groups_._1/albert_layers_._0/ffn/kernel:0",
            True,
            "encoder.albert_layer_groups.1.albert_layers.0.ffn.weight",
        ),
        ("classifier/tf_albert_for_x_3/classifier/kernel:0", True, "classifier.weight"),
        ("sop_classifier/classifier/kernel:0", False, "sop_classifier.classifier.weight"),
        ("albert/pooler/kernel:0", False, "pooler.weight"),
        # A scope that is called as the model is.
        ("albert/albert/albert/pooler/kernel:0", True, "pooler.weight"),
    ],
)
def test_kernels_of_keras_are_transposed(source, groups, name):
    named = hugging_face.from_keras({source: KERNEL}, groups)
    np.testing.assert_array_equal(named.tensors[name], KERNEL.T)
    assert named.sources == {name: source}


def test_tables_and_norms_are_not():
    named = hugging_face.from_keras(
        {
            "albert/embeddings/word_embeddings/weight:0": WORDS,
            "albert/embeddings/token_type_embeddings/embeddings:0": KERNEL,
            "albert/embeddings/LayerNorm/gamma:0": WORDS[0],
        }
    )
    np.testing.assert_array_equal(named.tensors["embeddings.word_embeddings.weight"], WORDS)
    np.testing.assert_array_equal(named.tensors["embeddings.token_type_embeddings.weight"], KERNEL)
    np.testing.assert_array_equal(named.tensors["embeddings.LayerNorm.weight"], WORDS[0])


@pytest.mark.parametrize("separator", ["/", "."])
def test_flax(separator):
    names = ["albert/embeddings/word_embeddings/embedding", "albert/pooler/kernel"]
    given = dict(
        zip((name.replace("/", separator) for name in names), (WORDS, KERNEL), strict=True)
    )
    found = hugging_face.from_flax(given, separator).tensors
    np.testing.assert_array_equal(found["embeddings.word_embeddings.weight"], WORDS)
    np.testing.assert_array_equal(found["pooler.weight"], KERNEL.T)


def test_a_stranger_keeps_its_name():
    assert list(hugging_face.from_keras({"other/kernel:0": KERNEL}).tensors) == ["other/kernel:0"]


def test_one_weight_twice():
    twice = {"albert.pooler.bias": WORDS[0], "pooler.bias": WORDS[0].copy()}
    assert list(hugging_face.from_pytorch(twice).tensors) == ["pooler.bias"]
    twice["pooler.bias"] += 1
    with pytest.raises(UserError, match="each weight once. Received pooler.bias as albert.pooler"):
        hugging_face.from_pytorch(twice)


def test_the_decoders_bias_is_the_one_that_counts():
    # transformers' TFAlbertMLMHead adds `decoder_bias` and never `bias`; in PyTorch they are one.
    named = hugging_face.from_keras(
        {"predictions/bias:0": WORDS[0], "predictions/decoder/bias:0": WORDS[1]}
    )
    assert list(named.tensors) == ["predictions.bias"]
    np.testing.assert_array_equal(named.tensors["predictions.bias"], WORDS[1])
    assert named.sources["predictions.bias"] == "predictions/decoder/bias:0"


def test_a_decoder_that_is_not_tied():
    tied = {"embeddings.word_embeddings.weight": WORDS, "predictions.decoder.weight": WORDS}
    assert "predictions.decoder.weight" in hugging_face.from_pytorch(tied).tensors
    tied["predictions.decoder.weight"] = WORDS + 1
    with pytest.raises(UserError, match="must use the word table itself"):
        hugging_face.from_pytorch(tied)
