import numpy as np
import pytest

from albert_tf.config import AlbertConfig
from albert_tf.data.tasks.base import Predicted
from albert_tf.data.tasks.classification import ONE_CLASS
from albert_tf.data.tasks.tagging import NO_WORD, Sentence, Tagged, word_rows
from albert_tf.errors import UserError
from albert_tf.tasks import IGNORED
from tests.data.conftest import assert_read, read, task, write

TAG = task("tag")
ANNA = (("Anna", "lives", "in", "Lisbon"), ("B-PER", "O", "O", "B-LOC"))
GERMEVAL = "#\tn-tv.de [2005]\n1\tAnna\tB-PER\tO\n2\tUlm\tB-ORG\tB-LOC\n\n1\tSie\tO\tO\n"


def test_columns_of_numbers_and_several_tags(tmp_path, caplog):
    path = write(tmp_path / "a.tsv", GERMEVAL)
    for labelled in (True, False):
        with pytest.raises(UserError, match="Column 1 of .*a.tsv numbers .*--text-column 2 --lab"):
            read(path, "tag", labelled)
    words, she = ("Anna", "Ulm"), (("Sie",), ("O",))
    outer = {"text_column": "2", "label_column": "3"}
    assert_read(path, [(words, ("B-PER", "B-ORG")), she], "tag", **outer)
    assert not caplog.records
    assert_read(path, [(words, ("O", "B-LOC")), she], "tag", text_column="2")
    assert "columns 3, 4 contain tags" in caplog.text
    assert "words from column 2 and tags from column 4" in caplog.text


@pytest.mark.parametrize(("column", "tags"), [("form", "2"), ("0", "1"), ("3", "1")])
def test_missing_columns(tmp_path, column, tags):
    path = write(tmp_path / "a.conll", "word tag\nAnna O\n")
    with pytest.raises(UserError, match=f"a.conll .*number from 1 to 2. Received: '{column}'"):
        read(path, "tag", text_column=column, label_column=tags)


def test_the_log_shows_a_sentence(caplog):
    TAG.config_fields([Sentence(("a", "b"), ("O", "O"), "x"), Sentence(*ANNA, "a.tsv, line 4")])
    assert "a.tsv, line 4: " in caplog.text
    assert "Anna/B-PER lives/O in/O Lisbon/B-LOC" in caplog.text


def test_labels():
    def fields(*tags):
        return TAG.config_fields([Sentence(("w",) * len(tags), tags)])["id2label"]

    assert list(fields("I-PER", "O", "B-PER", "B-LOC").values()) == ["O", "B-LOC", "B-PER", "I-PER"]
    assert list(fields("VERB", "NOUN").values()) == ["NOUN", "VERB"]
    assert fields(3, 0, 1) == {number: f"LABEL_{number}" for number in range(4)}


@pytest.mark.parametrize("tag", ["B-ORG", 3, -1])
def test_a_tag_that_the_model_lacks(tag):
    config = AlbertConfig(id2label={0: "O", 1: "B-PER", 2: "I-PER"})
    sentence = Sentence(("in", "Rome"), (0, tag), "dev.conll, line 7")
    with pytest.raises(UserError, match="must be one .* for the word 'Rome', number 2 .* line 7"):
        TAG.check([sentence], config)


def test_the_first_piece_has_the_label(tiny_tokenizer):
    sentences = [["The", "\u200b", "harbour", "lights"], ["battery"]]
    rows = word_rows(tiny_tokenizer, sentences, [[0, 1, 2, 3], [4]], max_length=48)
    for words, ids, details in zip(sentences, rows.arrays["input_ids"], rows.details, strict=True):
        expected = tiny_tokenizer([words], is_split_into_words=True)
        assert ids.tolist() == expected["input_ids"][0]
        origins = expected.word_ids(0)
        firsts = [origins.index(word) for word in dict.fromkeys(origins) if word is not None]
        assert np.flatnonzero(details != NO_WORD).tolist() == firsts
    found = [row[row != IGNORED].tolist() for row in rows.labels["labels"]]
    assert found == [[0, 2, 3], [4]]


