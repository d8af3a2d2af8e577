"""Fixtures for all tests: reference files, small vocabularies, models, and inputs."""

import contextlib
import datetime
import functools
import gc
import hashlib
import http.server
import importlib
import importlib.util
import io
import logging
import os
import shutil
import signal
import socket
import sys
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

# Settings in the caller's shell must not affect the tests.
for name in ("PYTHONWARNINGS", "COLUMNS", "LC_ALL", "LANGUAGE", "ALBERT_TF_LOG"):
    os.environ.pop(name, None)
os.environ |= {"TF_CPP_MIN_LOG_LEVEL": "2", "LANG": "C.UTF-8"}
sys.warnoptions.clear()
# Seed of the random tests, which changes every day and is the same in all workers.
os.environ.setdefault("ALBERT_TF_SEED", datetime.date.today().strftime("%Y%m%d"))

# References in the repository, and larger sets that may be next to a checkout.
GOLDEN = Path(__file__).resolve().parent / "golden"
SHARED = Path(__file__).resolve().parents[2] / "shared"

SENTENCES = [
    "The film was a quiet delight, and the music stayed with me for days.",
    "I would not sit through this dull, noisy mess again for any money.",
    "She sells fresh bread, coffee and cakes on the corner of the old square.",
    "Nothing worked: the battery died, the screen froze and support never answered.",
    "In 1999, about 20,000 people came to see the harbour lights.",
    "A warm, funny and clever story about two brothers and a boat.",
    "The room smelled of smoke and the staff shrugged when we complained.",
    "What a wonderful surprise: generous portions, kind people, fair prices!",
]

WORDS = (
    "the cat sat on a mat in paris and ada lives near new york city with her old dog who barked "
    "at the moon over france"
)

# Tests in which graphs may take strings.
GRAPHS = ("tests/cli/test_export.py", "tests/export/", "tests/fuzz/", "tests/text/")

CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
# Without the last flags, Chromium contacts its maker's hosts at every start.
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-sync"]
FLAGS += ["--disable-background-networking", "--disable-component-update"]


def pytest_addoption(parser):
    parser.addoption(
        "--packages-required",
        action="store_true",
        help="fail tests whose package is missing instead of skipping them",
    )


def pytest_configure(config):
    warnings.resetwarnings()  # to Python's own filters
    for kind in (DeprecationWarning, PendingDeprecationWarning, ImportWarning, ResourceWarning):
        warnings.simplefilter("ignore", kind)
    if config.getoption("--packages-required"):
        pytest.importorskip = lambda name, *_, **__: importlib.import_module(name)


def pytest_collection_finish():
    """Excludes the half a million objects created by imports from garbage collection."""
    gc.collect()
    gc.freeze()


def pytest_report_header():
    return f"ALBERT_TF_SEED={os.environ['ALBERT_TF_SEED']}"


def pytest_runtest_setup(item):
    backend = os.environ.get("KERAS_BACKEND", "tensorflow")
    if item.get_closest_marker("tensorflow") and backend != "tensorflow":
        pytest.skip(f"needs TensorFlow as Keras' backend. Received KERAS_BACKEND={backend}.")
    if item.get_closest_marker("posix") and sys.platform == "win32":
        pytest.skip("needs pipes, links, signals or names of POSIX")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """Skips tests that fail because a graph needs tensorflow-text, which Windows lacks.

    Only tests in `GRAPHS` are skipped.
    """
    report = yield
    if not item.location[0].replace(os.sep, "/").startswith(GRAPHS):
        return report
    if call.excinfo and importlib.util.find_spec("tensorflow_text") is None:
        reason = str(call.excinfo.value)
        if (
            "tensorflow-text" in reason
            or getattr(call.excinfo.value, "name", "") == "tensorflow_text"
        ):
            path, line, _ = item.location
            report.outcome, report.longrepr = "skipped", (path, line, "needs tensorflow-text")
    return report


def pytest_generate_tests(metafunc):
    """Runs a test marked `references(pattern, …)` once for each matching path, as `reference`."""
    marker = metafunc.definition.get_closest_marker("references")
    if marker:
        found = {
            str(path.relative_to(root)): path
            for root in (SHARED / "golden", GOLDEN)
            for pattern in marker.args
            for path in root.glob(pattern)
        }
        assert found, f"no references match {marker.args}"
        metafunc.parametrize(
            "reference", [found[name] for name in sorted(found)], ids=sorted(found)
        )


