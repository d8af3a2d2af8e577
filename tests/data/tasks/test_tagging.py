import json
from pathlib import Path

import numpy as np
import pytest

from albert_tf.config import AlbertConfig
from albert_tf.data.options import LabelledData
from albert_tf.data.tasks.base import Predicted
from albert_tf.data.tasks.classification import ONE_CLASS
from albert_tf.data.tasks.tagging import NO_WORD, Sentence, Tagged, Tagging, word_rows
from albert_tf.errors import UserError
from albert_tf.tasks import IGNORED
from albert_tf.text.tokenizer import AlbertTokenizer

ANNA = (("Anna", "lives", "in", "Lisbon"), ("B-PER", "O", "O", "B-LOC"))


def tagging(data=".", **others):
    return Tagging(LabelledData(task="tag", data=Path(data), **others))


def read(path, labelled=True, **options):
    found = tagging(path, **options).read(path, labelled)
    return [(each.words, each.tags) for each in found]


@pytest.fixture(scope="module")
def tokenizer(tiny_vocabulary):
    return AlbertTokenizer(tiny_vocabulary, model_max_length=48)


CONLL = {
    "tabs": "Anna\tB-PER\nlives\tO\nin\tO\nLisbon\tB-LOC",
    "documents": "-DOCSTART- -X- O\n\nAnna NNP B-PER\nlives VBZ O\nin IN O\nLisbon NNP B-LOC\n\n\n",
    "Windows": "\ufeffAnna B-PER\r\nlives O\r\nin O\r\nLisbon B-LOC\r\n\r\n",
    "comments": "# id 7 domain=en\nAnna _ _ B-PER\nlives _ _ O\nin _ _ O\nLisbon _ _ B-LOC\n",
    "tabs at the end": "Anna\tB-PER\t\nlives\tO\t\t\nin\tO\nLisbon\tB-LOC\t\n",
    "a header": "Token\tPOS\ttag\nAnna\tN\tB-PER\nlives\tV\tO\nin\tP\tO\nLisbon\tN\tB-LOC\n",
    "Label Studio": "-DOCSTART- -X- O\nAnna -X- _ B-PER\nlives -X- _ O\nin -X- _ O\n"
    "Lisbon -X- _ B-LOC\n",
    "rare comments": "# one\n#\n\n# a = b\nAnna\tB-PER\nlives\tO\nin\tO\nLisbon\tB-LOC\n\t\n",
}


@pytest.mark.parametrize("text", CONLL.values(), ids=CONLL)
@pytest.mark.parametrize("ending", [".conll", ".tsv"])
def test_conll(tmp_path, text, ending):
    path = tmp_path / f"a{ending}"
    path.write_text(text, encoding="utf-8", newline="")
    assert read(path) == [ANNA]


def test_words_with_hashes_and_spaces(tmp_path):
    path = tmp_path / "a.conll"
    path.write_text("Go O\n# O\n#1 O\n\n# O\n#FF B-X\n")
    assert [words for words, _ in read(path)] == [("Go", "#", "#1"), ("#", "#FF")]
    path.write_text("New York\tB-LOC\nsleeps\tO\n")
    assert read(path) == [(("New York", "sleeps"), ("B-LOC", "O"))]
    path.write_text("10\u00a0000 O\nNew\u3000York\t B-LOC \n")
    assert read(path) == [(("10\u00a0000", "New\u3000York"), ("O", "B-LOC"))]


def test_quotation_marks(tmp_path):
    """pandas quotes a word that contains one; in other files, they are words."""
    path = tmp_path / "a.tsv"
    for word in ('""""', '"'):
        path.write_text(f"{word}\tO\nAnna\tB-PER\n\n{word}\tO\n")
        assert read(path) == [(('"', "Anna"), ("O", "B-PER")), (('"',), ("O",))]
    path.write_text('"\t"\tO\nAnna\tanna\tB-PER\n')  # the word and its lemma
    assert read(path) == [(('"', "Anna"), ("O", "B-PER"))]


GERMEVAL = "#\tn-tv.de [2005]\n1\tAnna\tB-PER\tO\n2\tUlm\tB-ORG\tB-LOC\n\n1\tSie\tO\tO\n"


