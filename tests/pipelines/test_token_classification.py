from itertools import pairwise

import numpy as np
import pytest
from scipy.special import softmax

from albert_tf.errors import UserError
from albert_tf.text.wordpiece import WordPieceTokenizer

TEXTS = [
    "Ada lives in New York city, and the CAT sat on a mat!",
    "  \tThe déjà 😀 cat\nsat\u00a0near ﬁne París 👩‍👩‍👧 over ½ France",
    "the cats 东京 barked",
]
LONG = "ada lives in new york city and the old dog barked at the moon over france " * 5
LABELS = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC")


@pytest.mark.parametrize("strategy", ["simple", "first", "average", "max"])
def test_entities_are_what_the_text_says(pipe, strategy):
    tag = pipe("token-classification", aggregation_strategy=strategy, ignore_labels=[])
    for text, found in zip([*TEXTS, LONG], tag([*TEXTS, LONG]), strict=True):
        assert len(found) > 2
        assert all(text[each["start"] : each["end"]] == each["word"] for each in found)
        assert all(each["word"].strip() == each["word"] != "" for each in found)
        starts = [each["start"] for each in found]
        assert starts == sorted(starts)
        assert all(one["end"] <= other["start"] for one, other in pairwise(found))


def test_pieces_have_the_models_scores(pipe, model, tokenizer):
    encoding = tokenizer(TEXTS[0], return_offsets_mapping=True)
    features = {"input_ids": np.array([encoding.input_ids])}
    logits = model("token-classification")(features)["logits"]
    odds = softmax(np.asarray(logits)[0], axis=-1)
    found = pipe("token-classification", ignore_labels=[])(TEXTS[0])
    assert [each["index"] for each in found] == list(range(1, len(odds) - 1))
    for each in found:
        place = each["index"]
        assert each["entity"] == LABELS[odds[place].argmax()]
        assert each["score"] == pytest.approx(odds[place].max(), abs=1e-5)
        assert (each["start"], each["end"]) == encoding.offset_mapping[place]
        assert each["word"] == tokenizer.convert_ids_to_tokens(encoding.input_ids[place])


def test_an_unknown_piece_reads_as_in_the_text(pipe):
    found = pipe("token-classification", ignore_labels=[])(TEXTS[2])
    assert "东京" in [each["word"] for each in found]


def test_labels_are_ignored(pipe):
    tag = pipe("token-classification")
    everything = tag(TEXTS[0], ignore_labels=[])
    assert tag(TEXTS[0]) == [each for each in everything if each["entity"] != "O"]
    without = tag(TEXTS[0], ignore_labels=["O", "B-PER"])
    assert without == [each for each in everything if each["entity"] not in ("O", "B-PER")]
    grouped = tag(TEXTS[0], aggregation_strategy="simple", ignore_labels=["PER", "O"])
    assert {each["entity_group"] for each in grouped} == {"LOC"}


@pytest.mark.parametrize("stride", [None, 0, 11])
def test_windows_reach_to_the_end(pipe, tokenizer, stride):
    found = pipe("token-classification", ignore_labels=[])(LONG, stride=stride)
    ids = tokenizer(LONG, add_special_tokens=False).input_ids
    assert [each["index"] for each in found] == list(range(1, len(ids) + 1))
    assert [LONG[each["start"] : each["end"]] for each in found] == LONG.split()


def test_words(pipe):
    tag = pipe("token-classification", aggregation_strategy="simple", ignore_labels=[])
    given = ["Ada", "lives", "in", "New York", "😀", "city"]
    (found,) = tag(given, is_split_into_words=True, delimiter="--")
    text = "--".join(given)
    assert found[0]["start"] == 0
    assert found[-1]["end"] == len(text)
    assert all(text[each["start"] : each["end"]] == each["word"] for each in found)
    batch = tag([given, ["the", "cat"]], is_split_into_words=True, delimiter="--")
    assert [each["word"] for each in batch[0]] == [each["word"] for each in found]


def test_texts_without_pieces(pipe):
    tag = pipe("token-classification", ignore_labels=[])
    assert tag("") == []
    assert tag(["", " "], aggregation_strategy="first") == [[], []]


def test_word_pieces(model, pipe, config):
    """A WordPiece vocabulary, where pieces that continue a word start with ##."""
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "ada", "lives", "##ville", "in", "东"]
    pieces += [f"[unused{number}]" for number in range(config.vocab_size - len(pieces))]
    tokenizer = WordPieceTokenizer("\n".join(pieces).encode(), model_max_length=32)
    from albert_tf.pipelines import pipeline

    tag = pipeline("ner", model("token-classification"), tokenizer, ignore_labels=[])
    text = "Ada in Adaville 东东"
    assert [each["word"] for each in tag(text)] == ["ada", "in", "ada", "##ville", "东", "东"]
    found = tag(text, aggregation_strategy="first")
    assert all(text[each["start"] : each["end"]] == each["word"] for each in found)
    assert found[-1]["end"] == len(text)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"aggregation_strategy": "last"}, "one of none, simple, .* Received: 'last'"),
        ({"stride": 30}, "smaller than the pieces of a window. Received: stride=30, 30 pieces"),
        ({"stride": -1}, "0 or more"),
        ({"max_length": 33}, "at least 3, and at most 32, .* Received: 33"),
    ],
)
def test_options_out_of_range(pipe, options, message):
    with pytest.raises(UserError, match=message):
        pipe("token-classification")(LONG, **options)


def test_no_text(pipe):
    tag = pipe("token-classification")
    with pytest.raises(TypeError, match="A text must be a str. Received: None"):
        tag([None])
    with pytest.raises(TypeError, match="must be a list of words. Received: 'a b'"):
        tag("a b", is_split_into_words=True)
    with pytest.raises(TypeError, match="A word must be a str. Received: 3"):
        tag([["a", 3]], is_split_into_words=True)


def test_no_ignored_labels(pipe):
    tag = pipe("token-classification")
    assert tag(TEXTS[0], ignore_labels=None) == tag(TEXTS[0], ignore_labels=[])


def test_strides_out_of_range_are_refused_at_once(pipe):
    with pytest.raises(UserError, match="stride must be 0 or more. Received: -1"):
        pipe("token-classification", stride=-1)
    with pytest.raises(UserError, match="smaller than the pieces .*Received: stride=30, 30"):
        pipe("token-classification", stride=30)
    tag = pipe("token-classification", stride=20)
    with pytest.raises(UserError, match="Received: stride=20, 6 pieces a window"):
        tag(TEXTS[0], max_length=8)
