"""Exports with a signature for each depth."""

import json
import zipfile

import numpy as np
import pytest
import tensorflow as tf
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.interpreter import Interpreter
from albert_tf_export import Gate, ParityError, check, export_saved_model, export_tflite

from albert_tf.data.options import LabelledData
from albert_tf.errors import UserError
from albert_tf.exported import ExportedModel

NAMES = ["ids", "ids_1", "ids_3", "text", "text_1", "text_3"]


@pytest.fixture(scope="module")
def path(checked, classifier):
    """Returns the path of a .tflite file, whose every signature was compared with Keras."""
    return checked(export_tflite, classifier, depths=(1,)).path


def unpacked(path):
    return schema.ModelT.InitFromObj(schema.Model.GetRootAs(path.read_bytes()))


def logits(path, features):
    """Returns the logits of each signature of ids for the first row."""
    interpreter = Interpreter(str(path))
    row = {name: value[:1] for name, value in features.items()}
    return {
        name: interpreter.get_signature_runner(name)(**row)["logits"]
        for name in interpreter.get_signature_list()
        if name.startswith("ids")
    }


def test_each_signature_ends_at_its_depth(path, classifier, features):
    found = logits(path, features)
    row = {name: value[:1] for name, value in features.items()}
    wanted = {"ids": 3, "ids_1": 1, "ids_3": 3}
    assert found.keys() == wanted.keys()
    for name, depth in wanted.items():
        expected = classifier.with_depth(depth)(row)["logits"]
        np.testing.assert_allclose(found[name], expected, rtol=0, atol=2e-6)
    assert np.abs(found["ids_1"] - found["ids"]).max() > 0.01


@pytest.mark.parametrize("exporter", [export_tflite, export_saved_model])
def test_each_signature_is_compared_with_keras(exporter, checked, classifier):
    report = checked(exporter, classifier, depths=(1,))
    others = {"classify", "padded_ids"} if exporter is export_saved_model else set()
    assert set(report.differences) == {*NAMES, *others}
    assert all(each.value < 1e-5 for each in report.differences.values())
    assert report.depth == 3
    assert str(report).endswith("Default signatures: those of depth 3.")


def test_a_signature_of_another_depth_is_refused(classifier, tokenizer, tmp_path, monkeypatch):
    """A file whose `ids_1` ends too late doesn't pass the check."""
    made = type(classifier).with_depth
    monkeypatch.setattr(check, "TEXTS", check.TEXTS[:1])
    monkeypatch.setattr(check, "vocabulary_texts", lambda *_: [])
    sample = check.sample
    monkeypatch.setattr(check, "sample", lambda model, *rest: sample(made(model, 2), *rest))
    with pytest.raises(ParityError, match="must be within .* from its signature 'ids"):
        export_tflite(classifier, tokenizer, tmp_path / "a", depths=(1,), ids_only=True)
    assert not list(tmp_path.iterdir())


def test_weights_are_stored_once(path, written):
    """The default depth is one graph with two names, and depths share the body of the loop."""
    many, one = unpacked(path), unpacked(written(export_tflite))
    graph_of = {each.signatureKey.decode(): each.subgraphIndex for each in many.signatureDefs}
    assert sorted(graph_of) == NAMES
    assert graph_of["ids"] == graph_of["ids_3"] == 0  # for hosts that don't know signatures
    assert graph_of["text"] == graph_of["text_3"]

    def sizes(model):
        """Returns the sizes of constants that are larger than a vector."""
        used = {tensor.buffer for graph in model.subgraphs for tensor in graph.tensors}
        data = [model.buffers[each].data for each in used]
        return sorted(each.size for each in data if each is not None and each.size > 512)

    assert sizes(many) == sizes(one)
    assert len(many.subgraphs) == len(one.subgraphs) + 3  # ids_1, text_1, and a loop's condition


def test_loops_of_two_depths_share_their_body(make_classifier, tokenizer, tmp_path):
    model = make_classifier(num_hidden_layers=5)
    export_tflite(
        model, tokenizer, tmp_path / "a", depths=(2, 4), max_length=24, ids_only=True, check=False
    )
    file = unpacked(tmp_path / "a")
    calls = [
        operator.builtinOptions
        for graph in file.subgraphs
        for operator in graph.operators
        if type(operator.builtinOptions).__name__ == "WhileOptionsT"
    ]
    assert len(calls) == 3
    assert len({each.bodySubgraphIndex for each in calls}) == 1
    assert len({each.condSubgraphIndex for each in calls}) == 3  # how often


@pytest.mark.parametrize(("groups", "inner"), [(2, 1), pytest.param(2, 2, marks=pytest.mark.slow)])
def test_depths_of_several_groups(groups, inner, make_classifier, tokenizer, tmp_path, features):
    model = make_classifier(num_hidden_layers=4, num_hidden_groups=groups, inner_group_num=inner)
    export_tflite(
        model, tokenizer, tmp_path / "a", depths=(2,), max_length=24, ids_only=True, check=False
    )
    row = {name: value[:1] for name, value in features.items()}
    for name, depth in {"ids_2": 2, "ids_4": 4}.items():
        expected = model.with_depth(depth)(row)["logits"]
        found = logits(tmp_path / "a", features)[name]
        np.testing.assert_allclose(found, expected, rtol=0, atol=2e-6)


def test_positions_to_score(make_model, checked):
    report = checked(export_tflite, "masked-lm", depths=(2,), predictions=2, ids_only=True)
    assert set(report.differences) == {"masked", "masked_2", "masked_3"}


