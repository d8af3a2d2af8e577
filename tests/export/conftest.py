"""Models of every task, their tokenizer, their exports, and the outputs of Keras."""

import contextlib
import functools
import importlib.metadata
import zipfile
from typing import NamedTuple

import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema

from albert_tf.probabilities import softmax
from albert_tf.runtimes import run as runtimes
from tests.export import c_program

TEXTS = [
    "A quiet delight from start to finish.",
    "",
    "Crème brûlée, 12 euros; NEVER closed!",
    "A NUL inside\0 and at the end\0",
    "noisy mess " * 40,
]
# The tests' names for a task with certain configuration fields.
VARIANTS = {
    "answerability": ("question-answering", {"answerability": True}),
    "regression": ("sequence-classification", {"id2label": {0: "stars"}}),
    "several-labels": ("sequence-classification", {"problem_type": "multi_label_classification"}),
}


@pytest.fixture(scope="session")
def tokenizer(tiny_vocabulary):
    from albert_tf.text.tokenizer import AlbertTokenizer

    return AlbertTokenizer(tiny_vocabulary, model_max_length=24)


@pytest.fixture(scope="session")
def word_pieces():
    """Returns a WordPiece tokenizer, such as those of the Chinese models.

    Its special tokens have other ids than SentencePiece's.
    """
    from albert_tf.text.wordpiece import WordPieceTokenizer

    special = ["[PAD]", "[unused1]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    letters = "abcdefghijklmnopqrstuvwxyz0123456789,.!?:;[]今天气很好东京旅"
    pieces = [*special, *letters, *(f"##{each}" for each in letters), "the", "quiet", "##light"]
    return WordPieceTokenizer("\n".join(pieces).encode(), model_max_length=24)


@pytest.fixture(scope="session")
def make_model(tokenizer, scrambled):
    """Returns a function from a task, a dtype policy, and configuration fields to a model.

    The task is a key of `tasks.TASKS` or `VARIANTS`.
    """
    from albert_tf.config import AlbertConfig
    from albert_tf.models import CLASSES

    def make(task, dtype=None, **fields):
        defaults = {"id2label": {0: "bad", 1: "naïve", 2: "good"}, "max_position_embeddings": 40}
        task, changes = VARIANTS.get(task, (task, {}))
        sizes = {"vocab_size": tokenizer.vocab_size, "num_hidden_layers": 2}
        fields = {**sizes, **defaults, **changes, **fields}
        return scrambled(CLASSES[task](AlbertConfig.from_size("tiny", **fields), dtype=dtype))

    return make


@pytest.fixture(scope="session")
def model_of(make_model):
    """Returns a function like `make_model`, but cached, for tests that don't change the model."""
    return functools.cache(make_model)


@pytest.fixture(scope="session")
def make_classifier(make_model):
    """Returns a function from a dtype policy and configuration fields to a classifier."""
    return functools.partial(make_model, "sequence-classification")


@pytest.fixture(scope="session")
def classifier(make_classifier):
    """Returns a model with a loop over two layers, because the last one is computed separately."""
    return make_classifier(num_hidden_layers=3)


@pytest.fixture(scope="session")
def features(tokenizer):
    """Returns the features of the texts, `[5, 24]`."""
    options = {"padding": "max_length", "truncation": True, "split_special_tokens": True}
    return dict(tokenizer(TEXTS, return_tensors="np", **options))


@pytest.fixture(scope="session")
def logits(classifier, features):
    """Returns the logits of Keras for the texts, `[5, 3]`."""
    found = np.asarray(classifier(features)["logits"])
    assert np.abs(found).max() > 0.5
    assert np.ptp(found, axis=0).min() > 0.05  # logits differ between texts
    return found


class ThisProcess(contextlib.nullcontext):
    """Runs the check in this process instead of a fresh one."""

    def __init__(self, *packages):
        super().__init__(self)

    def run(self, *arguments):
        runtimes.main(*map(str, arguments[:-1]), arguments[-1])

    def wait(self):
        pass


@pytest.fixture(scope="session")
def checked(tmp_path_factory, model_of, tokenizer):
    """Returns a function from an exporter, a task or model, and options to a cached report.

    The check runs in this process, and on four texts: one is empty, one has every kind of token
    that fits, and one is too long.
    """
    from albert_tf_export import check, samples, saved_model, tflite

    @functools.cache
    def export(exporter, task, tokenizer=tokenizer, **options):
        model = model_of(task) if isinstance(task, str) else task
        name = "model.tflite" if exporter is tflite.export_tflite else "model"
        with pytest.MonkeyPatch.context() as patch:
            for module in (check, saved_model, tflite):
                patch.setattr(module, "FreshProcess", ThisProcess)
            patch.setattr(samples, "TEXTS", samples.TEXTS[1:3])
            patch.setattr(samples, "MOST_ROWS", 1)
            return exporter(model, tokenizer, tmp_path_factory.mktemp("export") / name, **options)

    return export


@pytest.fixture(scope="session")
def written(checked, classifier):
    """Returns a function from an exporter and options to the path of the classifier's export.

    It is cached, and not checked.
    """
    return lambda exporter, **options: checked(exporter, classifier, check=False, **options).path


@pytest.fixture(scope="session")
def ids_folder(checked, make_classifier):
    """Returns a SavedModel that only takes ids, from the classifier in half precision."""
    from albert_tf_export import export_saved_model

    model = make_classifier("mixed_bfloat16", num_hidden_layers=3)  # with the classifier's weights
    path = checked(export_saved_model, model, ids_only=True, check=False).path
    assert model.dtype_policy.name == "mixed_bfloat16"
    return path


def compiled(source, folder):
    """Compiles a C file in this folder, and returns the program's path."""
    path = folder / "program"
    try:
        c_program.compile_program(source, path)
    except FileNotFoundError as error:
        pytest.skip(str(error))
    return path


@pytest.fixture(scope="session")
def serve(tmp_path_factory):
    """Returns a function that loads a SavedModel's signature with TensorFlow's C API."""
    program = compiled("serve_saved_model.c", tmp_path_factory.mktemp("c"))
    with contextlib.ExitStack() as stack:
        yield lambda *arguments: started(stack, c_program.SavedModel(program, *arguments))


@pytest.fixture(scope="session")
def phone(tmp_path_factory):
    """Returns a function that loads a .tflite file's signature with LiteRT's C API."""
    version = importlib.metadata.version("ai-edge-litert")
    if tuple(map(int, version.split(".")[:3])) < (2, 1, 6):
        pytest.skip(f"LiteRT's C API has other arguments before 2.1.6, this is {version}")
    program = compiled("run_tflite.c", tmp_path_factory.mktemp("c"))
    with contextlib.ExitStack() as stack:
        yield lambda *arguments: started(stack, c_program.TFLite(program, *arguments))


def started(stack, program):
    """Starts a program, which loads its file. The stack ends it."""
    stack.enter_context(program).start()
    return program


@functools.cache
def unpacked(path):
    """Returns the content of a .tflite file as objects."""
    return schema.ModelT.InitFromObj(schema.Model.GetRootAs(path.read_bytes()))


def stored_matrices(path):
    """Returns the shapes and the types of the large matrices in a .tflite file, a set of pairs."""
    model = unpacked(path)
    types = {number: name for name, number in vars(schema.TensorType).items()}
    return {
        (tuple(tensor.shape), types[tensor.type])
        for graph in model.subgraphs
        for tensor in graph.tensors
        if model.buffers[tensor.buffer].data is not None
        and np.size(tensor.shape) == 2
        and np.prod(tensor.shape) > 1024
    }


def archive_start(file):
    """Returns the offset of the archive with the configuration and the tokenizer files."""
    with zipfile.ZipFile(file) as archive:
        return min(member.header_offset for member in archive.infolist())


class RandomWindow(NamedTuple):
    """Random outputs of a question answering model for one window.

    Attributes:
        outputs: arrays without a batch axis.
        before, count: number of positions before the context, and in it.
        possible: bool `[T]`, whether a position lies in the context.
    """

    outputs: dict[str, np.ndarray]
    before: int
    count: int
    possible: np.ndarray


@pytest.fixture
def random_windows():
    """Returns a function from the kind of head to ten windows, a list of `RandomWindow`.

    The seeds cover equally likely starts (every third), windows whose best span is too long, "no
    answer" as the most likely answer, and a window without a context (seed 9).
    """

    def draw(seed, answerability):
        generator = np.random.default_rng(seed)
        before, count = 3 + seed, 0 if seed == 9 else 2 + 5 * seed
        length = before + count + 4
        possible = np.zeros(length, bool)
        possible[before : before + count] = True
        start = 2 * generator.standard_normal(length)
        end = 2 * generator.standard_normal((length, length if answerability else 1)).T
        start = np.round(start) if seed % 3 == 0 else start
        if count:
            start[before] += 4
            end[:, before + count - 1] += 4
        start[0] += 8 * (seed % 4 == 1)
        if not answerability:
            outputs = {"start_logits": start, "end_logits": end[0]}
        else:
            mask = np.where(possible, 0, -1e30)
            mask[0] = 0
            starts, ends = (np.log(softmax(v + mask, -1) + 1e-300) for v in (start, end))
            first = np.argsort(-starts, kind="stable")[:5]
            last = np.argsort(-ends[first], axis=-1, kind="stable")[:, :5]
            outputs = {
                "start_top_log_probs": starts[first],
                "start_top_index": first,
                "end_top_log_probs": np.take_along_axis(ends[first], last, -1).ravel(),
                "end_top_index": last.ravel(),
                "cls_logits": np.array(generator.standard_normal()),
            }
        arrays = {
            name: value.astype("int32" if "index" in name else "float32")
            for name, value in outputs.items()
        }
        return RandomWindow(arrays, before, count, possible)

    return lambda answerability: [draw(seed, answerability) for seed in range(10)]
