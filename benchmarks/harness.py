"""Measures in fresh processes that take turns, and reports medians. All scripts here use it.

A script has a function that measures once and returns figures that JSON can represent, a `main`
that lists the cases, and a table:

    def measure(path, calls):
        return [harness.timed(load(path), calls), harness.memory("VmHWM")]

    def main():
        options = harness.parser(__doc__).parse_args()
        cases = {path: partial(harness.fresh, measure, path, calls=5) for path in PATHS}
        rounds = harness.take_turns(cases, options.rounds)
        rows = harness.rows(rounds, lambda figures: [f"{figure:.1f}" for figure in figures])
        harness.report(options, PACKAGES, [harness.table(["", "ms", "MB"], rows)], rounds)
"""

import argparse
import contextlib
import importlib
import json
import math
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
ROOT = Path(__file__).parents[1]
FEW_BITS = ("avx512_vnni", "avx512_bf16", "amx_tile")  # instructions that determine speed
Rounds = dict[Any, list[Any] | str]  # results keyed by case, or the reason why there are none


class Failure(Exception):
    """A process ended without a result. The message is the last line of its stderr."""


def fresh(function: Callable, *arguments: Any, environment: Mapping = {}, **named: Any) -> Any:
    """Calls a function in a new process and returns its result.

    Args:
        function: a module's function. Its arguments and its result are passed as JSON, so a path
            becomes a string. What it prints is discarded.
        environment: environment variables that differ from this process's.
    Raises:
        Failure: if the process raised an error or crashed.
    """
    module = function.__module__
    if module == "__main__":
        module = sys.modules["__main__"].__spec__.name
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.harness", module, function.__name__],
        input=json.dumps([arguments, named], default=str),
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        env={**os.environ, "PYTHONPATH": path, **environment},
    )
    if done.returncode:
        print(done.stderr[-4000:], file=sys.stderr, flush=True)
        lines = done.stderr.strip().splitlines() or [f"status {done.returncode}"]
        raise Failure(lines[-1][:120])
    return json.loads(done.stdout.splitlines()[-1])


def _answer(module: str, name: str) -> None:
    """Calls the function that `fresh` named, in the new process."""
    arguments, named = json.load(sys.stdin)
    result = getattr(importlib.import_module(module), name)(*arguments, **named)
    print(f"\n{json.dumps(result)}", flush=True)
    os._exit(0)  # without waiting for browsers and threads that the function started


def take_turns(cases: Mapping[Hashable, Callable[[], Any]], rounds: int) -> Rounds:
    """Runs each case once per round, so that all are exposed to the same disturbances.

    A case that fails doesn't run again.
    """
    results: Rounds = {name: [] for name in cases}
    for number in range(rounds):
        for name, run in cases.items():
            done = results[name]
            if isinstance(done, str):
                continue
            print(f"round {number + 1} of {rounds}: {_text(name)}", file=sys.stderr, flush=True)
            try:
                done.append(run())
            except Failure as failure:
                results[name] = str(failure)
    return results


def _text(name: Hashable) -> str:
    return ", ".join(map(str, name)) if isinstance(name, tuple) else str(name)


def medians(results: Sequence[Any]) -> Any:
    """Merges results of the same structure into one, with the median of each number."""
    first = results[0]
    if isinstance(first, Mapping):
        return {name: medians([result[name] for result in results]) for name in first}
    if isinstance(first, (list, tuple)):
        return [medians(values) for values in zip(*results, strict=True)]
    is_number = isinstance(first, (int, float)) and not isinstance(first, bool)
    return statistics.median(results) if is_number else first


def timed(
    call: Callable[[], Any],
    calls: int = 30,
    seconds: float = math.inf,
    clock: Callable[[], float] = time.perf_counter,
) -> float:
    """Returns the median milliseconds of a call, by default of wall-clock time.

    The first call, which may trace and fill caches, isn't counted. Stops after two calls once
    `seconds` have passed.
    """
    call()
    times, end = [], time.perf_counter() + seconds
    while len(times) < calls and (len(times) < 2 or time.perf_counter() < end):
        start = clock()
        call()
        times.append(1000 * (clock() - start))
    return statistics.median(times)