def test_a_saved_model_of_one_graph_with_two_names(classifier, tokenizer, tmp_path, features):
    options = {"max_length": 24, "ids_only": True, "check": False}
    export_saved_model(classifier, tokenizer, tmp_path / "many", depths=(2, 3), **options)
    export_saved_model(classifier, tokenizer, tmp_path / "one", **options)
    served = tf.saved_model.load(tmp_path / "many").signatures
    assert set(served) == {"serving_default", "ids", "ids_2", "ids_3", "padded_ids"}
    tensors = {name: tf.constant(value) for name, value in features.items()}
    for name, depth in {"serving_default": 3, "ids": 3, "ids_2": 2, "ids_3": 3}.items():
        expected = classifier.with_depth(depth)(features)["logits"]
        np.testing.assert_allclose(served[name](**tensors)["logits"], expected, rtol=0, atol=2e-6)
    many, one = (
        tf.train.list_variables(str(tmp_path / name / "variables/variables"))
        for name in ("many", "one")
    )
    assert many == one


def test_runners_choose_by_the_name(path, classifier, run_script, tokenizer):
    for name, depth in {"text": 3, "text_1": 1, "text_3": 3}.items():
        status, output, errors = run_script("tflite.py", path, "--signature", name, lines="noise\n")
        assert status == 0, errors
        row = tokenizer(["noise"], return_tensors="np")
        expected = classifier.with_depth(depth)(dict(row))["logits"][0]
        np.testing.assert_allclose(json.loads(output)["logits"], expected, rtol=0, atol=2e-6)


def test_a_file_answers_at_its_default_depth(path, classifier, features):
    """Pipelines call this model."""
    file = path.rename(path.with_suffix(".tflite"))
    opened = ExportedModel(file)
    file.rename(path)
    assert opened.config == classifier.config
    found = opened.predict_on_batch(features)["logits"]
    np.testing.assert_allclose(found, classifier(features)["logits"], rtol=0, atol=2e-6)


@pytest.fixture
def mails(tmp_path):
    path = tmp_path / "dev.tsv"
    path.write_text("text\tlabel\nnoise\tbad\na quiet boat\tgood\nsmoke\tgood\n")
    return LabelledData(task="classify", data=path)


@pytest.fixture
def scored(mails, classifier, tokenizer, tmp_path, monkeypatch):
    """Returns a function from the answers of each depth and a gate's limit to a report.

    Keras has two of three answers right.
    """

    def export(answers, max_drop):
        def run(runner, path, samples):
            (name,) = samples
            rows = np.eye(3, dtype="float32")[answers[name]]
            return {name: check.Run([{"logits": row} for row in rows])}

        monkeypatch.setattr(check, "run", run)
        monkeypatch.setattr(check, "predictions", lambda *_: np.eye(3)[[0, 2, 0]])
        options = {"gate": Gate(mails, max_drop), "check": False, "ids_only": True}
        return export_tflite(classifier, tokenizer, tmp_path / "a", depths=(1, 2), **options)

    return export


ANSWERS = {"ids_1": [1, 1, 1], "ids_2": [0, 1, 0], "ids_3": [0, 2, 0]}  # right: 0, 1 and 2


@pytest.mark.parametrize(
    ("max_drop", "depth"),
    [
        pytest.param(0.0, 3, marks=pytest.mark.slow),
        (0.4, 2),
        pytest.param(0.7, 1, marks=pytest.mark.slow),
    ],
)
def test_the_shallowest_that_keeps_the_score_is_the_default(
    max_drop, depth, scored, classifier, features
):
    report = scored(ANSWERS, max_drop)
    assert report.depth == depth
    assert {key: each.exported for key, each in report.scores_by_depth.items()} == {
        1: 0,
        2: pytest.approx(1 / 3),
        3: pytest.approx(2 / 3),
    }
    assert report.scores == report.scores_by_depth[depth]
    assert "depth 2: accuracy 0.3333 of 3 examples, Keras 0.6667" in str(report)
    assert report.to_dict()["scores_by_depth"]["1"]["exported"] == 0
    found = logits(report.path, features)
    assert found.keys() == {"ids", "ids_1", "ids_2", "ids_3"}
    np.testing.assert_array_equal(found["ids"], found[f"ids_{depth}"])
    with zipfile.ZipFile(report.path) as archive:
        config = json.loads(archive.read("config.json"))
    assert config["num_hidden_layers"] == depth


def test_no_depth_keeps_the_score(scored, tmp_path):
    with pytest.raises(ParityError, match="may lose 0.1 .* Received: accuracy 0.3333 of 3"):
        scored({**ANSWERS, "ids_3": [0, 1, 0]}, 0.1)
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize(
    ("fields", "depths", "message"),
    [
        ({}, (4,), "depths must be at most 3, the model's number of layers. Received: 4"),
        ({"share": "attention"}, (2,), "has no depth 2"),
        ({"num_hidden_layers": 6, "num_hidden_groups": 2}, (4,), "has no depth 4"),
    ],
)
@pytest.mark.parametrize("exporter", [export_tflite, export_saved_model])
def test_impossible_depths(exporter, fields, depths, message, make_classifier, tokenizer, tmp_path):
    with pytest.raises(UserError, match=message):
        exporter(make_classifier(**fields), tokenizer, tmp_path / "a", depths=depths)
    assert not list(tmp_path.iterdir())


def test_mediapipe_takes_one_graph(classifier, tokenizer, tmp_path):
    with pytest.raises(UserError, match="Received: depths. Leave it out"):
        export_tflite(classifier, tokenizer, tmp_path / "a", depths=(1,), host="mediapipe")
