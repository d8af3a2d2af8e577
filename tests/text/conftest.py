"""The original pipeline in plain Python, the runtimes that must match it, and vocabularies."""

import contextlib
import functools
import io
import json
import unicodedata
from collections.abc import Callable

import numpy as np
import pytest
import sentencepiece
import tensorflow as tf

from albert_tf.text import vocabulary, wordpiece
from albert_tf.text.model_file import ModelProto, compile_charsmap, rule_normalizer
from albert_tf.text.preprocessing import AlbertPreprocessor
from albert_tf.text.tokenizer import AlbertTokenizer
from albert_tf.text.vocabulary import bake
from albert_tf.text.wordpiece import WordPieceTokenizer
from tests.conftest import SENTENCES

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"
PIECES = [
    *"中国人民大学北京上海天气很好我爱你们的一二三丁",
    *"，。！？；：（）《》“”、…·",
    *".,!?;:()[]{}'\"#@-_/&%$+=*<>|~^`",
    *LETTERS,
    *"éüñßαβжのアイ가각",
    *("the", "film", "library", "wor", "##ld", "##ing", "##s", "hello", "un", "##aff", "##able"),
    *("##！", "##0", "##1", "##9", "19", "##の", "##ア", "ing", "a##b", "国家"),
    *(f"##{letter}" for letter in "abcdefghijklmnopqrstuvwxyzéж가"),
    *("##中", "##国", "Cased", "##Ed", "C", "É", "##É"),
]

# The characters of the tests of WordPiece: Latin to Cyrillic, signs, kana, and single ones.
FEW = [range(1, 0x460), range(0x2000, 0x20C0), range(0x3000, 0x3100), range(0xFF00, 0x10000)]
FEW.append(
    [*map(ord, "龍年日本가각😀"), *(ord(each) for each in "".join(PIECES) if each > "\u3100")]
)

# Nine tenths of all rules are for Hangul. Tests compile those for 112 of its 11,172 syllables.
SYLLABLES = [
    chr(0xAC00 + 588 * first + 28 * vowel + final)
    for first in (0, 18)
    for vowel in (0, 20)
    for final in range(28)
]
HANGUL = {chr(point) for point in (*range(0x1100, 0x1200), *range(0xAC00, 0xD7A4))}
LEFT_OUT = HANGUL - {*SYLLABLES, *unicodedata.normalize("NFD", "".join(SYLLABLES))}

WORDS = (
    "the old library on a hill in 1999, sold 20,000 books at 7:45 for £3.50 (or €4) - nearly free."
)


def rules_of(charsmap: bytes) -> dict[str, str]:
    """Returns the rules of a `precompiled_charsmap`."""
    proto = ModelProto()
    proto.normalizer_spec.precompiled_charsmap = charsmap
    return dict(rule_normalizer(model_proto=proto.SerializeToString()).Decompile())


compile_all_rules = vocabulary.compile_rules.__wrapped__


@functools.cache
def compile_few_rules(charsmap: bytes, normalization: vocabulary.Normalization) -> bytes:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(vocabulary, "_assigned_characters", characters_with_rules)
        patch.setattr(vocabulary, "HANGUL_OPEN", [*map(ord, SYLLABLES[::28])])
        return compile_all_rules(without_most_hangul(charsmap), normalization)


@functools.cache
def without_most_hangul(charsmap: bytes) -> bytes:
    if not charsmap:  # "identity" has no rules
        return charsmap
    rules = rules_of(charsmap).items()
    return compile_charsmap(rule for rule in rules if LEFT_OUT.isdisjoint("".join(rule)))


@functools.cache
def characters_with_rules() -> frozenset[str]:
    """Returns all assigned characters except most Hangul, and ideographs, which have no rules."""
    before_hangul = *range(1, 0x3400), *range(0xA000, 0xAC00)
    after_it = *range(0xD7B0, 0x20000), *range(0x2F800, 0x30000), *range(0xE0000, 0xE0200)
    characters = {*map(chr, (*before_hangul, *after_it)), *SYLLABLES}
    unassigned = vocabulary.UNASSIGNED
    return frozenset(each for each in characters if unicodedata.category(each) not in unassigned)


@pytest.fixture(scope="module", autouse=True)
def rules_are_few():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(vocabulary, "compile_rules", compile_few_rules)
        yield
    vocabulary._bake.cache_clear()


@pytest.fixture(scope="session")
def xlm_roberta(unbaked, unigram_json, tmp_path_factory) -> AlbertTokenizer:
    path = tmp_path_factory.mktemp("xlm-roberta") / "tokenizer.json"
    path.write_text(json.dumps(unigram_json(unbaked, is_xlm_roberta=True)))
    return AlbertTokenizer(path)


@pytest.fixture(scope="session")
def train_sentencepiece():
    """Returns a function that trains a SentencePiece model with the given trainer options."""

    def train(sentences=None, **options):
        sentences = sentences or [*SENTENCES * 3, *map(str.lower, SENTENCES * 9)]
        model = io.BytesIO()
        settings = {
            **{"vocab_size": 200, "hard_vocab_limit": False, "minloglevel": 3},
            **{"pad_id": 0, "unk_id": 1, "bos_id": -1, "eos_id": -1},
            "control_symbols": ["[CLS]", "[SEP]", "[MASK]"],
            **options,
        }
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(sentences), model_writer=model, **settings
        )
        return model.getvalue()

    return train


@pytest.fixture(scope="session")
def published(published_vocabulary) -> bytes:
    """Returns the published 30k vocabulary, as it was trained."""
    return published_vocabulary.read_bytes()


