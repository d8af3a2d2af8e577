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
    PUBLISHED_RULES,
    Normalization,
    bake,
    bake_file,
    compile_rules,
    ensure_baked,
    train_vocabulary,
)

TEXTS = ["The Café opened in 1999, with 20,000 guests.", "Ünder the bridge, a boat waits."] * 4


def test_describes_what_was_baked(unbaked):
    model = bake(
        unbaked, lower_case=False, keep_accents=True, digit_comma="plain", quotes="huggingface"
    )
    digest = hashlib.sha256(unbaked).hexdigest()
    assert describe(model) == Baked(digest, False, True, "plain", "huggingface")
    assert describe(unbaked) is None


def test_baking_is_reproducible_and_keeps_the_pieces(unbaked):
    model = bake(unbaked)
    assert bake(unbaked) == model
    before, after = (sentencepiece.SentencePieceProcessor(model_proto=m) for m in (unbaked, model))
    size = before.get_piece_size()
    assert [after.id_to_piece(i) for i in range(size)] == [
        before.id_to_piece(i) for i in range(size)
    ]


def decompiled(charsmap):
    """Returns the rules of a `precompiled_charsmap`, as a dict of strings."""
    proto = ModelProto()
    proto.normalizer_spec.precompiled_charsmap = charsmap
    normalizer = sentencepiece.SentencePieceNormalizer(model_proto=proto.SerializeToString())
    return dict(normalizer.Decompile())


def differing_rules(charsmap, unicode=unicodedata):
    """Returns the rules that differ from the ones that ship, for characters that both know."""
    shipped, remade = decompiled(assets.published_rules().read_bytes()), decompiled(charsmap)
    different = [rule[0] for rule in shipped.items() ^ remade.items()]
    return {key for key in different if all(unicode.category(c) != "Cn" for c in key)}


@pytest.mark.slow
def test_the_rules_that_ship_are_those_of_the_published_vocabulary(published):
    own = ModelProto.FromString(published).normalizer_spec.precompiled_charsmap
    if hashlib.sha256(own).hexdigest() != PUBLISHED_RULES:
        pytest.skip("the published vocabulary isn't beside the checkout")
    remade = compile_rules(own, Normalization())
    assert differing_rules(remade) == set()
    if unicodedata.unidata_version == "15.1.0":
        assert remade == assets.published_rules().read_bytes()
    shipped = ModelProto.FromString(bake(published)).normalizer_spec.precompiled_charsmap
    assert shipped == assets.published_rules().read_bytes()
    cased = ModelProto.FromString(bake(published, lower_case=False)).normalizer_spec
    assert decompiled(cased.precompiled_charsmap)["É"] == "E"


def test_the_rules_that_ship_are_sentencepieces_own_after_the_cleaning(unbaked):
    """SentencePiece's rules of today know more characters, and make a joiner a space."""
    own = ModelProto.FromString(unbaked).normalizer_spec.precompiled_charsmap
    remade = compile_rules(own, Normalization())
    assert differing_rules(remade, unicodedata.ucd_3_2_0) == {"\u200d"}


def test_refuses_to_bake_twice(unbaked, tmp_path):
    bake_file(unbaked, tmp_path / "spiece.model")
    digest = hashlib.sha256(unbaked).hexdigest()
    with pytest.raises(UserError, match=f"only once.*spiece.model.*source model .sha256 {digest}"):
        bake(tmp_path / "spiece.model")


def test_bake_file_leaves_an_existing_file(unbaked, tmp_path):
    target = tmp_path / "spiece.model"
    target.write_bytes(b"precious")
    with pytest.raises(UserError, match="must not exist yet"):
        bake_file(unbaked, target)
    assert target.read_bytes() == b"precious"
    bake_file(unbaked, target, force=True, digit_comma="plain")
    assert describe(target).digit_comma == "plain"


def test_missing_file_and_folder(tmp_path):
    with pytest.raises(
        UserError, match="Received: .*nowhere.model, which doesn't exist. Give the path"
    ):
        bake(tmp_path / "nowhere.model")
    with pytest.raises(UserError, match="which is a folder"):
        describe(tmp_path)


@pytest.mark.parametrize("content", [b"", b"hello", b"\x00" * 100, b'{"model": "json"}'])
def test_something_else_than_a_model(content, tmp_path):
    path = tmp_path / "spiece.model"
    path.write_bytes(content)
    with pytest.raises(
        UserError, match=f"whole SentencePiece model.*spiece.model, {len(content)} bytes"
    ):
        bake(path)


def test_every_cut_is_noticed(unbaked):
    """A cut between two fields still reads as a message, but lacks the last ones."""
    for length in range(1, len(unbaked) - 1, 97):
        with pytest.raises(UserError, match="cut short"):
            bake(unbaked[:length])


def damaged_rules(proto):
    content = proto.normalizer_spec.precompiled_charsmap
    proto.normalizer_spec.precompiled_charsmap = content[:-3] + b"\xff" + content[-2:]


