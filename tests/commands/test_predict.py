import contextlib
import gzip
import json
import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from albert_tf.checkpoints import sentence_transformers
from albert_tf.checkpoints.sentence_transformers import SentenceEmbedding
from albert_tf.config import AlbertConfig
from albert_tf.models import (
    AlbertForSequenceClassification,
    AlbertForTokenClassification,
    AlbertModel,
)
from albert_tf.pipelines import pipeline
from albert_tf.text.tokenizer import AlbertTokenizer

NESTED = ["--text-column", "a.b"]

pytestmark = pytest.mark.usefixtures("without_graphs")


def test_predict_from_a_file_as_json(run, classifier, tmp_path):
    texts = ["A quiet delight.", "", "Déjà vu", "Dull."]
    (tmp_path / "texts.txt").write_text("\n".join(texts) + "\n", encoding="utf-8")
    _, output, _ = run(
        "predict", "--model", classifier, "--input", tmp_path / "texts.txt", "--json"
    )
    rows = [json.loads(line) for line in output.splitlines()]
    assert [row["text"] for row in rows] == texts
    for row in rows:
        assert sum(row["probabilities"].values()) == pytest.approx(1, abs=1e-6)
        assert row["probabilities"][row["label"]] == max(row["probabilities"].values())
    _, plain, _ = run("predict", "--model", classifier, "--batch-size", 1, *texts)
    for line, row in zip(plain.splitlines(), rows, strict=True):
        label, probability = line.split("\t")
        assert label == row["label"]
        assert float(probability) == pytest.approx(row["probabilities"][label], abs=1e-4)


def test_predict_pairs(run, classifier):
    status, output, _ = run("predict", "--model", classifier, "--pairs", "One.\tTwo.", "--json")
    assert status == 0
    assert json.loads(output)["text"] == "One.\tTwo."
    status, _, errors = run("predict", "--model", classifier, "--pairs", "One. Two.")
    assert status == 2
    assert "A pair must be two texts with a tab between. Received: 'One. Two.'" in errors


@pytest.mark.parametrize(
    ("name", "content", "options"),
    [
        ("dev.csv", 'id,text,label\n1,"Good, quiet",x\n2,Dull.,y\n', []),
        ("dev.csv", "id;body\n1;Good, quiet\n2;Dull.\n", ["--text-column", "body"]),
        ("dev.tsv", "text\tlabel\nGood, quiet\tx\nDull.\ty\n", []),
        ("dev.json", '[{"a": {"b": "Good, quiet"}}, {"a": {"b": "Dull."}}]', NESTED),
        ("dev.jsonl.gz", '{"text": "Good, quiet"}\n{"text": "Dull."}\n', []),
    ],
)
def test_predict_a_table(run, classifier, tmp_path, name, content, options):
    """The header is no text, and other columns are none."""
    data = content.encode()
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    given = ["predict", "--model", classifier, "--json"]
    status, output, _ = run(*given, "--input", tmp_path / name, *options)
    assert (status, output) == (0, run(*given, "Good, quiet", "Dull.")[1])


def test_predict_pairs_of_a_table(run, classifier, tmp_path):
    (tmp_path / "dev.csv").write_text("text,other\nOne\tand.,Two.\n,Three.\n")
    given = ["predict", "--model", classifier, "--json"]
    columns = ["--input", tmp_path / "dev.csv", "--text-pair-column", "other"]
    assert run(*given, *columns)[1] == run(*given, "--pairs", "One and.\tTwo.", "\tThree.")[1]


def test_predict_refuses_a_table_without_the_column(run, classifier, tmp_path):
    path = tmp_path / "dev.csv"
    path.write_text("body,label\nGood.,x\n")
    status, output, errors = run("predict", "--model", classifier, "--input", path)
    assert (status, output) == (2, "")
    assert "The file must have a column 'text'" in errors and "--text-column" in errors
    status, _, errors = run("predict", "--model", classifier, "a", "--text-column", "body")
    assert status == 2 and "--text-column needs a table of texts" in errors


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [[], ["-"], ["--input", "-"]])
def test_predict_from_a_pipe(classifier, arguments):
    command = [sys.executable, "-m", "albert_tf.cli", "predict", "--model", str(classifier)]
    found = subprocess.run(
        [*command, *arguments], input="Good.\nDull.\n", capture_output=True, text=True, check=True
    )
    labels = [line.split("\t")[0] for line in found.stdout.splitlines()]
    assert len(labels) == 2 and set(labels) <= {"bad", "good"}


