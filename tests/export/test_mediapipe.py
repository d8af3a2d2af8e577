"""MediaPipe's TextClassifier and TextEmbedder return for strings what Keras returns."""

import io
import json
import re
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.interpreter import Interpreter
from albert_tf_export import export_tflite
from albert_tf_export.options import TFLiteOptions
from albert_tf_export.tflite import check_mediapipe

from albert_tf import AlbertModel, pipeline
from albert_tf.checkpoints import sentence_transformers
from albert_tf.checkpoints.sentence_transformers import SentenceEmbedding
from albert_tf.errors import UserError
from albert_tf.text.model_file import ModelProto
from albert_tf.text.tokenizer import AlbertTokenizer
from tests.export.conftest import stored_matrices

TEXTS = [
    "A quiet delight from start to finish.",
    "",
    "Crème brûlée, 12 euros; NEVER closed! [CLS] <pad> [SEP] <unk>",
    "Ταξίδι στην Αθήνα; 東京への旅 🦕 ﬁne İstanbul ẞ",
    "noisy mess " * 40,
    "slow",
]
# In place of the last line of the page's block for a task.
ANSWERS = {
    "TextClassifier": """
    for line in json.load(sys.stdin):
        (head,) = classifier.classify(line).classifications
        found = {each.category_name: each.score for each in head.categories}
        print("ANSWER", json.dumps([head.head_name, found]))
""",
    "TextEmbedder": """
    for line in json.load(sys.stdin):
        (head,) = embedder.embed(line).embeddings
        print("ANSWER", json.dumps([head.head_name, head.embedding.tolist()]))
""",
}
PAGE = Path(__file__).parents[2] / "docs" / "mobile.md"


