import keras
import numpy as np
import pytest

from albert_tf.checkpoints import sentence_transformers
from albert_tf.checkpoints.sentence_transformers import SentenceEmbedding
from albert_tf.errors import UserError
from albert_tf.models import AlbertForSimilarity, AlbertModel, load_pretrained, unshare

B, C, T = 4, 3, 7
GROUPS = np.array([5, 2, 5, 0])  # the first and the third example belong together


@pytest.fixture
def config(shallow_config):
    return shallow_config.replace(hidden_dropout_prob=0.0, initializer_range=0.2)


@pytest.fixture
def model(config, scrambled):
    return scrambled(AlbertForSimilarity(config))


@pytest.fixture
def features():
    generator = np.random.default_rng(3)
    mask = (np.arange(T) < generator.integers(2, T + 1, (B, C, 1))).astype("int32")
    return {
        "input_ids": generator.integers(5, 31, (B, C, T)).astype("int32") * mask,
        "attention_mask": mask,
    }


def numpy(values):
    return keras.ops.convert_to_numpy(values)


def encoder_vectors(model, features, pooling):
    """Unit vectors `[B, C, D]` from the encoder alone, one text at a time."""
    vectors = np.zeros((B, C, model.config.hidden_size))
    for place in np.ndindex(B, C):
        length = features["attention_mask"][place].sum()
        ids = features["input_ids"][place][None, :length]
        states = numpy(model.albert({"input_ids": ids}).last_hidden_state)[0]
        vector = states.mean(axis=0) if pooling == "mean" else states[0]
        vectors[place] = vector / np.linalg.norm(vector)
    return vectors


@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_embeddings(config, scrambled, features, pooling):
    model = scrambled(AlbertForSimilarity(config, pooling=pooling))
    found = numpy(model(features).embeddings)
    np.testing.assert_allclose(found, encoder_vectors(model, features, pooling), atol=1e-5)


def test_loss_of_scores(model, features):
    vectors, labels = numpy(model(features).embeddings), np.array([0.0, 1.0, 0.4, 0.5], "float32")
    cosines = (vectors[:, 0] * vectors[:, 1]).sum(axis=-1)
    found = float(model(features, labels=labels).loss)
    assert found == pytest.approx(((cosines - labels) ** 2).mean(), abs=1e-5)


def test_scores_that_are_no_cosines(model, features):
    """Most STS-B scores, which are between 0 and 5, exceed the largest cosine."""
    model.compile("sgd", run_eagerly=keras.backend.backend() != "jax")
    for call in (model.fit, model.evaluate, lambda x, y: model(x, **y)):
        with pytest.raises(ValueError, match="labels must be between -1 and 1.*Received: 3.5"):
            call(features, {"labels": np.array([0.0, 3.5, 1.0, 5.0])})
    one = np.nextafter(np.float32([1, 1, -1, 1]), np.float32([2, 2, -2, 2]))
    assert np.isfinite(float(model(features, labels=one).loss))


@pytest.mark.parametrize("texts", [2, 3])
@pytest.mark.parametrize("repeats", [False, True])
def test_loss_of_partners(model, features, texts, repeats):
    """Each first text chooses among all second and third ones that don't belong to it.

    Those that belong to it are second texts of its group, and texts equal to its own or its
    partner's.
    """
    given = {name: values[:, :texts].copy() for name, values in features.items()}
    if repeats:  # of a partner, and of a first text
        for values in given.values():
            values[3, -1] = values[1, 1]
            values[0, -1] = values[1, 0]
    vectors, losses = numpy(model(given).embeddings), []
    ids = given["input_ids"]
    for row in range(B):
        logits = {}
        for other, place in np.ndindex(B, texts - 1):
            if (other, place) != (row, 0):
                is_equal = (ids[other, place + 1] == ids[row, :2]).all(axis=-1).any()
                if is_equal or (place == 0 and GROUPS[other] == GROUPS[row]):
                    continue
            logits[other, place] = 20 * vectors[row, 0] @ vectors[other, place + 1]
        losses.append(np.log(sum(map(np.exp, logits.values()))) - logits[row, 0])
    found = float(model(given, groups=GROUPS).loss)
    assert found == pytest.approx(np.mean(losses), abs=1e-4)
    model.compile()
    by_keras = model.compute_loss(given, {"groups": GROUPS}, model(given), training=False)
    assert float(by_keras) == pytest.approx(found, abs=1e-5)


