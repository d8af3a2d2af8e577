import numpy as np
import pytest
import tensorflow as tf
from albert_tf_export import export_saved_model
from albert_tf_export.options import SavedModelOptions
from albert_tf_export.saved_model import _SavedModel, read_requests

from albert_tf.errors import UserError
from albert_tf.files import check_own
from albert_tf.models import load_pretrained
from albert_tf.outputs import SAVED_MODEL
from tests.export.conftest import TEXTS

LABELS = ["bad", "naïve", "good"]


@pytest.fixture(scope="module")
def exported(written):
    return tf.saved_model.load(written(export_saved_model))


def test_strings_in(exported, logits):
    served = exported.signatures
    answer = served["text"](text=tf.constant(TEXTS))
    np.testing.assert_allclose(answer["logits"], logits, rtol=0, atol=2e-6)
    np.testing.assert_allclose(answer["probabilities"], tf.nn.softmax(logits), rtol=0, atol=2e-6)
    expected = [LABELS[index].encode() for index in logits.argmax(axis=-1)]
    assert answer["label"].numpy().tolist() == expected
    assert answer["classes"].numpy().tolist() == [[name.encode() for name in LABELS]] * len(TEXTS)
    default = served["serving_default"](text=tf.constant(TEXTS))
    np.testing.assert_array_equal(default["logits"], answer["logits"])


def test_a_string_is_not_a_batch(exported):
    with pytest.raises(tf.errors.InvalidArgumentError, match="slice index 0 of dimension 0 out of"):
        exported.signatures["text"](text=tf.constant(TEXTS[0]))


@pytest.mark.parametrize(("batch", "length"), [(1, 3), (4, 40)])
def test_ids_in_for_any_batch_and_length(exported, classifier, tokenizer, batch, length):
    served = exported.signatures
    ids = np.random.default_rng(batch).integers(5, tokenizer.vocab_size, (batch, length))
    mask = (np.arange(length) < length - np.arange(batch)[:, None]).astype("int32")
    features = {
        "input_ids": ids.astype("int32"),
        "attention_mask": mask,
        "token_type_ids": (ids % 2).astype("int32"),
    }
    answer = served["ids"](**{name: tf.constant(value) for name, value in features.items()})
    np.testing.assert_allclose(answer["logits"], classifier(features)["logits"], rtol=0, atol=2e-6)


def test_signatures_are_declared(exported):
    served = exported.signatures
    assert set(served) == {"serving_default", "text", "ids"}
    text = served["text"].structured_input_signature[1]
    assert text == {"text": tf.TensorSpec([None], tf.string, "text")}
    assert served["ids"].structured_input_signature[1] == {
        name: tf.TensorSpec([None, None], tf.int32, name)
        for name in ("input_ids", "attention_mask", "token_type_ids")
    }


def test_layers_are_a_loop_and_each_weight_is_stored_once(written, classifier):
    folder = written(export_saved_model)
    check_own(folder, SAVED_MODEL)
    assert b"while_body" in (folder / "saved_model.pb").read_bytes()
    stored = sum(file.stat().st_size for file in (folder / "variables").iterdir())
    weights = 4 * classifier.count_params()
    assert weights < stored < 1.2 * weights


def test_ids_only_needs_no_operators_of_text(written, ids_folder):
    """The check loads such a model in a process without tensorflow-text."""
    folders = (written(export_saved_model), ids_folder)
    graphs = [(folder / "saved_model.pb").read_bytes() for folder in folders]
    assert [b"TFText>FastSentencepieceTokenize" in graph for graph in graphs] == [True, False]


