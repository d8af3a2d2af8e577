import json

import numpy as np
import pytest

from albert_tf.data.tasks.base import Predicted
from albert_tf.data.tasks.choices import MAX_CHOICE_LENGTH, ChoiceExample, choice_rows, segments
from albert_tf.data.tasks.registry import train_and_dev
from albert_tf.errors import UserError
from tests.data.conftest import task, write

CHOICES = task("choices")
EXAMPLE = ChoiceExample("She rang.", "Why.", ("Late.", "Bread."), 0, "", "", "a.csv, line 2")
ARTICLE = {
    "article": "The harbour lights drew a crowd.",
    "questions": ["What drew a \uff3f crowd.", "Who came."],
    "options": [["big", "small", "old", "new"], ["Dogs.", "Cats.", "People.", "No one."]],
    "answers": ["A", "C"],
}


@pytest.fixture
def race(tmp_path):
    for part in ("train", "dev"):
        for number, level in enumerate(("middle", "high"), start=1):
            folder = tmp_path / part / level
            folder.mkdir(parents=True)
            write(folder / f"{number}.txt", {**ARTICLE, "id": f"{level}{number}.txt"})
    return tmp_path


def test_race(race):
    train, dev = train_and_dev(task("race", race), 0.1, 1)
    names = ["middle1.txt-0", "middle1.txt-1", "high2.txt-0", "high2.txt-1"]
    assert [each.id for each in train] == names
    assert [each.part for each in dev] == ["middle", "middle", "high", "high"]
    assert [each.label for each in dev] == [0, 2, 0, 2]
    assert train[2].location == f"{race}/train/high/2.txt, line 1"
    (race / "dev" / "high" / "2.txt").unlink()
    assert len(task("race", race).read(race / "dev")) == 2
    (race / "dev" / "middle" / "1.txt").unlink()
    with pytest.raises(UserError, match=r"middle/ or high/.* Received: .*dev,"):
        task("race", race).read(race / "dev")


def decoded(rows, tokenizer, number):
    ids, mask = rows.arrays["input_ids"][number], rows.arrays["attention_mask"][number]
    return [tokenizer.decode(row[kept > 0]) for row, kept in zip(ids, mask, strict=True)]


def test_the_original_s_segments(race, tiny_tokenizer):
    """race_utils.py, `read_examples` and `convert_single_example`."""
    examples = task("race", race).read(race / "train")
    rows = task("race", race).encode(examples, tiny_tokenizer, None, 64)
    crowd = "[CLS] the harbour lights drew a crowd.[SEP] "
    assert decoded(rows, tiny_tokenizer, 0)[0] == f"{crowd}what drew a big crowd.[SEP]"
    assert decoded(rows, tiny_tokenizer, 1)[2] == f"{crowd}who came. people.[SEP]"
    assert list(rows.labels["labels"]) == [0, 2, 0, 2]
    ids, types = (rows.arrays[name][0][0] for name in ("input_ids", "token_type_ids"))
    assert list(ids).index(tiny_tokenizer.sep_token_id) == types.argmax() - 1


def test_without_a_context_the_question_is_first():
    assert segments("", "Why.", ["Late."]) == ("Why.", ["Late."])
    assert segments("She rang.", "", ["Late."]) == ("She rang.", ["Late."])
    assert segments("She rang.", "Why.", ["Late."]) == ("She rang.", ["Why. Late."])


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
    assert f"In 1 of 2 examples, a question and choice together exceed {most} " in caplog.text
    assert "the first: line 1" in caplog.text


def test_special_tokens_must_fit(tiny_tokenizer):
    columns = ["bread"], [["people", "days"]]
    assert choice_rows(tiny_tokenizer, *columns, max_length=3).lengths.tolist() == [3]
    with pytest.raises(UserError, match="at least 3, the number of special tokens"):
        choice_rows(tiny_tokenizer, *columns, max_length=2)


def test_scores_by_part():
    examples = [EXAMPLE._replace(part=part) for part in ("easy", "hard", "easy")]
    logits = [[2.0, 1.0, -1e4], [0.0, 1.0, -1e4], [0.0, 0.5, 9.0]]  # with padding
    outputs = [{"logits": np.array(row, "float32")} for row in logits]
    found = CHOICES.predictions(examples, None, outputs, None)
    assert [len(each) for each in found] == [2, 2, 2]
    scores = CHOICES.scores(Predicted(examples, found, None))
    assert scores == {"accuracy": 1 / 3, "accuracy_easy": 0.5, "accuracy_hard": 0.0}
    assert next(iter(scores)) == "accuracy"
    even = [np.array([0.5, 0.5]), np.array([0.505, 0.495]), np.array([0.497, 0.503])]
    assert CHOICES.scores(Predicted(examples, even, None))["one_class"] == 1.0


def test_predictions_are_written(tmp_path):
    examples = [EXAMPLE._replace(id="q1"), EXAMPLE]
    predictions = [np.array([0.25, 0.75]), np.array([0.875, 0.125])]
    CHOICES.write(Predicted(examples, predictions, None), tmp_path)
    lines = (tmp_path / "predictions.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == [
        {"id": "q1", "chosen": 1, "probabilities": [0.25, 0.75]},
        {"place": "a.csv, line 2", "chosen": 0, "probabilities": [0.875, 0.125]},
    ]
