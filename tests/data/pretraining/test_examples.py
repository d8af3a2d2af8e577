import json
from collections import Counter

import numpy as np
import pytest

from albert_tf.data.corpus.documents import Document
from albert_tf.data.pretraining import rng
from albert_tf.data.pretraining.examples import ExampleMaker, as_passages
from albert_tf.data.pretraining.masking import word_table
from albert_tf.data.pretraining.options import ExampleOptions
from albert_tf.data.pretraining.pairs import make_pairs, swapped
from albert_tf.data.pretraining.records import decode
from albert_tf.tasks import IGNORED
from albert_tf.text.tokenizer import AlbertTokenizer
from tests.conftest import SENTENCES
from tests.data.pretraining.conftest import masked_batch

LENGTH = 48


def documents(count):
    generator = np.random.default_rng(11)
    return [
        Document("a.txt", 100 * number, "\n".join(generator.choice(SENTENCES, size)).encode())
        for number, size in enumerate(generator.integers(1, 30, count).tolist())
    ]


def lines(document):
    return document.text.decode().split("\n")


@pytest.fixture
def make(tiny_tokenizer):
    def maker(**options):
        given = {"max_seq_length": LENGTH, **options}
        return ExampleMaker(
            tiny_tokenizer, word_table(tiny_tokenizer), ExampleOptions(**given), lines
        )

    return maker


def records(maker, given):
    counts = Counter()
    return list(maker.records(maker.read(given, counts), counts)), counts


def test_the_records_of_a_document_depend_on_it_alone(make):
    maker, given = make(), documents(60)
    together, _ = records(maker, given)
    assert together == [record for one in given for record in records(maker, [one])[0]]
    assert len({rank for rank, _ in together}) == len(together)


def test_draws_depend_on_name_and_seed(make):
    (document,) = documents(1)
    others = document._replace(offset=7), document._replace(source="b.txt")
    keys = make().read([document, *others], Counter()).keys.tolist()
    keys += make(random_seed=9).read([document], Counter()).keys.tolist()
    assert len(set(keys)) == 4


def test_segments_are_in_the_order_of_the_text(make):
    given, counts = documents(40), Counter()
    stored = [decode(record) for _, record in records(make(), given)[0]]
    plain = [decode(record) for _, record in records(make(pair_task="none"), given)[0]]
    maker = make()
    passages = maker.read(given, counts)
    pairs = make_pairs(passages, maker.options, counts)
    assert len(stored) == len(pairs.keys) > 100
    for number, (segments, example) in enumerate(zip(stored, plain, strict=True)):
        assert segments.keys() == {"segment_a", "segment_b", "next_sentence_labels"}
        assert segments["next_sentence_labels"] == [0]
        assert segments["segment_a"] == passages.ids[slice(*pairs.first[number])].tolist()
        assert segments["segment_b"] == passages.ids[slice(*pairs.second[number])].tolist()
        assert len(segments["segment_a"]) + len(segments["segment_b"]) <= LENGTH - 3
        assert example == {**segments, "next_sentence_labels": [IGNORED]}


def test_special_tokens_in_texts_are_plain_text(make, tiny_tokenizer):
    document = Document("a", 0, b"A boat [MASK] and [SEP] a film.\nThe [CLS] room smelled.")
    ((_, record),), _ = records(make(), [document])
    example = decode(record)
    assert not set(example["segment_a"] + example["segment_b"]) & {0, 2, 3, 4}


def test_counts(make):
    given = [
        Document("a", 0, b"A warm story."),
        Document("a", 50, "\n".join(SENTENCES * 9).encode()),
        Document("a", 9999, b" \n "),
    ]
    found, counts = records(make(), given)
    assert counts["examples"] == len(found)
    assert counts["empty_documents"] == 1
    assert counts["sentences"] == 1 + 8 * 9 + 2
    assert counts["tokens"] > 500
    assert not records(make(), [])[0] and not records(make(), given[2:])[0]


STARTS = np.array([True, True, False, True, True, False])  # of ids 0 … 5


def arrays(*sentences):
    return [np.array(sentence, np.int32) for sentence in sentences]


def test_documents_in_one_call():
    """Every sentence begins with a word, whatever its first piece."""
    counts = Counter()
    sentences = arrays([1, 2, 2], [3], [], [5, 2])
    whole = as_passages([7, 8, 9], [2, 1, 1], sentences, STARTS, 10, counts)
    assert whole.keys.tolist() == [7, 9]
    assert whole.ids.tolist() == [1, 2, 2, 3, 5, 2]
    assert whole.starts.tolist() == [True, False, False, True, True, False]
    assert whole.bounds.tolist() == [0, 3, 4, 6]
    assert whole.documents.tolist() == [0, 2, 3]
    assert counts == {"tokens": 6, "empty_documents": 1}


