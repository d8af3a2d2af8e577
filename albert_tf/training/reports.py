"""Reports of a model's predictions, beside it: pictures, the worst mistakes, its card."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from albert_tf.checkpoints import hub
from albert_tf.config import AlbertConfig
from albert_tf.data.tasks.base import GradedPrediction, Task
from albert_tf.files import read_json, sha256, written_atomically
from albert_tf.models.base import PreTrainedModel
from albert_tf.models.card import CARD, in_cell, model_card
from albert_tf.tasks import BY_MODEL
from albert_tf.training import charts

CONFUSION: Final = "confusion.png"
SCORES: Final = "scores.png"
MISTAKES: Final = "mistakes.md"
OLD_CARD: Final = "README.old.md"
_MISTAKES: Final = 50
_LONGEST: Final = 400  # characters of a text, or of each part of one
_CURVES: Final = 3  # scores beside the loss
# Ends of our metrics' names, and the hub's names of these metrics.
_METRICS: Final = {
    "f1": "f1",
    "exact_match": "exact_match",
    "accuracy": "accuracy",
    "matthews": "matthews_correlation",
    "pearson": "pearsonr",
    "spearman": "spearmanr",
}


def write_predictions(
    folder: Path,
    task: Task[Any, Any],
    examples: Sequence[Any],
    predictions: Sequence[Any],
    config: AlbertConfig,
) -> None:
    """Writes the confusion matrix or the scores as a picture, and the worst mistakes.

    Earlier ones in the folder are removed, since they may be another task's.
    """
    _clear(folder)
    graded = task.grade(examples, predictions, config)
    classes = task.classes(config)
    lines = task.by_threshold(examples, predictions, config)
    is_regression = config.problem_type == "regression"
    if classes:
        charts.plot_confusion(
            classes, task.pairs(examples, predictions, config), folder / CONFUSION
        )
    if lines:
        charts.plot_by_threshold(lines, folder / SCORES)
    elif is_regression:
        charts.plot_numbers(graded, folder / SCORES)
    with written_atomically(folder / MISTAKES, force=True) as path:
        path.write_text(mistakes(graded, is_regression), encoding="utf-8", newline="\n")


def _clear(folder: Path) -> None:
    for name in (CONFUSION, SCORES, MISTAKES):
        (folder / name).unlink(missing_ok=True)


def mistakes(graded: Sequence[GradedPrediction], is_regression: bool = False) -> str:
    """Returns the worst mistakes as Markdown: those of the highest confidence, or distance."""
    wrong = sorted(
        (prediction for prediction in graded if not prediction.is_right),
        key=lambda prediction: -prediction.confidence,
    )
    if is_regression:
        mean = sum(prediction.confidence for prediction in graded) / max(len(graded), 1)
        measure, title = "distance", "# Largest errors"
        first = f"The mean distance of {len(graded):,} predictions from their labels is {mean:.3g}."
    else:
        measure, title = "confidence", "# Mistakes"
        first = f"{len(wrong):,} of {len(graded):,} predictions are wrong."
        if not wrong:
            first = f"None: all {len(graded):,} predictions are right."
    if not wrong:
        return "\n".join([title, "", first, ""])
    if len(wrong) > _MISTAKES:
        first += f" These {_MISTAKES} have the highest {measure}."
    lines = [title, "", first, "", f"| {measure} | expected | predicted | text |"]
    lines.append("|---|---|---|---|")
    for prediction in wrong[:_MISTAKES]:
        number = f"{prediction.confidence:.3g}" if is_regression else f"{prediction.confidence:.3f}"
        text = "<br>".join(_shortened(line, prediction) for line in prediction.text.splitlines())
        cells = (number, _shortened(prediction.expected), _shortened(prediction.predicted), text)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def _shortened(text: str, around: GradedPrediction | None = None) -> str:
    """Returns text for a cell; of a long one the beginning, or the part around its answer."""
    answers = (around.expected, around.predicted) if around else ()
    shown = [answer for answer in answers if answer and answer in text]
    start = max(text.find(shown[0]) - _LONGEST // 2, 0) if shown and len(text) > _LONGEST else 0
    cut = text[start : start + _LONGEST]
    end = "…" if start + _LONGEST < len(text) else ""
    return in_cell(f"{'…' if start else ''}{cut}{end}") or "–"


def write_finetuning(
    output: Path,
    folder: Path,
    report: dict[str, Any],
    model: PreTrainedModel,
) -> None:
    """Writes the curves and the model card of a fine-tuning; removes an earlier run's reports.

    Args:
        output: folder of the result; the card names it. A card there that isn't an earlier run's,
            or was edited, becomes `README.old.md`.
        folder: where the files are written, before they move to `output`.
        report: of the run; gets the card's digest.
        model: the best version.
    """
    evaluation = [
        {"step": row["step"], **{name: row[f"val_{name}"] for name in report["metrics"]}}
        for row in report["history"]
    ]
    shown = report["metrics"][:_CURVES]
    history, best = report["history"], report["best"]["step"]
    charts.plot_finetuning(history, evaluation, shown, best, folder / charts.CURVES)
    text = card(output.resolve().name, report, model)
    with written_atomically(folder / CARD, force=True) as path:
        path.write_text(text, encoding="utf-8", newline="\n")
    report["card_sha256"] = sha256(folder / CARD)
    remove_old_reports(output, report)


def remove_old_reports(output: Path, report: Mapping[str, Any]) -> None:
    """Removes an earlier run's reports; a card that isn't one's, or was edited, is renamed."""
    old = output / CARD
    path = output / "report.json"
    earlier = read_json(path).get("card_sha256") if path.exists() else None
    known = (report["card_sha256"], earlier)
    if old.exists() and sha256(old) not in known:
        old.replace(output / OLD_CARD)
    _clear(output)


