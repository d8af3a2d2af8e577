"""Compares fine-tuning with transformers on torch: scores, and examples per second end to end.

    python -m benchmarks.finetuning --task rte --data RTE --model small [--rounds 3]
    python -m benchmarks.finetuning --precisions --task rte --data RTE --model small

Both sides start from the same weights and use the same tokens, batch size, learning rates, and
epochs, and both batch examples of similar length. Each run is a separate process. The sides take
turns, once for each of --rounds seeds. The time of a run excludes imports, but includes reading,
tokenizing, training, and an evaluation after each epoch. Both sides use albert_tf's tokenizer and
metrics; only albert_tf's time includes checkpoints. The script also accepts the options of
`albert-tf finetune`; `--dtype-policy mixed_bfloat16` applies to both sides. Requires
`pip install 'albert_tf[peers]'`. With `--precisions`, the sides are float32 and mixed_bfloat16,
both in albert_tf.
"""

import itertools
import statistics
import sys
import tempfile
import time
from pathlib import Path

from albert_tf.cli.parsing import add_options, parsed_options
from albert_tf.training.options import FinetuningOptions
from benchmarks import harness

PACKAGES = ("tensorflow", "keras", "torch", "transformers", "accelerate")
PRECISIONS = ("mixed_bfloat16", "float32")


def ours(options):
    """Runs `finetune`. Returns the best score on dev, the examples of all epochs, and seconds."""
    from albert_tf.training.distribution import share_threads
    from albert_tf.training.finetune import finetune

    start = time.perf_counter()
    share_threads()  # as the command does
    report = finetune(options)
    seen = report["examples"]["train"] * len(report["history"])  # fewer epochs if it ends early
    return report["best"]["score"], seen, time.perf_counter() - start


def theirs(options):
    """Does the same with transformers' model for the task and its `Trainer`."""
    import numpy as np
    import torch
    import transformers

    from albert_tf.checkpoints import finder
    from albert_tf.config import AlbertConfig
    from albert_tf.data.pipeline import steps_per_epoch
    from albert_tf.data.tasks.base import Predicted
    from albert_tf.data.tasks.rows import evaluation_order
    from albert_tf.text.tokenizer import AlbertTokenizer

    start = time.perf_counter()
    task, train, dev, _, name = options.read()
    recipe = options.recipe(name, len(train))
    folder = finder.find(options.model).folder
    config = AlbertConfig.from_pretrained(
        folder,
        **task.config_fields(train),
        hidden_dropout_prob=recipe.dropout,
        attention_probs_dropout_prob=recipe.dropout,
    )
    tokenizer = AlbertTokenizer.from_pretrained(folder)
    length = min(recipe.max_length, config.max_position_embeddings)
    rows, held_out = (task.encode(part, tokenizer, config, length) for part in (train, dev))
    transformers.set_seed(options.seed)
    model = getattr(transformers, task.model).from_pretrained(
        folder,
        config=transformers.AlbertConfig(**config.to_dict()),
        dtype=torch.float32,
        ignore_mismatched_sizes=True,
    )

    def tensors(arrays):
        found = {name: torch.from_numpy(array) for name, array in arrays.items()}
        return {
            name: each if each.is_floating_point() else each.long() for name, each in found.items()
        }

    def batch(items):
        features, labels, _ = rows.batch(np.array([item["row"] for item in items]))
        return tensors({**features, **labels})

    def score():
        outputs = [{}] * len(held_out)
        model.eval()
        for chosen in evaluation_order(held_out.lengths, 64):
            with torch.inference_mode():
                found = model(**tensors(held_out.inputs(chosen)))
            for place, row in enumerate(chosen):
                outputs[row] = {name: values[place].numpy() for name, values in found.items()}
        model.train()
        predictions = task.predictions(dev, held_out, outputs, config)
        predicted = Predicted(dev, predictions, config)
        tuned = config.replace(**task.fit_thresholds(predicted))
        return next(iter(task.scores(Predicted(dev, predictions, tuned)).values()))

    scores = []

    class Evaluation(transformers.TrainerCallback):
        def on_epoch_end(self, *_, **__):
            scores.append(score())

    steps = recipe.steps or recipe.epochs * steps_per_epoch(len(rows), recipe.batch_size)
    arguments = transformers.TrainingArguments(
        output_dir=options.output,
        per_device_train_batch_size=recipe.batch_size,
        learning_rate=recipe.learning_rate,
        warmup_steps=int(recipe.warmup if recipe.warmup >= 1 else recipe.warmup * steps),
        max_steps=steps,
        weight_decay=0.01,
        adam_epsilon=1e-6,
        max_grad_norm=1.0,
        train_sampling_strategy="group_by_length",
        remove_unused_columns=False,
        save_strategy="no",
        report_to=[],
        logging_steps=50,
        disable_tqdm=True,
        seed=options.seed,
        use_cpu=True,
        bf16=options.dtype_policy == "mixed_bfloat16",
    )
    data = [{"row": row, "input_ids": range(size)} for row, size in enumerate(rows.lengths)]
    transformers.Trainer(
        model, arguments, data_collator=batch, train_dataset=data, callbacks=[Evaluation()]
    ).train()
    return max(scores), len(train) * len(scores), time.perf_counter() - start


def parsed(arguments):
    """Returns the script's options and the fine-tuning options."""
    parser = harness.parser(__doc__)
    parser.add_argument(
        "--precisions", action="store_true", help="compare float32 with mixed_bfloat16"
    )
    add_options(parser, FinetuningOptions)
    given = parser.parse_args(arguments)
    given.output = getattr(given, "output", Path("unused"))
    return given, parsed_options(parser, FinetuningOptions, given)


def measure(side, arguments, seed):
    """Returns the score and the examples per second of one run."""
    with tempfile.TemporaryDirectory() as folder:
        given = [*arguments, "--seed", str(seed), "--output", f"{folder}/model"]
        if side in PRECISIONS:
            given += ["--dtype-policy", side]
        _, options = parsed(given)
        score, examples, seconds = (theirs if side == "transformers" else ours)(options)
    return {"score": score, "rate": examples / seconds}


def main():
    given, options = parsed(sys.argv[1:])
    cases = {}
    sides = PRECISIONS if given.precisions else ("albert_tf", "transformers")
    for side in sides:
        seeds = itertools.count(options.seed)
        cases[side] = lambda side=side, seeds=seeds: harness.fresh(
            measure, side, sys.argv[1:], next(seeds)
        )
    rounds = harness.take_turns(cases, given.rounds)
    rates = {
        side: statistics.median(result["rate"] for result in results)
        for side, results in rounds.items()
        if not isinstance(results, str)
    }

    def row(side, results):
        if isinstance(results, str):
            return [side, results]
        scores = sorted(result["score"] for result in results)
        spread = f"{statistics.median(scores):.4f} ({scores[0]:.4f} to {scores[-1]:.4f})"
        ratio = rates[side] / rates.get(sides[-1], float("nan"))
        return [side, spread, f"{rates[side]:.1f}", f"{ratio:.2f}×"]

    heads = ["", "score", "examples/s", "ratio"]
    table = harness.table(heads, [row(*each) for each in rounds.items()])
    harness.report(given, PACKAGES, [table], rounds)


if __name__ == "__main__":
    main()
