"""The reports of a run: a summary of the examples, the scores, and the model card."""

import contextlib
import platform
from collections import Counter, defaultdict
from collections.abc import Container, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from albert_tf.checkpoints import hub
from albert_tf.checkpoints.hub import CARD, in_cell, model_card
from albert_tf.data.readers import skipped_rows
from albert_tf.data.tasks.base import Task
from albert_tf.data.tasks.classification import ONE_CLASS
from albert_tf.errors import escaped, listed
from albert_tf.tasks import BY_MODEL
from albert_tf.training.mistakes import CONFUSION
from albert_tf.training.plots import plot_curves

if TYPE_CHECKING:
    from albert_tf.models.base import PreTrainedModel

CLASSES: Final = "classes"  # the scores of each class, in reports
TEST: Final = "test"  # the scores on test data, in reports
CURVES: Final = "curves.png"
LOSS: Final = "loss"
PRETRAINING: Final = (
    *("masked_lm_loss", "sentence_order_loss"),
    *("masked_lm_accuracy", "sentence_order_accuracy"),
)
_UNBALANCED: Final = 0.9  # share of the most frequent class above which accuracy is misleading
_CURVES: Final = 3  # number of scores plotted next to the loss
_SHOWN: Final = ("data", "model", "vocab_size", "labels")  # settings shown elsewhere on the card
_ODD: Final = {
    "skipped": "{:,} bad rows",
    "duplicates": "{:,} repeated training rows",
    "contradictions": "{:,} training texts have different labels in different rows",
    "in_both": "{:,} dev rows also occur in train, which inflates the scores",
}


def summarize(task: Task[Any, Any], train: Sequence[Any], dev: Sequence[Any]) -> dict[str, Any]:
    """Counts the examples and their likely problems.

    Returns:
        `rows`: number of train and dev rows.
        `columns`: columns of the files.
        `labels`: number of training examples per label, most frequent first.
        `alike`: lists of labels that differ only in case or spaces.
        `skipped`: number of skipped rows.
        `duplicates`: number of training examples that repeat an earlier one.
        `contradictions`: number of training texts that occur with more than one label.
        `in_both`: number of dev examples whose texts are also in train.
    """
    labels = task.keys(train).labels or [()] * len(train)
    counts = Counter(name for names in labels for name in names)
    spellings = defaultdict(list)
    for name in counts:
        spellings["".join(name.split()).casefold()].append(name)
    known: dict[tuple[str, ...], set[tuple[str, ...]]] = defaultdict(set)
    duplicates = 0
    for example, names in zip(train, map(tuple, labels), strict=True):
        texts = tuple(task.texts(example))
        duplicates += texts in known and (names in known[texts] or not names)
        known[texts].add(names)
    return {
        "rows": {"train": len(train), "dev": len(dev)},
        "columns": dict(task.columns),
        "labels": dict(counts.most_common()),
        "alike": [names for names in spellings.values() if len(names) > 1],
        "skipped": sum(map(skipped_rows, {*task.files("train"), *task.files("dev")})),
        "duplicates": duplicates,
        "contradictions": sum(len(several) > 1 for several in known.values()),
        "in_both": overlap(task, dev, known),
    }


def overlap(
    task: Task[Any, Any], examples: Sequence[Any], known: Container[tuple[str, ...]]
) -> int:
    """Returns how many of the examples have texts that are in `known`."""
    return sum(tuple(task.texts(example)) in known for example in examples)


