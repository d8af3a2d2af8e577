"""Each option of a command changes the result or is rejected."""

import csv
import json
import random
import re
import shutil
import zipfile
from collections import Counter

import pytest
from ai_edge_litert.interpreter import Interpreter
from tensorflow.core.protobuf.saved_model_pb2 import SavedModel

from albert_tf import cli
from albert_tf.data.pretraining.options import ExampleOptions
from albert_tf.options import declared
from albert_tf.runtimes.exported import CHECKSUM
from tests.cli.conftest import OPTIONS
from tests.conftest import SENTENCES

LONG = "She, née Rome, sells bread near the lights. " * 9
MASKED = f"Née Rome, she sells [MASK] near the lights. {LONG}"
# A value of each option that isn't its default; None where it decides how, not what, is computed,
# or where other tests compare (`check`, `engine`). Required options are part of the lines.
HOW = dict.fromkeys(("micro_batches", "gradient_checkpointing", "strategy", "save_steps"))
HOW |= {"dtype_policy": "mixed_bfloat16"}
TEXTS = {
    "aggregation": "none",
    "batch_size": None,
    "context": "In the harbour.",
    "encoding": "cp1252",
    "force": True,
    "input": "other.txt",
    "json": True,
    "labels": "sport,politics",
    "normalize": True,
    "output": "vectors.jsonl",
    "pairs": True,
    "pooling": "cls",
    "question": "Who?",
    "text_column": "second",
    "text_pair_column": "second",
    "top_k": 2,
    "unanswerable": True,
}
LABELLED = {
    "skip_bad_rows": True,
    "text_column": "second",
    "text_pair_column": "third",
    "label_column": "other",
    "label_separator": ";",
    "choices_columns": "options",
    "encoding": "cp1252",
}
CORPUS = {
    "lines": "sentences",
    "text_field": "body",
    "bad_lines": "skip",
    "language": "de",
    "sentence_splitter": "textwrap:wrap",
    "force": True,
}
EXPORT = {"task": "masked-lm", "force": True, "check": None}
OF_TEXT = {"pairs": True, "ids_only": True, "max_length": 12}
OF_FILE = {"predictions": 2, "quantize": "dynamic"}
VALUES = {
    **dict.fromkeys(("embed", "tag", "fill-mask", "answer", "predict"), TEXTS),
    "evaluate": LABELLED
    | {"batch_size": None, "predictions": "there", "report": "seen", "submission": "sent"}
    | {"json": True},
    "finetune": LABELLED
    | HOW
    | {"regression": True, "multi_label": True, "head": "original", "force": True}
    | {"group_column": "other"}
    | {
        "test": "rows.csv",
        "dev_fraction": 0.4,
        "vocab": "spiece.model",
        "vocab_size": 40,
        "epochs": 1,
        "steps": 2,
    }
    | {"batch_size": 5, "learning_rate": 0.1, "warmup": 2, "max_length": 8, "dropout": 0.3}
    | {"baseline": True, "seed": 7, "freeze": "embeddings", "class_weights": "balanced"}
    | {"patience": 1},
    "pretrain": HOW
    | {"size": "mini", "init_checkpoint": "encoder", "vocab": "other.model", "dropout": 0.3}
    | {"batch_size": 5, "steps": 2, "warmup_steps": 2, "learning_rate": 0.1, "power": 2}
    | {"schedule": "usual", "seed": 7, "optimizer": "adamw", "beta_2": 0.5, "ema": 0.5}
    | {"eval_data": "records", "eval_steps": 1, "force": True, "jit_compile": None},
    "build-data": CORPUS
    | {"max_seq_length": 16, "max_predictions_per_seq": 2, "masked_lm_prob": 0.4}
    | {"short_seq_prob": 1, "ngram": 2, "favor_shorter_ngram": "false"}
    | {"do_whole_word_mask": "false", "pair_task": "nsp", "random_seed": 7, "shard_bytes": 1024}
    | {"engine": None, "workers": None, "engine_option": "spark.a=b"},
    "build-vocab": CORPUS
    | {"vocab_size": 80, "cased": True, "accents": "drop", "character_coverage": 0.98}
    | {"sample_bytes": 900, "language": "tr"},
    "convert": {"dtype": "float16", "force": True},
    "inspect-data": {"vocab": "other.model", "examples": 1},
    "sizes": {"model": "tiny"},
    "export saved-model": EXPORT
    | OF_TEXT
    | {"max_bytes": 1024, "max_batch": 2, "warmup": "other.txt", "pooling": "cls"}
    | {"normalize": True, "precision": "bfloat16"},
    "export tflite": EXPORT
    | OF_TEXT
    | OF_FILE
    | {"layers": "unrolled", "lengths": 8, "batch": "dynamic", "host": "mediapipe", "choices": 2}
    | {"pooling": "cls", "normalize": True},
    "export onnx": EXPORT | OF_FILE,
    "export web": EXPORT
    | {"pairs": True, "lengths": 8, "quantize": "none", "node_modules": "modules"},
}
SCORES = "--label-column other"
RECORDS = "--vocab spiece.model --workers 1 --output made --max-seq-length 24"
# By command: a line for each way to use it.
LINES = {
    "embed": [[LONG], ["--input", "table.csv"], [LONG, "--output", "there.npy"]],
    "tag": [[LONG], ["--input", "table.csv"]],
    "fill-mask": [[MASKED], ["--input", "table.csv"]],
    "answer": [
        ["--question", "Where?", "--context", LONG, "--top-k", 900],
        ["--input", "questions.jsonl", "--top-k", 900],
        ["--input", "questions.jsonl"],
    ],
    "predict": [
        [LONG],
        ["--input", "table.csv", "--json"],
        ["--input", "table.csv", "--output", "there.csv"],
    ],
    "evaluate": [
        "--model predict --task classify --data rows.csv --report made",
        "--model tag --task tag --data words.jsonl --predictions made",
        f"--model embed --task similarity --data rows.csv --text-pair-column second {SCORES}",
        "--model answer --task squad --data questions.jsonl --predictions made",
    ],
    "finetune": ["--task classify --data rows.csv --model tiny --output made"],
    "pretrain": [
        "--data records --size tiny --steps 3 --warmup-steps 1 --batch-size 4 --output made "
        "--eval-data few"
    ],
    "build-data": [
        f"--input corpus.txt {RECORDS}",
        f"--input texts.jsonl {RECORDS}",
        f"--input corpus.txt {RECORDS} --lines sentences --ngram 1",
    ],
    "build-vocab": [
        "--input corpus.txt --output made --vocab-size 90",
        "--input texts.jsonl --output made --vocab-size 90 --lines sentences",
    ],
    "convert": ["predict made --format hf", "predict made --format tf1"],
    "inspect-data": ["records"],
    "sizes": [""],
    "export saved-model": ["--model predict --output made --no-check"],
    "export tflite": [
        "--model predict --output made --no-check",
        "--model predict --output made --no-check --ids-only",
        "--model predict --output made --no-check --host mediapipe",
        "--model embed --output made --no-check --host mediapipe --pooling mean",
    ],
    "export onnx": ["--model predict --output made --no-check"],
    "export web": ["--model predict --output made --no-check "],
}
SLOW = ("evaluate", "finetune", "pretrain", "build-vocab", "inspect-data", "export")
# Options that ask for what is the case already.
IDLE = {
    ("answer", "unanswerable"): "the best answer may be one",
    ("build-data", "bad_lines"): "all lines are good",
    ("build-vocab", "bad_lines"): "all lines are good",
    ("build-vocab", "lines"): "pieces don't go beyond a word, let alone a sentence",
    ("embed", "json"): "without --output there is nothing but JSON",
    ("evaluate", "skip_bad_rows"): "all rows are good",
    ("export tflite", "max_length"): "it is a number in the graph, which isn't compared here",
    ("finetune", "skip_bad_rows"): "all rows are good",
}
# Files that repeat the options, or have times.
ECHOES = re.compile(r"README\.md|report\.json|options\.yaml|logs|fingerprint\.pb|.*export\.json")


