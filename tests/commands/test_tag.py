import json

import pytest

from albert_tf.pipelines import pipeline

TEXTS = ["She sells fresh bread and coffee.", "", "In 1999 the béll 😀 died."]


@pytest.mark.parametrize("aggregation", ["none", "first"])
def test_tag_as_json(ask, task_model, aggregation):
    status, output, _ = ask("tag", *TEXTS, "--aggregation", aggregation, "--json")
    assert status == 0
    rows = [json.loads(line) for line in output.splitlines()]
    assert [row["text"] for row in rows] == TEXTS
    tag = pipeline("ner", *task_model("tag"), aggregation_strategy=aggregation)
    for row, expected in zip(rows, tag(TEXTS), strict=True):
        assert len(row["entities"]) == len(expected)
        for each, other in zip(row["entities"], expected, strict=True):
            assert each == {**other, "score": pytest.approx(other["score"], abs=1e-5)}
    assert sum(len(row["entities"]) for row in rows) > 2


def test_tag_in_words(ask, task_model):
    status, output, _ = ask("tag", *TEXTS)
    assert status == 0
    found = pipeline("ner", *task_model("tag"), aggregation_strategy="first")(TEXTS)
    assert found[0] and not found[1] and found[2]
    groups = [
        "".join(
            f"{each['entity_group']}\t{each['score']:.4f}\t{each['start']}\t{each['end']}\t"
            f"{each['word']}\n"
            for each in entities
        )
        for entities in found
    ]
    assert output == "\n".join(groups)
