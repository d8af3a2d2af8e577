"""Reports of a run: its examples, its curves, its mistakes and its model card."""

import contextlib
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from albert_tf.checkpoints import hub
from albert_tf.checkpoints.hub import CARD, in_cell, model_card
from albert_tf.config import AlbertConfig
from albert_tf.data.readers import skipped_rows
from albert_tf.data.tasks.base import GradedPrediction, Task
from albert_tf.errors import escaped, listed
from albert_tf.tasks import BY_MODEL

if TYPE_CHECKING:
    from albert_tf.models.base import PreTrainedModel

CONFUSION: Final = "confusion.png"
CURVES: Final = "curves.png"
MISTAKES: Final = "mistakes.md"
PRETRAINING: Final = (
    *("masked_lm_loss", "sentence_order_loss"),
    *("masked_lm_accuracy", "sentence_order_accuracy"),
)
_UNBALANCED: Final = 0.9  # share of the largest class from which accuracy alone misleads
_MOST_CLASSES: Final = 30  # of a confusion matrix that can be read
_MOST_NUMBERED: Final = 12  # classes of a matrix whose cells have room for numbers
_MOST_MISTAKES: Final = 50
_LONGEST: Final = 400  # characters of a text, or of each part of one
_CURVES: Final = 3  # scores beside the loss
_PATHS: Final = ("data", "model", "vocab", "labels")  # settings that the card has elsewhere
_ODD: Final = {
    "skipped": "{:,} bad rows",
    "duplicates": "{:,} rows of train",
    "contradictions": "{:,} texts of train have several labels",
    "in_both": "{:,} rows of dev are in train, which makes scores too high",
}


def summarize(task: Task[Any, Any], train: Sequence[Any], dev: Sequence[Any]) -> dict[str, Any]:
    """Counts what the examples are, and what is odd about them.

    Returns:
        `rows` of train and dev; `columns`; `labels` of train with their counts, the most frequent
        first; `alike`, lists of labels that differ in case and spaces alone; `skipped` rows;
        `duplicates`, examples of train that came before; `contradictions`, texts of train with
        several labels; `in_both`, examples of dev whose texts are in train.
    """
    labels = Counter(label for example in train for label in task.labels(example))
    spellings = defaultdict(list)
    for name in labels:
        spellings["".join(name.split()).casefold()].append(name)
    known: dict[tuple[str, ...], set[tuple[str, ...]]] = defaultdict(set)
    duplicates = 0
    for example in train:
        texts, labels_of_it = tuple(task.texts(example)), tuple(task.labels(example))
        duplicates += texts in known and (labels_of_it in known[texts] or not labels_of_it)
        known[texts].add(labels_of_it)
    return {
        "rows": {"train": len(train), "dev": len(dev)},
        "columns": task.columns(),
        "labels": dict(labels.most_common()),
        "alike": [names for names in spellings.values() if len(names) > 1],
        "skipped": sum(map(skipped_rows, {*task.files("train"), *task.files("dev")})),
        "duplicates": duplicates,
        "contradictions": sum(len(several) > 1 for several in known.values()),
        "in_both": sum(tuple(task.texts(example)) in known for example in dev),
    }


def in_lines(summary: Mapping[str, Any]) -> list[str]:
    """Returns a summary for people, one thing a line; nothing of what isn't there.

    Args:
        summary: the result of `summarize`; with `cut`, the rows of train that have more tokens than
            `max_length`, and `baseline`, scores.
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
        "alike": alike and f"{alike}: labels that differ in case or spaces",
        "unbalanced": is_unbalanced(labels)
        and "give --class-weights balanced; see macro F1, not accuracy",
        "cut": cut
        and f"{cut:,} rows ({cut / rows['train']:.0%}) have more than {summary['max_length']} "
        "tokens; --max-length reads more",
        **{name: summary[name] and text.format(summary[name]) for name, text in _ODD.items()},
        "baseline": scores and f"TF-IDF with logistic regression: {scores}",
    }
    return [escaped(f"{name.replace('_', ' '):<15}{text}") for name, text in lines.items() if text]


def is_unbalanced(labels: Mapping[str, int]) -> bool:
    """Whether one of several classes has nearly all examples."""
    return len(labels) > 1 and max(labels.values()) > _UNBALANCED * sum(labels.values())


def write_predictions(
    folder: Path,
    task: Task[Any, Any],
    examples: Sequence[Any],
    predictions: Sequence[Any],
    config: AlbertConfig,
) -> None:
    """Writes the worst mistakes, and for classes a confusion matrix; replaces earlier ones."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / CONFUSION).unlink(missing_ok=True)
    pairs = task.pairs(examples, predictions, config)
    if len({name for pair in pairs for name in pair}) > 1:
        plot_confusion(pairs, folder / CONFUSION)
    graded = task.grade(examples, predictions, config)
    text = mistakes(graded, config.problem_type == "regression")
    (folder / MISTAKES).write_text(text, encoding="utf-8", newline="\n")