def test_groups_that_are_hashes(model, features):
    """They differ beyond int32, which is JAX' largest type."""
    if keras.backend.backend() != "jax":
        found = float(model(features, groups=np.array([1, 2**32 + 1, 2, 3])).loss)
        assert found == pytest.approx(float(model(features, groups=np.arange(B)).loss), rel=1e-5)
    with pytest.raises(ValueError, match="groups must be whole numbers. Received: 0.5"):
        model(features, groups=np.array([0.5, 1.0, 2.0, 3.0]))


@pytest.mark.parametrize("texts", [2, 3])
def test_examples_that_fill_up_a_batch_are_nobodys_partners(model, features, texts):
    given = {name: values[:, :texts] for name, values in features.items()}
    groups = np.array([5, 2, 0])
    expected = float(
        model({name: values[:3] for name, values in given.items()}, groups=groups).loss
    )
    filled = {name: values[[0, 1, 2, 1]] for name, values in given.items()}
    found = float(model(filled, groups=np.array([*groups, -100])).loss)
    assert found == pytest.approx(expected, abs=1e-5)


def test_training_leaves_the_pooler(model, features):
    pooler = numpy(model.albert.pooler.kernel)
    model.compile(keras.optimizers.AdamW(1e-3), run_eagerly=True)
    losses = [model.train_on_batch({**features, "groups": GROUPS}) for _ in range(2)]
    assert losses[-1] < losses[0]
    np.testing.assert_array_equal(numpy(model.albert.pooler.kernel), pooler)


def test_a_checkpoint_is_an_encoder_with_modules(config, scrambled, features, tmp_path):
    model = scrambled(AlbertForSimilarity(config, pooling="cls"))
    model.save_pretrained(tmp_path)
    assert isinstance(load_pretrained(tmp_path), AlbertModel)
    assert sentence_transformers.read(tmp_path) == SentenceEmbedding("cls", normalize=True)
    again = AlbertForSimilarity.from_pretrained(tmp_path)
    assert again.newly_initialized == [] and again.pooling == "cls"
    assert AlbertForSimilarity.from_pretrained(tmp_path, pooling="max").pooling == "max"
    copied = AlbertForSimilarity.from_config(again.get_config())
    copied.set_weights(again.get_weights())
    for same in (again, copied, again.with_depth(config.num_hidden_layers)):
        found = numpy(same(features).embeddings)
        np.testing.assert_allclose(found, numpy(model(features).embeddings), atol=1e-6)


def test_the_maximum_length_of_a_folder(config, tiny_tokenizer, tmp_path):
    """Holds for the tokenizer, and is saved again, whether or not the tokenizer was used."""
    model = AlbertForSimilarity(config.replace(vocab_size=tiny_tokenizer.vocab_size))
    model.tokenizer = tiny_tokenizer
    model.save_pretrained(tmp_path)
    folder = SentenceEmbedding("mean", normalize=True, max_length=7)
    sentence_transformers.write(tmp_path, folder, config.hidden_size)
    for copy in (tmp_path, tmp_path / "copy"):
        model = AlbertForSimilarity.from_pretrained(tmp_path)
        model.save_pretrained(copy)
        assert sentence_transformers.read(copy) == folder
    assert model.tokenizer.model_max_length == 7
    model.tokenizer = tiny_tokenizer
    assert model.sentence_embedding().max_length == tiny_tokenizer.model_max_length


def test_copies_keep_the_maximum_length_of_a_folder(config, tmp_path):
    """The folder has no tokenizer, which would also contain it."""
    AlbertForSimilarity(config).save_pretrained(tmp_path)
    folder = SentenceEmbedding("mean", normalize=True, max_length=7)
    sentence_transformers.write(tmp_path, folder, config.hidden_size)
    model = AlbertForSimilarity.from_pretrained(tmp_path)
    for copy in (model.with_depth(3), unshare(model)):
        assert copy.sentence_embedding() == folder


def test_an_unknown_pooling(config):
    with pytest.raises(UserError, match="one of mean, cls, max. Received: 'pooler'"):
        AlbertForSimilarity(config, pooling="pooler")


def test_texts_without_their_axis(model):
    with pytest.raises(ValueError, match=r"shape \[batch, choices, length\]"):
        model(np.ones((2, 5), "int32"))
