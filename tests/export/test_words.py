"""Text outputs equal those of the Keras pipelines."""

import functools
import os
import random
import sys
import unicodedata
from dataclasses import replace

import numpy as np
import pytest
import sentencepiece
import tensorflow as tf
from albert_tf_export import words
from albert_tf_export.letters import Alphabet
from albert_tf_export.options import sentence_embedding
from albert_tf_export.words import text_function

from albert_tf.checkpoints import sentence_transformers
from albert_tf.checkpoints.sentence_transformers import SentenceEmbedding
from albert_tf.models import AlbertModel
from albert_tf.pipelines import pipeline
from albert_tf.text.answers import DEPLOYED, _is_punctuation, best_spans, trimmed
from albert_tf.text.model_file import Baked, ModelProto
from albert_tf.text.preprocessing import AlbertPreprocessor
from albert_tf.text.tokenizer import AlbertTokenizer
from albert_tf.text.vocabulary import UNASSIGNED

pytestmark = pytest.mark.usefixtures("without_graphs")
LENGTH = 90  # so that the longest text is one window
TEXTS = [
    "The film (a quiet delight) was made by kind people.",
    "Crème brûlée, 12 euros;  the  café is NEVER closed!",
    "東京 smoke “in the room” \u00a0 and — a boat…",
    "slow",
    "A NUL inside\0 and \t tabs\u200b around ",
    "in \u200bfilm\u200b\ufeffboat\ufeff now \u2060it\u2060\xadis\xad (\u3000a\u3000)\u200e\x07",
    " \u200bfilm 🦕🦕 people 👩‍👩‍👧 ﬁne, ½ ﷺ e\u0301te\u0301  x",
    "a ‾ boat ‾ U.S. isn't𝚥ﷺ 3⅓ 9½ oﬃce\u0301 ‼",
]


@pytest.fixture(scope="module")
def long_tokenizer(tiny_vocabulary):
    return AlbertTokenizer(tiny_vocabulary, model_max_length=LENGTH)


@pytest.fixture(scope="module")
def small_model(make_model):
    """Returns a cached function from a task and configuration fields to a model of one layer."""
    sizes = {"max_position_embeddings": LENGTH, "num_hidden_layers": 1}
    labels = {0: "S-bad", 1: "S-naïve", 2: "S-good"}  # with "S-", each word is an entity
    return functools.cache(functools.partial(make_model, **sizes, id2label=labels))


@pytest.fixture(scope="module")
def answer(small_model, long_tokenizer):
    """Returns a function from a task, or a model, and texts to its text outputs and the model.

    If `traced`, the outputs are those of a graph.
    """

    def call(task, *texts, embedding=None, tokenizer=long_tokenizer, traced=False, **fields):
        model = small_model(task, **fields) if isinstance(task, str) else task
        preprocessor = AlbertPreprocessor(tokenizer, LENGTH, padding="longest")
        to_words = text_function(model, tokenizer, preprocessor, unroll=True, embedding=embedding)
        if traced:
            specs = [tf.TensorSpec([None], tf.string)] * len(texts)
            to_words = tf.function(to_words, autograph=False).get_concrete_function(*specs)
        found = to_words(*(tf.constant(each, tf.string) for each in texts))
        return {name: value.numpy() for name, value in found.items()}, model

    return call


