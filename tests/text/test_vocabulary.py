"""Vocabularies: made, described, refused."""

import hashlib
import random
import struct
import unicodedata

import pytest
import sentencepiece

from albert_tf import assets
from albert_tf.errors import UserError
from albert_tf.text.model_file import LEAF, Baked, ModelProto, describe, split_rules
from albert_tf.text.tokenizer import AlbertTokenizer
from albert_tf.text.vocabulary import (
    Normalization,
    bake,
    bake_file,
    ensure_baked,
    train_vocabulary,
)
from tests.text.conftest import (
    LEFT_OUT,
    compile_all_rules,
    compile_few_rules,
    original_normalization,
    rules_of,
)

RULES = assets.published_rules().read_bytes()
TEXTS = ["The Café opened in 1999, with 20,000 guests.", "Ünder the bridge, a boat waits."] * 4


def test_describes_what_was_baked(unbaked):
    options = {"lower_case": False, "keep_accents": True, "quotes": "huggingface"}
    model = bake(unbaked, digit_comma="plain", **options)
    digest = hashlib.sha256(unbaked).hexdigest()
    assert describe(model) == Baked(digest, digit_comma="plain", **options)
    assert describe(unbaked) is None
    before, *after = (
        ModelProto.FromString(each).pieces for each in (unbaked, model, bake(unbaked))
    )
    for pieces in after:
        assert [each.piece for each in pieces] == [each.piece for each in before]


@pytest.mark.parametrize(
    ("compile_rules", "left_out"),
    [
        pytest.param(compile_few_rules, LEFT_OUT, id="few syllables"),
        pytest.param(compile_all_rules, set(), id="all syllables", marks=pytest.mark.slow),
    ],
)
def test_the_rules_that_ship_are_sentencepieces_own_after_the_cleaning(
    unbaked, compile_rules, left_out
):
    """SentencePiece's rules of today know more characters, and make a joiner a space."""
    own = ModelProto.FromString(unbaked).normalizer_spec.precompiled_charsmap
    shipped, remade = rules_of(RULES), rules_of(compile_rules(own, Normalization()))
    rules = shipped.items() ^ remade.items()
    different = {key for key, text in rules if left_out.isdisjoint(key + text)}
    old = unicodedata.ucd_3_2_0
    known = {key for key in different if all(old.category(each) != "Cn" for each in key)}
    assert known == {"\u200d"}


def test_bake_file_and_what_is_there(unbaked, tmp_path):
    target = tmp_path / "spiece.model"
    target.write_bytes(b"precious")
    with pytest.raises(UserError, match="already exists"):
        bake_file(unbaked, target)
    assert target.read_bytes() == b"precious"
    bake_file(unbaked, target, force=True, digit_comma="plain")
    assert describe(target).digit_comma == "plain"
    digest = hashlib.sha256(unbaked).hexdigest()
    with pytest.raises(UserError, match=f"spiece.model already contains .*model .sha256 {digest}"):
        bake(target)


def test_missing_file_and_folder(tmp_path):
    with pytest.raises(UserError, match="nowhere.model, which doesn't exist. Pass the path"):
        bake(tmp_path / "nowhere.model")
    with pytest.raises(UserError, match="which is a folder"):
        describe(tmp_path)


def test_something_else_than_a_whole_model(unbaked, tmp_path):
    """A model that lacks a field is still a valid protobuf message."""
    contents = [b"", b"hello", b"\x00" * 100, b'{"model": "json"}']
    lengths = *range(1, 3_000, 197), *range(3_000, len(unbaked) - 1, 20_000)
    contents += [unbaked[:length] for length in lengths]
    for field in ("trainer_spec", "normalizer_spec"):
        proto = ModelProto.FromString(unbaked)
        proto.ClearField(field)
        contents.append(proto.SerializeToString())
    contents.append(unbaked.replace("ω".encode(), b"\xff\xff", 1))
    for content in contents:
        (tmp_path / "spiece.model").write_bytes(content)
        message = f"spiece.model .{len(content)} bytes. isn't a SentencePiece model.* damaged .+"
        with pytest.raises(UserError, match=message):
            bake(tmp_path / "spiece.model")


