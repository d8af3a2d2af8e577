"""Early exit: each row is answered at the first depth that is sure of it."""

import json

import numpy as np
import pytest
import tensorflow as tf
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.interpreter import Interpreter
from albert_tf_export import Gate, ParityError, check, export_saved_model, export_tflite
from albert_tf_export.check import Exits
from albert_tf_export.early_exit import confidence, leaving_early
from albert_tf_export.signatures import task_outputs

from albert_tf.data.options import LabelledData
from albert_tf.errors import UserError

DEPTHS = (1, 2, 3)
TASKS = ("sequence-classification", "several-labels", "token-classification", "multiple-choice")


def given(task, features):
    """Returns the features of five rows; for multiple choice of five rows with two choices."""
    if task != "multiple-choice":
        return features
    turned = {name: np.roll(value, 1, axis=0) for name, value in features.items()}
    return {name: np.stack([features[name], turned[name]], axis=1) for name in features}


def sure(model, features):
    """Returns the outputs and the confidence of each depth, with NumPy alone."""
    found = {}
    for depth in DEPTHS:
        outputs = task_outputs(model.with_depth(depth), features, True)
        outputs = {name: value.numpy() for name, value in outputs.items()}
        probabilities = outputs["probabilities"]
        if getattr(model, "problem_type", "") == "multi_label_classification":
            each = np.maximum(probabilities, 1 - probabilities).min(axis=-1)
        elif probabilities.ndim == 3:
            masks = features["attention_mask"]
            each = [
                row[mask == 1].max(-1).min() for row, mask in zip(probabilities, masks, strict=True)
            ]
        else:
            each = probabilities.max(axis=-1)
        found[depth] = outputs, np.array(each)
    return found


def middle(found):
    """Returns a threshold that some rows reach at the first depth and others don't."""
    low, high = np.sort(found[1][1])[[2, 3]]
    return float(low + high) / 2


@pytest.fixture(scope="module")
def threshold(classifier, features):
    return middle(sure(classifier, features))


@pytest.mark.parametrize("unroll", [False, "last", True])
@pytest.mark.parametrize("task", TASKS)
def test_a_row_has_the_answer_of_its_first_sure_depth(task, unroll, make_model, features):
    model, features = make_model(task), given(task, features)
    found = sure(model, features)
    threshold = middle(found)
    early = leaving_early(model, DEPTHS, threshold)
    outputs = task_outputs(early, features, unroll)
    depths = outputs["depth"].numpy()
    assert depths.dtype == np.int32
    assert len(set(depths)) > 1
    for row, depth in enumerate(depths):
        reached = [each for each in DEPTHS if found[each][1][row] >= threshold]
        assert depth == min(reached, default=3)
        expected = found[depth][0]
        for name in ("logits", "probabilities"):
            np.testing.assert_allclose(outputs[name][row], expected[name][row], rtol=0, atol=1e-5)


def test_an_answer_does_not_depend_on_its_batch(classifier, features, threshold):
    early = leaving_early(classifier, DEPTHS, threshold)
    together = task_outputs(early, features, False)
    for row in range(5):
        alone = task_outputs(
            early, {name: value[row : row + 1] for name, value in features.items()}, False
        )
        assert alone["depth"][0] == together["depth"][row]
        np.testing.assert_allclose(alone["logits"][0], together["logits"][row], rtol=0, atol=1e-5)


def test_rows_of_padding_leave_at_once(classifier, features):
    """A batch of rows that leave and of padding stops at the first depth."""
    padded = {name: value * 0 for name, value in features.items()}
    assert set(
        task_outputs(leaving_early(classifier, DEPTHS, 1.0), padded, False)["depth"].numpy()
    ) == {1}
    assert set(
        task_outputs(leaving_early(classifier, DEPTHS, 1.0), features, False)["depth"].numpy()
    ) == {3}


def test_confidence_of_tags_leaves_padding_out(make_model):
    probabilities = np.array([[[0.9, 0.1], [0.6, 0.4], [0.5, 0.5]]], "float32")
    found = confidence(make_model("token-classification"), probabilities, np.array([[1, 1, 0]]))
    np.testing.assert_allclose(found, [0.6])


