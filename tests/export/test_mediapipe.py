"""MediaPipe's TextClassifier gives the labels and probabilities of Keras for strings."""

import io
import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema
from albert_tf_export import export_tflite
from albert_tf_export.options import TFLiteOptions
from albert_tf_export.tflite import check_mediapipe

from albert_tf.errors import UserError
from albert_tf.text.tokenizer import AlbertTokenizer
from albert_tf.text.vocabulary import train_vocabulary

TEXTS = [
    "A quiet delight from start to finish.",
    "",
    "Crème brûlée, 12 euros; NEVER closed! [CLS] <pad> [SEP] <unk>",
    "Ταξίδι στην Αθήνα; 東京への旅 🦕 ﬁne İstanbul ẞ",
    "noisy mess " * 40,
    "slow",
]
# In place of the page's last line.
ANSWER = """
    for line in json.load(sys.stdin):
        (head,) = classifier.classify(line).classifications
        probabilities = {each.category_name: each.score for each in head.categories}
        print("ODDS", json.dumps([head.head_name, probabilities]))
"""


def page_script():
    """Returns the page's Python, for another file and for texts on standard input.

    It runs in a process of its own: MediaPipe brings another TensorFlow Lite.
    """
    page = Path(__file__).parents[2] / "docs" / "mobile.md"
    _, code = re.findall(r"```python\n(.*?)```", page.read_text("utf-8"), re.DOTALL)
    *lines, last = code.splitlines()
    assert last.startswith("    print(classifier.classify(")
    code = "\n".join(lines)
    assert '"phone.tflite"' in code
    return "import json, sys\n" + code.replace('"phone.tflite"', "sys.argv[1]") + ANSWER


@pytest.fixture
def exported(checked, classifier):
    """Returns a function from options to a report, compared with Keras by LiteRT's interpreter."""
    return lambda **options: checked(export_tflite, classifier, host="mediapipe", **options)


def test_the_file_has_what_mediapipe_reads(exported, tokenizer):
    report = exported()
    assert report.differences["ids"].output == "probabilities"
    content = report.path.read_bytes()
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        assert archive.namelist() == ["labels.txt", "spiece.model"]
        assert archive.read("spiece.model") == tokenizer.model_bytes
    assert len(schema.Model.GetRootAs(content).Subgraphs(0).OutputsAsNumpy()) == 1
    for name in (b"ids", b"mask", b"segment_ids"):
        assert bytes([len(name), 0, 0, 0]) + name + b"\0" in content


@pytest.mark.peers
@pytest.mark.parametrize("options", [{}, {"quantize": "dynamic"}])
def test_mediapipe_answers_as_keras(options, exported, classifier, tokenizer):
    pytest.importorskip("mediapipe")
    report = exported(**options)
    answer = subprocess.run(
        [sys.executable, "-c", page_script(), report.path],
        input=json.dumps(TEXTS),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert answer.returncode == 0, answer.stderr
    lines = [line[5:] for line in answer.stdout.splitlines() if line.startswith("ODDS ")]
    features = tokenizer(
        TEXTS, padding=True, truncation=True, split_special_tokens=True, return_tensors="np"
    )
    expected = np.asarray(classifier.probabilities(classifier(dict(features))["logits"]))
    assert len(set(expected.argmax(axis=1))) > 1
    tolerance = report.differences["ids"].tolerance
    for (head, probabilities), row in zip(map(json.loads, lines), expected, strict=True):
        assert head == "probabilities"
        found = [probabilities[name] for name in ("bad", "naïve", "good")]
        np.testing.assert_allclose(found, row, rtol=0, atol=tolerance)
        assert np.argmax(found) == row.argmax()


@pytest.mark.parametrize(
    ("task", "options", "message"),
    [
        ("token-classification", {}, "of texts. Received: AlbertForTokenClassification"),
        ("regression", {}, "of texts. Received: regression"),
        ("several-labels", {"pairs": True}, "one text at a time.* Received: pairs. Leave it out"),
        ("several-labels", {"lengths": (8,), "batch": 2}, "Received: lengths, batch. Leave them"),
    ],
)
def test_refuses(task, options, message, make_model, tokenizer, tmp_path):
    options = {"host": "mediapipe", **options}
    with pytest.raises(UserError, match=message):
        export_tflite(make_model(task), tokenizer, tmp_path / "a.tflite", **options)
    assert not list(tmp_path.iterdir())


def test_refuses_a_vocabulary_with_capitals(classifier, tiny_vocabulary):
    cased = AlbertTokenizer(tiny_vocabulary)
    vars(cased)["do_lower_case"] = False  # an assignment is refused
    with pytest.raises(UserError, match="lower-case its texts.*do_lower_case=False"):
        check_mediapipe(classifier, cased, TFLiteOptions(host="mediapipe"))


def test_refuses_turkish_letters(classifier):
    """MediaPipe makes I an i before the vocabulary could make it an ı."""
    turkish = AlbertTokenizer(train_vocabulary(TEXTS, 60, turkish_i=True))
    with pytest.raises(UserError, match="lower-case I to i"):
        check_mediapipe(classifier, turkish, TFLiteOptions(host="mediapipe"))