def test_long_sentences_are_cut_between_words():
    counts = Counter()
    sentences = arrays([3], [1, 2, 3, 4, 5, 3, 2, 2, 2, 2, 2, 3], [4])
    whole = as_passages([7, 8], [2, 1], sentences, STARTS, 4, counts)
    assert whole.bounds.tolist() == [0, 1, 4, 6, 10, 13, 14]  # a word of six pieces is cut too
    assert whole.documents.tolist() == [0, 5, 6]
    assert whole.starts[whole.bounds[:-1]].all()
    assert counts["long_sentences"] == 1
    assert counts["tokens"] == 14


RUNS = 10
MASK = 4  # id in the published vocabulary


def masked(maker, passages, copies):
    """Returns masked examples of several passes over the passages."""
    columns = []
    for copy in copies:
        own = passages._replace(keys=rng.fold_in(passages.keys, copy))
        pairs = make_pairs(own, maker.options, Counter())
        pairs = swapped(pairs) if maker.options.pair_task == "sop" else pairs
        inputs, labels = masked_batch(pairs, own.ids, maker.table, maker.options)
        columns.append(inputs | labels)
    return {name: np.concatenate([each[name] for each in columns]) for name in columns[0]}


def measured(examples, longest):
    """Returns statistics of examples."""
    is_label = examples["labels"] != IGNORED
    lengths = examples["attention_mask"].sum(1)
    inputs = np.take_along_axis(examples["input_ids"], examples["masked_lm_positions"], 1)[is_label]
    labels, total = examples["labels"][is_label], is_label.sum()
    at = examples["masked_lm_positions"] + 1000 * np.arange(len(lengths))[:, None]
    begins = np.flatnonzero(np.diff(at[is_label], prepend=-9) != 1)
    runs = Counter(np.diff(begins, append=total).tolist())
    return {
        "instances": len(lengths),
        "length mean": lengths.mean(),
        "shorter": (lengths < longest).mean(),
        "predictions": total / len(lengths),
        "label 1": examples["sentence_order_label"].mean(),
        "mask": (inputs == MASK).mean(),
        "kept": ((inputs == labels) & (inputs != MASK)).mean(),
        "random": ((inputs != labels) & (inputs != MASK)).mean(),
        **{f"runs of {length}": runs[length] / runs.total() for length in range(1, 6)},
    }


def expected(golden, with_lengths):
    """Returns the golden file's statistics under the same names."""
    lengths = golden["token_length"]
    label = "label_1_share" if with_lengths else "label_1_share_among_same_document_pairs"
    result = {"instances": golden["instances"], "label 1": golden[label]}
    result |= golden["replacement"]
    runs = golden["contiguous_masked_run_length"]
    result |= {f"runs of {length}": runs.get(str(length), 0) for length in range(1, 6)}
    if with_lengths:
        result |= {
            "length mean": lengths["mean"],
            "shorter": lengths["share_shorter_than_max_seq_length"],
            "predictions": golden["masked_per_instance"]["mean"],
        }
    return result


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "with_lengths"),
    [
        # Here the original adds text of another document to a remaining sentence, under a wrong
        # label, so that its lengths are others.
        ("default_ngram3_wwm", False),
        ("ngram1_no_wwm", False),
        ("ngram3_wwm_favor_longer", False),
        ("seq512_pred77", False),
        ("random_next_sentence", True),
    ],
)
def test_statistics_agree_with_a_run_of_the_original(
    name, with_lengths, golden, published_vocabulary
):
    """Expects each number of the original's run within four standard deviations of ten of our runs.

    All runs have the same size, 900 passes over documents, so that the spread of our runs is the
    sampling error of the original's. Our runs make over 20,000 examples (10,000 of 512 pieces).
    """
    folder = golden / "F_pretraining_data"
    its = json.loads((folder / "statistics.json").read_text("utf-8"))[name]
    text = (folder / "synthetic_corpus.txt").read_bytes()
    documents = [
        Document("corpus", number, part) for number, part in enumerate(text.strip().split(b"\n\n"))
    ]
    flags = dict(its["flags"])
    passes = flags.pop("dupe_factor")
    assert flags.pop("do_lower_case") and not flags.pop("do_permutation")
    task = "nsp" if flags.pop("random_next_sentence") else "sop"
    options = ExampleOptions(pair_task=task, **flags)
    tokenizer = AlbertTokenizer(published_vocabulary)
    maker = ExampleMaker(tokenizer, word_table(tokenizer), options, lines)
    passages = maker.read(documents, Counter())
    assert passes * len(documents) == its["document_passes"]
    runs = [
        measured(
            masked(maker, passages, range(run * passes, (run + 1) * passes)), options.max_seq_length
        )
        for run in range(RUNS)
    ]
    assert sum(run["instances"] for run in runs) > 10_000 + 10_000 * (options.max_seq_length < 512)
    for what, value in expected(its, with_lengths).items():
        ours = [run[what] for run in runs]
        assert abs(value - np.mean(ours)) < 4 * np.std(ours, ddof=1), what
