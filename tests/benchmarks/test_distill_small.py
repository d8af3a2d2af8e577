"""Distillation of a BERT encoder: rows of two vocabularies, and runs that resume."""

import keras
import numpy as np
import pytest

import albert_tf
from albert_tf.data.pretraining.masking import word_table
from benchmarks import distill_small
from benchmarks.distill_small import (
    CLASSIFY,
    END,
    SEPARATE,
    Batches,
    Distillation,
    Text,
    held_out_losses,
    initial_student,
    train,
    wordpiece_ids,
)
from tests.conftest import SENTENCES

LETTERS = "abcdefghijklmnopqrstuvwxyz"
WORDPIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *LETTERS]
WORDPIECES += [f"##{letter}" for letter in LETTERS] + [".", ",", "the", "##ing"]
VOCAB = {piece: index for index, piece in enumerate(WORDPIECES)}
SPECIAL = (2, 3, 0)
DOCUMENTS = [SENTENCES[:3], SENTENCES[3:4], SENTENCES[:2], SENTENCES[2:]]


class Wordpieces:
    """The teacher's tokenizer, which the recipe uses only to tokenize single words."""

    def encode_plain(self, words):
        return [
            np.array(wordpiece_ids(f"\u2581{word.lower()}", VOCAB) or [1], np.int32)
            for word in words
        ]


@pytest.fixture
def tokenizer():
    return albert_tf.AlbertTokenizer.from_pretrained("small")


@pytest.fixture
def text(tokenizer, tmp_path, monkeypatch):
    """Reads the file of tokens although the sentences no longer exist."""
    monkeypatch.setattr(distill_small, "WIDTHS", (16, 32))
    monkeypatch.setattr(distill_small, "HELD_OUT", 0.25)
    (tmp_path / "text.txt").write_text("\n\n".join("\n".join(lines) for lines in DOCUMENTS))
    path = tmp_path / "tokens.npz"
    Text.read(path, tmp_path / "text.txt", lambda: (tokenizer, Wordpieces()))
    return Text.read(path, None, None)


@pytest.fixture
def batches(text, tokenizer):
    special = tokenizer.cls_token_id, tokenizer.sep_token_id, tokenizer.pad_token_id
    return Batches(text, (special, SPECIAL), word_table(tokenizer), (64, 128))


def teacher():
    config = albert_tf.AlbertConfig(
        vocab_size=len(VOCAB),
        embedding_size=24,
        hidden_size=24,
        num_hidden_layers=4,
        num_hidden_groups=4,
        num_attention_heads=3,
        intermediate_size=40,
        hidden_act="gelu",
        max_position_embeddings=64,
    )
    return albert_tf.AlbertModel(config)


def student_of(model, tokenizer):
    config = model.config.replace(
        vocab_size=tokenizer.vocab_size, embedding_size=8, num_hidden_groups=2
    )
    frequency = np.arange(tokenizer.vocab_size)
    return initial_student(model, tokenizer, VOCAB, frequency, config, "float32")


def test_pieces_are_spelled_with_the_longest_wordpieces():
    names = {index: piece for piece, index in VOCAB.items()}
    assert [names[index] for index in wordpiece_ids("\u2581thing", VOCAB)] == ["t", "##h", "##ing"]
    assert [names[index] for index in wordpiece_ids("ing", VOCAB)] == ["##ing"]
    assert wordpiece_ids("\u2581the!", VOCAB) == []


def test_rows_have_the_same_words_in_both_vocabularies(batches, tokenizer):
    documents = [" ".join(lines).lower() for lines in DOCUMENTS]
    for step in (0, 1, 2, 3):
        width = (16, 32)[step % 2]
        lesson = batches(step)["lesson"]
        for row in range(64 // width):
            for name in ("student", "teacher"):
                mask, words = (lesson[f"{name}_{key}"][row] for key in ("attention_mask", "words"))
                assert words[0] == CLASSIFY and words[mask.sum() - 1] == END
                assert mask[: mask.sum()].all()
                inside = words[words >= 0]
                assert (np.diff(inside) >= 0).all() and inside[0] == 0
                assert (SEPARATE in words) == lesson[f"{name}_token_type_ids"][row].any()
            ours, theirs = (lesson[f"{name}_words"][row] for name in ("student", "teacher"))
            assert set(ours[ours > -4]) == set(theirs[theirs > -4])
            assert not set(ours[ours < -3]) & set(theirs[theirs < -3])
            found = tokenizer.decode(lesson["student_input_ids"][row][ours >= 0])
            assert any(found.lower() in document for document in documents)


def test_held_out_documents_are_never_drawn(text):
    for width in (16, 32):
        _, _, end = text.spans(np.random.default_rng(0), 500, width)
        assert end.max() <= text.sentences[text.held_out]
        begin, _, _ = text.spans(np.random.default_rng(0), 500, width, held_out=True)
        assert begin.min() >= text.sentences[text.held_out] > 0


def test_a_batch_is_a_function_of_its_step(batches):
    one, again, other = (batches(step)["pretraining"]["input_ids"] for step in (1, 1, 3))
    np.testing.assert_array_equal(one, again)
    assert not np.array_equal(one, other)
    assert (one == batches.table.mask_id).any()


def test_a_student_begins_with_the_teachers_parts(tokenizer):
    model = teacher()
    student = student_of(model, tokenizer)
    blocks = student.albert.encoder.blocks
    for block, layer in zip(blocks, (0, 2), strict=True):
        found, wanted = block.get_weights(), model.encoder.blocks[layer].get_weights()
        for one, other in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(one, other)
    words = student.albert.embedding.get_weights()[0]
    piece = tokenizer.convert_tokens_to_ids("\u2581the")
    assert words.shape == (tokenizer.vocab_size, 8) and np.abs(words[piece]).max() > 0


@pytest.mark.skipif(keras.backend.backend() == "tensorflow", reason="runs on torch and JAX")
def test_a_run_learns_and_resumes(batches, tokenizer, tmp_path):
    def trained(name, *stops):
        for stop in stops:
            keras.utils.set_random_seed(0)
            model = teacher()
            run = Distillation(student_of(model, tokenizer), model, distill_small.WEIGHTS)
            before = held_out_losses(run, batches)
            (tmp_path / name).mkdir(exist_ok=True)
            train(run, batches, 8, stop, 2, 3e-3, tmp_path / name, workers=0)
        return run, before

    whole, before = trained("whole", 8)
    parts, _ = trained("parts", 4, 8)
    for one, other in zip(whole.trainable_variables, parts.trainable_variables, strict=True):
        one, other = map(keras.ops.convert_to_numpy, (one, other))
        np.testing.assert_allclose(one, other, atol=1e-5)
    after = held_out_losses(whole, batches)
    assert after["pretraining"] < before["pretraining"] and after["states"] < before["states"]
    saved = albert_tf.AlbertForPreTraining.from_pretrained(tmp_path / "whole" / "model")
    assert saved.config.num_hidden_groups == 2