def in_lines(summary: Mapping[str, Any]) -> list[str]:
    """Returns the lines of a readable summary, without empty values.

    Args:
        summary: the result of `summarize`, plus `max_length`, `cut` (the number of training rows
            with more tokens), and optionally `baseline` (the baseline's scores).
    """
    rows, labels, cut = summary["rows"], summary["labels"], summary["cut"]
    columns = (f"{name} from {column!r}" for name, column in summary["columns"].items())
    counts = listed(f"{name} {count:,}" for name, count in labels.items())
    alike = listed(" = ".join(map(repr, names)) for names in summary["alike"])
    scores = ", ".join(f"{name} {value:.4f}" for name, value in summary.get("baseline", {}).items())
    lines = {
        "rows": f"{rows['train']:,} train, {rows['dev']:,} dev",
        "columns": ", ".join(columns),
        "labels": labels and f"{len(labels)}: {counts}",
        "alike": alike and f"{alike}: labels that differ only in case or spaces",
        "unbalanced": is_unbalanced(labels)
        and "use --class-weights balanced, and judge by macro F1 instead of accuracy",
        "cut": cut
        and f"{cut:,} rows ({cut / rows['train']:.0%}) are longer than "
        f"{summary['max_length']} tokens and truncated; increase --max-length to keep more",
        **{name: summary[name] and text.format(summary[name]) for name, text in _ODD.items()},
        "baseline": scores and f"TF-IDF with logistic regression: {scores}",
    }
    return [escaped(f"{name.replace('_', ' '):<15}{text}") for name, text in lines.items() if text]


def is_unbalanced(labels: Mapping[str, int]) -> bool:
    """Whether one of several classes contains nearly all examples."""
    return len(labels) > 1 and max(labels.values()) > _UNBALANCED * sum(labels.values())


def results(
    history: Sequence[Mapping[str, float]],
    scores: Sequence[Mapping[str, float]],
    best: Mapping[str, float],
) -> dict[str, Any]:
    """Returns the metrics of a fine-tuning run: names, values by epoch, and the best values.

    Args:
        history: mean training metrics of each epoch, with `step` and `learning_rate`.
        scores: dev scores after each epoch, with `step` and `loss`.
        best: the scores of the version with the best first metric, with their `step` and `number`
            (the epoch).
    """
    best_scores = {name: best[name] for name in best if name not in ("number", "step")}
    return {
        "metrics": [name for name in best_scores if name not in (ONE_CLASS, LOSS)],
        "history": [
            {**point, **{f"val_{name}": found[name] for name in found if name != "step"}}
            for point, found in zip(history, scores, strict=True)
        ],
        "best": {
            "epoch": best["number"],
            "step": best["step"],
            "score": next(iter(best_scores.values())),
            **best_scores,
        },
    }


def versions() -> dict[str, Any]:
    """Returns the versions of Python and of the packages that a run uses."""
    packages = ("albert_tf", "tensorflow", "keras", "jax", "torch", "sentencepiece")
    found = {"python": platform.python_version()}
    for name in packages:
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found


def write_finetuning(
    output: Path, folder: Path, report: Mapping[str, Any], model: "PreTrainedModel"
) -> None:
    """Writes a fine-tuning run's learning curves and model card.

    Args:
        output: output folder, whose name is the card's title. A confusion matrix left there by an
            earlier run is removed.
        folder: folder in which the files are written before they are moved to `output`.
        report: the run's report.
        model: the best version.
    """
    history, shown = report["history"], [LOSS, *report["metrics"][:_CURVES]]
    evaluation = [
        {name.removeprefix("val_"): row[name] for name in row if name.startswith(("step", "val_"))}
        for row in history
    ]
    plot_curves(history, evaluation, shown, folder / CURVES, report["best"]["step"])
    text = card(output.resolve().name, report, model)
    (folder / CARD).write_text(text, encoding="utf-8", newline="\n")
    (output / CONFUSION).unlink(missing_ok=True)


def class_table(by_class: Mapping[str, Mapping[str, float]]) -> list[list[str]]:
    """Returns the scores of `metrics.by_class` as table rows; the first row contains the names."""
    names = list(next(iter(by_class.values())))
    rows = [
        [f"{value:,}" if isinstance(value, int) else f"{value:.4f}" for value in scores.values()]
        for scores in by_class.values()
    ]
    return [["", *names], *([name, *row] for name, row in zip(by_class, rows, strict=True))]