@pytest.mark.slow
def test_predict_streams(classifier):
    """Expects answers before the input ends, bounded memory, and a clean end on a closed pipe."""
    process = subprocess.Popen(
        [sys.executable, "-m", "albert_tf.cli", "predict", "--model", str(classifier)]
        + ["--input", "-", "--batch-size", "4"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )

    def send(text, lines):
        """Writes lines and reads all answers but those of the last, unfilled batch."""
        sender = threading.Thread(
            target=lambda: (
                [process.stdin.write(text + "\n") for _ in range(lines)] + [process.stdin.flush()]
            )
        )
        sender.start()
        for _ in range(lines - 4):
            assert process.stdout.readline().split("\t")[0] in ("bad", "good")
        sender.join()

    def peak():
        status = Path(f"/proc/{process.pid}/status").read_text()
        return 1024 * int(re.search(r"VmHWM:\s+(\d+) kB", status)[1])

    send("A quiet delight.", 8)
    long = "The music stayed with me for days. " * 400
    send(long, 40)
    before = peak()
    send(long, 2000)  # 28 MB of text
    assert peak() - before < 20e6
    process.stdout.close()
    with contextlib.suppress(BrokenPipeError):
        for _ in range(100):
            process.stdin.write("A quiet delight.\n")
        process.stdin.close()
    assert process.wait() == 0
    assert "Traceback" not in process.stderr.read()


def test_a_damaged_file_is_found_on_the_way(run, classifier, tmp_path):
    """Answers up to the damage, and names the file."""
    whole = gzip.compress(b"A quiet delight.\n" + os.urandom(9_000).hex().encode())
    (tmp_path / "cut.gz").write_bytes(whole[:5_000])
    status, output, errors = run(
        "predict", "--model", classifier, "--batch-size", 1, "--input", tmp_path / "cut.gz"
    )
    assert (status, errors.count("\n")) == (2, 1)
    assert f"must be whole gzip. Received: {tmp_path / 'cut.gz'}" in errors
    assert output.startswith(("good\t", "bad\t"))


def test_a_compressed_file(run, classifier, tmp_path):
    texts = ["A quiet delight.", "Dull."]
    with gzip.open(tmp_path / "texts.gz", "wb") as file:
        file.write("\ufeffA quiet delight.\r\nDull.\n".encode())
    found = run("predict", "--model", classifier, "--input", tmp_path / "texts.gz")
    assert found == run("predict", "--model", classifier, *texts)


@pytest.fixture(scope="module")
def tagger(tiny_vocabulary, scrambled, tmp_path_factory):
    """Returns the directory of a model with random weights that tags."""
    from albert_tf.text.tokenizer import AlbertTokenizer

    tokenizer = AlbertTokenizer(tiny_vocabulary, model_max_length=24)
    folder = tmp_path_factory.mktemp("tagger")
    labels = dict(enumerate(("O", "B-PER", "I-PER")))
    config = AlbertConfig.from_size(
        "tiny",
        vocab_size=tokenizer.vocab_size,
        num_hidden_layers=1,
        id2label=labels,
        max_position_embeddings=16,
    )
    scrambled(AlbertForTokenClassification(config)).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def test_predict_tags(run, tagger, tmp_path):
    texts = ["The old square", "", "fresh bread , coffee and cakes on the corner"]
    (tmp_path / "texts.txt").write_text("\n".join(texts) + "\n")
    status, output, _ = run("predict", "--model", tagger, "--input", tmp_path / "texts.txt")
    assert status == 0
    rows = [
        [line.split("\t") for line in block.split("\n") if line] for block in output.split("\n\n")
    ]
    assert [[word for word, _ in block] for block in (rows[0], rows[-1])] == [
        text.split() for text in (texts[0], texts[2])
    ]
    tags = [tag for _, tag in rows[0] + rows[-1]]
    assert len(set(tags)) > 1
    status, output, _ = run("predict", "--model", tagger, "--batch-size", 1, "--json", *texts)
    found = [json.loads(line) for line in output.splitlines()]
    assert [each["text"] for each in found] == texts
    assert [tag for each in found for tag in each["tags"]] == tags
    assert all(0 < probability <= 1 for each in found for probability in each["probabilities"])
    status, _, errors = run("predict", "--model", tagger, "--pairs", "One.\tTwo.")
    assert status == 2
    assert "--pairs needs a model of pairs" in errors


def test_tags_of_test_files(run, tagger, tmp_path):
    """A file without tags; the predictions are those of the texts."""
    (tmp_path / "test.conll").write_text("The\nold\nsquare\n\nbread\n")
    arguments = ("evaluate", "--model", tagger, "--task", "tag", "--data", tmp_path)
    status, output, _ = run(*arguments, "--submission", tmp_path / "out")
    assert (status, output) == (0, f"{tmp_path / 'out' / 'predictions.conll'}\n")
    _, alone, _ = run("predict", "--model", tagger, "The old square", "bread")
    assert (tmp_path / "out" / "predictions.conll").read_text() == alone + "\n"


def test_predict_labels_that_no_training_named(run, classifier, tiny_vocabulary, tmp_path):
    config = AlbertConfig.from_size(
        "tiny",
        vocab_size=AlbertTokenizer(tiny_vocabulary).vocab_size,
        num_hidden_layers=1,
        id2label={0: "entailment", 1: "not_entailment"},
        initializer_range=0.3,
    )
    AlbertForSequenceClassification(config).save_pretrained(tmp_path)
    AlbertTokenizer(tiny_vocabulary).save_pretrained(tmp_path)
    labels = ["good", "cold", "late"]
    found = pipeline("zero-shot-classification", tmp_path)("It was cold.", labels)
    command = ["predict", "--model", tmp_path, "--labels", "good,cold,late"]
    status, output, _ = run(*command, "It was cold.")
    assert status == 0 and output == f"{found['labels'][0]}\t{found['scores'][0]:.4f}\n"
    row = json.loads(run(*command, "--json", "It was cold.")[1])
    assert row["label"] == found["labels"][0] and set(row["probabilities"]) == set(labels)
    status, _, error = run("predict", "--model", classifier, "--labels", "good,bad", "It.")
    assert status == 2 and "a label 'entailment'" in error


@pytest.fixture
def sentence_model(classifier, tmp_path):
    """A folder of sentence-transformers."""
    model = AlbertModel.from_pretrained(classifier)
    model.save_pretrained(tmp_path / "vectors")
    embedding = SentenceEmbedding("mean")
    sentence_transformers.write(tmp_path / "vectors", embedding, model.config.hidden_size)
    return tmp_path / "vectors"


def test_cosines_of_pairs(run, sentence_model):
    given = ["A quiet delight.\tDull.", "Dull.\tDull."]
    status, output, _ = run("predict", "--model", sentence_model, "--pairs", *given, "--json")
    assert status == 0
    rows = [json.loads(line) for line in output.splitlines()]
    embed = pipeline("feature-extraction", sentence_model, normalize=True, return_tensors=True)
    expected = float(embed("A quiet delight.") @ embed("Dull."))
    assert [row["text"] for row in rows] == given
    assert [row["cosine"] for row in rows] == pytest.approx([expected, 1], abs=1e-5)
    _, plain, _ = run("predict", "--model", sentence_model, "--pairs", *given)
    assert plain.splitlines() == [f"{row['cosine']:.4f}" for row in rows]


@pytest.mark.parametrize(
    ("given", "way_out"),
    [(["Dull."], "give --pairs"), (["--labels", "a,b", "Dull."], "natural language inference")],
)
def test_a_model_of_vectors_needs_pairs(run, sentence_model, given, way_out):
    status, _, errors = run("predict", "--model", sentence_model, *given)
    assert status == 2
    assert str(sentence_model) in errors and way_out in errors
