import dataclasses
import errno
import gzip
import importlib
import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import albert_tf
from albert_tf import cli
from albert_tf.cli import streams
from albert_tf.config import AlbertConfig
from albert_tf.data.options import TASKS
from albert_tf.errors import UserError
from albert_tf.options import Range, declared, flag
from albert_tf.training.options import FinetuningOptions

CLASSIFIER = "AlbertForSequenceClassification"
FINETUNE = "finetune --task classify --data data.csv --output o"


@pytest.fixture
def without_tensorflow(monkeypatch):
    """Fails where a command loads TensorFlow."""

    def load():
        raise AssertionError("TensorFlow was loaded")

    monkeypatch.setattr(cli, "import_tensorflow", load)


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Makes the current folder, with files of many kinds."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "a.txt").write_text("One.")
    (tmp_path / "latin.txt").write_bytes(b"d\xe9j\xe0")
    (tmp_path / "utf-16.txt").write_text("One.", encoding="utf-16")
    (tmp_path / "binary").write_bytes(b"\x7fELF\0\0\0")
    (tmp_path / "cut.gz").write_bytes(gzip.compress(b"One.")[:15])
    (tmp_path / "data.csv").write_text("text,label\none,a\ntwo,b\n")
    (tmp_path / "alike.csv").write_text("text,label\none,a\ntwo,a\n")
    (tmp_path / "pairs.tsv").write_text("one\ttwo\nthree four\n")
    (tmp_path / "classifier").mkdir()
    (tmp_path / "classifier" / "model.safetensors").write_bytes(b"")
    config = {**AlbertConfig.from_size("tiny").to_dict(), "architectures": [CLASSIFIER]}
    (tmp_path / "classifier" / "config.json").write_text(json.dumps(config))
    rte = "sentence1\tsentence2\tlabel\na\tb\t"
    for name, label in (("train", "entailment"), ("dev", "perhaps")):
        (tmp_path / f"{name}.tsv").write_text(f"{rte}{label}\n")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("predict --model folder text", "must hold config.json"),
        ("predict --model none text", "neither a directory here nor such a name"),
        ("predict --model small", "Texts come as arguments or with --input"),
        ("predict --model small --input none", "none, which doesn't exist"),
        ("predict --model small --input folder", "folder, which is a folder"),
        ("predict --model small --input utf-16.txt", "begins as UTF-16 or UTF-32 does"),
        ("predict --model small --input binary", "binary, with a zero byte at 4"),
        ("predict --model small --input cut.gz", "must be whole gzip. Received: cut.gz"),
        ("predict --model classifier --pairs one", "with a tab between. Received: 'one'"),
        (
            "predict --model classifier --pairs --input pairs.tsv",
            "Received: pairs.tsv, line 2, 'three four'",
        ),
        ("predict --model small text", f"must have an {CLASSIFIER}. Received: "),
        ("tag --model classifier text", f"Received: classifier, which has {CLASSIFIER}. Fine-"),
        ("fill-mask --model classifier [MASK]", "must have an AlbertForMaskedLM."),
        (
            "answer --model classifier --question a --context b",
            "must have an AlbertForQuestionAnswering.",
        ),
        ("embed --model small a --output data.csv", "must end in .npy or .jsonl"),
        ("evaluate --model classifier --task sst2 --data folder", "one file dev.tsv"),
        ("evaluate --model classifier --task rte --data data.csv", "a column 'sentence1'"),
        ("evaluate --model classifier --task sst2 --data dev.tsv", "have a column 'sentence'"),
        (
            "evaluate --model small --task classify --data data.csv",
            "must have an AlbertForSequenceClassification",
        ),
        ("finetune --task sst2 --data folder --model tiny --output o", "one file train.tsv"),
        ("finetune --task rte --data . --model tiny --output o", "'perhaps', dev.tsv, line 2"),
        ("finetune --task classify --data alike.csv --model tiny --output o", "all with the label"),
        ("finetune --task classify --data data.csv --model none --output o", "Received: none"),
        (
            "finetune --task classify --data data.csv --model tiny --output folder",
            "must be new",
        ),
        ("embed --model small a --force", "--force needs --output."),
        (f"{FINETUNE} --model tiny --baseline --multi-label", "--baseline excludes --multi-label."),
        (
            "finetune --task stsb --data . --model tiny --output o --class-weights balanced",
            "--class-weights needs --task cola, ",
        ),
        (
            "evaluate --model small --task classify --data data.csv --json --submission o",
            "--submission excludes --json.",
        ),
        ("answer --model small --question a --input b", "--question excludes --input."),
        ("answer --model small --input b --context c", "--context needs --question."),
        (
            "predict --model small a --pairs --labels b,c",
            "--labels excludes --pairs.",
        ),
        (f"{FINETUNE} --model tiny --epochs 2 --steps 3", "--epochs excludes --steps"),
        (f"{FINETUNE} --model small --vocab-size 99", "--vocab-size is for random weights"),
        (f"{FINETUNE} --model tiny --vocab x --vocab-size 99", "--vocab-size excludes --vocab"),
        (f"{FINETUNE} --model tiny --label-separator ;", "--label-separator needs several labels"),
        (
            "finetune --task rte --data . --model tiny --output o --dev-fraction 0.2",
            "--dev-fraction divides a single file; folders and the hub have dev.",
        ),
        (
            "evaluate --model classifier --task classify --data data.csv --label-separator ;",
            "--label-separator needs several labels",
        ),
        (
            "pretrain --data data.csv --size tiny --output o --eval-steps 2",
            "--eval-steps needs --eval-data",
        ),
        (
            "build-data --input folder --vocab x --output o --lines sentences "
            "--sentence-splitter a:b",
            "--sentence-splitter needs --lines paragraphs. Received: --lines sentences.",
        ),
        ("pretrain --data data.csv --size tiny --output binary", "Received: binary, a file"),
        ("pretrain --data none --size tiny --output o", "'none', which matches no file"),
        (
            "pretrain --data data.csv --size none --output o",
            "A file must exist. Received: none: No",
        ),
        ("pretrain --data data.csv --init-checkpoint none --output o", "Received: none"),
        (
            "pretrain --data data.csv --size tiny --output o --dtype-policy bfloat16",
            "mixed_bfloat16 or mixed_float16. Received: 'bfloat16'.",
        ),
        (
            "pretrain --data data.csv --size tiny --output o --strategy horovod",
            "strategy must be auto, none, mirrored, multi-worker or tpu. Received: 'horovod'",
        ),
        ("export tflite --model none --output o", "Received: none"),
        ("export tflite --model small --output folder", "must not exist yet. Received: folder"),
        ("convert none o --format hf", "Received: none"),
        ("convert small folder --format hf", "must not exist yet. Received: folder"),
        (
            "evaluate --model small --task mnli --label-column a --data data.csv",
            "--task classify, tag, choices or similarity. Received: --task mnli.",
        ),
        (
            "evaluate --model small --task classify --data data.csv --submission data.csv",
            "The output must be a folder. Received: data.csv, a file.",
        ),
        (
            "evaluate --model classifier --task classify --data data.csv --report data.csv",
            "The output must be a folder. Received: data.csv, a file.",
        ),
        (
            "finetune --task classify --data data.csv --model tiny --output o --max-length 9999",
            "Received: max_length=9999, max_position_embeddings=",
        ),
        (
            "finetune --task classify --data data.csv --model small --output o --freeze 99",
            "a number of layers from 1 to 6. Received: 99.",
        ),
        (
            "finetune --task classify --data data.csv --model tiny --output o --vocab none",
            "Received: none",
        ),
        (
            "pretrain --data data.csv --size tiny --output o --batch-size 7 --micro-batches 2",
            "a multiple of micro_batches. Received: batch_size=7, micro_batches=2.",
        ),
        (
            "export tflite --model small --output o --max-length 9999",
            "Received: max_length=9999, max_position_embeddings=256.",
        ),
        (
            "export tflite --model small --output o --lengths 16 --max-length 9",
            "--lengths excludes --max-length.",
        ),
        ("export tflite --model small --output o --lengths 8,8", "lengths must be different whole"),
        ("export saved-model --model small --output o --normalize", "normalize needs a pooling."),
        (
            "convert small o --format tf1 --dtype float16",
            "--dtype needs --format hf. Received: --format tf1.",
        ),
        ("sizes --model none", "Received: none"),
        (
            "pretrain --config folder",
            "A file must not be a folder. Received: folder: Is a directory",
        ),
        (
            "predict --model small --batch-size 9999999999",
            "batch_size must be 2,147,483,647 or less",
        ),
    ],
)
@pytest.mark.usefixtures("without_tensorflow", "files")
def test_mistakes_are_found_before_tensorflow_loads(capsys, line, message):
    assert cli.main(line.split()) == 2
    output, errors = capsys.readouterr()
    assert output == ""
    assert errors.startswith("albert-tf: error: ")
    assert errors.count("\n") == 1
    assert message in errors


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (
            OSError(errno.ENOSPC, "No space left on device", "a.npy"),
            "have room. Received: a.npy: No",
        ),
        (OSError(errno.EIO, "I/O error"), "A file must be readable and writable. Received: I/O"),
        (ConnectionError("no answer"), "ConnectionError: no answer"),
        (MemoryError(), "must fit into memory. Received: no memory left."),
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