def test_columns_of_numbers_and_several_tags(tmp_path, caplog):
    path = tmp_path / "a.tsv"
    path.write_text(GERMEVAL)
    for labelled in (True, False):
        with pytest.raises(UserError, match="Column 1 of .*a.tsv numbers .*--text-column 2 --lab"):
            read(path, labelled)
    assert read(path, text_column="2", label_column="3")[0] == (("Anna", "Ulm"), ("B-PER", "B-ORG"))
    assert not caplog.records
    assert read(path, text_column="2")[0] == (("Anna", "Ulm"), ("O", "B-LOC"))
    for part in ("columns 3, 4 contain tags", "words from column 2 and tags from column 4"):
        assert part in caplog.text


TABLES = {
    "Kaggle": "Sentence #,Word,POS,Tag\r\nSentence: 1,Anna,N,B-PER\r\n,lives,V,O\r\n,in,P,O\r\n"
    ',Lisbon,N,B-LOC\r\nSentence: 2,"""",Q,O\r\n',
    "simpletransformers": ",sentence_id,words,labels\n0,7,Anna,B-PER\n1,7,lives,O\n2,7,in,O\n"
    '3,7,Lisbon,B-LOC\n4,8,"""",O\n',
}


@pytest.mark.parametrize("text", TABLES.values(), ids=TABLES)
@pytest.mark.parametrize("ending", [".csv", ".tsv"])
def test_tables_of_words(tmp_path, text, ending):
    path = tmp_path / f"a{ending}"
    path.write_text(text.replace(",", "\t") if ending == ".tsv" else text, newline="")
    assert read(path) == [ANNA, (('"',), ("O",))]
    assert read(path, False) == [(ANNA[0], None), (('"',), None)]
    column = {"Word": "POS"}.get(text.split(",")[1])
    assert not column or read(path, label_column=column)[0][1] == ("N", "V", "P", "N")


TEXT = "Anna lives in Lisbon."
SPANS = {
    "doccano": {"text": TEXT, "label": [[0, 4, "PER"], [14, 20, "LOC"]]},
    "doccano 1.8": {
        "text": TEXT,
        "entities": [
            {"id": 2, "label": "LOC", "start_offset": 14, "end_offset": 20},
            {"id": 1, "label": "PER", "start_offset": 0, "end_offset": 5},
        ],
    },
    "Prodigy": {
        "text": TEXT,
        "tokens": [
            {"text": TEXT[start:end], "start": start, "end": end}
            for start, end in ((0, 4), (5, 10), (11, 13), (14, 20), (20, 21))
        ],
        "spans": [
            {"start": 0, "end": 4, "label": "PER"},
            {"start": 14, "end": 20, "label": "LOC"},
        ],
        "answer": "accept",
    },
}


@pytest.mark.parametrize("row", SPANS.values(), ids=SPANS)
@pytest.mark.parametrize("ending", [".json", ".jsonl"])
def test_spans(tmp_path, row, ending):
    path = tmp_path / f"a{ending}"
    path.write_text(json.dumps([row] if ending == ".json" else row))
    words, tags = ANNA
    assert read(path) == [((*words, "."), (*tags, "O"))]
    assert read(path, False) == [((*words, "."), None)]


def test_words_of_a_text(tmp_path):
    path = tmp_path / "a.jsonl"
    row = {"body": "Ada's हिन्दी: 北京大学", "names": [[0, 3, "PER"], [14, 18, "ORG"]]}
    path.write_text(json.dumps(row))
    words = ("Ada", "'", "s", "हिन्दी", ":", *"北京大学")
    tags = ("B-PER", *4 * "O", "B-ORG", *3 * ("I-ORG",))
    assert read(path, text_column="body", label_column="names") == [(words, tags)]


