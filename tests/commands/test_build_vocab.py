"""`albert-tf build-vocab`: from text to a vocabulary that is the same for the same seed."""

import gzip
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import sentencepiece

from albert_tf import cli
from albert_tf.commands import build_vocab
from albert_tf.errors import UserError
from albert_tf.text.model_file import describe
from albert_tf.text.tokenizer import AlbertTokenizer
from albert_tf.text.vocabulary import USER_DEFINED_PIECES

LANGUAGES = Path(__file__).resolve().parents[1] / "languages"


def build(*words):
    return build_vocab.run(cli._parsed(["build-vocab", *map(str, words)])[1])


def build_elsewhere(*words):
    """Runs the command in a fresh process; returns the modules that it loads."""
    code = (
        "import sys; sys.path.insert(0, sys.argv.pop(1)); from test_build_vocab import build;"
        "build(*sys.argv[1:]); print(*sys.modules)"
    )
    folder = Path(__file__).parent
    process = subprocess.run(
        [sys.executable, "-c", code, folder, *map(str, words)],
        check=True,
        capture_output=True,
        text=True,
    )
    return process.stdout.splitlines()[-1].split()


def pieces(path):
    processor = sentencepiece.SentencePieceProcessor(model_file=str(path))
    return [processor.id_to_piece(index) for index in range(processor.get_piece_size())]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--language", "de", "--lines", "sentences"], "--language needs --lines paragraphs"),
        (["--language", "tr", "--lines", "sentences", "--cased"], "--language needs --lines"),
        (
            ["--text-field", "body"],
            "--text-field needs .*jsonl.*Received: --text-field body with .*a.txt",
        ),
    ],
)
def test_options_that_would_change_nothing_are_refused(tmp_path, options, message):
    (tmp_path / "a.txt").write_text("A boat left. It was calm.")
    line = ["--input", tmp_path / "a.txt", "--output", tmp_path / "made", "--vocab-size", 40]
    with pytest.raises(UserError, match=message):
        build(*line, *options)


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


def test_a_vocabulary(corpus, tmp_path, capsys):
    output = tmp_path / "new" / "spiece.model"
    words = ("--input", corpus, "--text-field", "body", "--vocab-size", 120, "--output", output)
    assert build(*words, "--accents", "drop") == 0
    vocabulary = pieces(output)
    assert len(vocabulary) == 120
    assert vocabulary[:5] == ["<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"]
    assert vocabulary[5:13] == list(USER_DEFINED_PIECES)
    baked = describe(output)
    assert (baked.lower_case, baked.keep_accents) == (True, False)
    tokenizer = AlbertTokenizer(output)
    assert tokenizer.tokenize("ORLÉANS") == tokenizer.tokenize("orleans")
    read, sampled, accents, case, made = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"read     3 files, 1\d,\d{3} bytes of text", read)
    assert re.fullmatch(r"sampled  300 passages, 1\d,\d{3} bytes", sampled)
    assert accents == "accents  dropped, which changes 13.56% of the words and merges 0.00%"
    assert case == "case     lower-cased, which changes 25.00% of the words and merges 0.00%"
    assert re.fullmatch(r"made     .*spiece.model, 120 pieces, sha256 [0-9a-f]{12}", made)


ACCENTS = {
    "vi": "88.58% of the words and merges 10.86% (thực, thức, thúc; có, cơ; tự, tư, từ)",
    "ja": "5.00% of the words and merges 2.35% (て, で; か, が; は, ば, ぱ)",
    "ru": "7.70% of the words and merges 0.13% (отношении, отношений; территории, территорий)",
    "hi": "27.03% of the words and merges 0.15% (क़ानून, कानून)",
}


@pytest.mark.parametrize("language", sorted(ACCENTS))
def test_accents_are_kept_where_words_have_them(tmp_path, capsys, language):
    text, output = LANGUAGES / f"{language}.txt", tmp_path / "spiece.model"
    words = ("--input", text, "--language", language, "--vocab-size", 600, "--output", output)
    build(*words)
    _, _, accents, *_ = capsys.readouterr().out.splitlines()
    assert accents == f"accents  kept; dropping them changes {ACCENTS[language]}"
    assert describe(output).keep_accents


