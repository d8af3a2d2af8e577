"""Models in .tflite and .onnx files, which run without Keras and TensorFlow.

An exported file ends with a ZIP archive of the model directory's other files: `config.json` and
the tokenizer files. For example, `unzip -p my-model.tflite config.json` prints the configuration.
The archive also contains a checksum of the graph and these files.
"""

import contextlib
import hashlib
import importlib.util
import math
import os
import re
import tempfile
import threading
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import numpy as np

from albert_tf.checkpoints import sentence_transformers
from albert_tf.checkpoints.finder import (
    SENTENCEPIECE,
    SPECIAL_TOKENS_MAP,
    TOKENIZER_CONFIG,
    WORDPIECE,
    CheckpointLocation,
)
from albert_tf.checkpoints.hugging_face import CONFIG
from albert_tf.checkpoints.sentence_transformers import SentenceEmbedding
from albert_tf.config import AlbertConfig
from albert_tf.errors import UserError, listed
from albert_tf.files import fault, user_path
from albert_tf.options import cores
from albert_tf.quiet import hidden_stderr
from albert_tf.runtimes import run as runtimes
from albert_tf.runtimes.run import Arrays, RuntimeSignature
from albert_tf.tasks import BEAM, MASKED_LM_POSITIONS, QUESTION_ANSWERING, TASKS, TaskFacts
from albert_tf.text.tokenizer import AlbertTokenizer
from albert_tf.text.transformers_api import TransformersTokenizer

FILES: Final = (CONFIG, TOKENIZER_CONFIG, SPECIAL_TOKENS_MAP, SENTENCEPIECE[0], WORDPIECE[0])
CHECKSUM: Final = "sha256.txt"
POSITIONS: Final = MASKED_LM_POSITIONS.name
LOGITS_OF_TOKENS: Final = ("logits", "prediction_logits")  # outputs of models that take positions
_OF_IDS: Final = re.compile(r"(ids|masked)(_\d+)?")  # ids_16 takes 16 ids


class ExportedModel:
    """An exported model that pipelines can use like a Keras model, from any thread.

    Args:
        path: path of a .tflite or .onnx file that this package exported.
    Attributes:
        task: the properties of the model's task.
        config: configuration of the model; `max_position_embeddings` is at most the number of
            tokens that the file accepts.
        tokenizer: tokenizer of the model.
    Raises:
        UserError: if the file doesn't exist, is damaged, contains no configuration and tokenizer,
            or needs a runtime that isn't installed.
    """

    jit_compile = False
    parallel_batches = 1

    def __init__(self, path: str | os.PathLike[str]):
        self.path = user_path(path)
        with _directory(self.path) as folder:
            self.task, self.config = _facts(self.path, folder)
            self.tokenizer: TransformersTokenizer = AlbertTokenizer.from_pretrained(folder)
            self._embedding = sentence_transformers.read(folder)
        self._signatures = _id_signatures(self.path, 3 if self.task.has_choices else 2)
        self._shapes = _output_shapes(self.task, self.config)
        self._lock = threading.Lock()
        positions = min(self.config.max_position_embeddings, _longest(self._signatures[-1]))
        self.config = self.config.replace(max_position_embeddings=int(positions))

    def untrained_parts(self) -> list[str]:
        """Returns an empty list, because a file doesn't record untrained parts."""
        return []

    def sentence_embedding(self) -> SentenceEmbedding | None:
        """Returns the pooling settings if the model came from a sentence-transformers folder."""
        return self._embedding

    def predict_on_batch(self, features: Arrays) -> dict[str, np.ndarray]:
        """Pads a batch to the signature's length and returns the outputs, `[B, …]`, keyed by name.

        Args:
            features: int32 `[B, T]`, or `[B, C, T]` for multiple choice. With
                `masked_lm_positions` `[B, P]`, the logits are `[B, P, V]`.
        Raises:
            UserError: if the batch has more tokens, positions, or choices than the exported model
                accepts, or if running the model fails.
        """
        length = features["input_ids"].shape[-1]
        fitting = (each for each in self._signatures if _longest(each) >= length)
        signature = next(fitting, self._signatures[-1])
        self._check_sizes(features, signature)
        try:
            with self._lock:
                outputs = signature(features)
        except Exception as error:  # ONNX Runtime raises many kinds
            raise UserError(
                f"{self.path} failed to compute a batch: {runtimes.reason(error)!r}. "
                "Export the model again."
            ) from error
        self._check_outputs(outputs, features, signature)
        if POSITIONS in features and POSITIONS not in signature.inputs:
            positions = features[POSITIONS][..., np.newaxis]
            for name in outputs.keys() & set(LOGITS_OF_TOKENS):
                outputs[name] = np.take_along_axis(outputs[name], positions, axis=1)
        return outputs

    def _check_sizes(self, features: Arrays, signature: RuntimeSignature) -> None:
        """Rejects examples larger than a signature's inputs."""
        for name, shape in signature.inputs.items():
            sizes = features[name].shape[1:] if name in features else ()
            if any(0 <= most < size for size, most in zip(sizes, shape[1:], strict=False)):
                unit = "masks" if name == POSITIONS else "tokens (or choices × tokens)"
                most = " × ".join("any" if size < 0 else str(size) for size in shape[1:])
                raise UserError(
                    f"{self.path} was exported for at most {most} {unit} per example. "
                    f"Received: {' × '.join(map(str, sizes))}. Export it with a higher limit."
                )

    def _check_outputs(
        self, outputs: Arrays, features: Arrays, signature: RuntimeSignature
    ) -> None:
        """Rejects outputs that don't match the model in the file's `config.json`."""
        has_positions = POSITIONS in features and POSITIONS in signature.inputs
        least = features[POSITIONS if has_positions else "input_ids"].shape[1]
        for name, sizes in self._shapes.items():
            found = outputs[name].shape[1:] if name in outputs else None
            if (
                found is None
                or len(found) != len(sizes)
                or any(
                    size < least if expected is None else size != expected
                    for size, expected in zip(found, sizes, strict=True)
                )
            ):
                wanted = ", ".join(["B", *("any" if each is None else str(each) for each in sizes)])
                raise UserError(
                    f"According to its {CONFIG}, {self.path} contains an {self.task.model}, which "
                    f"returns {name} [{wanted}], but the file returned "
                    f"{'none' if found is None else ['B', *found]}. Export the model again."
                )


