"""Runs that differ by their seed: one after the other, their scores, and the best one's model."""

import dataclasses
import shutil
import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from albert_tf.files import read_json, require_same, write_json
from albert_tf.options import FILE, save_options
from albert_tf.training.checkpoints import LOGS, REPORT, copy_files, remove_folder
from albert_tf.training.options import CHECKPOINTS, FinetuningOptions
from albert_tf.training.reports import remove_old_reports

Report = dict[str, Any]


def train_seeds(
    options: FinetuningOptions, train: Callable[[FinetuningOptions, int], Report], is_chief: bool
) -> Report:
    """Trains a run for each seed, in a folder among the checkpoints, and publishes the best one.

    Args:
        train: trains with a seed to the options' output, or returns the report that is there.
    Returns:
        the best run's report, with `seeds`: see `summary`.
    """
    folders = {
        # Each run's folder has the output's name, which the model's card shows.
        seed: options.output / CHECKPOINTS / f"seed-{seed}" / options.output.resolve().name
        for seed in range(options.seed, options.seed + options.seeds)
    }
    reports = {
        seed: train(dataclasses.replace(options, output=folder, force=False), seed)
        for seed, folder in folders.items()
    }
    best = max(reports, key=lambda seed: reports[seed]["best"]["score"])
    report = {**reports[best], "seeds": summary(reports)}
    if is_chief:
        remove_old_reports(options.output, report)
        copy_files(folders[best], options.output, but=(REPORT, FILE))
        for seed, folder in folders.items():
            logs = options.output / LOGS / f"seed-{seed}"
            shutil.copytree(folder / LOGS, logs, dirs_exist_ok=True)
        save_options(options, options.output)
        write_json(options.output / REPORT, report)
        remove_folder(options.output / CHECKPOINTS)
    return report


def summary(reports: Mapping[int, Report]) -> dict[str, Any]:
    """Returns each run's seed and best scores, then each score's median, lowest and highest."""
    names = next(iter(reports.values()))["metrics"]
    scores = {name: [report["best"][name] for report in reports.values()] for name in names}
    return {
        "runs": [
            {
                "seed": seed,
                **report["best"],
                "stopped": report["stopped"],
                "seconds": report["seconds"],
            }
            for seed, report in reports.items()
        ],
        **{
            measure.__name__: {name: measure(values) for name, values in scores.items()}
            for measure in (statistics.median, min, max)
        },
    }


def finished_report(
    output: Path, settings: Mapping[str, Any], paths: Sequence[str]
) -> Report | None:
    """Returns the report of a run that is complete, or None.

    Args:
        paths: names of settings that may differ.
    Raises:
        UserError: the run had other settings.
    """
    if not (output / REPORT).is_file():
        return None
    report = read_json(output / REPORT)
    then = {name: value for name, value in report["settings"].items() if name not in paths}
    require_same(output, then, settings)
    return report
