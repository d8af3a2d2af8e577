"""Exports are compared with Keras on texts made to find differences."""

import contextlib
import math
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import sentencepiece
import tensorflow as tf
from albert_tf_export import ParityError, Report, check, samples, saved_model, tflite
from albert_tf_export.check import Case, Run, differences, magnitude
from albert_tf_export.fresh import FreshProcess
from albert_tf_export.report import Difference
from albert_tf_export.samples import check_tokens, sample, vocabulary_texts

from albert_tf import export_saved_model, export_tflite
from albert_tf.quiet import import_tensorflow_text
from albert_tf.text.model_file import ModelProto
from albert_tf.text.tokenizer import AlbertTokenizer
from tests.export.conftest import ThisProcess


def case(*logits):
    rows = [{"logits": np.array(each, "float32"), "odds": np.zeros(2)} for each in logits]
    return Case([{}] * len(rows), rows, [9] * len(rows))


def test_tolerance_follows_the_precision_and_the_output():
    found = check._difference(Run(case([0.1, -0.2]).expected), case([0.1, -0.3]), "dynamic")
    tolerance = check.TOLERANCES["dynamic"]
    assert found == Difference("logits", pytest.approx(0.1), tolerance)
    small, large = case([0, 0], [0, 0]), case([0, 0], [4, -8])
    found = check._difference(Run(small.expected), large, "none")
    assert found == Difference("logits", 8, 8 * check.EXACT)


def test_the_output_nearest_to_its_tolerance_is_reported():
    expected = case([100, 0])
    near = [{"logits": np.array([100.001, 0]), "odds": np.array([9e-5, 0])}]
    assert check._difference(Run(near), expected, "none").output == "odds"
    near[0]["logits"][1] = math.nan
    assert check._difference(Run(near), expected, "none").output == "logits"


def test_an_export_that_does_not_run(tmp_path):
    path = tmp_path / "broken.tflite"
    path.write_bytes(b"no flatbuffer at all")
    with pytest.raises(ParityError, match="failed to run in a fresh process: .*Flatbuffer"):
        check.compare("tflite", path, {"ids": case([0.1])}, "none")


def test_the_digest_depends_on_names_and_contents_alone(tmp_path):
    digests = []
    for number, (name, content) in enumerate([("a", "1"), ("a", "1"), ("a", "2"), ("b", "1")]):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / name).write_text(content)
        digests.append(Report.of(tmp_path, folder, {}).sha256)
    assert digests[0] == digests[1] and len(set(digests)) == 3


@pytest.mark.slow
@pytest.mark.parametrize(
    ("export", "ids_only"),
    [(export_saved_model, True), (export_tflite, False)],
)
def test_exports_are_checked_in_fresh_processes(export, ids_only, classifier, tokenizer, tmp_path):
    report = export(classifier, tokenizer, tmp_path / "a", ids_only=ids_only)
    files = [file for file in report.path.rglob("*") if file.is_file()] or [report.path]
    assert report.size == sum(file.stat().st_size for file in files)
    assert set(report.differences) == ({"ids"} if ids_only else {"text", "ids"})
    assert all(each.value < 1e-5 < each.tolerance for each in report.differences.values())
    assert str(report).startswith(f"{report.path}: {report.size / 1e6:.1f} MB, SHA-256 ")


@pytest.mark.parametrize("export", [export_saved_model, export_tflite])
def test_an_export_with_wrong_answers_is_removed(
    export, model_of, tokenizer, tmp_path, monkeypatch
):
    def outputs(form, path, samples, *_):
        assert path.exists()
        rows = samples["ids"].expected
        rows = [*rows[:-1], {**rows[-1], "logits": rows[-1]["logits"] + 0.31}]
        return {"ids": Run(rows)}

    # Only the comparison is tested, so no graph is built or run.
    monkeypatch.setattr(saved_model, "write", lambda _, folder: folder.mkdir())
    monkeypatch.setattr(tflite._TFLiteFile, "content", lambda *_: b"a graph")
    monkeypatch.setattr(check, "run", outputs)
    monkeypatch.setattr(saved_model, "FreshProcess", ThisProcess)
    monkeypatch.setattr(samples, "TEXTS", ["", "slow"])
    model = model_of("sequence-classification", num_hidden_layers=1)
    with pytest.raises(ParityError, match="logits .*'ids' differs from Keras by 0.31"):
        export(model, tokenizer, tmp_path / "a", ids_only=True)
    assert not list(tmp_path.iterdir())


