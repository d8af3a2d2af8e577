import json

import numpy as np
import pytest

from albert_tf.config import AlbertConfig
from albert_tf.data.options import LabelledData
from albert_tf.data.tasks.base import Predicted
from albert_tf.data.tasks.registry import read_split, task_of, train_and_dev, training_data
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
    return write(tmp_path / "triplets.jsonl", *rows, columns=("anchor", "positive", "negative"))


def test_sts_b_as_it_comes(tmp_path):
    (tmp_path / "train.tsv").write_text(GLUE_ROWS)
    (tmp_path / "test.tsv").write_text("index\tsentence1\tsentence2\n0\tA man.\t\n")
    made = task(tmp_path)
    one, other = read_split(made, "train")
    assert one[:2] == (("A man.", "A boy."), 2.5)
    assert other[:2] == (("A cat.", "One cat."), 5.0)
    assert made.config_fields([one, other])["problem_type"] == "regression"
    assert made.columns == {"text": "sentence1", "text_pair": "sentence2", "score": "score"}
    (test,) = read_split(made, "test", labelled=False)
    assert test[:2] == (("A man.", ""), None)


def test_named_columns_before_known_ones(tmp_path):
    columns = ("sentence1", "text", "text_pair", "q", "score", "grade")
    path = write(tmp_path / "d.jsonl", ("A.", "B.", "C.", "D.", 1, 0.5), columns=columns)
    assert task(path).read(path)[0][:2] == (("A.", "C."), 1.0)
    named = task(path, text_column="text", text_pair_column="q", label_column="grade")
    assert named.read(path)[0][:2] == (("B.", "D."), 0.5)
    with pytest.raises(UserError, match="'title'"):
        task(path, text_column="title").read(path)


@pytest.mark.parametrize(
    ("row", "columns", "message"),
    [
        (("a", "b", "c", 1), ("anchor", "positive", "negative", "score"), "'score' and 'negative'"),
        (("a", "b"), ("anchor", "other"), "column sentence2 or positive or text_pair. Received"),
        (
            ("a", "b", -1),
            ("text", "text_pair", "score"),
            "negative number. Received: '-1' .*line 1",
        ),
        (("a", "b", "high"), ("text", "text_pair", "score"), "negative number. Received: 'high'"),
        (("a", ""), ("text", "text_pair"), "'text_pair' must not be empty"),
    ],
)
def test_bad_rows(tmp_path, row, columns, message):
    path = write(tmp_path / "d.jsonl", row, columns=columns)
    with pytest.raises(UserError, match=message):
        task(path).read(path)