def test_damaged_rules(unbaked):
    """Some rules aren't UTF-8, and one begins within another rule's text."""
    trie, pool = split_rules(ModelProto.FromString(unbaked).normalizer_spec.precompiled_charsmap)
    later = trie.copy()
    cells = enumerate(trie.tolist())
    later[next(at for at, cell in cells if cell & LEAF and pool[cell ^ LEAF])] += 1
    for cells, texts in ((trie, pool[:-3] + b"\xff" + pool[-2:]), (later, pool)):
        proto = ModelProto.FromString(unbaked)
        rules = struct.pack("<I", cells.nbytes) + cells.tobytes() + texts
        proto.normalizer_spec.precompiled_charsmap = rules
        with pytest.raises(UserError, match="isn't a SentencePiece model.* damaged .+"):
            bake(proto.SerializeToString())


def test_a_model_with_bytes_for_unknown_characters(train_sentencepiece):
    model = train_sentencepiece(byte_fallback=True, vocab_size=400)
    with pytest.raises(UserError, match="Received: .*, trained with byte_fallback. Train"):
        AlbertTokenizer(model)


PIECE = ModelProto.SentencePiece


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({("trainer_spec", "model_type"): 2}, "which isn't a unigram model"),
        ({("trainer_spec", "treat_whitespace_as_suffix"): True}, "trained with treat_whitespace"),
        ({("normalizer_spec", "add_dummy_prefix"): False}, "trained without add_dummy_prefix"),
        ({("trainer_spec", "unk_id"): 5}, "with unk_id=5"),
        ({(1, "type"): PIECE.NORMAL, (9, "type"): PIECE.UNKNOWN}, "with an unknown piece other"),
        ({(20, "score"): -3e38}, "with a score of -3e.38"),
        ({(20, "score"): 3e3}, "with a score of 3e.03"),
        ({(20, "type"): PIECE.USER_DEFINED}, "with a score for the user-defined piece '.+'"),
        ({(20, "type"): PIECE.UNUSED}, "with unused pieces, such as '.+'"),
        ({("denormalizer_spec", "precompiled_charsmap"): RULES}, "with a denormalizer"),
        ({("normalizer_spec", "escape_whitespaces"): False}, "trained without escape_whitespaces"),
        ({("normalizer_spec", "precompiled_charsmap"): b""}, "which was changed after"),
        ({("normalizer_spec", "remove_extra_whitespaces"): False}, "which was changed after"),
        ({(2, "type"): PIECE.USER_DEFINED}, "which was changed after"),  # finds [CLS] in a text
    ],
)
def test_what_graphs_refuse_or_decoding_leaves_out(unbaked, changes, problem):
    """Changes fields of a baked model, or of one of its pieces."""
    proto = ModelProto.FromString(bake(unbaked))
    for (part, field), value in changes.items():
        owner = proto.pieces[part] if isinstance(part, int) else getattr(proto, part)
        setattr(owner, field, value)
    with pytest.raises(UserError, match=f"Received: .*, {problem}.*. Train a"):
        AlbertTokenizer(proto.SerializeToString())


def test_a_damaged_record(unbaked):
    proto = ModelProto.FromString(bake(unbaked))
    proto.normalizer_spec.name = proto.normalizer_spec.name.replace("=1", "=7")
    with pytest.raises(UserError, match="record .* is damaged: 'albert_tf/1;sha"):
        describe(proto.SerializeToString())


def test_a_special_piece_is_missing(unbaked):
    for index in (0, 2, 4):
        proto = ModelProto.FromString(unbaked)
        proto.pieces[index].piece = "other"
        with pytest.raises(UserError, match="start with <pad>, <unk>, .*starts with .*other"):
            bake(proto.SerializeToString())


def test_wrong_options(unbaked):
    for name, value in (("digit_comma", "exact"), ("quotes", "curly")):
        with pytest.raises(UserError, match=f"{name} must be .* Received: '{value}'"):
            bake(unbaked, **{name: value})