def mistakes(graded: Sequence[GradedPrediction], is_regression: bool = False) -> str:
    """Returns the worst mistakes as Markdown: those of the highest confidence, or distance."""
    wrong = [prediction for prediction in graded if not prediction.is_right]
    wrong.sort(key=lambda prediction: -prediction.confidence)
    measure, lines = "confidence", ["# Mistakes", ""]
    lines.append(f"{len(wrong):,} of {len(graded):,} predictions are wrong.")
    if is_regression:
        mean = sum(prediction.confidence for prediction in graded) / max(len(graded), 1)
        measure, lines = "distance", ["# Largest errors", ""]
        lines.append(f"The mean distance of {len(graded):,} predictions is {mean:.3g}.")
    if len(wrong) > _MOST_MISTAKES:
        lines[-1] += f" These {_MOST_MISTAKES} have the highest {measure}."
    if wrong:
        lines += ["", f"| {measure} | expected | predicted | text |", "|---|---|---|---|"]
    for each in wrong[:_MOST_MISTAKES]:
        text = "<br>".join(_shortened(line, each) for line in each.text.splitlines())
        cells = _shortened(each.expected), _shortened(each.predicted), text
        lines.append(f"| {each.confidence:.3g} | {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def _shortened(text: str, around: GradedPrediction | None = None) -> str:
    """Returns text for a cell; of a long one the beginning, or the part around its answer."""
    answers = (around.expected, around.predicted) if around else ()
    shown = [answer for answer in answers if answer and answer in text]
    start = max(text.find(shown[0]) - _LONGEST // 2, 0) if shown and len(text) > _LONGEST else 0
    cut = text[start : start + _LONGEST]
    end = "…" if start + _LONGEST < len(text) else ""
    return in_cell(f"{'…' if start else ''}{cut}{end}") or "–"


def plot_confusion(pairs: Sequence[tuple[str, str]], path: Path) -> None:
    """Writes a confusion matrix of pairs of an expected and a predicted class.

    Of more than `_MOST_CLASSES` classes, those that are missed most often are shown.
    """
    from sklearn.metrics import ConfusionMatrixDisplay

    expected, predicted = zip(*pairs, strict=True)
    names = sorted({*expected, *predicted})
    if len(names) > _MOST_CLASSES:
        missed = Counter(name for name, other in pairs if name != other)
        names = sorted(set(expected), key=lambda name: -missed[name])[:_MOST_CLASSES]
    is_numbered = len(names) <= _MOST_NUMBERED
    side = 2.5 + (0.6 if is_numbered else 0.28) * len(names)
    with _drawn(path, side + 0.6, side) as figure:
        ConfusionMatrixDisplay.from_predictions(
            *(expected, predicted),
            labels=names,
            display_labels=[name.replace("$", r"\$") for name in names],
            normalize="true",
            include_values=is_numbered,
            values_format=".0%",
            xticks_rotation="vertical",
            cmap="Blues",
            ax=figure.subplots(),
        )


def plot_curves(
    history: Sequence[Mapping[str, float]],
    evaluation: Sequence[Mapping[str, float]],
    names: Sequence[str],
    path: Path,
    best: int | None = None,
) -> None:
    """Writes a PNG of measures over steps.

    Args:
        history, evaluation: points of training and of other examples; each has `step` and measures.
        names: measures to show, those that a point has.
        best: step of the best version, which a line marks.
    """
    there = {name for point in (*history, *evaluation) for name in point}
    shown = [name for name in names if name in there]
    with _drawn(path, 4.5 * len(shown), 3.5) as figure:
        for axes, name in zip(figure.subplots(1, len(shown), squeeze=False)[0], shown, strict=True):
            for points, label, colour in (
                (history, "training", "tab:blue"),
                (evaluation, "evaluation", "tab:orange"),
            ):
                line = [(point["step"], point[name]) for point in points if name in point]
                if line:
                    axes.plot(*zip(*line, strict=True), ".-", color=colour, label=label)
            if best is not None:
                axes.axvline(best, color="tab:gray", ls=":", label="best version")
            axes.set_title(name.replace("_", " "), parse_math=False)
            axes.set_xlabel("step")
            axes.legend()


@contextlib.contextmanager
def _drawn(path: Path, width: float, height: float) -> Iterator[Any]:
    """Gives an empty figure, in inches, and writes it as a PNG of the same bytes each time."""
    from matplotlib.figure import Figure  # not pyplot, which asks for a display and keeps figures

    figure = Figure(figsize=(width, height), layout="constrained")
    yield figure
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from")  # drawn as boxes
        figure.savefig(path, format="png", dpi=150)


def write_finetuning(
    output: Path, folder: Path, report: Mapping[str, Any], model: "PreTrainedModel"
) -> None:
    """Writes the curves and the model card of a fine-tuning.

    Args:
        output: folder of the result, whose name the card has; a confusion matrix there is an
            earlier run's, and is removed.
        folder: where the files are written, before they move to `output`.
        report: of the run.
        model: the best version.
    """
    metrics, history = report["metrics"], report["history"]
    evaluation = [
        {"step": row["step"], **{name: row[f"val_{name}"] for name in metrics}} for row in history
    ]
    shown = ["loss", *metrics[:_CURVES]]
    plot_curves(history, evaluation, shown, folder / CURVES, report["best"]["step"])
    text = card(output.resolve().name, report, model)
    (folder / CARD).write_text(text, encoding="utf-8", newline="\n")
    (output / CONFUSION).unlink(missing_ok=True)


def card(name: str, report: Mapping[str, Any], model: "PreTrainedModel") -> str:
    """Returns the model card of a fine-tuning; without license and language, which people know."""
    from huggingface_hub import EvalResult

    settings, best = report["settings"], report["best"]
    scores = {metric: best[metric] for metric in report["metrics"]}
    dataset, repository = Path(settings["data"]).name, None  # its folders may say much of its user
    if settings["data"].startswith("hub:"):
        dataset = settings["data"].removeprefix("hub:").partition("@")[0]
        repository = "/".join(dataset.split("/")[:2])
    origin = None if Path(settings["model"]).exists() else hub.repository(settings["model"])
    rows = {
        "data": dataset,
        "examples": f"{report['examples']['train']:,}, {report['examples']['dev']:,} in dev",
        "longer than the model reads": f"{report['data']['cut']:,} of the training examples",
        **{key: settings[key] for key in settings if key not in _PATHS},
        **report["versions"],
    }
    about = f"""\
Fine-tuned with albert_tf for the task {settings["task"]}, from \
{in_cell(origin or Path(settings["model"]).name)}.

## Scores

| on dev | |
|---|---|
{_lines({metric: f"{value:.4f}" for metric, value in scores.items()})}

They are those of the version after epoch {best["epoch"]}, the best on dev. Test data, which the
choice did not see, may give lower ones.

## Training

| | |
|---|---|
{_lines(rows)}

## Limits

The model knows the labels above alone, and the language and the kind of text of its training data.
A row of its input has at most {settings["max_length"]} tokens. `mistakes.md` quotes dev: look at it
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


def _lines(rows: Mapping[str, Any]) -> str:
    """Returns the lines of a Markdown table of two columns; none for None."""
    pairs = (
        (in_cell(key), in_cell(str(value))) for key, value in rows.items() if value is not None
    )
    return "\n".join(f"| {key} | {value} |" for key, value in pairs)
