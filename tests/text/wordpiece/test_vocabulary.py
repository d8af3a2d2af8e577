"""Reading WordPiece vocabularies, and refusing other files."""

import json

import pytest

from albert_tf.errors import UserError
from albert_tf.text.wordpiece.vocabulary import Vocabulary


def test_reads_lines(vocab_text, tmp_path):
    (tmp_path / "vocab.txt").write_bytes(vocab_text().encode())
    vocabulary = Vocabulary.read(tmp_path / "vocab.txt", {})
    assert vocabulary.special.ids == (0, 100, 101, 102, 103)
    assert vocabulary.pieces[0] == "[PAD]"
    assert bytes(vocabulary) == vocab_text().encode()
    windows = vocab_text().replace("\n", "\r\n").rstrip().encode()
    assert Vocabulary.read(windows, {}) == vocabulary


def test_line_separators_that_are_pieces():
    """U+2028 and U+0085 do not end a line: BERT's vocabularies have such pieces."""
    content = "[PAD]\n\u2028\n\x85\n\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n".encode()
    vocabulary = Vocabulary.read(content, {})
    assert vocabulary.pieces[1:5] == ("\u2028", "\x85", "", "[UNK]")


def test_a_repeated_piece_has_the_last_id(vocab_text):
    vocabulary = Vocabulary.read((vocab_text() + "[SEP]\n").encode(), {})
    assert vocabulary.special.ids[3] == len(vocabulary.pieces) - 1


def test_reads_tokenizer_json(vocab_text, tmp_path):
    lines = Vocabulary.read(vocab_text().encode(), {})
    path = tmp_path / "tokenizer.json"
    ids = {piece: index for index, piece in reversed(list(enumerate(lines.pieces)))}
    path.write_text(json.dumps({"model": {"type": "WordPiece", "vocab": ids}}))
    assert Vocabulary.read(path, {}) == lines


@pytest.mark.parametrize(
    "content",
    [
        '{"model": {"vocab": {"[PAD]": 1}}}',
        '{"model": {"vocab": {"[PAD]": []}}}',
        '{"model": {"vocab": {"a\\nb": 0}}}',
        '{"model": {"vocab": {"\\ud800": 0}}}',
        '{"model": {"vocab": [["a", -1.5]]}}',
        '{"model": {"vocab": 5}}',
        '{"model": []}',
        "{}",
    ],
)
def test_other_tokenizer_json(tmp_path, content):
    path = tmp_path / "tokenizer.json"
    path.write_text(content)
    with pytest.raises(UserError, match="vocabulary with ids from 0. Received: .*json"):
        Vocabulary.read(path, {})


def test_damaged_tokenizer_json(tmp_path):
    path = tmp_path / "tokenizer.json"
    path.write_text('{"model":' * 100_000)
    with pytest.raises(UserError, match="tokenizer.json must be a JSON object. Received: "):
        Vocabulary.read(path, {})


def test_long_pieces(vocab_text):
    """tensorflow-text takes 64 characters; a vocabulary in another format may be one long line."""
    Vocabulary.read((vocab_text() + "##" + "字" * 62 + "\n").encode(), {})
    with pytest.raises(UserError, match="at most 64 characters.*Received: .*a piece of 1,000,000"):
        Vocabulary.read((vocab_text() + "a" * 1_000_000 + "\n").encode(), {})


def test_a_special_token_without_name(vocab_text):
    with pytest.raises(UserError, match="pieces without an empty name"):
        Vocabulary.read((vocab_text() + "\n").encode(), {"mask_token": ""})


def test_invalid_vocabularies(vocab_text, tmp_path):
    content = vocab_text().replace("[MASK]\n", "").encode()
    with pytest.raises(UserError, match=r"276 pieces without \[MASK\]. Use the vocab.txt that"):
        Vocabulary.read(content, {})
    assert Vocabulary.read(content, {"mask_token": "[UNK]"}).special.tokens[4] == "[UNK]"
    path = tmp_path / "vocab.txt"
    path.write_bytes(b"\n\x12\x05<pad>\xff\xfe")
    with pytest.raises(UserError, match="text in UTF-8.*vocab.txt, which isn't .*at byte 8"):
        Vocabulary.read(path, {})
