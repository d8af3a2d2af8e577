"""`albert-tf ablate`"""

import argparse
from pathlib import Path
from typing import Final

from albert_tf.data.pretraining.options import PairTask
from albert_tf.errors import UserError
from albert_tf.training.ablations import ABLATIONS, Ablation

SUMMARY = "train the small models of one of the paper's comparisons, and print its table"
EXAMPLES = (
    "comparisons:\n"
    + "\n".join(f"  {name:15} {each.summary} ({each.place})" for name, each in ABLATIONS.items())
    + """

examples:
  albert-tf ablate sharing --data examples --eval-data held-out --output ablations
  albert-tf ablate pair-task --input 'books/*.txt' --eval-input 'chapters/*.txt' \\
      --vocab spiece.model --output ablations

The models have 4 layers of width 192 where the comparison doesn't say otherwise. All accuracies are
of held-out records. pair-task needs text, of which it builds records of every kind, in the output;
the others take text too. Stopped by Ctrl-C or killed, the same command again goes on, and doesn't
train again what is finished.
"""
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options of `ablate`."""
    parser.add_argument("comparison", choices=ABLATIONS, metavar="COMPARISON", help="see below")
    parser.add_argument("--output", required=True, type=Path, metavar="DIR", help="folder to write")
    records = parser.add_argument_group("records of build-data")
    records.add_argument("--data", metavar="DIR", help="to learn from")
    records.add_argument("--eval-data", metavar="DIR", help="held-out ones, to be scored on")
    text = parser.add_argument_group("or text to build them from")
    text.add_argument("--input", nargs="+", metavar="FILE", help="to learn from")
    text.add_argument("--eval-input", nargs="+", metavar="FILE", help="held-out, to be scored on")
    text.add_argument("--vocab", metavar="FILE", help="vocabulary file, or a model's folder")
    text.add_argument(
        "--max-seq-length", type=int, default=64, metavar="N", help="default: %(default)s"
    )
    training = parser.add_argument_group("training")
    for name, default, help in (
        ("--steps", 1000, "of each model"),
        ("--batch-size", 32, "examples of a step"),
        ("--learning-rate", 0.003, "of LAMB, at its peak"),
        ("--seed", 12345, "of weights, order, masks and dropout"),
    ):
        training.add_argument(
            name,
            type=type(default),
            default=default,
            metavar="N",
            help=f"{help}; default: %(default)s",
        )
    training.add_argument("--jit-compile", action="store_true", help="compile the step with XLA")


def run(options: argparse.Namespace) -> int:
    """Trains what isn't finished; prints the table; 130 if interrupted."""
    from albert_tf.commands.ablation_tables import table
    from albert_tf.training.ablation_runs import AblationOptions, ablate, score_model
    from albert_tf.training.interruption import Interrupted
    from albert_tf.training.pretrain import pretrain

    ablation = ABLATIONS[options.comparison]
    _check(options, ablation)
    try:
        data, eval_data = _records(options, ablation)
        asked = AblationOptions(
            options.output,
            data,
            eval_data,
            **{name: getattr(options, name) for name in _TRAINING},
        )
        results = ablate(options.comparison, asked, pretrain, score_model)
    except (Interrupted, KeyboardInterrupt):
        print(f"\nStopped. The same command goes on from what is in {options.output}.")
        return 130
    print(f"{options.comparison}: {ablation.summary} ({ablation.place})\n")
    print(table(options.comparison, results))
    return 0


_TRAINING: Final = ("steps", "batch_size", "learning_rate", "seed", "jit_compile")


def _check(options: argparse.Namespace, ablation: Ablation) -> None:
    records = (options.data, options.eval_data)
    text = (options.input, options.eval_input, options.vocab)
    if not (all(records) and not any(text)) and not (all(text) and not any(records)):
        raise UserError(
            "Give records (--data and --eval-data), or text to build them from (--input, "
            f"--eval-input and --vocab). Received: {_given(options)}."
        )
    if options.data and _tasks(ablation) != {"sop"}:
        raise UserError(
            f"{options.comparison} trains on records of several kinds. Received: {_given(options)}."
            " Give text: --input, --eval-input and --vocab."
        )


def _given(options: argparse.Namespace) -> str:
    names = ("data", "eval_data", "input", "eval_input", "vocab")
    found = [f"--{name.replace('_', '-')}" for name in names if getattr(options, name)]
    return ", ".join(found) or "none of them"


def _tasks(ablation: Ablation) -> set[PairTask]:
    return {*ablation.pair_tasks, *(row.pair_task for row in ablation.rows)}


def _records(
    options: argparse.Namespace, ablation: Ablation
) -> tuple[dict[str, str], dict[str, str]]:
    """Directories of records by pair task: to learn from, and to be scored on."""
    if options.data:
        return {"sop": options.data}, {"sop": options.eval_data}
    learned = {row.pair_task for row in ablation.rows}
    return (
        {task: _built(options, "data", task, options.input) for task in sorted(learned)},
        {
            task: _built(options, "held-out", task, options.eval_input)
            for task in ablation.pair_tasks
        },
    )


def _built(options: argparse.Namespace, kind: str, task: PairTask, inputs: list[str]) -> str:
    """The directory of records of text, built unless it is there."""
    from albert_tf.data.jobs.build import build_data

    output = str(options.output / kind / task)
    build_data(
        input=inputs,
        output=output,
        vocab=options.vocab,
        max_seq_length=options.max_seq_length,
        pair_task=task,
    )
    return output
