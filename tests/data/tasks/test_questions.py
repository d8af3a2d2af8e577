import json

import pytest

from albert_tf.data.tasks.questions import Question, find_answer, read_questions, trainable
from albert_tf.errors import UserError
from tests.data.conftest import write

CONTEXT = "In 1999 the old  library\non a hill sold books. The hill was sold in 2001."


def squad(*questions, context=CONTEXT):
    return {"data": [{"title": "T", "paragraphs": [{"context": context, "qas": list(questions)}]}]}


def asked(name, *answers, **others):
    golds = [{"text": text, "answer_start": start} for text, start in answers]
    return {"id": name, "question": "What?", "answers": golds, **others}


def test_questions_of_either_version(tmp_path):
    document = squad(
        asked("a", ("1999", 3), ("In 1999", 0)),
        asked("b", is_impossible=True, plausible_answers=[{"text": "2001", "answer_start": 70}]),
    )
    document["data"] += squad(asked("c"), context="Nothing.")["data"]
    path = write(tmp_path / "train-v1.1.json", document)
    first, impossible, other = read_questions(path, labelled=True)
    assert first[:5] == ("a", "What?", CONTEXT, ("1999", "In 1999"), (3, 7))
    assert [each.is_impossible for each in (first, impossible, other)] == [False, True, True]
    assert impossible.golds == () and impossible.span is None
    assert other.context == "Nothing."
    assert first.article == impossible.article != other.article
    assert first.location.endswith("train-v1.1.json, data[0].paragraphs[0].qas[0] (id a)")


@pytest.mark.parametrize(
    ("text", "start", "expected"),
    [
        ("1999", 3, (3, "1999")),
        ("1999", 9, (3, "1999")),  # elsewhere
        ("1999", -1, (3, "1999")),
        ("old library on", 0, (12, "old  library\non")),  # other white space
        ("the OLD", 0, (8, "the old")),  # another case
        ("hill", 28, (30, "hill")),  # the nearest of two
        ("hill", 48, (51, "hill")),
        ("1998", 3, None),
        ("", 3, None),
    ],
)
def test_an_answer_is_found_in_its_context(text, start, expected):
    found = find_answer(CONTEXT, text, start)
    assert (found and (found[0], CONTEXT[slice(*found)])) == expected


def test_answers_outside_of_their_context_are_counted(caplog):
    good = Question("a", "What?", CONTEXT, ("1999",), (3, 7))
    none = Question("b", "What?", CONTEXT, is_impossible=True)
    lost = [Question(name, "What?", CONTEXT, ("1998",), location=f"file, {name}") for name in "cd"]
    assert trainable([good, none]) == [good, none] and not caplog.records
    assert trainable([good, *lost, none]) == [good, none]
    for part in ("2 of 4 questions", "'1998' in file, c."):
        assert part in caplog.text
    with pytest.raises(UserError, match="2 questions without one, such as 'file, c'"):
        trainable(lost)


def test_a_file_beyond_the_limit(tmp_path):
    path = tmp_path / "train-v1.1.json"
    with path.open("wb") as file:
        file.truncate(2**40)  # sparse
    with pytest.raises(UserError, match="536,870,912 bytes. .*train"):
        read_questions(path, labelled=True)


def test_lists_of_articles_and_paragraphs(tmp_path):
    """simpletransformers reads a list of paragraphs; annotation tools omit ids, or number them."""
    (article,) = squad(asked(7, ("1999", 3)), asked(None), asked("", ("2001", 0)))["data"]
    (paragraph,) = article["paragraphs"]
    forms = [[article], [paragraph], article, paragraph]
    lines = "\n".join(json.dumps({**paragraph, "qas": [each]}) for each in paragraph["qas"])
    for form in [*forms, lines]:
        path = write(tmp_path / "train.json", form)
        first, second, third = read_questions(path, labelled=True)
        assert (first.id, first.span, second.is_impossible) == ("7", (3, 7), True)
        assert third.golds == ("2001",) and CONTEXT[slice(*third.span)] == "2001"
        assert second.id == second.location != third.id


def test_bad_questions_are_counted(tmp_path, caplog):
    path = write(tmp_path / "train.json", squad(asked("a"), asked("b", question=""), asked("a")))
    with pytest.raises(UserError, match="Correct the row, or skip such rows with"):
        read_questions(path, labelled=True)
    assert len(read_questions(path, labelled=True, skip_bad_rows=True)) == 1
    assert "skipped 2 bad questions; the first: 'question' must be" in caplog.text