def answers(task, path):
    """Runs the page's Python for a MediaPipe task, with another file and with `TEXTS`.

    It runs in its own process because MediaPipe contains another TensorFlow Lite.

    Returns:
        The name of the output and its values, for each text.
    """
    blocks = re.findall(r"```python\n(.*?)\n```", PAGE.read_text("utf-8"), re.DOTALL)
    (block,) = (each for each in blocks if "mediapipe" in each)
    imports, *parts = block.split("\n\n")
    (part,) = (each for each in parts if f"text.{task}." in each)
    part, last = part.rsplit("\n", 1)
    assert last.startswith("    print(")
    part, count = re.subn(r'(?<=model_asset_path=)"[\w.]+"', "sys.argv[1]", part)
    assert count == 1
    done = subprocess.run(
        [sys.executable, "-c", f"import json, sys\n{imports}\n{part}{ANSWERS[task]}", path],
        input=json.dumps(TEXTS),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    return [json.loads(line[7:]) for line in lines if line.startswith("ANSWER ")]


def test_the_file_has_what_mediapipe_reads(checked, tokenizer):
    """It is stored in float16, and the layers are unrolled."""
    options = {"host": "mediapipe", "quantize": "float16"}
    report = checked(export_tflite, "sequence-classification", **options)
    assert report.differences["ids"].output == "probabilities"
    assert report.differences["ids"].value < 5e-3
    assert {of for _, of in stored_matrices(report.path)} == {"FLOAT16"}
    content = report.path.read_bytes()
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        assert archive.namelist() == ["labels.txt", "spiece.model"]
        assert archive.read("spiece.model") == tokenizer.model_bytes
    model = schema.Model.GetRootAs(content)
    assert model.SubgraphsLength() == 1  # no loop
    assert len(model.Subgraphs(0).OutputsAsNumpy()) == 1
    for name in (b"ids", b"mask", b"segment_ids"):
        assert bytes([len(name), 0, 0, 0]) + name + b"\0" in content


@pytest.mark.peers
@pytest.mark.parametrize("options", [{}, {"quantize": "dynamic"}])
def test_mediapipe_answers_as_keras(options, checked, classifier, tokenizer):
    pytest.importorskip("mediapipe")
    report = checked(export_tflite, classifier, host="mediapipe", **options)
    features = tokenizer(
        TEXTS, padding=True, truncation=True, split_special_tokens=True, return_tensors="np"
    )
    expected = np.asarray(classifier.probabilities(classifier(dict(features))["logits"]))
    assert len(set(expected.argmax(axis=1))) > 1
    tolerance = report.differences["ids"].tolerance
    found = answers("TextClassifier", report.path)
    for (head, probabilities), row in zip(found, expected, strict=True):
        assert head == "probabilities"
        values = [probabilities[name] for name in ("bad", "naïve", "good")]
        np.testing.assert_allclose(values, row, rtol=0, atol=tolerance)
        assert np.argmax(values) == row.argmax()


@pytest.fixture(scope="module")
def sentence_model(make_model, tokenizer, tmp_path_factory):
    """Returns an encoder from a sentence-transformers folder: unit vectors, 12 tokens."""
    folder = tmp_path_factory.mktemp("sentences")
    model = make_model("encoder", num_hidden_layers=1)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    embedding = SentenceEmbedding("max", normalize=True, max_length=12)
    sentence_transformers.write(folder, embedding, model.config.hidden_size)
    return AlbertModel.from_pretrained(folder)


def test_the_vectors_of_a_folder(checked, sentence_model, tokenizer):
    report = checked(export_tflite, sentence_model, host="mediapipe")
    assert report.differences["ids"].output == "embedding"
    run = Interpreter(str(report.path)).get_signature_runner("ids")
    long = dict(tokenizer(TEXTS[4], truncation=True, return_tensors="np"))
    assert long["input_ids"].shape == (1, 24)
    expected = pipeline("feature-extraction", sentence_model, tokenizer)(TEXTS[4], truncation=True)
    np.testing.assert_allclose(run(**long)["embedding"], [expected], rtol=0, atol=1e-6)


@pytest.mark.peers
@pytest.mark.parametrize("name", ["a folder", "small"])
def test_mediapipe_returns_the_vectors_of_the_pipeline(
    name, checked, sentence_model, tokenizer, tmp_path
):
    pytest.importorskip("mediapipe")
    if name == "small":
        model, tokenizer = (each.from_pretrained(name) for each in (AlbertModel, AlbertTokenizer))
        options = {"pooling": "mean", "normalize": True}
        path = tmp_path / "vectors.tflite"
        export_tflite(model, tokenizer, path, host="mediapipe", check=False, **options)
    else:
        model, options = sentence_model, {}
        path = checked(export_tflite, model, host="mediapipe").path
    embed = pipeline("feature-extraction", model, tokenizer, truncation=True, **options)
    found = answers("TextEmbedder", path)
    assert [head for head, _ in found] == ["embedding"] * len(TEXTS)
    vectors = np.array([vector for _, vector in found])
    np.testing.assert_allclose(vectors, embed(TEXTS), rtol=0, atol=1e-5)
    assert np.ptp(vectors, axis=0).max() > 0.1  # they differ between texts


@pytest.mark.parametrize(
    ("task", "options", "message"),
    [
        ("token-classification", {}, "Received: AlbertForTokenClassification"),
        ("regression", {}, "Received: regression"),
        ("encoder", {}, "no pooling"),
        ("encoder", {"normalize": True}, "normalize requires pooling"),
        ("several-labels", {"pooling": "cls"}, "pooling='cls'"),
        ("several-labels", {"pairs": True}, "Drop pairs.$"),
        ("several-labels", {"lengths": (8,), "batch": 2}, "Drop lengths, batch.$"),
    ],
)
def test_refuses(task, options, message, model_of, tokenizer, tmp_path):
    options = {"host": "mediapipe", **options}
    with pytest.raises(UserError, match=message):
        export_tflite(model_of(task), tokenizer, tmp_path / "a.tflite", **options)
    assert not list(tmp_path.iterdir())


def test_refuses_capitals_and_turkish_letters(classifier, tokenizer, tiny_vocabulary):
    """MediaPipe lowercases texts, and I to i before the vocabulary could map it to ı."""
    cased = AlbertTokenizer(tiny_vocabulary)
    vars(cased)["do_lower_case"] = False  # an assignment is refused
    model = ModelProto.FromString(tokenizer.model_bytes)
    model.normalizer_spec.name = str(replace(tokenizer.baked, turkish_i=True))
    turkish = AlbertTokenizer(model.SerializeToString())
    for vocabulary, message in ((cased, "do_lower_case=False"), (turkish, "turkish_i")):
        with pytest.raises(UserError, match=message):
            check_mediapipe(classifier, vocabulary, TFLiteOptions(host="mediapipe"))