def test_half_precision_serves_ids_as_ids_and_computes_in_float32(
    ids_folder, exported, features, logits
):
    """The order of variables doesn't depend on their addresses in memory.

    tests/faults compares all bytes of exports from different processes.
    """
    loaded = tf.saved_model.load(ids_folder)
    assert set(loaded.signatures) == {"ids", "serving_default"}
    ids = loaded.signatures["serving_default"]
    assert {spec.dtype for spec in ids.structured_input_signature[1].values()} == {tf.int32}
    found = ids(**{name: tf.constant(value) for name, value in features.items()})["logits"]
    assert found.dtype == tf.float32
    np.testing.assert_allclose(found, logits, rtol=0, atol=2e-6)
    for ours, theirs in zip(loaded.weights, exported.weights, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_weights_in_bfloat16(checked, model_of):
    model = model_of("sequence-classification", num_hidden_layers=1)
    report = checked(export_saved_model, model, ids_only=True, precision="bfloat16")
    assert 1e-4 < report.differences["ids"].value < 0.1
    loaded = tf.saved_model.load(report.path)
    assert {each.dtype for each in loaded.weights} == {tf.bfloat16}
    outputs = loaded.signatures["ids"].structured_outputs
    assert {outputs[name].dtype for name in ("logits", "probabilities")} == {tf.float32}


@pytest.mark.slow
def test_a_tagger_in_bfloat16(checked):
    report = checked(export_saved_model, "token-classification", precision="bfloat16")
    assert set(report.differences) == {"text", "ids"}


def test_pairs_and_a_limit_on_bytes(classifier, tokenizer, tmp_path):
    """White space takes bytes and no tokens."""
    options = SavedModelOptions(pairs=True, max_bytes=1024)
    text, _ = _SavedModel(classifier, tokenizer, tmp_path, options).signatures(classifier)
    texts, pair = ["a ", "a boat"], ["fair prices", "noisy"]
    long = [" " * 1022 + "a boat", " " * 1018 + "a boat"]
    found = text.function(tf.constant([*texts, *long]), tf.constant(pair * 2))["logits"]
    features = tokenizer(texts, pair, padding=True, return_tensors="np")
    expected = np.asarray(classifier(dict(features))["logits"])
    np.testing.assert_allclose(found, [*expected, *expected], rtol=0, atol=2e-6)
    assert np.abs(expected[0] - expected[1]).max() > 0.01
    with pytest.raises(tf.errors.InvalidArgumentError, match="same number of texts"):
        text.function(tf.constant(["a", "b"]), tf.constant(["c"]))


@pytest.mark.slow
def test_small_passes_its_check_on_all_texts(tmp_path):
    model = load_pretrained("small", "pretraining")
    report = export_saved_model(model, model.tokenizer, tmp_path / "1")
    assert set(report.differences) == {"text", "ids", "masked"}
    assert all(each.share < 0.1 for each in report.differences.values())


def test_a_full_disk_leaves_nothing(model_of, tokenizer, tmp_path, files_of_at_most):
    model = model_of("sequence-classification", num_hidden_layers=1)
    failure = pytest.raises(OSError, match="File too large")
    with failure as raised, files_of_at_most(1_000):
        export_saved_model(model, tokenizer, tmp_path / "1", ids_only=True, check=False)
    assert raised.value.filename == str(tmp_path / "1")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "task",
    [
        "encoder",
        *(
            pytest.param(task, marks=pytest.mark.slow)
            for task in ("pretraining", "multiple-choice", "answerability")
        ),
    ],
)
def test_tensorflow_s_own_save_declares_ids(make_model, task, tmp_path):
    """Ids are not float32, as Keras would declare, and outputs are float32 under any policy."""
    model = make_model(task, num_hidden_layers=1)
    tf.saved_model.save(model, str(tmp_path))
    loaded = tf.saved_model.load(str(tmp_path))
    shape = (2, 3, 7) if task == "multiple-choice" else (2, 7)
    ids = np.random.default_rng(3).integers(5, 100, shape).astype("int32")
    inputs = {"input_ids": ids, "attention_mask": ids * 0 + 1, "token_type_ids": ids % 2}
    tensors = {name: tf.constant(value) for name, value in inputs.items()}
    answer = loaded.signatures["serving_default"](**tensors)
    expected = model(inputs)
    assert set(answer) == set(expected)
    for name, value in answer.items():
        assert value.dtype == expected[name].dtype
        np.testing.assert_allclose(value, expected[name], rtol=0, atol=1e-5, err_msg=name)
    half = make_model(task, "mixed_bfloat16", num_hidden_layers=1)
    assert (tf.bfloat16 in {value.dtype for value in half(inputs).values()}) == (task == "encoder")
    outputs = half._default_save_signature.get_concrete_function().structured_outputs
    dtypes = {name: value.dtype for name, value in outputs.items()}
    assert dtypes == {name: value.dtype for name, value in answer.items()}


@pytest.mark.parametrize("name", ["a[1]", "b\\c", "d*"])
def test_a_folder_that_tensorflow_takes_for_a_pattern(classifier, tokenizer, tmp_path, name):
    with pytest.raises(UserError, match="SavedModel from a path with .*Received: "):
        export_saved_model(classifier, tokenizer, tmp_path / name / "1", ids_only=True)
    assert not list(tmp_path.iterdir())


def test_warm_up_requests_after_a_byte_order_mark(tmp_path):
    path = tmp_path / "requests.txt"
    path.write_text('{"text": "a"}\nb\n', encoding="utf-8-sig")
    assert read_requests(path, ("text",), nested=False) == [{"text": "a"}, {"text": "b"}]
