import json
import os
from pathlib import Path

import numpy as np
import pytest

from albert_tf.data.options import LabelledData
from albert_tf.data.tasks.base import Predicted
from albert_tf.data.tasks.choices import MAX_CHOICE_LENGTH, Choices, choice_rows
from albert_tf.data.tasks.registry import read_split, train_and_dev
from albert_tf.errors import UserError

ROW = {"context": "She rang.", "question": "Why.", "choices": ["It is late.", "Bread."], "label": 0}
ARTICLE = {
    "article": "The harbour lights drew a crowd.",
    "questions": ["What drew a \uff3f crowd.", "Who came."],
    "options": [["big", "small", "old", "new"], ["Dogs.", "Cats.", "People.", "No one."]],
    "answers": ["A", "C"],
}
SWAG = (
    ",startphrase,sent1,sent2,ending0,ending1,ending2,ending3,label\n"
    "0,She sits. She,She sits.,She,rises.,barks.,flies.,rains.,2\n"
)


def task(data=".", name="choices", **others):
    return Choices(LabelledData(task=name, data=Path(data), **others))


def write(path, *rows):
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return path


@pytest.fixture
def race(tmp_path):
    for part in ("train", "dev"):
        for number, level in enumerate(("middle", "high"), start=1):
            folder = tmp_path / part / level
            folder.mkdir(parents=True)
            write(folder / f"{number}.txt", {**ARTICLE, "id": f"{level}{number}.txt"})
    return tmp_path


def test_race(race):
    train, dev = train_and_dev(task(race, "race"), 0.1, 1)
    names = ["middle1.txt-0", "middle1.txt-1", "high2.txt-0", "high2.txt-1"]
    assert [each.id for each in train] == names
    assert [each.part for each in dev] == ["middle", "middle", "high", "high"]
    assert [each.label for each in dev] == [0, 2, 0, 2]
    assert train[2].location == f"{race}/train/high/2.txt, line 1"
    (race / "dev" / "high" / "2.txt").unlink()
    assert len(task(race, "race").read(race / "dev")) == 2
    (race / "dev" / "middle" / "1.txt").unlink()
    with pytest.raises(UserError, match=r"middle/ or high/.* Received: .*dev,"):
        task(race, "race").read(race / "dev")


@pytest.mark.posix
def test_a_pipe_among_articles(race):
    os.mkfifo(race / "dev" / "middle" / "0.txt")
    with pytest.raises(UserError, match=r"middle/0\.txt, which is a pipe"):
        task(race, "race").read(race / "dev")


def test_race_in_rows_as_on_the_hub(tmp_path):
    row = {"article": "A.", "question": "Who?", "options": list("wxyz"), "answer": "D"}
    rows = [{**row, "example_id": f"high{number // 2}.txt"} for number in range(3)]
    path = write(tmp_path / "all.jsonl", *rows)
    found = task(path, "race").read(path)
    assert [each.id for each in found] == ["high0.txt-0", "high0.txt-1", "high1.txt-0"]
    assert {(each.part, each.label) for each in found} == {("high", 3)}


def test_swag(tmp_path):
    (tmp_path / "val.csv").write_text(SWAG)
    (example,) = read_split(task(tmp_path, "swag"), "dev")
    choices = ("rises.", "barks.", "flies.", "rains.")
    assert example[:5] == ("She sits.", "She", choices, 2, "")


def test_own_columns(tmp_path):
    path = tmp_path / "all.csv"
    path.write_text(
        "text,asked,a,b,c,right\nSo it goes.,,One.,Two.,,B\nOn.,Who?,One.,Two.,Three.,2\n"
    )
    columns = {"text_column": "text", "text_pair_column": "asked", "label_column": "right"}
    found = task(path, **columns, choices_columns=("a", "b", "c")).read(path)
    assert [each[:4] for each in found] == [
        ("So it goes.", "", ("One.", "Two."), 1),
        ("On.", "Who?", ("One.", "Two.", "Three."), 2),
    ]


def test_a_file_without_labels(tmp_path):
    path = write(tmp_path / "test.jsonl", {name: ROW[name] for name in ("question", "choices")})
    (example,) = task(path).read(path, labelled=False)
    assert example.label is None and example.context == ""
    with pytest.raises(UserError, match="'label'. Received: .*test.jsonl, line 1"):
        task(path).read(path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"choices": ["a", " "]}, "Choice 1 .*line 1"),
        ({"choices": ["a"]}, "at least two choices. Received: 1 .*line 1"),
        ({"choices": "a b"}, "'choices' must be a list. Received: 'a b' .*line 1"),
        ({"label": 2}, "from 0 to 1.* Received: '2' .*line 1"),
        ({"label": -1}, "Received: '-1'"),
        ({"label": "C"}, "Received: 'C'"),
        ({"label": 0.0}, "Received: '0.0'"),
        ({"label": None}, "'label' must not be empty. Received: .*line 1"),
        ({"context": "", "question": None}, "'context'.* or .*'question'.*line 1.*--text-column"),
    ],
)
def test_bad_rows(tmp_path, changes, message):
    path = write(tmp_path / "a.jsonl", {**ROW, **changes}, ROW)
    with pytest.raises(UserError, match=message):
        task(path).read(path)
    assert len(task(path, skip_bad_rows=True).read(path)) == 1


