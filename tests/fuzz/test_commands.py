"""Every command line ends with status 0, or with status 2 and a one-line message."""

import contextlib
import gzip
import io
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from albert_tf import cli
from albert_tf.cli import export
from albert_tf.options import declared
from albert_tf.text import vocabulary

# Valid but for the paths, which lie in the current folder.
LINES = [
    "build-vocab --input corpus.txt --output made.model --vocab-size 30 --sample-bytes 1000",
    "build-data --input corpus.txt --output examples --vocab small --workers 1",
    "inspect-data records.tfrecord --vocab small --examples 1",
    "pretrain --data corpus.txt --size tiny --output run --steps 9 --warmup-steps 2",
    "finetune --task classify --data data.csv --model tiny --output run --steps 2",
    "predict --model small --input corpus.txt --batch-size 4 --json",
    "fill-mask --model small [MASK] --top-k 2",
    "answer --model small --question who --context here --top-k 2",
    "tag --model small --input corpus.txt --aggregation max",
    "embed --model small --input corpus.txt --output vectors.npy",
    "evaluate --model small --task classify --data data.csv --batch-size 3",
    "export tflite --model small --output model.tflite --max-length 16 --quantize float16",
    "convert small converted --format hf --dtype float16",
    "sizes --model tiny",
]
NUMBERS = ["-1", "0", "1", "1.5", "nan", "-inf", "1e400", "9" * 30, "9" * 5000, "0x10", "\u0663"]
PATHS = ["", ".", "none", "folder", "corpus.txt", "utf-16.txt", "binary", "cut.gz", "data.csv"]
PATHS += ["/dev/null", "corpus.txt/x", "*", "[", "~", "~nobody/x", "../../x", "-", "no-such://x"]
WORDS = ["true", "small", "tiny", "os:system", "a" * 3000, "a\nb", "\x1b[31m", "\u202e", "\udce9"]


OPTIONS = [command.OPTIONS for command in cli.COMMANDS.values() if command is not export]
OPTIONS += export.OPTIONS.values()
FLAGS = sorted({f"--{name}" for each in OPTIONS for name in declared(each)})
FLAGS += ["--config", "--no-check", "--nothing", "-x"]
ARGUMENTS = st.sampled_from([*NUMBERS, *PATHS, *WORDS, *FLAGS, *cli.COMMANDS])


@st.composite
def command_lines(draw):
    """Draws a valid line, then drops, doubles, replaces and adds some of its arguments."""
    words = draw(st.sampled_from(LINES)).split()
    for _ in range(draw(st.integers(0, 3))):
        place = draw(st.integers(1, len(words)))
        new = draw(st.sampled_from([(), tuple(words[place : place + 1] * 2), None]))
        words[place : place + 1] = draw(st.tuples(ARGUMENTS)) if new is None else new
        if draw(st.booleans()):
            words[place:place] = draw(st.tuples(st.sampled_from(FLAGS), ARGUMENTS))
    return words


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Creates files of many kinds in the current folder. Commands end when they load TensorFlow."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(cli, "import_tensorflow", lambda: None)
    monkeypatch.setattr(vocabulary, "rules_for", lambda charsmap, _: charsmap)  # saves seconds
    for name, command in cli.COMMANDS.items():
        if name != "build-vocab":
            monkeypatch.setattr(command, "run", lambda options: 0)
    text = "A boat left. It was calm.\n\nShe sells bread and coffee.\n" * 9
    (tmp_path / "folder").mkdir()
    (tmp_path / "corpus.txt").write_text(text)
    (tmp_path / "utf-16.txt").write_text(text, encoding="utf-16")
    (tmp_path / "binary").write_bytes(os.urandom(999))
    (tmp_path / "cut.gz").write_bytes(gzip.compress(os.urandom(999))[:500])
    (tmp_path / "data.csv").write_text("text,label\nhello,a\nyou,b\nthere,a\n")
    return tmp_path


@given(words=command_lines())
def test_command_lines(folder, words):
    output, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
        try:
            status = cli.main(words)
        except SystemExit as end:
            status = end.code
    lines = errors.getvalue().splitlines()
    assert status in (0, 2), (words, lines)
    if status == 2:
        said = [line for line in lines if line.startswith("albert-tf") and ": error: " in line]
        assert said == lines[-1:], (words, lines)
        assert lines[-1].isprintable(), (words, lines)
