"""The command line: mistakes are one line and status 2, and streams take any text."""

import errno
import gzip
import io
import json
import logging
import os
import re
import subprocess
import sys
import warnings

import pytest

from albert_tf import cli
from albert_tf.cli import streams
from albert_tf.config import AlbertConfig
from albert_tf.data.options import TASKS
from albert_tf.errors import UserError
from albert_tf.options import Range, declared, flag
from albert_tf.training.options import FinetuningOptions
from tests.cli.conftest import OPTIONS

CLASSIFIER = "AlbertForSequenceClassification"
EVALUATE = "evaluate --model classifier --task classify --data data.csv"
FINETUNE = "finetune --task classify --data data.csv --model tiny --output o"
GLUE = "finetune --data . --model tiny --output o"
PRETRAIN = "pretrain --data data.csv --output o"
TINY = f"{PRETRAIN} --size tiny"
BUILD = "build-data --input folder --vocab x --output o"
EXPORT = "export tflite --model small --output o"


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Makes the current folder, with files of many kinds."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "a.txt").write_text("One.")
    (tmp_path / "binary").write_bytes(b"\x7fELF\0\0\0")
    (tmp_path / "m.tflite").write_bytes(b"TFL3")
    (tmp_path / "cut.gz").write_bytes(gzip.compress(b"One.")[:15])
    (tmp_path / "data.csv").write_text("text,label\none,a\ntwo,b\n")
    (tmp_path / "alike.csv").write_text("text,label\none,a\ntwo,a\n")
    (tmp_path / "pairs.tsv").write_text("one\ttwo\nthree four\n")
    config = {**AlbertConfig.from_size("tiny").to_dict(), "architectures": [CLASSIFIER]}
    (tmp_path / "classifier").mkdir()
    (tmp_path / "classifier" / "model.safetensors").touch()
    (tmp_path / "classifier" / "config.json").write_text(json.dumps(config))
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "options.yaml").touch()
    rte = "sentence1\tsentence2\tlabel\na\tb\t"
    (tmp_path / "train.tsv").write_text(f"{rte}entailment\n")
    (tmp_path / "dev.tsv").write_text(f"{rte}perhaps\n")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("predict --model folder text", "must contain config.json"),
        ("predict --model small text", f"requires an {CLASSIFIER}, but "),
        ("predict --model small --input none", "none, which doesn't exist"),
        ("predict --model small --input folder", "folder, which is a folder"),
        ("predict --model small --input binary", "binary, with a zero byte at offset 4"),
        ("predict --model small --input cut.gz", "cut.gz is not a valid .gz file"),
        ("predict --model classifier --pairs --input pairs.tsv", "pairs.tsv, line 2, 'three four'"),
        ("predict --model small a --pairs --labels b,c", "--labels can't be used with --pairs."),
        ("tag --model classifier text", f"classifier contains an {CLASSIFIER}. Fine-"),
        ("fill-mask --model classifier [MASK]", "requires an AlbertForMaskedLM,"),
        ("answer --model classifier --question a --context b", "an AlbertForQuestionAnswering,"),
        ("answer --model small --question a --input b", "--question can't be used with --input."),
        ("answer --model small --input b --context c", "--context requires --question."),
        ("embed --model small a --output data.csv", "must end in .npy or .jsonl"),
        ("embed --model small a --force", "--force requires --output."),
        ("evaluate --model classifier --task sst2 --data folder", "one file dev.tsv"),
        ("evaluate --model classifier --task rte --data data.csv", "a column 'sentence1'"),
        ("evaluate --model small --task classify --data data.csv", f"requires an {CLASSIFIER}"),
        ("evaluate --model small --task mnli --label-column a --data data.csv", "--task mnli."),
        (f"{EVALUATE} --json --submission o", "--submission can't be used with --json."),
        (f"{EVALUATE} --label-separator ;", "--label-separator requires --multi-label"),
        (f"{EVALUATE} --submission data.csv", "must be a folder. Received: data.csv, a file."),
        (f"{EVALUATE} --report data.csv", "must be a folder. Received: data.csv, a file."),
        (f"{GLUE} --task sst2 --data folder", "one file train.tsv"),
        (f"{GLUE} --task rte", "'perhaps' (dev.tsv, line 2)"),
        (f"{GLUE} --task rte --dev-fraction 0.2", "--dev-fraction splits a single file"),
        (f"{GLUE} --task stsb --class-weights balanced", "--class-weights requires --task cola, "),
        (f"{FINETUNE} --data alike.csv", "all with the label"),
        (f"{FINETUNE} --output folder", "folder contains a.txt, which is not part"),
        (f"{FINETUNE} --output folder --force", "folder contains a.txt, which is not part"),
        (f"{FINETUNE} --output run", "run contains a finished run. Choose another folder, or rep"),
        (f"{FINETUNE} --model none", "Received: none"),
        (f"{FINETUNE} --model m.tflite", "m.tflite is an exported file, which can only be run."),
        (f"{FINETUNE} --vocab none", "vocabulary none"),
        (f"{FINETUNE} --baseline --multi-label", "--baseline can't be used with --multi-label."),
        (f"{FINETUNE} --epochs 2 --steps 3", "--epochs can't be used with --steps"),
        (f"{FINETUNE} --model small --vocab-size 99", "--vocab-size requires training"),
        (f"{FINETUNE} --vocab x --vocab-size 99", "--vocab-size can't be used with --vocab"),
        (f"{FINETUNE} --label-separator ;", "--label-separator requires --multi-label"),
        (f"{FINETUNE} --max-length 9999", "max_length=9999, max_position_embeddings="),
        (f"{FINETUNE} --model small --freeze 99", "a number of layers from 1 to 6. Received: 99."),
        (f"{BUILD} --lines sentences --sentence-splitter a:b", "requires --lines paragraphs."),
        ("pretrain --config folder", "error: folder: Is a"),
        ("pretrain --data data.csv --size tiny --output binary", "Received: binary, a file"),
        ("pretrain --data none --size tiny --output o", "'none'"),
        (f"{PRETRAIN} --size none", "error: none: No"),
        (f"{PRETRAIN} --init-checkpoint none", "Received: none"),
        (f"{PRETRAIN} --init-checkpoint m.tflite", "m.tflite is an exported file"),
        (f"{TINY} --eval-steps 2", "--eval-steps requires --eval-data"),
        (f"{TINY} --batch-size 7 --micro-batches 2", "must be a multiple of micro_batches."),
        (f"{TINY} --dtype-policy bfloat16", "mixed_float16. Received: 'bfloat16'"),
        (f"{TINY} --strategy horovod", "strategy must be auto, none, mirrored, multi-"),
        (f"{TINY} --init-checkpoint x", "--init-checkpoint can't be used with --size"),
        ("export tflite --model none --output o", "Received: none"),
        ("export tflite --model m.tflite --output o", "m.tflite is an exported file"),
        ("export tflite --model small --output folder", "folder is a directory; --force"),
        (
            "export tflite --model small --output binary",
            "binary already exists. Choose another path",
        ),
        ("export saved-model --model small --output folder --force", "folder contains a.txt"),
        ("export web --model small --output folder --force", "folder contains a.txt"),
        (f"{EXPORT} --max-length 9999", "max_length=9999, max_position_embeddings=256."),
        (f"{EXPORT} --lengths 16 --max-length 9", "--lengths can't be used with --max-length."),
        (f"{EXPORT} --lengths 8,8", "duplicates. Received: [8, 8]"),
        (f"{EXPORT} --batch some", "batch must be a whole number or dynamic. Received: 'some"),
        ("export saved-model --model small --output o --warmup none", "file with requests. Rec"),
        ("export saved-model --model small --output o --normalize", "normalize requires pooling."),
        ("convert none o --format hf", "Received: none"),
        ("convert m.tflite o --format hf", "m.tflite is an exported file"),
        ("convert small folder --format hf", "another path, or replace it with --force."),
        ("convert small folder --format hf --force", "folder contains a.txt"),
        ("convert small classifier --format tf1 --force", "classifier contains config.json"),
        ("convert small o --format tf1 --dtype float16", "--dtype requires --format hf."),
    ],
)
@pytest.mark.usefixtures("files")
def test_mistakes_are_found_before_tensorflow_loads(capsys, monkeypatch, line, message):
    def load():
        raise AssertionError("TensorFlow was loaded")

    monkeypatch.setattr(cli, "import_tensorflow", load)
    assert cli.main(line.split()) == 2
    output, errors = capsys.readouterr()
    assert output == ""
    assert errors.startswith("albert-tf: error: ")
    assert errors.count("\n") == 1
    assert message in errors


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (OSError(errno.ENOSPC, "No space left", "a.npy"), "error: a.npy: No space left. Free some"),
        (OSError(errno.EIO, "I/O error"), "error: I/O error."),
        (ConnectionError("no answer"), "ConnectionError: no answer"),
        (MemoryError(), "Out of memory. "),
        (UserError("a \x1b[31mname\nand more"), "a \\x1b[31mname and more"),
    ],
)
def test_errors_are_one_line(capsys, monkeypatch, error, message):
    def fail(options):
        raise error

    monkeypatch.setattr(cli.COMMANDS["sizes"], "run", fail)
    assert cli.main(["sizes"]) == 2
    errors = capsys.readouterr().err
    assert message in errors
    assert errors.count("\n") == 1


