"""The sample is bounded, seeded, fair, and independent of the order of reading."""

from collections import Counter

import pytest

from albert_tf.data.corpus.files import find_inputs
from albert_tf.data.corpus.options import CorpusOptions
from albert_tf.data.corpus.sample import PASSAGE, SMALLEST, sample
from albert_tf.errors import UserError


@pytest.fixture
def corpus(tmp_path):
    """Returns five files of 60 documents of 80 to 97 bytes."""
    for name in range(5):
        rows = [
            f"File {name}, document {row}: {'word ' * 13}{'.' * (row % 10)}" for row in range(60)
        ]
        (tmp_path / f"{name}.txt").write_text("\n\n".join(rows))
    return tmp_path


def drawn(corpus, limit, seed=3, counts=None, **options):
    counts = Counter() if counts is None else counts
    return sample(find_inputs([corpus]), CorpusOptions(**options), limit, seed, counts)


def test_all_of_a_small_corpus(corpus):
    counts = Counter()
    found = drawn(corpus, 1_000_000, counts=counts)
    assert len(set(found)) == 300
    assert counts["documents"] == 300
    assert counts["bytes"] == sum(len(passage.text) for passage in found)
    assert found != sorted(found, key=lambda passage: (passage.source, passage.offset))


def test_a_sample_is_bounded_and_fair(corpus):
    found = drawn(corpus, 9_000)
    size = sum(len(passage.text) for passage in found)
    assert 8_900 < size <= 9_000
    by_file = Counter(passage.source for passage in found)
    assert len(by_file) == 5, "none is left out"
    assert set(found) < set(drawn(corpus, 1_000_000))


def test_a_larger_sample_begins_with_the_smaller(corpus):
    small, large = drawn(corpus, 4_000), drawn(corpus, 9_000)
    assert large[: len(small)] == small


def test_the_order_of_the_files_does_not_matter(corpus):
    files = find_inputs([corpus])
    assert sample(files[::-1], CorpusOptions(), 9_000, 3, Counter()) == drawn(corpus, 9_000)


def test_another_seed_gives_another_sample(corpus):
    assert drawn(corpus, 9_000, seed=3) == drawn(corpus, 9_000, seed=3)
    assert set(drawn(corpus, 9_000, seed=3)) != set(drawn(corpus, 9_000, seed=4))


def test_long_documents_come_in_passages(tmp_path):
    (tmp_path / "a.txt").write_text("A sentence of some words. " * 1000)
    found = drawn(tmp_path, 10_000)
    assert len(found) in (2, 3), "the last of seven is shorter"
    assert sum(PASSAGE - 30 < len(passage.text) <= PASSAGE for passage in found) == 2


def test_passages_of_a_few_bytes_count_for_more(tmp_path):
    (tmp_path / "a.txt").write_text("\n\n".join(map(str, range(1000))))
    assert len(drawn(tmp_path, 10 * SMALLEST + 5)) == 10


def test_a_sample_of_nothing(tmp_path):
    (tmp_path / "a.txt").write_text("\n\n")
    assert drawn(tmp_path, 100) == []


def test_bad_lines(corpus):
    (corpus / "bad.txt").write_bytes(b"Good.\n\n\xff\n")
    with pytest.raises(UserError, match="bad.txt, line 3"):
        drawn(corpus, 100)
    counts = Counter()
    drawn(corpus, 100, bad_lines="skip", counts=counts)
    assert counts["bad_lines"] == 1