@pytest.mark.parametrize(
    ("name", "text", "columns"),
    [
        ("a.conll", "1 Anna N B-PER\n2 ran V O\n", ("2", "4")),
        ("a.conll", "id word pos ner\n1 Anna N B-PER\n2 ran V O\n", ("word", None)),
        (
            "a.conllup",
            "# global.columns = ID FORM NER POS\n1\tAnna\tB-PER\tN\n2\tran\tO\tV\n",
            ("FORM", "NER"),
        ),
        (
            "a.conllu",
            "# text = Annaran\n1-2\tAnnaran\t_\t_\t_\t_\t_\t_\t_\t_\n"
            + "1\tAnna\t_\tB-PER\t_\t_\t_\t_\t_\t_\n2\tran\t_\tO\t_\t_\t_\t_\t_\t_\n"
            + "2.1\tnow\t_\tO\t_\t_\t_\t_\t_\t_\n",
            (None, None),
        ),
    ],
)
def test_columns(tmp_path, name, text, columns):
    (tmp_path / name).write_text(text)
    words, tags = columns
    found = read(tmp_path / name, text_column=words, label_column=tags)
    assert found == [(("Anna", "ran"), ("B-PER", "O"))]


@pytest.mark.parametrize(
    ("names", "tags", "columns"),
    [
        (("words", "tags"), ["B", "O"], {}),
        (("tokens", "ner_tags"), [1, 0], {}),
        (("w", "t"), ["B", "O"], {"text_column": "w", "label_column": "t"}),
    ],
)
def test_jsonl(tmp_path, names, tags, columns):
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps(dict(zip(names, (["Anna", "ran"], tags), strict=True))) + "\n")
    assert read(path, **columns) == [(("Anna", "ran"), tuple(tags))]


@pytest.mark.parametrize("kind", ["List", "Sequence"])
def test_parquet_names_the_numbers_of_tags(tmp_path, kind):
    """The schema is that of `datasets`, for a list of classes."""
    pyarrow = pytest.importorskip(
        "pyarrow", reason="needs pyarrow (pip install albert_tf[datasets])"
    )
    from pyarrow import parquet

    classes = {"_type": "ClassLabel", "names": ["O", "B-PER"]}
    features = {"ner_tags": {"_type": kind, "feature": classes}, "id": {"_type": "Value"}}
    table = pyarrow.table({"tokens": [["Anna", "ran"]], "ner_tags": [[1, 0]], "id": ["7"]})
    info = {"huggingface": json.dumps({"info": {"features": features}})}
    parquet.write_table(table.replace_schema_metadata(info), tmp_path / "a.parquet")
    assert read(tmp_path / "a.parquet") == [(("Anna", "ran"), ("B-PER", "O"))]


def test_a_file_without_tags(tmp_path):
    (tmp_path / "a.conll").write_text("Anna\nran\n\nShe\n")
    (tmp_path / "a.jsonl").write_text('{"words": ["Anna"]}\n{"words": ["She"], "tags": []}\n')
    for column in (None, "4"):  # of the tags, which other files have
        found = read(tmp_path / "a.conll", False, label_column=column)
        assert found == [(("Anna", "ran"), None), (("She",), None)]
    assert read(tmp_path / "a.jsonl", False) == [(("Anna",), None), (("She",), None)]


