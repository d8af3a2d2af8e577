import contextlib
import doctest
import json
import shutil
import warnings

import numpy as np
import pytest

from albert_tf.errors import UserError
from albert_tf.models import AlbertForSequenceClassification
from albert_tf.pipelines import (
    PIPELINES,
    FeatureExtractionPipeline,
    FillMaskPipeline,
    QuestionAnsweringPipeline,
    SentenceOrderPipeline,
    TextClassificationPipeline,
    TokenClassificationPipeline,
    pipeline,
)


@pytest.mark.parametrize(
    ("task", "kind", "expected"),
    [
        ("fill-mask", "fill-mask", FillMaskPipeline),
        ("fill-mask", "sentence-order", FillMaskPipeline),
        ("text-classification", "text-classification", TextClassificationPipeline),
        ("sentiment-analysis", "text-classification", TextClassificationPipeline),
        ("token-classification", "token-classification", TokenClassificationPipeline),
        ("ner", "token-classification", TokenClassificationPipeline),
        ("question-answering", "question-answering", QuestionAnsweringPipeline),
        ("question-answering", "answerability", QuestionAnsweringPipeline),
        ("feature-extraction", "fill-mask", FeatureExtractionPipeline),
        ("sentence-order", "sentence-order", SentenceOrderPipeline),
    ],
)
def test_a_directory_is_all_it_takes(saved, task, kind, expected):
    made = pipeline(task, str(saved(kind)))
    assert type(made) is expected
    assert made.tokenizer.model_max_length == made.max_length == 32


@pytest.mark.parametrize(
    ("task", "kind", "received"),
    [
        ("fill-mask", "feature-extraction", "without predictions"),
        ("question-answering", "feature-extraction", "without qa_outputs"),
        ("sentence-order", "fill-mask", "without pooler, sop_classifier"),
        ("text-classification", "token-classification", "has AlbertForTokenClassification"),
        ("ner", "text-classification", "has AlbertForSequenceClassification"),
        ("text-classification", "fill-mask", "has AlbertForMaskedLM"),
    ],
)
def test_a_model_of_another_task(saved, task, kind, received):
    with pytest.raises(UserError, match=f"Received: .*{received}"):
        pipeline(task, saved(kind))


@pytest.mark.parametrize("named", [["TFAlbertForSequenceClassification"], ["Mine"], [], None])
def test_what_a_configuration_may_say_of_the_model(saved, tmp_path, named):
    folder = shutil.copytree(saved("text-classification"), tmp_path / "model")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "architectures": named}))
    assert pipeline("text-classification", folder)("the cat")


@contextlib.contextmanager
def no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        yield


def test_a_model_that_was_trained_since(saved, tokenizer):
    found = AlbertForSequenceClassification.from_pretrained(saved("fill-mask"))
    message = (
        r"newly initialized classifier, pooler, and no .*model.newly_initialized.clear\(\) says"
    )
    with pytest.warns(UserWarning, match=message):
        made = pipeline("text-classification", found, tokenizer)
    with no_warnings():
        assert made("the cat")  # warned once
        pipeline("feature-extraction", found, tokenizer)  # which needs no head
    found.compile("adam", run_eagerly=True)
    with pytest.warns(UserWarning, match=message):
        pipeline("text-classification", found, tokenizer)
    found.fit({"input_ids": np.array([[2, 7, 3], [2, 8, 3]])}, np.array([0, 1]), verbose=0)
    with no_warnings():
        assert pipeline("text-classification", found, tokenizer)("the cat")


def test_a_model_that_its_user_says_is_trained(saved, tokenizer, tmp_path):
    """Weights from a file, a loop or a functional model leave no trace in the model."""
    load = AlbertForSequenceClassification.from_pretrained
    trained, found = load(saved("fill-mask")), load(saved("fill-mask"))
    trained.save_weights(tmp_path / "model.weights.h5")
    found.load_weights(tmp_path / "model.weights.h5")
    found.newly_initialized.clear()
    trained.newly_initialized.clear()
    with no_warnings():
        one, other = (pipeline("text-classification", each, tokenizer) for each in (found, trained))
        assert one("the cat") == other("the cat")