def write_lines(path, rows):
    path.write_text(
        "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8"
    )


@pytest.fixture(scope="module")
def inputs(model_folder, tiny_vocabulary, tmp_path_factory):
    """Returns a folder with the models, files, and records named in the command lines."""
    from albert_tf.text.vocabulary import train_vocabulary

    folder = tmp_path_factory.mktemp("inputs")
    (folder / "spiece.model").write_bytes(tiny_vocabulary)
    (folder / "other.model").write_bytes(train_vocabulary(SENTENCES[:4], vocab_size=150))
    for name in ("answer", "embed", "predict", "tag"):
        (folder / name).symlink_to(model_folder(name))
    (folder / "modules").mkdir()

    (folder / "other.txt").write_text("Who sells bread? [MASK]")
    (folder / "table.csv").write_text(f'text,second\n"{MASKED}",A [MASK] of bread.\n')
    answers = {"text": ["née Rome"], "answer_start": [5]}
    question = {"question": "Where?", "context": LONG, "id": "1", "answers": answers}
    write_lines(folder / "questions.jsonl", [question])

    generator = random.Random(3)
    texts = [
        f"It is. Née {row}. Bzw. No. " + " ".join(generator.choices(SENTENCES, k=3))
        for row in range(16)
    ]
    columns = [
        (text, text[::-1], text[5:], ("bad", "good")[n % 4 > 0], n % 3)
        for n, text in enumerate(texts)
    ]
    names = ("text", "second", "third", "label", "other")
    with (folder / "rows.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([names, *columns])
    words = {
        "words": ["Née", *SENTENCES[0].split()],
        "text": ["Née", "Rome"],
        "second": ["No", "way"],
    }
    tags = {"tags": ["B-PER"] * len(words["words"]), "other": ["B-LOC"] * len(words["words"])}
    write_lines(folder / "words.jsonl", [{**words, **tags}])
    write_lines(folder / "texts.jsonl", [{"text": text, "body": text[9:]} for text in texts])
    for name, some in (("corpus", texts), ("few", texts[:2])):
        text = "\n\n".join(some).replace(" Née", "\nNée")
        (folder / f"{name}.txt").write_text(text, encoding="utf-8")
    for name, made in (("corpus", "records"), ("few", "few")):
        line = f"build-data --input {folder}/{name}.txt --vocab {folder}/spiece.model --workers 1"
        line += f" --max-seq-length 24 --output {folder}/{made}"
        assert cli.main(line.split()) == 0
    return folder


@pytest.fixture
def files(inputs, tmp_path, monkeypatch):
    """Enters a folder with links to the inputs."""
    monkeypatch.chdir(tmp_path)
    for path in inputs.iterdir():
        (tmp_path / path.name).symlink_to(path)
    return tmp_path


def free_options(command):
    """Returns the names of the options that a line may omit."""
    return {
        name
        for name, option in declared(OPTIONS[command]).items()
        if not (option.is_required or option.positional or option.choices == (option.default,))
    }


def content(path):
    """Returns a file's content without the names and numbers that differ from run to run."""
    if path.name == "manifest.json":  # of build-data, whose records are masked later
        options = ExampleOptions.from_dict(json.loads(path.read_text())["settings"]["examples"])
        words = options.do_whole_word_mask, *options.ngram_probabilities
        return options.predictions, options.masked_lm_prob, words
    if path.name == "saved_model.pb":
        graph = SavedModel.FromString(path.read_bytes()).meta_graphs[0].graph_def
        nodes = [node for function in graph.library.function for node in function.node_def]
        return Counter((node.op, str(node.attr["value"])) for node in (*graph.node, *nodes))
    if path.read_bytes()[4:8] == b"TFL3":
        interpreter = Interpreter(str(path))
        tensors = [
            (each["dtype"], *each["shape_signature"]) for each in interpreter.get_tensor_details()
        ]
        with zipfile.ZipFile(path) as archive:
            names = {*archive.namelist()} - {CHECKSUM}
            packed = {name: archive.read(name) for name in names}
        return Counter(tensors), interpreter.get_signature_list(), packed
    if path.name == "settings.json":  # of the page, with checksums
        return re.sub("[0-9]{5,}", "", path.read_text())
    return path.read_bytes()


def test_every_option_has_a_value():
    """A new option needs a value here, and a line with which it changes the result."""
    assert sorted(VALUES) == sorted(LINES) == sorted(OPTIONS)
    for command in OPTIONS:
        unused = VALUES[command].keys() - free_options(command)
        assert free_options(command) <= VALUES[command].keys()
        assert not unused or VALUES[command] is TEXTS


@pytest.mark.parametrize(
    ("command", "line"),
    [
        pytest.param(name, row, marks=[pytest.mark.slow] if name.split()[0] in SLOW else [])
        for name in LINES
        for row in LINES[name]
    ],
)
@pytest.mark.filterwarnings("ignore:Texts of more than .* tokens are truncated")
@pytest.mark.usefixtures("quick_runs", "without_graphs")
def test_an_option_changes_the_result_or_is_refused(request, run, files, command, line):
    line = line.split() if isinstance(line, str) else line
    given = [*command.split(), *line]
    if VALUES[command] is TEXTS:
        run = request.getfixturevalue("ask")
    there = set(files.iterdir())

    def outcome(*options, fresh=True):
        for path in set(files.iterdir()) - there if fresh else ():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        status, output, errors = run(*given, *options)
        assert status in (0, 2) and "Traceback" not in errors
        if status == 2:
            return "refused", errors
        made = {
            str(path): content(path)
            for top in sorted(set(files.iterdir()) - there)
            for path in (sorted(top.rglob("*")) if top.is_dir() else [top])
            if path.is_file() and not any(map(ECHOES.fullmatch, path.relative_to(files).parts))
        }
        return re.sub(r"[\d.,]+ (s|MB/s|MB, SHA-256 \w+)\b", "", output), made

    words = {str(word)[2:].replace("-", "_") for word in line}
    names = free_options(command) - words
    expected, again = outcome(), outcome(fresh=False)
    if "pip install" in expected[1]:
        pytest.skip(expected[1])
    assert expected[0] != "refused", expected[1]
    forced = outcome("--force", fresh=False) if "force" in names else None
    assert expected in (again, forced)  # otherwise anything would count as a change
    without = [(command, "force")] if again == forced else []
    for name in names - {"force"}:
        flag, value = f"--{name.replace('_', '-')}", VALUES[command][name]
        if value is None:
            continue
        if outcome(*([flag] if value is True else [flag, value])) == expected:
            without.append((command, name))
    assert set(without) <= IDLE.keys()