def shifted_rules(proto):
    """Makes one replacement begin a byte later, as a flipped bit does."""
    trie, pool = split_rules(proto.normalizer_spec.precompiled_charsmap)
    at = next(at for at, cell in enumerate(trie.tolist()) if cell & LEAF and pool[cell ^ LEAF])
    trie[at] += 1
    rules = struct.pack("<I", trie.nbytes) + trie.tobytes() + pool
    proto.normalizer_spec.precompiled_charsmap = rules


def cut_rules(proto):
    proto.normalizer_spec.precompiled_charsmap = proto.normalizer_spec.precompiled_charsmap[:99]


def repeated_piece(proto):
    proto.pieces.append(proto.pieces[9])


def no_unknown_piece(proto):
    proto.pieces[1].type = proto.pieces[1].CONTROL


@pytest.mark.parametrize(
    "damage", [damaged_rules, shifted_rules, cut_rules, repeated_piece, no_unknown_piece]
)
def test_damaged_models(unbaked, damage):
    proto = ModelProto.FromString(unbaked)
    damage(proto)
    with pytest.raises(UserError, match="whole SentencePiece model. Received: .* damaged: "):
        bake(proto.SerializeToString())


def test_a_piece_that_is_no_text(unbaked):
    content = unbaked.replace("ω".encode(), b"\xff\xff", 1)
    assert ModelProto.FromString(content).pieces != ModelProto.FromString(unbaked).pieces
    with pytest.raises(UserError, match="whole SentencePiece model"):
        bake(content)


UNREADABLE = {
    "trained with byte_fallback": {"byte_fallback": True, "vocab_size": 400},
    "trained with treat_whitespace_as_suffix": {"treat_whitespace_as_suffix": True},
    "trained without add_dummy_prefix": {"add_dummy_prefix": False},
    "a model of another type than unigram": {"model_type": "bpe"},
}


@pytest.mark.parametrize("problem", UNREADABLE)
def test_a_model_that_graphs_read_otherwise(train_sentencepiece, problem):
    model = train_sentencepiece(**UNREADABLE[problem])
    with pytest.raises(UserError, match=f"read in the same way. Received: .*, {problem}. Make one"):
        AlbertTokenizer(model)


def other_unknown_piece(proto):
    proto.trainer_spec.unk_id = 1
    proto.pieces[1].type, proto.pieces[9].type = proto.pieces[9].type, proto.pieces[1].type


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda proto: setattr(proto.trainer_spec, "unk_id", 5), "with unk_id=5"),
        (other_unknown_piece, "with another unknown piece than <unk>"),
        (lambda proto: setattr(proto.pieces[20], "score", -3e38), "with a score of -3e.38"),
        (lambda proto: setattr(proto.pieces[20], "score", 3e3), "with a score of 3e.03"),
        (
            lambda proto: setattr(proto.pieces[20], "type", proto.pieces[20].UNUSED),
            "with unused pieces, such as '.+'",
        ),
        (
            lambda proto: proto.denormalizer_spec.CopyFrom(proto.normalizer_spec),
            "with a denormalizer",
        ),
        (
            lambda proto: setattr(proto.normalizer_spec, "escape_whitespaces", False),
            "trained without escape_whitespaces",
        ),
    ],
)
@pytest.mark.parametrize("is_baked", [False, True])
def test_what_graphs_refuse_or_decoding_leaves_out(unbaked, change, problem, is_baked):
    proto = ModelProto.FromString(bake(unbaked) if is_baked else unbaked)
    change(proto)
    with pytest.raises(UserError, match=f"Received: .*, {problem}. Make one"):
        AlbertTokenizer(proto.SerializeToString())


def test_scores_that_graphs_add_in_the_same_way(unbaked, graph_ids):
    proto = ModelProto.FromString(bake(unbaked))
    for number, piece in enumerate(proto.pieces[20:60]):
        piece.score = 1e3 if number % 2 else -1e3
    model = proto.SerializeToString()
    draw = random.Random(3)
    texts = ["".join(draw.choices("etaoinsh 19,.", k=2000)) for _ in range(20)]
    tokenizer = AlbertTokenizer(model, split_special_tokens=True)
    assert graph_ids(model, texts) == tokenizer(texts, add_special_tokens=False).input_ids


def emptied_rules(proto):
    proto.normalizer_spec.precompiled_charsmap = b""


def kept_spaces(proto):
    proto.normalizer_spec.remove_extra_whitespaces = False


def special_token_in_texts(proto):
    proto.pieces[2].type = proto.pieces[2].USER_DEFINED


@pytest.mark.parametrize("change", [emptied_rules, kept_spaces, special_token_in_texts])
def test_a_baked_model_that_was_changed(unbaked, change):
    proto = ModelProto.FromString(bake(unbaked))
    change(proto)
    with pytest.raises(UserError, match="Received: .*, baked, and changed since then. Make one"):
        AlbertTokenizer(proto.SerializeToString())


