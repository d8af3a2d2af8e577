"""Commands on top of `albert_tf.pipeline`, run in this process."""

import dataclasses
import json

import numpy as np
import pytest

from albert_tf import cli, models
from albert_tf.config import AlbertConfig
from albert_tf.pipelines import pipeline
from albert_tf.text.tokenizer import AlbertTokenizer

TEXTS = ["She sells fresh bread and coffee.", "", "In 1999 the béll 😀 died."]
CONTEXT = "In 1999, about 20,000 people came to see the harbour lights. " * 3
KINDS = {
    "fill-mask": "AlbertForMaskedLM",
    "answer": "AlbertForQuestionAnswering",
    "tag": "AlbertForTokenClassification",
    "embed": "AlbertModel",
}


@pytest.fixture(scope="module")
def model(tiny_vocabulary, tmp_path_factory, scrambled):
    """Returns a function from a command to the directory of a model with random weights."""
    tokenizer = AlbertTokenizer(tiny_vocabulary, model_max_length=48)
    labels = dict(enumerate(("B-PER", "I-PER", "B-LOC")))
    config = AlbertConfig.from_size("tiny", vocab_size=tokenizer.vocab_size)
    folders = {}

    def get(command):
        if command not in folders:
            folder = tmp_path_factory.mktemp(command)
            changed = dataclasses.replace(config, id2label=labels if command == "tag" else None)
            scrambled(getattr(models, KINDS[command])(changed)).save_pretrained(folder)
            tokenizer.save_pretrained(folder)
            folders[command] = folder
        return folders[command]

    return get


@pytest.fixture
def run(capsys, model):
    """Returns a function that runs a command with its model."""

    def main(command, *arguments):
        given = [command, "--model", model(command), *arguments]
        status = cli.main([str(argument) for argument in given])
        return status, *capsys.readouterr()

    return main


def json_lines(output):
    return [json.loads(line) for line in output.splitlines()]


def test_fill_mask(run, model):
    text, two = "The [MASK] was quiet.", "The [MASK] was [MASK]."
    status, output, _ = run("fill-mask", text, two, "--top-k", 3)
    assert status == 0
    groups = [group.splitlines() for group in output.split("\n\n")]
    assert [len(group) for group in groups] == [3, 3, 3]
    expected = pipeline("fill-mask", model("fill-mask"), top_k=3)(text)
    assert groups[0] == [
        f"{each['score']:.4f}\t{each['token_str']}\t{each['sequence']}" for each in expected
    ]
    rows = json_lines(run("fill-mask", text, two, "--top-k", 3, "--json")[1])
    assert [row["text"] for row in rows] == [text, two]
    assert [len(row["masks"]) for row in rows] == [1, 2]
    assert rows[0]["masks"][0][0]["token"] == expected[0]["token"]


def test_fill_mask_among_targets(run, model):
    pieces = AlbertTokenizer.from_pretrained(model("fill-mask")).get_vocab()
    targets = [piece for piece in pieces if piece.startswith("▁") and len(piece) > 2][:2]
    status, output, _ = run("fill-mask", "--json", "The [MASK].", "--targets", *targets)
    assert status == 0
    found = json_lines(output)[0]["masks"][0]
    assert {each["token"] for each in found} == {pieces[target] for target in targets}


def test_answer(run, model, tmp_path):
    questions = ["Who came?", "What did people see?"]
    arguments = [part for question in questions for part in ("--question", question)]
    status, output, _ = run("answer", *arguments, "--context", CONTEXT)
    assert status == 0
    expected = pipeline("question-answering", model("answer"))(question=questions, context=CONTEXT)
    assert output.split("\n\n") == [
        f"{each['score']:.4f}\t{each['start']}\t{each['end']}\t{each['answer']}" + "\n" * (not more)
        for more, each in zip((1, 0), expected, strict=True)
    ]
    (tmp_path / "story.txt").write_text(CONTEXT, encoding="utf-8")
    again = run("answer", *arguments, "--context-file", tmp_path / "story.txt")
    assert again == (0, output, "")


