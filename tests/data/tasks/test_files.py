"""Files of every task: the examples in them, or what is wrong with them."""

import json
import os
from unittest.mock import ANY

import pytest

from albert_tf.data.tasks.registry import read_split
from albert_tf.errors import UserError
from tests.data.conftest import assert_read, task, write

SKIP, UNLABELLED = {"skip_bad_rows": True}, {"labelled": False}

# Several labels
SEVERAL = {"multi_label": True}
AT_BARS = {**SEVERAL, "label_separator": "|"}
NOT_AT_A = {**SEVERAL, "label_separator": "a"}  # splits strings, but not the labels in a list
WARM = [("a", None, ("warm", "sad")), ("b", None, ())]
WARM_ROWS = [{"text": "a", "label": ["warm", "sad"]}, {"text": "b", "label": []}]

# Tagging
ANNA = (("Anna", "ran"), ("B-PER", "O"))
WORDS = [(ANNA[0], None), (("She",), None)]
MARK = (('"',), ("O",))
CONLL_U = (
    "# text = Annaran\n1-2\tAnnaran\t_\t_\t_\t_\t_\t_\t_\t_\n"
    "1\tAnna\t_\tB-PER\t_\t_\t_\t_\t_\t_\n2\tran\t_\tO\t_\t_\t_\t_\t_\t_\n"
    "2.1\tnow\t_\tO\t_\t_\t_\t_\t_\t_\n"
)
PLUS = "# global.columns = ID FORM NER POS\n1\tAnna\tB-PER\tN\n2\tran\tO\tV\n"
KAGGLE = 'Sentence #,Word,POS,Tag\r\nSentence: 1,Anna,N,B-PER\r\n,ran,V,O\r\nSentence: 2,"""",Q,O'
NUMBERED = ',sentence_id,words,labels\n0,7,Anna,B-PER\n1,7,ran,O\n2,8,"""",O\n'
ADA = ("Ada", "met", "Bo", ".")
ADA_TAGGED = [(ADA, ("B-PER", "O", "B-DOG", "O"))]
PERSON = {"start": 0, "end": 3, "label": "PER"}
DOG = {"start": 8, "end": 10, "label": "DOG"}
TOKENS = [{"start": start, "end": end} for start, end in ((0, 3), (4, 7), (8, 10), (10, 11))]
PRODIGY = {"text": "Ada met Bo.", "tokens": TOKENS, "spans": [PERSON, DOG], "answer": "accept"}
DOCCANO = {"text": "Ada met Bo.", "label": [[0, 3, "PER"], [8, 10, "DOG"]]}
DOCCANO_2 = {
    "text": "Ada met Bo.",
    "entities": [
        {"id": 2, "label": "DOG", "start_offset": 8, "end_offset": 10},
        {"id": 1, "label": "PER", "start_offset": 0, "end_offset": 4},
    ],
}
SCRIPTS = {"body": "Ada's हिन्दी: 北京大学", "names": [[0, 3, "PER"], [14, 18, "ORG"]]}
SCRIPT_WORDS = ("Ada", "'", "s", "हिन्दी", ":", *"北京大学")
SCRIPT_TAGS = ("B-PER", "O", "O", "O", "O", "B-ORG", "I-ORG", "I-ORG", "I-ORG")

# Multiple choice
ROW = {"context": "She rang.", "question": "Why.", "choices": ["It is late.", "Bread."], "label": 0}
RACE = {"article": "A.", "question": "Who?", "options": list("wxyz"), "answer": "D"}
RACE_ROWS = [{**RACE, "example_id": f"high{number // 2}.txt"} for number in range(3)]
RACE_IDS = ("high0.txt-0", "high0.txt-1", "high1.txt-0")
RACE_READ = [("A.", "Who?", ("w", "x", "y", "z"), 3, "high", name) for name in RACE_IDS]
SWAG = (
    ",startphrase,sent1,sent2,ending0,ending1,ending2,ending3,label\n"
    "0,She sits. She,She sits.,She,rises.,barks.,flies.,rains.,2\n"
)
OWN = "text,asked,a,b,c,right\nSo it goes.,,One.,Two.,,B\nOn.,Who?,One.,Two.,Three.,2\n"
OWN_COLUMNS = {
    "text_column": "text",
    "text_pair_column": "asked",
    "label_column": "right",
    "choices_columns": ("a", "b", "c"),
}

