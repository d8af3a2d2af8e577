import contextlib
import csv
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
from albert_tf.data.readers import rows_of
from albert_tf.data.table_output import write_table
from albert_tf.data.tables import Columns
from albert_tf.models import AlbertForSequenceClassification, AlbertModel
from albert_tf.pipelines import pipeline
from albert_tf.text.tokenizer import AlbertTokenizer

pytestmark = pytest.mark.usefixtures("without_graphs")


def test_probabilities_of_a_file_as_json_and_as_text(run, classifier, tmp_path):
    texts = ["A quiet delight.", "", "Déjà vu", "Dull."]
    (tmp_path / "texts.txt").write_text("\n".join(texts) + "\n", encoding="utf-8")
    given = ["predict", "--model", classifier]
    _, output, _ = run(*given, "--input", tmp_path / "texts.txt", "--json")
    rows = [json.loads(line) for line in output.splitlines()]
    assert [row["text"] for row in rows] == texts
    for row in rows:
        assert sum(row["probabilities"].values()) == pytest.approx(1, abs=1e-6)
        assert row["probabilities"][row["label"]] == max(row["probabilities"].values())
    _, plain, _ = run(*given, "--batch-size", 1, *texts)
    for line, row in zip(plain.splitlines(), rows, strict=True):
        label, probability = line.split("\t")
        assert label == row["label"]
        assert float(probability) == pytest.approx(row["probabilities"][label], abs=1e-4)


FILES = [
    ("texts.gz", "\ufeffGood, quiet\r\nDull.\n", []),
    ("dev.csv", 'id,text,label\n1,"Good, quiet",x\n2,Dull.,y\n', []),
    ("dev.csv", "id;body\n1;Good, quiet\n2;Dull.\n", ["--text-column", "body"]),
    ("dev.json", '[{"a": {"b": "Good, quiet"}}, {"a": {"b": "Dull."}}]', ["--text-column", "a.b"]),
    ("dev.jsonl.gz", '{"text": "Good, quiet"}\n{"text": "Dull."}\n', []),
]