def test_answer_from_a_file(run, tmp_path):
    rows = [{"question": "Who?", "context": CONTEXT, "id": 7}, {"question": "W", "context": "Z."}]
    lines = "\n\n".join(json.dumps(row) for row in rows) + "\n"
    (tmp_path / "questions.jsonl").write_text(lines)
    options = ["--unanswerable", "--top-k", 2, "--json", "--doc-stride", 6]
    status, output, _ = run("answer", "--input", tmp_path / "questions.jsonl", *options)
    assert status == 0
    found = json_lines(output)
    assert [(row["question"], row.get("id")) for row in found] == [("Who?", 7), ("W", None)]
    for row, given in zip(found, rows, strict=True):
        assert len(row["answers"]) == 2
        for each in row["answers"]:
            assert given["context"][each["start"] : each["end"]] == each["answer"]


@pytest.mark.parametrize("aggregation", ["none", "simple", "first", "average", "max"])
def test_tag(run, model, aggregation):
    status, output, _ = run("tag", *TEXTS, "--aggregation", aggregation, "--json")
    assert status == 0
    rows = json_lines(output)
    assert [row["text"] for row in rows] == TEXTS
    tag = pipeline("ner", model("tag"), aggregation_strategy=aggregation)
    for row, expected in zip(rows, tag(TEXTS), strict=True):
        assert len(row["entities"]) == len(expected)
        for each, other in zip(row["entities"], expected, strict=True):
            assert each == {**other, "score": pytest.approx(other["score"], abs=1e-5)}
    assert sum(len(row["entities"]) for row in rows) > 2


def test_tag_in_words(run, model):
    status, output, _ = run("tag", *TEXTS)
    assert status == 0
    found = pipeline("ner", model("tag"), aggregation_strategy="simple")(TEXTS)
    assert found[0] and not found[1] and found[2]
    groups = [
        "".join(
            f"{each['entity_group']}\t{each['score']:.4f}\t{each['start']}\t{each['end']}\t"
            f"{each['word']}\n"
            for each in entities
        )
        for entities in found
    ]
    assert output == "\n".join(groups)


@pytest.mark.parametrize("pooling", ["mean", "cls", "pooler"])
def test_embed(run, model, tmp_path, pooling):
    texts = [*TEXTS, CONTEXT]
    extract = pipeline(
        "feature-extraction", model("embed"), pooling=pooling, stride=10, return_tensors=True
    )
    expected = np.stack(extract(texts))
    options = [*texts, "--pooling", pooling, "--stride", 10]
    status, output, errors = run("embed", *options)
    assert (status, errors) == (0, "")
    rows = json_lines(output)
    assert [row["text"] for row in rows] == texts
    np.testing.assert_allclose([row["vector"] for row in rows], expected, atol=1e-5)
    status, output, _ = run("embed", *options, "--output", tmp_path / "vectors.npy", "--json")
    assert json.loads(output) == {"texts": 4, "output": str(tmp_path / "vectors.npy")}
    array = np.load(tmp_path / "vectors.npy", allow_pickle=False)
    assert array.dtype == "float32"
    np.testing.assert_allclose(array, expected, atol=1e-5)
    status, output, _ = run("embed", *options, "--output", tmp_path / "vectors.jsonl")
    assert output == f"4 vectors in {tmp_path / 'vectors.jsonl'}\n"
    written = json_lines((tmp_path / "vectors.jsonl").read_text(encoding="utf-8"))
    assert written == rows


def test_embed_replaces_a_file_only_with_force(run, tmp_path):
    output = tmp_path / "vectors.npy"
    assert run("embed", "a", "--output", output)[0] == 0
    before = output.read_bytes()
    status, _, errors = run("embed", "a", "b", "--output", output)
    assert status == 2
    assert "--force" in errors
    assert output.read_bytes() == before
    assert run("embed", "a", "b", "--output", output, "--force")[0] == 0
    assert len(np.load(output)) == 2


