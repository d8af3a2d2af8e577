"""Distillation and depth: scores of small models that learn from a teacher, or at two depths.

    python -m benchmarks.less_compute --sst2 SST-2 --wnut17 WNUT17 --output build/less-compute

Each run is a process of its own, with round r's seed r. --output keeps the models: a run that is
there is not repeated, so an interrupted script resumes. On SST-2 the students have --labelled
sentences with labels, and --unlabelled others without; the teacher of SST-2 is the bundled model
after --teacher-epochs epochs on all sentences. The teacher of WNUT17 is the bundled model of the
same seed, fine-tuned on the same examples as its students.

Early exit: each model that was trained at both depths is exported for LiteRT in 8 bits, at each
depth and with early exit at each of THRESHOLDS. Each text of dev runs alone through all files in
turn, on one thread; ms are of the processor.
"""

import itertools
import json
import statistics
import sys
from functools import partial
from pathlib import Path

from benchmarks import harness

PACKAGES = ("tensorflow", "keras", "ai-edge-litert")
# Of random weights; the bundled model's recipe is the same without dropout of its own.
MINI = {"learning_rate": 3e-4, "batch_size": 16, "epochs": 5, "dropout": 0.1, "max_length": 128}
DEPTHS = (2, 4)
RANDOM = "SST-2, random weights"
THRESHOLDS = (0.6, 0.7, 0.8, 0.9, 0.95)
STEPS = 20


def train(output, options):
    """Fine-tunes a model."""
    from albert_tf.training.distribution import share_threads
    from albert_tf.training.finetune import finetune

    share_threads()  # as the command does
    finetune(output=output, **options)


def trained(output, options):
    """Returns the best scores on dev, and the seconds, of a run, which is trained if it is new."""
    if not (output / "report.json").is_file():
        harness.fresh(train, output, options)
    report = json.loads((output / "report.json").read_text("utf-8"))
    return {**report["best"], "seconds": report["seconds"]}


def write_sentences(source, folder, labelled, unlabelled):
    """Writes a task of the first `labelled` of SST-2's sentences, shuffled; then others."""
    import numpy as np

    folder.mkdir(parents=True, exist_ok=True)
    head, *lines = (source / "train.tsv").read_text("utf-8").splitlines()
    order = np.random.default_rng(7).permutation(len(lines))[: labelled + unlabelled]
    chosen = [lines[number] for number in order]
    others = [line.rpartition("\t")[0] for line in chosen[labelled:]]
    for name, rows in {
        "train.tsv": [head, *chosen[:labelled]],
        "unlabelled.tsv": [head.rpartition("\t")[0], *others],
    }.items():
        (folder / name).write_text("\n".join([*rows, ""]), "utf-8")
    (folder / "dev.tsv").write_text((source / "dev.tsv").read_text("utf-8"), "utf-8")


def write_shallow(folder, depth):
    """Writes the first layers of the bundled model as a model of their own."""
    from albert_tf import AlbertForPreTraining, AlbertTokenizer

    AlbertForPreTraining.from_pretrained("small").with_depth(depth).save_pretrained(folder)
    AlbertTokenizer.from_pretrained("small").save_pretrained(folder)


def runs(folder, sst2, wnut17, teacher_epochs):
    """Returns the teacher's options, and by task those of each run, but for its seed."""
    from albert_tf.checkpoints import finder

    half, vocabulary = str(folder / "small-2"), str(finder.find("small").folder)
    few = {"task": "sst2", "data": str(folder / "sentences")}
    more = {"unlabelled": str(folder / "sentences" / "unlabelled.tsv")}
    tags = {"task": "tag", "data": str(wnut17)}
    teacher = {"teacher": str(folder / "teacher")}
    mini = {**few, **MINI, "model": "mini", "vocab": vocabulary}
    deep = {"model": "small", "depths": DEPTHS}
    sentences = {
        "small, 2 layers": {**few, "model": half},
        "small, 2 layers, distilled": {**few, "model": half, **teacher},
        "small, 2 layers, distilled, more texts": {**few, "model": half, **teacher, **more},
        "small": {**few, "model": "small"},
        "small, both depths": {**few, **deep},
        "small, depths sampled": {**few, **deep, "depth_sampling": True},
    }
    random = {
        "mini": mini,
        "mini, distilled, more texts": {**mini, **teacher, **more},
    }
    words = {
        "small": {**tags, "model": "small"},
        "small, 2 layers": {**tags, "model": half},
        "small, 2 layers, distilled": {**tags, "model": half, "teacher": "small"},
        "small, both depths": {**tags, **deep},
    }
    taught = {"task": "sst2", "data": str(sst2), "model": "small", "epochs": teacher_epochs}
    return taught, {"SST-2": sentences, "WNUT17": words, RANDOM: random}


