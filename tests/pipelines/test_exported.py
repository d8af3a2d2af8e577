"""Pipelines on exported files: the answers of the Keras model, in a process without TensorFlow."""

import json
import shutil
import subprocess
import sys

import pytest
from albert_tf_export.metadata import model_files, with_files

from albert_tf.checkpoints import sentence_transformers
from albert_tf.checkpoints.sentence_transformers import SentenceEmbedding
from albert_tf.errors import UserError
from albert_tf.models import AlbertModel
from albert_tf.pipelines import pipeline
from albert_tf.runtimes import exported
from albert_tf.runtimes.exported import with_checksum
from tests.export.conftest import archive_start
from tests.pipelines.conftest import assert_same

pytestmark = pytest.mark.usefixtures("without_graphs")
TEXTS = ["the cat sat on a mat", "ada", "her old dog who barked at the moon over france lives"]
MASKED = ["the cat sat on a [MASK]", "[MASK] lives near new [MASK] city"]
QUESTIONS = [
    {"question": "who barked", "context": "the old dog who lives near paris barked at the moon"},
    {"question": "the cat", "context": " ".join(TEXTS)},
]
PAIRS = [("the cat sat", "on a mat"), ("ada lives", "near new york city")]
INPUTS = {
    "text-classification": TEXTS,
    "token-classification": TEXTS,
    "question-answering": QUESTIONS,
    "answerability": QUESTIONS,
    "feature-extraction": TEXTS,
    "fill-mask": MASKED,
    "sentence-order": PAIRS,
}
# Prints an exported file's answers, from a process that never imports TensorFlow.
ALONE = """
import json, sys
from albert_tf import pipeline
task, path, inputs = sys.argv[1:]
inputs = [tuple(each) if isinstance(each, list) else each for each in json.loads(inputs)]
print(json.dumps(pipeline(task, path)(inputs)))
assert not {"keras", "tensorflow"} & sys.modules.keys()
"""


def export(model, tokenizer, path, **options):
    from albert_tf_export import export_onnx, export_tflite

    write = export_onnx if path.suffix == ".onnx" else export_tflite
    if path.suffix == ".tflite":
        options["ids_only"] = True
    write(model, tokenizer, path, check=False, **options)
    return path