@pytest.mark.parametrize("cls", OPTIONS.values(), ids=OPTIONS)
def test_options_check_themselves(cls):
    """Every value is checked, every number has a range, and relations name other options."""
    options = declared(cls)
    least = {
        name: each.choices[0] if each.choices else "1"
        for name, each in options.items()
        if each.is_required
    }
    for name, each in options.items():
        with pytest.raises(UserError, match=f"^{name} must be "):
            cls(**{**least, name: object()})
        assert each.range or each.kind not in (int, float), name
        others = (each.needs, each.instead_of, each.multiple_of, each.below, *each.excludes)
        assert {*filter(None, others), *each.only} <= options.keys(), name
        for other, allowed in each.only.items():
            assert isinstance(allowed, Range) or {*allowed} <= {*options[other].choices}, name


def test_wrong_use_is_status_2(capsys):
    for arguments in (["fintune"], [], ["predict"], ["sizes", "\x1b[31m"]):
        with pytest.raises(SystemExit, match="2"):
            cli.main(arguments)
        errors = capsys.readouterr().err
        assert errors.startswith("albert-tf")
        assert errors.count("\n") == 1
        assert "\x1b" not in errors


def test_the_help_of_one_task(capsys):
    """Lists only the task's options, at most 31; --help without a task lists all."""

    def shown(*arguments):
        with pytest.raises(SystemExit, match="0"):
            cli.main(["finetune", *arguments, "--help"])
        return set(re.findall(r"^ +(--[a-z-]+)", capsys.readouterr().out, re.MULTILINE))

    everything = shown()
    flags = {flag(name): each for name, each in declared(FinetuningOptions).items()}
    assert everything == {*flags, "--config"}
    for task in TASKS:
        found = shown("--task", task)
        assert everything - found == {
            name for name, each in flags.items() if task not in each.only.get("task", TASKS)
        }
        assert task == "classify" or len(found) <= 31


