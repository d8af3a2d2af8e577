"""The original pipeline in plain Python, and the runtimes that must agree with it."""

import io
import unicodedata
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import sentencepiece

from albert_tf.text.tokenizer import AlbertTokenizer
from albert_tf.text.vocabulary import bake

WORDS = (
    "the old library on a hill in 1999, sold 20,000 books at 7:45 for £3.50 (or €4) - nearly free."
)


@pytest.fixture(scope="session")
def published(published_vocabulary) -> bytes:
    """The published 30k vocabulary, as it was trained."""
    return published_vocabulary.read_bytes()


@pytest.fixture(scope="session")
def published_tokenizer(published) -> AlbertTokenizer:
    return AlbertTokenizer(published, split_special_tokens=True)


@pytest.fixture(scope="session")
def unbaked() -> bytes:
    """A small model that normalises no more than the published one does."""
    sentences = [
        WORDS,
        WORDS.replace(" ", " x"),
        "café naïve Ωmega straße",
        "quick brown foxes, 19, 5,",
    ] * 3
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([original_normalization(line) for line in sentences]),
        model_writer=model,
        vocab_size=120,
        hard_vocab_limit=False,
        pad_id=0,
        unk_id=1,
        bos_id=-1,
        eos_id=-1,
        control_symbols=["[CLS]", "[SEP]", "[MASK]"],
        minloglevel=3,
    )
    return model.getvalue()


@pytest.fixture(scope="session")
def tokenizer(unbaked) -> AlbertTokenizer:
    return AlbertTokenizer(bake(unbaked))


def original_normalization(
    text: str, lower_case=True, keep_accents=False, quotes="original"
) -> str:
    """google-research/albert `preprocess_text`; the two options that differ are Hugging Face's."""
    text = " ".join(text.split())
    if quotes == "huggingface":
        text = text.replace("``", '"').replace("''", '"')
    if not keep_accents:
        text = unicodedata.normalize("NFKD", text)
        text = "".join(character for character in text if not unicodedata.combining(character))
    return text.lower() if lower_case else text


def original_pieces(processor, text: str) -> list[str]:
    """google-research/albert `encode_pieces` under Python 3, on normalised text."""
    pieces = []
    for piece in processor.encode(text, out_type=str):
        if len(piece) > 1 and piece[-1] == "," and piece[-2].isdigit():
            pieces += [*processor.encode(piece[:-1].replace("▁", ""), out_type=str), ","]
        else:
            pieces.append(piece)
    return pieces


@pytest.fixture(scope="session")
def normalization() -> Callable[..., str]:
    return original_normalization


@pytest.fixture(scope="session")
def original_ids() -> Callable[[bytes, list[str]], list[list[int]]]:
    """Ids by the original pipeline: the published model on text that Python has normalised."""

    def ids(model: bytes, texts: list[str]) -> list[list[int]]:
        processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        rows = (original_pieces(processor, original_normalization(text)) for text in texts)
        return [[processor.piece_to_id(piece) for piece in pieces] for pieces in rows]

    return ids


@pytest.fixture(scope="session")
def graph_ids() -> Callable[[bytes, list[str]], list[list[int]]]:
    """Ids by the layer, compiled as one graph, without special tokens and padding."""

    def ids(model: bytes, texts: list[str | bytes]) -> list[list[int]]:
        import tensorflow as tf

        from albert_tf.text.preprocessing import AlbertPreprocessor

        layer = AlbertPreprocessor(model, max_length=4096, padding="longest")
        run = tf.function(layer, input_signature=[tf.TensorSpec([None], tf.string)])
        rows = []
        for start in range(0, len(texts), 2048):
            batch = np.array([_utf8(text) for text in texts[start : start + 2048]], dtype=object)
            features = run(tf.constant(batch))
            lengths = features["attention_mask"].numpy().sum(axis=1)
            padded = features["input_ids"].numpy()
            rows += [row[1 : n - 1].tolist() for row, n in zip(padded, lengths, strict=True)]
        return rows

    return ids


@pytest.fixture(scope="session")
def tflite_ids(tmp_path_factory) -> Callable[[bytes, list[str]], list[list[int]]]:
    """Ids by a TFLite file that holds the layer alone, without special tokens and padding."""

    def ids(model: bytes, texts: list[str | bytes]) -> list[list[int]]:
        runner = tflite_runner(model, 512, tmp_path_factory.mktemp("tflite"))
        rows = []
        for text in texts:
            features = runner(text=np.array([_utf8(text)], dtype=object))
            length = int(features["attention_mask"].sum())
            rows.append(features["input_ids"][0, 1 : length - 1].tolist())
        return rows

    return ids


def tflite_runner(model: bytes, max_length: int, folder: Path):
    import tensorflow as tf
    import tensorflow_text
    from ai_edge_litert.interpreter import InterpreterWithCustomOps

    from albert_tf.text.preprocessing import AlbertPreprocessor

    layer = AlbertPreprocessor(model, max_length)
    module = tf.Module()
    module.layer = layer
    module.run = tf.function(layer, input_signature=[tf.TensorSpec([1], tf.string, name="text")])
    tf.saved_model.save(module, str(folder), signatures={"serving_default": module.run})
    converter = tf.lite.TFLiteConverter.from_saved_model(str(folder))
    converter.allow_custom_ops = True
    interpreter = InterpreterWithCustomOps(
        model_content=converter.convert(),
        custom_op_registerers=tensorflow_text.tflite_registrar.SELECT_TFTEXT_OPS,
    )
    return interpreter.get_signature_runner()


def _utf8(text: str | bytes) -> bytes:
    return text if isinstance(text, bytes) else text.encode("utf-8")