# Similarity
STS_B = "index\tsentence1\tsentence2\tscore\n0\tA man.\tA boy.\t2.5\n1\tA cat.\tOne cat.\t5.0\n"
PAIRS = {"sentence1": "A.", "text": "B.", "text_pair": "C.", "q": "D.", "score": 1, "grade": 0.5}
PAIR_COLUMNS = {"text_column": "text", "text_pair_column": "q", "label_column": "grade"}
WIDE = "sentence1,sentence2,score\na,b,c,1\na,b,1\n"

# Questions
FLAT_LISBON = (
    '{"id": "a", "question": "Où?", "context": "In Lisbon.", "title": "t", '
    '"answers": {"text": ["Lisbon"], "answer_start": [3]}}'
)
FLAT_NONE = '{"question": "?", "context": "In Rome.", "answers": {"text": [], "answer_start": []}}'
FLAT = [
    ("a", "Où?", "In Lisbon.", ("Lisbon",), (3, 9), False),
    (ANY, "?", "In Rome.", (), None, True),
]
FLAT_LINES = f"{FLAT_LISBON}\n{FLAT_NONE}"
FLAT_LIST = f"[{FLAT_LISBON},\n{FLAT_NONE}]"
CP1252 = {"encoding": "cp1252"}
ANSWERS = (
    "question;context;answer;answer_start;is_impossible\n"
    "Who?;He ran.;He;;\nWho?;It rained.;;;True\nWho?;it or it;it;6.0;False\n"
)
CONTEXT = "In 1999 the old library sold books."
ASKED = {"id": "a", "question": "?", "answers": [{"text": "1999", "answer_start": 3}]}
IN_1999 = ("a", "?", CONTEXT, ("1999",), (3, 7), False)


def columns(words, tags=None):
    return {"text_column": words, "label_column": tags}


def squad(*questions, context=CONTEXT):
    return {"data": [{"title": "T", "paragraphs": [{"context": context, "qas": list(questions)}]}]}


def flat(**answers):
    """Returns two rows, the second of which has these answers."""
    question = {"question": "Who?", "context": "In Lisbon."}
    return [{**question, "answers": {"text": [], "answer_start": []}}, {**question, **answers}]


