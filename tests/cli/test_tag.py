import json

import pytest

from albert_tf.pipelines import pipeline

TEXTS = ["She sells fresh bread and coffee.", "", "In 1999 the béll 😀 died."]


def test_tag(ask, task_model):
    expected = pipeline("ner", *task_model("tag"), aggregation_strategy="first")(TEXTS)
    assert expected[0] and not expected[1] and expected[2]
    status, output, _ = ask("tag", *TEXTS)
    assert status == 0
    names = ("entity_group", "score", "start", "end", "word")
    groups = [
        "".join("{}\t{:.4f}\t{}\t{}\t{}\n".format(*map(each.get, names)) for each in entities)
        for entities in expected
    ]
    assert output == "\n".join(groups)
    rows = [json.loads(line) for line in ask("tag", *TEXTS, "--json")[1].splitlines()]
    assert [row["text"] for row in rows] == TEXTS
    for row, entities in zip(rows, expected, strict=True):
        for each, other in zip(row["entities"], entities, strict=True):
            assert each == {**other, "score": pytest.approx(other["score"], abs=1e-5)}
