import dataclasses
from pathlib import Path

import numpy as np

from albert_tf.config import AlbertConfig
from albert_tf.data.options import LabelledData
from albert_tf.data.readers import Example
from albert_tf.data.tasks.answers import Decoded
from albert_tf.data.tasks.base import Graded, Predicted
from albert_tf.data.tasks.choices import ChoiceExample
from albert_tf.data.tasks.questions import Question
from albert_tf.data.tasks.registry import task_of
from albert_tf.data.tasks.similarity import Match, SimilarityExample
from albert_tf.data.tasks.tagging import Sentence, Tagged
from albert_tf.text.answers import Answers
from albert_tf.training.mistakes import mistakes, write_mistakes


def task(name, **options):
    return task_of(LabelledData(task=name, data=Path(), **options))


def config_of(task, examples):
    return AlbertConfig(**task.config_fields(examples))


def graded(task, *predicted):
    return task.grade(Predicted(*predicted))


def test_classes():
    mrpc = task("mrpc")
    examples = [Example("a", "b", "1"), Example("c", "d", "0")]
    found = [np.array([0.25, 0.75]), np.array([0.375, 0.625])]
    assert graded(mrpc, examples, found, config_of(mrpc, examples)) == [
        Graded("a\nb", "equivalent", "equivalent", 0.75, True),
        Graded("c\nd", "not_equivalent", "equivalent", 0.625, False),
    ]


def test_numbers_by_their_distance():
    stars = task("classify", regression=True)
    examples = [Example("a", None, "4"), Example("b", None, "2.5")]
    found = [np.array([3.5]), np.array([2.5])]
    assert graded(stars, examples, found, config_of(stars, examples)) == [
        Graded("a", "4", "3.5", 0.5, False, is_number=True),
        Graded("b", "2.5", "2.5", 0.0, True, is_number=True),
    ]


def test_several_labels():
    topics = task("classify", multi_label=True)
    examples = [Example("a", None, ("sad", "long")), Example("b", None, ("sad",))]
    config = config_of(topics, examples).replace(thresholds=(0.3, 0.5))
    found = [np.array([0.4, 0.75]), np.array([0.1, 0.25])]
    assert graded(topics, examples, found, config) == [
        Graded("a", "long, sad", "long, sad", 0.4, True),
        Graded("b", "sad", "no label", 0.75, False),
    ]


def test_choices():
    choices = ("It is late.", "Bread.")
    examples = [
        ChoiceExample("She rang.", question, choices, 0, "", "") for question in ("Why.", "")
    ]
    found = [np.array([0.25, 0.75]), np.array([0.875, 0.125])]
    wrong, right = graded(task("choices"), examples, found, AlbertConfig())
    text = "She rang.\nWhy.\n- It is late.\n- Bread."
    assert wrong == Graded(text, "It is late.", "Bread.", 0.75, False)
    assert right.is_right and right.text == "She rang.\n- It is late.\n- Bread."


def test_answers():
    context, config = "It sold books on a hill.", AlbertConfig(answerability=True)
    examples = [
        Question("a", "What?", context, ("books",), (8, 13)),
        Question("b", "Who?", context, is_impossible=True),
    ]
    best = [{"answer": "books", "score": 0.7}, {"answer": "hill", "score": 0.2}]
    official = Answers([{"answer": "a hill", "score": 0.9}], 0.1, -3.0)
    deployed = [Answers(best, 0.05, odds) for odds in (-1.0, -3.0, 3.0)]
    found = [Decoded(each, official) for each in deployed]
    squad = task("squad")
    right, wrong = graded(squad, examples, found[:2], config)
    assert right[:3] == (f"What?\n{context}", "books", "books") and right.is_right
    assert right.confidence == 0.7
    assert wrong[1:3] == ("", "books") and not wrong.is_right
    (none,) = graded(squad, examples[1:], found[2:], config)
    assert none[2:5] == ("", 0.05, True)


def test_tags():
    examples = [Sentence(("Anna", "in", "Rome"), ("B-PER", "O", "I-LOC"))]
    tag = task("tag")
    config = config_of(tag, examples)
    found = [Tagged(["B-PER", "O", "I-LOC"], [0.9, 0.5, 0.8]), Tagged(["O"] * 3, [0.5] * 3)]
    right, alike = graded(tag, examples * 2, found, config)
    entities = "Anna (PER), Rome (LOC)"
    assert right == Graded("Anna in Rome", entities, entities, 0.5, True)
    assert alike.predicted == "" and not alike.is_right
    both = config.replace(id2label={**config.id2label, len(config.labels): "B-LOC"})
    (same,) = graded(tag, examples, [Tagged(["B-PER", "O", "B-LOC"], [0.9] * 3)], both)
    assert same.is_right  # "I-" begins an entity after "O", as in the score
    kinds = tag.confusions(Predicted(examples, found[1:], config))
    assert kinds == [("PER", "O"), ("O", "O"), ("LOC", "O")]