def test_a_damaged_record(unbaked):
    proto = ModelProto.FromString(bake(unbaked))
    proto.normalizer_spec.name = proto.normalizer_spec.name.replace("plain", "p").replace(
        "=1", "=7"
    )
    with pytest.raises(UserError, match="must be as `bake` wrote it. Received: 'albert_tf/1;sha"):
        describe(proto.SerializeToString())


@pytest.mark.parametrize("missing", ["[MASK]", "[CLS]", "<pad>"])
def test_a_special_piece_is_missing(unbaked, missing):
    proto = ModelProto.FromString(unbaked)
    next(piece for piece in proto.pieces if piece.piece == missing).piece = "other"
    with pytest.raises(
        UserError, match="must start with <pad>, <unk>, .*which starts with .*other"
    ):
        bake(proto.SerializeToString())


def test_wrong_options(unbaked):
    with pytest.raises(ValueError, match="digit_comma must be .* Received: 'exact'"):
        bake(unbaked, digit_comma="exact")
    with pytest.raises(ValueError, match="quotes must be .* Received: 'curly'"):
        bake(unbaked, quotes="curly")


def test_ensure_baked(unbaked):
    model, baked = ensure_baked(unbaked, lower_case=False, quotes=None)
    assert (baked.lower_case, baked.quotes) == (False, "original")
    assert ensure_baked(model, lower_case=False) == (model, baked)
    with pytest.raises(UserError, match="baked with lower_case=False, and lower_case=True"):
        ensure_baked(model, lower_case=True)


def test_trained_vocabulary():
    model = train_vocabulary(TEXTS, vocab_size=5_000)
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    first = ["<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]", "("]
    assert [processor.id_to_piece(index) for index in range(6)] == first
    assert 30 < processor.get_piece_size() < 5_000
    assert describe(model).lower_case
    assert processor.encode("  THE\u00a0CAFE\u0301 ") == processor.encode("the cafe")
    assert 1 not in processor.encode("the cafe, under 1999,")


def test_trained_cased_vocabulary():
    model = train_vocabulary(TEXTS, vocab_size=200, lower_case=False, keep_accents=True)
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    assert processor.encode("Café") != processor.encode("café")
    assert processor.encode("Cafe\u0301") == processor.encode("Café")


def test_long_lines_are_trained_on():
    """SentencePiece alone leaves lines of more than 4,192 bytes out."""
    model = train_vocabulary([*TEXTS, "zebra crossing " * 1000], vocab_size=5_000, threads=1)
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    assert 1 not in processor.encode("zebra")


def test_training_without_text_or_room():
    with pytest.raises(UserError, match="could not train.*vocab_size=100"):
        train_vocabulary([], vocab_size=100)
    with pytest.raises(UserError, match="could not train.*vocab_size=10;"):
        train_vocabulary(TEXTS, vocab_size=10)


def normalized(unbaked, text, **options):
    processor = sentencepiece.SentencePieceProcessor(model_proto=bake(unbaked, **options))
    return processor.normalize(text).replace("▁", " ").removeprefix(" ")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("  A\t\tb\u00a0\u3000C\u2028\x1fd\u0085 ", "a b c d"),
        ("CAFÉ cafe\u0301", "cafe cafe"),
        ("ﬁne ½ №", "fine 1⁄2 no"),
        ("İstanbul STRASSE ẞ ß", "istanbul strasse ß ß"),
        ("가각 ㄱㅏ ｶﾞ", "가각 가 カ"),
        ("``it''", "``it''"),
        ("\u200bzero\ufeffwidth", "zero width"),
    ],
)
def test_examples(unbaked, text, expected):
    assert normalized(unbaked, text) == expected


def test_final_sigma_is_an_ordinary_sigma(unbaked):
    """Python's lower() depends on the letter's position in its word; a table of strings can't."""
    assert "ΟΔΟΣ".lower() == "οδος"
    assert normalized(unbaked, "ΟΔΟΣ") == Normalization()("ΟΔΟΣ") == "οδοσ"
    assert normalized(unbaked, "οδος") == "οδος"


def test_hangul_finals_join_in_every_form(unbaked, normalization):
    own = sentencepiece.SentencePieceProcessor(model_proto=unbaked)
    baked = sentencepiece.SentencePieceProcessor(model_proto=bake(unbaked))
    draw = random.Random(5)
    finals = [chr(point) for point in (*range(0x11A8, 0x11C3), 0x313B, 0x313C, 0xFFAB, 0xFFAC)]
    texts = [chr(draw.randrange(0xAC00, 0xD7A4)) + draw.choice(finals) for _ in range(2_000)]
    assert [baked.normalize(text) for text in texts] == [
        own.normalize(normalization(text)) for text in texts
    ]


def test_known_difference_accent_inside_a_hangul_syllable(unbaked, normalization):
    """Python drops the accent before the letters join; the table does not."""
    text = "\u1110\u0301\u1169"
    own = sentencepiece.SentencePieceProcessor(model_proto=unbaked)
    assert own.normalize(normalization(text)) == "▁토"
    assert normalized(unbaked, text) == "\u1110\u1169"
