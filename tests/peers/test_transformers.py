"""Every model beside transformers': the same outputs, losses and gradients, whoever wrote it."""

import keras
import numpy as np
import pytest

from albert_tf import models
from albert_tf.checkpoints import names
from albert_tf.checkpoints.weights import extract

torch = pytest.importorskip("torch", reason="needs torch (pip install albert_tf[peers])")
transformers = pytest.importorskip(
    "transformers", reason="needs transformers (pip install albert_tf[peers])"
)
pytestmark = pytest.mark.peers
# tests/pipelines/test_sentence_transformers.py compares the model that transformers hasn't.
OWN = "AlbertForSimilarity"
MODELS = [name for name in models.__all__ if name.startswith("Albert") and name != OWN]
TOLERANCE = 1e-7  # in float64; TensorFlow rounds gelu_new's 0.044715 to float32
WORDS = "albert.embeddings.word_embeddings.weight"


def loaded_by_transformers(name, folder):
    model, report = getattr(transformers, name).from_pretrained(
        folder, output_loading_info=True, attn_implementation="eager"
    )
    assert not any(report[kind] for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    return model.eval()


def in_torch(inputs):
    return {name: torch.tensor(values) for name, values in inputs.items()}


def assert_alike(ours, theirs, inputs):
    """Compares in float64: in float32 rounding alone makes some draws differ by 3e-5."""
    found = ours(inputs, output_hidden_states=True, output_attentions=True)
    with torch.no_grad():
        expected = theirs(**in_torch(inputs), output_hidden_states=True, output_attentions=True)
    assert set(found) == set(expected.keys())
    for name, values in found.items():
        several = isinstance(values, tuple)
        pairs = zip(values, expected[name], strict=True) if several else [(values, expected[name])]
        for one, other in pairs:
            np.testing.assert_allclose(one, other.numpy(), atol=TOLERANCE, rtol=0, err_msg=name)


@pytest.mark.parametrize("name", MODELS)
def test_reads_what_we_write(name, drawn_config, drawn_inputs, scrambled, tmp_path):
    ours = scrambled(getattr(models, name)(drawn_config))
    ours.save_pretrained(tmp_path)
    ours = type(ours).from_pretrained(tmp_path, dtype="float64")
    assert_alike(ours, loaded_by_transformers(name, tmp_path).double(), drawn_inputs(name))


@pytest.mark.parametrize("name", MODELS)
def test_writes_what_we_read(name, drawn_config, drawn_inputs, tmp_path):
    values = {
        key: value
        for key, value in drawn_config.to_dict().items()
        if key not in ("model_type", "share", "shared_groups", "position_embedding_type")
    }
    if name in ("AlbertForPreTraining", "AlbertForQuestionAnswering"):
        for key in ("id2label", "label2id"):  # the head has an output for each label
            values.pop(key, None)
    theirs = getattr(transformers, name)(
        transformers.AlbertConfig(**values, attn_implementation="eager")
    ).eval()
    torch.manual_seed(0)
    for parameter in theirs.parameters():
        parameter.data += 0.2 * torch.randn_like(parameter)
    theirs.save_pretrained(tmp_path)
    ours = getattr(models, name).from_pretrained(tmp_path, dtype="float64")
    assert ours.config.share == "all"
    assert_alike(ours, theirs.double(), drawn_inputs(name))


@pytest.mark.parametrize("name", [name for name in MODELS if name != "AlbertModel"])
def test_gradients(name, drawn_config, drawn_inputs, scrambled, tmp_path):
    """One step of gradient descent at rate 1 moves every weight by its gradient."""
    ours = scrambled(getattr(models, name)(drawn_config))
    ours.save_pretrained(tmp_path)
    ours = type(ours).from_pretrained(tmp_path, dtype="float64")
    theirs, inputs = loaded_by_transformers(name, tmp_path).double(), drawn_inputs(name)
    theirs(**in_torch(inputs)).loss.backward()
    before = stored_weights(ours)
    ours.compile(keras.optimizers.SGD(1.0), run_eagerly=True)
    ours.fit(inputs, batch_size=len(inputs["input_ids"]), verbose=0)
    after = stored_weights(ours)

    def moved(key):
        return before[key] - after[key]

    gradients = {key: value.grad.numpy() for key, value in theirs.named_parameters()}
    for same in names_of_each_variable(ours):
        expected = sum(gradients[key] for key in same)  # transformers shares no part of a layer
        if WORDS in same:  # torch doesn't train the padding's row
            expected[ours.config.pad_token_id] = moved(WORDS)[ours.config.pad_token_id]
        for key in same:
            np.testing.assert_allclose(moved(key), expected, atol=TOLERANCE, rtol=0, err_msg=key)


def stored_weights(model):
    """The weights by the names that transformers gives them."""
    return {names.stored_name(name): values for name, values in extract(model).items()}


def names_of_each_variable(model):
    """The names under which each variable is stored, several for one that layers share."""
    stored = {}
    for name, weight in names.weights(model).items():
        stored.setdefault(id(weight.variable), []).append(names.stored_name(name))
    return stored.values()