@pytest.mark.parametrize(
    ("quantize", "layers"),
    [
        pytest.param("none", "loop", marks=pytest.mark.slow),
        ("dynamic", "loop"),
        pytest.param("none", "unrolled", marks=pytest.mark.slow),
    ],
)
def test_tflite(quantize, layers, checked, classifier, features, threshold):
    options = {"quantize": quantize, "layers": layers}
    report = checked(export_tflite, classifier, depths=(1, 2), early_exit=threshold, **options)
    names = {f"{name}{depth}" for name in ("ids", "text") for depth in ("", "_1", "_2", "_3")}
    assert set(report.differences) == names
    assert report.depth is None
    signature = Interpreter(str(report.path)).get_signature_runner("ids")
    found, depths = sure(classifier, features), []
    for row, mask in enumerate(features["attention_mask"]):
        length = mask.sum()  # of each row its own
        outputs = signature(**{k: v[row : row + 1, :length] for k, v in features.items()})
        assert outputs["depth"].dtype == np.int32
        assert outputs["depth"].shape == (1,)
        depths.append(int(outputs["depth"][0]))
        expected = found[depths[-1]][0]["logits"][row]
        atol = 1e-5 if quantize == "none" else 0.2
        np.testing.assert_allclose(outputs["logits"][0], expected, rtol=0, atol=atol)
    assert len(set(depths)) > 1


@pytest.mark.slow
def test_layers_are_in_the_file_once(checked, classifier, threshold):
    options = {"early_exit": threshold, "quantize": "none", "layers": "loop"}
    path = checked(export_tflite, classifier, depths=(1, 2), **options).path
    model = schema.ModelT.InitFromObj(schema.Model.GetRootAs(path.read_bytes()))
    calls = [operator.builtinOptions for graph in model.subgraphs for operator in graph.operators]
    loops = [each for each in calls if type(each).__name__ == "WhileOptionsT"]
    assert len(loops) == 2 + 2 + 2 * 3  # the default signatures, their branches, the depths
    assert len({each.bodySubgraphIndex for each in loops}) == 1


@pytest.mark.parametrize(
    "task", ["token-classification", pytest.param("multiple-choice", marks=pytest.mark.slow)]
)
def test_other_tasks_on_a_phone(task, checked, make_model, features):
    model, features = make_model(task), given(task, features)
    threshold = middle(sure(model, features))
    choices = 2 if model.task.has_choices else None
    options = {"depths": (1, 2), "early_exit": threshold, "ids_only": True, "choices": choices}
    assert "ids" in checked(export_tflite, model, **options).differences


@pytest.mark.parametrize(
    "task",
    ["sequence-classification", pytest.param("token-classification", marks=pytest.mark.slow)],
)
def test_saved_model(task, checked, make_model, features):
    model = make_model(task)
    found = sure(model, features)
    report = checked(export_saved_model, model, depths=(1, 2), early_exit=middle(found))
    assert {"text", "ids", "padded_ids", "text_1", "ids_3"} <= set(report.differences)
    assert all(each.value < 1e-5 for each in report.differences.values())
    served = tf.saved_model.load(report.path).signatures
    outputs = served["ids"](**{name: tf.constant(value) for name, value in features.items()})
    depths = outputs["depth"].numpy()
    assert len(set(depths)) > 1
    for row, depth in enumerate(depths):
        expected = found[depth][0]["logits"][row]
        np.testing.assert_allclose(outputs["logits"][row], expected, rtol=0, atol=1e-5)
    assert served["text"](text=tf.constant(["noise", "a quiet boat"]))["depth"].shape == (2,)
    assert "depth" not in served["ids_1"].structured_outputs


def test_answers_say_their_depth(checked, classifier, threshold, run_script):
    options = {"early_exit": threshold, "quantize": "none", "layers": "loop"}
    path = checked(export_tflite, classifier, depths=(1, 2), **options).path
    status, output, errors = run_script("tflite.py", path, lines="noise\n")
    assert status == 0, errors
    assert json.loads(output)["depth"] in DEPTHS


ROWS = {depth: [{"logits": np.array([float(depth)])}] for depth in DEPTHS}
EXITS = Exits(0.8, ROWS, {1: [0.75], 2: [0.85], 3: [0.6]})


@pytest.mark.parametrize(("tolerance", "allowed"), [(0.01, {2}), (0.06, {1, 2, 3})])
def test_depths_that_keras_allows(tolerance, allowed):
    """A confidence near the threshold may be on either side of it."""
    for depth in DEPTHS:
        actual = {"logits": np.array([0.0]), "depth": np.int32(depth)}
        if depth in allowed:
            expected = {"logits": np.array([float(depth)]), "depth": depth}
            assert EXITS.at(0, actual, -1, tolerance) == expected
        else:
            with pytest.raises(ParityError, match=rf"row 0 after .* layers.* Received: {depth}\."):
                EXITS.at(0, actual, -1, tolerance)