def test_a_tokenizer_of_its_own(saved, model, tokenizer):
    folder = saved("fill-mask")
    made = pipeline("fill-mask", model("fill-mask"), tokenizer=folder)
    assert made("the [MASK]")[0]["token"] == pipeline("fill-mask", folder)("the [MASK]")[0]["token"]
    assert pipeline("fill-mask", folder, tokenizer).tokenizer is tokenizer


@pytest.mark.parametrize(
    ("task", "given", "options", "message"),
    [
        ("poetry", "saved", {}, "fill-mask, .*, ner. Received: 'poetry'"),
        (None, "saved", {}, "fill-mask, .* Received: None"),
        ("fill-mask", None, {}, "model=NoneType, tokenizer=None"),
        ("fill-mask", "/nowhere/at/all", {}, "neither a directory"),
        ("fill-mask", "saved", {"device": -1}, r"device=-1.*keras.device\('cpu:0'"),
        ("fill-mask", "saved", {"device_map": "auto"}, "within keras.device"),
        ("fill-mask", "saved", {"framework": "np"}, "'np'. Set KERAS_BACKEND"),
        ("fill-mask", "saved", {"torch_dtype": "float16"}, "from_pretrained.*dtype='mi"),
        ("fill-mask", "saved", {"model_kwargs": {"num_labels": 3}}, "Give a model instead"),
    ],
)
def test_mistakes(saved, task, given, options, message):
    with pytest.raises(UserError, match=message):
        pipeline(task, saved("fill-mask") if given == "saved" else given, **options)


def test_a_model_without_its_tokenizer(model):
    with pytest.raises(UserError, match="a tokenizer where none is beside the model's files"):
        pipeline("fill-mask", model("fill-mask"))


def test_options_reach_the_task(saved):
    assert pipeline("fill-mask", saved("fill-mask"), top_k=3, batch_size=5).options.top_k == 3
    with pytest.raises(TypeError, match="Received: colour"):
        pipeline("fill-mask", saved("fill-mask"), colour="red")


@pytest.mark.tensorflow
@pytest.mark.parametrize(
    "option",
    [
        {"use_fast": True},
        {"use_fast": False},
        {"num_workers": 2},
        {"framework": "tf"},
        {"device": None},
    ],
    ids=str,
)
def test_arguments_of_transformers_that_change_nothing(saved, option):
    made = pipeline("fill-mask", saved("fill-mask"), **option)
    assert made.options == pipeline("fill-mask", saved("fill-mask")).options


def test_old_names_of_options(saved):
    fill = pipeline("fill-mask", saved("fill-mask"), topk=2)
    assert fill("the [MASK]") == fill("the [MASK]", top_k=2)
    classify = pipeline("text-classification", saved("text-classification"))
    every = classify("the cat", top_k=None)
    assert classify("the cat", return_all_scores=True) == [every]  # nested as it was
    assert classify(["the cat"], return_all_scores=True) == [every]
    assert classify("the cat", return_all_scores=False) == every[:1]
    tag = pipeline("ner", saved("token-classification"), ignore_labels=[])
    for old, strategy in (
        ({"grouped_entities": True}, "simple"),
        ({"grouped_entities": False}, "none"),
        ({"grouped_entities": True, "ignore_subwords": True}, "first"),
    ):
        assert tag("ada lives", **old) == tag("ada lives", aggregation_strategy=strategy)


@pytest.mark.tensorflow
@pytest.mark.parametrize("kind", PIPELINES.values())
def test_the_example_of_each_class_runs(kind):
    example = doctest.DocTestParser().get_doctest(kind.__doc__, {}, kind.__name__, None, None)
    report = []
    options = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    results = doctest.DocTestRunner(optionflags=options).run(example, out=report.append)
    assert results.attempted > 0
    assert results.failed == 0, "".join(report)
