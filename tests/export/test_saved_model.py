import numpy as np
import pytest
import tensorflow as tf
from albert_tf_export import ParityError, check, export_saved_model
from albert_tf_export.check import Run
from albert_tf_export.options import in_precision

from albert_tf.errors import UserError
from albert_tf.models import load_pretrained
from albert_tf.tasks import TASKS
from albert_tf.text.tokenizer import AlbertTokenizer

LABELS = ["bad", "naïve", "good"]


def signatures(path):
    loaded = tf.saved_model.load(path)
    # The functions reference the loaded object weakly.
    return loaded, loaded.signatures


@pytest.fixture(scope="module")
def exported(written):
    return signatures(written(export_saved_model))


def test_strings_in(exported, texts, logits):
    _, served = exported
    answer = served["text"](text=tf.constant(texts))
    np.testing.assert_allclose(answer["logits"], logits, rtol=0, atol=2e-6)
    np.testing.assert_allclose(answer["probabilities"], tf.nn.softmax(logits), rtol=0, atol=2e-6)
    expected = [LABELS[index].encode() for index in logits.argmax(axis=-1)]
    assert answer["label"].numpy().tolist() == expected
    assert answer["classes"].numpy().tolist() == [[name.encode() for name in LABELS]] * len(texts)
    default = served["serving_default"](text=tf.constant(texts))
    np.testing.assert_array_equal(default["logits"], answer["logits"])


@pytest.mark.parametrize(("batch", "length"), [(1, 3), (2, 24), (5, 17), (4, 40)])
def test_ids_in_for_any_batch_and_length(exported, classifier, tokenizer, batch, length):
    _, served = exported
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
    _, served = exported
    assert set(served) == {"serving_default", "text", "ids"}
    text = served["text"].structured_input_signature[1]
    assert text == {"text": tf.TensorSpec([None], tf.string, "text")}
    assert served["ids"].structured_input_signature[1] == {
        name: tf.TensorSpec([None, None], tf.int32, name)
        for name in ("input_ids", "attention_mask", "token_type_ids")
    }
    for name in ("text", "ids"):
        outputs = served[name].structured_outputs
        assert {key: spec.dtype for key, spec in outputs.items()} == {
            "logits": tf.float32,
            "probabilities": tf.float32,
            "label": tf.string,
            "classes": tf.string,
        }


def test_layers_are_a_loop(written):
    assert b"while_body" in (written(export_saved_model) / "saved_model.pb").read_bytes()


def test_each_weight_is_stored_once(written, classifier):
    folder = written(export_saved_model)
    stored = sum(file.stat().st_size for file in (folder / "variables").iterdir())
    weights = 4 * classifier.count_params()
    assert weights < stored < 1.2 * weights


def test_ids_only_needs_no_operators_of_text(written, features, logits):
    """The check loads such a model in a process without tensorflow-text."""
    with_text = written(export_saved_model)
    ids_only = written(export_saved_model, ids_only=True)
    graphs = [(path / "saved_model.pb").read_bytes() for path in (with_text, ids_only)]
    assert [b"TFText>FastSentencepieceTokenize" in graph for graph in graphs] == [True, False]
    _, served = signatures(ids_only)
    assert set(served) == {"ids", "serving_default"}
    tensors = {name: tf.constant(value) for name, value in features.items()}
    np.testing.assert_allclose(
        served["serving_default"](**tensors)["logits"], logits, rtol=0, atol=2e-6
    )


def test_half_precision_serves_ids_as_ids_and_computes_in_float32(
    make_classifier, tokenizer, tmp_path, features
):
    model = make_classifier("mixed_bfloat16")
    export_saved_model(model, tokenizer, tmp_path / "1", ids_only=True, check=False)
    _, served = signatures(tmp_path / "1")
    specs = served["ids"].structured_input_signature[1]
    assert {spec.dtype for spec in specs.values()} == {tf.int32}
    answer = served["ids"](**{name: tf.constant(value) for name, value in features.items()})
    assert answer["logits"].dtype == tf.float32
    same = make_classifier("float32")
    same.set_weights(model.get_weights())
    np.testing.assert_allclose(answer["logits"], same(features)["logits"], rtol=0, atol=2e-6)
    assert model.dtype_policy.name == "mixed_bfloat16"


def test_weights_in_bfloat16(checked, classifier, features, logits):
    report = checked(export_saved_model, classifier, ids_only=True, precision="bfloat16")
    assert 1e-4 < report.differences["ids"].value < report.differences["ids"].tolerance
    loaded, served = signatures(report.path)
    assert {each.dtype for each in loaded.weights} == {tf.bfloat16}
    found = served["ids"](**{k: tf.constant(v) for k, v in features.items()})["logits"]
    assert found.dtype == tf.float32
    np.testing.assert_allclose(found, logits, rtol=0, atol=0.1)


@pytest.mark.slow
def test_a_tagger_in_bfloat16(checked):
    report = checked(export_saved_model, "token-classification", precision="bfloat16")
    assert set(report.differences) == {"text", "ids"}


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16", "bfloat16"])
def test_a_copy_in_float32(policy, make_classifier):
    model = make_classifier(policy)
    copy = in_precision(model, "float32")
    assert copy.dtype_policy.name == "float32"
    for ours, theirs in zip(copy.get_weights(), model.get_weights(), strict=True):
        assert ours.dtype == np.float32
        np.testing.assert_array_equal(ours, theirs.astype("float32"))
    assert in_precision(copy, "float32") is copy


