"""`albert-tf build-vocab`: from text to a vocabulary that is the same for the same seed."""

import functools
import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from albert_tf.text import vocabulary
from albert_tf.text.model_file import describe
from albert_tf.text.tokenizer import AlbertTokenizer

ROOT = Path(__file__).resolve().parents[2]
LANGUAGES = ROOT / "tests" / "languages"
CAFE = "The café was open on a cold and rainy morning.\n" * 50
# Runs a command as `albert-tf` does, and fails if that imported TensorFlow.
FRESH = """
import sys
from albert_tf.cli import main
from tests.cli.test_build_vocab import compile_few_rules, vocabulary
vocabulary.compile_rules = compile_few_rules
main()
assert "tensorflow" not in sys.modules
"""
compile_rules = vocabulary.compile_rules.__wrapped__  # without a cache


def compile_few_rules(charsmap, normalization):
    """Compiles the rules only for the letters from Latin to Hebrew, which saves seconds."""
    with pytest.MonkeyPatch.context() as patch:
        letters = set(map(chr, range(1, 0x600)))
        patch.setattr(vocabulary, "_assigned_characters", lambda: letters)
        return compile_rules(b"", normalization)


@pytest.fixture
def run(run, monkeypatch):
    monkeypatch.setattr(vocabulary, "compile_rules", compile_few_rules)
    return functools.partial(run, "build-vocab")


@pytest.fixture
def corpus(tmp_path):
    """Returns a folder with 300 sentences in French and English: plain text, gzip and JSONL."""
    folder = tmp_path / "corpus"
    folder.mkdir()
    towns = ["Paris", "Orléans", "Québec", "Århus", "York", "Leeds", "Kyōto", "Zürich"]
    rows = [
        f"In {1000 + row} the town of {towns[row % 8]} had {row * 37} houses. Été came late."
        for row in range(300)
    ]
    (folder / "a.txt").write_text("\n\n".join(rows[:100]))
    (folder / "b.txt.gz").write_bytes(gzip.compress("\n\n".join(rows[100:200]).encode()))
    (folder / "c.jsonl").write_text("\n".join(json.dumps({"body": row}) for row in rows[200:]))
    return folder


def test_a_vocabulary(run, corpus, tmp_path):
    output = tmp_path / "new" / "spiece.model"
    words = ("--input", corpus, "--text-field", "body", "--vocab-size", 120, "--output", output)
    status, printed, errors = run(*words, "--accents", "drop")
    assert status == 0, errors
    tokenizer = AlbertTokenizer(output)
    first = ["<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]", *vocabulary.USER_DEFINED_PIECES]
    assert tokenizer.vocab_size == 120
    assert tokenizer.convert_ids_to_tokens([*range(13)]) == first
    baked = describe(output)
    assert (baked.lower_case, baked.keep_accents) == (True, False)
    assert tokenizer.tokenize("ORLÉANS") == tokenizer.tokenize("orleans")
    read, sampled, accents, case, _ = printed.splitlines()
    assert read.startswith("read     3 files, ")
    assert sampled.startswith("sampled  300 passages, ")
    assert accents == "accents  dropped, which changes 13.56% of the words and merges 0.00%"
    assert case == "case     lowercased, which changes 25.00% of the words and merges 0.00%"


def test_a_text_with_fewer_pieces(run, tmp_path):
    (tmp_path / "a.txt").write_text(CAFE)
    words = ("--input", tmp_path / "a.txt", "--output", tmp_path / "spiece.model")
    status, printed, _ = run(*words, "--vocab-size", 2000)
    made, note = printed.splitlines()[-2:]
    pieces = AlbertTokenizer(tmp_path / "spiece.model").vocab_size
    assert status == 0 and f", {pieces} pieces, " in made
    assert f"only {pieces} of the 2,000 pieces" in note


@pytest.mark.parametrize(
    ("language", "shares"),
    [
        ("vi", "88.58% of the words and merges 10.86% (thực, thức, thúc; có, cơ; tự, tư, từ)"),
        ("ja", "5.00% of the words and merges 2.35% (て, で; か, が; は, ば, ぱ)"),
    ],
)
def test_accents_are_kept_where_words_have_them(run, tmp_path, language, shares):
    text, output = LANGUAGES / f"{language}.txt", tmp_path / "spiece.model"
    words = ("--input", text, "--language", language, "--vocab-size", 600, "--output", output)
    _, _, accents, *_ = run(*words)[1].splitlines()
    assert accents == f"accents  kept; dropping them changes {shares}"
    assert describe(output).keep_accents


def test_accents_are_dropped_where_they_are_rare(run, tmp_path):
    (tmp_path / "a.txt").write_text(CAFE)
    (tmp_path / "b.txt").write_text("A dog barked at the man who came home late.\n" * 3000)
    run("--vocab-size", 60, "--output", tmp_path / "spiece.model", "--input", tmp_path / "*.txt")
    assert not describe(tmp_path / "spiece.model").keep_accents


@pytest.mark.slow
def test_turkish_letters(run, tmp_path):
    output = tmp_path / "spiece.model"
    words = ("--input", LANGUAGES / "tr.txt", "--vocab-size", 600, "--output", output, "--force")
    for options, expected in (
        (("--language", "tr", "--lines", "sentences"), "ısparta istanbul"),
        (("--language", "en"), "isparta i̇stanbul"),
    ):
        run(*words, *options)
        tokenizer = AlbertTokenizer(output)
        ids = tokenizer("ISPARTA İSTANBUL", add_special_tokens=False)["input_ids"]
        assert tokenizer.decode(ids) == expected
        decomposed = tokenizer("ISPARTA I\u0307STANBUL", add_special_tokens=False)["input_ids"]
        assert decomposed == ids
    run(*words, "--language", "tr", "--cased")
    assert not describe(output).turkish_i


def test_the_same_input_gives_the_same_bytes(run, corpus, tmp_path):
    """Repeats it without TensorFlow, in a fresh process, whose sets have a different order."""
    words = ["--input", corpus / "?.txt*", "--sample-bytes", 9000, "--vocab-size", 150, "--output"]
    run(*words, tmp_path / "1.model")
    again = [sys.executable, "-c", FRESH, "build-vocab", *words, tmp_path / "2.model"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run([str(word) for word in again], env=environment, check=True)
    assert (tmp_path / "1.model").read_bytes() == (tmp_path / "2.model").read_bytes()


def test_bad_lines(run, corpus, tmp_path):
    (corpus / "a.txt").open("ab").write(b"\n\nl'\xe9t\xe9\n")
    words = ("--input", corpus / "a.txt", "--vocab-size", 90, "--output", tmp_path / "a.model")
    status, _, errors = run(*words)
    assert status == 2 and "a.txt, line 201: the byte 0xe9" in errors
    assert "1 invalid line skipped" in run(*words, "--bad-lines", "skip")[1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--language tr --lines sentences --cased", "--lines paragraphs"),
        ("--text-field body", "Received: --text-field body"),
        ("--sample-bytes 1", "bytes of text, and --sample-bytes 1."),
        ("--output corpus/a.txt --force", "corpus/a.txt would replace the input"),
    ],
)
def test_mistakes(run, corpus, monkeypatch, options, message):
    monkeypatch.chdir(corpus.parent)
    before = (corpus / "a.txt").read_bytes()
    line = "--input corpus/a.txt --output a.model --vocab-size 40"
    status, _, errors = run(*line.split(), *options.split())
    assert status == 2 and message in errors
    assert (corpus / "a.txt").read_bytes() == before
    assert [path.name for path in corpus.parent.iterdir()] == ["corpus"]