def run_alone(task, path, inputs):
    """Returns a file's answers from a fresh process, which must print nothing to stderr."""
    command = [sys.executable, "-c", ALONE, task, path, json.dumps(inputs)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


@pytest.mark.parametrize("ending", ["tflite", "onnx"])
@pytest.mark.parametrize("kind", INPUTS)
@pytest.mark.slow
def test_answers_of_a_file_are_those_of_keras(ending, kind, model, tokenizer, tmp_path):
    for package in ("onnxruntime", "tf2onnx") if ending == "onnx" else ():
        pytest.importorskip(package, reason="needs pip install albert_tf[onnx]")
    task = "question-answering" if kind == "answerability" else kind
    path = export(model(kind), tokenizer, tmp_path / f"model.{ending}")
    expected = pipeline(task, model(kind), tokenizer)(INPUTS[kind])
    assert_same(run_alone(task, path, INPUTS[kind]), json.loads(json.dumps(expected)))


@pytest.fixture(scope="module")
def classifier_file(model, tokenizer, tmp_path_factory):
    """Returns the path of an exported classifier that takes two texts of at most 8 tokens."""
    path = tmp_path_factory.mktemp("fixed") / "model.tflite"
    return export(model("text-classification"), tokenizer, path, lengths=(5, 8), batch=2)


def test_a_folder_of_sentence_transformers(saved, classifier_file, tmp_path, monkeypatch):
    """A file carries its modules, so that vectors are those of the folder.

    The file's graph is a classifier's, so Keras computes the states.
    """
    folder, path = tmp_path / "folder", tmp_path / "model.tflite"
    shutil.copytree(saved("feature-extraction"), folder)
    sentence_transformers.write(folder, SentenceEmbedding("cls", normalize=True, max_length=7), 20)
    model = AlbertModel.from_pretrained(folder)
    graph = classifier_file.read_bytes()[: archive_start(classifier_file)]
    path.write_bytes(with_files(graph, with_checksum(graph, model_files(model, model.tokenizer))))
    predict = lambda file, features: model.predict_on_batch(features)  # noqa: E731
    monkeypatch.setattr(exported.ExportedModel, "predict_on_batch", predict)
    expected = pipeline("feature-extraction", folder, truncation=True)(TEXTS)
    assert [len(vector) for vector in expected] == [20] * len(TEXTS)
    assert_same(pipeline("feature-extraction", path, truncation=True)(TEXTS), expected)
    prompts = folder / sentence_transformers.PROMPTS
    prompts.write_text('{"prompts": {"query": "query: "}}')
    with pytest.warns(UserWarning, match="aren't saved: .*no prompts"):
        files = model_files(model, model.tokenizer)
    path.write_bytes(with_files(graph, with_checksum(graph, files)))
    assert exported.ExportedModel(path).sentence_embedding() is None


def test_a_file_of_fixed_lengths(classifier_file, pipe):
    """Short texts take the shorter signature; three texts are two batches of two."""
    expected = pipe("text-classification")
    classify = pipeline("text-classification", classifier_file)
    texts = ["ada", "the cat sat", "her old dog"]
    assert classify.max_length == 8
    assert_same(classify(texts), expected(texts))
    with pytest.warns(UserWarning, match="more than 8 tokens are truncated"):
        assert_same(classify(TEXTS[2]), expected(TEXTS[2], max_length=8, truncation=True))
    with pytest.raises(UserError, match="max_length must be between 3 and 8"):
        classify("ada", max_length=9)


def test_what_a_file_cannot_do_is_refused(classifier_file, tmp_path):
    with pytest.raises(UserError, match="class AlbertForMaskedLM or .* AlbertForSequenceClassif"):
        pipeline("fill-mask", classifier_file)
    (tmp_path / "other.onnx").write_bytes(b"another program's")
    with pytest.raises(UserError, match="other.onnx must contain config.json and a tokenizer"):
        pipeline("fill-mask", tmp_path / "other.onnx")
    files = with_checksum(b"none", exported._verified_files(classifier_file))
    (tmp_path / "cut.tflite").write_bytes(with_files(b"none", files))
    with pytest.raises(UserError, match="cut.tflite is not a valid .tflite file"):
        pipeline("text-classification", tmp_path / "cut.tflite")


def test_a_changed_file_is_refused(classifier_file, tmp_path):
    """A damaged graph and other labels were answered."""
    graph = classifier_file.read_bytes()[: archive_start(classifier_file)]
    files = exported._verified_files(classifier_file)
    config = json.loads(files["config.json"])
    config["id2label"] = {number: f"label {number}" for number in config["id2label"]}
    config["label2id"] = {label: int(number) for number, label in config["id2label"].items()}
    checked = with_checksum(graph, files)
    damaged = graph[:-9] + bytes([graph[-9] ^ 1]) + graph[-8:]
    path = tmp_path / "changed.tflite"
    path.write_bytes(with_files(graph, checked))
    pipeline("text-classification", path)
    for content in (
        with_files(damaged, checked),
        with_files(graph, checked | {"config.json": json.dumps(config).encode()}),
        with_files(graph, files),  # without a checksum
    ):
        path.write_bytes(content)
        with pytest.raises(UserError, match="changed.tflite has (no|the wrong) SHA-256 .*again"):
            pipeline("text-classification", path)


def test_an_archive_that_cannot_be_read(classifier_file, tmp_path):
    """A bit in the directory of the archive says that a file is encrypted."""
    content = bytearray(classifier_file.read_bytes())
    content[content.rindex(b"tokenizer_config.json") - 46 + 8] ^= 1
    path = tmp_path / "changed.tflite"
    path.write_bytes(content)
    with pytest.raises(UserError, match="changed.tflite is damaged: .*encrypted"):
        pipeline("text-classification", path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"id2label": {"0": "a", "1": "b"}}, r"logits \[B, 2\], but .* \['B', 5\]"),
        ({"architectures": ["AlbertForTokenClassification"]}, r"logits \[B, any, 5\], but"),
        ({"architectures": ["AlbertModel"]}, "last_hidden_state .* returned none"),
        ({"architectures": ["AlbertForMultipleChoice"]}, "input_ids of rank 3"),
        ({"architectures": ["AlbertForSimilarity"]}, "classes .*contains AlbertForSim"),
    ],
)
def test_the_archive_of_another_model(classifier_file, tmp_path, changes, message):
    """The checksum is right: another program wrote the archive."""
    graph = classifier_file.read_bytes()[: archive_start(classifier_file)]
    files = exported._verified_files(classifier_file)
    config = {**json.loads(files["config.json"]), **changes}
    config = {key: value for key, value in config.items() if key not in ("label2id", "num_labels")}
    files["config.json"] = json.dumps(config).encode()
    path = tmp_path / "other.tflite"
    path.write_bytes(with_files(graph, with_checksum(graph, files)))
    with pytest.raises(UserError, match=f"other.tflite.*{message}"):
        model = exported.ExportedModel(path)
        pipeline(model.task.pipeline_tag, model, model.tokenizer)("the cat")


def test_a_file_for_some_masks(model, tokenizer, pipe, tmp_path):
    path = export(model("fill-mask"), tokenizer, tmp_path / "model.tflite", predictions=2)
    fill = pipeline("fill-mask", path)
    assert_same(fill(MASKED), pipe("fill-mask")(MASKED))
    with pytest.raises(UserError, match="at most 2 masks .* Received: 3"):
        fill("[MASK] [MASK] [MASK]")