def test_the_last_depth_needs_no_confidence():
    never = EXITS._replace(confidences={1: [0.1], 2: [0.2], 3: [0.3]})
    assert never.at(0, {"depth": np.int32(3)}, -1, 0.01)["logits"] == 3


def test_without_a_report_the_nearest_allowed_depth_counts():
    assert EXITS.at(0, {"logits": np.array([1.1])}, -1, 0.06)["logits"] == 1
    assert EXITS.at(0, {"logits": np.array([1.1])}, -1, 0.01)["logits"] == 2


def test_a_wrong_exit_is_refused(classifier, tokenizer, tmp_path, monkeypatch, threshold):
    """An export with another threshold leaves where Keras doesn't."""
    monkeypatch.setattr(check, "TEXTS", check.TEXTS[:1])
    monkeypatch.setattr(check, "vocabulary_texts", lambda *_: [])
    cases = check.early_cases
    monkeypatch.setattr(check, "early_cases", lambda *given: cases(*given[:-1], 0.999))
    options = {"depths": (1,), "early_exit": 0.3, "ids_only": True}
    with pytest.raises(ParityError, match=r"must leave row 0 after 3 layers.* Received: 1\."):
        export_tflite(classifier, tokenizer, tmp_path / "a", **options)
    assert not list(tmp_path.iterdir())


def test_scores_have_the_mean_depth(classifier, tokenizer, tmp_path, monkeypatch):
    """The gate asks for the score of the default signature alone."""
    data = tmp_path / "dev.tsv"
    data.write_text("text\tlabel\nnoise\tbad\na quiet boat\tgood\nsmoke\tgood\n")

    def run(runner, path, samples):
        (name,) = samples
        classes = [0, 2, 0] if name == "ids" else [1, 1, 1]
        rows = [{"logits": row} for row in np.eye(3, dtype="float32")[classes]]
        if name == "ids":
            rows = [
                {**row, "depth": np.int32(depth)}
                for row, depth in zip(rows, (1, 1, 3), strict=True)
            ]
        return {name: check.Run(rows, processor_milliseconds=1.5)}

    monkeypatch.setattr(check, "run", run)
    monkeypatch.setattr(check, "predictions", lambda *_: np.eye(3)[[0, 2, 0]])
    gate = Gate(LabelledData(task="classify", data=data), 0.0)
    options = {"depths": (1,), "early_exit": 0.5, "check": False, "ids_only": True}
    report = export_tflite(classifier, tokenizer, tmp_path / "a", gate=gate, **options)
    assert report.scores.depth == pytest.approx(5 / 3)
    assert report.scores.exported == pytest.approx(2 / 3)
    assert {depth: each.exported for depth, each in report.scores_by_depth.items()} == {1: 0, 3: 0}
    assert str(report).endswith("; on average 1.67 layers and 1.5 ms of the processor")


@pytest.mark.parametrize("exporter", [export_tflite, export_saved_model])
@pytest.mark.parametrize(
    ("task", "received"),
    [
        ("regression", "regression"),
        ("question-answering", "AlbertForQuestionAnswering"),
        ("masked-lm", "AlbertForMaskedLM"),
        ("encoder", "AlbertModel"),
    ],
)
def test_tasks_without_probabilities(exporter, task, received, make_model, tokenizer, tmp_path):
    with pytest.raises(UserError, match=f"a head with probabilities.* Received: {received}. Leave"):
        exporter(make_model(task), tokenizer, tmp_path / "a", depths=(2,), early_exit=0.9)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"early_exit": 0.9}, "needs depths to leave at. Received: early_exit=0.9 alone"),
        ({"early_exit": 0, "depths": (1,)}, "1 or less and above 0. Received: 0"),
        ({"early_exit": 1.01, "depths": (1,)}, "1 or less and above 0. Received: 1.01"),
        (
            {"early_exit": 0.9, "depths": (3,)},
            r"a depth below .* Received: depths=\(3,\) of 3 layers",
        ),
    ],
)
def test_bad_options(options, message, classifier, tokenizer, tmp_path):
    with pytest.raises(UserError, match=message):
        export_tflite(classifier, tokenizer, tmp_path / "a", **options)