def test_similarity():
    similarity, config = task("similarity"), AlbertConfig()
    scored = [SimilarityExample(("a", "b"), 4.0), SimilarityExample(("c", "d"), 5.0)]
    found = graded(similarity, scored, [Match(0.2), Match(1.0)], config)
    assert found == [
        Graded("a\nb", "4", "1", 3.0, False, is_number=True),
        Graded("c\nd", "5", "5", 0.0, True, is_number=True),
    ]
    assert "The mean distance of 2 predictions is 1.5." in mistakes(found)
    partners = [SimilarityExample(("a", "A"), None), SimilarityExample(("b", "B"), None)]
    config = config.replace(id2label={0: "score"}, problem_type="regression")  # for scores
    found = graded(similarity, partners, [Match(0.5, 1, "A"), Match(0.25, 2, "A")], config)
    assert found == [Graded("a", "A", "A", 0.5, True), Graded("b", "B", "A", 0.25, False)]
    assert "1 of 2 predictions are wrong." in mistakes(found)


RIGHT = Graded("fine", "a", "a", 0.99, True)


def wrong(text="bad", confidence=0.5, expected="a", predicted="b"):
    return Graded(text, expected, predicted, confidence, False)


def test_the_most_confident_mistakes_come_first():
    graded = [wrong("doubtful", 0.51), RIGHT, wrong("certain", 0.98), wrong("so so", 0.7)]
    assert mistakes(graded).splitlines()[2:] == [
        "3 of 4 predictions are wrong.",
        "",
        "| confidence | rows | expected | predicted | text |",
        "|---|---|---|---|---|",
        "| 0.98 | 1 | a | b | certain |",
        "| 0.7 | 1 | a | b | so so |",
        "| 0.51 | 1 | a | b | doubtful |",
    ]
    assert mistakes([RIGHT] * 3) == "# Mistakes\n\n0 of 3 predictions are wrong.\n"


def test_mistakes_that_are_alike_are_one_line():
    graded = [wrong(confidence=0.6), wrong(confidence=0.9), wrong(predicted="c"), wrong("other")]
    lines = mistakes(graded).splitlines()
    assert lines[2] == "4 of 4 predictions are wrong."
    assert sorted(lines[6:]) == [
        "| 0.5 | 1 | a | b | other |",
        "| 0.5 | 1 | a | c | bad |",
        "| 0.9 | 2 | a | b | bad |",
    ]


def test_fifty_mistakes_of_many():
    text = mistakes([wrong(f"bad {row}", row / 100) for row in range(99)])
    assert "99 of 99 predictions are wrong. The table lists the 50 with the highest" in text
    assert text.count("| bad ") == 50
    assert "| 0.49 |" in text and "| 0.48 |" not in text


def test_texts_stay_texts_in_markdown():
    text = "<b>a|b</b> `x` *y* [z](u)\u202e\x07$1$\nsecond part\n" + "long " * 99
    row = mistakes([wrong(text, predicted="x|y")]).splitlines()[-1]
    cells = row.replace("\\|", "").split(" | ")
    assert len(cells) == 5 and cells[3] == "xy"
    for part in (
        r"\<b\>a\|b\</b\> \`x\` \*y\* \[z\](u)\\u202e\\x07\$1\$<br>second part<br>long ",
        "…",
    ):
        assert part in row


def test_a_long_text_is_cut_around_the_answer():
    text = f"{'before ' * 99}here{' after' * 99}"
    row = mistakes([wrong(f"Where?\n{text}", expected="here", predicted="")])
    expected, predicted, shown = (cell.strip() for cell in row.splitlines()[-1].split("|")[3:6])
    assert (expected, predicted) == ("here", "–")
    assert shown.startswith("Where?<br>…") and shown.endswith("…") and " here after" in shown


def test_reports_of_another_task_are_replaced(tmp_path, small_config):
    """Writes the same bytes each time."""
    classify = task("classify")
    config = dataclasses.replace(small_config, id2label={0: "bad", 1: "good"})
    examples = [Example("warm", None, "good"), Example("cold", None, "bad")]
    found = [np.array([0.25, 0.75]), np.array([0.25, 0.75])]
    written = []
    for _ in range(2):
        write_mistakes(classify, Predicted(examples, found, config), tmp_path)
        written.append({path.name: path.read_bytes() for path in tmp_path.iterdir()})
    assert written[0] == written[1]
    assert written[0].keys() == {"confusion.png", "mistakes.md"}
    assert "| 0.75 | 1 | bad | good | cold |" in written[0]["mistakes.md"].decode()
    stars = task("classify", regression=True)
    config = dataclasses.replace(config, id2label={0: "score"}, problem_type="regression")
    numbers = [Example("warm", None, "4"), Example("cold", None, "1")]
    write_mistakes(stars, Predicted(numbers, [np.array([2.5]), np.array([1.0])], config), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mistakes.md"]
    text = (tmp_path / "mistakes.md").read_text()
    assert text.startswith("# Largest errors\n\nThe mean distance of 2 predictions is 0.75.\n")
    assert "| 1.5 | 1 | 4 | 2.5 | warm |" in text