def memory(field: str, process: int | str = "self") -> float:
    """Returns a process's MB (2^20 bytes): "VmRSS" now, "VmHWM" at its peak, "RssAnon" private."""
    with open(f"/proc/{process}/status", encoding="ascii") as status:
        return next(int(line.split()[1]) / 1024 for line in status if line.startswith(field))


def megabytes(path: str | Path) -> float:
    """Returns the MB (10^6 bytes) of a file, or of all files in a folder."""
    files = [path, *path.rglob("*")] if (path := Path(path)).is_dir() else [path]
    return sum(file.stat().st_size for file in files if file.is_file()) / 1e6


def parser(documentation: str, rounds: int = 3) -> argparse.ArgumentParser:
    """Returns a script's parser, with the options that all scripts share."""
    result = argparse.ArgumentParser(
        description=documentation, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    result.add_argument("--rounds", type=int, default=rounds, help="turns; default: %(default)s")
    result.add_argument(
        "--report", type=Path, default=Path("build/bench"), help="folder for the Markdown and JSON"
    )
    return result


def rows(rounds: Rounds, cells: Callable[[Any], list[str]]) -> list[list[str]]:
    """Returns a row for each case: its name, and its medians as cells or why there are none."""
    return [
        [*(map(str, name) if isinstance(name, tuple) else [str(name)])]
        + ([results] if isinstance(results, str) else cells(medians(results)))
        for name, results in rounds.items()
    ]


def table(heads: Sequence[str], lines: Iterable[Sequence[str]], names: int = 1) -> str:
    """Returns a Markdown table in which the first `names` columns are text and the others numbers.

    Short lines, such as those with a reason, are padded.
    """
    lines = [[cell.replace("|", "/") for cell in line] for line in (heads, *lines)]
    lines = [line + [""] * (len(heads) - len(line)) for line in lines]
    widths = [max(3, *map(len, column)) for column in zip(*lines, strict=True)]
    rule = ["-" * (width - 1) + "-:"[column >= names] for column, width in enumerate(widths)]
    aligned = [
        [f"{cell:{'<>'[column >= names]}{widths[column]}}" for column, cell in enumerate(line)]
        for line in (lines[0], rule, *lines[1:])
    ]
    return "\n".join(f"| {' | '.join(line)} |" for line in aligned) + "\n"


def setting(packages: Iterable[str]) -> str:
    """Returns the versions of the installed packages, and the processor."""
    versions = []
    for name in packages:
        with contextlib.suppress(metadata.PackageNotFoundError):
            versions.append(f"{name} {metadata.version(name)}")
    with open("/proc/cpuinfo", encoding="utf-8") as lines:
        info = [line.split(":", 1) for line in lines if ":" in line]
    details = {name.strip(): value.strip() for name, value in info}
    known = [flag for flag in FEW_BITS if flag in details.get("flags", "").split()]
    name = " ".join([details.get("model name", platform.machine()), *known])
    cores = len(os.sched_getaffinity(0))
    return (
        f"{', '.join([*versions, f'Python {platform.python_version()}'])}  \n{name}, {cores} cores"
    )


def report(
    options: argparse.Namespace, packages: Iterable[str], tables: Iterable[str], figures: Any
) -> None:
    """Prints the machine, the versions, and the tables; writes them and all figures to --report.

    In the JSON, figures keyed by case become lists of name and value, because names may be tuples.
    """
    name = Path(sys.argv[0]).stem.replace("__main__", Path(sys.argv[0]).parent.name)
    given = {key: value for key, value in vars(options).items() if key != "report"}
    versions = setting(packages)
    text = "\n".join([f"{versions}  \n{given}\n", *tables])
    if isinstance(figures, Mapping):
        figures = [[_text(key), value] for key, value in figures.items()]
    content = {"setting": versions, "options": given, "figures": figures}
    options.report.mkdir(parents=True, exist_ok=True)
    (options.report / f"{name}.md").write_text(text, "utf-8")
    written = json.dumps(content, indent=1, default=str) + "\n"
    (options.report / f"{name}.json").write_text(written, "utf-8")
    print(text)


if __name__ == "__main__":
    _answer(*sys.argv[1:])
