from itertools import pairwise

import numpy as np
import pytest
from scipy.special import softmax

from albert_tf.errors import UserError
from albert_tf.pipelines.token_classification import (
    TaggedSpan,
    Token,
    entities,
    grouped,
    without_overlaps,
)
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
    probabilities = softmax(np.asarray(logits)[0], axis=-1)
    found = pipe("token-classification", ignore_labels=[])(TEXTS[0])
    assert [each["index"] for each in found] == list(range(1, len(probabilities) - 1))
    for each in found:
        place = each["index"]
        assert each["entity"] == LABELS[probabilities[place].argmax()]
        assert each["score"] == pytest.approx(probabilities[place].max(), abs=1e-5)
        assert (each["start"], each["end"]) == encoding.offset_mapping[place]
        assert each["word"] == tokenizer.convert_ids_to_tokens(encoding.input_ids[place])


@pytest.mark.parametrize("strategy", ["none", "first"])
def test_texts_that_are_lists_of_words(pipe, strategy):
    """As in transformers, a list of words is a batch of one; offsets count in the whole text."""
    tag = pipe("token-classification", aggregation_strategy=strategy, ignore_labels=[])
    words = ["Ada", "lives", "in", "New", "York", "París"]
    expected = tag(" ".join(words))
    assert tag(words, is_split_into_words=True) == [expected]
    assert [each["word"] for each in tag([["a"], words], is_split_into_words=True)[1]] == [
        each["word"] for each in expected
    ]
    wide = tag(words, is_split_into_words=True, delimiter="  ")[0]
    assert wide[-1]["end"] == expected[-1]["end"] + len(words) - 1
    assert tag([], is_split_into_words=True) == []
    one = tag(["lives in New York"], is_split_into_words=True, aggregation_strategy="first")
    assert [each["word"] for each in one[0]] == ["lives in New York"]


def test_words_that_are_no_list(pipe):
    tag = pipe("token-classification", is_split_into_words=True)
    with pytest.raises(TypeError, match="must be a list of words. Received: 'Ada lives'"):
        tag("Ada lives")


def test_labels_are_ignored(pipe):
    tag = pipe("token-classification")
    everything = tag(TEXTS[0], ignore_labels=[])
    assert tag(TEXTS[0]) == [each for each in everything if each["entity"] != "O"]
    assert tag(TEXTS[0], ignore_labels=None) == everything
    grouped = tag(TEXTS[0], aggregation_strategy="simple", ignore_labels=["PER", "O"])
    assert {each["entity_group"] for each in grouped} == {"LOC"}


@pytest.mark.parametrize("stride", [None, 0, 11])
@pytest.mark.filterwarnings("ignore:A sequence of .* exceeds model_max_length")
def test_windows_reach_to_the_end(pipe, tokenizer, stride):
    found = pipe("token-classification", ignore_labels=[])(LONG, stride=stride)
    ids = tokenizer(LONG, add_special_tokens=False).input_ids
    assert [each["index"] for each in found] == list(range(1, len(ids) + 1))
    assert [LONG[each["start"] : each["end"]] for each in found] == LONG.split()


def test_texts_without_pieces_and_with_unknown_ones(pipe):
    tag = pipe("token-classification", ignore_labels=[])
    assert tag("") == []
    assert tag(["", " "], aggregation_strategy="first") == [[], []]
    assert "东京" in [each["word"] for each in tag(TEXTS[2])]


def test_word_pieces(model, pipe, config):
    """A WordPiece vocabulary, where pieces that continue a word start with ##."""
    pytest.importorskip("tensorflow_text")
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


def test_an_unknown_strategy(pipe):
    with pytest.raises(UserError, match="one of none, simple, .* Received: 'last'"):
        pipe("token-classification")(TEXTS[0], aggregation_strategy="last")


NAMES = ("O", "B-PER", "I-PER", "B-LOC")
TEXT = "ada love😀 in rome"


def piece(token, start, end, place, continues, **probabilities):
    """Returns a token with the probabilities of some labels, by their number: `_1=0.6`."""
    scores = np.zeros(4)
    for name, value in probabilities.items():
        scores[int(name[1:])] = value
    return Token(token, scores, start, end, place, continues)


PIECES = [
    piece("▁ada", 0, 3, 1, False, _1=0.9, _2=0.1),
    piece("▁lo", 4, 6, 2, False, _2=0.6, _3=0.4),
    piece("ve", 6, 8, 3, True, _3=0.9, _2=0.1),
    piece("😀", 8, 9, 4, False, _0=0.8, _2=0.2),
    piece("▁in", 10, 12, 5, False, _0=0.7, _3=0.3),
    piece("▁rome", 13, 17, 6, False, _3=0.8, _0=0.2),
]