READ = {
    "classify": [
        ("a.csv", 'text,label\na,"warm, sad"\nb,\n', SEVERAL, WARM),
        ("a.csv", 'text,label\na,"[""warm"",""sad""]"\nb,[]\n', SEVERAL, WARM),
        ("a.csv", "text,label\na,\"['warm', 'sad']\"\nb,[]\n", NOT_AT_A, WARM),
        ("a.tsv", "text\tlabel\na\twarm|sad|warm\nb\t\n", AT_BARS, WARM),
        ("a.jsonl", WARM_ROWS, NOT_AT_A, WARM),
        ("a.jsonl", [{"text": "c", "label": "long"}], SEVERAL, [("c", None, ("long",))]),
    ],
    "tag": [
        ("a.conll", "Anna\tB-PER\nran\tO", {}, [ANNA]),
        ("a.tsv", "-DOCSTART- -X- O\n\nAnna NNP B-PER\nran VBZ O\n\n\n", {}, [ANNA]),
        ("a.conll", "-DOCSTART- -X- O\nAnna -X- _ B-PER\nran -X- _ O\n", {}, [ANNA]),
        ("a.conll", "\ufeffAnna B-PER\r\nran O\r\n\r\n", {}, [ANNA]),
        ("a.conll", "# id 7 domain=en\nAnna _ _ B-PER\nran _ _ O\n", {}, [ANNA]),
        ("a.conll", "# one\n#\n\n# a = b\nAnna\tB-PER\nran\tO\n\t\n", {}, [ANNA]),
        ("a.tsv", "Anna\tB-PER\t\nran\tO\t\t\n", {}, [ANNA]),
        ("a.tsv", "Token\tPOS\ttag\nAnna\tN\tB-PER\nran\tV\tO\n", {}, [ANNA]),
        ("a.tsv", "sep=\t\r\nAnna\tB-PER\r\nran\tO\r\n", {}, [ANNA]),
        ("a.conll", "1 Anna N B-PER\n2 ran V O\n", columns("2", "4"), [ANNA]),
        ("a.conll", "id word pos ner\n1 Anna N B-PER\n2 ran V O\n", columns("word"), [ANNA]),
        ("a.conllup", PLUS, columns("FORM", "NER"), [ANNA]),
        ("a.conllu", CONLL_U, {}, [ANNA]),
        ("a.conll", "Anna O\nran\n\nAnna B-PER\nran O\n", SKIP, [ANNA]),
        ("a.conll", "Anna\nran\n\nShe\n", UNLABELLED, WORDS),
        ("a.conll", "Anna\nran\n\nShe\n", {**UNLABELLED, "label_column": "4"}, WORDS),
        # Number signs, spaces, and quotation marks in words. pandas quotes a quotation mark.
        ("a.conll", "Go O\n# O\n#1 B-X\n", {}, [(("Go", "#", "#1"), ("O", "O", "B-X"))]),
        ("a.conll", "Go O\n\n# O\n#F B-X\n", {}, [(("Go",), ("O",)), (("#", "#F"), ("O", "B-X"))]),
        ("a.conll", "New York\tB-X\nran\tO\n", {}, [(("New York", "ran"), ("B-X", "O"))]),
        (
            "a.conll",
            "1\u00a00 O\nA\u3000B\t B-X \n",
            {},
            [(("1\u00a00", "A\u3000B"), ("O", "B-X"))],
        ),
        ("a.tsv", '""""\tO\nran\tO\n\n""""\tO\n', {}, [(('"', "ran"), ("O", "O")), MARK]),
        ("a.tsv", '"\tO\nran\tO\n\n"\tO\n', {}, [(('"', "ran"), ("O", "O")), MARK]),
        ("a.tsv", '"\t"\tO\nran\trun\tB-X\n', {}, [(('"', "ran"), ("O", "B-X"))]),
        # Tables with sentence numbers
        ("a.csv", KAGGLE, {}, [ANNA, MARK]),
        ("a.tsv", KAGGLE.replace(",", "\t"), {}, [ANNA, MARK]),
        ("a.csv", KAGGLE, columns(None, "POS"), [(ANNA[0], ("N", "V")), (('"',), ("Q",))]),
        ("a.csv", NUMBERED, {}, [ANNA, MARK]),
        ("a.csv", NUMBERED, UNLABELLED, [(ANNA[0], None), (('"',), None)]),
        ("a.csv", "sep=;\r\nsentence;word;tag\r\n1;Anna;B-PER\r\n1;ran;O\r\n", {}, [ANNA]),
        # Lists of words, and spans of a text
        ("a.jsonl", [{"words": ANNA[0], "tags": ANNA[1]}], {}, [ANNA]),
        ("a.jsonl", [{"tokens": ANNA[0], "ner_tags": [1, 0]}], {}, [(ANNA[0], (1, 0))]),
        ("a.jsonl", [{"w": ANNA[0], "t": ANNA[1]}], columns("w", "t"), [ANNA]),
        ("a.jsonl", [{"words": ANNA[0]}, {"words": ["She"], "tags": []}], UNLABELLED, WORDS),
        ("a.jsonl", [DOCCANO], {}, ADA_TAGGED),
        ("a.jsonl", [DOCCANO], UNLABELLED, [(ADA, None)]),
        ("a.json", [DOCCANO_2], {}, ADA_TAGGED),
        ("a.jsonl", [PRODIGY], {}, ADA_TAGGED),
        ("a.jsonl", [SCRIPTS], columns("body", "names"), [(SCRIPT_WORDS, SCRIPT_TAGS)]),
    ],
    "race": [("a.jsonl", RACE_ROWS, {}, RACE_READ)],
    "swag": [
        ("val.csv", SWAG, {}, [("She sits.", "She", ("rises.", "barks.", "flies.", "rains."), 2)])
    ],
    "choices": [
        (
            "a.csv",
            OWN,
            OWN_COLUMNS,
            [
                ("So it goes.", "", ("One.", "Two."), 1),
                ("On.", "Who?", ("One.", "Two.", "Three."), 2),
            ],
        ),
        (
            "a.jsonl",
            [{"question": "?", "choices": ["a", "b"]}],
            UNLABELLED,
            [("", "?", ("a", "b"))],
        ),
        ("a.jsonl", [{**ROW, "label": 2}, ROW], SKIP, [("She rang.",)]),
    ],
    "similarity": [
        ("a.tsv", STS_B, {}, [(("A man.", "A boy."), 2.5), (("A cat.", "One cat."), 5.0)]),
        ("a.tsv", "sentence1\tsentence2\nA man.\t\n", UNLABELLED, [(("A man.", ""), None)]),
        ("a.jsonl", [PAIRS], {}, [(("A.", "C."), 1.0)]),
        ("a.jsonl", [PAIRS], PAIR_COLUMNS, [(("B.", "D."), 0.5)]),
        ("a.csv", WIDE, SKIP, [(("a", "b"), 1.0)]),
    ],
    "squad": [
        # One question per row, as data sets are exported from the Hub
        ("a.jsonl", FLAT_LINES, {}, FLAT),
        ("a.json", FLAT_LINES, {}, FLAT),
        ("a.json", FLAT_LIST, {}, FLAT),
        ("a.json", f'{{"version": "1", "data": [{FLAT_LISBON}, {FLAT_NONE}]}}', {}, FLAT),
        ("a.json.gz", f'{{\n"data": {FLAT_LIST}\n}}', {}, FLAT),
        ("a.jsonl.gz", FLAT_LINES.encode("utf-16"), {}, FLAT),
        ("a.json", FLAT_LIST.encode("cp1252"), CP1252, FLAT),
        ("a.json", FLAT_LINES.encode("cp1252"), CP1252, FLAT),
        ("a.json", {**ASKED, "context": CONTEXT}, {}, [IN_1999]),
        ("a.json", squad(ASKED, {**ASKED, "id": "b", "question": ""}, ASKED), SKIP, [IN_1999]),
        ("a.json", squad({"question": "?"}), UNLABELLED, [(ANY, "?", CONTEXT, (), None, False)]),
        (
            "a.csv",
            ANSWERS,
            {},
            [
                (ANY, "Who?", "He ran.", ("He",), (0, 2), False),
                (ANY, "Who?", "It rained.", (), None, True),
                (ANY, "Who?", "it or it", ("it",), (6, 8), False),
            ],
        ),
        ("a.tsv", "question\tcontext\n?\tA.\n", UNLABELLED, [(ANY, "?", "A.", (), None, False)]),
    ],
}


