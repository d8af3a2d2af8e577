"""The tables of `albert-tf ablate`."""

from albert_tf.commands.ablation_tables import table


def result(name, tokens, seconds, evaluation=(), **accuracies):
    """Accuracies by pair task: of masked LM and of pairs."""
    scores = {
        task: {
            "masked_lm_accuracy": masked_lm,
            "sentence_order_accuracy": pairs,
            "masked_lm_loss": 1 + masked_lm,
        }
        for task, (masked_lm, pairs) in accuracies.items()
    }
    report = {"parameters": 12345, "tokens": tokens, "seconds": seconds}
    return {"name": name, "report": {**report, "evaluation": evaluation}, "scores": scores}


def test_speed_is_relative_to_the_first_row():
    rows = [result("L1", 100, 2.0, sop=(0.25, 0.5)), result("L3", 90, 3.0, sop=(0.375, 0.625))]
    assert table("depth", rows).splitlines() == [
        "|  | parameters | masked LM | SOP | loss | speed |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
        "| L1 | 12,345 | 25.0% | 50.0% | 1.250 | 1.00x |",
        "| L3 | 12,345 | 37.5% | 62.5% | 1.375 | 0.60x |",
    ]


def test_masked_lm_is_compared_on_pairs_that_are_as_in_the_text():
    row = result("nsp", 1, 1.0, none=(0.125, 0.0), nsp=(0.25, 0.75), sop=(0.375, 0.5))
    header, _, line = table("pair-task", [row]).splitlines()
    assert header == "|  | parameters | masked LM | NSP | SOP | loss | speed |"
    assert line == "| nsp | 12,345 | 12.5% | 75.0% | 50.0% | 1.125 | 1.00x |"


def test_a_course_has_a_column_for_each_evaluation():
    def points(*found):
        return [
            {"step": 500 * (number + 1), "masked_lm_accuracy": accuracy}
            for number, accuracy in enumerate(found)
        ]

    rows = [
        result("dropout-0.1", 1, 1.0, points(0.1, 0.2, 0.4)),
        result("dropout-0.0", 1, 1.0, points(0.2, 0.3, 0.5)),
    ]
    assert table("dropout", rows).splitlines() == [
        "| masked LM accuracy at step | 500 | 1,000 | 1,500 |",
        "| --- | ---: | ---: | ---: |",
        "| dropout-0.1 | 10.0% | 20.0% | 40.0% |",
        "| dropout-0.0 | 20.0% | 30.0% | 50.0% |",
    ]
