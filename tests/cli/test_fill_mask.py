import json

from albert_tf.pipelines import pipeline

TEXT, TWO = "The [MASK] was quiet.", "The [MASK] was [MASK]."


def test_fill_mask(ask, task_model):
    status, output, _ = ask("fill-mask", TEXT, TWO, "--top-k", 3)
    assert status == 0
    groups = [group.splitlines() for group in output.split("\n\n")]
    assert [len(group) for group in groups] == [3, 3, 3]
    expected = pipeline("fill-mask", *task_model("fill-mask"), top_k=3)(TEXT)
    assert groups[0] == [
        f"{each['score']:.4f}\t{each['token_str']}\t{each['sequence']}" for each in expected
    ]
    output = ask("fill-mask", TEXT, TWO, "--top-k", 3, "--json")[1]
    rows = [json.loads(line) for line in output.splitlines()]
    assert [row["text"] for row in rows] == [TEXT, TWO]
    assert [len(row["masks"]) for row in rows] == [1, 2]
    assert rows[0]["masks"][0][0]["token"] == expected[0]["token"]
