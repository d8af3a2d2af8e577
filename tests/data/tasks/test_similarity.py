import json

import numpy as np
import pytest

from albert_tf.config import AlbertConfig
from albert_tf.data.options import LabelledData
from albert_tf.data.tasks.registry import task_of, training_data
from albert_tf.data.tasks.similarity import Match, SimilarityExample
from albert_tf.errors import UserError

GLUE_ROWS = "index\tsentence1\tsentence2\tscore\n0\tA man.\tA boy.\t2.5\n1\tA cat.\tOne cat.\t5.0\n"


def task(data, **options):
    return task_of(LabelledData(task="similarity", data=data, **options))


def write(path, *rows, columns=("anchor", "positive")):
    """Writes rows as JSON lines."""
    lines = [json.dumps(dict(zip(columns, row, strict=True))) for row in rows]
    path.write_text("\n".join(lines) + "\n")
    return path


PAIRS = [("a", "A"), ("b", "B"), ("a", "C"), ("d", "B"), ("e", "E")]


@pytest.fixture
def pairs(tmp_path):
    return write(tmp_path / "pairs.jsonl", *PAIRS)


@pytest.fixture
def triplets(tmp_path):
    rows = [(*pair, f"not {pair[0]}") for pair in PAIRS]
    path = tmp_path / "triplets.jsonl"
    return write(path, *rows, columns=("anchor", "positive", "negative"))


def test_sts_b_as_it_comes(tmp_path):
    for name in ("train", "dev"):
        (tmp_path / f"{name}.tsv").write_text(GLUE_ROWS)
    (tmp_path / "test.tsv").write_text("index\tsentence1\tsentence2\n0\tA man.\t\n")
    made = task(tmp_path)
    train = made.examples("train")
    assert [example[:2] for example in train] == [
        (("A man.", "A boy."), 2.5),
        (("A cat.", "One cat."), 5.0),
    ]
    assert made.config_fields(train)["problem_type"] == "regression"
    assert made.columns() == {"text": "sentence1", "text_pair": "sentence2", "score": "score"}
    (test,) = made.examples("test", labelled=False)
    assert test[:2] == (("A man.", ""), None)


def test_columns_of_your_own(tmp_path):
    columns = ("q", "d", "grade", "text")
    path = write(tmp_path / "d.jsonl", ("A.", "B.", 0.25, "?"), columns=columns)
    given = {"text_column": "q", "text_pair_column": "d", "label_column": "grade"}
    (example,) = task(path, **given).read(path)
    assert example[:2] == (("A.", "B."), 0.25)


def test_named_columns_before_known_ones(tmp_path):
    columns = ("sentence1", "text", "text_pair", "score", "label")
    path = write(tmp_path / "d.jsonl", ("A.", "B.", "C.", 1, 0.5), columns=columns)
    assert task(path).read(path)[0][:2] == (("A.", "C."), 1.0)
    named = task(path, text_column="text", label_column="label")
    assert named.read(path)[0][:2] == (("B.", "C."), 0.5)
    with pytest.raises(UserError, match="'title'"):
        task(path, text_column="title").read(path)


def test_what_is_learned_is_said(pairs, triplets, caplog):
    task(pairs).read(pairs)
    assert "pairs without scores (anchor, positive); a text learns to find its" in caplog.text
    task(triplets).read(triplets)
    assert "triplets (anchor, positive, negative)" in caplog.text


@pytest.mark.parametrize(
    ("row", "columns", "message"),
    [
        (("a", "b", "c", 1), ("anchor", "positive", "negative", "score"), "'score' and 'negative'"),
        (("a", "b"), ("anchor", "other"), "column sentence2 or positive or text_pair. Received"),
        (("a", "b", -1), ("text", "text_pair", "score"), "0 or more. Received: '-1', .*line 1"),
        (("a", "b", "high"), ("text", "text_pair", "score"), "0 or more. Received: 'high'"),
        (("a", "b", ""), ("text", "text_pair", "score"), "'score' must not be empty"),
        (("a", ""), ("text", "text_pair"), "'text_pair' must not be empty"),
    ],
)
def test_bad_rows(tmp_path, row, columns, message):
    path = write(tmp_path / "d.jsonl", row, columns=columns)
    with pytest.raises(UserError, match=message):
        task(path).read(path)


def test_a_header_alone(tmp_path):
    path = tmp_path / "d.tsv"
    path.write_text("sentence1\tsentence2\tscore\n")
    with pytest.raises(UserError, match=r"at least one row\. Received: .*d\.tsv"):
        task(path).read(path)


def test_mixtures(tmp_path):
    write(tmp_path / "train.jsonl", *PAIRS)
    write(tmp_path / "dev.jsonl", ("a", "A", 1.0), columns=("anchor", "positive", "score"))
    with pytest.raises(UserError, match="pairs with scores in .*dev.*, pairs without .*train"):
        training_data(LabelledData(task="similarity", data=tmp_path), 0.1, 1)