def test_options_check_themselves():
    """Each class of options converts and checks its values when it is made."""
    classes = {
        value
        for path in Path(albert_tf.__file__).parent.rglob("*.py")
        if "tests" not in path.parts and "option(" in path.read_text(encoding="utf-8")
        for value in vars(_module(path)).values()
        if isinstance(value, type)
        and dataclasses.is_dataclass(value)
        and any("help" in field.metadata for field in dataclasses.fields(value))
    }
    assert len(classes) > 20
    for cls in classes:
        values = {
            each.name: each.choices[0] if each.choices else "1"
            for each in declared(cls).values()
            if each.is_required
        }
        for each in declared(cls).values():
            with pytest.raises(UserError, match=f"^{each.name} must be "):
                cls(**{**values, each.name: object()})


def _module(path):
    name = path.relative_to(Path(albert_tf.__file__).parents[1]).with_suffix("")
    return importlib.import_module(".".join(name.parts))


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_every_number_has_a_range(name):
    forms = cli.COMMANDS[name].OPTIONS
    forms = forms.values() if isinstance(forms, dict) else [forms]
    options = [option for form in forms for option in declared(form).values()]
    assert [each.name for each in options if each.kind in (int, float) and not each.range] == []


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_relations_name_options_and_their_values(name):
    forms = cli.COMMANDS[name].OPTIONS
    for form in forms.values() if isinstance(forms, dict) else [forms]:
        options = declared(form)
        for each in options.values():
            others = (each.needs, each.instead_of, each.multiple_of, each.below, *each.excludes)
            assert {*filter(None, others), *each.only} <= options.keys()
            for other, allowed in each.only.items():
                assert isinstance(allowed, Range) or {*allowed} <= {*options[other].choices}