def path_of(name):
    """Returns the name of a folder."""
    return name.replace(",", "").replace(" ", "-")


def run(folder, task, name, options, seeds):
    """Trains with the next seed; prints the scores, which the log then has."""
    seed = next(seeds)
    place = folder / f"{path_of(task)}-{seed}"
    if options.get("teacher") == "small":  # the one of the same seed
        options = {**options, "teacher": str(place / "small")}
    output = place / path_of(name)
    result = trained(output, {**options, "seed": seed})
    print(f"{task}, {name}, seed {seed}: {result}", file=sys.stderr, flush=True)
    return result


def measure_step(depths, is_sampled):
    """Returns the mean ms of the processor of a training step of `small`: 16 rows of 32 tokens."""
    import time

    import numpy as np
    import tensorflow as tf

    from albert_tf import AlbertForSequenceClassification
    from albert_tf.training import steps
    from albert_tf.training.optimizers import AlbertAdamW
    from albert_tf.training.runtime import strategy_for

    model = AlbertForSequenceClassification.from_pretrained("small", num_labels=2)
    model.compile(AlbertAdamW(1e-4))
    model.albert.encoder.depths = tuple(depths)
    make_step = partial(steps.TrainingStep, model, strategy_for("none"))
    sampled = partial(steps.SampledDepthStep, model, depths, seed=1, first=0, make_step=make_step)
    step = sampled() if is_sampled else make_step()
    ids = tf.constant(np.random.default_rng(1).integers(5, 8000, (16, 32)), tf.int32)
    batch = {"input_ids": ids}, {"labels": ids[:, 0] % 2}

    def call():
        for _ in range(STEPS):
            step(batch)

    return harness.timed(call, calls=5, clock=time.process_time) / STEPS


def measure_exits(folder, data):
    """Returns the accuracy, the mean depth and the ms of a text, for each exported file."""
    import time

    import numpy as np
    from ai_edge_litert.interpreter import Interpreter

    from albert_tf import AlbertForSequenceClassification, AlbertTokenizer, export_tflite
    from albert_tf.data.tasks.registry import task_of
    from albert_tf.training.options import FinetuningOptions

    model = AlbertForSequenceClassification.from_pretrained(folder)
    tokenizer = AlbertTokenizer.from_pretrained(folder)
    task = task_of(FinetuningOptions(task="sst2", data=data, model="small", output="unused"))
    examples, numbers = task.examples("dev"), task.label_numbers(model.config)
    rows = task.encode(examples, tokenizer, model.config, tokenizer.model_max_length)
    forms = {f"{depth} layers": (model.with_depth(depth), {}) for depth in DEPTHS}
    for threshold in THRESHOLDS:
        exits = {"depths": DEPTHS, "early_exit": threshold}
        forms[f"early exit at {threshold}"] = model, exits
    runs = {}
    for number, (name, (exported, options)) in enumerate(forms.items()):
        path = Path(folder) / "exports" / f"{number}.tflite"
        path.parent.mkdir(exist_ok=True)
        common = {"quantize": "dynamic", "ids_only": True, "check": False, "force": True}
        export_tflite(exported, tokenizer, path, **common, **options)
        interpreter = Interpreter(str(path), num_threads=1)
        runs[name] = interpreter, interpreter.get_signature_runner("ids")
    totals = {name: [0, 0, 0.0] for name in runs}
    for row, example in enumerate(examples):
        inputs = rows.inputs([row])
        for name, (_, run) in runs.items():
            start = time.process_time()
            outputs = run(**inputs)
            seconds = time.process_time() - start
            right = outputs["logits"].argmax() == numbers[example.label]
            depth = np.max(outputs.get("depth", forms[name][0].config.num_hidden_layers))
            for at, value in enumerate((int(right), int(depth), 1000 * seconds)):
                totals[name][at] += value
    return {name: [total / len(rows) for total in three] for name, three in totals.items()}


