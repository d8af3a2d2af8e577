"""The tables of the operators."""

import pytest

from albert_tf.errors import UserError
from albert_tf.text.segmenter import SpecialTokens
from albert_tf.text.wordpiece.rules import Rules
from albert_tf.text.wordpiece.tables import BYTES, CODES, UNKNOWN, compile_tables
from albert_tf.text.wordpiece.tokenizer import WordPieceTokenizer
from albert_tf.text.wordpiece.vocabulary import Vocabulary

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


def normalized(model, texts):
    import tensorflow_text

    return tensorflow_text.FastBertNormalizer(model_buffer=model).normalize(texts).numpy().tolist()


def test_every_character_is_a_code_of_four_bytes():
    vocabulary = Vocabulary((*SPECIAL, "ab", "##中"), SpecialTokens(SPECIAL, (0, 1, 2, 3, 4)))
    model, pieces = compile_tables(vocabulary, Rules())
    assert len(pieces[5].encode()) == 2 * BYTES
    assert pieces[6].startswith("##")
    a, b, chinese = *pieces[5], pieces[6][-1]
    texts = ["Áb", "中", "x", "a\0b", "\u0378", ""]
    wanted = [a + b, f" {chinese} ", UNKNOWN, a + b, UNKNOWN, ""]
    assert normalized(model, texts) == [text.encode() for text in wanted]


def test_unreachable_pieces():
    """The last of equal pieces matches; the unknown token, an empty line and ## never do."""
    pieces = (*SPECIAL, "a", "a", "", "##", "##a", "[UNK]")
    tokenizer = WordPieceTokenizer("".join(f"{piece}\n" for piece in pieces).encode())
    assert tokenizer.unk_token_id == 10
    assert tokenizer("a aa [UNK] # 1 10", add_special_tokens=False).input_ids == [
        *(6, 6, 9, 10),
        *(10, 10, 10),
    ]


def test_more_characters_than_codes():
    pieces = (*SPECIAL, *map(chr, range(0x20000, 0x20000 + len(CODES))))
    vocabulary = Vocabulary(pieces, SpecialTokens(SPECIAL, (0, 1, 2, 3, 4)))
    with pytest.raises(UserError, match="may have 65534 different characters. Received: 65547"):
        compile_tables(vocabulary, Rules())