def card(name: str, report: Mapping[str, Any], model: PreTrainedModel) -> str:
    """Returns the model card of a fine-tuning, from its report."""
    settings, best = report["settings"], report["best"]
    scores = {metric: best[metric] for metric in report["metrics"]}
    data, task = settings["data"], settings["task"]
    is_hub = data.startswith("hub:")
    # A path's folders may say much of its user.
    dataset = data.removeprefix("hub:").partition("@")[0] if is_hub else Path(data).name
    model_class = model.saved_class
    listed = {name: settings[name] for name in settings if name not in _ELSEWHERE}
    about = _ABOUT.format(
        task=task,
        origin=in_cell(_repository(settings["model"]) or Path(settings["model"]).name),
        dataset=in_cell(dataset),
        train=report["examples"]["train"],
        dev=report["examples"]["dev"],
        cut=report["data"]["cut"] / report["examples"]["train"],
        digest=settings["examples_sha256"],
        scores="\n".join(f"| {metric} | {value:.4f} |" for metric, value in scores.items()),
        epoch=best["epoch"],
        settings="\n".join(
            f"| {in_cell(key)} | {in_cell(str(value))} |"
            for key, value in listed.items()
            if value is not None
        ),
        versions=", ".join(f"{name} {number}" for name, number in report["versions"].items()),
        max_length=settings["max_length"],
    )
    return model_card(
        name,
        model_class,
        model.config,
        report["parameters"],
        about,
        _metadata(name, model_class, report, scores, dataset if is_hub else None),
    )


def _repository(model: str) -> str | None:
    """Returns the hub's name of the model that a run started with; None for any other model."""
    return None if Path(model).exists() else hub.repository(model)


def _metadata(
    name: str,
    model_class: str,
    report: Mapping[str, Any],
    scores: Mapping[str, float],
    dataset: str | None,
) -> dict[str, Any]:
    """Returns the hub's metadata; without license and language, which only a person knows.

    Source: https://github.com/huggingface/hub-docs, modelcard.md.
    """
    settings = report["settings"]
    origin = _repository(settings["model"])
    repository = None if dataset is None else "/".join(dataset.split("/")[:2])
    data = {
        "name": dataset or f"{settings['task']}, own files",
        "type": repository or settings["task"],
    }
    types = {name: _metric(name) for name in scores if not name.endswith("threshold")}
    result = {
        "task": {"type": BY_MODEL[model_class].pipeline_tag},
        "dataset": data,
        "metrics": [
            {"type": known, "name": metric, "value": round(scores[metric], 6)}
            for metric, known in types.items()
        ],
    }
    return {
        **({"base_model": origin} if origin else {}),
        **({"datasets": [repository]} if repository else {}),
        "metrics": sorted(set(types.values())),
        "model-index": [{"name": name, "results": [result]}],
    }


def _metric(name: str) -> str:
    return next((known for end, known in _METRICS.items() if name.endswith(end)), name)


_ELSEWHERE: Final = (
    *("task", "data", "examples_sha256", "labels", "model", "vocab", "vocab_sha256"),
)
_ABOUT: Final = """\
Fine-tuned with albert_tf for the task {task}, from {origin}.

## Scores

| on dev | |
|---|---|
{scores}

They are those of the version after epoch {epoch}, the best on dev. Test data, which the choice
did not see, may give lower ones.

## Training data

| | |
|---|---|
| data | {dataset} |
| examples | {train:,} for training, {dev:,} in dev |
| longer than the model reads | {cut:.1%} of the training examples |
| SHA-256 of the examples | {digest} |

## Settings

| | |
|---|---|
{settings}

Versions: {versions}.

## Limits

The model knows the labels above alone, and the language and the kind of text of its training data.
A row of its input has at most {max_length} tokens. `mistakes.md` quotes dev: look at it before you
publish it.
"""
