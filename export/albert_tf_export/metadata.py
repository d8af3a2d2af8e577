"""Adds label names, tensor names, and a tokenizer to a TFLite file as official TFLite metadata.

`metadata_schema.fbs` from TensorFlow Lite Support defines the format: a table in the file, and a
ZIP archive appended to it, so that `unzip -p model.tflite labels.txt` prints the labels. The
packages that write metadata can't be installed on every supported Python version.
"""

import io
import zipfile
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import flatbuffers  # type: ignore[import-untyped]
import numpy as np
from ai_edge_litert import schema_py_generated as schema

from albert_tf.checkpoints.hugging_face import CONFIG, config_json
from albert_tf.checkpoints.sentence_transformers import read_to_copy
from albert_tf.errors import UserError
from albert_tf.models.base import PreTrainedModel
from albert_tf.text.base_tokenizer import BaseTokenizer

LABELS: Final = "labels.txt"
VOCABULARY: Final = "spiece.model"
# MediaPipe's name for each input (bert_preprocessor_calculator.cc).
MEDIAPIPE: Final[Mapping[str, str]] = {
    "input_ids": "ids",
    "attention_mask": "mask",
    "token_type_ids": "segment_ids",
}
# Outputs whose last axis is the class axis.
BY_CLASS: Final = ("logits", "probabilities")
NAME: Final = "TFLITE_METADATA"
# Field numbers in the tables of metadata_schema.fbs.
FILE_NAME, FILE_DESCRIPTION, FILE_TYPE = 0, 1, 2
TENSOR_NAME, TENSOR_FILES = 0, 6
GRAPH_NAME, GRAPH_INPUTS, GRAPH_OUTPUTS, GRAPH_INPUT_UNITS = 0, 2, 3, 5
MODEL_NAME, MODEL_GRAPHS, MODEL_PARSER = 0, 3, 7
UNIT_TYPE, UNIT_OPTIONS = 0, 1
TOKENIZER_FILES = 0
# Enum values in metadata_schema.fbs.
TENSOR_AXIS_LABELS, VOCABULARY_FILE = 2, 5
SENTENCEPIECE: Final = 5
ALIGNMENT: Final = 16  # bytes; required for buffers by schema.fbs


def with_metadata(model: bytes, name: str, files: Collection[str]) -> bytes:
    """Adds tensor names and descriptions of the appended files to a .tflite file.

    Args:
        name: name of the model.
        files: names of the files that will be appended: `LABELS` for models with classes, and
            `VOCABULARY` for MediaPipe. With `VOCABULARY`, the metadata contains MediaPipe's names
            for the inputs.
    """
    unpacked = schema.ModelT.InitFromObj(schema.Model.GetRootAs(model))
    unpacked.buffers.append(schema.BufferT())
    unpacked.buffers[-1].data = np.frombuffer(_Metadata().model(unpacked, name, files), "u1")
    unpacked.metadata.append(schema.MetadataT())
    unpacked.metadata[-1].name, unpacked.metadata[-1].buffer = NAME, len(unpacked.buffers) - 1
    return pack(unpacked)


def model_files(model: PreTrainedModel, tokenizer: BaseTokenizer) -> dict[str, bytes]:
    """Returns the files that `albert_tf.pipeline` needs to load an export, keyed by name."""
    config, embedding = model.config, read_to_copy(model.sentence_embedding)
    files = {CONFIG: config_json(config, model.task.model).encode(), **tokenizer.files()}
    return files if embedding is None else files | embedding.files(config.hidden_size)


def with_files(content: bytes, files: Mapping[str, bytes]) -> bytes:
    """Returns a file with a ZIP archive appended to it.

    The archive isn't compressed, because MediaPipe rejects compressed ones.
    """
    buffer = io.BytesIO(content)
    with zipfile.ZipFile(buffer, "a") as archive:
        for name, data in files.items():
            archive.writestr(zipfile.ZipInfo(name), data)  # ZipInfo's default date is constant.
    return buffer.getvalue()


