"""Numbers that public classes and functions take: an error names each meaningless value.

`fit`, `evaluate`, and `predict` are in tests/models/test_keras_contract.py; the options of commands
and their functions are declared with ranges, see tests/test_options.py.
"""

from functools import partial
from types import SimpleNamespace

import pytest

import albert_tf
from albert_tf import data
from albert_tf.config import AlbertConfig
from albert_tf.data.pretraining.sources import RecordFiles
from albert_tf.errors import UserError

pytestmark = pytest.mark.tensorflow

TEXTS = ["a film", "the old man went to the sea"]
COUNT = (0, -1, 2.5, "4")
NOT_NEGATIVE = (-1, 2.5, "4")
LENGTH = (0, -1, 4.5, "6")
MODELS = {
    "encoder": albert_tf.AlbertModel,
    "words": albert_tf.AlbertForMaskedLM,
    "classifier": albert_tf.AlbertForSequenceClassification,
    "tagger": albert_tf.AlbertForTokenClassification,
    "reader": albert_tf.AlbertForQuestionAnswering,
}


@pytest.fixture(scope="module")
def tools(small_config, tiny_vocabulary, tmp_path_factory):
    """Returns a folder, a tokenizer, a small model of several classes, and a saved classifier."""
    folder = tmp_path_factory.mktemp("numbers")
    tokenizer = albert_tf.AlbertTokenizer(tiny_vocabulary)
    sizes = {"vocab_size": len(tokenizer), "max_position_embeddings": 40, "num_hidden_layers": 1}
    config = small_config.replace(**sizes)
    models = {name: model(config) for name, model in MODELS.items()}
    for model in models.values():
        model.tokenizer = tokenizer
        model.newly_initialized.clear()
    models["classifier"].save_pretrained(folder / "saved")
    return SimpleNamespace(folder=folder, tokenizer=tokenizer, **models)


OVERFLOWING = {"truncation": True, "padding": True, "return_overflowing_tokens": True}
RECORDS = RecordFiles(("a.tfrecord",), (100,), 16, 2)
CLASSIFIER = MODELS["classifier"]
# These files don't exist: numbers are checked first.
TASK = {"task": "classify", "data": "missing/examples.tsv", "model": "small"}
PRETRAINING = {"data": "missing/examples.tfrecord", "size": "tiny"}
CORPUS = {"input": "missing/corpus.txt", "vocab": "small"}
# Options are converted, as a command converts them: "4" is 4.
DECLARED = (0, -1, 2.5, "four")

ANSWER = {"text": ["man"], "answer_start": [8]}
DATASETS = {
    data.classification_dataset: (TEXTS, [0, 1]),
    data.question_answering_dataset: (["Who?"], ["the old man went"], [ANSWER]),
    data.token_classification_dataset: ([["a", "film"]], [[0, 1]]),
    data.multiple_choice_dataset: (TEXTS, [["a", "film"], ["sea", "old"]], [0, 1]),
}
QUESTION = {"question": "Who?", "context": "the old man went to the sea"}
PIPELINES = [
    ("fill-mask", "words", "a [MASK]", {"top_k": COUNT, "max_length": LENGTH}),
    (
        "text-classification",
        "classifier",
        "a film",
        {"top_k": COUNT, "stride": NOT_NEGATIVE, "max_length": LENGTH},
    ),
    ("token-classification", "tagger", "a film", {"stride": NOT_NEGATIVE, "max_length": LENGTH}),
    (
        "question-answering",
        "reader",
        QUESTION,
        {
            **dict.fromkeys(("top_k", "max_answer_len", "max_question_len"), COUNT),
            "max_seq_len": LENGTH,
            "doc_stride": (-1, 2.5, "9"),
        },
    ),
    ("feature-extraction", "encoder", "a film", {"stride": NOT_NEGATIVE, "max_length": LENGTH}),
]


def dataset(function, columns):
    return lambda tools: partial(function, tools.tokenizer, *columns)


def export(function, model="classifier"):
    return lambda tools: partial(
        function, getattr(tools, model), tools.tokenizer, tools.folder / "export"
    )


def pipeline(task, model, example):
    """Returns two functions that pass options to a pipeline: to its constructor, and to a call."""

    def make(tools):
        return lambda **options: albert_tf.pipeline(task, getattr(tools, model), **options)(example)

    def call(tools):
        return partial(albert_tf.pipeline(task, getattr(tools, model)), example)

    return make, call


