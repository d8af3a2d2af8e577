import gzip
import json

import pytest

from albert_tf.data.options import LabelledData
from albert_tf.data.tasks.answers import QuestionAnswering
from albert_tf.data.tasks.questions import Question, find_answer, read_questions, trainable
from albert_tf.errors import UserError

CONTEXT = "In 1999 the old  library\non a hill sold books. The hill was sold in 2001."


def squad(*questions, context=CONTEXT):
    return {"data": [{"title": "T", "paragraphs": [{"context": context, "qas": list(questions)}]}]}


def asked(name, *answers, **others):
    golds = [{"text": text, "answer_start": start} for text, start in answers]
    return {"id": name, "question": "What?", "answers": golds, **others}


def written(folder, document):
    path = folder / "train-v1.1.json"
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    return path


def test_questions_of_either_version(tmp_path):
    document = squad(
        asked("a", ("1999", 3), ("In 1999", 0)),
        asked("b", is_impossible=True, plausible_answers=[{"text": "2001", "answer_start": 70}]),
    )
    document["data"] += squad(asked("c"), context="Nothing.")["data"]
    first, impossible, other = read_questions(written(tmp_path, document), labelled=True)
    assert first[:5] == ("a", "What?", CONTEXT, ("1999", "In 1999"), (3, 7))
    assert [each.is_impossible for each in (first, impossible, other)] == [False, True, True]
    assert impossible.golds == () and impossible.span is None
    assert other.context == "Nothing."
    assert first.article == impossible.article != other.article
    assert first.location.endswith("train-v1.1.json, data[0].paragraphs[0].qas[0] (id a)")


@pytest.mark.parametrize(
    ("text", "start", "expected"),
    [
        ("1999", 3, "1999"),
        ("1999", 9, "1999"),  # elsewhere
        ("old library on", 0, "old  library\non"),  # other white space
        ("the OLD", 0, "the old"),  # another case
        ("1998", 3, None),
        ("", 3, None),
        ("1999", -1, "1999"),
    ],
)
def test_an_answer_is_found_in_its_context(text, start, expected):
    found = find_answer(CONTEXT, text, start)
    assert (found and CONTEXT[slice(*found)]) == expected


def test_the_nearest_of_several():
    first, second = CONTEXT.index("hill"), CONTEXT.rindex("hill")
    assert find_answer(CONTEXT, "hill", first - 2) == (first, first + 4)
    assert find_answer(CONTEXT, "hill", second - 2) == (second, second + 4)


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


GOOD = asked("a", ("1999", 3))


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (json.dumps(squad(GOOD))[:-20], "train-v1.1.json must be JSON: "),
        ([1], "must be a JSON object. Received: 1 .*train-v1.1.json, row 1"),
        ({"data": [{"title": "T"}]}, r"'context' must be a non-empty.*data\[0\], with 'title'"),
        ({"title": "T"}, r"'data' must be a list.*, with 'title'"),
        ({"data": []}, "must have at least one question. Received: .*train-v1.1.json"),
        (squad(GOOD, context=" \n"), r"'context' must be a non-empty .*paragraphs\[0\]"),
        (squad(GOOD, {**GOOD, "id": [5]}), r"'id' must be a non-empty .*qas\[1\], with \[5\]"),
        (squad({"id": "a", "question": "What?"}), r"'answers' must be a list.*qas\[0\]"),
        (squad({**GOOD, "answers": [{"text": "1999"}]}), r"'answer_start' must be .*answers\[0\]"),
        (squad({**GOOD, "is_impossible": True}), r"'is_impossible' .*id a\), with 1 "),
        (squad(GOOD, GOOD), r"unique. Received: 'a', .*\[0\].*\[1\]"),
    ],
)
def test_other_files(tmp_path, document, message):
    with pytest.raises(UserError, match=message):
        read_questions(written(tmp_path, document), labelled=True)


def test_bad_questions_can_be_skipped(tmp_path, caplog):
    path = written(tmp_path, squad(GOOD, {**GOOD, "id": "b", "question": ""}, GOOD))
    assert [each.id for each in read_questions(path, True, skip_bad_rows=True)] == ["a"]
    assert "skipped 2 bad questions; the first: 'question' must be" in caplog.text


def test_a_file_without_answers(tmp_path):
    path = written(tmp_path, squad({"id": "a", "question": "What?"}))
    (question,) = read_questions(path, labelled=False)
    assert question.golds == () and not question.is_impossible


