"""Trains and scores the models of a comparison, each once."""

import dataclasses
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from albert_tf.config import AlbertConfig
from albert_tf.errors import UserError
from albert_tf.files import written_atomically
from albert_tf.text.base_tokenizer import BaseTokenizer
from albert_tf.text.tokenizer import AlbertTokenizer
from albert_tf.training.ablations import ABLATIONS, Ablation, Row, configuration
from albert_tf.training.output import REPORT
from albert_tf.training.pretraining.options import PretrainingOptions

SETTINGS: Final = "settings.json"
EVALUATIONS: Final = 10  # of a run whose course is looked at


@dataclasses.dataclass(frozen=True)
class AblationOptions:
    """How the models of a comparison are trained.

    Attributes:
        output: folder for all of them; what is finished there is not done again.
        data, eval_data: by pair task, directories of `build-data` to learn from and to score on.
        steps, batch_size, learning_rate, seed, jit_compile: of every run, see `PretrainingOptions`.
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


def ablate(
    name: str,
    options: AblationOptions,
    train: Train,
    score: Score,
    announce: Callable[[str], None] = print,
) -> list[dict[str, Any]]:
    """Trains and scores every model of a comparison that isn't finished.

    Args:
        name: a key of `ABLATIONS`.
        train: `pretrain`, which goes on with an interrupted run.
        score: `score_model`.
        announce: is told of each row before its turn.
    Returns:
        of each row `name`, its `report`, and `scores` by pair task.
    Raises:
        UserError: the output was begun with other settings; what `train` refuses.
    """
    ablation, folder = ABLATIONS[name], options.output / name
    _check_settings(folder / SETTINGS, options)
    results = []
    for number, row in enumerate(ablation.rows, 1):
        announce(f"{name} {number}/{len(ablation.rows)}: {row.name}")
        results.append(_result(folder, ablation, row, options, train, score))
    return results


def score_model(model: Path, data: str) -> dict[str, float]:
    """Scores of a model directory on all the records of `data`, by their names in `reported`."""
    import tensorflow as tf

    from albert_tf.data.pretraining.batches import evaluation_batches
    from albert_tf.models import AlbertForPreTraining
    from albert_tf.training.pretrain import EVALUATION_BATCH
    from albert_tf.training.pretraining.metrics import added, reported
    from albert_tf.training.pretraining.step import EvaluationStep

    step = EvaluationStep(AlbertForPreTraining.from_pretrained(model), tf.distribute.get_strategy())
    return reported(added(map(step, evaluation_batches(data, EVALUATION_BATCH))))


def _result(
    folder: Path, ablation: Ablation, row: Row, options: AblationOptions, train: Train, score: Score
) -> dict[str, Any]:
    """Of a row: what is there, and else what comes of it now."""
    place = folder / f"{row.name}.json"
    if place.is_file():
        return json.loads(place.read_text(encoding="utf-8"))
    report = _trained(folder / row.name, ablation, row, options, train)
    tasks = () if ablation.course else ablation.pair_tasks
    scores = {task: score(folder / row.name, options.eval_data[task]) for task in tasks}
    result = {"name": row.name, "report": report, "scores": scores}
    _write(place, result)
    return result


def _trained(
    output: Path, ablation: Ablation, row: Row, options: AblationOptions, train: Train
) -> Mapping[str, Any]:
    if (output / REPORT).is_file():
        return json.loads((output / REPORT).read_text(encoding="utf-8"))
    data = options.data[row.pair_task]
    config = output.with_name(f"{row.name}-config.json")
    _write(config, _configuration(row, AlbertTokenizer.from_pretrained(data)).to_dict())
    course: dict[str, Any] = {}
    if ablation.course:
        every = max(1, options.steps // EVALUATIONS)
        course = {"eval_data": options.eval_data[row.pair_task], "eval_steps": every}
    return train(
        PretrainingOptions(
            data=data,
            output=output,
            size=str(config),
            steps=options.steps,
            warmup_steps=options.steps // 10,
            batch_size=options.batch_size,
            learning_rate=options.learning_rate,
            seed=options.seed,
            jit_compile=options.jit_compile,
            **course,
        )
    )


def _configuration(row: Row, tokenizer: BaseTokenizer) -> AlbertConfig:
    return configuration(
        row,
        tokenizer.vocab_size,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=tokenizer.cls_token_id,
        eos_token_id=tokenizer.sep_token_id,
    )


def _check_settings(path: Path, options: AblationOptions) -> None:
    """What is finished must be of the same settings; the first time, notes them."""
    now = {**dataclasses.asdict(options), "output": str(options.output)}
    if not path.is_file():
        _write(path, now)
        return
    then = json.loads(path.read_text(encoding="utf-8"))
    changed = [
        f"{name}: {then.get(name)!r} then, {value!r} now"
        for name, value in now.items()
        if name != "output" and then.get(name) != value
    ]
    if changed:
        raise UserError(
            "All models of a comparison are trained in the same way. "
            f"Received for {path.parent}: {'; '.join(changed)}. Choose another --output, or give "
            "the settings that it was begun with."
        )


def _write(path: Path, content: Any) -> None:
    with written_atomically(path, force=True) as target:
        target.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