def spans(found):
    return [(each["entity_group"], each["word"], each["score"]) for each in found]


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        ("simple", [("PER", "ada lo", 0.75), ("LOC", "ve", 0.9), ("O", "😀 in", 0.75)]),
        ("first", [("PER", "ada love", 0.75), ("O", "😀 in", 0.75)]),
        ("max", [("PER", "ada", 0.9), ("LOC", "love", 0.9), ("O", "😀 in", 0.75)]),
        ("average", [("PER", "ada", 0.9), ("LOC", "love", 0.65), ("O", "😀 in", 0.75)]),
    ],
)
def test_entities(strategy, expected):
    found = entities(PIECES, NAMES, strategy, TEXT)
    assert all(TEXT[each["start"] : each["end"]] == each["word"] for each in found)
    expected = [*expected, ("LOC", "rome", 0.8)]
    assert spans(found) == [(kind, word, pytest.approx(score)) for kind, word, score in expected]
    assert entities([], NAMES, strategy, "") == []


def test_an_entity_of_a_kind_named_as_what_is_outside():
    labels = ("O", "B-O", "I-O")
    pieces = [
        piece("▁ada", 0, 3, 1, False, _1=1.0),
        piece("▁love", 4, 8, 2, False, _2=1.0),
        piece("▁in", 9, 11, 3, False, _0=1.0),
    ]
    assert spans(entities(pieces, labels, "first", "ada love in", ("O",))) == [("O", "ada love", 1)]
    assert entities(pieces, labels, "first", "ada love in", ("O", "B-O")) == []


@pytest.mark.parametrize("strategy", ["simple", "first", "max", "average"])
def test_pieces_of_one_character_stay_together(strategy):
    """Three pieces are made of "½"; as a word of its own, the unknown one would split it."""
    pieces = [
        piece("▁anna", 0, 4, 1, False, _1=1.0),
        piece("1", 4, 5, 2, True, _1=0.4, _3=0.6),
        piece("<unk>", 4, 5, 3, False, _3=1.0),
        piece("2", 4, 5, 4, True, _2=1.0),
        piece("smith", 5, 10, 5, True, _1=0.1, _2=0.9),
    ]
    found = entities(pieces, NAMES, strategy, "anna½smith")
    if strategy == "simple":
        half = ("LOC", "½", pytest.approx(1.6 / 3))
        assert spans(found) == [("PER", "anna", 1.0), half, ("PER", "smith", 0.9)]
    else:
        assert [(each["word"], each["start"], each["end"]) for each in found] == [
            ("anna½smith", 0, 10)
        ]


def test_white_space_is_no_part_of_an_entity():
    alone = piece("▁", 3, 4, 2, False, _2=1.0)
    found = entities([piece("▁ada", 0, 3, 1, False, _1=1.0), alone], NAMES, "simple", "ada ")
    assert spans(found) == [("PER", "ada", 1.0)]
    assert found[0]["end"] == 3
    assert entities([alone], NAMES, "simple", "ada ") == []


@pytest.mark.parametrize(
    ("labels", "lengths"),
    [
        (("B-TAG", "I-TAG", "I-TAG", "B-TAG2", "B-TAG2"), [3, 1, 1]),
        (("I-A", "I-A", "B-A", "I-B"), [2, 1, 1]),
        (("A", "A", "B", "A"), [2, 1, 1]),
        (("O", "O", "I-O", "I-O"), [2, 2]),
        (("B-A", "I-A", "E-A", "E-A", "S-A", "S-A", "B-A", "E-A"), [3, 1, 1, 1, 2]),
        (("B-A", "L-A", "U-A", "O", "O"), [2, 1, 2]),
        (("S-A", "I-A", "B-A", "E-B"), [1, 1, 1, 1]),
    ],
)
def test_grouping(labels, lengths):
    tagged = [TaggedSpan(label, 1.0, place, place + 1) for place, label in enumerate(labels)]
    assert [len(group) for group in grouped(tagged, labels)] == lengths
    assert grouped([], labels) == []


def test_of_overlapping_entities_the_longest_stays():
    def entity(start, end, score, **more):
        return {"start": start, "end": end, "score": score, **more}

    found = [entity(9, 12, 0.5), entity(0, 4, 0.9), entity(2, 8, 0.1), entity(9, 12, 0.7)]
    assert without_overlaps(found) == [entity(2, 8, 0.1), entity(9, 12, 0.7)]
    beside = [entity(0, 4, 0.9), entity(4, 8, 0.1)]
    assert without_overlaps(beside) == beside
    tokens = [entity(0, 0, 0.9, index=1), entity(0, 1, 0.5, index=2), entity(0, 1, 0.6, index=2)]
    assert without_overlaps(tokens) == [tokens[0], tokens[2]]
    of_one_character = [entity(0, 1, 0.5, index=at) for at in (1, 2, 1, 2)]  # of two windows
    assert without_overlaps(of_one_character) == of_one_character[:2]
