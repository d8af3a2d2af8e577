"""The results of a comparison as a table in Markdown."""

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.ablations.comparisons import COMPARISONS


def table(name: str, results: Sequence[Mapping[str, Any]]) -> str:
    """Returns the table of the results of `compare`."""
    comparison = COMPARISONS[name]
    if comparison.course:
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
        tasks = [task for task in comparison.pair_tasks if task != "none"]
        header = ["", "parameters", "masked LM", *(task.upper() for task in tasks)]
        header += ["loss", "speed"]
        body = [_cells(result, results[0], tasks) for result in results]
    rule = ["---", *["---:"] * (len(header) - 1)]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (header, rule, *body))


def _cells(result: Mapping[str, Any], first: Mapping[str, Any], tasks: Sequence[str]) -> list[str]:
    """Returns accuracies and loss on held-out records, and the speed over the first row's."""
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