SCRIPT = """
import os, sys
def main(path, *words):
    with open(path, "w", encoding="utf-8") as file:
        print(os.getpid(), "colorsys" in sys.modules, *words, file=file)
    if words[0] == "bad":
        sys.exit("no such thing")
    if words[0] == "stopped":
        raise KeyboardInterrupt
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
        with pytest.raises(ParityError, match="fresh process: no such thing"):
            process.wait()
    assert (tmp_path / "bad").exists() and not (tmp_path / "never").exists()
    with FreshProcess(file=script) as process:
        process.run(tmp_path / "stopped", "stopped")
        with pytest.raises(KeyboardInterrupt):
            process.wait()


@pytest.mark.slow
def test_a_check_ends_with_its_parent(tmp_path):
    """Interrupts one check, and kills the parent of another."""
    endless = tmp_path / "endless.py"
    endless.write_text("import time\ntime.sleep(600)\n")
    with contextlib.suppress(KeyboardInterrupt), FreshProcess(file=endless) as process:
        raise KeyboardInterrupt
    assert process.process.returncode == -signal.SIGKILL
    code = f"""
import time
from albert_tf_export.fresh import FreshProcess
with FreshProcess(file={str(endless)!r}) as process:
    print(process.process.pid, flush=True)
    time.sleep(600)
