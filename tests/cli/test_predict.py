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

import numpy as np
import pyarrow.parquet
import pytest

from albert_tf.cli import predict
from albert_tf.data.readers import rows_of
from albert_tf.data.table_output import write_table
from albert_tf.data.tables import Columns
from albert_tf.errors import UserError
from albert_tf.pipelines import pipeline


def test_probabilities_of_a_file_as_json_and_as_text(ask, tmp_path):
    texts = ["A quiet delight.", "", "Déjà vu", "Dull."]
    (tmp_path / "texts.txt").write_text("\n".join(texts) + "\n", encoding="utf-8")
    _, output, _ = ask("predict", "--input", tmp_path / "texts.txt", "--json")
    rows = [json.loads(line) for line in output.splitlines()]
    assert [row["text"] for row in rows] == texts
    for row in rows:
        assert sum(row["probabilities"].values()) == pytest.approx(1, abs=1e-6)
        assert row["probabilities"][row["label"]] == max(row["probabilities"].values())
    _, plain, _ = ask("predict", "--batch-size", 1, *texts)
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


def test_texts_of_a_file(ask, tmp_path):
    """A table's header and its other columns are not texts."""
    expected = ask("predict", "--json", "Good, quiet", "Dull.")
    assert expected[0] == 0
    for name, content, options in FILES:
        data = content.encode()
        (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
        found = ask("predict", "--json", "--input", tmp_path / name, *options)
        assert found[:2] == expected[:2], name


def test_pairs_of_a_table(ask, tmp_path):
    (tmp_path / "dev.csv").write_text("text,other\nOne\tand.,Two.\n,Three.\n")
    columns = ["--input", tmp_path / "dev.csv", "--text-pair-column", "other"]
    output = ask("predict", "--json", *columns)[1]
    assert output == ask("predict", "--json", "--pairs", "One and.\tTwo.", "\tThree.")[1]
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


def test_a_damaged_file_is_found_on_the_way(ask, tmp_path):
    """Prints labels up to the damage, and names the file."""
    whole = gzip.compress(b"A quiet delight.\n" + os.urandom(9_000).hex().encode())
    (tmp_path / "cut.gz").write_bytes(whole[:5_000])
    given = ["--batch-size", 1, "--input", tmp_path / "cut.gz"]
    status, output, errors = ask("predict", *given)
    assert (status, errors.count("\n")) == (2, 1)
    assert f"{tmp_path / 'cut.gz'} is not a valid .gz file" in errors
    assert output.startswith(("good\t", "bad\t"))


def test_tags(ask, model_folder, tmp_path):
    tagger = model_folder("tag")
    texts = ["The old square", "", " ".join(["fresh bread , coffee and cakes"] * 9)]
    (tmp_path / "texts.txt").write_text("\n".join(texts) + "\n")
    status, output, _ = ask("predict", "--input", tmp_path / "texts.txt", model=tagger)
    assert status == 0
    lines = output.splitlines()
    assert lines.count("") == 2  # between the texts
    rows = [line.split("\t") for line in lines if line]
    assert [word for word, _ in rows] == " ".join(texts).split()
    tags = [tag for _, tag in rows]
    assert len(set(tags)) > 1
    _, output, _ = ask("predict", "--batch-size", 1, "--json", *texts, model=tagger)
    found = [json.loads(line) for line in output.splitlines()]
    assert [each["text"] for each in found] == texts
    assert [tag for each in found for tag in each["tags"]] == tags
    assert all(0 < probability <= 1 for each in found for probability in each["probabilities"])
    (tmp_path / "table.csv").write_text("text\nIt was cold.\n")
    for options, message in (
        (["--pairs", "One.\tTwo."], "--pairs requires a text-pair model"),
        (["--input", tmp_path / "table.csv", "--output", tmp_path / "out.csv"], "a tagging model"),
    ):
        status, _, errors = ask("predict", *options, model=tagger)
        assert status == 2 and message in errors


def test_labels_that_no_training_named(ask, task_model, model_folder):
    folder, given = model_folder("zero-shot"), ["--labels", "good,cold,late", "It was cold."]
    classify = pipeline("zero-shot-classification", *task_model("zero-shot"))
    found = classify("It was cold.", ["good", "cold", "late"])
    status, output, _ = ask("predict", *given, model=folder)
    assert status == 0 and output == f"{found['labels'][0]}\t{found['scores'][0]:.4f}\n"
    row = json.loads(ask("predict", *given, "--json", model=folder)[1])
    assert row["label"] == found["labels"][0]
    scores = dict(zip(found["labels"], found["scores"], strict=True))
    assert row["probabilities"] == pytest.approx(scores)
    status, _, error = ask("predict", *given)
    assert status == 2 and "a label 'entailment'" in error


def test_each_number_of_a_regression_model(ask, model_folder, tmp_path):
    """In the model's order, whichever is larger."""
    folder = model_folder("regression")
    row = json.loads(ask("predict", "--json", "It was cold.", model=folder)[1])
    assert row["labels"] == ["price", "age", "size"] == [*row["probabilities"]]
    assert len({*row["probabilities"].values()}) == 3
    _, output, _ = ask("predict", "It was cold.", model=folder)
    cells = (f"{name}\t{value:.4f}" for name, value in row["probabilities"].items())
    assert output == "\t".join(cells) + "\n"
    table, output = tmp_path / "table.csv", tmp_path / "out.jsonl"
    table.write_text("text\nIt was cold.\n")
    ask("predict", "--input", table, "--output", output, model=folder)
    numbers = pytest.approx([*row["probabilities"].values()], rel=1e-5)
    assert json.loads(output.read_text()) == {"text": "It was cold.", "score": numbers}


def test_cosines_of_pairs(ask, task_model, sentence_folder, tmp_path):
    """A folder of sentence-transformers compares pairs."""
    folder, pairs = sentence_folder, ["A quiet delight.\tDull.", "Dull.\tDull."]
    embed = pipeline("feature-extraction", *task_model("embed"), pooling="max", normalize=True)
    first, second = map(np.array, embed(["A quiet delight.", "Dull."]))
    cosines = pytest.approx([first @ second, 1], abs=1e-5)
    _, output, _ = ask("predict", "--pairs", *pairs, "--json", model=folder)
    rows = [json.loads(line) for line in output.splitlines()]
    assert [row["text"] for row in rows] == pairs
    assert [row["cosine"] for row in rows] == cosines
    table, output = tmp_path / "table.csv", tmp_path / "out.jsonl"
    table.write_text("text,other\nA quiet delight.,Dull.\nDull.,Dull.\n")
    given = ["--input", table, "--text-pair-column", "other", "--output", output]
    ask("predict", *given, model=folder)
    found = map(json.loads, output.read_text().splitlines())
    assert [row["cosine"] for row in found] == cosines
    _, plain, _ = ask("predict", "--pairs", *pairs, model=folder)
    assert plain.splitlines() == [f"{row['cosine']:.4f}" for row in rows]
    for options, way_out in (([], "Pass --pairs"), (["--labels", "a,b"], "language inference")):
        status, _, errors = ask("predict", "Dull.", *options, model=folder)
        assert status == 2
        assert str(folder) in errors and way_out in errors


def test_a_table_with_labels(ask, tmp_path):
    """The columns of the input stay as they are, and a name that is taken isn't replaced."""
    table, output = tmp_path / "table.csv", tmp_path / "out.csv"
    texts = ["A quiet delight.", "", 'Dull, "they" said.', *(f"Text {n}." for n in range(8))]
    rows = [{"id": f"0{number}", "text": text} for number, text in enumerate(texts)]
    write_table(table, ["id", "text"], rows, ".csv")
    given = ["predict", "--input", table, "--batch-size", 4]
    status, printed, _ = ask(*given, "--output", output)
    assert (status, printed) == (0, f"label, score added: {output}\n")
    _, plain, _ = ask(*given)
    with output.open(newline="") as file:
        found = list(csv.DictReader(file))
    assert [{name: row[name] for name in ("id", "text")} for row in found] == rows
    cells = [f"{row['label']}\t{float(row['score']):.4f}" for row in found]
    assert cells == plain.splitlines()

    again = tmp_path / "again.csv"
    ask("predict", "--input", output, "--output", again)
    header = "id,text,label,score,predicted_label,predicted_score"
    assert again.read_text().splitlines()[0] == header
    for options, reason in (
        (["--input", again, "--output", tmp_path / "third.csv"], "predicted_label"),
        (["--input", table, "--output", output], "exists"),
        (["--input", table, "--output", tmp_path / "out.xlsx"], ".parquet"),
        (["--output", tmp_path / "third.csv", "A text."], "Pass a table with --input"),
        (["--input", table, "--output", table, "--force"], "would replace the input"),
    ):
        before = {path: path.read_bytes() for path in tmp_path.iterdir()}
        status, _, errors = ask("predict", *options)
        assert status == 2 and reason in errors
        assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before
    ask(*given, "--output", output, "--force")
    assert len(output.read_text().splitlines()) == 12
    table.write_text("text,note,note\na,b,c\n")
    ask(*given, "--output", output, "--force")
    assert output.read_text().startswith("text,note,note.1,label,score\na,b,c,")
    table.write_text("text,note\n")
    status, _, errors = ask(*given, "--output", tmp_path / "third.csv")
    assert status == 2 and "at least one row" in errors


def test_values_that_the_output_lacks_are_found_before_predictions(classifier, tmp_path):
    table, output = tmp_path / "table.csv", tmp_path / "out.tsv"
    table.write_bytes(b'text\nA quiet delight.\n"Two\rlines."\n')
    options = predict.OPTIONS(model=str(classifier), input=str(table), output=output)
    with pytest.raises(UserError, match="carriage return"):
        predict.check(options)


def test_columns_of_a_parquet_table_keep_their_types(ask, tmp_path):
    """Python's values would lose the types; some types have no values in Python."""
    columns = {
        "text": (["A quiet delight.", "Dull."], pyarrow.dictionary("int8", "string")),
        "label": ([1, None], "int8"),
        "nanoseconds": ([1, 2], pyarrow.timestamp("ns")),
        "bytes": ([b"\xff", b""], "binary"),
        "objects": ([[("a", 1)], []], pyarrow.map_("string", "int8")),
    }
    arrays = {name: pyarrow.array(values, kind) for name, (values, kind) in columns.items()}
    table = pyarrow.table(arrays, metadata={"note": "a"})
    path, output = tmp_path / "table.parquet", tmp_path / "out.parquet"
    pyarrow.parquet.write_table(table, path)
    assert ask("predict", "--input", path, "--output", output)[0] == 0
    table, found = map(pyarrow.parquet.read_table, (path, output))
    assert found.select(table.column_names).equals(table, check_metadata=True)
    assert found.column_names[5:] == ["predicted_label", "predicted_score"]
    assert set(found["predicted_label"].to_pylist()) <= {"bad", "good"}


def test_a_table_with_several_labels(ask, model_folder, tmp_path):
    table = tmp_path / "table.jsonl"
    table.write_text('{"text": "It was cold."}\n')
    for suffix, kind in ((".jsonl", list), (".csv", json.loads)):
        output = tmp_path / f"out{suffix}"
        ask("predict", "--input", table, "--output", output, model=model_folder("multi-label"))
        (row,) = (row.fields for row in rows_of(output, Columns("text")))
        assert kind(row["label"]) == ["loud", "cold, wet"] and len(kind(row["score"])) == 2
