import numpy as np
import pytest

from albert_tf.config import AlbertConfig
from albert_tf.data.readers import Example
from albert_tf.data.tasks.base import Predicted
from albert_tf.data.tasks.classification import ONE_CLASS, baseline_scores, text_rows
from albert_tf.data.tasks.glue import GLUE
from albert_tf.data.tasks.registry import read_split
from albert_tf.errors import UserError
from tests.data.conftest import task, write

CLASSIFY = task("classify")
PAIRS = "index\tsentence1\tsentence2"


def numbers(task, examples, **fields):
    """Returns the examples' class ids, for a model with these fields or a new one."""
    config = AlbertConfig(**(fields or task.config_fields(examples)))
    task.check(examples, config)
    return task.targets(examples, config)


@pytest.mark.parametrize(
    ("name", "content", "label"),
    [
        ("cola", "gj04\t1\t\tA.", 1),
        ("sst2", "sentence\tlabel\nA.\t1", 1),
        ("mrpc", 'Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n0\t7\t8\tA.\tB "C.', 0),
        ("stsb", f"{PAIRS}\tscore\n0\tA.\tB.\t5.000", 5.0),
        ("qqp", "id\tquestion1\tquestion2\tis_duplicate\n1\tA.\tB.\t0", 0),
        ("mnli", f"{PAIRS}\tlabel1\tgold_label\n0\tA.\tB.\tneutral\tentailment", 0),
        ("qnli", "index\tquestion\tsentence\tlabel\n0\tA.\tB.\tentailment", 0),
        ("rte", f"{PAIRS}\tlabel\n0\tA.\tB.\tnot_entailment", 1),
        ("wnli", f"{PAIRS}\tlabel\n0\tA.\tB.\t1", 1),
    ],
)
def test_every_glue_layout(tmp_path, name, content, label):
    write(tmp_path / GLUE[name].parts[0].dev[0], content + "\n")
    glue = task(name, tmp_path)
    (example,) = read_split(glue, "dev")
    pair = {"cola": None, "sst2": None, "mrpc": 'B "C.'}.get(name, "B.")
    assert (example.text, example.text_pair) == ("A.", pair)
    assert numbers(glue, [example]) == [label]


def submitted(glue, folder, chosen, **fields):
    """Returns the lines of each file that is written if the outputs are `chosen`."""
    examples = read_split(glue, "test", labelled=False)
    config = AlbertConfig(**{**glue.config_fields([]), **fields})
    glue.check(examples, config)
    found = [np.array(row) for row in chosen[: len(examples)]]
    (folder / "out").mkdir()
    glue.write(Predicted(examples, found, config), folder / "out")
    return {path.name: path.read_text().splitlines() for path in (folder / "out").iterdir()}


@pytest.mark.parametrize(
    ("name", "content", "file", "label"),
    [
        ("cola", "index\tsentence\n0\tA.", "CoLA.tsv", "1"),
        ("sst2", "index\tsentence\n0\tA.", "SST-2.tsv", "1"),
        ("mrpc", "index\t#1 ID\t#2 ID\t#1 String\t#2 String\n0\t7\t8\tA.\tB.", "MRPC.tsv", "1"),
        ("stsb", f"{PAIRS}\n0\tA.\tB.", "STS-B.tsv", "0.0000"),  # clipped
        ("qqp", "id\tquestion1\tquestion2\n0\tA.\t", "QQP.tsv", "1"),
        ("mnli", f"{PAIRS}\n0\tA.\tB.", "MNLI-m.tsv", "neutral"),
        ("qnli", "index\tquestion\tsentence\n0\tA.\tB.", "QNLI.tsv", "not_entailment"),
        ("rte", f"{PAIRS}\n0\tA.\tB.", "RTE.tsv", "not_entailment"),
        ("wnli", f"{PAIRS}\n0\tA.\tB.", "WNLI.tsv", "1"),
    ],
)
def test_every_test_file_and_what_its_site_takes(tmp_path, name, content, file, label):
    write(tmp_path / GLUE[name].parts[0].test[0], content + "\n")
    chosen = [[-0.5] if name == "stsb" else [0.1, 0.8, 0.1][: max(2, len(GLUE[name].labels))]]
    found = submitted(task(name, tmp_path), tmp_path, chosen)
    assert found == {file: ["index\tprediction", f"0\t{label}"]}