@pytest.mark.parametrize("command", ["tag", "embed", "fill-mask"])
def test_texts_from_a_file(run, command, tmp_path):
    texts = ["The [MASK] was quiet.", "She sells [MASK]."]
    (tmp_path / "texts.txt").write_text("\n".join(texts) + "\n", encoding="utf-8")
    options = ["--json", "--batch-size", 1]
    from_file = run(command, "--input", tmp_path / "texts.txt", *options)
    assert from_file == run(command, *texts, *options)
    assert [row["text"] for row in json_lines(from_file[1])] == texts


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("fill-mask",), "Texts come as arguments or with --input"),
        (("fill-mask", "a", "--input", "-"), "Texts come as arguments or with --input"),
        (("fill-mask", "no mask"), "must have the mask token, [MASK]. Received: 'no mask'"),
        (("fill-mask", "--targets", "▁a", "[MASK]"), "Texts come before --targets"),
        (("fill-mask", "[MASK]", "--top-k", 0), "top_k must be 1 or more"),
        (("fill-mask", "[MASK]", "--batch-size", 0), "batch_size must be 1 or more"),
        (("tag", "a", "--stride", -1), "stride must be 0 or more"),
        (("tag", "a", "--stride", 46), "smaller than the pieces of a window"),
        (("tag", "--input", "{tmp}/none"), "No such file or directory"),
        (("tag", "a " * 99, "--stride", 46), "smaller than the pieces of a window"),
        (("embed", "a", "--output", "{tmp}/v.csv"), "must end in .npy or .jsonl"),
        (("answer", "--context", "a"), "Questions come with --question, or with --input"),
        (("answer", "--question", "a", "--input", "b"), "or with --input. Received: neither, or"),
        (("answer", "--question", "a"), "Received: one without the other"),
        (("answer", "--input", "b", "--context", "c"), "Received: one without the other"),
        (("answer", "--question", "", "--context", "c"), "A question must not be empty"),
        (("answer", "--question", "a", "--context-file", "{tmp}/none"), "No such file"),
        (("answer", "--input", "{tmp}/bad.jsonl"), "bad.jsonl, line 2, must be JSON:"),
        (("answer", "--input", "{tmp}/half.jsonl"), "with the texts question and context"),
        (("answer", "--question", "a", "--context", "b", "--batch-size", -1), "1 or more"),
    ],
)
def test_a_users_mistake_is_one_line_and_status_2(run, tmp_path, arguments, message):
    (tmp_path / "bad.jsonl").write_text("\n{'question'\n")
    (tmp_path / "half.jsonl").write_text('{"question": "a"}\n')
    command, *options = [str(argument).format(tmp=tmp_path) for argument in arguments]
    status, output, errors = run(command, *options)
    assert (status, output) == (2, "")
    assert errors.startswith("albert-tf: error: ")
    assert message in errors


@pytest.mark.parametrize(
    ("command", "other"), [("fill-mask", "embed"), ("tag", "fill-mask"), ("answer", "tag")]
)
def test_another_tasks_model(model, capsys, command, other):
    given = {"answer": ["--question", "a", "--context", "b"]}.get(command, ["a [MASK]"])
    assert cli.main([command, "--model", str(model(other)), *given]) == 2
    assert "must have been trained for it" in capsys.readouterr().err


@pytest.mark.parametrize("command", KINDS)
def test_help_has_examples(command, capsys):
    with pytest.raises(SystemExit, match="0"):
        cli.main([command, "--help"])
    assert f"albert-tf {command} --model" in capsys.readouterr().out


def test_invalid_utf_8_is_printed(run, tmp_path):
    row = rb'{"question": "Who \ud83d?", "context": "people \udce9 came ' + b'\xe9 to see"}'
    (tmp_path / "questions.jsonl").write_bytes(row + b"\n")
    (tmp_path / "texts.txt").write_bytes(b"people \xe9 came [MASK]\n")
    for options in ((), ("--json",)):
        status, output, errors = run("answer", "--input", tmp_path / "questions.jsonl", *options)
        assert (status, errors) == (0, "")
        output.encode()
        for command in ("tag", "fill-mask"):
            status, output, errors = run(command, "--input", tmp_path / "texts.txt", *options)
            assert (status, errors) == (0, "")
            output.encode()


def test_embed_replaces_no_folder(run, tmp_path):
    output = tmp_path / "vectors.npy"
    output.mkdir()
    (output / "old.txt").write_text("old")
    status, _, errors = run("embed", "a", "--output", output, "--force")
    assert status == 2
    assert "--force replaces files alone" in errors
    assert (output / "old.txt").read_text() == "old"


def test_embed_takes_short_windows(run, model):
    """Windows have 48 pieces: an overlap of 64 is impossible, the default of a quarter is not."""
    found = json_lines(run("embed", CONTEXT)[1])[0]["vector"]
    given = json_lines(run("embed", CONTEXT, "--stride", 11)[1])[0]["vector"]
    np.testing.assert_allclose(found, given, atol=1e-6)
