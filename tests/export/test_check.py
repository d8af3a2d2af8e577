"""Exports are compared with Keras on texts made to find differences."""

import contextlib
import json
import math
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from albert_tf_export import ParityError, Report, check, samples
from albert_tf_export.check import Case, Run, differences, magnitude
from albert_tf_export.fresh import FreshProcess
from albert_tf_export.report import Difference
from albert_tf_export.samples import check_tokens, sample, vocabulary_texts
from albert_tf_export.tflite import REPORT, beside

from albert_tf import export_saved_model, export_tflite
from albert_tf.quiet import import_tensorflow_text
from albert_tf.text.model_file import ModelProto
from albert_tf.text.tokenizer import AlbertTokenizer
from albert_tf.text.vocabulary import train_vocabulary
from tests.conftest import SENTENCES


def case(*logits):
    rows = [{"logits": np.array(each, "float32"), "odds": np.zeros(2)} for each in logits]
    return Case([{}] * len(rows), rows, [9] * len(rows))


def test_tolerance_follows_the_output():
    found = check._difference(Run(case([0.1, -0.2]).expected), case([0.1, -0.3]), "dynamic")
    assert (found.output, found.value, found.tolerance) == (
        "logits",
        pytest.approx(0.1),
        check.TOLERANCES["dynamic"],
    )
    small, large = case([0, 0], [0, 0]), case([0, 0], [4, -8])
    found = check._difference(Run(small.expected), large, "none")
    assert found == Difference("logits", 8, 8 * check.EXACT)


def test_eight_bits_have_a_tolerance_of_their_own():
    for difference, is_right in ((0.9, False), (0.41, True)):
        made = Run(case([2.7 - difference]).expected)
        found = check._difference(made, case([2.7]), "dynamic")
        assert (found.share < 1) == is_right


def test_the_output_nearest_to_its_tolerance_is_reported():
    expected = case([100, 0])
    near = [{"logits": np.array([100.001, 0]), "odds": np.array([9e-5, 0])}]
    assert check._difference(Run(near), expected, "none").output == "odds"
    near[0]["logits"][1] = math.nan
    assert check._difference(Run(near), expected, "none").output == "logits"


def test_an_export_that_does_not_run(classifier, tmp_path, tokenizer):
    path = tmp_path / "broken.tflite"
    path.write_bytes(b"no flatbuffer at all")
    cases = {"ids": sample(classifier, tokenizer, 24, pairs=False)["ids"]}
    with pytest.raises(ParityError, match="must run without this package. Received: "):
        check.compare("tflite.py", path, cases, "none")


def test_report(tmp_path):
    report = Report(tmp_path, 1_230_000, "3fa9", {"ids": Difference("logits", 2e-7, 1e-4)})
    line = "ids: max abs difference from Keras 2e-07 (logits, tolerance 0.0001)"
    assert str(report) == f"{tmp_path}: 1.2 MB, SHA-256 3fa9\n{line}"
    unchecked = Report(tmp_path, 1_230_000, "3fa9", {})
    assert str(unchecked) == f"{tmp_path}: 1.2 MB, SHA-256 3fa9"


def test_the_digest_depends_on_names_and_contents_alone(tmp_path):
    digests = []
    for number, (name, content) in enumerate([("a", "1"), ("a", "1"), ("a", "2"), ("b", "1")]):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / name).write_text(content)
        digests.append(Report.of(tmp_path, folder, {}).sha256)
    assert digests[0] == digests[1] and len(set(digests)) == 3
    file = Report.of(tmp_path, tmp_path / "0" / "a", {})
    assert file.size == 1 and len(file.sha256) == 64


SCRIPT = """
import os, sys
def main(path, *words):
    with open(path, "w", encoding="utf-8") as file:
        print(os.getpid(), "colorsys" in sys.modules, *words, file=file)
    if words[0] == "bad":
        sys.exit("no such thing")
"""