def test_labels_of_the_site_whatever_the_models_order(tmp_path):
    write(tmp_path / "test.tsv", f"{PAIRS}\n0\tA.\tB.")
    labels = {0: "not_entailment", 1: "entailment"}
    found = submitted(task("rte", tmp_path), tmp_path, [[0.9, 0.1]], id2label=labels)
    assert found["RTE.tsv"][1] == "0\tnot_entailment"


def mnli_files(folder):
    """Writes MNLI's files and the diagnostics beside their folder, as GLUE's script does."""
    mnli, pairs = folder / "MNLI", folder / "diagnostic"
    mnli.mkdir()
    pairs.mkdir()
    header = f"{PAIRS}\tgold_label\n"
    write(mnli / "dev_matched.tsv", header + "0\ta\tb\tneutral\n1\tc\td\tneutral\n")
    write(mnli / "dev_mismatched.tsv", header + "0\te\tf\tneutral\n")
    full = "Domain\tPremise\tHypothesis\tLabel\nNews\tg\th\tentailment\nNews\ti\tj\tneutral\n"
    write(pairs / "diagnostic-full.tsv", full)
    write(mnli / "test_matched.tsv", f"{PAIRS}\n0\ta\tb\n1\ta\tb\n")
    write(mnli / "test_mismatched.tsv", f"{PAIRS}\n0\ta\tb\n")
    write(pairs / "diagnostic.tsv", f"{PAIRS}\n0\ta\tb\n1\ta\tb\n")
    return mnli


def test_mnli_is_scored_and_submitted_by_part(tmp_path):
    mnli = task("mnli", mnli_files(tmp_path))
    examples = read_split(mnli, "dev")
    assert [example.part for example in examples] == ["", "", "mismatched", "ax", "ax"]
    config = AlbertConfig(**mnli.config_fields([]))
    found = [np.eye(3)[label] for label in (1, 0, 1, 0, 1)]
    scores = mnli.scores(Predicted(examples, found, config))
    assert scores == {"accuracy": 0.5, "mismatched_accuracy": 1.0, "ax_matthews": 1.0}
    alone = read_split(task("mnli", mnli.options.data / "dev_mismatched.tsv"), "dev")
    assert [example.part for example in alone] == ["mismatched"]
    chosen = [np.eye(3)[label] for label in (0, 1, 2, 1, 0)]
    assert submitted(mnli, tmp_path, chosen) == {
        "MNLI-m.tsv": ["index\tprediction", "0\tentailment", "1\tneutral"],
        "MNLI-mm.tsv": ["index\tprediction", "0\tcontradiction"],
        "AX.tsv": ["index\tprediction", "0\tneutral", "1\tentailment"],
    }


@pytest.mark.parametrize(
    ("name", "label", "rule"),
    [
        ("sst2", "spam", "must be one of 0, 1"),
        ("stsb", "spam", "must be a number"),
        ("stsb", "nan", "must be a number"),
        ("stsb", "3,5", "must be a number"),
    ],
)
@pytest.mark.parametrize("location", ["", "dev.tsv, line 7"])
def test_wrong_labels(name, label, rule, location):
    where = location or "for the text 'a'"
    with pytest.raises(UserError, match=rf"{rule}. Received: '{label}' \({where}") as error:
        numbers(task(name), [Example("a", None, label, location=location)])
    assert ("decimal point" in str(error.value)) == ("," in label)


@pytest.mark.parametrize(
    ("names", "name", "regression"),
    [
        (("ham", "spam"), "mnli", False),
        (("ham", "spam"), "classify", True),
        (("a", "b", "c"), "stsb", False),
    ],
)
def test_labels_of_another_task(names, name, regression):
    config = AlbertConfig(id2label=dict(enumerate(names)))
    with pytest.raises(UserError, match=f"labels of the task {name}: .*Received: {names[0]}"):
        task(name, regression=regression).check([], config)


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
    examples = [Example("a", "b", name) for name in MNLI.values()]
    assert numbers(task("mnli"), examples, id2label=id2label) == expected


