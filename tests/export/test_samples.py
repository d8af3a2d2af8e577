import contextlib

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_text
from albert_tf_export import samples as samples_module
from albert_tf_export.parity import ParityError
from albert_tf_export.samples import check_tokens, sample, vocabulary_texts

from albert_tf import export_saved_model, export_tflite
from albert_tf.text.model_file import ModelProto
from albert_tf.text.tokenizer import AlbertTokenizer
from albert_tf.text.vocabulary import train_vocabulary
from tests.conftest import SENTENCES


@pytest.fixture(scope="module")
def samples(classifier, tokenizer):
    return sample(classifier, tokenizer, 24, pairs=False)


def test_samples_are_varied(samples, classifier):
    inputs, expected, pieces, *_ = samples["ids"]
    assert pieces == [len(row["input_ids"]) for row in inputs]
    assert min(pieces) == 2  # the empty text
    assert max(pieces) == 24  # the truncated text
    assert len(set(pieces)) > 4
    assert {row["logits"].shape for row in expected} == {(3,)}
    assert len({row["logits"].tobytes() for row in expected}) == len(inputs)
    assert any("\0" in row["text"] for row in samples["text"].inputs)
    assert samples["text"].expected is samples["ids"].expected
    assert "masked" not in samples


def test_expected_is_what_keras_gives(samples, classifier):
    for row, expected in zip(samples["ids"].inputs, samples["ids"].expected, strict=True):
        ids, types = (np.array([row[name]]) for name in ("input_ids", "token_type_ids"))
        logits = classifier({"input_ids": ids, "token_type_ids": types})["logits"][0]
        np.testing.assert_array_equal(expected["logits"], logits)
        assert expected["label"] == classifier.config.labels[np.argmax(logits)].encode()


def test_samples_of_pairs(classifier, tokenizer):
    samples = sample(classifier, tokenizer, 24, pairs=True)
    assert all(1 in row["token_type_ids"] for row in samples["ids"].inputs)
    assert all(set(row) == {"text", "text_pair"} for row in samples["text"].inputs)


def test_samples_of_choices(make_model, tokenizer):
    model = make_model("multiple-choice")
    samples = sample(model, tokenizer, 24, pairs=True, choices=5)
    for row, expected in zip(samples["text"].inputs, samples["ids"].expected, strict=True):
        assert len(row["text"]) == len(set(row["text_pair"])) == len(expected["logits"]) == 5
    row = samples["ids"].inputs[0]
    alone = [
        model({name: np.array([[values[choice]]]) for name, values in row.items()})["logits"]
        for choice in range(5)
    ]
    expected = samples["ids"].expected[0]
    np.testing.assert_allclose(expected["logits"], np.ravel(alone), rtol=0, atol=2e-6)


def test_expected_outputs_include_the_pieces_of_a_text(make_model, tokenizer):
    samples = sample(make_model("token-classification"), tokenizer, 24, pairs=False)
    for row, ids in zip(samples["text"].expected, samples["ids"].inputs, strict=True):
        assert row["input_ids"].tolist() == ids["input_ids"]
        assert row["attention_mask"].tolist() == [1] * len(ids["input_ids"])
        assert row["logits"].shape == (len(ids["input_ids"]), 3)


@pytest.mark.parametrize(
    ("task", "name"), [("masked-lm", "logits"), ("pretraining", "prediction_logits")]
)
def test_masked_samples_select_rows_of_all_logits(task, name, make_model, tokenizer):
    model = make_model(task)
    samples = sample(model, tokenizer, 24, pairs=False, predictions=4)
    masked, whole = samples["masked"], samples["ids"]
    for row, part, full in zip(masked.inputs, masked.expected, whole.expected, strict=True):
        positions = row["masked_lm_positions"]
        assert len(positions) == 4
        assert max(positions) < len(row["input_ids"])
        np.testing.assert_array_equal(part[name], full[name][positions])
    row = {key: np.array([value]) for key, value in masked.inputs[0].items()}
    np.testing.assert_allclose(model(row)[name][0], masked.expected[0][name], rtol=0, atol=1e-5)


def test_the_width_of_a_beam_does_not_depend_on_the_text(make_model, tokenizer):
    """Keeps the width for two empty texts, which are three pieces."""
    samples = sample(make_model("answerability"), tokenizer, 24, pairs=True)
    assert {row["start_top_index"].shape for row in samples["ids"].expected} == {(5,)}
    assert {row["end_top_index"].shape for row in samples["ids"].expected} == {(25,)}


def without_normalization(proto):
    proto.normalizer_spec.precompiled_charsmap = b""


