"""The inputs and outputs that the commands on texts share."""

import json

import pytest

from albert_tf import cli
from albert_tf.commands import predict
from albert_tf.commands.text_options import load
from albert_tf.pipelines import pipeline
from albert_tf.pipelines.base import SORTED

KINDS = ("fill-mask", "answer", "tag", "embed")


@pytest.mark.parametrize("command", ["tag", "embed", "fill-mask"])
def test_texts_from_a_file(ask, command, tmp_path):
    texts = ["The [MASK] was quiet.", "She sells [MASK]."]
    (tmp_path / "texts.txt").write_text("\n".join(texts) + "\n", encoding="utf-8")
    options = ["--json", "--batch-size", 1]
    from_file = ask(command, "--input", tmp_path / "texts.txt", *options)
    assert from_file == ask(command, *texts, *options)
    assert [json.loads(line)["text"] for line in from_file[1].splitlines()] == texts


@pytest.mark.parametrize(
    ("command", "arguments", "message"),
    [
        ("tag", "", "Texts come as arguments or with --input"),
        ("tag", "a --input -", "Texts come as arguments or with --input"),
        ("tag", "a --batch-size 0", "batch_size must be 1 or more"),
        ("tag", "--input none", "none, which doesn't exist"),
        ("tag", "a --text-column body", "--text-column needs a table of texts (.tsv, .csv,"),
        ("tag", "--input reviews.NDJSON", "must end in .tsv, .csv, .jsonl"),
        ("tag", "--input reviews.CSV", "must end in .tsv, .csv, .jsonl"),
        ("fill-mask", "mask", "must have the mask token, [MASK]. Received: 'mask'"),
        ("fill-mask", "[MASK] --top-k 0", "top_k must be 1 or more"),
        ("answer", "--context a", "Give --input or --question"),
        ("answer", "--question a", "--question needs --context"),
        ("answer", "--question= --context c", "A question must not be empty"),
        ("answer", "--input bad.jsonl", "bad.jsonl, line 2, must be JSON:"),
        ("answer", "--input half.jsonl", "with the texts question and context"),
    ],
)
def test_mistakes(ask, tmp_path, monkeypatch, command, arguments, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.jsonl").write_text("\n{'question'\n")
    for name in ("reviews.NDJSON", "reviews.CSV"):
        (tmp_path / name).write_text('{"text": "a"}\n')
    (tmp_path / "half.jsonl").write_text('{"question": "a"}\n')
    status, output, errors = ask(command, *arguments.split())
    assert (status, output, errors.count("\n")) == (2, "", 1)
    assert message in errors


def test_another_tasks_model(run, task_model, tmp_path):
    """The commands read a model's folder, and refuse one that was not trained for them."""
    model, tokenizer = task_model("fill-mask")
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    status, output, _ = run("fill-mask", "--model", tmp_path, "a [MASK]", "--json")
    expected = pipeline("fill-mask", model, tokenizer)("a [MASK]")
    assert status == 0
    assert json.loads(output)["masks"][0][0]["token"] == expected[0]["token"]
    for command in ("tag", "answer"):
        given = ["--question", "a", "--context", "b"] if command == "answer" else ["a"]
        status, _, errors = run(command, "--model", tmp_path, *given)
        assert (status, "must have an AlbertFor" in errors) == (2, True)


@pytest.mark.parametrize("command", KINDS)
def test_help_has_examples(command, capsys):
    with pytest.raises(SystemExit, match="0"):
        cli.main([command, "--help"])
    assert f"albert-tf {command} --model" in capsys.readouterr().out


def test_bytes_that_are_not_utf_8_are_printed(ask, tmp_path):
    row = rb'{"question": "Who \ud83d?", "context": "people \udce9 came ' + b'\xe9 to see"}'
    (tmp_path / "questions.jsonl").write_bytes(row + b"\n")
    (tmp_path / "texts.txt").write_bytes(b"people \xe9 came [MASK]\n")
    for options in ((), ("--json",)):
        for command, name in (
            ("answer", "questions.jsonl"),
            ("tag", "texts.txt"),
            ("predict", "texts.txt"),
            ("fill-mask", "texts.txt"),
        ):
            status, output, errors = ask(command, "--input", tmp_path / name, *options)
            assert (status, errors) == (0, "")
            output.encode()


HOSTILE = "red \x1b[31m\tLOC\t1.0\nnext\u2028\x9b\u202e"
SHOWN = r"red \x1b[31m\tLOC\t1.0\nnext\u2028\x9b\u202e"


def test_labels_of_strangers_cannot_reach_a_terminal(run, tiny_vocabulary, tmp_path):
    """Lines that a person reads show controls escaped; JSON has the labels as they are."""
    from albert_tf import models
    from albert_tf.config import AlbertConfig
    from albert_tf.text.tokenizer import AlbertTokenizer

    tokenizer = AlbertTokenizer(tiny_vocabulary, model_max_length=24)
    labels = {0: HOSTILE, 1: HOSTILE + "2"}
    config = AlbertConfig.from_size("tiny", vocab_size=tokenizer.vocab_size, id2label=labels)
    for name in ("SequenceClassification", "TokenClassification"):
        getattr(models, f"AlbertFor{name}")(config).save_pretrained(tmp_path / name)
        tokenizer.save_pretrained(tmp_path / name)
    for command, name in (
        ("predict", "SequenceClassification"),
        ("predict", "TokenClassification"),
        ("tag", "TokenClassification"),
    ):
        given = (command, "--model", tmp_path / name, "people")
        status, output, errors = run(*given)
        assert (status, output.count("\n"), errors) == (0, 1, "")
        assert SHOWN in output
        assert output.rstrip("\n").replace("\t", "").isprintable()
        _, output, _ = run(*given, "--json")
        assert json.dumps(HOSTILE, ensure_ascii=False)[1:-1] in output


@pytest.mark.parametrize(("source", "ahead"), [(None, SORTED), ("texts.txt", SORTED), ("-", 1)])
def test_a_file_is_sorted_and_a_pipe_answered_at_once(classifier, source, ahead):
    options = predict.OPTIONS(model=str(classifier), input=source, text=() if source else ("a",))
    assert load("text-classification", options).ahead == ahead
