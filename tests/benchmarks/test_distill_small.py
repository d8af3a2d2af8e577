"""Distillation of a sentence encoder: words of two vocabularies, and runs that resume."""

import contextlib
from functools import partial
from itertools import islice

import keras
import numpy as np
import pytest

import albert_tf
from benchmarks import distill_small
from benchmarks.distill_small import (
    NO_WORD,
    WEIGHTS,
    Lessons,
    Records,
    Student,
    Tokens,
    Words,
    batches,
    grown,
    teach,
    train,
)
from tests.conftest import SENTENCES

D = 12
TEXTS = [" ".join(text.split()[:words]) for text in SENTENCES for words in (4, 6, 9)]


@pytest.fixture
def tokenizer():
    return albert_tf.AlbertTokenizer.from_pretrained("small")


@pytest.fixture
def lessons(tokenizer, monkeypatch):
    for name, value in {"HELD_OUT": 2, "WINDOW": 2, "WIDTHS": (16,), "SAVE": 2}.items():
        monkeypatch.setattr(distill_small, name, value)
    words = Words(TEXTS)
    special = tokenizer.cls_token_id, tokenizer.sep_token_id, tokenizer.pad_token_id
    tokens = Tokens(words, tokenizer.encode_plain(words.unique), special)
    rng = np.random.default_rng(0)
    vectors, of_words = (
        rng.normal(size=(rows, D)).astype(np.float16) for rows in (len(TEXTS), len(words.numbers))
    )
    return Lessons(words, tokens, vectors, of_words)


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    folder = tmp_path_factory.mktemp("records")
    text = folder / "book.txt"
    text.write_text("\n".join(SENTENCES * 4) + "\n\n" + "\n".join(SENTENCES), "utf-8")
    output = folder / "records"
    albert_tf.build_data(
        input=str(text), output=output, vocab="small", max_seq_length=16, workers=1
    )
    return Records(output)


def test_tokens_are_the_texts_and_know_their_words(lessons, tokenizer):
    for row in (0, 11):
        ids, mask, words_of = (part[0] for part in lessons.tokens.rows(np.array([row]), 24))
        assert ids[: mask.sum()].tolist() == tokenizer(TEXTS[row])["input_ids"]
        assert set(ids[mask.sum() :]) <= {tokenizer.pad_token_id}
        for number, word in enumerate(TEXTS[row].split(" ")):
            own = ids[words_of == number].tolist()
            assert own == tokenizer(word, add_special_tokens=False)["input_ids"]


def test_long_rows_are_cut(lessons, tokenizer):
    ids, mask, words_of = lessons.tokens.rows(np.array([11]), 6)
    assert ids[0, -1] == tokenizer.sep_token_id and mask.all()
    assert words_of[0, [0, -1]].tolist() == [NO_WORD, NO_WORD]


def test_a_batch_has_the_vectors_of_its_rows_and_words(lessons):
    rows = np.array([5, 2])
    batch = lessons.batch(rows)
    np.testing.assert_array_equal(batch["sentences"], lessons.vectors[rows])
    for i, row in enumerate(rows):
        wanted = lessons.words[lessons.first[row] :][: lessons.counts[row]]
        np.testing.assert_array_equal(batch["words"][i, : len(wanted)], wanted)


def test_vectors_of_other_sentences_are_refused(tmp_path):
    for name, rows in {"sentences": 3, "words": 9}.items():
        np.save(tmp_path / f"{name}.npy", np.zeros((rows, D), np.float16))
    (tmp_path / "teacher.json").write_text("3")
    with pytest.raises(SystemExit, match=r"'sentences': 3, 'words': 9.*Give another --output"):
        teach(Words(TEXTS), "no-teacher", tmp_path)


def test_an_epoch_has_each_plain_sentence_once_but_those_held_out(lessons):
    plain = np.flatnonzero(lessons.lengths <= distill_small.MOST_TOKENS * lessons.counts)
    order = lessons.order(0, 1)
    assert 0 < len(plain) < len(TEXTS)
    assert sorted(order.ravel()) == [row for row in plain if row >= 2]
    assert order.tolist() == lessons.order(0, 1).tolist() != lessons.order(1, 1).tolist()


def test_records_are_masked_anew(records):
    one, other = (records.batch(number, 8) for number in (0, 1))
    assert not np.array_equal(one["input_ids"], other["input_ids"])
    rows, columns = np.nonzero(one["labels"] >= 0)
    masked = one["input_ids"][rows, one["masked_lm_positions"][rows, columns]]
    assert np.mean(masked == records.table.mask_id) > 0.5
    assert np.array_equal(one["input_ids"], records.batch(0, 8)["input_ids"])


def test_batches_start_anywhere(lessons, records):
    found = batches(lessons, [records], (4, 2))
    third = [next(found) for _ in range(3)][2][0]
    (again,) = next(batches(lessons, [records], (4, 2), start=2))
    for part in ("lesson", "pretraining"):
        for name, values in third[part].items():
            np.testing.assert_array_equal(values, again[part][name])


def test_a_grown_model_begins_as_the_smaller_one(tokenizer, tmp_path):
    features = tokenizer(TEXTS[:2], padding=True, return_tensors="np")
    small = albert_tf.AlbertForPreTraining.from_pretrained("small")
    wanted = keras.ops.convert_to_numpy(small(features)["prediction_logits"])
    for sizes in ({}, {"num_hidden_groups": 4}):
        model = grown("small", tokenizer, "float32", **sizes)
        found = keras.ops.convert_to_numpy(model(features)["prediction_logits"])
        assert model.config.num_hidden_groups == sizes.get("num_hidden_groups", 2)
        if not sizes:
            np.testing.assert_allclose(found, wanted, atol=1e-5)
    groups = model.albert.encoder.blocks
    for one, other in zip(groups[2].get_weights(), groups[3].get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.skipif(keras.backend.backend() == "tensorflow", reason="runs on torch and JAX")
def test_a_run_learns_and_resumes(lessons, records, tokenizer, tmp_path):
    def trained(name, *limits):
        for limit in limits:
            keras.utils.set_random_seed(0)
            student = Student(grown("small", tokenizer, "float32"), D, 1.0, WEIGHTS)
            data = partial(batches, lessons, [records], (4, 2))
            stopped = contextlib.nullcontext()
            if limit:
                stopped = pytest.raises(KeyboardInterrupt)
                data = partial(interrupted, data, limit)
            with stopped:
                train(student, data, 8, 8e-4, tmp_path / name)
        return student

    def interrupted(data, limit, start):
        yield from islice(data(start), limit)
        raise KeyboardInterrupt

    whole, parts = trained("whole.npz", None), trained("parts.npz", 5, None)
    for one, other in zip(whole.variables, parts.variables, strict=True):
        one, other = map(keras.ops.convert_to_numpy, (one, other))
        np.testing.assert_allclose(one, other, atol=1e-5)
    again = Student(grown("small", tokenizer, "float32"), D, 1.0, WEIGHTS)
    (batch,) = next(batches(lessons, [records], (4, 2)))
    loss = [float(model.compute_loss(batch, y_pred=model(batch))) for model in (whole, again)]
    assert loss[0] < loss[1]