@pytest.mark.parametrize(
    ("task", "threshold", "is_xlm_roberta"),
    [
        ("question-answering", None, False),
        ("question-answering", -100.0, False),
        ("question-answering", None, True),
        ("answerability", None, False),
        ("answerability", 100.0, False),
    ],
)
def test_answers(task, threshold, is_xlm_roberta, answer, long_tokenizer, xlm_roberta):
    tokenizer = long_tokenizer
    if is_xlm_roberta:
        tokenizer = AlbertTokenizer(xlm_roberta.model_bytes, model_max_length=LENGTH)
    questions = ["Who died?", "?", "Who made it?", "Where is the boat?", "is it", "a", "🦕", "‾"]
    texts = TEXTS if threshold is None else TEXTS[:3]
    del questions[len(texts) :]
    fields = {} if threshold is None else {"thresholds": (threshold,)}
    traced = task == "question-answering" and threshold is None and not is_xlm_roberta
    found, model = answer(task, questions, texts, tokenizer=tokenizer, traced=traced, **fields)
    ask = pipeline("question-answering", model, tokenizer)
    expected = ask(question=questions, context=texts)
    assert any(each["answer"] for each in expected) == (threshold != -100.0)
    ranked = ask(question=questions, context=texts, top_k=99, handle_impossible_answer=True)
    for row, each in enumerate(expected):
        assert found["answer"][row].decode() == each["answer"]
        assert (found["start"][row], found["end"][row]) == (each["start"], each["end"])
        assert found["score"][row] == pytest.approx(each["score"], abs=1e-5)
        raw = texts[row].encode()[found["start_byte"][row] : found["end_byte"][row]]
        assert raw == found["answer"][row]
        (none,) = [other["score"] for other in ranked[row] if not other["answer"]]
        assert found["no_answer_score"][row] == pytest.approx(none, abs=1e-5)


@pytest.mark.parametrize("answerability", [False, True])
def test_spans_of_random_logits(random_windows, answerability):
    """The graph finds the spans that `albert_tf.text.answers.best_spans` finds."""
    for outputs, before, count, possible in random_windows(answerability):
        expected = best_spans(outputs, possible, *DEPLOYED[:2])
        batch = {name: tf.constant(value[None]) for name, value in outputs.items()}
        number = tf.range(count + 2)[None]  # with padding
        inside = number < count
        if answerability:
            spans = words._beam_spans(batch, tf.constant([[before]]), inside)
        else:
            spans, none, null_odds = words._logit_spans(batch, before + number, inside)
            assert none.numpy() == pytest.approx([expected.null], rel=1e-5)
            best = expected.spans[0].logit if count else 0.0
            assert null_odds.numpy() == pytest.approx([expected.null_logit - best], abs=1e-5)
        (scores,) = spans.scores.numpy()
        found = [(start, end) for start, end in np.transpose([spans.starts[0], spans.ends[0]])]
        size = len(expected.spans)
        assert size == np.count_nonzero(scores)
        assert [span[:2] for span in expected.spans] == [
            (before + start, before + end) for start, end in found[:size]
        ]
        wanted = [span.score for span in expected.spans]
        np.testing.assert_allclose(scores[:size], wanted, rtol=1e-5)


@pytest.mark.parametrize("task", ["question-answering", "answerability"])
def test_questions_without_a_context(task, answer):
    found, _ = answer(task, ["", "What?", "What?"], ["", "", "  \t"])
    assert found["answer"].tolist() == [b""] * 3
    assert found["end_byte"].tolist() == [0] * 3
    assert task == "answerability" or found["score"].tolist() == [0] * 3
    found, _ = answer(task, [""], [""])
    assert found["answer"].tolist() == [b""]


@pytest.mark.parametrize("task", ["question-answering", "token-classification"])
def test_no_rows(task, answer):
    texts = [[]] * (2 if task == "question-answering" else 1)
    assert {len(value) for value in answer(task, *texts)[0].values()} == {0}


def test_words_of_a_tagger(answer, long_tokenizer):
    """Each word is an entity of the pipeline, because all labels begin with "S-"."""
    texts = [*TEXTS, "", "  ", "\x07 A ½ ℌ"]
    found, model = answer("token-classification", texts, traced=True)
    options = {"aggregation_strategy": "first", "ignore_labels": None}
    expected = pipeline("ner", model, long_tokenizer, **options)(texts)
    assert len(set(found["labels"].ravel())) > 2
    for row, entities in enumerate(expected):
        assert [each.decode() for each in found["words"][row] if each] == [
            each["word"] for each in entities
        ]
        for name, key in (("starts", "start"), ("ends", "end")):
            assert found[name][row][: len(entities)].tolist() == [each[key] for each in entities]
        labels = [each.decode() for each in found["labels"][row] if each]
        assert labels == ["S-" + each["entity_group"] for each in entities]
        scores = [each["score"] for each in entities]
        np.testing.assert_allclose(found["scores"][row][: len(entities)], scores, rtol=0, atol=1e-5)
        spans = zip(found["start_bytes"][row], found["end_bytes"][row], strict=True)
        raw = [texts[row].encode()[start:end] for start, end in spans]
        assert raw == found["words"][row].tolist()