@pytest.mark.parametrize(
    ("name", "file", "content", "options", "expected"),
    [(name, *case) for name, cases in READ.items() for case in cases],
)
def test_files(tmp_path, name, file, content, options, expected):
    assert_read(write(tmp_path / file, content), expected, name, **options)


REJECTED = {
    "classify": [("a.csv", "text,label\na,x\nb,x\n", "two labels. Received: 2 examples, .* 'x'")],
    "tag": [
        ("a.conll", "She O\nran O\n", "two tags. Received: 1 sentences, all words .* 'O'"),
        ("a.conll", "Anna\nran\n", "column 1 for both.*line 1, .* 1 columns"),
        ("a.conll", "Anna O\nran\n", "as many fields as the first.*line 2, 1 f"),
        ("a.conll", "\n-DOCSTART- O\n# a\n", "at least one row. Received"),
        ("a.conll", b"Anna O\n\nJos\xe9 B-PER\n", "UTF-8: line 3 contains"),
        ("a.doc", "a,O\n", "must end in .tsv.* Received: .*a.doc"),
        ("a.tsv", "word\ttag\na\tO\nword\ttag\n", "line 3, repeats the header"),
        ("a.csv", "word,tag\na,O\n", "such as sentence_id.*a.csv, with 'word', 'tag'"),
        ("a.csv", "sentence,word,tag\n1,a,O\n1,a,\n", "'O', ''. .*a.csv, line 2"),
        ("a.csv", "sep=;\nsentence;word;tag\n1;a;O\n1;a;\n", "'O', ''. .*a.csv, line 3"),
        ("a.jsonl", [{"words": ["a", "b"], "tags": ["O"]}], "line 1, with 2 words and 1 t"),
        ("a.jsonl", [{"words": [], "tags": []}], "at least one word. Received: .*line 1"),
        ("a.jsonl", [{"words": "a b", "tags": ["O"]}], "'words' must be a list.*line 1"),
        ("a.jsonl", [{"body": "a"}], "'words' or 'tokens'. Received: .*line 1, with"),
        ("a.jsonl", [{"text": " ", "spans": []}], "'words' or 'tokens'"),
        ("a.jsonl", [{"words": ["a"]}], "'tags' or 'ner_tags'. Received: .*line 1"),
        ("a.jsonl", [{"words": ["a", "b"], "tags": ["O", 1]}], "all names or all .* line 1"),
        ("a.jsonl", [{"text": "Annas", "label": [[0, 4, "X"]]}], r"words.*\[0, 4, 'X'\] .*line 1"),
        ("a.jsonl", [{"text": "a  b", "label": [[1, 2, "X"]]}], "between words. .*1, 2, 'X'"),
        ("a.jsonl", [{"text": "a b", "spans": [[0, 3, "X"], [2, 3, "Y"]]}], "overlap.*: .*'Y'"),
        ("a.jsonl", [{"text": "a", "label": [[0, 1]]}], "must be .start, end"),
        ("a.jsonl", [{"text": "a", "tokens": [{"text": "a"}]}], "must be .start, end"),
        ("a.jsonl", [{**PRODIGY, "answer": "reject"}], "must be 'accept'. .* 'reject' .*line 1"),
    ],
    "choices": [
        ("a.jsonl", [{**ROW, "choices": ["a", " "]}], "Choice 1 .*line 1"),
        ("a.jsonl", [{**ROW, "choices": ["a"]}], "at least two choices. Received: 1 .*line 1"),
        ("a.jsonl", [{**ROW, "choices": "a b"}], "must be a list. Received: 'a b' .*line 1"),
        ("a.jsonl", [{**ROW, "label": 2}], "from 0 to 1.* Received: '2' .*line 1"),
        ("a.jsonl", [{**ROW, "label": -1}], "Received: '-1'"),
        ("a.jsonl", [{**ROW, "label": "C"}], "Received: 'C'"),
        ("a.jsonl", [{**ROW, "label": 0.0}], "Received: '0.0'"),
        ("a.jsonl", [{**ROW, "label": None}], "'label' must not be empty. Received: .*line 1"),
        ("a.jsonl", [{"question": "?", "choices": ["a", "b"]}], "'label'. Received: .*line 1"),
        ("a.jsonl", [{**ROW, "context": "", "question": ""}], "'context'.*line 1.*--text-col"),
        ("a.jsonl", [{**ROW, "id": number} for number in (7, 8, 7)], "'7', .*line 1 and .*line 3"),
    ],
    "similarity": [
        ("a.csv", "text,text_pair,score\na,b,1\nc,d,1\n", r"All 2 examples .* score 1\. "),
        ("a.csv", "text,text_pair\na,b\nb,c\n", "All 2 examples .* share their texts"),
        ("a.csv", "anchor,positive,negative,score\na,b,c,1\n", "'score' and 'negative'"),
        ("a.csv", "anchor,other\na,b\n", "column sentence2 or positive or text_pair. Received"),
        ("a.csv", "text,text_pair,score\na,b,-1\n", "negative number. .* '-1' .*line 2"),
        ("a.csv", "text,text_pair,score\na,b,high\n", "negative number. Received: 'high'"),
        ("a.csv", "text,text_pair\na,\n", "'text_pair' must not be empty"),
        ("a.csv", WIDE, "as many fields as the first. .*line 2, 4 fields"),
    ],
    "squad": [
        ("cut.json", json.dumps(squad(ASKED))[:-20], "cut.json must be JSON: "),
        ("a.json", [1], "must be a JSON object. Received: 1 .*a.json, row 1"),
        ("a.json", {"data": [{"title": "T"}]}, r"'context' must be .*data\[0\], with 'title'"),
        ("a.json", {"title": "T"}, "'data' must be a list.*, with 'title'"),
        ("a.json", {"data": []}, "must have at least one question. Received: .*a.json"),
        ("a.json", squad(ASKED, context=" \n"), r"'context' must be a non-empty .*paragraphs\[0\]"),
        ("a.json", squad(ASKED, {**ASKED, "id": [5]}), r"'id' must be a .*qas\[1\], with \[5\]"),
        ("a.json", squad({"question": "?"}), r"'answers' must be a list.*qas\[0\]"),
        (
            "a.json",
            squad({**ASKED, "answers": [{"text": "1999"}]}),
            r"'answer_start' .*answers\[0\]",
        ),
        ("a.json", squad({**ASKED, "is_impossible": True}), r"'is_impossible' .*id a\), with 1 "),
        ("a.json", squad(ASKED, ASKED), r"unique. Received: 'a', .*\[0\].*\[1\]"),
        ("a.xlsx", "question,context,answer\n", "end in .tsv, .*a.xlsx. Save the sheet as CSV"),
        ("a.tsv", "question\tcontext\nWho?\tHe ran.\n", "a column 'answer'. Received: .*a.tsv"),
        ("a.jsonl", flat(answers={"text": "A", "answer_start": 3}), "lists 'text' and .* line 2"),
        ("a.jsonl", flat(answers={"text": ["A"], "answer_start": []}), "equal length. .* line 2"),
        ("a.jsonl", flat(answers={"text": ["A"]}), "of equal length. .* line 2"),
        ("a.jsonl", flat(question=""), "'question' must be a non-empty"),
        ("a.jsonl", [*flat()[:1], 1], "line 2, must be a JSON object. Received: int"),
    ],
}


