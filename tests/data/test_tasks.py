from pathlib import Path

import pytest

import albert_tf.assets
from albert_tf.data.labels import model_labels, task_labels
from albert_tf.data.readers import Columns, Example, read_examples
from albert_tf.data.tasks import GLUE, find_file, train_and_dev
from albert_tf.errors import UserError

# Header and one row of each task's file in GLUE's download.
ROWS = {
    "cola": "gj04\t1\t\tOur friends buy it.",
    "sst2": "sentence\tlabel\na delight \t1",
    "mrpc": 'Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n0\t7\t8\tHe went.\tShe "stayed.',
    "stsb": "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\t"
    "sentence1\tsentence2\tscore\n"
    "0\tg\tf\t2012\t1\tn\tn\tA plane.\tAn air plane.\t5.000",
    "qqp": "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n1\t2\t3\tWhy?\tHow?\t0",
    "mnli": "index\tpromptID\tpairID\tgenre\tsentence1\tsentence2\tlabel1\tgold_label\n"
    "0\t1\t1n\tfiction\tHe ran.\tHe moved.\tneutral\tentailment",
    "qnli": "index\tquestion\tsentence\tlabel\n0\tWhen?\tIn 1900.\tentailment",
    "rte": "index\tsentence1\tsentence2\tlabel\n0\tA.\tB.\tnot_entailment",
    "wnli": "index\tsentence1\tsentence2\tlabel\n0\tA.\tB.\t1",
}


@pytest.mark.parametrize("task", GLUE)
def test_every_glue_layout(tmp_path, task):
    (tmp_path / GLUE[task].dev_file).write_text(ROWS[task] + "\n")
    (example,) = read_examples(find_file(tmp_path, GLUE[task].dev_file), GLUE[task].columns)
    assert (example.text_pair is None) == (task in ("cola", "sst2"))
    labels = task_labels(task, [example])
    expected = {"cola": 1, "sst2": 1, "stsb": 5.0, "rte": 1, "wnli": 1}
    assert labels.number(example) == expected.get(task, 0)


def test_files_of_many_rows():
    """Reads the bundled reviews, and GLUE's files if they are beside the checkout."""
    bundled = Path(albert_tf.assets.__file__).parent / "reviews"
    tasks = Path(__file__).resolve().parents[3] / "shared" / "data" / "tasks"
    sizes = {
        bundled: ("classify", Columns("sentence", "label"), 424, 104),
        tasks / "SST-2": ("sst2", GLUE["sst2"].columns, 67349, 872),
        tasks / "RTE": ("rte", GLUE["rte"].columns, 2490, 277),
    }
    for folder, (task, columns, *expected) in sizes.items():
        if not folder.is_dir():
            continue
        parts = train_and_dev(folder, task, columns, 0.1, 1)
        assert [len(part) for part in parts] == expected
        labels = task_labels(task, parts[0])
        assert {labels.number(example) for example in parts[1]} == {0, 1}


def test_a_single_file_is_split_by_label(tmp_path):
    path = tmp_path / "all.tsv"
    rows = [f"text {number}\t{'rare' if number % 5 == 0 else 'common'}" for number in range(100)]
    path.write_text("text\tlabel\n" + "\n".join(rows))
    columns = Columns("text", "label")
    train, dev = train_and_dev(path, "classify", columns, 0.2, seed=3)
    assert (len(train), len(dev)) == (80, 20)
    assert [example.label for example in dev].count("rare") == 4
    assert not set(train) & set(dev)
    assert train_and_dev(path, "classify", columns, 0.2, seed=3) == (train, dev)
    assert train_and_dev(path, "classify", columns, 0.2, seed=4)[1] != dev


def test_discovered_labels_are_sorted():
    examples = [Example("a", None, label) for label in ("spam", "ham", "spam", "eggs")]
    assert task_labels("classify", examples).names == ("eggs", "ham", "spam")


def test_wrong_labels():
    alike = [Example("a", None, "spam"), Example("b", None, "spam")]
    with pytest.raises(UserError, match="at least two labels. Received: 2 examples, .* 'spam'"):
        task_labels("classify", alike)
    with pytest.raises(UserError, match="must be one of 0, 1. Received: 'spam', for the text 'a'"):
        task_labels("sst2", alike).number(alike[0])
    with pytest.raises(UserError, match="must be a number. Received: 'spam'"):
        task_labels("stsb", alike).number(alike[0])
    named = Example("a", None, "spam", "dev.tsv, line 7")
    for task in ("sst2", "stsb"):
        with pytest.raises(UserError, match="Received: 'spam', dev.tsv, line 7."):
            task_labels(task, alike).number(named)
    with pytest.raises(UserError, match="must be a number. Received: 'nan'"):
        task_labels("stsb", alike).number(Example("a", None, "nan"))


@pytest.mark.parametrize(
    ("names", "task", "regression"),
    [
        (("ham", "spam"), "mnli", False),
        (("unacceptable", "acceptable"), "rte", False),
        (("ham", "spam"), "classify", True),
        (("a", "b", "c"), "stsb", False),
    ],
)
def test_labels_of_another_task(names, task, regression):
    with pytest.raises(UserError, match=f"those of the task {task}: .*Received: {names[0]}"):
        model_labels(names, task, regression)


def test_files_of_a_folder(tmp_path):
    with pytest.raises(UserError, match="must have one file train. Received: nothing"):
        find_file(tmp_path, "train")
    (tmp_path / "train.csv").touch()
    assert find_file(tmp_path, "train").name == "train.csv"
    (tmp_path / "train.tsv").touch()
    with pytest.raises(UserError, match="one file train. Received: train.csv, train.tsv"):
        find_file(tmp_path, "train")
    with pytest.raises(UserError, match="must be a folder or a file"):
        find_file(tmp_path / "missing", "train")


MNLI = {0: "entailment", 1: "neutral", 2: "contradiction"}


@pytest.mark.parametrize(
    ("id2label", "expected"),
    [
        (MNLI, [0, 1, 2]),
        ({0: "LABEL_0", 1: "LABEL_1", 2: "LABEL_2"}, [0, 1, 2]),
        ({0: "Neutral", 1: "ENTAILMENT", 2: "contradiction"}, [1, 0, 2]),
        ({0: "contradiction", 1: "entailment", 2: "neutral"}, [1, 2, 0]),
    ],
)
def test_classes_are_matched_by_name_if_possible(id2label, expected):
    numbers = model_labels(tuple(id2label.values()), "mnli").numbers
    assert [numbers[name] for name in MNLI.values()] == expected
