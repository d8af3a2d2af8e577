import json
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.special import expit, softmax

from albert_tf import models
from albert_tf.config import SIZES, AlbertConfig
from albert_tf.data.tasks.registry import task_of
from albert_tf.data.tasks.rows import IGNORED, SOFT
from albert_tf.errors import UserError
from albert_tf.text.tokenizer import AlbertTokenizer
from albert_tf.text.vocabulary import train_vocabulary
from albert_tf.training import distillation
from albert_tf.training.distillation import Teacher, soft_labels
from albert_tf.training.finetune import finetune
from albert_tf.training.options import FinetuningOptions
from tests.conftest import SENTENCES
from tests.training.test_finetune import Crash, at_step, crash

pytestmark = pytest.mark.usefixtures("one_layer", "without_graphs")
LENGTH, TEMPERATURE = 96, 3.0
COLOURS = ("red", "green", "blue")
TEXTS = [f"{SENTENCES[row % len(SENTENCES)]} {COLOURS[row % 3]}" for row in range(12)]


@pytest.fixture(scope="module")
def vocabularies():
    """Returns those of a student and of a teacher, which divide texts otherwise."""
    return train_vocabulary(SENTENCES, 200), train_vocabulary([*SENTENCES, *COLOURS], 120)


def save(folder, name, vocabulary, **fields):
    """Writes a model with random weights that are large enough to have opinions."""
    config = AlbertConfig.from_size(
        "tiny", vocab_size=AlbertTokenizer(vocabulary).vocab_size, initializer_range=0.3, **fields
    )
    getattr(models, name)(config).save_pretrained(folder)
    tokenizer = AlbertTokenizer(vocabulary)
    tokenizer.save_pretrained(folder)
    return folder


def write(path, rows):
    path.write_text("\n".join(map(json.dumps, rows)))
    return path


def given(tmp_path, data, **others):
    return FinetuningOptions(
        **{
            "model": "tiny",
            "data": data,
            "output": tmp_path / "out",
            "teacher": str(tmp_path / "teacher"),
            "max_length": LENGTH,
            "temperature": TEMPERATURE,
            "steps": 3,
            "batch_size": 4,
            "dev_fraction": 0.25,
            "vocab_size": 120,
            **others,
        }
    )


def softened(options, vocabulary, **fields):
    """Returns task, examples and a student's rows, with the soft labels of its teacher."""
    task = task_of(options)
    examples = task.read(options.data)
    config = AlbertConfig.from_size("tiny", **{**task.config_fields(examples), **fields})
    teacher = Teacher(options, options.recipe(len(examples)), task, examples)
    tokenizer = AlbertTokenizer(vocabulary)
    rows = task.encode(examples, tokenizer, config, LENGTH)
    others = None
    if teacher.unlabelled:
        others = task.encode(teacher.unlabelled, tokenizer, config, LENGTH)
    teacher.add_soft_labels(rows, others, options.soft_temperature)
    return SimpleNamespace(task=task, examples=examples, rows=rows, teacher=teacher)


def direct(folder, name, output="logits", **tokens):
    """Returns a teacher's output for features of its own tokenizer, without padding."""
    model = getattr(models, name).from_pretrained(folder)
    return np.asarray(model(tokens)[output])[0]


def encoded(folder, *texts, **options):
    return AlbertTokenizer.from_pretrained(folder)(*texts, return_tensors="np", **options)


CLASSIFIER = "AlbertForSequenceClassification"


def test_classes_of_another_order_and_vocabulary(tmp_path, vocabularies):
    own, others = vocabularies
    names = {0: "red", 1: "blue", 2: "green"}  # the student's are sorted
    folder = save(tmp_path / "teacher", CLASSIFIER, others, id2label=names)
    rows = [{"text": text, "label": text.split()[-1]} for text in TEXTS]
    found = softened(given(tmp_path, write(tmp_path / "d.jsonl", rows), task="classify"), own)
    assert len(found.rows.labels[SOFT + "labels"]) == len(TEXTS)
    for text, soft in zip(TEXTS, found.rows.labels[SOFT + "labels"], strict=True):
        logits = direct(folder, CLASSIFIER, **encoded(folder, text))
        blue_green_red = logits[[1, 2, 0]]
        np.testing.assert_allclose(soft, softmax(blue_green_red / TEMPERATURE), atol=1e-5)