@pytest.mark.parametrize(("pooling", "normalize"), [("mean", False), ("cls", True)])
def test_embeddings(pooling, normalize, answer, long_tokenizer):
    texts = [*TEXTS[:3], ""]
    embedding = SentenceEmbedding(pooling, normalize)
    found, model = answer("encoder", texts, embedding=embedding)
    assert found.keys() == {"embedding"}
    options = {"pooling": pooling, "normalize": normalize}
    embed = pipeline("feature-extraction", model, long_tokenizer, **options)
    np.testing.assert_allclose(found["embedding"], embed(texts), rtol=0, atol=1e-5)


def test_embeddings_of_a_folder_of_sentence_transformers(
    small_model, answer, long_tokenizer, tmp_path
):
    encoder = small_model("encoder")
    encoder.save_pretrained(tmp_path)
    size = encoder.config.hidden_size
    sentence_transformers.write(tmp_path, SentenceEmbedding("max", normalize=True), size)
    model = AlbertModel.from_pretrained(tmp_path)
    found, _ = answer(model, TEXTS[:3], embedding=sentence_embedding(model, None, None))
    embed = pipeline("feature-extraction", model, long_tokenizer)
    np.testing.assert_allclose(found["embedding"], embed(TEXTS[:3]), rtol=0, atol=1e-5)


def cased(tiny_vocabulary):
    """Has rules and tokens with capitals and accents."""
    model = ModelProto.FromString(tiny_vocabulary)
    rules = sentencepiece.SentencePieceNormalizer(rule_name="nmt_nfkc").serialized_model_proto()
    charsmap = ModelProto.FromString(rules).normalizer_spec.precompiled_charsmap
    baked = replace(Baked.parse(model.normalizer_spec.name), lower_case=False, keep_accents=True)
    model.normalizer_spec.precompiled_charsmap = charsmap
    model.normalizer_spec.name = str(baked)
    for piece in ("▁The", "A", "É", "é", "İ"):
        model.pieces.add(piece=piece, score=-5)
    return AlbertTokenizer(model.SerializeToString())


def added(tiny_vocabulary):
    """Has tokens of letters that are no tokens, so that those are unknown elsewhere."""
    tokenizer = AlbertTokenizer(tiny_vocabulary)
    tokenizer.add_tokens(["<e1>", "🦕🦖", "a🦕", "🚀"])
    return tokenizer


def user_defined(tiny_vocabulary):
    model = ModelProto.FromString(tiny_vocabulary)
    for piece in ("-lrb-", "--", "...", "🦕-"):
        model.pieces.add(piece=piece, type=model.SentencePiece.USER_DEFINED)
    tokenizer = AlbertTokenizer(model.SerializeToString())
    tokenizer.add_tokens(["🦖🦕"])
    return tokenizer


def assert_same_tokens(tokenizer, texts):
    """Compares each token's characters, and whether it begins a word or is a mark, with Python."""
    strings = tf.constant([text.encode() for text in texts])
    ids = tf.pad(tokenizer.in_graph().tokenize(strings).to_tensor(), [[0, 0], [0, 1]])
    pieces = words.of_pieces(tokenizer, strings, ids)
    read = pieces.characters.read(pieces.starts, pieces.ends)
    found = np.stack([read["start"], read["end"], pieces.begin_words, pieces.are_marks()], axis=-1)
    found[:, :, :2] *= read["text"].numpy()[:, :, None] != b""  # an empty span has no place
    for row, text in enumerate(texts):
        [tokens] = tokenizer.tokens_of([text], split_special=True, with_offsets=True)
        assert tokens.ids.tolist() == ids[row, : len(tokens.ids)].numpy().tolist()
        begin_words = np.diff(tokens.words, prepend=-1) > 0
        for at, (span, begins) in enumerate(zip(tokens.offsets.tolist(), begin_words, strict=True)):
            start, end = trimmed(text, *span)
            place = (start, end) if start < end else (0, 0)
            expected = [*place, begins, _is_punctuation(text[slice(*span)])]
            assert found[row, at].tolist() == expected, (text[slice(*span)], text)