def test_ids(tmp_path):
    path = write(tmp_path / "a.jsonl", {**ROW, "id": 7}, {**ROW, "id": 8}, {**ROW, "id": 7})
    with pytest.raises(UserError, match="Received: '7', .*line 1 and .*line 3"):
        task(path).read(path)


def test_questions_of_an_article_are_not_split(tmp_path):
    rows = [{**ROW, "context": f"Passage {number // 4}."} for number in range(40)]
    train, dev = train_and_dev(task(write(tmp_path / "a.jsonl", *rows)), 0.2, 1)
    assert len(dev) == 8
    assert not {each.context for each in train} & {each.context for each in dev}


def decoded(rows, tokenizer, number):
    ids, mask = rows.arrays["input_ids"][number], rows.arrays["attention_mask"][number]
    return [tokenizer.decode(row[kept > 0]) for row, kept in zip(ids, mask, strict=True)]


def test_the_original_s_segments(race, tiny_tokenizer):
    """race_utils.py, `read_examples` and `convert_single_example`."""
    examples = task(race, "race").read(race / "train")
    rows = task(race, "race").encode(examples, tiny_tokenizer, None, 64)
    crowd = "[CLS] the harbour lights drew a crowd.[SEP] "
    assert decoded(rows, tiny_tokenizer, 0)[0] == f"{crowd}what drew a big crowd.[SEP]"
    assert decoded(rows, tiny_tokenizer, 1)[2] == f"{crowd}who came. people.[SEP]"
    assert list(rows.labels["labels"]) == [0, 2, 0, 2]
    ids, types = (rows.arrays[name][0][0] for name in ("input_ids", "token_type_ids"))
    assert list(ids).index(tiny_tokenizer.sep_token_id) == types.argmax() - 1


def test_without_a_context_the_question_is_first(tmp_path, tiny_tokenizer):
    path = write(tmp_path / "a.jsonl", {**ROW, "context": None}, {**ROW, "question": ""})
    rows = task(path).encode(task(path).read(path), tiny_tokenizer, None, 64)
    assert decoded(rows, tiny_tokenizer, 0)[1] == "[CLS] why.[SEP] bread.[SEP]"
    assert decoded(rows, tiny_tokenizer, 1)[1] == "[CLS] she rang.[SEP] bread.[SEP]"


@pytest.mark.parametrize("length", [16, 160])
def test_long_texts(tiny_tokenizer, xlm_roberta, length, caplog):
    """Truncates the context at the end, and question with choice at the start, and logs it."""
    context, question = "fresh bread " * 200, "old square " * 200
    choices = [["people.", f"{question} lights"], ["people.", "days."]]
    columns, options = ([context] * 2, choices, [0, 1]), {"max_length": length}
    rows = choice_rows(tiny_tokenizer, *columns, **options, locations=["line 1", "line 2"])
    assert rows.lengths.tolist() == [length] * 2
    most = min(MAX_CHOICE_LENGTH, length - 3)
    assert rows.arrays["token_type_ids"][0].sum(axis=1)[1] == most + 1
    same = choice_rows(xlm_roberta, *columns, **options)
    assert same.lengths.tolist() == [length] * 2
    assert not same.arrays["token_type_ids"][0].any()
    assert decoded(rows, tiny_tokenizer, 0)[1].endswith("square lights[SEP]")
    assert f"1 of 2 examples have a question and choice of more than {most} " in caplog.text
    assert "the first: line 1" in caplog.text


def test_special_tokens_must_fit(tiny_tokenizer):
    columns = ["bread"], [["people", "days"]]
    assert choice_rows(tiny_tokenizer, *columns, max_length=3).lengths.tolist() == [3]
    with pytest.raises(UserError, match="at least 3, the number of special tokens"):
        choice_rows(tiny_tokenizer, *columns, max_length=2)


def test_scores_by_part(tmp_path):
    given = task(write(tmp_path / "a.jsonl", ROW, ROW, ROW))
    parts = zip(read_split(given, "dev"), ("easy", "hard", "easy"), strict=True)
    examples = [example._replace(part=part) for example, part in parts]
    logits = [[2.0, 1.0, -1e4], [0.0, 1.0, -1e4], [0.0, 0.5, 9.0]]  # with padding
    outputs = [{"logits": np.array(row, "float32")} for row in logits]
    found = given.predictions(examples, None, outputs, None)
    assert [len(each) for each in found] == [2, 2, 2]
    scores = given.scores(Predicted(examples, found, None))
    assert scores == {"accuracy": 1 / 3, "accuracy_easy": 0.5, "accuracy_hard": 0.0}
    assert next(iter(scores)) == "accuracy"
    even = [np.array([0.5, 0.5]), np.array([0.505, 0.495]), np.array([0.497, 0.503])]
    assert given.scores(Predicted(examples, even, None))["one_class"] == 1.0


def test_predictions_are_written(tmp_path):
    path = write(tmp_path / "a.jsonl", {**ROW, "id": "q1"}, {**ROW, "question": None})
    examples = task(path).read(path)
    predictions = [np.array([0.25, 0.75]), np.array([0.875, 0.125])]
    task(path).write(Predicted(examples, predictions, None), tmp_path)
    lines = (tmp_path / "predictions.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == [
        {"id": "q1", "chosen": 1, "probabilities": [0.25, 0.75]},
        {"place": f"{path}, line 2", "chosen": 0, "probabilities": [0.875, 0.125]},
    ]