def test_texts_of_a_file(run, classifier, tmp_path):
    """A table's header and its other columns are not texts."""
    given = ["predict", "--model", classifier, "--json"]
    expected = run(*given, "Good, quiet", "Dull.")
    assert expected[0] == 0
    for name, content, options in FILES:
        data = content.encode()
        (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
        assert run(*given, "--input", tmp_path / name, *options)[:2] == expected[:2], name


def test_pairs_of_a_table(run, classifier, tmp_path):
    (tmp_path / "dev.csv").write_text("text,other\nOne\tand.,Two.\n,Three.\n")
    given = ["predict", "--model", classifier, "--json"]
    columns = ["--input", tmp_path / "dev.csv", "--text-pair-column", "other"]
    output = run(*given, *columns)[1]
    assert output == run(*given, "--pairs", "One and.\tTwo.", "\tThree.")[1]
    assert json.loads(output.splitlines()[0])["text"] == "One and.\tTwo."


@pytest.mark.slow
def test_a_stream(classifier):
    """Expects answers before the input ends, bounded memory, and a clean end on a closed pipe."""
    command = [sys.executable, "-m", "albert_tf.cli", "predict", "--model", str(classifier)]
    process = subprocess.Popen(
        [*command, "--batch-size", "4"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )

    def write(text, lines):
        process.stdin.write(f"{text}\n" * lines)
        process.stdin.flush()

    def send(text, lines):
        """Writes lines and reads all answers but those of the last, unfilled batch."""
        sender = threading.Thread(target=write, args=(text, lines))
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
        write("A quiet delight.", 100)
        process.stdin.close()
    assert process.wait() == 0
    assert "Traceback" not in process.stderr.read()


def test_a_damaged_file_is_found_on_the_way(run, classifier, tmp_path):
    """Prints labels up to the damage, and names the file."""
    whole = gzip.compress(b"A quiet delight.\n" + os.urandom(9_000).hex().encode())
    (tmp_path / "cut.gz").write_bytes(whole[:5_000])
    given = ["predict", "--model", classifier, "--batch-size", 1]
    status, output, errors = run(*given, "--input", tmp_path / "cut.gz")
    assert (status, errors.count("\n")) == (2, 1)
    assert f"{tmp_path / 'cut.gz'} is not a valid .gz file" in errors
    assert output.startswith(("good\t", "bad\t"))


def test_tags(run, model_folder, tmp_path):
    tagger = model_folder("tag")
    texts = ["The old square", "", " ".join(["fresh bread , coffee and cakes"] * 9)]
    (tmp_path / "texts.txt").write_text("\n".join(texts) + "\n")
    status, output, _ = run("predict", "--model", tagger, "--input", tmp_path / "texts.txt")
    assert status == 0
    lines = output.splitlines()
    assert lines.count("") == 2  # between the texts
    rows = [line.split("\t") for line in lines if line]
    assert [word for word, _ in rows] == " ".join(texts).split()
    tags = [tag for _, tag in rows]
    assert len(set(tags)) > 1
    _, output, _ = run("predict", "--model", tagger, "--batch-size", 1, "--json", *texts)
    found = [json.loads(line) for line in output.splitlines()]
    assert [each["text"] for each in found] == texts
    assert [tag for each in found for tag in each["tags"]] == tags
    assert all(0 < probability <= 1 for each in found for probability in each["probabilities"])
    status, _, errors = run("predict", "--model", tagger, "--pairs", "One.\tTwo.")
    assert status == 2 and "--pairs requires a text-pair model" in errors


def test_labels_that_no_training_named(run, classifier, tiny_vocabulary, tmp_path):
    tokenizer = AlbertTokenizer(tiny_vocabulary)
    config = AlbertConfig.from_size(
        "tiny",
        vocab_size=tokenizer.vocab_size,
        num_hidden_layers=1,
        id2label={0: "entailment", 1: "not_entailment"},
        initializer_range=0.3,
    )
    AlbertForSequenceClassification(config).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    found = pipeline("zero-shot-classification", tmp_path)("It was cold.", ["good", "cold", "late"])
    command = ["predict", "--model", tmp_path, "--labels", "good,cold,late"]
    status, output, _ = run(*command, "It was cold.")
    assert status == 0 and output == f"{found['labels'][0]}\t{found['scores'][0]:.4f}\n"
    row = json.loads(run(*command, "--json", "It was cold.")[1])
    assert row["label"] == found["labels"][0]
    scores = dict(zip(found["labels"], found["scores"], strict=True))
    assert row["probabilities"] == pytest.approx(scores)
    status, _, error = run("predict", "--model", classifier, "--labels", "good,bad", "It.")
    assert status == 2 and "a label 'entailment'" in error


def test_each_number_of_a_regression_model(run, tiny_vocabulary, scrambled, tmp_path):
    """In the model's order, whichever is larger."""
    tokenizer = AlbertTokenizer(tiny_vocabulary)
    sizes = {"vocab_size": tokenizer.vocab_size, "num_hidden_layers": 1}
    names = {0: "price", 1: "age", 2: "size"}
    config = AlbertConfig.from_size("tiny", **sizes, id2label=names, problem_type="regression")
    for part in (scrambled(AlbertForSequenceClassification(config)), tokenizer):
        part.save_pretrained(tmp_path)
    row = json.loads(run("predict", "--model", tmp_path, "--json", "It was cold.")[1])
    table, output = tmp_path / "table.csv", tmp_path / "out.jsonl"
    table.write_text("text\nIt was cold.\n")
    run("predict", "--model", tmp_path, "--input", table, "--output", output)
    numbers = pytest.approx([*row["probabilities"].values()], rel=1e-5)
    assert json.loads(output.read_text()) == {"text": "It was cold.", "score": numbers}
    assert row["labels"] == [*names.values()] == [*row["probabilities"]]
    assert len({*row["probabilities"].values()}) == 3
    _, output, _ = run("predict", "--model", tmp_path, "It was cold.")
    cells = (f"{name}\t{value:.4f}" for name, value in row["probabilities"].items())
    assert output == "\t".join(cells) + "\n"


def test_cosines_of_pairs(run, classifier, tmp_path):
    """A folder of sentence-transformers compares pairs."""
    model = AlbertModel.from_pretrained(classifier)
    model.save_pretrained(tmp_path)
    sentence_transformers.write(tmp_path, SentenceEmbedding("mean"), model.config.hidden_size)
    command = ["predict", "--model", tmp_path]
    pairs = ["A quiet delight.\tDull.", "Dull.\tDull."]
    status, output, _ = run(*command, "--pairs", *pairs, "--json")
    assert status == 0
    rows = [json.loads(line) for line in output.splitlines()]
    embed = pipeline("feature-extraction", tmp_path, normalize=True, return_tensors=True)
    expected = float(embed("A quiet delight.") @ embed("Dull."))
    assert [row["text"] for row in rows] == pairs
    assert [row["cosine"] for row in rows] == pytest.approx([expected, 1], abs=1e-5)
    (tmp_path / "table.csv").write_text("text,other\nA quiet delight.,Dull.\nDull.,Dull.\n")
    given = ["--input", tmp_path / "table.csv", "--text-pair-column", "other"]
    run(*command, *given, "--output", tmp_path / "out.jsonl")
    found = map(json.loads, (tmp_path / "out.jsonl").read_text().splitlines())
    assert [row["cosine"] for row in found] == pytest.approx([expected, 1], abs=1e-5)
    _, plain, _ = run(*command, "--pairs", *pairs)
    assert plain.splitlines() == [f"{row['cosine']:.4f}" for row in rows]
    for options, way_out in (([], "Pass --pairs"), (["--labels", "a,b"], "language inference")):
        status, _, errors = run(*command, "Dull.", *options)
        assert status == 2
        assert str(tmp_path) in errors and way_out in errors


def test_a_table_with_labels(run, classifier, tmp_path):
    """The columns of the input stay as they are, and a name that is taken isn't replaced."""
    table, output = tmp_path / "table.csv", tmp_path / "out.csv"
    texts = ["A quiet delight.", "", 'Dull, "they" said.', *(f"Text {n}." for n in range(8))]
    rows = [{"id": f"0{number}", "text": text} for number, text in enumerate(texts)]
    write_table(table, ["id", "text"], rows, ".csv")
    command = ["predict", "--model", classifier, "--input", table, "--batch-size", 4]
    status, printed, _ = run(*command, "--output", output)
    assert (status, printed) == (0, f"label, score added: {output}\n")
    _, plain, _ = run(*command)
    with output.open(newline="") as file:
        found = list(csv.DictReader(file))
    assert [{name: row[name] for name in ("id", "text")} for row in found] == rows
    cells = [f"{row['label']}\t{float(row['score']):.4f}" for row in found]
    assert cells == plain.splitlines()

    again = tmp_path / "again.csv"
    run("predict", "--model", classifier, "--input", output, "--output", again)
    assert (
        again.read_text().splitlines()[0] == "id,text,label,score,predicted_label,predicted_score"
    )
    for options, reason in (
        (["--input", again, "--output", tmp_path / "third.csv"], "predicted_label"),
        (["--input", table, "--output", output], "exists"),
        (["--input", table, "--output", tmp_path / "out.xlsx"], ".parquet"),
        (["--output", tmp_path / "third.csv", "A text."], "Pass a table with --input"),
        (["--input", table, "--output", table, "--force"], "would replace the input"),
    ):
        before = {path: path.read_bytes() for path in tmp_path.iterdir()}
        status, _, errors = run("predict", "--model", classifier, *options)
        assert status == 2 and reason in errors
        assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before
    run(*command, "--output", output, "--force")
    assert len(output.read_text().splitlines()) == 12
    table.write_text("text,note,note\na,b,c\n")
    run(*command, "--output", output, "--force")
    assert output.read_text().startswith("text,note,note.1,label,score\na,b,c,")
    table.write_text("text,note\n")
    status, _, errors = run(*command, "--output", tmp_path / "third.csv")
    assert status == 2 and "at least one row" in errors


def test_a_table_with_several_labels(run, tiny_vocabulary, scrambled, tmp_path):
    tokenizer = AlbertTokenizer(tiny_vocabulary)
    config = AlbertConfig.from_size(
        "tiny",
        vocab_size=tokenizer.vocab_size,
        id2label={0: "loud", 1: "cold, wet"},
        problem_type="multi_label_classification",
        thresholds=(0.0, 0.0),
    )
    for part in (scrambled(AlbertForSequenceClassification(config)), tokenizer):
        part.save_pretrained(tmp_path)
    (tmp_path / "table.jsonl").write_text('{"text": "It was cold."}\n')
    for suffix, kind in ((".jsonl", list), (".csv", json.loads)):
        output = tmp_path / f"out{suffix}"
        run("predict", "--model", tmp_path, "--input", tmp_path / "table.jsonl", "--output", output)
        (row,) = (row.fields for row in rows_of(output, Columns("text")))
        assert kind(row["label"]) == ["loud", "cold, wet"] and len(kind(row["score"])) == 2


def test_a_tagging_model_writes_no_table(run, model_folder, tmp_path):
    (tmp_path / "table.csv").write_text("text\nIt was cold.\n")
    given = ["--input", tmp_path / "table.csv", "--output", tmp_path / "out.csv"]
    status, _, errors = run("predict", "--model", model_folder("tag"), *given)
    assert status == 2 and "a tagging model" in errors