def test_accents_are_dropped_where_they_are_rare(tmp_path):
    (tmp_path / "a.txt").write_text("The café was open on a cold and rainy morning.\n" * 50)
    (tmp_path / "b.txt").write_text("A dog barked at the man who came home late.\n" * 3000)
    output = tmp_path / "spiece.model"
    for inputs, kept in ((["a.txt"], True), (["a.txt", "b.txt"], False)):
        files = [tmp_path / name for name in inputs]
        build("--vocab-size", 60, "--output", output, "--force", "--input", *files)
        assert describe(output).keep_accents is kept


@pytest.mark.slow
def test_turkish_letters(tmp_path):
    output = tmp_path / "spiece.model"
    words = ("--input", LANGUAGES / "tr.txt", "--vocab-size", 600, "--output", output)
    for options, expected in (
        (("--language", "tr", "--lines", "sentences"), "ısparta istanbul"),
        (("--language", "en"), "isparta i̇stanbul"),
    ):
        build(*words, *options, "--force")
        tokenizer = AlbertTokenizer(output)
        ids = tokenizer("ISPARTA İSTANBUL", add_special_tokens=False)["input_ids"]
        assert tokenizer.decode(ids) == expected
        decomposed = tokenizer("ISPARTA I\u0307STANBUL", add_special_tokens=False)["input_ids"]
        assert decomposed == ids
    build(*words, "--language", "tr", "--cased", "--force")
    assert not describe(output).turkish_i


def test_the_same_input_gives_the_same_bytes(corpus, tmp_path):
    """Repeats it in a fresh process, whose sets have another order, and without TensorFlow."""
    words = ["--input", corpus / "?.txt*", "--sample-bytes", 9000, "--vocab-size", 150, "--output"]
    outputs = [tmp_path / name for name in ("1.model", "2.model")]
    build(*words, outputs[0])
    assert "tensorflow" not in build_elsewhere(*words, outputs[1])
    one, two = (path.read_bytes() for path in outputs)
    assert one == two


def test_a_sample_is_drawn(corpus, tmp_path, capsys):
    output = tmp_path / "spiece.model"
    build("--input", corpus / "a.txt", "--sample-bytes", 3000, "--output", output)
    _, sampled, _, _, made = capsys.readouterr().out.splitlines()
    size = int(sampled.split()[3].replace(",", ""))
    assert 2500 < size <= 3000
    made_pieces = int(made.split()[-4].replace(",", ""))
    assert made_pieces == len(pieces(output)) < 30_000, "as many as the text has"


def test_bad_lines(corpus, tmp_path, capsys):
    (corpus / "a.txt").open("ab").write(b"\n\nl'\xe9t\xe9\n")
    words = ("--input", corpus / "a.txt", "--vocab-size", 90, "--output", tmp_path / "a.model")
    with pytest.raises(UserError, match="a.txt, line 201: the byte 0xe9"):
        build(*words)
    assert not (tmp_path / "a.model").exists()
    assert build(*words, "--bad-lines", "skip") == 0
    assert "bytes of text, 1 bad line skipped" in capsys.readouterr().out


def test_the_input_is_never_replaced(corpus):
    before = (corpus / "a.txt").read_bytes()
    for output in (corpus / "a.txt", corpus):
        with pytest.raises(UserError, match="must not be the input's folder"):
            build("--input", corpus / "a.txt", "--output", output, "--force")
    assert (corpus / "a.txt").read_bytes() == before


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--vocab-size", 10), "could not train.*vocab_size=10;"),
        (("--character-coverage", 3), "character_coverage must be between 0.98 and 1"),
        (("--sample-bytes", 1), "needs text. Received: 1 file with .* bytes of it, and --sample-b"),
        (("--input", "none*.txt"), "'none.*.txt', which matches no file"),
    ],
)
def test_mistakes(corpus, tmp_path, more, message):
    with pytest.raises(UserError, match=message):
        build("--input", corpus / "a.txt", "--output", tmp_path / "a.model", *more)
    assert [path.name for path in tmp_path.iterdir()] == ["corpus"]