def test_pairs(make_classifier, tokenizer, tmp_path):
    model = make_classifier()
    first, second = ["A quiet delight.", "mess " * 50], ["noisy mess " * 9, "bread " * 50]
    export_saved_model(model, tokenizer, tmp_path / "1", pairs=True, check=False)
    _, served = signatures(tmp_path / "1")
    answer = served["text"](text=tf.constant(first), text_pair=tf.constant(second))
    encoded = tokenizer(first, second, padding=True, truncation=True, return_tensors="np")
    assert encoded["token_type_ids"].any(axis=1).all()
    np.testing.assert_allclose(answer["logits"], model(dict(encoded))["logits"], rtol=0, atol=2e-6)
    for count in (0, 1):  # Texts without partners: one pair was read for two texts.
        with pytest.raises(tf.errors.InvalidArgumentError, match="must be as many"):
            served["text"](text=tf.constant(first), text_pair=tf.constant(second)[:count])


@pytest.mark.slow  # test_tflite does the same for the other exporter
@pytest.mark.parametrize("names", [["text", "ids"], ["ids"]])
def test_is_checked_in_fresh_processes(reports, names):
    report = reports(export_saved_model, check=True, ids_only=names == ["ids"])
    files = [file for file in report.path.rglob("*") if file.is_file()]
    assert report.size == sum(file.stat().st_size for file in files)
    assert list(report.differences) == names
    assert all(each.value < 1e-5 < each.tolerance for each in report.differences.values())
    first, *lines = str(report).splitlines()
    digest = report.sha256[:12]
    assert first == f"{report.path}: {report.size / 1e6:.1f} MB, SHA-256 {digest}"
    assert [line.split(": max abs")[0] for line in lines] == names


@pytest.mark.slow
@pytest.mark.parametrize("task", ["masked-lm", "pretraining"])
def test_small_passes_its_check_on_all_texts(task, tmp_path):
    model, tokenizer = load_pretrained("small", task), AlbertTokenizer.from_pretrained("small")
    report = export_saved_model(model, tokenizer, tmp_path / "1")
    assert set(report.differences) == {"text", "ids", "masked"}
    assert all(each.share < 0.1 for each in report.differences.values())


def test_variables_have_the_same_order_wherever_they_are_in_memory(
    make_classifier, tokenizer, tmp_path
):
    """tests/faults compares all bytes of exports by different processes."""
    for name in ("one", "other"):
        export_saved_model(
            make_classifier(), tokenizer, tmp_path / name, ids_only=True, check=False
        )
    one, other = ((tmp_path / name / "variables") for name in ("one", "other"))
    assert len(list(one.iterdir())) == 2
    for file in one.iterdir():
        assert file.read_bytes() == (other / file.name).read_bytes()


def test_wrong_answers_remove_it(classifier, tokenizer, tmp_path, monkeypatch):
    def outputs(runner, path, samples, *_):
        rows = samples["ids"].expected
        rows = [*rows[:-1], {**rows[-1], "logits": rows[-1]["logits"] + 0.31}]
        return dict.fromkeys(samples, Run(rows))

    monkeypatch.setattr(check, "run", outputs)
    message = "logits must be within .* of Keras'. Received: .* 0.31 from its signature 'ids'"
    with pytest.raises(ParityError, match=message):
        export_saved_model(classifier, tokenizer, tmp_path / "1", ids_only=True)
    assert not list(tmp_path.iterdir())


def test_a_full_disk_leaves_nothing(classifier, tokenizer, tmp_path, files_of_at_most):
    failure = pytest.raises(OSError, match="could not be written.*File too large")
    with failure, files_of_at_most(1_000):
        export_saved_model(classifier, tokenizer, tmp_path / "1", check=False)
    assert not list(tmp_path.iterdir())


def test_existing_output(classifier, tokenizer, tmp_path):
    path = tmp_path / "1"
    path.mkdir()
    (path / "notes.txt").write_text("mine")
    with pytest.raises(UserError, match="must not exist yet"):
        export_saved_model(classifier, tokenizer, path)
    assert (path / "notes.txt").read_text() == "mine"
    export_saved_model(classifier, tokenizer, path, force=True, ids_only=True, check=False)
    assert sorted(file.name for file in path.glob("*.*")) == ["fingerprint.pb", "saved_model.pb"]


@pytest.mark.parametrize("task", [*TASKS, "answerability"])
def test_tensorflow_s_own_save_declares_ids(make_model, task, tmp_path):
    """Not float32, as Keras would; and outputs in float32 under any policy."""
    model = make_model(task, "mixed_bfloat16", num_hidden_layers=3)
    tf.saved_model.save(model, str(tmp_path))
    _, served = signatures(str(tmp_path))
    shape = (2, 3, 7) if task == "multiple-choice" else (2, 7)
    ids = np.random.default_rng(3).integers(5, 100, shape).astype("int32")
    inputs = {"input_ids": ids, "attention_mask": ids * 0 + 1, "token_type_ids": ids % 2}
    answer = served["serving_default"](**{name: tf.constant(inputs[name]) for name in inputs})
    expected = model(inputs)
    assert set(answer) == set(expected)
    for name, value in answer.items():
        assert value.dtype == tf.float32 or expected[name].dtype == value.dtype
        wanted = tf.cast(expected[name], value.dtype)
        np.testing.assert_allclose(value, wanted, rtol=0, atol=0.05, err_msg=name)


@pytest.mark.parametrize("name", ["a[1]", "b\\c", "d*"])
def test_a_folder_that_tensorflow_takes_for_a_pattern(classifier, tokenizer, tmp_path, name):
    with pytest.raises(UserError, match="loads no SavedModel from a path with .*Received: "):
        export_saved_model(classifier, tokenizer, tmp_path / name / "1", ids_only=True)
    assert not list(tmp_path.iterdir())