@functools.cache
def every_character():
    """All assigned characters, and one of 64 of the unassigned and private planes, all alike."""
    characters = (chr(n) for n in range(1, sys.maxunicode + 1) if not 0xD800 <= n < 0xE000)
    return [each for each in characters if not is_in_empty_plane(each) or ord(each) % 64 == 0]


def is_in_empty_plane(character):
    return "\U00033480" <= character < "\U000e0000" or character >= "\U000f0000"


@functools.cache
def special_characters():
    """All but letters that normalize to one letter, and code points that mean nothing."""
    return [
        character
        for character in every_character()
        if not is_in_empty_plane(character)
        if unicodedata.decomposition(character)
        or unicodedata.category(character) not in ("Ll", "Lo", "Lt", "Lu", *UNASSIGNED)
    ]


ODD = "‾ﾞﾟﹰ⅓½𝚥ﷺ‼…ﬁ\u0301\u200b\u3000\u1100\u1161\u11a8가İ``''<>-LRB🦕🦖🚀 aei1.,--lrb"


def some_characters():
    """Tests an eighth of the special characters, a different one each day, and those in `ODD`."""
    special = special_characters()
    return random.Random(os.environ["ALBERT_TF_SEED"]).sample(special, len(special) // 8) + [*ODD]


@pytest.mark.parametrize(
    "characters", [some_characters, pytest.param(every_character, marks=pytest.mark.slow)]
)
def test_characters_of_tokens(characters, long_tokenizer):
    """Every character between letters, on its own, and after a digit."""
    cases = [f"a{character}b {character} 3{character}" for character in characters()]
    for start in range(0, len(cases), 1 << 14):
        part = cases[start : start + (1 << 14)]
        assert_same_tokens(long_tokenizer, [" ".join(part[at::64]) for at in range(64)])


@pytest.mark.parametrize("make", [AlbertTokenizer, cased, added, user_defined])
def test_characters_of_random_tokens(make, tiny_vocabulary):
    vocabulary, texts = make(tiny_vocabulary), []
    tokens = [token.replace("▁", " ") for token in vocabulary.get_vocab()]
    kinds = [list(ODD), list(ODD), tokens, special_characters()]
    for seed in range(10):
        draw = np.random.default_rng(seed)
        for length in draw.integers(1, 30, 20):
            chosen = [kinds[kind] for kind in draw.integers(len(kinds), size=length)]
            texts.append("".join(kind[draw.integers(len(kind))] for kind in chosen))
    assert_same_tokens(vocabulary, texts)


def test_a_long_text_is_only_read_to_its_last_token(long_tokenizer):
    alphabet = Alphabet(long_tokenizer)
    texts = tf.constant(["a b" * 10_000, "", " " * 10_000 + "a", "🦕" * 1000 + "b"])
    letters = alphabet.read(texts, tf.constant([100, 0, 1, 1]))
    found = [np.count_nonzero(row) for row in letters.are_known]
    assert 100 < found[0] < 20_000 and found[1:] == [0, 2, 2]
    assert_same_tokens(long_tokenizer, ["🦕" * 1000 + "b", " " * 10_000 + "a‾b", "ﷺ" * 500 + "½"])


def test_bytes_that_are_not_utf_8(long_tokenizer):
    text = tf.constant([b"a \xff\xfe b\xc3"])
    ids = long_tokenizer.in_graph().tokenize(text).to_tensor()
    pieces = words.of_pieces(long_tokenizer, text, ids)
    found = pieces.characters.read(pieces.starts, pieces.ends)
    assert found["end_byte"].numpy().max() <= 7