def pack(model: schema.ModelT) -> bytes:
    """Returns the bytes of a .tflite file."""
    builder = _Aligned(2**20)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def label_lines(labels: Sequence[str]) -> str:
    """Returns the content of `labels.txt`, with one label per line."""
    for label in labels:
        if {"\n", "\r"} & set(label):
            raise UserError(
                f"Label names of an exported model can't contain line breaks. Received: {label!r}. "
                "Rename the label in the model's config.json."
            )
    return "".join(f"{label}\n" for label in labels)


class _Aligned(flatbuffers.Builder):
    """A builder that aligns the weights as the TFLite converter does."""

    def CreateNumpyVector(self, x: np.ndarray) -> int:
        if x.dtype != np.uint8:
            return super().CreateNumpyVector(x)
        self.StartVector(1, x.size, ALIGNMENT)
        self.head -= x.size
        self.Bytes[self.head : self.head + x.size] = x.tobytes()
        return self.EndVector()


class _Metadata(flatbuffers.Builder):
    """A builder of the tables in metadata_schema.fbs."""

    def model(self, model: Any, name: str, files: Collection[str]) -> bytes:
        """Returns the bytes of a ModelMetadata table."""
        others = MEDIAPIPE if VOCABULARY in files else {}
        graphs = []
        signatures = {each.subgraphIndex: each for each in model.signatureDefs}
        for index in range(max(signatures) + 1):
            graph, signature = model.subgraphs[index], signatures.get(index)
            fields = {GRAPH_NAME: self.CreateString(signature.signatureKey if signature else "")}
            if signature:
                for field, numbers, tensors in (
                    (GRAPH_INPUTS, graph.inputs, signature.inputs),
                    (GRAPH_OUTPUTS, graph.outputs, signature.outputs),
                ):
                    names = {tensor.tensorIndex: tensor.name.decode() for tensor in tensors}
                    tables = [
                        self.tensor(others.get(names[number], names[number]), files)
                        for number in numbers
                    ]
                    fields[field] = self.vector(tables)
                if VOCABULARY in files:
                    fields[GRAPH_INPUT_UNITS] = self.tokenizer()
            graphs.append(self.table(fields))
        fields = {
            MODEL_NAME: self.CreateString(name),
            MODEL_GRAPHS: self.vector(graphs),
            MODEL_PARSER: self.CreateString("1.0.0"),
        }
        self.Finish(self.table(fields), b"M001")
        return bytes(self.Output())

    def tensor(self, name: str, files: Collection[str]) -> int:
        fields = {TENSOR_NAME: self.CreateString(name)}
        if LABELS in files and name in BY_CLASS:
            about = "Names of the classes on the last axis."
            fields[TENSOR_FILES] = self.file(LABELS, about, TENSOR_AXIS_LABELS)
        return self.table(fields)

    def tokenizer(self) -> int:
        """Returns the input process units: one SentencePiece tokenizer."""
        file = self.file(VOCABULARY, "SentencePiece model.", VOCABULARY_FILE)
        options = self.table({TOKENIZER_FILES: file})
        return self.vector([self.table({UNIT_OPTIONS: options}, {UNIT_TYPE: SENTENCEPIECE})])

    def file(self, name: str, about: str, kind: int) -> int:
        fields = {FILE_NAME: self.CreateString(name), FILE_DESCRIPTION: self.CreateString(about)}
        return self.vector([self.table(fields, {FILE_TYPE: kind})])

    def table(self, offsets: Mapping[int, int], enums: Mapping[int, int] = {}) -> int:
        self.StartObject(8)
        for field, offset in offsets.items():
            self.PrependUOffsetTRelativeSlot(field, offset, 0)
        for field, value in enums.items():
            self.PrependInt8Slot(field, value, 0)
        return self.EndObject()

    def vector(self, offsets: Sequence[int]) -> int:
        self.StartVector(4, len(offsets), 4)
        for offset in reversed(offsets):
            self.PrependUOffsetTRelative(offset)
        return self.EndVector()
