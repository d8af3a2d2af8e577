"""The results of `albert-tf ablate` as tables."""

from collections.abc import Mapping, Sequence
from typing import Any

from albert_tf.training.ablations import ABLATIONS


def table(name: str, results: Sequence[Mapping[str, Any]]) -> str:
    """The results of a comparison as a table in Markdown."""
    ablation = ABLATIONS[name]
    if ablation.course:
        steps = [point["step"] for point in results[0]["report"]["evaluation"]]
        header = ["masked LM accuracy at step", *(f"{step:,}" for step in steps)]
        body = [
            [
                result["name"],
                *(f"{at['masked_lm_accuracy']:.1%}" for at in result["report"]["evaluation"]),
            ]
            for result in results
        ]
    else:
        tasks = [task for task in ablation.pair_tasks if task != "none"]
        header = ["", "parameters", "masked LM", *(task.upper() for task in tasks)]
        header += ["loss", "speed"]
        body = [_cells(result, results[0], tasks) for result in results]
    rule = ["---", *["---:"] * (len(header) - 1)]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (header, rule, *body))


def _cells(result: Mapping[str, Any], first: Mapping[str, Any], tasks: Sequence[str]) -> list[str]:
    """Accuracies and loss on held-out records, and tokens a second over those of the first row."""
    scores = result["scores"]
    masked_lm = next(iter(scores.values()))
    return [
        result["name"],
        f"{result['report']['parameters']:,}",
        f"{masked_lm['masked_lm_accuracy']:.1%}",
        *(f"{scores[task]['sentence_order_accuracy']:.1%}" for task in tasks),
        f"{masked_lm['masked_lm_loss']:.3f}",
        f"{_speed(result) / _speed(first):.2f}x",
    ]


def _speed(result: Mapping[str, Any]) -> float:
    return result["report"]["tokens"] / result["report"]["seconds"]