def test_unlabelled_examples_have_no_hard_label(tmp_path, vocabularies):
    own, others = vocabularies
    folder = save(tmp_path / "teacher", CLASSIFIER, others, id2label=dict(enumerate(COLOURS)))
    rows = [{"text": text, "label": text.split()[-1]} for text in TEXTS]
    data, more = write(tmp_path / "d.jsonl", rows), write(tmp_path / "u.jsonl", [{"text": "New."}])
    found = softened(given(tmp_path, data, task="classify", unlabelled=more), own)
    assert found.rows.labels["labels"][-1] == IGNORED
    logits = direct(folder, CLASSIFIER, **encoded(folder, "New."))[[2, 1, 0]]
    soft = found.rows.labels[SOFT + "labels"][-1]
    np.testing.assert_allclose(soft, softmax(logits / TEMPERATURE), atol=1e-5)
    features, labels = found.rows.batch(np.arange(len(found.rows)))
    assert labels["labels"].shape == (13,) and labels[SOFT + "labels"].shape == (13, 3)
    assert len(features["input_ids"]) == 13


def test_several_labels_and_numbers(tmp_path, vocabularies):
    own, others = vocabularies
    folder = save(
        tmp_path / "teacher",
        CLASSIFIER,
        others,
        id2label=dict(enumerate(COLOURS)),
        problem_type="multi_label_classification",
    )
    rows = [{"text": text, "label": [text.split()[-1]]} for text in TEXTS]
    data, more = write(tmp_path / "d.jsonl", rows), write(tmp_path / "u.jsonl", [{"text": "New."}])
    options = given(tmp_path, data, task="classify", multi_label=True, unlabelled=more)
    found = softened(options, own)
    logits = direct(folder, CLASSIFIER, **encoded(folder, "New."))[[2, 1, 0]]
    soft = found.rows.labels[SOFT + "labels"][-1]
    np.testing.assert_allclose(soft, expit(logits / TEMPERATURE), atol=1e-5)
    np.testing.assert_allclose(found.rows.labels["labels"][-1], expit(logits), atol=1e-5)

    numbers = {"id2label": {0: "score"}, "problem_type": "regression"}
    folder = save(tmp_path / "regressor", CLASSIFIER, others, **numbers)
    data = write(tmp_path / "n.jsonl", [{"text": text, "label": 1.5} for text in TEXTS])
    options = given(
        tmp_path, data, task="classify", regression=True, teacher=str(folder), temperature=None
    )
    found = softened(options, own)
    for text, soft in zip(TEXTS, found.rows.labels[SOFT + "labels"], strict=True):
        np.testing.assert_allclose(
            soft, direct(folder, CLASSIFIER, **encoded(folder, text))[0], atol=1e-5
        )