"""
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    child = Path("/proc", parent.stdout.readline().strip())
    assert child.exists()
    parent.kill()
    parent.communicate()
    deadline = time.monotonic() + 30
    while child.exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not child.exists()


def floats(*values):
    return np.array(values, "float32")


def test_the_largest_difference_of_each_float():
    expected = {"logits": floats(1, -2, 3), "probabilities": floats(0.2, 0.3, 0.5)}
    found = {"logits": floats(1, -2.5, 3.25), "probabilities": floats(0.2, 0.3, 0.5)}
    assert differences(found, expected, 7) == {"logits": 0.5, "probabilities": 0}
    found["logits"][2] = math.nan
    assert math.isnan(differences(found, expected, 7)["logits"])


def test_padding_is_ignored():
    expected = {"input_ids": np.array([2, 9, 3]), "logits": floats(1, 2, 3)}
    found = {"input_ids": np.array([2, 9, 3, 0, 0]), "logits": floats(1, 2, 3, 99, -99)}
    assert differences(found, expected, 3) == {"logits": 0}


@pytest.mark.parametrize(
    ("found", "expected", "message"),
    [
        ({"logits": np.ones(5)}, {"logits": np.ones(2)}, r"shape \(2,\) .* Received: \(5,\)"),
        ({"logits": np.ones((5, 6))}, {"logits": np.ones((3, 4))}, r"\(3, 4\) .* \(3, 6\)"),
        ({"logits": np.ones(3)}, {"end": np.ones(3)}, "must return end. Received: logits"),
        (
            {"ids": np.array([2, 8])},
            {"ids": np.array([2, 9])},
            r"return \[2, 9\] as ids. Rec.*: \[2, 8\]",
        ),
        (
            {"a": np.array([b"fine"])},
            {"a": np.array([b"good"])},
            r"return \[b'good'\] as a. Rec.*: \[b'fine'\]",
        ),
    ],
)
def test_other_outputs_are_refused(found, expected, message):
    with pytest.raises(ParityError, match=message):
        differences(found, expected, 3)


def test_the_label_belongs_to_the_logits_of_the_export():
    """Quantization may swap the order of two nearly equal logits."""
    classes = np.array([b"bad", b"good"])
    expected = {"logits": floats(1, 1.01), "classes": classes, "label": np.array(b"good")}
    found = {"logits": floats(1.01, 1), "classes": classes, "label": np.array(b"bad")}
    assert differences(found, expected, 7)["logits"] == pytest.approx(0.01, abs=1e-6)
    with pytest.raises(ParityError, match="b'bad' as label. Received: b'good'"):
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


@pytest.mark.parametrize("impossible", [-1e30, -65504])  # in float32, in float16
def test_equal_beams(beam, impossible):
    found = {**beam, "start_top_log_probs": floats(-1, -2, impossible)}
    measured = dict.fromkeys(("start_top_log_probs", "end_top_log_probs", "cls_logits"), 0)
    assert differences(found, beam, 9) == measured
    magnitudes = [magnitude([found, beam], name) for name in measured]
    assert magnitudes == [2, 9, 0.5]


def test_near_ties_may_change_their_order(beam):
    expected = {**beam, "start_top_log_probs": floats(-1, -1.01, -1e30)}
    found = {
        **beam,
        "start_top_log_probs": floats(-1, -1.02, -1e30),
        "start_top_index": np.array([7, 4, 0]),
        "end_top_log_probs": floats(-1, -2, -1e30, -1, -2, -3, -9, -9, -9),
        "end_top_index": np.array([7, 9, 0, 5, 6, 8, 1, 2, 3]),
    }
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


def test_samples(model_of, tokenizer):
    """They are varied, and have the outputs of Keras."""
    classifier = model_of("sequence-classification", num_hidden_layers=1)
    cases = sample(classifier, tokenizer, 24, pairs=False)
    inputs, expected, pieces, *_ = cases["ids"]
    assert pieces == [len(row["input_ids"]) for row in inputs]
    assert min(pieces) == 2  # the empty text
    assert max(pieces) == 24  # the truncated text
    assert len(set(pieces)) > 4
    assert len({row["logits"].tobytes() for row in expected}) == len(inputs)
    assert any("\0" in row["text"] for row in cases["text"].inputs)
    assert cases["text"].expected is cases["ids"].expected
    assert "masked" not in cases
    for number in (0, 1, -1):  # a text, the empty one, and the truncated one
        row, outputs = inputs[number], expected[number]
        logits = classifier({name: np.array([ids]) for name, ids in row.items()})["logits"][0]
        np.testing.assert_array_equal(outputs["logits"], logits)
        assert outputs["label"] == classifier.config.labels[np.argmax(logits)].encode()


def test_only_scores_are_compared_despite_near_ties(model_of, tokenizer):
    """At reduced precision, near ties can change words, labels, and their spans."""

    def in_words(text):
        spans = {"words": tf.constant([["a"]]), "labels": tf.constant([["B"]])}
        return {**spans, "starts": tf.constant([[0]]), "scores": tf.constant([[0.5]])}

    tagger = model_of("token-classification", num_hidden_layers=1)
    cases = sample(tagger, tokenizer, 24, pairs=False, in_words=in_words)
    assert sorted(cases["text"].ties) == ["labels", "starts", "words"]


def without_normalization(proto):
    proto.normalizer_spec.precompiled_charsmap = b""


def with_rules_of(name):
    def change(proto):
        normalizer = sentencepiece.SentencePieceNormalizer(rule_name=name)
        other = ModelProto.FromString(normalizer.serialized_model_proto())
        rules = other.normalizer_spec.precompiled_charsmap
        proto.normalizer_spec.precompiled_charsmap = rules

    return change


def another_rare_letter(proto):
    at = next(at for at, piece in enumerate(proto.pieces) if piece.piece == "q")
    proto.pieces[at].piece = "日"


def a_special_token_in_texts(proto):
    proto.pieces[3].piece = "[sep]"
    proto.pieces[3].type = proto.pieces[3].NORMAL


def an_added_token_less(proto):
    proto.pieces[-1].piece = "never"


GRAPHS = {
    "rules": without_normalization,
    "capitals": with_rules_of("nmt_nfkc"),
    "accents": with_rules_of("nmt_nfkc_cf"),
    "rare letter": another_rare_letter,
    "special token": a_special_token_in_texts,
    "added token": an_added_token_less,
}


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


def test_a_graph_that_reads_alike(altered):
    check_tokens(altered(lambda proto: None))


@pytest.mark.parametrize("change", GRAPHS.values(), ids=GRAPHS)
def test_a_graph_that_reads_otherwise_is_found(altered, change):
    with pytest.raises(ParityError, match=r"' has different tokens in Python \('"):
        check_tokens(altered(change))


def test_such_a_graph_is_not_exported(altered, make_model, tmp_path):
    tokenizer = altered(without_normalization)
    model = make_model("sequence-classification", vocab_size=tokenizer.vocab_size)
    with pytest.raises(ParityError, match="different tokens in Python"):
        export_saved_model(model, tokenizer, tmp_path / "saved")
    with pytest.raises(ParityError, match="different tokens in Python"):
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


def test_a_tie_is_no_difference(tokenizer, monkeypatch):
    """Both segmentations of eee have the same score; the order of a float32 sum decides."""
    graph = tokenizer.in_graph()
    [ours] = tokenizer.encode_plain(["eee"])
    assert tokenizer.convert_ids_to_tokens(ours.tolist()) == ["▁", "e", "ee"]
    other = tokenizer.convert_tokens_to_ids(["▁", "ee", "e"])

    class Tied:
        def tokenize(self, texts):
            rows = graph.tokenize(texts).to_list()
            rows = [other if row == ours.tolist() else row for row in rows]
            return tf.ragged.constant(rows, "int32")

    monkeypatch.setattr(samples, "TEXTS", ["eee"])
    monkeypatch.setattr(AlbertTokenizer, "in_graph", lambda self: Tied())
    check_tokens(tokenizer)