class ExportedSimilarity(ExportedModel):
    """An exported encoder that returns sentence vectors, like `AlbertForSimilarity`."""

    def __init__(self, path: str | os.PathLike[str]):
        super().__init__(path)
        embedding = self._embedding or SentenceEmbedding("mean")
        embedding.require_cosine(self.path)
        self._vectors = SentenceEmbedding(embedding.pooling, normalize=True)
        if embedding.max_length is not None:
            self.tokenizer.model_max_length = embedding.max_length

    def predict_on_batch(self, features: Arrays) -> dict[str, np.ndarray]:
        """Returns the texts' unit vectors as `embeddings` `[B, C, D]`.

        Args:
            features: int32 `[B, C, T]`.
        """
        *shape, length = features["input_ids"].shape
        rows = {name: values.reshape(-1, length) for name, values in features.items()}
        states = super().predict_on_batch(rows)["last_hidden_state"][:, :length]
        vectors = self._vectors(states, rows["attention_mask"].astype("float32"))
        return {"embeddings": vectors.reshape(*shape, -1)}


def with_checksum(graph: bytes, files: Mapping[str, bytes]) -> dict[str, bytes]:
    """Adds a checksum that detects changes to the files or the graph."""
    digest = hashlib.sha256(graph)
    for name, content in sorted(files.items()):
        digest.update(f"{name}\0{len(content)}\0".encode() + content)
    return {**files, CHECKSUM: digest.hexdigest().encode()}


def read_facts(
    path: str | os.PathLike[str],
) -> tuple[TaskFacts, AlbertConfig, SentenceEmbedding | None]:
    """Returns the task, configuration, and pooling of a file's model without loading its runtime.

    The pooling is None unless the model came from a sentence-transformers folder.
    """
    path = user_path(path)
    with _directory(path) as folder:
        return *_facts(path, folder), sentence_transformers.read(folder)


def _facts(path: Path, folder: Path) -> tuple[TaskFacts, AlbertConfig]:
    names = CheckpointLocation(folder).architectures()
    by_model = {task.model: task for task in TASKS.values()}
    if len(names) != 1 or names[0] not in by_model:
        raise UserError(
            f"{CONFIG} in {path} must contain one of the classes {', '.join(by_model)}, but "
            f"contains {', '.join(names) or 'none'}. Export the model again."
        )
    return by_model[names[0]], AlbertConfig.from_json_file(folder / CONFIG)