def test_wrong_use_is_status_2(capsys):
    for arguments in (["fintune"], [], ["predict"], ["sizes", "\x1b[31m"]):
        with pytest.raises(SystemExit, match="2"):
            cli.main(arguments)
        errors = capsys.readouterr().err
        assert errors.startswith("albert-tf")
        assert errors.count("\n") == 1
        assert "\x1b" not in errors


def test_the_help_of_one_task(capsys):
    """Lists the options that go with the task, at most 30; --help alone lists all."""

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
        assert task == "classify" or len(found) <= 30


def test_version_and_help_need_no_tensorflow():
    code = """
import contextlib, sys
from albert_tf import cli
from albert_tf.config import AlbertConfig
from albert_tf.data.options import TASKS
from albert_tf.errors import UserError
from albert_tf.options import Range, declared, flag
from albert_tf.training.options import FinetuningOptions
for option in ("--version", "--help"):
    with contextlib.suppress(SystemExit):
        cli.main([option])
assert not {"keras", "tensorflow"} & sys.modules.keys()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for title, group in cli.GROUPS.items():
        lines = done.stdout.split(f"{title}:\n")[1].splitlines()
        shown = [line.split(maxsplit=1) for line in lines[: len(group)]]
        assert shown == [[name, command.SUMMARY] for name, command in group.items()]


@pytest.mark.slow
def test_nothing_but_our_lines_is_on_stderr(tmp_path):
    """TensorFlow's libraries print up to six lines as they load."""
    command = [
        sys.executable,
        "-m",
        "albert_tf.cli",
        "fill-mask",
        "--model",
        "small",
        "The [MASK].",
    ]
    environment = {name: os.environ[name] for name in os.environ if name != "TF_CPP_MIN_LOG_LEVEL"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("line", "status"), [("sizes", 0), ("--help", 0), ("sizes --model none", 2)]
)
@pytest.mark.parametrize("end", ["| true", ">&-", ">&- 2>&- <&-"])
def test_a_closed_output_ends_quietly(line, status, end):
    command = f"{sys.executable} -m albert_tf.cli {line} {end}"
    script = f"{command}; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (status, "")
    assert (done.stderr == "") == (status == 0 or "2>&-" in end)


def test_a_full_disk_is_told_in_one_line():
    command = f"{sys.executable} -m albert_tf.cli sizes > /dev/full"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    expected = "albert-tf: error: The disk must have room. Received: No space left on device."
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert done.stderr.startswith(expected)


def test_what_the_output_lacks_is_escaped(monkeypatch):
    """Lines of text get backslashes, JSON its own escapes: it means the same."""
    from albert_tf.commands.text_options import print_json, print_row

    for encoding in ("ascii", "latin-1", "utf-8"):
        out = io.TextIOWrapper(io.BytesIO(), encoding)
        monkeypatch.setattr(sys, "stdout", out)
        with streams():
            print_row(["▁naïve", 1])
            print_json({"text": "▁naïve \udce9"})
        text, line = out.buffer.getvalue().decode(encoding).splitlines()
        assert json.loads(line) == {"text": "▁naïve \ufffd"}
        shown = "▁naïve" if encoding == "utf-8" else "▁naïve".encode(encoding, "backslashreplace")
        assert text == (shown if isinstance(shown, str) else shown.decode(encoding)) + "\t1"


def test_warnings_and_logs_are_one_line_each():
    code = """
import logging, warnings
from albert_tf.cli import streams
with streams():
    warnings.warn("red \\x1b[31m,\\nnext")
    logging.getLogger("albert_tf").warning("label %s", "red \\x1b[31m,\\nnext")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stderr.splitlines() == [
        r"UserWarning: red \x1b[31m, next",
        r"label red \x1b[31m, next",
    ]