def with_capitals(proto):
    other = train_vocabulary(SENTENCES, 200, lower_case=False)
    own = ModelProto.FromString(other).normalizer_spec.precompiled_charsmap
    proto.normalizer_spec.precompiled_charsmap = own


def with_accents(proto):
    other = train_vocabulary(SENTENCES, 200, keep_accents=True)
    own = ModelProto.FromString(other).normalizer_spec.precompiled_charsmap
    proto.normalizer_spec.precompiled_charsmap = own


def another_rare_letter(proto):
    at = next(at for at, piece in enumerate(proto.pieces) if piece.piece == "q")
    proto.pieces[at].piece = "日"


def a_longer_token_less(proto):
    at = max(range(13, len(proto.pieces)), key=lambda at: len(proto.pieces[at].piece))
    proto.pieces[at].score = -1000


def a_special_token_in_texts(proto):
    proto.pieces[3].piece = "[sep]"
    proto.pieces[3].type = proto.pieces[3].NORMAL


def no_user_defined_tokens(proto):
    for piece in proto.pieces:
        if piece.type == piece.USER_DEFINED:
            piece.type = piece.CONTROL


def an_added_token_less(proto):
    proto.pieces[-1].piece = "never"


GRAPHS = [
    *(without_normalization, with_capitals, with_accents, another_rare_letter),
    *(a_longer_token_less, a_special_token_in_texts, no_user_defined_tokens, an_added_token_less),
]


@pytest.fixture
def altered(tiny_vocabulary, monkeypatch):
    """Returns a function that makes graphs read an altered vocabulary."""
    tokenizer = AlbertTokenizer(tiny_vocabulary, model_max_length=24)
    tokenizer.add_tokens(["zebraq"])

    def alter(change):
        proto = ModelProto.FromString(tokenizer.model_bytes)
        change(proto)
        graph = tensorflow_text.FastSentencepieceTokenizer(proto.SerializeToString())
        monkeypatch.setattr(AlbertTokenizer, "in_graph", lambda self: graph)
        return tokenizer

    return alter


@pytest.mark.parametrize("change", GRAPHS)
def test_a_graph_that_reads_otherwise_is_found(altered, change):
    check_tokens(altered(lambda proto: None))
    with pytest.raises(
        ParityError, match="must read texts as Python does. Received: '(.|\n)*, in Python '"
    ):
        check_tokens(altered(change))


def test_such_a_graph_is_not_exported(altered, make_model, tmp_path):
    tokenizer = altered(without_normalization)
    model = make_model("sequence-classification", vocab_size=tokenizer.vocab_size)
    with pytest.raises(ParityError, match="must read texts as Python does"):
        export_saved_model(model, tokenizer, tmp_path / "saved")
    with pytest.raises(ParityError, match="must read texts as Python does"):
        export_tflite(model, tokenizer, tmp_path / "model.tflite", quantize="dynamic")
    assert not any(tmp_path.iterdir())


def test_texts_of_a_vocabulary(tokenizer, published_vocabulary):
    rows = vocabulary_texts(tokenizer, 22)
    assert 1 < len(rows) <= 4
    for row in rows:
        assert 0 < len(tokenizer(row, add_special_tokens=False).input_ids) <= 22
    [whole] = vocabulary_texts(AlbertTokenizer(published_vocabulary), 200)
    for part in ("日", "🦕", "[SEP]", "THE", "ing", " 10", "£", "1,"):
        assert part in whole
    assert vocabulary_texts(tokenizer, 1), "no text at all for hosts of one token"


@pytest.mark.parametrize(("order", "is_tie"), [(("ee", "e"), True), (("ee", "ee"), False)])
def test_a_tie_is_no_difference(tokenizer, monkeypatch, order, is_tie):
    """Both ways to write eee have the same score; the order of a float32 sum decides."""
    graph = tokenizer.in_graph()
    other = tokenizer.convert_tokens_to_ids(["▁", *order])
    [ours] = tokenizer.encode_plain(["eee"])
    assert tokenizer.convert_ids_to_tokens(ours.tolist()) == ["▁", "e", "ee"]

    class Tied:
        def tokenize(self, texts):
            rows = graph.tokenize(texts).to_list()
            rows = [other if row == ours.tolist() else row for row in rows]
            return tf.ragged.constant(rows, "int32")

    monkeypatch.setattr(samples_module, "TEXTS", ["eee"])
    monkeypatch.setattr(AlbertTokenizer, "in_graph", lambda self: Tied())
    with contextlib.nullcontext() if is_tie else pytest.raises(ParityError, match="'eee', in P"):
        check_tokens(tokenizer)