def test_help_lists_the_commands_by_group(capsys):
    with pytest.raises(SystemExit, match="0"):
        cli.main(["--help"])
    output = capsys.readouterr().out
    for title, group in cli.GROUPS.items():
        lines = output.split(f"{title}:\n")[1].splitlines()
        shown = [line.split(maxsplit=1) for line in lines[: len(group)]]
        assert shown == [[name, command.SUMMARY] for name, command in group.items()]


@pytest.mark.slow
def test_nothing_but_our_lines_is_on_stderr():
    """TensorFlow's libraries print up to six lines as they load."""
    command = [sys.executable, "-m", "albert_tf.cli", "fill-mask", "--model", "small", "A [MASK]."]
    environment = {name: os.environ[name] for name in os.environ if name != "TF_CPP_MIN_LOG_LEVEL"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("line", "status", "message"),
    [
        ("sizes | true", 0, ""),
        ("sizes >&-", 0, ""),
        ("--help | true", 0, ""),
        ("sizes --model none >&- 2>&- <&-", 2, ""),
        ("sizes > /dev/full", 2, "error: No space left on device. Free"),
    ],
)
def test_an_output_that_is_closed_or_full(line, status, message):
    script = f"{sys.executable} -m albert_tf.cli {line}; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (status, "")
    assert message in done.stderr
    assert done.stderr.count("\n") == (message != "")


def test_what_the_output_lacks_is_escaped(monkeypatch):
    """Lines of text get backslashes, JSON its own escapes: it means the same."""
    from albert_tf.cli.text_options import print_json, print_row

    for encoding in ("ascii", "latin-1", "utf-8"):
        out = io.TextIOWrapper(io.BytesIO(), encoding)
        monkeypatch.setattr(sys, "stdout", out)
        with streams():
            print_row(["▁naïve", 1])
            print_json({"text": "▁naïve \udce9"})
        text, line = out.buffer.getvalue().decode(encoding).splitlines()
        assert json.loads(line) == {"text": "▁naïve \ufffd"}
        assert text == "▁naïve".encode(encoding, "backslashreplace").decode(encoding) + "\t1"


def test_warnings_and_logs_are_one_line_each(capsys, monkeypatch):
    monkeypatch.setattr(logging.root, "handlers", [])  # without pytest's
    with streams():
        logging.getLogger("albert_tf").warning("label %s", "red \x1b[31m,\nnext")
        warned = warnings.formatwarning("red \x1b[31m,\nnext", UserWarning, "file.py", 1)
    assert warned == r"UserWarning: red \x1b[31m, next" + "\n"
    assert capsys.readouterr().err == r"label red \x1b[31m, next" + "\n"