def test_a_first_row_of_another_width(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("sentence1,sentence2,score\na,b,c,1\na,b,1\n")
    with pytest.raises(UserError, match="as many fields as the first. .*line 2, 4 fields"):
        task(path).read(path)
    assert len(task(path, skip_bad_rows=True).read(path)) == 1


def test_mixtures(tmp_path):
    write(tmp_path / "train.jsonl", *PAIRS)
    write(tmp_path / "dev.jsonl", ("a", "A", 1.0), columns=("anchor", "positive", "score"))
    with pytest.raises(UserError, match="pairs with scores in .*dev.*pairs without .*train"):
        training_data(LabelledData(task="similarity", data=tmp_path), 0.1, 1)


def test_nothing_to_learn(tmp_path):
    columns = ("text", "text_pair", "score")
    alike = write(tmp_path / "alike.jsonl", ("a", "b", 1), ("c", "d", 1), columns=columns)
    shared = write(tmp_path / "shared.jsonl", ("a", "b"), ("b", "c"))
    for path, message in (
        (alike, "All 2 examples .* score 1\\. "),
        (shared, "All 2 examples .* share their texts"),
    ):
        made = task(path)
        with pytest.raises(UserError, match=message):
            made.config_fields(made.read(path))


def test_rows_of_scores(tmp_path, tiny_tokenizer):
    (tmp_path / "d.tsv").write_text(GLUE_ROWS)
    made = task(tmp_path / "d.tsv")
    rows = made.encode(made.read(tmp_path / "d.tsv"), tiny_tokenizer, AlbertConfig(), 12)
    features, labels, _ = rows.batch(np.arange(2))
    assert labels["labels"].tolist() == [0.5, 1.0]
    expected = tiny_tokenizer("A boy.").input_ids
    ids, mask = (features[name][0, 1] for name in ("input_ids", "attention_mask"))
    assert ids[mask > 0].tolist() == expected


def test_the_scale_is_that_of_the_training_data(tmp_path, tiny_tokenizer, caplog):
    """Both for the rows of dev and, with the model's configuration, in a later evaluation."""
    columns = ("text", "text_pair", "score")
    write(tmp_path / "train.jsonl", ("a", "b", 5), ("c", "d", 2), columns=columns)
    write(tmp_path / "dev.jsonl", ("a", "b", 4), ("c", "d", 2), ("e", "f", 6), columns=columns)
    data = training_data(LabelledData(task="similarity", data=tmp_path), 0.1, 1)
    assert "1 of 5 scores are above 5," in caplog.text and "is 6." in caplog.text
    rows = data.task.encode(data.dev, tiny_tokenizer, data.config, 12)
    assert rows.batch(np.arange(3))[1]["labels"].tolist() == pytest.approx([0.8, 0.4, 1.2])
    stored = AlbertConfig.from_dict(data.config.to_dict())
    matches = [Match(0.8), Match(0.5), Match(1.0)]
    graded = task(tmp_path).grade(Predicted(data.dev, matches, stored))
    assert [each.predicted for each in graded] == ["4", "2.5", "5"]
    assert [each.confidence for each in graded] == pytest.approx([0, 0.5, 1])


def test_a_run_on_another_task_forgets_the_scale(tmp_path):
    write(tmp_path / "d.jsonl", *(("a", "yes"), ("b", "no")) * 4, columns=("text", "label"))
    options = LabelledData(task="classify", data=tmp_path / "d.jsonl")
    fields = training_data(options, 0.5, 1).config_fields
    config = AlbertConfig(largest_score=5, thresholds=[0.5]).replace(**fields)
    assert config.largest_score is None and config.thresholds is None


def test_rows_of_groups(pairs, triplets, tiny_tokenizer):
    """The first and the third share "a", the second and the fourth "B"."""
    for path, texts in ((pairs, 2), (triplets, 3)):
        made = task(path)
        rows = made.encode(made.read(path), tiny_tokenizer, AlbertConfig(), 12)
        features, labels, _ = rows.batch(np.arange(5))
        assert features["input_ids"].shape[:2] == (5, texts)
        assert labels["groups"].tolist() == [0, 1, 0, 1, 2]


def test_a_long_text_is_counted(tmp_path, tiny_tokenizer):
    path = write(tmp_path / "d.jsonl", ("a " * 50, "b"), ("c", "d"))
    made = task(path)
    rows = made.encode(made.read(path), tiny_tokenizer, AlbertConfig(), 12)
    assert rows.cut == 1 and rows.lengths.max() == 12


@pytest.mark.parametrize("kind", ["pairs", "triplets"])
@pytest.mark.parametrize("block", [2, 1024])
def test_ranks(kind, block, request, monkeypatch):
    """Compares with a computation by hand, for a task that hasn't read the examples."""
    reader = task(request.getfixturevalue(kind))
    examples, made = reader.read(reader.options.data), task(reader.options.data)
    monkeypatch.setattr("albert_tf.data.tasks.similarity._BLOCK", block)
    count, groups = len(examples[0].texts), [0, 1, 0, 1, 2]
    vectors = np.random.default_rng(2).normal(size=(5, count, 3)).astype("float32")
    vectors /= np.linalg.norm(vectors, axis=-1, keepdims=True)
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


def test_texts_that_belong_to_an_example_are_no_negatives(tmp_path):
    """Mined negatives may be another row's partner, or the first text itself."""
    rows = [("q1", "p1", "p2"), ("q2", "p2", "p1"), ("q3", "p3", "q3")]
    names = sorted({text for row in rows for text in row})
    vectors = np.eye(3, dtype="float32")[[int(name[1]) - 1 for name in names]]
    path = write(tmp_path / "d.jsonl", *rows, columns=("anchor", "positive", "negative"))
    examples = task(path).read(path)
    outputs = [{"embeddings": vectors[[names.index(text) for text in row]]} for row in rows]
    matches = task(path).predictions(examples, None, outputs, None)
    assert task(path).scores(Predicted(examples, matches, None)) == {"accuracy": 1.0, "mrr": 1.0}


def test_vectors_that_are_all_alike_rank_no_text_first(pairs):
    made = task(pairs)
    examples = made.read(made.options.data)
    same = [{"embeddings": np.ones((2, 1), "float32")}] * len(examples)
    assert all(match.rank > 1 for match in made.predictions(examples, None, same, None))


def test_scores_of_scores(tmp_path):
    made, config = task(tmp_path), AlbertConfig()
    labels, cosines = (0.0, 2.0, 4.0, 5.0), (0.1, 0.3, 0.2, 0.9)
    examples = [SimilarityExample(("a", "b"), label) for label in labels]
    matches = [Match(cosine) for cosine in cosines]
    scores = made.scores(Predicted(examples, matches, config))
    assert list(scores) == ["spearman", "pearson"]
    assert scores["spearman"] == pytest.approx(0.8)
    assert scores["pearson"] == pytest.approx(np.corrcoef(labels, cosines)[0, 1], abs=1e-6)
    made.write(Predicted(examples, matches, config), tmp_path)
    lines = (tmp_path / "predictions.tsv").read_text().splitlines()
    assert lines[:2] == ["index\tprediction", "0\t0.100000"]


def test_scores_of_partners(pairs):
    made, config = task(pairs), AlbertConfig()
    examples = made.read(pairs)
    matches = [Match(0.5, rank, f"best {rank}") for rank in (1, 2, 4, 1, 1)]
    scores = made.scores(Predicted(examples, matches, config))
    assert scores == {"accuracy": pytest.approx(0.6), "mrr": pytest.approx(3.75 / 5)}


def test_parts_of_a_single_file_share_no_text(tmp_path):
    rows = [(f"{n // 4}", f"text {n}") for n in range(40)]
    path = write(tmp_path / "d.jsonl", *rows)
    train, dev = train_and_dev(task(path), 0.2, 5)
    anchors = [{example.texts[0] for example in part} for part in (train, dev)]
    assert anchors[0] and anchors[1] and not anchors[0] & anchors[1]