def test_ensure_baked(unbaked):
    model, baked = ensure_baked(unbaked, lower_case=False, quotes=None)
    assert (baked.lower_case, baked.quotes) == (False, "original")
    assert ensure_baked(model, lower_case=False) == (model, baked)
    with pytest.raises(UserError, match="contains lower_case=False, .*Received: lower_case=True"):
        ensure_baked(model, lower_case=True)


def test_trained_vocabulary():
    model = train_vocabulary(TEXTS, vocab_size=5_000)
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    first = ["<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]", "("]
    assert [processor.id_to_piece(index) for index in range(6)] == first
    assert 30 < processor.get_piece_size() < 5_000
    assert processor.encode("  THE\u00a0CAFE\u0301 ") == processor.encode("the cafe")
    assert 1 not in processor.encode("the cafe, under 1999,")
    options = {"lower_case": False, "keep_accents": True, "quotes": "huggingface"}
    cased = train_vocabulary(TEXTS, vocab_size=200, **options)
    processor = sentencepiece.SentencePieceProcessor(model_proto=cased)
    assert processor.encode("Café") == processor.encode("Cafe\u0301") != processor.encode("café")


def test_kept_accents_are_composed_one_by_one(unbaked):
    """A typist of Vietnamese can enter a dot below after ơ, which SentencePiece doesn't compose."""
    own = ModelProto.FromString(unbaked).normalizer_spec.precompiled_charsmap
    rules = rules_of(compile_few_rules(own, Normalization(keep_accents=True)))
    assert rules["ơ\u0323"] == rules["o\u031b\u0323"] == "ợ"


def test_training_reads_long_lines_and_drops_stray_bytes():
    """SentencePiece itself ignores lines of more than 4,192 bytes."""
    texts = [f"caf\udce9 {text} \U0010ffff".encode(errors="surrogateescape") for text in TEXTS]
    model = train_vocabulary([*texts, "zebra crossing " * 1000], vocab_size=5_000, threads=1)
    tokenizer = AlbertTokenizer(model)
    assert tokenizer.unk_token_id not in tokenizer.encode("zebra")
    assert not any("\U0010ffff" in token for token in tokenizer.get_vocab())


def test_training_needs_lines_and_room():
    for texts, size in (([], 100), (TEXTS, 10)):
        with pytest.raises(UserError, match=f"can't train.*vocab_size={size} "):
            train_vocabulary(texts, vocab_size=size)
    with pytest.raises(TypeError, match="Received: 'corpus.txt'"):
        train_vocabulary("corpus.txt", vocab_size=100)


EXAMPLES = {
    "  A\t\tb\u00a0\u3000C\u2028\x1fd\u0085 ": "a b c d",
    "CAFÉ cafe\u0301": "cafe cafe",
    "ﬁne ½ №": "fine 1⁄2 no",
    "İstanbul STRASSE ẞ ß": "istanbul strasse ß ß",
    "가각 ㄱㅏ ｶﾞ": "가각 가 カ",
    "``it''": "``it''",
    "\u200bzero\ufeffwidth": "zero width",
    # Python's lower() gives a sigma at the end of a word another form; a table can't.
    "ΟΔΟΣ οδος": "οδοσ οδος",
    # Python drops an accent between Hangul letters before they join; the table does not.
    "\u1110\u0301\u1169": "\u1110\u1169",
}


def test_examples_and_hangul_finals_in_every_form(unbaked):
    """Uses the rules that ship with the package, which another test compares with compiled ones."""
    own = sentencepiece.SentencePieceProcessor(model_proto=unbaked)
    proto = ModelProto.FromString(unbaked)
    proto.normalizer_spec.precompiled_charsmap = RULES
    baked = sentencepiece.SentencePieceProcessor(model_proto=proto.SerializeToString())
    for text, expected in EXAMPLES.items():
        assert baked.normalize(text).replace("▁", " ").removeprefix(" ") == expected
    draw = random.Random(5)
    finals = [chr(point) for point in (*range(0x11A8, 0x11C3), 0x313B, 0x313C, 0xFFAB, 0xFFAC)]
    texts = [chr(draw.randrange(0xAC00, 0xD7A4)) + draw.choice(finals) for _ in range(2_000)]
    assert [baked.normalize(text) for text in texts] == [
        own.normalize(original_normalization(text)) for text in texts
    ]
