import doctest
import json
import warnings

import numpy as np
import pytest

from albert_tf.checkpoints.finder import CheckpointLocation
from albert_tf.errors import UserError
from albert_tf.models import AlbertForSequenceClassification
from albert_tf.pipelines import PIPELINES, pipeline

pytestmark = pytest.mark.usefixtures("without_graphs")


@pytest.mark.parametrize(
    ("name", "kind", "task"),
    [
        ("fill-mask", "sentence-order", "fill-mask"),
        ("sentiment-analysis", "text-classification", "text-classification"),
        ("ner", "token-classification", "token-classification"),
        ("question-answering", "answerability", "question-answering"),
        ("feature-extraction", "fill-mask", "feature-extraction"),
        ("sentence-order", "sentence-order", "sentence-order"),
    ],
)
def test_a_directory_is_all_it_takes(saved, name, kind, task):
    made = pipeline(name, str(saved(kind)))
    assert type(made) is PIPELINES[task]
    assert made.tokenizer.model_max_length == made.max_length == 32


@pytest.mark.parametrize(
    ("task", "kind", "received"),
    [
        ("fill-mask", "feature-extraction", "no weights for predictions, "),
        ("sentence-order", "fill-mask", "no weights for pooler, sop_classifier, "),
        ("ner", "text-classification", "contains an AlbertForSequenceClassification"),
        ("text-classification", "fill-mask", "contains an AlbertForMaskedLM"),
    ],
)
def test_a_model_of_another_task(saved, task, kind, received):
    with pytest.raises(UserError, match=received):
        pipeline(task, saved(kind))


def test_what_a_configuration_may_say_of_the_model(tmp_path):
    for named in (["TFAlbertForSequenceClassification"], ["Mine"], [], None):
        (tmp_path / "config.json").write_text(json.dumps({"architectures": named}))
        CheckpointLocation(tmp_path).check_head("AlbertForSequenceClassification")


def test_a_head_that_nothing_trained_is_warned_of(saved, tokenizer):
    found, declared = (
        AlbertForSequenceClassification.from_pretrained(saved("fill-mask")) for _ in range(2)
    )
    message = r"untrained: classifier, pooler. .*newly_initialized.clear\(\)"
    with pytest.warns(UserWarning, match=message):
        made = pipeline("text-classification", found, tokenizer)
    found.compile("adam", run_eagerly=True)
    with pytest.warns(UserWarning, match=message):
        pipeline("text-classification", found, tokenizer)
    found.fit({"input_ids": np.array([[2, 7, 3], [2, 8, 3]])}, np.array([0, 1]), verbose=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        assert made("the cat")  # a pipeline warns once, when it is made
        pipeline("text-classification", found, tokenizer)
        pipeline("feature-extraction", declared, tokenizer)  # needs no head
        declared.newly_initialized.clear()
        pipeline("text-classification", declared, tokenizer)


def test_a_tokenizer_of_its_own(saved, model, pipe, tokenizer):
    folder, text = saved("fill-mask"), "the [MASK]"
    made = pipeline("fill-mask", model("fill-mask"), tokenizer=folder)
    assert made(text) == pipe("fill-mask")(text)
    assert pipeline("fill-mask", folder, tokenizer).tokenizer is tokenizer


@pytest.mark.parametrize(
    ("task", "given", "options", "message"),
    [
        ("poetry", "model", {}, "fill-mask, .*, ner. Received: 'poetry'"),
        ("fill-mask", None, {}, "model=NoneType, tokenizer=None"),
        ("fill-mask", "model", {}, "model=Albert.*, tokenizer=None"),
        ("fill-mask", "/nowhere/at/all", {}, "/nowhere/at/all"),
        ("fill-mask", "both", {"device": -1}, r"device=-1.*keras.device\('cpu:0'"),
        ("fill-mask", "both", {"framework": "np"}, "'np'. Set KERAS_BACKEND"),
        ("fill-mask", "both", {"torch_dtype": "float16"}, "from_pretrained.*dtype='mi"),
        ("fill-mask", "both", {"model_kwargs": {"num_labels": 3}}, "model_kwargs=.*from_"),
    ],
)
def test_mistakes(model, tokenizer, task, given, options, message):
    sources = {"model": [model("fill-mask")], "both": [model("fill-mask"), tokenizer]}
    with pytest.raises(UserError, match=message):
        pipeline(task, *sources.get(given, [given]), **options)


@pytest.mark.tensorflow
def test_options_reach_the_task_and_those_of_transformers_change_nothing(pipe):
    ignored = {
        "use_fast": False,
        "num_workers": 2,
        "padding": True,
        "framework": "tf",
        "device": None,
    }
    made = pipe("fill-mask", top_k=3, batch_size=5, **ignored)
    assert (made.options, made.batch_size) == (made.Options(top_k=3), 5)


def test_old_names_of_options(pipe):
    fill = pipe("fill-mask", topk=2)
    assert fill("the [MASK]") == fill("the [MASK]", top_k=2)
    classify = pipe("text-classification")
    every = classify("the cat", top_k=None)
    assert classify("the cat", return_all_scores=True) == [every]  # nested as it was
    assert classify(["the cat"], return_all_scores=True) == [every]
    assert classify("the cat", return_all_scores=False) == every[:1]
    tag = pipe("token-classification", ignore_labels=[])
    for old, strategy in (
        ({"grouped_entities": True}, "simple"),
        ({"grouped_entities": False}, "none"),
        ({"grouped_entities": True, "ignore_subwords": True}, "first"),
    ):
        assert tag("ada lives", **old) == tag("ada lives", aggregation_strategy=strategy)


@pytest.mark.slow
@pytest.mark.tensorflow
@pytest.mark.parametrize("kind", PIPELINES.values())
def test_the_example_of_each_class_runs(kind):
    example = doctest.DocTestParser().get_doctest(kind.__doc__, {}, kind.__name__, None, None)
    report = []
    options = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    results = doctest.DocTestRunner(optionflags=options).run(example, out=report.append)
    assert results.attempted > 0
    assert results.failed == 0, "".join(report)