@pytest.fixture(scope="session", autouse=True)
def numpy_reads_what_models_return():
    """Lets NumPy read torch tensors that require a gradient."""
    if os.environ.get("KERAS_BACKEND") != "torch":
        yield
        return
    import torch

    read = torch.Tensor.__array__
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            torch.Tensor,
            "__array__",
            lambda tensor, dtype=None, copy=None: read(tensor.detach(), dtype),
        )
        yield


@pytest.fixture(scope="module", autouse=True)
def compiled_functions_are_forgotten():
    """Clears JAX's caches of compiled functions, which would grow to gigabytes."""
    yield
    if os.environ.get("KERAS_BACKEND") == "jax":
        import jax

        jax.clear_caches()


@pytest.fixture(scope="session")
def free_ports():
    """Returns a function that finds a number of ports that no process uses."""

    def ports(count):
        with contextlib.ExitStack() as stack:
            servers = [
                stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)
            ]
            return [server.getsockname()[1] for server in servers]

    return ports


@pytest.fixture(scope="session")
def golden() -> Path:
    """Returns the folder with inputs and outputs of the original code and transformers."""
    return GOLDEN


@pytest.fixture(scope="session")
def rebuilt_vocabulary() -> bytes:
    """Returns the published 30k vocabulary, reduced to the pieces that occur in the references.

    All other pieces are private-use characters. The normalization rules are SentencePiece's
    `nmt_nfkc`, as in the published file. tests/golden/README.md describes the references.
    """
    import sentencepiece
    from sentencepiece import sentencepiece_model_pb2

    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(SENTENCES),
        model_writer=model,
        vocab_size=60,
        pad_id=0,
        unk_id=1,
        bos_id=-1,
        eos_id=-1,
        control_symbols=["[CLS]", "[SEP]", "[MASK]"],
        user_defined_symbols=["(", ")", '"', "-", ".", "–", "£", "€"],
        minloglevel=3,
    )
    proto = sentencepiece_model_pb2.ModelProto.FromString(model.getvalue())
    del proto.pieces[13:]
    lines = (GOLDEN / "E_tokenization" / "pieces.tsv").read_text("utf-8").splitlines()
    rows = {int(number): (piece, float(score)) for number, piece, score in map(str.split, lines)}
    lowest = min(score for _, score in rows.values())
    for number in range(13, 30_000):
        piece, score = rows.get(number, (chr(0x100000 + number), lowest))
        proto.pieces.add(piece=piece, score=score)
    proto.trainer_spec.vocab_size = len(proto.pieces)
    return proto.SerializeToString()


@pytest.fixture(scope="session")
def published_vocabulary(rebuilt_vocabulary, tmp_path_factory) -> Iterator[Path]:
    """Yields the published 30k vocabulary if it is next to the checkout, else the rebuilt one.

    The rebuilt one is treated as published, so that masking finds words by the original's rule.
    """
    published = SHARED / "data" / "spiece.model"
    if published.exists():
        yield published
        return
    path = tmp_path_factory.mktemp("vocabulary") / "spiece.model"
    path.write_bytes(rebuilt_vocabulary)
    digest = hashlib.sha256(rebuilt_vocabulary).hexdigest()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("albert_tf.data.pretraining.masking.PUBLISHED", digest)
        yield path


@pytest.fixture(scope="session")
def books() -> list[Path]:
    """Returns gzipped English books if they are next to the checkout, else an empty list."""
    return sorted((SHARED / "data" / "corpus").glob("*.gz"))


@pytest.fixture(scope="session")
def s3():
    """Yields the URL of an empty bucket on a local S3 server, which child processes can use too."""
    moto_server = pytest.importorskip("moto.server")
    s3fs = pytest.importorskip("s3fs")
    server = moto_server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    host, port = server.get_host_and_port()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
        patch.setenv("AWS_ACCESS_KEY_ID", "nobody")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "nothing")
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        s3fs.S3FileSystem().mkdir("albert")
        yield "s3://albert"
    server.stop()