def _output_shapes(task: TaskFacts, config: AlbertConfig) -> dict[str, tuple[int | None, ...]]:
    """Returns the shapes of the outputs that callers read, without the batch axis.

    A size of None is the number of tokens, masks, or choices.
    """
    if task == QUESTION_ANSWERING and config.answerability:
        beam = dict.fromkeys(("start_top_log_probs", "start_top_index"), (BEAM,))
        ends = dict.fromkeys(("end_top_log_probs", "end_top_index"), (BEAM * BEAM,))
        return {**beam, **ends, "cls_logits": ()}
    classes, vocabulary = config.num_labels, config.vocab_size
    shapes: dict[str, dict[str, tuple[int | None, ...]]] = {
        "AlbertModel": {"last_hidden_state": (None, config.hidden_size)},
        "AlbertForPreTraining": {"prediction_logits": (None, vocabulary), "sop_logits": (2,)},
        "AlbertForMaskedLM": {"logits": (None, vocabulary)},
        "AlbertForSequenceClassification": {"logits": (classes,)},
        "AlbertForTokenClassification": {"logits": (None, classes)},
        "AlbertForQuestionAnswering": {"start_logits": (None,), "end_logits": (None,)},
        "AlbertForMultipleChoice": {"logits": (None,)},
    }
    return shapes[task.model]


@contextlib.contextmanager
def _directory(path: Path) -> Iterator[Path]:
    """Yields a temporary directory with the files that an export contains."""
    if not path.is_file():
        raise UserError(f"The model must be a file. Received: {path}, which {fault(path)}.")
    with tempfile.TemporaryDirectory(prefix="albert_tf-") as name:
        for file, content in _verified_files(path).items():
            (Path(name) / file).parent.mkdir(exist_ok=True)
            (Path(name) / file).write_bytes(content)
        yield Path(name)


def _verified_files(path: Path) -> dict[str, bytes]:
    """Returns an export's files, or raises UserError if they or the graph have changed."""
    try:
        files, start = _stored_files(path)
    except Exception as error:  # a damaged archive can raise any exception
        if isinstance(error, OSError) and error.filename is not None:
            raise
        raise UserError(
            f"{path} is damaged: its archive of {CONFIG} and the tokenizer can't be read "
            f"({str(error)[:160]}). Copy the file or export the model again."
        ) from error
    if CONFIG not in files:
        raise UserError(
            f"{path} must contain {CONFIG} and a tokenizer. It was exported for MediaPipe, by "
            "another program, or by an older version. Export the model again, without --for."
        )
    checksum = files.pop(CHECKSUM, None)
    with path.open("rb") as file:
        graph = file.read(start)
    if checksum != with_checksum(graph, files)[CHECKSUM]:
        raise UserError(
            f"{path} has {'no' if checksum is None else 'the wrong'} SHA-256 checksum. The file is "
            "damaged, was changed, or was exported by an older version. Export the model again."
        )
    return files


def _stored_files(path: Path) -> tuple[dict[str, bytes], int]:
    """Returns the files in the archive appended to a graph, and the size of the graph in bytes."""
    files: dict[str, bytes] = {}
    with path.open("rb") as file:
        if not zipfile.is_zipfile(file):
            return files, 0
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            name = member.filename
            is_extra = sentence_transformers.FILE_NAMES.fullmatch(name)
            # Compressed files are skipped, because they may be decompression bombs.
            is_stored = member.compress_type == zipfile.ZIP_STORED
            if is_stored and (is_extra or name in (*FILES, CHECKSUM)):
                files[name] = archive.read(member)
        return files, min((member.header_offset for member in archive.infolist()), default=0)


def _id_signatures(path: Path, rank: int) -> list[RuntimeSignature]:
    """Returns a file's signatures that take ids of this rank, shortest sequences first."""
    is_onnx = path.suffix == ".onnx"
    if is_onnx and importlib.util.find_spec("onnxruntime") is None:
        raise UserError(
            f"{path} requires ONNX Runtime, which is not installed. Run pip install onnxruntime."
        )
    try:
        with hidden_stderr():
            signatures = runtimes.OPENERS[path.suffix[1:]](path, cores())
    except Exception as error:  # ONNX Runtime raises many kinds
        raise UserError(
            f"{path} is not a valid {path.suffix} file: {runtimes.reason(error)}."
        ) from error
    taking_ids = [
        each
        for name, each in signatures.items()
        if _OF_IDS.fullmatch(name) and len(each.inputs.get("input_ids", ())) == rank
    ]
    if not taking_ids:
        raise UserError(
            f"According to its {CONFIG}, {path} must take input_ids of rank {rank}, but none of "
            f"its signatures does: {listed(signatures)}. Export the model again."
        )
    return sorted(taking_ids, key=_longest)


def _longest(signature: RuntimeSignature) -> float:
    """Returns the maximum number of tokens in a sequence."""
    length = signature.inputs["input_ids"][-1]
    return length if length > 0 else math.inf