BAD = {
    "one column": ("a.conll", b"Anna\nran\n", "column 1 for both.*line 1, .* 1 columns"),
    "a missing tag": ("a.conll", b"Anna O\nran\n", "as many fields as the first.*line 2, 1 f"),
    "no sentence": ("a.conll", b"\n-DOCSTART- O\n# a\n", "at least one row. Received"),
    "another encoding": ("a.conll", b"Anna O\n\nJos\xe9 B-PER\n", "UTF-8: line 3 contains"),
    "one tag": ("a.jsonl", b'{"words": ["a", "b"], "tags": ["O"]}', "line 1, with 2 words and 1 t"),
    "no words": ("a.jsonl", b'{"words": [], "tags": []}', "at least one word. Received: .*line 1"),
    "a text": ("a.jsonl", b'{"words": "a b", "tags": ["O"]}', "'words' must be a list.*line 1"),
    "no column": ("a.jsonl", b'{"body": "a"}', "'words' or 'tokens'. Received: .*line 1, with"),
    "no tags": ("a.jsonl", b'{"words": ["a"]}', "'tags' or 'ner_tags'. Received: .*line 1"),
    "a number": (
        "a.jsonl",
        b'{"words": ["a", "b"], "tags": ["O", 1]}',
        "all names or all .* line 1",
    ),
    "another format": ("a.doc", b"a,O\n", "must end in .tsv.* Received: .*a.doc"),
    "a second header": ("a.tsv", b"word\ttag\na\tO\nword\ttag\n", "line 3, repeats the header"),
    "no sentences": (
        "a.csv",
        b"word,tag\na,O\n",
        "such as sentence_id.*a.csv, with 'word', 'tag'",
    ),
    "an empty tag": ("a.csv", b"sentence,word,tag\n1,a,O\n1,a,\n", "'O', ''. .*a.csv, line 2"),
    "part of a word": (
        "a.jsonl",
        b'{"text": "Annas", "label": [[0, 4, "PER"]]}',
        r"begin and end between words.*\[0, 4, 'PER'\] .*line 1",
    ),
    "an overlap": (
        "a.jsonl",
        b'{"text": "a b", "spans": [[0, 3, "X"], [2, 3, "Y"]]}',
        "overlap.*Received: .*'Y'",
    ),
    "a span of spaces": (
        "a.jsonl",
        b'{"text": "a  b", "label": [[1, 2, "X"]]}',
        "between words. .*1, 2, 'X'",
    ),
    "a span without a label": (
        "a.jsonl",
        b'{"text": "a", "label": [[0, 1]]}',
        "must be .start, end",
    ),
    "a rejected row": (
        "a.jsonl",
        b'{"text": "a", "spans": [], "answer": "reject"}',
        "must be 'accept'. Received: 'reject' .*line 1",
    ),
    "tokens without places": (
        "a.jsonl",
        b'{"text": "a", "tokens": [{"text": "a"}]}',
        "must be .start, end",
    ),
    "only spaces": ("a.jsonl", b'{"text": " ", "spans": []}', "'words' or 'tokens'"),
}


@pytest.mark.parametrize(("name", "content", "message"), BAD.values(), ids=BAD)
def test_bad_files(tmp_path, name, content, message):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(UserError, match=message):
        read(path)


@pytest.mark.parametrize(("column", "tags"), [("form", "2"), ("0", "1"), ("3", "1")])
def test_missing_columns(tmp_path, column, tags):
    path = tmp_path / "a.conll"
    path.write_text("word tag\nAnna O\n")
    with pytest.raises(UserError, match=f"a.conll .*number from 1 to 2. Received: '{column}'"):
        read(path, text_column=column, label_column=tags)


def test_sentences_with_bad_lines_are_skipped(tmp_path):
    path = tmp_path / "a.conll"
    path.write_text("Anna O\nran\n\nShe O\n")
    assert read(path, skip_bad_rows=True) == [(("She",), ("O",))]


def test_the_log_shows_a_sentence(caplog):
    tagging().config_fields(
        [Sentence(("a", "b"), ("O", "O"), "x"), Sentence(*ANNA, "a.tsv, line 4")]
    )
    assert "a.tsv, line 4: " in caplog.text
    assert "Anna/B-PER lives/O in/O Lisbon/B-LOC" in caplog.text


def test_labels():
    def fields(*tags):
        return tagging().config_fields([Sentence(("w",) * len(tags), tags)])["id2label"]

    assert list(fields("I-PER", "O", "B-PER", "B-LOC").values()) == ["O", "B-LOC", "B-PER", "I-PER"]
    assert list(fields("VERB", "NOUN").values()) == ["NOUN", "VERB"]
    assert fields(3, 0, 1) == {number: f"LABEL_{number}" for number in range(4)}
    with pytest.raises(UserError, match="two tags. Received: 1 sentences, all words with .* 'O'"):
        fields("O", "O")


@pytest.mark.parametrize("tag", ["B-ORG", 3, -1])
def test_a_tag_that_the_model_lacks(tag):
    config = AlbertConfig(id2label={0: "O", 1: "B-PER", 2: "I-PER"})
    sentence = Sentence(("in", "Rome"), (0, tag), "dev.conll, line 7")
    with pytest.raises(UserError, match="must be one .* for the word 'Rome', number 2 .* line 7"):
        tagging().check([sentence], config)