@pytest.fixture(scope="session")
def tiny_vocabulary() -> bytes:
    from albert_tf.text.vocabulary import train_vocabulary

    return train_vocabulary(SENTENCES, vocab_size=200)


@pytest.fixture(scope="session")
def words_vocabulary() -> bytes:
    """Returns a vocabulary in which each word of `WORDS` is one piece."""
    import numpy as np

    from albert_tf.text.vocabulary import train_vocabulary

    generator = np.random.default_rng(7)
    lines = [" ".join(generator.choice(WORDS.split(), 6)) for _ in range(400)]
    lines += ["the dog, the cat. a mat! who sat?"] * 5
    return train_vocabulary(lines, vocab_size=140)


@pytest.fixture(scope="session")
def unigram_json():
    """Returns a function from a published SentencePiece model to a `tokenizer.json` (a dict).

    Its steps are those that transformers 5 writes. With `is_xlm_roberta`, the special tokens and
    the format of pairs are XLM-RoBERTa's, and nothing happens to a text before the model's rules.
    """
    import base64

    from albert_tf.text.model_file import ModelProto

    def part(name, token_type):
        kind = "Sequence" if name in ("A", "B") else "SpecialToken"
        return {kind: {"id": name, "type_id": token_type}}

    def content(model, is_xlm_roberta=False):
        proto = ModelProto.FromString(model)
        pieces = [(piece.piece, piece.score) for piece in proto.pieces]
        added = [piece.type not in (piece.NORMAL, piece.UNUSED) for piece in proto.pieces]
        special = [index < 5 for index in range(len(pieces))]
        begin, end = "[CLS]", "[SEP]"
        if is_xlm_roberta:
            begin, end = "<s>", "</s>"
            first = [(token, 0.0) for token in (begin, "<pad>", end, "<unk>")]
            pieces = [*first, *pieces[5:], ("<mask>", 0.0)]
            added = special = [*[True] * 4, *[False] * (len(pieces) - 5), True]
        single = [part(begin, 0), part("A", 0), part(end, 0)]
        second = [part(end, 0)] if is_xlm_roberta else []
        second += [part("B", int(not is_xlm_roberta)), part(end, int(not is_xlm_roberta))]
        before = [
            *({"type": "Replace", "pattern": {"String": q}, "content": '"'} for q in ("``", "''")),
            *({"type": kind} for kind in ("NFKD", "StripAccents", "Lowercase")),
        ]
        charsmap = base64.b64encode(proto.normalizer_spec.precompiled_charsmap).decode()
        rules = {"type": "Precompiled", "precompiled_charsmap": charsmap}
        metaspace = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always"}
        flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
        ids = {piece: index for index, (piece, _) in enumerate(pieces)}
        return {
            "version": "1.0",
            "added_tokens": [
                {"id": index, "content": pieces[index][0], "special": special[index], **flags}
                for index, is_added in enumerate(added)
                if is_added
            ],
            "normalizer": {
                "type": "Sequence",
                "normalizers": [*([] if is_xlm_roberta else before), rules],
            },
            "pre_tokenizer": {
                "type": "Sequence",
                "pretokenizers": [{"type": "WhitespaceSplit"}, {**metaspace, "split": True}],
            },
            "post_processor": {
                "type": "TemplateProcessing",
                "single": single,
                "pair": [*single, *second],
                "special_tokens": {
                    token: {"id": token, "ids": [ids[token]], "tokens": [token]}
                    for token in (begin, end)
                },
            },
            "decoder": {**metaspace, "split": True},
            "model": {
                "type": "Unigram",
                "unk_id": ids["<unk>"],
                "vocab": pieces,
                "byte_fallback": False,
            },
        }

    return content


@pytest.fixture(scope="session")
def xlm_roberta(tiny_vocabulary, unigram_json, tmp_path_factory):
    """Returns a tokenizer with the pieces of `tiny_vocabulary` and XLM-RoBERTa's special tokens."""
    import json

    from albert_tf.text.tokenizer import AlbertTokenizer

    path = tmp_path_factory.mktemp("xlm-roberta") / "tokenizer.json"
    path.write_text(json.dumps(unigram_json(tiny_vocabulary, is_xlm_roberta=True)))
    return AlbertTokenizer(path)