def test_nothing_to_learn(tmp_path):
    columns = ("text", "text_pair", "score")
    data = LabelledData(task="similarity", data=tmp_path)
    for name in ("train", "dev"):
        write(tmp_path / f"{name}.jsonl", ("a", "b", 1), ("c", "d", 1), columns=columns)
    with pytest.raises(UserError, match="Scores must differ. Received: 1 in all 2 examples"):
        training_data(data, 0.1, 1)
    for name in ("train", "dev"):
        write(tmp_path / f"{name}.jsonl", ("a", "b"), ("b", "c"))
    with pytest.raises(UserError, match="need others that don't. Received: 2 examples"):
        training_data(data, 0.1, 1)


def test_rows_of_scores(tmp_path, tiny_tokenizer):
    (tmp_path / "d.tsv").write_text(GLUE_ROWS)
    made = task(tmp_path / "d.tsv")
    rows = made.encode(made.read(tmp_path / "d.tsv"), tiny_tokenizer, AlbertConfig(), 12)
    features, labels = rows.batch(np.arange(2))
    assert features["input_ids"].shape[:2] == (2, 2)
    np.testing.assert_allclose(labels["labels"], [0.5, 1.0])
    expected = tiny_tokenizer("A boy.").input_ids
    assert features["input_ids"][0, 1, : len(expected)].tolist() == expected
    assert features["attention_mask"][0, 1].sum() == len(expected)


def test_rows_of_groups(pairs, triplets, tiny_tokenizer):
    """The first and the third share "a", the second and the fourth "B"."""
    for path, texts in ((pairs, 2), (triplets, 3)):
        made = task(path)
        rows = made.encode(made.read(path), tiny_tokenizer, AlbertConfig(), 12)
        features, labels = rows.batch(np.arange(5))
        assert features["input_ids"].shape[:2] == (5, texts)
        assert labels["groups"].tolist() == [0, 1, 0, 1, 2]


def test_a_long_text_is_counted(tmp_path, tiny_tokenizer):
    path = write(tmp_path / "d.jsonl", ("a " * 50, "b"), ("c", "d"))
    made = task(path)
    rows = made.encode(made.read(path), tiny_tokenizer, AlbertConfig(), 12)
    assert rows.cut == 1 and rows.lengths.max() == 12


def unit(generator, *shape):
    vectors = generator.normal(size=shape)
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


@pytest.mark.parametrize("kind", ["pairs", "triplets"])
@pytest.mark.parametrize("block", [2, 1024])
def test_ranks(kind, block, request, monkeypatch):
    """By hand, one comparison at a time."""
    path = request.getfixturevalue(kind)
    made = task(path)
    examples = made.read(path)
    monkeypatch.setattr("albert_tf.data.tasks.similarity._BLOCK", block)
    count, groups = len(examples[0].texts), [0, 1, 0, 1, 2]
    vectors = unit(np.random.default_rng(2), 5, count, 3).astype("float32")
    found = made.predictions(examples, None, [{"embeddings": row} for row in vectors], None)
    for row, match in enumerate(found):
        own, others = vectors[row, 0] @ vectors[row, 1], {}
        for other in range(5):
            for place in range(1, count):
                if place == 2 or other == row or groups[other] != groups[row]:
                    text = examples[other].texts[place]
                    others[other, place] = (vectors[row, 0] @ vectors[other, place], text)
        assert match.cosine == pytest.approx(own, abs=1e-6)
        assert match.rank == 1 + sum(cosine > own + 1e-7 for cosine, _ in others.values())
        assert match.best == max(others.values())[1]


def test_scores_and_reports_of_scores(tmp_path):
    made, config = task(tmp_path), AlbertConfig()
    examples = [SimilarityExample(("a", "b"), score) for score in (0.0, 2.0, 4.0, 5.0)]
    matches = [Match(cosine) for cosine in (0.1, 0.3, 0.2, 0.9)]
    scores = made.scores(examples, matches, config)
    assert list(scores) == ["spearman", "pearson"]
    assert scores["spearman"] == pytest.approx(0.8)
    assert scores["pearson"] == pytest.approx(
        np.corrcoef([0, 2, 4, 5], [0.1, 0.3, 0.2, 0.9])[0, 1], abs=1e-6
    )
    graded = made.grade(examples, matches, config)
    assert graded[2] == ("a\nb", "4", "1", 3.0, False)
    made.write(tmp_path, examples, matches, config)
    lines = (tmp_path / "predictions.tsv").read_text().splitlines()
    assert lines[:2] == ["index\tprediction", "0\t0.100000"]


def test_scores_and_reports_of_partners(pairs):
    made, config = task(pairs), AlbertConfig()
    examples = made.read(pairs)
    matches = [Match(0.5, rank, f"best {rank}") for rank in (1, 2, 4, 1, 1)]
    scores = made.scores(examples, matches, config)
    assert scores == {"accuracy": pytest.approx(0.6), "mrr": pytest.approx(3.75 / 5)}
    assert made.grade(examples, matches, config)[1] == ("b", "B", "best 2", 0.5, False)


def test_parts_of_a_single_file_share_no_text(tmp_path):
    rows = [(f"{n // 4}", f"text {n}") for n in range(40)]
    path = write(tmp_path / "d.jsonl", *rows)
    train, dev = task(path).train_and_dev(0.2, 5)
    anchors = [{example.texts[0] for example in part} for part in (train, dev)]
    assert anchors[0] and anchors[1] and not anchors[0] & anchors[1]