def test_tags_are_those_of_the_words(tmp_path, vocabularies):
    own, others = vocabularies
    name, tags = "AlbertForTokenClassification", {0: "X", 1: "O"}
    folder = save(tmp_path / "teacher", name, others, id2label=tags)
    rows = [
        {"words": text.split(), "tags": ["X", *["O"] * (len(text.split()) - 1)]} for text in TEXTS
    ]
    options = given(tmp_path, write(tmp_path / "d.jsonl", rows), task="tag")
    found = softened(options, own)
    compared = 0
    for example, words, soft in zip(
        found.rows.examples, found.rows.details, found.rows.labels[SOFT + "labels"], strict=True
    ):
        whole = encoded(folder, rows[example]["words"], is_split_into_words=True)
        logits = direct(folder, name, **whole)
        firsts = {}
        for position, word in enumerate(whole.word_ids(0)):
            firsts.setdefault(word, position)
        for word, probabilities in zip(words, soft, strict=True):
            if word < 0:
                assert (probabilities == IGNORED).all()
                continue
            expected = softmax(logits[firsts[word]][[1, 0]] / TEMPERATURE)
            np.testing.assert_allclose(probabilities, expected, atol=1e-5)
            compared += 1
    assert compared > 20
    _, labels = found.rows.batch(np.arange(len(found.rows)))
    assert labels[SOFT + "labels"].shape == (*labels["labels"].shape, 2)
    assert ((labels[SOFT + "labels"][..., 0] == IGNORED) == (labels["labels"] == IGNORED)).all()


def test_choices_of_unlike_numbers(tmp_path, vocabularies):
    own, others = vocabularies
    folder = save(tmp_path / "teacher", "AlbertForMultipleChoice", others)
    rows = [
        {"context": text, "choices": list(COLOURS[: 2 + row % 2]), "label": 0}
        for row, text in enumerate(TEXTS)
    ]
    found = softened(given(tmp_path, write(tmp_path / "d.jsonl", rows), task="choices"), own)
    for row, soft in zip(rows, found.rows.labels[SOFT + "labels"], strict=True):
        count = len(row["choices"])
        pairs = encoded(folder, [row["context"]] * count, row["choices"], padding=True)
        batch = {name: values[None] for name, values in pairs.items()}
        logits = direct(folder, "AlbertForMultipleChoice", **batch)
        np.testing.assert_allclose(soft, softmax(logits / TEMPERATURE), atol=1e-5)
    _, labels = found.rows.batch(np.arange(2))
    assert labels[SOFT + "labels"].shape == (2, 3) and labels[SOFT + "labels"][0, 2] == 0


def questions(path):
    context = "The cat is in the old harbour. Nobody is at home."
    gold = {"text": "harbour", "answer_start": context.index("harbour")}
    rows = [
        {"id": str(row), "question": f"Where is the cat {row}?", "answers": [gold]}
        for row in range(8)
    ]
    return write(path, [{**row, "context": context} for row in rows])


@pytest.mark.parametrize("head", ["transformers", "original"])
def test_spans(tmp_path, vocabularies, head):
    own, others = vocabularies
    name, is_original = "AlbertForQuestionAnswering", head == "original"
    folder = save(tmp_path / "teacher", name, own, answerability=is_original)
    data, details = questions(tmp_path / "d.jsonl"), {"task": "squad", "head": head}
    found = softened(given(tmp_path, data, **details), own)
    model, targets = models.AlbertForQuestionAnswering.from_pretrained(folder), found.rows.labels
    for row in (0, len(found.rows) - 1):
        features, labels = found.rows.batch(np.array([row]))
        outputs = model(features)
        for target, output in model.targets.items():
            logits = np.asarray(outputs[output]) / TEMPERATURE
            expected = expit(logits) if target == "is_impossible" else softmax(logits, axis=-1)
            np.testing.assert_allclose(labels[SOFT + target], expected, atol=1e-5)
    _, labels = found.rows.batch(np.arange(len(found.rows)))
    assert labels[SOFT + "start_positions"].sum(axis=-1) == pytest.approx(1)
    assert (SOFT + "is_impossible" in targets) == is_original

    save(tmp_path / "teacher", name, others, answerability=is_original)
    with pytest.raises(UserError, match="must have the student's vocabulary and --max-length"):
        softened(given(tmp_path, data, **details), own)
    save(tmp_path / "teacher", name, own, answerability=not is_original)
    with pytest.raises(UserError, match=r"head must be the model's|the student's head"):
        softened(given(tmp_path, data, **details), own)


