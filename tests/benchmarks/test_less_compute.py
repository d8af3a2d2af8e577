"""The sentences, the runs and the tables of the benchmark of less computing."""

import itertools

from albert_tf.training.options import FinetuningOptions
from benchmarks import less_compute


def test_sentences_with_and_without_labels(tmp_path):
    lines = [f"sentence {number}\t{number % 2}" for number in range(40)]
    (tmp_path / "train.tsv").write_text("\n".join(["sentence\tlabel", *lines, ""]))
    (tmp_path / "dev.tsv").write_text("sentence\tlabel\nfine\t1\n")
    less_compute.write_sentences(tmp_path, tmp_path / "few", 9, 25)
    head, *labelled = (tmp_path / "few" / "train.tsv").read_text().splitlines()
    first, *unlabelled = (tmp_path / "few" / "unlabelled.tsv").read_text().splitlines()
    assert (head, first) == ("sentence\tlabel", "sentence")
    assert len(labelled) == 9 and set(labelled) < set(lines)
    without = {line.split("\t")[0] for line in set(lines) - set(labelled)}
    assert len(unlabelled) == 25 and set(unlabelled) < without
    assert (tmp_path / "few" / "dev.tsv").read_text().endswith("fine\t1\n")


def test_each_run_has_valid_options(tmp_path):
    taught, tasks = less_compute.runs(tmp_path, tmp_path, tmp_path, 1)
    every = [taught, *itertools.chain(*(runs.values() for runs in tasks.values()))]
    options = [FinetuningOptions(output=tmp_path, seed=3, **given) for given in every]
    assert [one.depths for one in options].count(less_compute.DEPTHS) == 3
    assert sum(one.unlabelled is not None for one in options) == 2
    assert sum(one.depth_sampling for one in options) == 1


def test_tables():
    both = [
        {"accuracy": score, "accuracy_at_2": score - 0.1, "seconds": 30.0}
        for score in (0.75, 0.7, 0.8)
    ]
    alone = [{"accuracy": 0.5, "seconds": 20.0}]
    text = less_compute.scores_table({"both": both, "alone": alone, "no": "why"}, "accuracy")
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines()]
    assert rows[0] == ["", "accuracy", "at 2 layers", "seconds"]
    assert rows[2] == ["both", "75.0 (70.0 to 80.0)", "65.0 (60.0 to 70.0)", "30"]
    assert rows[3] == ["alone", "50.0 (50.0 to 50.0)", "", "20"]
    assert rows[4][:2] == ["no", "why"]
    exits = {"2 layers": [0.7, 2.0, 1.0], "early exit": [0.75, 3.0, 2.0], "4 layers": [0.8, 4, 5.0]}
    last = less_compute.exits_table([exits]).splitlines()[3]
    assert [cell.strip() for cell in last.split("|")[1:-1]] == [
        *("early exit", "75.0", "3.00", "2.00", "2.50")
    ]
