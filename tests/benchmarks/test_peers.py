"""The tables that compare with peers: medians, wrong outputs, and failures."""

import argparse

from benchmarks import products
from benchmarks.peers import tables

CONFIG = {
    "hidden_size": 20,
    "intermediate_size": 31,
    "num_hidden_layers": 3,
    "inner_group_num": 1,
    "embedding_size": 6,
    "vocab_size": 101,
}
TABLES = ("inference", "questions", "tokenizing", "training")
OPTIONS = argparse.Namespace(only=TABLES, shapes=[(1, 7), (5, 7)], size="base", step=(8, 128))
PREPARED = {"config": CONFIG, "spread": 2.0, "questions": 10}
PREPARED["MB"] = {"albert_tf, Keras": 35.88, "OpenVINO": 35.77, "int8": 9.24}


def inferred(milliseconds, difference=1e-6):
    """Results of one process at two shapes."""
    figures = {"difference": difference, "MB": 700, "added": 90}
    return [{"ms": milliseconds * factor, **figures} for factor in (1, 10)]


def lines(rounds):
    """Returns the tables of rounds as lines of cells, keyed by table and name."""
    text = "\n".join(tables.markdown(tables.medians_by_table(rounds), PREPARED, OPTIONS))
    _, *parts = text.split("## ")
    rows = [[line.split(" | ") for line in part.splitlines() if "|" in line] for part in parts]
    found = zip(TABLES, rows, strict=True)
    return {
        (table, cells[0][1:].strip()): [cell.strip(" |") for cell in cells[1:]]
        for table, lines in found
        for cells in lines
    }


ASKED = {"rate": 7.0, "MB": 900, "added": 200, "answers": [0.5] * 10}
TRAINED = {"ms": 3100.0, "MB": 2460, "added": 1900, "losses": [0.7, 0.6]}
ROUNDS = {
    ("product", "tensorflow"): [2e9, 4e9, 3e9],
    ("product", "torch"): "ImportError: torch",
    ("inference", "albert_tf, Keras"): [inferred(5.0), inferred(3.0), inferred(4.0)],
    ("inference", "OpenVINO"): [inferred(4.0, 0.1)] * 3,
    ("inference", "int8"): [inferred(2.0, 0.1)] * 3,
    ("inference", "KerasHub"): "ImportError: keras_hub",
    ("questions", "albert_tf"): [ASKED],
    ("questions", "almost"): [{**ASKED, "answers": [0.5] * 9 + [0.4]}],
    ("questions", "unlike"): [{**ASKED, "answers": [0.504] * 8 + [0.4] * 2}],
    ("tokenizing", "albert_tf"): [{"rate": 6.0, "ids": [[2, 5, 3], [2, 7, 3]]}],
    ("tokenizing", "transformers"): [{"rate": 1.0, "ids": [[2, 5, 3], [2, 8, 3]]}],
    ("training", "albert_tf"): [TRAINED],
    ("training", "KerasHub"): [{**TRAINED, "losses": [0.7, 0.7]}],
}


def test_tables():
    found = lines(ROUNDS)
    share = products.flop(CONFIG, 5, 7) / 0.040 / 3e9
    ours = found["inference", "albert_tf, Keras"]
    assert ours[1:4] == [f"40 ({share:.0%})", "700 (90)", "35.9"]
    assert found["inference", "OpenVINO"] == ["wrong", "wrong", "700 (90)", "35.8", "5e-02"]
    assert found["inference", "int8"][1].startswith("20 (")
    assert found["inference", "KerasHub"][0] == "ImportError: keras_hub"
    assert found["questions", "almost"] == ["7.0", "900 (200)", "90%"]
    assert found["questions", "unlike"][0] == "wrong: 20% of the answers differ"
    assert found["tokenizing", "transformers"] == ["1.0", "50%"]
    assert found["training", "albert_tf"] == ["3100", "2460 (1900)", "0.7000"]
    assert found["training", "KerasHub"][0] == "wrong: losses [0.7, 0.7], not [0.7, 0.6]"


def test_without_ours_others_cannot_be_compared():
    found = lines({**ROUNDS, ("questions", "albert_tf"): "no memory"})
    assert found["questions", "albert_tf"][0] == "no memory"
    assert found["questions", "almost"][0] == "no memory"
