"""Distillation and depth: scores of small models that learn from a teacher, or at two depths.

    python -m benchmarks.less_compute --sst2 SST-2 --wnut17 WNUT17 --output build/less-compute

Each run is a process of its own, with round r's seed r. --output keeps the models: a run that is
there is not repeated, so an interrupted script resumes. On SST-2 the students have --labelled
sentences with labels, and --unlabelled others without; the teacher of SST-2 is the bundled model
after --teacher-epochs epochs on all sentences. The teacher of WNUT17 is the bundled model of the
same seed, fine-tuned on the same examples as its students.
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


def train(output, options):
    """Fine-tunes, unless it is done; returns the best scores on dev and the run's seconds."""
    from albert_tf.training.distribution import share_threads
    from albert_tf.training.finetune import finetune

    output = Path(output)
    if not (output / "report.json").is_file():
        share_threads()  # as the command does
        finetune(output=output, **options)
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
    """Returns each run's options, but for its seed: on SST-2, then on WNUT17."""
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
    return taught, {"SST-2": sentences, "WNUT17": words}


def run(folder, task, name, options, seeds):
    """Trains with the next seed; prints the scores, which the log then has."""
    seed = next(seeds)
    place = folder / f"{task}-{seed}"
    if options.get("teacher") == "small":  # the one of the same seed
        options = {**options, "teacher": str(place / "small")}
    output = place / name.replace(",", "").replace(" ", "-")
    result = harness.fresh(train, output, {**options, "seed": seed})
    print(f"{task}, {name}, seed {seed}: {result}", file=sys.stderr, flush=True)
    return result


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
    teacher = harness.fresh(train, folder / "teacher", {**taught, "seed": 1})
    print(f"teacher: {teacher}", file=sys.stderr, flush=True)
    figures, tables = {"teacher": [teacher]}, []
    tables.append(scores_table({"teacher": [teacher]}, "accuracy"))
    for task, score in (("SST-2", "accuracy"), ("WNUT17", "f1")):
        cases = {
            name: partial(run, folder, task, name, given, itertools.count(1))
            for name, given in tasks[task].items()
        }
        results = harness.take_turns(cases, options.rounds)
        figures |= {(task, name): found for name, found in results.items()}
        tables += [f"{task}\n", scores_table(results, score)]
    harness.report(options, PACKAGES, tables, figures)


if __name__ == "__main__":
    main()
