"""Trains and scores the models of a comparison, each once, and creates the table."""

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from albert_tf.data.pretraining.batches import evaluation_batches
from albert_tf.files import require_same, write_json
from albert_tf.models import AlbertForPreTraining
from albert_tf.text.tokenizer import AlbertTokenizer
from albert_tf.training import pretrain
from albert_tf.training.options import PretrainingOptions
from albert_tf.training.run import REPORT
from benchmarks import harness
from benchmarks.ablations.comparisons import COMPARISONS, Comparison, Row, configuration

SETTINGS: Final = "settings.json"
EVALUATIONS: Final = 10  # per run, if the table shows scores during training


@dataclasses.dataclass(frozen=True)
class Settings:
    """How the models of a comparison are trained.

    Attributes:
        output: folder for all models; finished models are skipped.
        data, eval_data: directories of records to train on and to score on, keyed by pair task.
        steps, batch_size, learning_rate, seed, jit_compile: options of every run; see
            `PretrainingOptions`.
    """

    output: Path
    data: Mapping[str, str]
    eval_data: Mapping[str, str]
    steps: int
    batch_size: int
    learning_rate: float
    seed: int
    jit_compile: bool = False


Train = Callable[[PretrainingOptions], Mapping[str, Any]]
Score = Callable[[Path, str], Mapping[str, float]]


def compare(
    name: str,
    settings: Settings,
    train: Train,
    score: Score,
    announce: Callable[[str], None] = print,
) -> list[dict[str, Any]]:
    """Trains and scores every model of a comparison that isn't finished.

    Args:
        name: a key of `COMPARISONS`.
        train: `pretrain`, which resumes an interrupted run.
        score: the function below.
        announce: function that receives each row's name before its model is trained.
    Returns:
        For each row, its `name`, its `report`, and its `scores`, keyed by pair task.
    Raises:
        UserError: if the output was started with other settings, or `train` rejects the options.
    """
    comparison, folder = COMPARISONS[name], settings.output / name
    _check_settings(folder / SETTINGS, settings)
    results = []
    for number, row in enumerate(comparison.rows, 1):
        announce(f"{name} {number}/{len(comparison.rows)}: {row.name}")
        results.append(_result(folder, comparison, row, settings, train, score))
    return results


def score(model: Path, data: str) -> dict[str, float]:
    """Returns the scores of a model directory on all the records of `data`."""
    found = AlbertForPreTraining.from_pretrained(model)
    pretrain.compile_with_metrics(found)
    return pretrain.scores(found, evaluation_batches(data, pretrain.EVALUATION_BATCH))


def _result(
    folder: Path, comparison: Comparison, row: Row, settings: Settings, train: Train, score: Score
) -> dict[str, Any]:
    """Returns a row's saved result, or computes and saves it."""
    place = folder / f"{row.name}.json"
    if place.is_file():
        return json.loads(place.read_text(encoding="utf-8"))
    report = _trained(folder / row.name, comparison, row, settings, train)
    tasks = () if comparison.course else comparison.pair_tasks
    scores = {task: score(folder / row.name, settings.eval_data[task]) for task in tasks}
    result = {"name": row.name, "report": report, "scores": scores}
    write_json(place, result)
    return result


def _trained(
    output: Path, comparison: Comparison, row: Row, settings: Settings, train: Train
) -> Mapping[str, Any]:
    if (output / REPORT).is_file():
        return json.loads((output / REPORT).read_text(encoding="utf-8"))
    data = settings.data[row.pair_task]
    tokenizer = AlbertTokenizer.from_pretrained(data)
    config = configuration(
        row,
        tokenizer.vocab_size,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=tokenizer.cls_token_id,
        eos_token_id=tokenizer.sep_token_id,
    )
    place = output.with_name(f"{row.name}-config.json")
    write_json(place, config.to_dict())
    course: dict[str, Any] = {}
    if comparison.course:
        every = max(1, settings.steps // EVALUATIONS)
        course = {"eval_data": settings.eval_data[row.pair_task], "eval_steps": every}
    return train(
        PretrainingOptions(
            data=(data,),
            output=output,
            size=str(place),
            steps=settings.steps,
            warmup_steps=settings.steps // 10,
            batch_size=settings.batch_size,
            learning_rate=settings.learning_rate,
            seed=settings.seed,
            jit_compile=settings.jit_compile,
            **course,
        )
    )


def _check_settings(path: Path, settings: Settings) -> None:
    """Rejects settings that differ from those of the finished models; the first run saves them."""
    now = dataclasses.asdict(settings)
    del now["output"]
    if path.is_file():
        require_same(path.parent, json.loads(path.read_text(encoding="utf-8")), now)
    else:
        write_json(path, now)


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
    return harness.table(header, body)


def _cells(result: Mapping[str, Any], first: Mapping[str, Any], tasks: Sequence[str]) -> list[str]:
    """Returns accuracies and loss on held-out records, and the speed relative to the first row."""
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