def test_a_file_beyond_the_limit(tmp_path):
    path = tmp_path / "train-v1.1.json"
    with path.open("wb") as file:
        file.truncate(2**40)  # sparse
    with pytest.raises(UserError, match="536,870,912 bytes. .*train"):
        read_questions(path, labelled=True)


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("train.jsonl", "{}\n{}"),
        ("train.json", "{}\n{}\n"),
        ("train.json", "[{},\n{}]"),
        ("train.json", '{{"version": "1", "data": [{}, {}]}}'),
        ("train.jsonl.gz", "{}\n{}"),
        ("train.json.gz", '{{\n"data": [{},\n{}]\n}}'),
    ],
)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "cp1252"])
def test_flat_rows(tmp_path, name, form, encoding):
    """One row per question, like data sets exported from the hub."""
    answers = {"text": ["Lisbon"], "answer_start": [3]}
    rows = [
        {"id": "a", "question": "Où?", "context": "In Lisbon.", "answers": answers, "title": "t"},
        {"question": "Who?", "context": "In Lisbon.", "answers": {"text": [], "answer_start": []}},
    ]
    content = form.format(*(json.dumps(row, ensure_ascii=False) for row in rows)).encode(encoding)
    path = tmp_path / name
    path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    given = "cp1252" if encoding == "cp1252" else None
    assert QuestionAnswering(LabelledData(task="squad", data=tmp_path)).files("train") == [path]
    first, second = read_questions(path, labelled=True, encoding=given)
    assert (first.id, first.question, first.golds, first.span) == ("a", "Où?", ("Lisbon",), (3, 9))
    assert second.is_impossible and str(path) in second.id


def test_a_row_by_itself(tmp_path):
    path = written(tmp_path, {**GOOD, "context": CONTEXT})
    assert [question.id for question in read_questions(path, labelled=True)] == ["a"]


ROW = {"question": "Who?", "context": "In Lisbon."}


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"answers": {"text": "Lisbon", "answer_start": 3}}, "lists 'text' and .* line 2"),
        ({"answers": {"text": ["Lisbon"], "answer_start": []}}, "of equal length. .* line 2"),
        ({"answers": {"text": ["Lisbon"]}}, "of equal length. .* line 2"),
        (1, "line 2, must be a JSON object. Received: int"),
        ({"question": ""}, "'question' must be a non-empty"),
    ],
)
def test_bad_flat_rows(tmp_path, caplog, row, message):
    good = {**ROW, "answers": {"text": [], "answer_start": []}}
    path = tmp_path / "train.jsonl"
    row = {**good, **row} if isinstance(row, dict) else row
    path.write_text("\n".join(map(json.dumps, (good, row, good))))
    with pytest.raises(UserError, match=f"{message}.*Correct the row, or skip such rows with"):
        read_questions(path, labelled=True)
    assert len(read_questions(path, labelled=True, skip_bad_rows=True)) == 2
    assert "skipped 1 bad questions" in caplog.text


def test_lists_of_articles_and_paragraphs(tmp_path):
    """simpletransformers reads a list of paragraphs; annotation tools omit ids, or number them."""
    (article,) = squad(asked(7, ("1999", 3)), asked(None), asked("", ("2001", 0)))["data"]
    (paragraph,) = article["paragraphs"]
    forms = [[article], [paragraph], article, paragraph]
    lines = "\n".join(json.dumps({**paragraph, "qas": [each]}) for each in paragraph["qas"])
    for form in [*map(json.dumps, forms), lines]:
        path = written(tmp_path, form)
        first, second, third = read_questions(path, labelled=True)
        assert (first.id, first.span, second.is_impossible) == ("7", (3, 7), True)
        assert third.golds == ("2001",) and CONTEXT[slice(*third.span)] == "2001"
        assert second.id == second.location != third.id


def test_tables(tmp_path):
    path = tmp_path / "qa.csv"
    rows = ["Who?;He ran.;He;;", "Who?;It rained.;;;True", "Who?;it or it;it;6.0;False"]
    path.write_text("\n".join(["question;context;answer;answer_start;is_impossible", *rows]))
    found = [(each.span, each.is_impossible) for each in read_questions(path, labelled=True)]
    assert found == [((0, 2), False), (None, True), ((6, 8), False)]
    (tmp_path / "test.tsv").write_text("question\tcontext\nWho?\tHe ran.\n")
    (question,) = read_questions(tmp_path / "test.tsv", labelled=False)
    assert question.golds == () and not question.is_impossible
    with pytest.raises(UserError, match="a column 'answer'. Received: .*test.tsv"):
        read_questions(tmp_path / "test.tsv", labelled=True)


def test_a_sheet_is_rejected_by_name(tmp_path):
    (tmp_path / "qa.xlsx").write_text("question,context,answer\n")
    with pytest.raises(UserError, match="must end in .tsv, .*qa.xlsx. Save the sheet as CSV"):
        read_questions(tmp_path / "qa.xlsx", labelled=True)
