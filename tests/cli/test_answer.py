import json

from albert_tf.pipelines import pipeline

CONTEXT = "In 1999, about 20,000 people came to see the harbour lights. " * 3


def test_answer(ask, task_model):
    questions = ["Who came?", "What did people see?"]
    arguments = [part for question in questions for part in ("--question", question)]
    status, output, _ = ask("answer", *arguments, "--context", CONTEXT)
    assert status == 0
    answer = pipeline("question-answering", *task_model("answer"))
    expected = answer(question=questions, context=CONTEXT)
    assert output.split("\n\n") == [
        f"{each['score']:.4f}\t{each['start']}\t{each['end']}\t{each['answer']}" + "\n" * (not more)
        for more, each in zip((1, 0), expected, strict=True)
    ]


def test_answer_from_a_file(ask, tmp_path):
    rows = [{"question": "Who?", "context": CONTEXT, "id": 7}, {"question": "W", "context": "Z."}]
    lines = "\n\n".join(json.dumps(row) for row in rows) + "\n"
    (tmp_path / "questions.jsonl").write_text(lines)
    options = ["--unanswerable", "--top-k", 2, "--json"]
    status, output, _ = ask("answer", "--input", tmp_path / "questions.jsonl", *options)
    assert status == 0
    found = [json.loads(line) for line in output.splitlines()]
    assert [(row["question"], row.get("id")) for row in found] == [("Who?", 7), ("W", None)]
    for row, given in zip(found, rows, strict=True):
        assert len(row["answers"]) == 2
        for each in row["answers"]:
            assert given["context"][each["start"] : each["end"]] == each["answer"]
