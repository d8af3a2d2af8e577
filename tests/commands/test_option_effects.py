"""Each option of a command changes the result, or is refused."""

import importlib
import json

import pytest

from albert_tf.options import declared

LONG = "She, née Rome, sells bread near the lights. " * 9
MASKED = f"Née Rome, she sells [MASK] near the lights. {LONG}"
# A value of each option that isn't its default; None for sizes of batches, which change no result.
VALUES = {
    "aggregation": "none",
    "batch_size": None,
    "context": "In the harbour.",
    "encoding": "cp1252",
    "force": True,
    "input": "other.txt",
    "json": True,
    "labels": "sport,politics",
    "normalize": True,
    "output": "vectors.jsonl",
    "pairs": True,
    "pooling": "cls",
    "question": "Who?",
    "text_column": "second",
    "text_pair_column": "second",
    "top_k": 2,
    "unanswerable": True,
}
# By command: a line for each way to give texts.
LINES = {
    "embed": [
        [LONG],
        ["--input", "text.txt"],
        ["--input", "table.csv"],
        [LONG, "--output", "there.npy"],
    ],
    "tag": [[LONG], ["--input", "text.txt"], ["--input", "table.csv"]],
    "fill-mask": [[MASKED], ["--input", "text.txt"], ["--input", "table.csv"]],
    "answer": [
        ["--question", "Where?", "--context", LONG, "--top-k", 900],
        ["--input", "questions.jsonl", "--top-k", 900],
        ["--input", "questions.jsonl"],
    ],
    "predict": [[LONG], ["--input", "text.txt"], ["--input", "table.csv", "--json"]],
}


# Options that ask for what is the case already.
IDLE = {
    ("embed", "json"): "without --output there is nothing but JSON",
    ("embed", "force"): "there is no file to replace",
    ("answer", "unanswerable"): "the best answer may be one",
}


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text.txt").write_text(MASKED)
    (tmp_path / "other.txt").write_text("Who sells bread? [MASK]")
    (tmp_path / "table.csv").write_text(f'text,second\n"{MASKED}",A [MASK] of bread.\n')
    rows = {"question": "Where?", "context": LONG}
    (tmp_path / "questions.jsonl").write_text(json.dumps(rows))
    return tmp_path


@pytest.mark.parametrize(
    ("command", "line"), [(name, row) for name in LINES for row in LINES[name]]
)
def test_an_option_changes_the_result_or_is_refused(request, run, classifier, files, command, line):
    ask = None if command == "predict" else request.getfixturevalue("ask")

    def outcome(*options):
        for name in ("vectors.jsonl", "there.npy"):
            (files / name).unlink(missing_ok=True)
        given = (
            (command, *line, *options) if ask else (command, "--model", classifier, *line, *options)
        )
        status, output, errors = (ask or run)(*given)
        assert status in (0, 2) and "Traceback" not in errors
        there = sorted((path.name, path.read_bytes()) for path in files.iterdir())
        return (status, output, there) if status == 0 else "refused"

    expected = outcome()
    assert expected != "refused"
    module = importlib.import_module(f"albert_tf.commands.{command.replace('-', '_')}")
    given = {"model", "text", *(str(word)[2:].replace("-", "_") for word in line)}
    without = []
    for name in declared(module.OPTIONS).keys() - given:
        flag, value = f"--{name.replace('_', '-')}", VALUES[name]
        options = [flag] if value is True else [flag, value]
        if value is not None and outcome(*options) == expected:
            without.append((command, name))
    assert set(without) <= IDLE.keys()