@pytest.fixture(scope="session")
def published_tokenizer(published) -> AlbertTokenizer:
    return AlbertTokenizer(published, split_special_tokens=True)


@pytest.fixture(scope="session")
def unbaked(train_sentencepiece) -> bytes:
    """Returns a small model that doesn't normalize more than the published one."""
    sentences = [
        WORDS,
        WORDS.replace(" ", " x"),
        "café naïve Ωmega straße",
        "quick brown foxes, 19, 5,",
    ] * 3
    return train_sentencepiece(map(original_normalization, sentences), vocab_size=120)


@pytest.fixture(scope="session")
def tokenizer(unbaked) -> AlbertTokenizer:
    return AlbertTokenizer(bake(unbaked))


def original_normalization(
    text: str, lower_case=True, keep_accents=False, quotes="original"
) -> str:
    """google-research/albert `preprocess_text`, with Hugging Face's accents and quotes."""
    text = " ".join(text.split())
    if quotes == "huggingface":
        text = text.replace("``", '"').replace("''", '"')
    if not keep_accents:
        text = unicodedata.normalize("NFKD", text)
        text = "".join(character for character in text if not unicodedata.combining(character))
    return text.lower() if lower_case else text


def original_pieces(processor, text: str) -> list[str]:
    """google-research/albert `encode_pieces` under Python 3, on normalized text."""
    pieces = []
    for piece in processor.encode(text, out_type=str):
        if len(piece) > 1 and piece[-1] == "," and piece[-2].isdigit():
            pieces += [*processor.encode(piece[:-1].replace("▁", ""), out_type=str), ","]
        else:
            pieces.append(piece)
    return pieces


def original_ids(model: bytes, texts: list[str]) -> list[list[int]]:
    """Returns ids from the original pipeline: the published model on text normalized in Python."""
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    rows = (original_pieces(processor, original_normalization(text)) for text in texts)
    return [[processor.piece_to_id(piece) for piece in pieces] for pieces in rows]


def graph_ids(model: bytes, texts: list[str]) -> list[list[int]]:
    """Returns ids from the layer, compiled as one graph, without special tokens and padding."""
    layer = AlbertPreprocessor(model, max_length=4096, padding="longest")
    run = tf.function(layer, input_signature=[tf.TensorSpec([None], tf.string)])
    rows = []
    for start in range(0, len(texts), 2048):
        batch = [text.encode() for text in texts[start : start + 2048]]
        features = run(tf.constant(batch))
        lengths = features["attention_mask"].numpy().sum(axis=1)
        padded = features["input_ids"].numpy()
        rows += [row[1 : n - 1].tolist() for row, n in zip(padded, lengths, strict=True)]
    return rows


@pytest.fixture(scope="session")
def tflite_ids(tflite_runner) -> Callable[[bytes, list[str]], list[list[int]]]:
    """Returns ids from a TFLite file of only the layer, without special tokens and padding."""

    def ids(model: bytes, texts: list[str]) -> list[list[int]]:
        run = tflite_runner(AlbertPreprocessor(model, 512))
        rows = []
        for text in texts:
            features = run(text)
            length = int(features["attention_mask"].sum())
            rows.append(features["input_ids"][0, 1 : length - 1].tolist())
        return rows

    return ids


@pytest.fixture(scope="session")
def tflite_runner(tmp_path_factory) -> Callable:
    """Converts a layer to TFLite, and returns a function from a text or text pair to features.

    All operators are built in or from tensorflow-text, so that no Flex delegate is needed.
    """
    import tensorflow_text
    from ai_edge_litert.interpreter import InterpreterWithCustomOps

    def convert(layer, pairs=False):
        names = ("first", "second") if pairs else ("text",)
        specs = [tf.TensorSpec([1], tf.string, name=name) for name in names]
        module = tf.Module()
        module.layer = layer
        module.run = tf.function(
            lambda *texts: layer(texts if pairs else texts[0]), input_signature=specs
        )
        folder = str(tmp_path_factory.mktemp("tflite"))
        tf.saved_model.save(module, folder, signatures={"serving_default": module.run})
        converter = tf.lite.TFLiteConverter.from_saved_model(folder)
        converter.allow_custom_ops = True
        interpreter = InterpreterWithCustomOps(
            model_content=converter.convert(),
            custom_op_registerers=tensorflow_text.tflite_registrar.SELECT_TFTEXT_OPS,
        )
        run = interpreter.get_signature_runner()

        def features(*texts):
            contents = [text if isinstance(text, bytes) else text.encode() for text in texts]
            return run(**{n: np.array([c], object) for n, c in zip(names, contents, strict=True)})

        return features

    return convert


def vocab_text(order: str) -> bytes:
    """Returns a `vocab.txt`. "google" puts the special tokens at 0 and from 100 to 103."""
    unused = [f"[unused{number}]" for number in range(1, 100)]
    tokens = {
        "google": ["[PAD]", *unused, *SPECIAL[1:], *PIECES],
        "first": [*SPECIAL, *PIECES],
        "last": [*PIECES, *reversed(SPECIAL)],
    }[order]
    return "".join(f"{token}\n" for token in dict.fromkeys(tokens)).encode()


@contextlib.contextmanager
def wordpiece_tables_of(characters):
    """Compiles WordPiece tables only for these characters, because all tables take two seconds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(wordpiece, "ASSIGNED", characters)
        wordpiece.compile_tables.cache_clear()
        yield
    wordpiece.compile_tables.cache_clear()


@pytest.fixture(scope="module")
def few_characters():
    with wordpiece_tables_of(FEW):
        yield


@pytest.fixture(scope="module")
def chinese(few_characters) -> WordPieceTokenizer:
    return WordPieceTokenizer(vocab_text("google"))