def test_the_first_piece_has_the_label(tokenizer):
    sentences = [["The", "\u200b", "harbour", "lights"], ["battery"]]
    rows = word_rows(tokenizer, sentences, [[0, 1, 2, 3], [4]], max_length=48)
    for words, ids, details in zip(sentences, rows.arrays["input_ids"], rows.details, strict=True):
        expected = tokenizer([words], is_split_into_words=True)
        assert ids.tolist() == expected["input_ids"][0]
        origins = expected.word_ids(0)
        firsts = [origins.index(word) for word in dict.fromkeys(origins) if word is not None]
        assert np.flatnonzero(details != NO_WORD).tolist() == firsts
    found = [row[row != IGNORED].tolist() for row in rows.labels["labels"]]
    assert found == [[0, 2, 3], [4]]


@pytest.mark.parametrize("length", [3, 7, 16])
def test_windows_decide_each_word_once(tokenizer, length):
    words = ["the", "film", "was", "a", "quiet", "delight", "and", "the", "music"] * 5
    rows = word_rows(tokenizer, [words, ["film"]], max_length=length)
    assert rows.lengths.max() == length
    assert rows.labels == {}
    for sentence, count in enumerate([len(words), 1]):
        of_sentence = np.flatnonzero(rows.examples == sentence)
        decided = np.concatenate([rows.details[row] for row in of_sentence])
        assert sorted(decided[decided != NO_WORD]) == list(range(count))


def test_the_window_with_the_most_context_decides(tokenizer):
    words = ["a"] * 14
    assert len(tokenizer.encode("a", add_special_tokens=False)) == 1
    rows = word_rows(tokenizer, [words], max_length=10)  # windows of 8 tokens that share 2
    decided = [row[row != NO_WORD].tolist() for row in rows.details]
    assert decided == [[0, 1, 2, 3, 4, 5, 6], [7, 8, 9, 10, 11, 12, 13]]


def test_predictions_and_scores(tokenizer, caplog):
    task, words = tagging(), ("Anna", "\u200b", "lives", "in", "the", "square")
    examples = [Sentence(words, ("B-PER", "O", "O", "O", "O", "I-LOC"))]
    config = AlbertConfig(**task.config_fields(examples))
    rows = task.encode(examples, tokenizer, config, 6)
    assert "1 I- or E- tags" in caplog.text
    assert "1 words have no tokens" in caplog.text
    assert len(rows) > 1
    logits = [np.eye(3)[np.where(row == IGNORED, 1, row)] * 9 for row in rows.labels["labels"]]
    (found,) = task.predictions(examples, rows, [{"logits": each} for each in logits], config)
    assert tuple(found.tags) == examples[0].tags
    assert found.probabilities[1] == 1.0
    assert found.probabilities[0] == pytest.approx(np.exp(9) / (np.exp(9) + 2))
    assert set(task.scores(Predicted(examples, [found], config)).values()) == {1.0}
    alike = [Tagged(["O"] * 6, [0.5] * 6)]
    assert task.scores(Predicted(examples, alike, config))[ONE_CLASS] == 1.0


def test_a_tag_without_prefix_is_named(tokenizer, caplog):
    config = AlbertConfig(id2label={0: "O", 1: "B-LOC", 2: "PLACE"})
    tagging().encode([Sentence(("in",), None)], tokenizer, config, 6)
    assert not caplog.text
    tagging().encode([Sentence(("in",), ("PLACE",))], tokenizer, config, 6)
    assert "accuracy only" in caplog.text and "Received: PLACE." in caplog.text


@pytest.mark.parametrize("tags", [None, ("B-LOC", "O")])
def test_predictions_are_written_for_conlleval(tmp_path, tags):
    config = AlbertConfig(id2label={0: "O", 1: "B-LOC"})
    examples = [Sentence(("New\tYork", "sleeps"), tags)] * 2
    found = [Tagged(["O", "O"], [1, 1])] * 2
    tagging().write(Predicted(examples, found, config), tmp_path)
    gold = ("B-LOC\t", "O\t") if tags else ("", "")
    sentence = f"New York\t{gold[0]}O\nsleeps\t{gold[1]}O\n\n"
    assert (tmp_path / "predictions.conll").read_text() == sentence * 2
    assert read(tmp_path / "predictions.conll") == [(("New York", "sleeps"), ("O", "O"))] * 2