def exits_table(results):
    """Returns a table of medians: accuracy, layers and milliseconds of a text."""
    found = harness.medians(results)
    slowest = found[f"{DEPTHS[-1]} layers"][2]
    lines = [
        [name, f"{100 * score:.1f}", f"{depth:.2f}", f"{ms:.2f}", f"{slowest / ms:.2f}"]
        for name, (score, depth, ms) in found.items()
    ]
    return harness.table(["", "accuracy", "layers", "ms of a text", "times as fast"], lines)


def spread(values):
    """Returns the median and the range of scores in %."""
    low, middle, high = (100 * function(values) for function in (min, statistics.median, max))
    return f"{middle:.1f} ({low:.1f} to {high:.1f})"


def scores_table(results, score):
    """Returns a table of runs: the score at full depth, and at half of it where it is trained."""
    shallow = f"{score}_at_{DEPTHS[0]}"
    lines = []
    for name, found in results.items():
        if isinstance(found, str):
            lines.append([name, found])
            continue
        own = spread([one[score] for one in found])
        half = spread([one[shallow] for one in found]) if shallow in found[0] else ""
        seconds = statistics.median(one["seconds"] for one in found)
        lines.append([name, own, half, f"{seconds:.0f}"])
    return harness.table(["", score, f"at {DEPTHS[0]} layers", "seconds"], lines)


def main():
    parser = harness.parser(__doc__)
    parser.add_argument("--sst2", type=Path, required=True, help="GLUE's folder of SST-2")
    parser.add_argument("--wnut17", type=Path, required=True, help="folder of WNUT17")
    parser.add_argument("--output", type=Path, required=True, help="folder of the models")
    parser.add_argument("--labelled", type=int, default=2000, help="SST-2's sentences with labels")
    parser.add_argument("--unlabelled", type=int, default=4000, help="further ones without")
    parser.add_argument("--teacher-epochs", type=int, default=1, help="of the teacher of SST-2")
    options = parser.parse_args()
    folder = options.output.resolve()
    write_sentences(options.sst2, folder / "sentences", options.labelled, options.unlabelled)
    harness.fresh(write_shallow, folder / "small-2", DEPTHS[0])
    taught, tasks = runs(folder, options.sst2, options.wnut17, options.teacher_epochs)
    teacher = trained(folder / "teacher", {**taught, "seed": 1})
    print(f"teacher: {teacher}", file=sys.stderr, flush=True)
    figures, tables = {"teacher": [teacher]}, []
    tables.append(scores_table({"teacher": [teacher]}, "accuracy"))
    for task, score in (("SST-2", "accuracy"), ("WNUT17", "f1"), (RANDOM, "accuracy")):
        cases = {
            name: partial(run, folder, task, name, given, itertools.count(1))
            for name, given in tasks[task].items()
        }
        results = harness.take_turns(cases, options.rounds)
        figures |= {(task, name): found for name, found in results.items()}
        tables += [f"{task}\n", scores_table(results, score)]
    cases = {
        "small": ((), False),
        "small, both depths": (DEPTHS, False),
        "small, depths sampled": (DEPTHS, True),
    }
    times = harness.take_turns(
        {
            ("step", name): partial(harness.fresh, measure_step, *given)
            for name, given in cases.items()
        },
        options.rounds,
    )
    figures |= times
    lines = harness.rows(times, lambda ms: [f"{ms:.1f}"])
    tables.append(harness.table(["", "", "CPU ms of a step"], lines, 2))
    seeds = itertools.count(1)
    results = harness.take_turns(
        {
            "early exit": lambda: harness.fresh(
                *(measure_exits, folder / f"SST-2-{next(seeds)}" / path_of("small, both depths")),
                folder / "sentences",
            )
        },
        options.rounds,
    )["early exit"]
    figures["early exit"] = results
    tables.append(results if isinstance(results, str) else exits_table(results))
    harness.report(options, PACKAGES, tables, figures)


if __name__ == "__main__":
    main()