def card(name: str, report: Mapping[str, Any], model: "PreTrainedModel") -> str:
    """Returns the model card of a fine-tuning run, without the license and language fields."""
    from huggingface_hub import EvalResult

    settings, best = report["settings"], report["best"]
    scores = {metric: best[metric] for metric in report["metrics"]}
    dataset, repository = Path(settings["data"]).name, None  # the full path may reveal a user name
    if settings["data"].startswith("hub:"):
        dataset = settings["data"].removeprefix("hub:").partition("@")[0]
        repository = "/".join(dataset.split("/")[:2])
    origin = None if Path(settings["model"]).exists() else hub.repository(settings["model"])
    rows = {
        "data": dataset,
        "examples": f"{report['examples']['train']:,}, {report['examples']['dev']:,} in dev",
        "truncated": f"{report['data']['cut']:,} of the training examples",
        **_effective(settings),
        **report["versions"],
    }
    about = f"""\
Fine-tuned with albert_tf for the task {settings["task"]}, from \
{in_cell(origin or Path(settings["model"]).name)}.

## Scores

| on dev | |
|---|---|
{_lines({metric: f"{value:.4f}" for metric, value in scores.items()})}

These are the scores after epoch {best["epoch"]}, which was the best on dev. Scores on test data may
be lower, because the epoch was selected on dev.
{_class_section(report.get(CLASSES))}{_test_section(report.get(TEST))}
## Training

| | |
|---|---|
{_lines(rows)}

## Limits

The model knows only the labels above, and the language and the kind of text in its training data.
It reads at most {settings["max_length"]} tokens at once. `mistakes.md` quotes the dev data: read it
before you publish it.
"""
    results = [
        EvalResult(
            task_type=BY_MODEL[model.saved_class].pipeline_tag,
            dataset_type=repository or settings["task"],
            dataset_name=dataset if repository else f"{settings['task']}, own files",
            metric_type=metric,
            metric_value=round(value, 6),
        )
        for metric, value in scores.items()
        if not metric.endswith("threshold")
    ]
    return model_card(
        name,
        model.saved_class,
        model.config,
        report["parameters"],
        about,
        base_model=origin,
        datasets=repository and [repository],
        metrics=[result.metric_type for result in results],
        model_name=name,
        eval_results=results,
    )


def _class_section(by_class: Mapping[str, Mapping[str, float]] | None) -> str:
    if not by_class:
        return ""
    heads, *rows = class_table(by_class)
    rule = "|---" + "|---:" * (len(heads) - 1) + "|"
    lines = [f"| {' | '.join(map(in_cell, row))} |" for row in (heads, *rows)]
    return "\n" + "\n".join([lines[0], rule, *lines[1:], ""])


def _test_section(scores: Mapping[str, Any] | None) -> str:
    if not scores:
        return ""
    rows = {
        name: f"{value:.4f}"
        for name, value in scores.items()
        if isinstance(value, float) and name != ONE_CLASS
    }
    rows |= {"examples": f"{scores['examples']:,}", "file": scores["file"]}
    table = f"\n| on test | |\n|---|---|\n{_lines(rows)}\n"
    return table + _class_section(scores.get(CLASSES))


def _effective(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the settings that had an effect on the run."""
    applies = {
        "dev_fraction": Path(settings["data"]).is_file(),
        "label_separator": settings.get("multi_label", False),
    }
    return {
        name: value
        for name, value in settings.items()
        if name not in _SHOWN and applies.get(name, True) and (value or _is_number(value))
    }


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _lines(rows: Mapping[str, Any]) -> str:
    """Returns the rows of a two-column Markdown table, without those whose value is None."""
    pairs = (
        (in_cell(key), in_cell(str(value))) for key, value in rows.items() if value is not None
    )
    return "\n".join(f"| {key} | {value} |" for key, value in pairs)
