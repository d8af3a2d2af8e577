import json

import pytest

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


def test_fill_mask_among_targets(ask, task_model):
    pieces = task_model("fill-mask")[1].get_vocab()
    targets = [piece for piece in pieces if piece.startswith("▁") and len(piece) > 2][:2]
    status, output, _ = ask("fill-mask", "--json", "The [MASK].", "--targets", *targets)
    assert status == 0
    found = json.loads(output)["masks"][0]
    assert {each["token"] for each in found} == {pieces[target] for target in targets}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("no mask",), "must have the mask token, [MASK]. Received: 'no mask'"),
        (("--targets", "▁a", "[MASK]"), "Texts come before --targets"),
        (("[MASK]", "--top-k", 0), "top_k must be 1 or more"),
    ],
)
def test_mistakes(ask, arguments, message):
    status, output, errors = ask("fill-mask", *arguments)
    assert (status, output, errors.count("\n")) == (2, "", 1)
    assert message in errors
