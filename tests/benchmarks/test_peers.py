"""The tables beside peers: medians, wrong outputs and failures."""

import argparse
import importlib
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
CONFIG = {
    "hidden_size": 20,
    "intermediate_size": 31,
    "num_hidden_layers": 3,
    "inner_group_num": 1,
    "embedding_size": 6,
    "vocab_size": 101,
}


@pytest.fixture
def report(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    return importlib.import_module("peers_report")


def inferred(milliseconds, difference=1e-6):
    """Results of one process at two shapes."""
    figures = {"difference": difference, "peak": 700, "added": 90}
    return [{"milliseconds": milliseconds * factor, **figures} for factor in (1, 10)]


def test_tables(report):
    answered = {"rate": 18.0, "peak": 900, "added": 200, "positive": [0.25, 0.75]}
    asked = {"rate": 7.0, "peak": 900, "added": 200, "answers": [0.5] * 10}
    almost, wrong = [0.5] * 9 + [0.4], [0.501] * 8 + [0.4] * 2
    trained = {"milliseconds": 3100.0, "peak": 2460, "added": 1900, "losses": [0.7, 0.6]}
    results = {
        "product": {"tensorflow": [2e9, 4e9], "torch": ["ImportError: torch", 3e9]},
        "inference": {
            "albert_tf, Keras": [inferred(5.0), inferred(3.0), inferred(4.0)],
            "OpenVINO": [inferred(4.0, 0.1)] * 3,
            "int8": [inferred(2.0, 0.1)] * 3,
            "KerasHub": [inferred(1.0), "ImportError: keras_hub", inferred(1.0)],
        },
        "answers": {"albert_tf": [answered], "transformers": [{**answered, "positive": [0.5] * 2}]},
        "questions": {
            "albert_tf": [asked],
            "almost": [{**asked, "answers": almost}],
            "unlike": [{**asked, "answers": wrong}],
        },
        "training": {"albert_tf": [trained], "KerasHub": [{**trained, "losses": [0.7, 0.7]}]},
    }
    kinds = ("inference", "answers", "questions", "training")
    options = argparse.Namespace(only=kinds, shapes=[(1, 7), (5, 7)])
    medians = report.summary(results, CONFIG, options)
    assert medians["product"] == 4e9
    figures = medians["inference"]["albert_tf, Keras"]["5x7"]
    forward = report.products(CONFIG, 5, 7, 0) / 3
    assert figures["milliseconds"] == 40.0
    assert figures["share"] == pytest.approx(forward / 0.040 / 4e9)
    shown = report.markdown(
        {
            "versions": "keras 3",
            "processor": "a CPU",
            "texts": 2,
            "questions": 10,
            "medians": medians,
            "options": {"size": "base", "shapes": options.shapes, "step": (8, 128)}
            | {"threads": 2, "rounds": 3},
        }
    )
    lines = {line.split("|")[1].strip(): line for line in shown.splitlines() if "|" in line}
    assert "wrong" in lines["OpenVINO"]
    assert "20" in lines["int8"] and "wrong" not in lines["int8"]
    assert "wrong: losses [0.7, 0.7]" in lines["KerasHub"]
    assert "| ImportError: keras_hub |" in " ".join(shown.split())
    assert "wrong: 100% of the answers differ" in lines["transformers"]
    assert "90%" in lines["almost"] and "7.0" in lines["almost"]
    assert "wrong: 20% of the answers differ" in lines["unlike"]
    failed = {**results, "questions": {"albert_tf": ["no memory"], "almost": [asked]}}
    found = report.summary(failed, CONFIG, options)["questions"]
    assert found == {"albert_tf": "no memory", "almost": "no memory"}
