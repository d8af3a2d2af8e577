"""Distillation of a sentence encoder: words of two vocabularies, and runs that resume."""

from functools import partial

import numpy as np
import pytest

import albert_tf
from benchmarks import distill_small
from benchmarks.distill_small import NO_WORD, Lessons, Student, rate, train
from tests.conftest import SENTENCES

D = 12
EPOCH = 5  # batches of four of the 21 sentences, in windows of eight
TEXTS = [" ".join(text.split()[:words]) for text in SENTENCES for words in (4, 6, 9)]


@pytest.fixture
def lessons(tmp_path, monkeypatch):
    for name, value in {"BATCH": 4, "WINDOW": 8, "SAVE": 2}.items():
        monkeypatch.setattr(distill_small, name, value)
    rng = np.random.default_rng(0)
    counts = np.array([len(text.split(" ")) for text in TEXTS])
    np.savez(
        tmp_path / "0000.npz",
        sentences=rng.normal(size=(len(TEXTS), D)).astype(np.float16),
        words=rng.normal(size=(counts.sum(), D)).astype(np.float16),
        counts=counts,
    )
    tokenizer = albert_tf.AlbertTokenizer.from_pretrained("small")
    return Lessons(TEXTS, tmp_path, [0], tokenizer)


def test_tokens_know_their_words(lessons):
    """Word by word, the tokens are those of the word alone."""
    tokenizer = albert_tf.AlbertTokenizer.from_pretrained("small")
    for row in (0, 11):
        for number, word in enumerate(TEXTS[row].split(" ")):
            ids = lessons.ids[row][lessons.words_of[row] == number]
            assert ids.tolist() == tokenizer(word, add_special_tokens=False)["input_ids"]


def test_a_batch_has_the_words_of_its_rows(lessons):
    ids, mask, words_of, words, vectors = lessons._batch([5, 2])
    for i, row in enumerate((5, 2)):
        length = len(lessons.ids[row])
        assert ids[i, :length].tolist() == lessons.ids[row].tolist()
        assert mask[i].sum() == length
        own = words_of[i][words_of[i] != NO_WORD]
        wanted = lessons.words[lessons.first[row] :][: lessons.counts[row]]
        np.testing.assert_array_equal(words[np.unique(own)], wanted)
    np.testing.assert_array_equal(vectors, lessons.vectors[[5, 2]])


def test_batches_start_anywhere(lessons):
    batches = [
        batch[0].tolist() for batch, _ in zip(lessons.batches(), range(2 * EPOCH), strict=False)
    ]
    assert next(lessons.batches(EPOCH + 1))[0].tolist() == batches[EPOCH + 1]
    assert batches[:EPOCH] != batches[EPOCH:]  # another epoch, another order


def test_sentences_of_rare_words_are_not_learned(lessons):
    lengths = np.array([len(ids) - 2 for ids in lessons.ids])
    is_plain = lengths <= 1.75 * lessons.counts
    assert 0 < is_plain.sum() < len(TEXTS)
    assert lessons.rows.tolist() == np.flatnonzero(is_plain).tolist()


def test_the_rate_rises_stays_and_falls():
    found = [rate(step, 1000, 2.0) for step in (0, 49, 400, 700, 999)]
    np.testing.assert_allclose(found, [0.04, 2, 2, 1, 1 / 300], rtol=1e-6)


@pytest.mark.slow
@pytest.mark.tensorflow
def test_a_run_learns_and_resumes(lessons, tmp_path):
    text = tmp_path / "book.txt"
    text.write_text("\n".join(SENTENCES * 4) + "\n\n" + "\n".join(SENTENCES), "utf-8")
    records = tmp_path / "records"
    albert_tf.build_data(
        input=str(text), output=records, vocab="small", max_seq_length=16, workers=1
    )
    pretraining = partial(albert_tf.pretraining_batches, records, 2, 7)

    def trained(*steps, state):
        for count in steps:
            student = Student("small", lessons, pretraining(), distill_small.WEIGHTS, "float32")
            train(student, lessons, pretraining, count, 8e-4, tmp_path / state)
        return student

    def loss(student):
        batch = (*lessons._batch([1, 2, 3, 4]), *next(iter(pretraining())))
        return float(student._losses(*batch)["words"])

    student = trained(8, state="whole.npz")
    again = trained(6, 8, state="parts.npz")
    for one, other in zip(student.variables, again.variables, strict=True):
        np.testing.assert_allclose(one.numpy(), other.numpy(), atol=1e-6)
    assert loss(student) < loss(trained(0, state="none.npz"))
