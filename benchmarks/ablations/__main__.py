"""Repeats one of the paper's comparisons with small models and prints its table.

python -m benchmarks.ablations sharing --data examples --eval-data held-out --output ablations
python -m benchmarks.ablations pair-task --input 'books/*.txt' --eval-input 'chapters/*.txt' \\
    --vocab spiece.model --output ablations

The models have 4 layers of width 192 unless the comparison varies these. All accuracies are on
held-out records. pair-task requires text, from which it builds records of every kind in the output;
the others accept text too. After Ctrl-C or a crash, the same command resumes and skips finished
models.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from albert_tf.data.jobs.run import build_data
from albert_tf.data.pretraining.options import PairTask
from albert_tf.errors import Interrupted, UserError
from albert_tf.training.pretrain import pretrain
from benchmarks.ablations import runs
from benchmarks.ablations.comparisons import COMPARISONS, Comparison


def main(arguments: Sequence[str] | None = None) -> int:
    """Trains unfinished models and prints the table. Returns an exit status."""
    options = _parser().parse_args(arguments)
    comparison = COMPARISONS[options.comparison]
    try:
        _check(options, comparison)
        data, eval_data = _records(options, comparison)
        settings = runs.Settings(
            options.output,
            data,
            eval_data,
            steps=options.steps,
            batch_size=options.batch_size,
            learning_rate=options.learning_rate,
            seed=options.seed,
            jit_compile=options.jit_compile,
        )
        results = runs.compare(options.comparison, settings, pretrain, runs.score)
    except (Interrupted, KeyboardInterrupt):
        print(f"\nInterrupted. The same command resumes from {options.output}.")
        return 130
    except (UserError, OSError) as error:
        print(f"ablations: error: {error}", file=sys.stderr)
        return 2
    print(f"{options.comparison}: {comparison.summary} ({comparison.place})\n")
    print(runs.table(options.comparison, results))
    return 0


def _parser() -> argparse.ArgumentParser:
    names = "\n".join(
        f"  {name:15} {each.summary} ({each.place})" for name, each in COMPARISONS.items()
    )
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.ablations",
        description=__doc__,
        epilog=f"comparisons:\n{names}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("comparison", choices=COMPARISONS, metavar="COMPARISON", help="comparison, see below")
    add("--output", required=True, type=Path, metavar="DIR", help="folder to write")
    add("--data", metavar="DIR", help="records from build-data to train on")
    add("--eval-data", metavar="DIR", help="held-out records")
    add("--input", nargs="+", metavar="FILE", help="text to build records from, instead of --data")
    add("--eval-input", nargs="+", metavar="FILE", help="held-out text")
    add("--vocab", metavar="FILE", help="vocabulary file or model folder; required for text")
    add("--max-seq-length", type=int, default=64, help="length of records built from text")
    add("--steps", type=int, default=1000, help="training steps per model")
    add("--batch-size", type=int, default=32, help="examples per step")
    add("--learning-rate", type=float, default=0.003, help="peak learning rate of LAMB")
    add("--seed", type=int, default=12345, help="seed for weights, order, masks, and dropout")
    add("--jit-compile", action="store_true", help="compile the step with XLA")
    return parser


def _check(options: argparse.Namespace, comparison: Comparison) -> None:
    records = (options.data, options.eval_data)
    text = (options.input, options.eval_input, options.vocab)
    if not (all(records) and not any(text)) and not (all(text) and not any(records)):
        raise UserError(
            "Pass records (--data and --eval-data), or text to build them from (--input, "
            f"--eval-input and --vocab). Received: {_given(options)}."
        )
    if options.data and _tasks(comparison) != {"sop"}:
        raise UserError(
            f"{options.comparison} trains on records of several kinds. Received: {_given(options)}."
            " Pass text: --input, --eval-input and --vocab."
        )


def _given(options: argparse.Namespace) -> str:
    names = ("data", "eval_data", "input", "eval_input", "vocab")
    found = [f"--{name.replace('_', '-')}" for name in names if getattr(options, name)]
    return ", ".join(found) or "none of them"


def _tasks(comparison: Comparison) -> set[PairTask]:
    return {*comparison.pair_tasks, *(row.pair_task for row in comparison.rows)}


def _records(
    options: argparse.Namespace, comparison: Comparison
) -> tuple[dict[str, str], dict[str, str]]:
    """Returns the directories of training and held-out records, keyed by pair task."""
    if options.data:
        return {"sop": options.data}, {"sop": options.eval_data}
    trained = sorted({row.pair_task for row in comparison.rows})
    return (
        {task: _built(options, "data", task, options.input) for task in trained},
        {
            task: _built(options, "held-out", task, options.eval_input)
            for task in comparison.pair_tasks
        },
    )


def _built(options: argparse.Namespace, kind: str, task: PairTask, inputs: list[str]) -> str:
    """Returns a directory of records, which `build-data` writes unless it is complete."""
    output = str(options.output / kind / task)
    build_data(
        input=inputs,
        output=output,
        vocab=options.vocab,
        max_seq_length=options.max_seq_length,
        pair_task=task,
    )
    return output


if __name__ == "__main__":
    sys.exit(main())