OPTIMIZER = {
    "learning_rate": (-1.0,),
    "weight_decay": (-1, "0.1"),
    "beta_1": (-0.1, 1, "0.9"),
    "beta_2": (-0.1, 1, "0.9"),
    "epsilon": (-1, "0.1"),
    "global_clipnorm": (0, -1, "1"),
    "clipnorm": (0, -1, "1"),
    "clipvalue": (0, -1, "1"),
}
# For each function with its other arguments: its numeric arguments, and invalid values of each.
CALLS = {
    "Resume": (
        lambda tools: partial(albert_tf.Resume, tools.folder / "run"),
        {"save_steps": COUNT, "keep": COUNT},
    ),
    "KeepBest": (
        lambda _: partial(albert_tf.KeepBest, lambda: {"score": 1.0}, None),
        {"steps": COUNT, "patience": NOT_NEGATIVE},
    ),
    "tokenizer": (
        lambda tools: partial(tools.tokenizer, TEXTS, **OVERFLOWING),
        {"max_length": LENGTH, "stride": NOT_NEGATIVE, "pad_to_multiple_of": COUNT},
    ),
    "AlbertTokenizer": (
        lambda tools: partial(albert_tf.AlbertTokenizer, tools.tokenizer.model_bytes),
        {"model_max_length": COUNT},
    ),
    "pad": (
        lambda tools: partial(
            tools.tokenizer.pad, {"input_ids": [[5, 6], [7]]}, padding="max_length"
        ),
        {"max_length": LENGTH, "pad_to_multiple_of": COUNT},
    ),
    "AlbertPreprocessor": (
        lambda tools: partial(albert_tf.AlbertPreprocessor, tools.tokenizer),
        {"max_length": (0, -1, 4.5, "16")},
    ),
    "soft_labels": (
        lambda tools: partial(albert_tf.soft_labels, tools.folder / "saved", TEXTS),
        {"batch_size": COUNT, "temperature": (0, -1, float("inf"), "2")},
    ),
    **{
        function.__name__: (
            dataset(function, columns),
            {
                "max_length": LENGTH,
                "batch_size": COUNT,
                "seed": NOT_NEGATIVE,
                "initial_epoch": NOT_NEGATIVE,
            },
        )
        for function, columns in DATASETS.items()
    },
    "pretraining_batches": (
        lambda _: partial(albert_tf.pretraining_batches, RECORDS, batch_size=4),
        {
            "batch_size": COUNT,
            "seed": NOT_NEGATIVE,
            "start": NOT_NEGATIVE,
            "shuffle_records": COUNT,
            "part": ((-1, 2), (2, 2), (0, 0), (0.5, 2), ("0", 2)),
        },
    ),
    "compile": (lambda tools: tools.classifier.compile, {"micro_batches": (*COUNT, None)}),
    "train_vocabulary": (
        lambda _: partial(albert_tf.train_vocabulary, TEXTS * 20, vocab_size=40),
        {
            "vocab_size": (0, -1, 40.5, "40"),
            "character_coverage": (0, -1, 2, "1"),
            "seed_sentencepiece_size": (0, -1, 2.5, "9"),
            "max_sentences": (-1, 2.5, "9"),
            "threads": (0, -1, 2.5, "2"),
        },
    ),
    "with_depth": (lambda tools: tools.classifier.with_depth, {"num_hidden_layers": COUNT}),
    "resize_token_embeddings": (
        lambda tools: tools.classifier.resize_token_embeddings,
        {"new_num_tokens": COUNT},
    ),
    "from_pretrained": (
        lambda tools: partial(CLASSIFIER.from_pretrained, tools.folder / "saved"),
        {"num_labels": COUNT, "num_hidden_layers": COUNT},
    ),
    "AlbertConfig": (
        lambda _: AlbertConfig,
        {
            **dict.fromkeys(("vocab_size", "embedding_size", "hidden_size", "num_labels"), COUNT),
            **dict.fromkeys(("num_hidden_layers", "num_hidden_groups", "inner_group_num"), COUNT),
            **dict.fromkeys(("num_attention_heads", "intermediate_size"), COUNT),
            **dict.fromkeys(("max_position_embeddings", "type_vocab_size"), COUNT),
        },
    ),
    "WarmupPolynomialDecay": (
        lambda _: partial(albert_tf.WarmupPolynomialDecay, peak=0.1, total_steps=10),
        {
            "peak": (-1, "0.1"),
            "warmup_steps": (-1, 10, 2.5, "2"),
            "total_steps": (0, -1, 9.5, "10"),
            "power": (-1, "1"),
            "start_warmup_step": (2.5, "2"),
        },
    ),
    "AlbertAdamW": (lambda _: albert_tf.AlbertAdamW, OPTIMIZER),
    "Lamb": (lambda _: albert_tf.Lamb, OPTIMIZER),
    "export_saved_model": (
        export(albert_tf.export_saved_model),
        dict.fromkeys(("max_length", "max_bytes", "max_batch"), DECLARED),
    ),
    "export_tflite": (
        export(albert_tf.export_tflite),
        {
            **dict.fromkeys(("max_length", "batch", "choices"), DECLARED),
            "lengths": ((0,), (-1,), (2.5,), ("four",)),
        },
    ),
    "export_onnx": (export(albert_tf.export_onnx, "words"), {"predictions": DECLARED}),
    "export_web": (export(albert_tf.export_web), {"lengths": ((0,), (-1,), (2.5,), ("four",))}),
    "finetune": (
        lambda tools: partial(albert_tf.finetune, output=tools.folder / "new", **TASK),
        {
            **dict.fromkeys(("epochs", "steps", "batch_size", "max_length"), DECLARED),
            **dict.fromkeys(("vocab_size", "patience", "save_steps", "micro_batches"), DECLARED),
            "learning_rate": (0, -1, "fast"),
            "warmup": (-1, 1.5, "long"),
            "dropout": (-1, 1, "none"),
            "dev_fraction": (-1, 1.5, "half"),
            "seed": (-1, 2.5, "four"),
        },
    ),
    "evaluate": (lambda _: partial(albert_tf.evaluate, **TASK), {"batch_size": DECLARED}),
    "pretrain": (
        lambda tools: partial(albert_tf.pretrain, output=tools.folder / "new", **PRETRAINING),
        {
            **dict.fromkeys(("batch_size", "steps", "save_steps", "micro_batches"), DECLARED),
            "eval_steps": DECLARED,
            "warmup_steps": (-1, 2.5, "four"),
            "learning_rate": (0, -1, "fast"),
            "power": (-1, "one"),
            "beta_2": (-1, 1, "four"),
            "ema": (-1, 1, "four"),
            "dropout": (-1, 1, "none"),
            "seed": (-1, 2.5, "four"),
        },
    ),
    "build_data": (
        lambda tools: partial(albert_tf.build_data, output=tools.folder / "new", **CORPUS),
        {
            **dict.fromkeys(("max_seq_length", "max_predictions_per_seq", "ngram"), DECLARED),
            **dict.fromkeys(("max_document_bytes", "shard_bytes", "workers"), DECLARED),
            "masked_lm_prob": (-1, 1.5, "half"),
            "short_seq_prob": (-1, 1.5, "half"),
            "random_seed": (-1, 2.5, "four"),
        },
    ),
}
for task, name, example, numbers in PIPELINES:
    make, call = pipeline(task, name, example)
    CALLS[task] = make, {"batch_size": COUNT, **numbers}
    CALLS[f"{task} call"] = call, {"batch_size": COUNT, **numbers}
# Documented to raise ValueError.
VALUE_ERRORS = ("AlbertConfig", "WarmupPolynomialDecay", "from_pretrained")
WITHOUT_NUMBERS = {
    *(name for name in albert_tf.__all__ if name.startswith("AlbertFor")),
    "AlbertModel",  # these take an AlbertConfig
    "EntityF1",
    "ExactMatch",
    "ModelOutput",
    "UserError",
    "WordPieceTokenizer",  # its number is that of `AlbertTokenizer`
    "__version__",
    "convert",
    "load_pretrained",  # as from_pretrained
    "pipeline",  # by task
    "unshare",
}


def test_every_public_name_is_in_the_table():
    assert {*albert_tf.__all__, *data.__all__} - WITHOUT_NUMBERS <= CALLS.keys()


@pytest.mark.parametrize(
    ("call", "name", "value"),
    [
        pytest.param(call, name, value, id=f"{call}-{name}={value!r}")
        for call, (_, numbers) in CALLS.items()
        for name, values in numbers.items()
        for value in values
    ],
)
def test_numbers_that_mean_nothing(tools, call, name, value):
    error = ValueError if call in VALUE_ERRORS else UserError
    with pytest.raises(error, match=name):
        CALLS[call][0](tools)(**{name: value})