@pytest.mark.parametrize(
    ("name", "file", "content", "message"),
    [(name, *case) for name, cases in REJECTED.items() for case in cases],
)
def test_files_that_cannot_be_used(tmp_path, name, file, content, message):
    given = task(name, write(tmp_path / file, content))
    with pytest.raises(UserError, match=message):
        given.config_fields(given.read(given.options.data))


def test_files_of_a_folder(tmp_path):
    squad, classify = task("squad", tmp_path), task("classify", tmp_path)
    with pytest.raises(UserError, match=r"one file train\*. Received: nothing"):
        squad.files("train")
    path = write(tmp_path / "train-v1.1.json.gz", {})
    assert squad.files("train") == [path]
    with pytest.raises(UserError, match="one file train. Received: train-v1.1.json.gz"):
        classify.files("train")
    path = write(tmp_path / "train.csv", "")
    assert classify.files("train") == [path]
    write(tmp_path / "train.tsv", "")
    for given in (squad, classify):
        with pytest.raises(UserError, match="Received: train-v1.1.json.gz, train.csv, train.tsv"):
            given.files("train")
    with pytest.raises(UserError, match="must be a folder or a file"):
        task("classify", tmp_path / "missing").files("train")


@pytest.mark.posix
def test_a_pipe_in_the_place_of_a_file(tmp_path):
    os.mkfifo(tmp_path / "train.tsv")
    (tmp_path / "middle").mkdir()
    os.mkfifo(tmp_path / "middle" / "0.txt")
    for given in (task("classify", tmp_path), task("classify", tmp_path / "train.tsv")):
        with pytest.raises(UserError, match=r"train\.tsv, which is a pipe"):
            read_split(given, "train")
    with pytest.raises(UserError, match=r"middle/0\.txt, which is a pipe"):
        task("race").read(tmp_path)
    with pytest.raises(UserError, match=r"missing\.tsv, which doesn't exist"):
        task("classify").read(tmp_path / "missing.tsv")