@pytest.mark.parametrize(
    ("logits", "labels", "expected"),
    [
        ([[0, 1], [0, 1], [0, 2]], "011", {"accuracy": 2 / 3, ONE_CLASS: 1.0}),
        ([[0, 1], [0, 1], [0, 2]], "111", {"accuracy": 1.0}),
        ([[1, 0]] + 99 * [[0, 1]], 50 * "01", {"accuracy": 0.51, ONE_CLASS: 1.0}),
        ([[1, 0]] + 98 * [[0, 1]], 49 * "01" + "1", {"accuracy": 51 / 99}),
    ],
)
def test_predictions_of_one_class_are_said(logits, labels, expected):
    sst2 = task("sst2")
    examples = [Example("a", None, label) for label in labels]
    outputs = [{"logits": np.array(row, "float32")} for row in logits]
    config = AlbertConfig(**sst2.config_fields(examples))
    found = sst2.predictions(examples, None, outputs, config)
    assert sst2.scores(Predicted(examples, found, config)) == pytest.approx(expected)


@pytest.mark.parametrize(
    "names", [("not_equivalent", "equivalent"), ("equivalent", "not_equivalent")]
)
def test_f1_is_of_glues_second_class_in_any_order(names):
    examples = [Example("a", "b", label) for label in "1110"]
    config = AlbertConfig(id2label=dict(enumerate(names)))
    always = np.eye(2)[[names.index("equivalent")] * 4]
    scores = task("mrpc").scores(Predicted(examples, list(always), config))
    assert scores["f1"] == pytest.approx(2 * 3 / (2 * 3 + 1))


def test_labels_that_differ_in_case_are_two():
    examples = [Example("a", None, label) for label in ("US", "us", "US")]
    assert numbers(CLASSIFY, examples) == [0, 1, 0]


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (("spam", "spam", "ham", "eggs"), ["eggs", "ham", "spam"]),
        (("10", "2", "02"), ["02", "2", "10"]),
        (("3", "nan", "20", "1"), ["1", "20", "3", "nan"]),
        (("inf", "Infinity", "1"), ["1", "Infinity", "inf"]),
    ],
)
def test_the_order_of_labels(labels, expected):
    """It is the same in every process, although the order of sets differs between them."""
    examples = [Example("a", None, label) for label in labels]
    assert list(CLASSIFY.config_fields(examples)["id2label"].values()) == expected


def test_a_baseline_learns():
    words = ["wonderful", "dreadful"]
    train = [Example(f"a {words[row % 2]} film {row}", None, "ab"[row % 2]) for row in range(40)]
    dev = [Example("so wonderful", None, "a"), Example("how dreadful", None, "b")]
    config = AlbertConfig(**CLASSIFY.config_fields(train))
    assert baseline_scores(CLASSIFY, train, dev, config) == {"accuracy": 1.0, "macro_f1": 1.0}


@pytest.mark.parametrize("kind", ["tiny_tokenizer", "xlm_roberta"])
@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("pairs", [None, ["the old hill", "hill " * 4, "<pad> a"]])
def test_texts_are_encoded_once_as_the_tokenizer_encodes_them(
    kind, side, pairs, request, monkeypatch
):
    tokenizer = request.getfixturevalue(kind)
    plain, seen = tokenizer.encode_plain, []

    def encode_plain(some, *rest):
        seen.extend(some)
        return plain(some, *rest)

    monkeypatch.setattr(tokenizer, "truncation_side", side)
    monkeypatch.setattr(tokenizer, "encode_plain", encode_plain)
    texts = ["a b " * 9, "[SEP] c", "a " * 4]
    lengths = list(map(len, tokenizer(texts, pairs, split_special_tokens=True).input_ids))
    for longest in (10, max(lengths) - 1):
        options = {"truncation": True, "max_length": longest, "split_special_tokens": True}
        encoded = tokenizer(texts, pairs, **options)
        seen.clear()
        rows = text_rows(tokenizer, texts, text_pairs=pairs, max_length=longest)
        assert seen == [*texts, *(pairs or ())]
        for name, values in rows.arrays.items():
            assert [row.tolist() for row in values] == encoded[name]
        assert rows.cut == sum(length > longest for length in lengths) > 0