def test_a_process_runs_a_script_several_times(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    with FreshProcess("colorsys", file=script) as process:
        for name in ("one", "other"):
            process.run(tmp_path / name, f"{name} é")
        process.wait()
    number = str(process.process.pid)
    for name in ("one", "other"):
        assert (tmp_path / name).read_text("utf-8").split() == [number, "True", name, "é"]
    with FreshProcess(file=script) as process:
        process.run(tmp_path / "bad", "bad")
        process.run(tmp_path / "never", "good")
        with pytest.raises(ParityError, match="must run without .* Received: no such thing"):
            process.wait()
    assert (tmp_path / "bad").exists() and not (tmp_path / "never").exists()


PARENT = """
import contextlib, signal, sys
from albert_tf_export.fresh import FreshProcess
signal.signal(signal.SIGINT, signal.default_int_handler)  # A background job ignores it.
for _ in range(2):
    with contextlib.suppress(KeyboardInterrupt), FreshProcess(file=sys.argv[1]) as process:
        process.wait()
"""
ENDLESS = """
import os, sys, time
print(os.getpid(), file=open(os.path.dirname(__file__) + "/pid", "w"))
time.sleep(600)
"""


@pytest.mark.slow
def test_a_check_ends_with_its_parent(tmp_path):
    """Interrupts a parent in its first check, and kills it in its second one."""
    script, pid = tmp_path / "script.py", tmp_path / "pid"
    script.write_text(ENDLESS)
    parent = subprocess.Popen([sys.executable, "-c", PARENT, script], stderr=subprocess.PIPE)
    for stop in (signal.SIGINT, signal.SIGKILL):
        while not pid.exists() or not pid.read_text().strip():
            assert parent.poll() is None, parent.stderr.read()
            time.sleep(0.01)
        child = Path("/proc", pid.read_text().strip())
        pid.unlink()
        parent.send_signal(stop)
        for _ in range(3000):
            if not child.exists():
                break
            time.sleep(0.01)
        assert not child.exists()
    parent.communicate()
    assert parent.returncode == -signal.SIGKILL


def floats(*values):
    return np.array(values, "float32")


def test_the_largest_difference_of_each_float():
    expected = {"logits": floats(1, -2, 3), "probabilities": floats(0.2, 0.3, 0.5)}
    found = {"logits": floats(1, -2.5, 3.25), "probabilities": floats(0.2, 0.3, 0.5)}
    assert differences(found, expected, 7) == {"logits": 0.5, "probabilities": 0}


def test_nan_is_a_difference():
    found = {"logits": floats(float("nan"), 0)}
    assert np.isnan(differences(found, {"logits": floats(1, 0)}, 7)["logits"])


def test_padding_is_ignored():
    expected = {"input_ids": np.array([2, 9, 3]), "logits": floats(1, 2, 3)}
    found = {"input_ids": np.array([2, 9, 3, 0, 0]), "logits": floats(1, 2, 3, 99, -99)}
    assert differences(found, expected, 3) == {"logits": 0}
    with pytest.raises(ParityError, match=r"logits must have .*\(2,\) .* Received: \(5,\)"):
        differences({"logits": found["logits"]}, {"logits": floats(1, 2)}, 3)
    with pytest.raises(ParityError, match=r"shape \(3, 4\) for a row of 3 .* Received: \(3, 6\)"):
        differences({"logits": np.ones((5, 6))}, {"logits": np.ones((3, 4))}, 3)


def test_other_outputs():
    with pytest.raises(ParityError, match="must be end_logits, start_logits. Received: logits"):
        differences({"logits": floats(1)}, {"start_logits": floats(1), "end_logits": floats(1)}, 1)


def test_integers_and_strings_are_equal():
    expected = {"input_ids": np.array([2, 9, 3])}
    with pytest.raises(ParityError, match=r"input_ids must be \[2, 9, 3\]. Received: \[2, 8, 3\]"):
        differences({"input_ids": np.array([2, 8, 3])}, expected, 3)
    with pytest.raises(ParityError, match="classes must be .*good.* Received: .*fine"):
        differences({"classes": np.array([b"fine"])}, {"classes": np.array([b"good"])}, 3)


def test_the_label_belongs_to_the_logits_of_the_export():
    """Quantization may swap the order of two nearly equal logits."""
    classes = np.array([b"bad", b"good"])
    expected = {"logits": floats(1, 1.01), "classes": classes, "label": np.array(b"good")}
    found = {"logits": floats(1.01, 1), "classes": classes, "label": np.array(b"bad")}
    assert differences(found, expected, 7)["logits"] == pytest.approx(0.01, abs=1e-6)
    with pytest.raises(ParityError, match="label must be b'bad'. Received: b'good'"):
        differences({**found, "label": np.array(b"good")}, expected, 7)


@pytest.fixture
def beam():
    """Returns three starts, the last one impossible, with three ends each."""
    return {
        "start_top_log_probs": floats(-1, -2, -1e30),
        "start_top_index": np.array([4, 7, 0]),
        "end_top_log_probs": floats(-1, -2, -3, -1, -2, -1e30, -9, -9, -9),
        "end_top_index": np.array([5, 6, 8, 7, 9, 0, 1, 2, 3]),
        "cls_logits": floats(0.5),
    }


def turned(beam, order):
    """Returns the same beam with its starts in another order."""
    rows = {
        name: value.reshape(3, -1)[order].ravel()
        for name, value in beam.items()
        if name != "cls_logits"
    }
    return {**beam, **rows}


def test_equal_beams(beam):
    measured = dict.fromkeys(("start_top_log_probs", "end_top_log_probs", "cls_logits"), 0)
    assert differences(beam, beam, 9) == measured
    magnitudes = [magnitude([beam, beam], name) for name in measured]
    assert magnitudes == [2, 9, 0.5]


def test_beams_in_float16_store_other_impossible_values(beam):
    found = {**beam, "start_top_log_probs": floats(-1, -2, -65504)}
    assert differences(found, beam, 9)["start_top_log_probs"] == 0


def test_near_ties_may_change_their_order(beam):
    expected = {**beam, "start_top_log_probs": floats(-1, -1.01, -1e30)}
    found = turned(expected, [1, 0, 2]) | {"start_top_log_probs": floats(-1, -1.02, -1e30)}
    measured = differences(found, expected, 9)
    assert measured["start_top_log_probs"] == pytest.approx(0.02, abs=1e-6)
    assert measured["end_top_log_probs"] == 0


@pytest.mark.parametrize(
    ("change", "output"),
    [
        ({"start_top_index": np.array([4, 6, 0])}, "start_top_log_probs"),  # 7 is missing
        ({"start_top_index": np.array([7, 4, 0])}, "start_top_log_probs"),  # swapped
        ({"start_top_log_probs": floats(-1, -1e30, -1e30)}, "start_top_log_probs"),
        ({"start_top_log_probs": floats(-1, -2, -3)}, "start_top_log_probs"),
        ({"end_top_index": np.array([5, 8, 6, 7, 9, 0, 1, 2, 3])}, "end_top_log_probs"),
        ({"end_top_index": np.array([5, 6, 8, 9, 7, 0, 1, 2, 3])}, "end_top_log_probs"),
    ],
)
def test_other_beams(beam, change, output):
    assert differences({**beam, **change}, beam, 9)[output] >= 1


def test_magnitude_is_that_of_all_rows():
    rows = [{"logits": floats(1, -2)}, {"logits": floats(0.5, 0.1, 3)}]
    assert magnitude(rows, "logits") == 3


@pytest.fixture(scope="module")
def cases(classifier, tokenizer):
    return sample(classifier, tokenizer, 24, pairs=False)


def test_samples_are_varied(cases, classifier):
    inputs, expected, pieces, *_ = cases["ids"]
    assert pieces == [len(row["input_ids"]) for row in inputs]
    assert min(pieces) == 2  # the empty text
    assert max(pieces) == 24  # the truncated text
    assert len(set(pieces)) > 4
    assert {row["logits"].shape for row in expected} == {(3,)}
    assert len({row["logits"].tobytes() for row in expected}) == len(inputs)
    assert any("\0" in row["text"] for row in cases["text"].inputs)
    assert cases["text"].expected is cases["ids"].expected
    assert "masked" not in cases


def test_expected_is_what_keras_gives(cases, classifier):
    for row, expected in zip(cases["ids"].inputs, cases["ids"].expected, strict=True):
        ids, types = (np.array([row[name]]) for name in ("input_ids", "token_type_ids"))
        logits = classifier({"input_ids": ids, "token_type_ids": types})["logits"][0]
        np.testing.assert_array_equal(expected["logits"], logits)
        assert expected["label"] == classifier.config.labels[np.argmax(logits)].encode()


def test_samples_of_choices(make_model, tokenizer):
    model = make_model("multiple-choice")
    cases = sample(model, tokenizer, 24, pairs=True, choices=5)
    for row, expected in zip(cases["text"].inputs, cases["ids"].expected, strict=True):
        assert len(row["text"]) == len(set(row["text_pair"])) == len(expected["logits"]) == 5
    row = cases["ids"].inputs[0]
    alone = [
        model({name: np.array([[values[choice]]]) for name, values in row.items()})["logits"]
        for choice in range(5)
    ]
    expected = cases["ids"].expected[0]
    np.testing.assert_allclose(expected["logits"], np.ravel(alone), rtol=0, atol=2e-6)


@pytest.mark.parametrize(
    ("task", "name"), [("masked-lm", "logits"), ("pretraining", "prediction_logits")]
)
def test_masked_samples_select_rows_of_all_logits(task, name, make_model, tokenizer):
    model = make_model(task)
    cases = sample(model, tokenizer, 24, pairs=False, predictions=4)
    masked, whole = cases["masked"], cases["ids"]
    for row, part, full in zip(masked.inputs, masked.expected, whole.expected, strict=True):
        positions = row["masked_lm_positions"]
        assert len(positions) == 4
        assert max(positions) < len(row["input_ids"])
        np.testing.assert_array_equal(part[name], full[name][positions])
    row = {key: np.array([value]) for key, value in masked.inputs[0].items()}
    np.testing.assert_allclose(model(row)[name][0], masked.expected[0][name], rtol=0, atol=1e-5)


def test_the_width_of_a_beam_does_not_depend_on_the_text(make_model, tokenizer):
    """Keeps the width for two empty texts, which are three pieces."""
    cases = sample(make_model("answerability"), tokenizer, 24, pairs=True)
    assert {row["start_top_index"].shape for row in cases["ids"].expected} == {(5,)}
    assert {row["end_top_index"].shape for row in cases["ids"].expected} == {(25,)}


def without_normalization(proto):
    proto.normalizer_spec.precompiled_charsmap = b""


def with_capitals(proto):
    other = train_vocabulary(SENTENCES, 200, lower_case=False)
    own = ModelProto.FromString(other).normalizer_spec.precompiled_charsmap
    proto.normalizer_spec.precompiled_charsmap = own


def with_accents(proto):
    other = train_vocabulary(SENTENCES, 200, keep_accents=True)
    own = ModelProto.FromString(other).normalizer_spec.precompiled_charsmap
    proto.normalizer_spec.precompiled_charsmap = own


def another_rare_letter(proto):
    at = next(at for at, piece in enumerate(proto.pieces) if piece.piece == "q")
    proto.pieces[at].piece = "日"


def a_longer_token_less(proto):
    at = max(range(13, len(proto.pieces)), key=lambda at: len(proto.pieces[at].piece))
    proto.pieces[at].score = -1000


def a_special_token_in_texts(proto):
    proto.pieces[3].piece = "[sep]"
    proto.pieces[3].type = proto.pieces[3].NORMAL


def no_user_defined_tokens(proto):
    for piece in proto.pieces:
        if piece.type == piece.USER_DEFINED:
            piece.type = piece.CONTROL


def an_added_token_less(proto):
    proto.pieces[-1].piece = "never"


GRAPHS = [
    *(without_normalization, with_capitals, with_accents, another_rare_letter),
    *(a_longer_token_less, a_special_token_in_texts, no_user_defined_tokens, an_added_token_less),
]


@pytest.fixture
def altered(tiny_vocabulary, monkeypatch):
    """Returns a function that makes graphs read an altered vocabulary."""
    tokenizer = AlbertTokenizer(tiny_vocabulary, model_max_length=24)
    tokenizer.add_tokens(["zebraq"])
    tensorflow_text = import_tensorflow_text()

    def alter(change):
        proto = ModelProto.FromString(tokenizer.model_bytes)
        change(proto)
        graph = tensorflow_text.FastSentencepieceTokenizer(proto.SerializeToString())
        monkeypatch.setattr(AlbertTokenizer, "in_graph", lambda self: graph)
        return tokenizer

    return alter


@pytest.mark.parametrize("change", GRAPHS)
def test_a_graph_that_reads_otherwise_is_found(altered, change):
    check_tokens(altered(lambda proto: None))
    with pytest.raises(
        ParityError, match="must read texts as Python does. Received: '(.|\n)*, in Python '"
    ):
        check_tokens(altered(change))


def test_such_a_graph_is_not_exported(altered, make_model, tmp_path):
    tokenizer = altered(without_normalization)
    model = make_model("sequence-classification", vocab_size=tokenizer.vocab_size)
    with pytest.raises(ParityError, match="must read texts as Python does"):
        export_saved_model(model, tokenizer, tmp_path / "saved")
    with pytest.raises(ParityError, match="must read texts as Python does"):
        export_tflite(model, tokenizer, tmp_path / "model.tflite", quantize="dynamic")
    assert not any(tmp_path.iterdir())


def test_texts_of_a_vocabulary(tokenizer, published_vocabulary):
    rows = vocabulary_texts(tokenizer, 22)
    assert 1 < len(rows) <= 4
    for row in rows:
        assert 0 < len(tokenizer(row, add_special_tokens=False).input_ids) <= 22
    [whole] = vocabulary_texts(AlbertTokenizer(published_vocabulary), 200)
    for part in ("日", "🦕", "[SEP]", "THE", "ing", " 10", "£", "1,"):
        assert part in whole
    assert vocabulary_texts(tokenizer, 1), "no text at all for hosts of one token"


@pytest.mark.parametrize(("order", "is_tie"), [(("ee", "e"), True), (("ee", "ee"), False)])
def test_a_tie_is_no_difference(tokenizer, monkeypatch, order, is_tie):
    """Both ways to write eee have the same score; the order of a float32 sum decides."""
    graph = tokenizer.in_graph()
    other = tokenizer.convert_tokens_to_ids(["▁", *order])
    [ours] = tokenizer.encode_plain(["eee"])
    assert tokenizer.convert_ids_to_tokens(ours.tolist()) == ["▁", "e", "ee"]

    class Tied:
        def tokenize(self, texts):
            rows = graph.tokenize(texts).to_list()
            rows = [other if row == ours.tolist() else row for row in rows]
            return tf.ragged.constant(rows, "int32")

    monkeypatch.setattr(samples, "TEXTS", ["eee"])
    monkeypatch.setattr(AlbertTokenizer, "in_graph", lambda self: Tied())
    with contextlib.nullcontext() if is_tie else pytest.raises(ParityError, match="'eee', in P"):
        check_tokens(tokenizer)


def test_costs_are_reported(checked, classifier):
    report = checked(export_tflite, classifier, lengths=(8, 16), max_length=None)
    written = json.loads(beside(report.path, REPORT).read_text())
    assert (written["size"], written["sha256"]) == (report.size, report.sha256)
    assert written["signatures"].keys() == {"ids_8", "ids_16", "text"}
    assert all(each["milliseconds"] > 0 for each in written["signatures"].values())
    assert "tensorflow" in written["packages"]
