"""The inputs and outputs that the commands on texts share."""

import gzip
import json
import os
import shutil

import pytest

from albert_tf.cli import predict
from albert_tf.pipelines.base import SORTED


@pytest.mark.parametrize("command", ["tag", "embed", "fill-mask"])
def test_texts_from_a_file(ask, command, tmp_path):
    texts = ["The [MASK] was quiet.", "She sells [MASK]."]
    (tmp_path / "texts.txt").write_text("\n".join(texts) + "\n", encoding="utf-8")
    options = ["--json", "--batch-size", 1]
    from_file = ask(command, "--input", tmp_path / "texts.txt", *options)
    assert from_file == ask(command, *texts, *options)
    assert [json.loads(line)["text"] for line in from_file[1].splitlines()] == texts
    (tmp_path / "texts.csv").write_text("text\nDéjà [MASK].\n", encoding="cp1252")
    from_table = ask(command, "--input", tmp_path / "texts.csv", "--encoding", "cp1252", "--json")
    assert from_table == ask(command, "Déjà [MASK].", "--json")


@pytest.mark.posix
@pytest.mark.parametrize(("name", "pack"), [("texts", bytes), ("texts.gz", gzip.compress)])
def test_texts_from_a_pipe_with_a_path(ask, tmp_path, name, pack):
    """As a shell passes `<(zcat texts.gz)`."""
    reader, writer = os.pipe()
    os.write(writer, pack(b"It was cold.\nDull.\n"))
    os.close(writer)
    (tmp_path / name).symlink_to(f"/dev/fd/{reader}")
    found = ask("tag", "--input", tmp_path / name)
    os.close(reader)
    assert found == ask("tag", "It was cold.", "Dull.")


@pytest.mark.parametrize(
    ("command", "arguments", "message"),
    [
        ("tag", "", "either as arguments or with --input."),
        ("tag", "a --input -", "either as arguments or with --input"),
        ("tag", "- --input texts.txt", "either as arguments or with --input"),
        ("tag", "a -", "Standard input (-) can't be combined"),
        ("tag", "a --text-column body", "--text-column requires a table of texts (.tsv, .csv,"),
        ("tag", "--input reviews.NDJSON", "must end in .tsv, .csv, .jsonl"),
        (
            *("predict", "--input table.csv"),
            "must have a column 'text'. Received: table.csv, with the columns 'body', 'label'. "
            "Name one of these with --text-column. If the first line is an example, insert a line",
        ),
        (
            *("predict", "--input table.csv --text-column body --text-pair-column other"),
            "with the columns 'body', 'label'. Name one of these with --text-pair-column. ",
        ),
        ("predict", "--input rows.jsonl", "with 'body'. Rename one of these, or name it with"),
        ("predict", "--input sheet.xlsx", "Received: sheet.xlsx. Save the sheet as CSV."),
        ("predict", "--pairs one", "separated by a tab. Received: 'one'."),
        ("fill-mask", "mask", "must contain the mask token [MASK]. Received: 'mask'"),
        ("answer", "--question a", "--question requires --context"),
        ("answer", "--question= --context c", "--question must not be empty"),
        ("answer", "--input bad.jsonl", "bad.jsonl, line 2, is not valid JSON:"),
        (
            "answer",
            "--input half.jsonl",
            "half.jsonl, line 1, must be a JSON object with non-empty strings",
        ),
        ("answer", "--input blank.jsonl", "blank.jsonl, line 3, must be a JSON object with"),
    ],
)
def test_mistakes(ask, tmp_path, monkeypatch, command, arguments, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.jsonl").write_text("\n{'question'\n")
    (tmp_path / "half.jsonl").write_text('{"question": "a"}\n')
    (tmp_path / "blank.jsonl").write_text('\n\n{"question": " ", "context": "a"}\n')
    (tmp_path / "reviews.NDJSON").write_text('{"text": "a"}\n')
    (tmp_path / "table.csv").write_text("body,label\nGood.,x\n")
    (tmp_path / "sheet.xlsx").touch()
    (tmp_path / "rows.jsonl").write_text('{"body": "Good."}\n')
    status, output, errors = ask(command, *arguments.split())
    assert (status, output, errors.count("\n")) == (2, "", 1)
    assert message in errors


def test_bytes_that_are_not_utf_8_are_printed(ask, tmp_path):
    row = rb'{"question": "Who \ud83d?", "context": "people \udce9 came ' + b'\xe9 to see"}'
    (tmp_path / "questions.jsonl").write_bytes(row + b"\n")
    (tmp_path / "texts.txt").write_bytes(b"people \xe9 came [MASK]\n")
    for options in ((), ("--json",)):
        for command in ("answer", "tag", "predict", "fill-mask"):
            name = "questions.jsonl" if command == "answer" else "texts.txt"
            status, output, errors = ask(command, "--input", tmp_path / name, *options)
            assert (status, errors) == (0, "")
            output.encode()


@pytest.mark.parametrize("name", ["predict", "tag"])
def test_labels_of_strangers_cannot_reach_a_terminal(ask, model_folder, tmp_path, name):
    """Lines for people show control characters escaped; JSON contains the labels unchanged."""
    hostile = "red \x1b[31m\tLOC\t1.0\nnext\u2028\x9b\u202e"
    shown = r"red \x1b[31m\tLOC\t1.0\nnext\u2028\x9b\u202e"
    folder = shutil.copytree(model_folder(name), tmp_path / "model")
    config = json.loads((folder / "config.json").read_text())
    labels = {number: hostile + number for number in config["id2label"]}
    config |= {"id2label": labels, "label2id": {label: int(n) for n, label in labels.items()}}
    (folder / "config.json").write_text(json.dumps(config))
    for command in {"predict", name}:
        status, output, errors = ask(command, "people", model=folder)
        assert (status, output.count("\n"), errors) == (0, 1, "")
        assert shown in output
        assert output.rstrip("\n").replace("\t", "").isprintable()
        _, output, _ = ask(command, "people", "--json", model=folder)
        assert json.dumps(hostile, ensure_ascii=False)[1:-1] in output


@pytest.mark.parametrize(
    ("given", "ahead"),
    [
        ({"text": ("a",)}, SORTED),
        ({"input": "texts.txt"}, SORTED),
        ({"input": "-"}, 1),
        ({"text": ("-",)}, 1),
    ],
)
@pytest.mark.usefixtures("loaded_once")
def test_a_file_is_sorted_and_a_pipe_answered_at_once(classifier, given, ahead):
    options = predict.OPTIONS(model=str(classifier), **given)
    assert options.pipeline("text-classification").ahead == ahead