@pytest.mark.parametrize("length", [3, 7, 16])
def test_windows_decide_each_word_once(tiny_tokenizer, length):
    words = ["the", "film", "was", "a", "quiet", "delight", "and", "the", "music"] * 5
    rows = word_rows(tiny_tokenizer, [words, ["film"]], max_length=length)
    assert rows.lengths.max() == length
    assert rows.labels == {}
    for sentence, count in enumerate([len(words), 1]):
        of_sentence = np.flatnonzero(rows.examples == sentence)
        decided = np.concatenate([rows.details[row] for row in of_sentence])
        assert sorted(decided[decided != NO_WORD]) == list(range(count))


def test_the_window_with_the_most_context_decides(tiny_tokenizer):
    words = ["a"] * 14
    assert len(tiny_tokenizer.encode("a", add_special_tokens=False)) == 1
    rows = word_rows(tiny_tokenizer, [words], max_length=10)  # windows of 8 tokens that share 2
    decided = [row[row != NO_WORD].tolist() for row in rows.details]
    assert decided == [[0, 1, 2, 3, 4, 5, 6], [7, 8, 9, 10, 11, 12, 13]]


def test_predictions_and_scores(tiny_tokenizer, caplog):
    words = ("Anna", "\u200b", "lives", "in", "the", "square")
    examples = [Sentence(words, ("B-PER", "O", "O", "O", "O", "I-LOC"))]
    config = AlbertConfig(**TAG.config_fields(examples))
    rows = TAG.encode(examples, tiny_tokenizer, config, 6)
    assert "1 I- or E- tags" in caplog.text
    assert "1 words have no tokens" in caplog.text
    assert len(rows) > 1
    logits = [np.eye(3)[np.where(row == IGNORED, 1, row)] * 9 for row in rows.labels["labels"]]
    (found,) = TAG.predictions(examples, rows, [{"logits": each} for each in logits], config)
    assert tuple(found.tags) == examples[0].tags
    assert found.probabilities[1] == 1.0
    assert found.probabilities[0] == pytest.approx(np.exp(9) / (np.exp(9) + 2))
    assert set(TAG.scores(Predicted(examples, [found], config)).values()) == {1.0}
    alike = [Tagged(["O"] * 6, [0.5] * 6)]
    assert TAG.scores(Predicted(examples, alike, config))[ONE_CLASS] == 1.0


def test_a_tag_without_prefix_is_named(tiny_tokenizer, caplog):
    config = AlbertConfig(id2label={0: "O", 1: "B-LOC", 2: "PLACE"})
    TAG.encode([Sentence(("in",), None)], tiny_tokenizer, config, 6)
    assert not caplog.text
    TAG.encode([Sentence(("in",), ("PLACE",))], tiny_tokenizer, config, 6)
    assert "accuracy only" in caplog.text and "Received: PLACE." in caplog.text


@pytest.mark.parametrize("tags", [None, ("B-LOC", "O")])
def test_predictions_are_written_for_conlleval(tmp_path, tags):
    config = AlbertConfig(id2label={0: "O", 1: "B-LOC"})
    examples = [Sentence(("New\tYork", "sleeps"), tags)] * 2
    found = [Tagged(["O", "O"], [1, 1])] * 2
    TAG.write(Predicted(examples, found, config), tmp_path)
    gold = ("B-LOC\t", "O\t") if tags else ("", "")
    sentence = f"New York\t{gold[0]}O\nsleeps\t{gold[1]}O\n\n"
    assert (tmp_path / "predictions.conll").read_text() == sentence * 2
    found = [(("New York", "sleeps"), ("O", "O"))] * 2
    assert_read(tmp_path / "predictions.conll", found, "tag")