def test_a_run_predicts_once_and_learns_from_the_teacher_alone(tmp_path, vocabularies, monkeypatch):
    """With a weight of 1 labels change nothing; an interrupted run reads the stored outputs."""
    _, others = vocabularies
    save(tmp_path / "teacher", CLASSIFIER, others, id2label=dict(enumerate(COLOURS)))
    rows = [{"text": text, "label": text.split()[-1]} for text in TEXTS]
    folder = tmp_path / "data"
    folder.mkdir()
    write(folder / "dev.jsonl", rows)
    weights = []
    for number, shift in enumerate((0, 1)):
        shifted = [
            {**row, "label": COLOURS[(COLOURS.index(row["label"]) + shift) % 3]} for row in rows
        ]
        write(folder / "train.jsonl", shifted)
        options = given(
            tmp_path,
            folder,
            task="classify",
            output=tmp_path / f"out{number}",
            distill_weight=1.0,
            learning_rate=1e-2,
        )
        report = finetune(options)
        weights.append(models.AlbertForSequenceClassification.from_pretrained(options.output))
    assert report["settings"]["teacher_sha256"] and report["data"]["unlabelled"] == 0
    for one, other in zip(*(model.get_weights() for model in weights), strict=True):
        np.testing.assert_array_equal(one, other)

    task = task_of(options)
    dev = task.examples("dev")
    arguments = (
        given(tmp_path, folder, task="classify"),
        options.recipe(len(dev)),
        task,
        dev,
    )
    first = Teacher(*arguments)
    monkeypatch.setattr(distillation, "model_outputs", None)
    again = Teacher(*arguments)
    assert first.digest == again.digest
    for one, other in zip(first.outputs["labels"], again.outputs["labels"], strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.fixture
def taught(tmp_path, vocabularies, monkeypatch):
    """Returns a function from an output to the options of a run with all that saves computing."""
    monkeypatch.setitem(SIZES, "tiny", SIZES["tiny"] | {"num_hidden_layers": 3})
    save(tmp_path / "teacher", CLASSIFIER, vocabularies[1], id2label=dict(enumerate(COLOURS)))
    folder = tmp_path / "data"
    folder.mkdir()
    for name in ("train", "dev"):
        rows = [{"text": text, "label": text.split()[-1]} for text in TEXTS]
        write(folder / f"{name}.jsonl", rows)
    more = write(tmp_path / "more.jsonl", [{"text": f"New {word}."} for word in COLOURS])

    def with_output(name, **others):
        all_of_them = {
            "output": tmp_path / name,
            "task": "classify",
            "unlabelled": more,
            "depths": (1, 2, 3),
            "depth_sampling": True,
            "steps": 8,
            "dropout": 0.1,
            "learning_rate": 1e-2,
            "max_length": 24,
        }
        return given(tmp_path, folder, **all_of_them | others)

    return with_output


def model_bytes(options):
    return (options.output / "model.safetensors").read_bytes()


@pytest.mark.slow
def test_an_interrupted_run_ends_as_an_uninterrupted_one(taught, monkeypatch):
    """Stops within an epoch of 4 steps and within a round of 3 depths."""
    whole, options = taught("whole"), taught("out")
    report = finetune(whole)
    with at_step(6, crash), pytest.raises(Crash):
        finetune(options)
    for name, value in OTHERS.items():
        with pytest.raises(UserError, match=f"{name} was .*, is .*"):
            finetune(taught("out", **{name: value}))
    monkeypatch.setattr(distillation, "model_outputs", None)
    assert finetune(options)["history"] == report["history"]
    assert model_bytes(options) == model_bytes(whole)
    assert not (options.output / "checkpoints").exists()
    assert [row["layers"] for row in report["depths"]] == [1, 2, 3]


OTHERS = {
    "distill_weight": 0.25,
    "temperature": 1.0,
    "depths": (1, 3),
    "depth_sampling": False,
    "teacher_dtype_policy": "mixed_bfloat16",
}


@pytest.mark.slow
def test_damaged_outputs_are_predicted_again(taught, caplog):
    whole, options = taught("whole", steps=4), taught("out", steps=4)
    finetune(whole)
    with at_step(2, crash), pytest.raises(Crash):
        finetune(options)
    (stored,) = (options.output / "checkpoints").glob("teacher-*.safetensors")
    stored.write_bytes(stored.read_bytes()[:-7])
    finetune(options)
    assert "The teacher predicts again, because its outputs are damaged." in caplog.text
    assert model_bytes(options) == model_bytes(whole)


def test_a_full_disk_leaves_no_part_of_a_teachers_outputs(taught, monkeypatch):
    import safetensors.numpy

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    options = taught("out", steps=1)
    monkeypatch.setattr(safetensors.numpy, "save_file", full)
    with pytest.raises(OSError, match="No space left"):
        finetune(options)
    assert not list(options.output.rglob("*.safetensors"))
    monkeypatch.undo()
    monkeypatch.setitem(SIZES, "tiny", SIZES["tiny"] | {"num_hidden_layers": 3})
    assert finetune(options)["step"] == 1


def test_bad_teachers(tmp_path, vocabularies):
    own, others = vocabularies
    rows = [{"text": text, "label": text.split()[-1]} for text in TEXTS]
    data = write(tmp_path / "d.jsonl", rows)
    options = given(tmp_path, data, task="classify")
    save(tmp_path / "teacher", CLASSIFIER, others, id2label={0: "good", 1: "bad"})
    with pytest.raises(UserError, match="must have the student's labels"):
        softened(options, own)
    save(tmp_path / "teacher", "AlbertForMaskedLM", others)
    with pytest.raises(UserError, match="A teacher must be fine-tuned for --task classify"):
        softened(options, own)
    save(tmp_path / "teacher", CLASSIFIER, others, id2label=dict(enumerate(COLOURS)))
    (tmp_path / "empty.jsonl").write_text("")
    with pytest.raises(UserError, match=r"empty\.jsonl"):
        softened(given(tmp_path, data, task="classify", unlabelled=tmp_path / "empty.jsonl"), own)
    with pytest.raises(UserError, match="unlabelled must be a file"):
        softened(given(tmp_path, data, task="classify", unlabelled=tmp_path / "none.jsonl"), own)
    with pytest.raises(UserError, match="distill_weight is an option of distillation"):
        given(tmp_path, data, task="classify", teacher=None, temperature=None, distill_weight=0.1)
    with pytest.raises(UserError, match="temperature is for probabilities"):
        given(tmp_path, data, task="classify", regression=True)


def test_soft_labels_for_fit(tmp_path, vocabularies):
    own, _ = vocabularies
    folder = save(tmp_path / "teacher", CLASSIFIER, own, id2label=dict(enumerate(COLOURS)))
    found = soft_labels(folder, TEXTS[:5], temperature=TEMPERATURE, batch_size=2)
    for text, soft in zip(TEXTS, found, strict=False):
        logits = direct(folder, CLASSIFIER, **encoded(folder, text))
        np.testing.assert_allclose(soft, softmax(logits / TEMPERATURE), atol=1e-5)
    student = models.AlbertForSequenceClassification.from_pretrained(folder)
    student.compile("sgd", metrics=["accuracy"], run_eagerly=True)
    features = dict(encoded(folder, TEXTS[:5], padding=True))
    one_hot = np.eye(3, dtype="float32")[[0, 2, 1, 0, 0]]
    numbers = np.array([0, 2, 1, 0, 0])
    assert student.evaluate(features, one_hot, verbose=0) == pytest.approx(
        student.evaluate(features, numbers, verbose=0)
    )
    assert student.fit(features, found, verbose=0).history["loss"][0] > 0
    with pytest.raises(ValueError, match="sum to 1"):
        student.fit(features, found * 2, verbose=0)
    with pytest.raises(UserError, match="temperature must be a number above 0. Received: 0"):
        soft_labels(folder, TEXTS, temperature=0)
