"""Scores an export on the data of its task, beside Keras, and refuses one that lost too much."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from albert_tf.data.options import LabelledData
from albert_tf.data.tasks.named import task_of
from albert_tf.data.tasks.rows import Rows
from albert_tf.models.base import PreTrainedModel
from albert_tf.text.base_tokenizer import BaseTokenizer
from albert_tf.training.evaluate import predictions
from albert_tf_export import parity
from albert_tf_export.comparison import ParityError
from albert_tf_export.samples import Case
from albert_tf_export.signatures import IDS


@dataclass(frozen=True)
class Gate:
    """The data that an export is scored on, and how much of its score it may lose.

    Attributes:
        data: the task and its labelled examples; of a folder, the dev file.
        max_drop: the most by which the export's score may be below Keras', such as 0.01. The score
            is the task's first metric.
    """

    data: LabelledData
    max_drop: float = 0.01


def scored(
    gate: Gate,
    model: PreTrainedModel,
    tokenizer: BaseTokenizer,
    runner: str,
    path: Path,
    max_length: int,
) -> parity.Scores:
    """Runs an export in a fresh process and Keras here, on the same rows.

    Args:
        runner: file name of the script that runs the export.
        path: the export.
        max_length: the most pieces that its signature `ids` takes.
    Raises:
        UserError: the data can't be read, or is another task's.
        ParityError: the export's score is more than `gate.max_drop` below Keras'.
    """
    task = task_of(gate.data)
    examples, config = task.examples("dev"), model.config
    task.check(examples, config)
    rows = task.encode(examples, tokenizer, config, max_length)
    run = parity.run(runner, path, {IDS: Case(_inputs(rows), [], [])})[IDS]
    found = (
        predictions(task, examples, rows, model),
        task.predictions(examples, rows, run.outputs, config),
    )
    keras, exported = (task.scores(examples, each, config) for each in found)
    ours, theirs = (
        [judged.predicted for judged in task.judged(examples, each, config)] for each in found
    )
    metric = next(iter(keras))
    scores = parity.Scores(
        metric,
        keras[metric],
        exported[metric],
        float(np.mean([one == other for one, other in zip(ours, theirs, strict=True)])),
        len(examples),
        run.milliseconds,
        run.megabytes,
    )
    if not scores.keras - scores.exported <= gate.max_drop:  # NaN is a loss too.
        raise ParityError(
            f"The export may lose {gate.max_drop:g} of Keras' {metric}. Received: {scores}. Choose "
            "a higher precision, or allow more with max_drop."
        )
    return scores


def _inputs(rows: Rows) -> Sequence[dict[str, Any]]:
    """Returns rows as the runners read them, without padding."""
    names = ("input_ids", "token_type_ids")
    masks = rows.arrays.get("attention_mask")
    if masks is None:
        return [
            {name: rows.arrays[name][row].tolist() for name in names} for row in range(len(rows))
        ]
    return [
        {
            name: [
                values[mask == 1].tolist()
                for values, mask in zip(rows.arrays[name][row], masks[row], strict=True)
            ]
            for name in names
        }
        for row in range(len(rows))
    ]
