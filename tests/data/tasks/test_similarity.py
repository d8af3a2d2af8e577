import numpy as np
import pytest

from albert_tf.config import AlbertConfig
from albert_tf.data.options import LabelledData
from albert_tf.data.tasks.base import Predicted
from albert_tf.data.tasks.registry import training_data
from albert_tf.data.tasks.similarity import Match, SimilarityExample
from albert_tf.errors import UserError
from tests.data.conftest import read, task, write

PAIRS = [("a", "A"), ("b", "B"), ("a", "C"), ("d", "B"), ("e", "E")]
SIMILARITY = task("similarity")


def examples_of(rows):
    return [SimilarityExample(texts, None) for texts in rows]


def test_a_column_that_is_missing(tmp_path):
    path = write(tmp_path / "d.csv", "text,text_pair\na,b\n")
    with pytest.raises(UserError, match="'title'"):
        read(path, "similarity", text_column="title")


def test_mixtures(tmp_path):
    write(tmp_path / "train.csv", "anchor,positive\na,A\nb,B\n")
    write(tmp_path / "dev.csv", "anchor,positive,score\na,A,1\n")
    with pytest.raises(UserError, match="pairs with scores in .*dev.*pairs without .*train"):
        training_data(LabelledData(task="similarity", data=tmp_path), 0.1, 1)


def test_the_scale_is_that_of_the_training_data(tmp_path, tiny_tokenizer, caplog):
    """Both for the rows of dev and, with the model's configuration, in a later evaluation."""
    write(tmp_path / "train.csv", "text,text_pair,score\na,b,5\nc,d,2\n")
    write(tmp_path / "dev.csv", "text,text_pair,score\na,the old,4\nc,d,2\ne,f,6\n")
    data = training_data(LabelledData(task="similarity", data=tmp_path), 0.1, 1)
    assert "1 of 5 scores are above 5," in caplog.text and "is 6." in caplog.text
    rows = data.task.encode(data.dev, tiny_tokenizer, data.config, 12)
    features, labels, _ = rows.batch(np.arange(3))
    assert labels["labels"].tolist() == pytest.approx([0.8, 0.4, 1.2])
    second = features["input_ids"][0, 1][features["attention_mask"][0, 1] > 0]
    assert second.tolist() == tiny_tokenizer("the old").input_ids
    assert data.task.columns == {"text": "text", "text_pair": "text_pair", "score": "score"}
    assert data.config.problem_type == "regression"
    stored = AlbertConfig.from_dict(data.config.to_dict())
    matches = [Match(0.8), Match(0.5), Match(1.0)]
    graded = SIMILARITY.grade(Predicted(data.dev, matches, stored))
    assert [each.predicted for each in graded] == ["4", "2.5", "5"]
    assert [each.confidence for each in graded] == pytest.approx([0, 0.5, 1])


def test_a_run_on_another_task_forgets_the_scale(tmp_path):
    path = write(tmp_path / "d.csv", "text,label\n" + "a,yes\nb,no\n" * 4)
    options = LabelledData(task="classify", data=path)
    fields = training_data(options, 0.5, 1).config_fields
    config = AlbertConfig(largest_score=5, thresholds=[0.5]).replace(**fields)
    assert config.largest_score is None and config.thresholds is None


@pytest.mark.parametrize("rows", [PAIRS, [(*pair, f"not {pair[0]}") for pair in PAIRS]])
@pytest.mark.parametrize("block", [2, 1024])
def test_ranks(rows, block, monkeypatch):
    """Compares with a computation by hand."""
    examples = examples_of(rows)
    monkeypatch.setattr("albert_tf.data.tasks.similarity._BLOCK", block)
    count, groups = len(examples[0].texts), [0, 1, 0, 1, 2]
    vectors = np.random.default_rng(2).normal(size=(5, count, 3)).astype("float32")
    vectors /= np.linalg.norm(vectors, axis=-1, keepdims=True)
    found = SIMILARITY.predictions(examples, None, [{"embeddings": row} for row in vectors], None)
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


def test_texts_that_belong_to_an_example_are_no_negatives():
    """Mined negatives may be another row's partner, or the first text itself."""
    rows = [("q1", "p1", "p2"), ("q2", "p2", "p1"), ("q3", "p3", "q3")]
    names = sorted({text for row in rows for text in row})
    vectors = np.eye(3, dtype="float32")[[int(name[1]) - 1 for name in names]]
    examples = examples_of(rows)
    outputs = [{"embeddings": vectors[[names.index(text) for text in row]]} for row in rows]
    matches = SIMILARITY.predictions(examples, None, outputs, None)
    assert SIMILARITY.scores(Predicted(examples, matches, None)) == {"accuracy": 1.0, "mrr": 1.0}


def test_vectors_that_are_all_alike_rank_no_text_first():
    examples = examples_of(PAIRS)
    same = [{"embeddings": np.ones((2, 1), "float32")}] * len(examples)
    assert all(match.rank > 1 for match in SIMILARITY.predictions(examples, None, same, None))


def test_scores_of_scores(tmp_path):
    config = AlbertConfig()
    labels, cosines = (0.0, 2.0, 4.0, 5.0), (0.1, 0.3, 0.2, 0.9)
    examples = [SimilarityExample(("a", "b"), label) for label in labels]
    matches = [Match(cosine) for cosine in cosines]
    scores = SIMILARITY.scores(Predicted(examples, matches, config))
    assert list(scores) == ["spearman", "pearson"]
    assert scores["spearman"] == pytest.approx(0.8)
    assert scores["pearson"] == pytest.approx(np.corrcoef(labels, cosines)[0, 1], abs=1e-6)
    SIMILARITY.write(Predicted(examples, matches, config), tmp_path)
    lines = (tmp_path / "predictions.tsv").read_text().splitlines()
    assert lines[:2] == ["index\tprediction", "0\t0.100000"]


def test_scores_of_partners():
    matches = [Match(0.5, rank, f"best {rank}") for rank in (1, 2, 4, 1, 1)]
    scores = SIMILARITY.scores(Predicted(examples_of(PAIRS), matches, None))
    assert scores == {"accuracy": pytest.approx(0.6), "mrr": pytest.approx(3.75 / 5)}