@pytest.fixture
def tiny_tokenizer(tiny_vocabulary, tmp_path):
    from albert_tf.text.tokenizer import AlbertTokenizer

    vocab_file = tmp_path / "spiece.model"
    vocab_file.write_bytes(tiny_vocabulary)
    return AlbertTokenizer(vocab_file)


@pytest.fixture(scope="session")
def small_config():
    """Returns a configuration whose sizes all differ: V=31, E=6, H=20, L=3, A=5, I=24, …"""
    from albert_tf.config import AlbertConfig
    from albert_tf.labels import unnamed_labels

    return AlbertConfig(
        vocab_size=31,
        embedding_size=6,
        hidden_size=20,
        num_hidden_layers=3,
        num_attention_heads=5,
        intermediate_size=24,
        max_position_embeddings=11,
        id2label=unnamed_labels(3),
    )


@pytest.fixture(scope="session")
def small_features():
    """Returns two sequences of seven ids, the second of which ends with three padding ids."""
    import numpy as np

    generator = np.random.default_rng(5)
    attention_mask = np.array([[1] * 7, [1] * 4 + [0] * 3], "int32")
    return {
        "input_ids": generator.integers(1, 31, (2, 7)).astype("int32") * attention_mask,
        "attention_mask": attention_mask,
        "token_type_ids": np.array([[0, 0, 0, 1, 1, 1, 1], [0, 0, 1, 1, 0, 0, 0]], "int32"),
    }


@pytest.fixture(scope="session")
def scrambled():
    """Returns a function that randomizes every weight of a model, so that none stays at 0 or 1."""
    import numpy as np

    def scramble(model, seed=3):
        generator = np.random.default_rng(seed)
        for variable in model.weights:
            noise = 0.2 * generator.standard_normal(variable.shape)
            variable.assign(noise + (variable.path.endswith("gamma")))
        return model

    return scramble


@pytest.fixture
def without_graphs():
    """Runs TensorFlow's functions eagerly, which is quicker for a few steps."""
    import tensorflow as tf

    tf.config.run_functions_eagerly(True)
    yield
    tf.config.run_functions_eagerly(False)


@contextlib.contextmanager
def _lines_alone(path, *_):
    from matplotlib.figure import Figure

    figure = Figure()
    yield figure
    lines = [line.get_xydata().round(3).tolist() for axes in figure.axes for line in axes.lines]
    path.write_text(repr(lines))


@pytest.fixture(scope="module")
def quick_runs():
    """Reduces the size "tiny" to one layer and pictures to numbers, which halves a run's time."""
    from albert_tf.config import SIZES

    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(SIZES, "tiny", {**SIZES["tiny"], "num_hidden_layers": 1})
        patch.setattr("albert_tf.training.plots._figure", _lines_alone)
        yield


@pytest.fixture
def ctrl_c_enabled():
    """Restores the handler of Ctrl-C, which a shell disables for background processes."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="session")
def files_of_at_most():
    """Returns a context in which files cannot grow beyond a size, as on a full disk.

    Wrap only the call under test, because pytest's own output may go to a file.
    """
    resource = pytest.importorskip("resource")

    @contextlib.contextmanager
    def limit(size):
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)

    return limit


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip("playwright.sync_api")
    program = next(filter(None, map(shutil.which, CHROMIUM)), None)
    if program is None:
        pytest.skip("Chromium is not installed: apt install chromium")
    with playwright.sync_playwright() as started:
        yield started.chromium.launch(executable_path=program, args=FLAGS)


class Handler(http.server.SimpleHTTPRequestHandler):
    headers_to_add = {}

    def end_headers(self):
        for name, value in self.headers_to_add.items():
            self.send_header(name, value)
        super().end_headers()

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def serve_folder():
    """Returns a function that serves a folder and returns its address."""
    servers = []

    def start(folder, headers):
        handler = type("Handler", (Handler,), {"headers_to_add": headers})
        make = functools.partial(handler, directory=folder)
        servers.append(http.server.ThreadingHTTPServer(("127.0.0.1", 0), make))
        threading.Thread(target=servers[-1].serve_forever, daemon=True).start()
        return f"http://127.0.0.1:{servers[-1].server_port}/"

    yield start
    for server in servers:
        server.shutdown()
