"""A model in a .tflite or .onnx file, which answers without Keras and TensorFlow.

Behind the graph, an export carries the other files of a model's directory, `config.json` and the
tokenizer's, as a ZIP archive: `unzip -p my-model.tflite config.json` prints one. A checksum of the
graph and of these files is in the archive too.
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
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import numpy as np

from albert_tf import runtimes
from albert_tf.checkpoints import sentence_transformers
from albert_tf.checkpoints.finder import (
    SENTENCEPIECE,
    SPECIAL_TOKENS_MAP,
    TOKENIZER_CONFIG,
    WORDPIECE,
    CheckpointLocation,
)
from albert_tf.checkpoints.hugging_face import CONFIG, config_json
from albert_tf.checkpoints.sentence_transformers import SentenceEmbedding
from albert_tf.config import AlbertConfig
from albert_tf.errors import UserError, listed
from albert_tf.files import fault, user_path
from albert_tf.options import cores
from albert_tf.quiet import hidden_stderr
from albert_tf.runtimes import Arrays, RuntimeSignature
from albert_tf.tasks import QUESTION_ANSWERING, TASKS, TaskFacts
from albert_tf.text.base_tokenizer import BaseTokenizer
from albert_tf.text.tokenizer import AlbertTokenizer

FILES: Final = (CONFIG, TOKENIZER_CONFIG, SPECIAL_TOKENS_MAP, SENTENCEPIECE[0], WORDPIECE[0])
CHECKSUM: Final = "sha256.txt"
POSITIONS: Final = "masked_lm_positions"
LOGITS_OF_TOKENS: Final = ("logits", "prediction_logits")  # of models that take positions
BEAM: Final = 5  # `layers.heads.BEAM`, which needs Keras
_OF_IDS: Final = re.compile(r"(ids|masked)(_\d+)?")  # ids_16 takes 16 ids


class ExportedModel:
    """A file's model, which pipelines call as they call a Keras model, from any thread.

    Args:
        path: a .tflite or .onnx file that this package exported.
    Attributes:
        task: the facts of the model's task.
        config: the model's; `max_position_embeddings` is at most what the file takes.
        tokenizer: the model's.
    Raises:
        UserError: there is no such file, it carries no model's files, or its runtime isn't
            installed.
    """

    jit_compile = False

    def __init__(self, path: str | os.PathLike[str]):
        self.path = user_path(path)
        with _directory(self.path) as folder:
            self.task, self.config = _facts(self.path, folder)
            self.tokenizer: BaseTokenizer = AlbertTokenizer.from_pretrained(folder)
            self._embedding = sentence_transformers.read(folder)
        self._signatures = _opened(self.path, 3 if self.task.has_choices else 2)
        self._shapes = _output_shapes(self.task, self.config)
        self._lock = threading.Lock()
        positions = min(self.config.max_position_embeddings, _longest(self._signatures[-1]))
        self.config = self.config.replace(max_position_embeddings=int(positions))

    def untrained_parts(self) -> list[str]:
        """Returns none: a file doesn't say what was trained."""
        return []

    def sentence_embedding(self) -> SentenceEmbedding | None:
        """Returns how vectors are made, if the folder was one of sentence-transformers."""
        return self._embedding

    def predict_on_batch(self, features: Arrays) -> dict[str, np.ndarray]:
        """Returns the outputs of a batch by name, `[B, …]`, padded to the file's length.

        Args:
            features: int32 `[B, T]`, or for multiple choice `[B, C, T]`; with `masked_lm_positions`
                `[B, P]` logits are `[B, P, V]`.
        Raises:
            UserError: the file takes fewer tokens, positions or choices, or can't compute a batch.
        """
        length = features["input_ids"].shape[-1]
        fitting = (each for each in self._signatures if _longest(each) >= length)
        signature = next(fitting, self._signatures[-1])
        self._check_sizes(features, signature)
        try:
            with self._lock:
                outputs = signature(features)
        except Exception as error:  # ONNX Runtime's classes have no common base but this.
            raise UserError(
                f"{self.path} must compute a batch. Received: {runtimes.reason(error)!r}. "
                "Export the model again."
            ) from error
        self._check_outputs(outputs, features, signature)
        if POSITIONS in features and POSITIONS not in signature.inputs:
            positions = features[POSITIONS][..., np.newaxis]
            for name in outputs.keys() & set(LOGITS_OF_TOKENS):
                outputs[name] = np.take_along_axis(outputs[name], positions, axis=1)
        return outputs

    def _check_sizes(self, features: Arrays, signature: RuntimeSignature) -> None:
        """Refuses an example that is larger than a signature's inputs."""
        for name, shape in signature.inputs.items():
            sizes = features[name].shape[1:] if name in features else ()
            if any(0 <= most < size for size, most in zip(sizes, shape[1:], strict=False)):
                unit = "masks" if name == POSITIONS else "tokens, or choices and tokens"
                most = " × ".join("any" if size < 0 else str(size) for size in shape[1:])
                raise UserError(
                    f"An example must have at most {most} {unit}, for which {self.path} was "
                    f"exported. Received: {' × '.join(map(str, sizes))}. Export the model for more."
                )

    def _check_outputs(
        self, outputs: Arrays, features: Arrays, signature: RuntimeSignature
    ) -> None:
        """Refuses outputs that aren't those of the model in the file's `config.json`."""
        has_positions = POSITIONS in features and POSITIONS in signature.inputs
        least = features[POSITIONS if has_positions else "input_ids"].shape[1]
        for name, sizes in self._shapes.items():
            found = outputs[name].shape[1:] if name in outputs else None
            if found is None or not _fits(found, sizes, least):
                wanted = ", ".join(["B", *("any" if each is None else str(each) for each in sizes)])
                raise UserError(
                    f"By its {CONFIG}, {self.path} must have the output {name} [{wanted}] of an "
                    f"{self.task.model}. Received: "
                    f"{'none' if found is None else ['B', *found]}. Export the model again."
                )


class ExportedSimilarity(ExportedModel):
    """The file of an encoder, whose vectors are compared as those of `AlbertForSimilarity`."""

    def __init__(self, path: str | os.PathLike[str]):
        super().__init__(path)
        embedding = self._embedding or SentenceEmbedding("mean")
        embedding.require_cosine(self.path)
        self._vectors = SentenceEmbedding(embedding.pooling, normalize=True)

    def predict_on_batch(self, features: Arrays) -> dict[str, np.ndarray]:
        """Returns the unit vectors of the texts, `embeddings` `[B, C, D]`.

        Args:
            features: int32 `[B, C, T]`.
        """
        *shape, length = features["input_ids"].shape
        rows = {name: values.reshape(-1, length) for name, values in features.items()}
        states = super().predict_on_batch(rows)["last_hidden_state"][:, :length]
        vectors = self._vectors(states, rows["attention_mask"].astype("float32"))
        return {"embeddings": vectors.reshape(*shape, -1)}


def model_files(
    config: AlbertConfig,
    class_name: str,
    tokenizer: BaseTokenizer,
    embedding: SentenceEmbedding | None = None,
) -> dict[str, bytes]:
    """Returns the files that an export carries, by name."""
    files = {CONFIG: config_json(config, class_name).encode(), **tokenizer.files()}
    return files if embedding is None else files | embedding.files(config.hidden_size)


def with_checksum(graph: bytes, files: Mapping[str, bytes]) -> dict[str, bytes]:
    """Returns the files, and a checksum that shows a change of one of them or of the graph."""
    digest = hashlib.sha256(graph)
    for name, content in sorted(files.items()):
        digest.update(f"{name}\0{len(content)}\0".encode() + content)
    return {**files, CHECKSUM: digest.hexdigest().encode()}


def read_facts(path: str | os.PathLike[str]) -> tuple[TaskFacts, AlbertConfig]:
    """Returns the task and the configuration of a file's model, without its runtime.

    Raises:
        UserError: there is no such file, or it carries no model's files.
    """
    path = user_path(path)
    with _directory(path) as folder:
        return _facts(path, folder)


def _facts(path: Path, folder: Path) -> tuple[TaskFacts, AlbertConfig]:
    names = CheckpointLocation(folder).architectures()
    by_model = {task.model: task for task in TASKS.values()}
    if len(names) != 1 or names[0] not in by_model:
        raise UserError(
            f"{CONFIG} in {path} must name one of {', '.join(by_model)}. Received: "
            f"{', '.join(names) or 'none'}. Export the model again."
        )
    return by_model[names[0]], AlbertConfig.from_json_file(folder / CONFIG)


def _output_shapes(task: TaskFacts, config: AlbertConfig) -> dict[str, tuple[int | None, ...]]:
    """Returns the shapes of the outputs that callers read, without the batch axis.

    None is the axis of tokens, of masks, or of choices.
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


def _fits(found: Sequence[int], sizes: Sequence[int | None], least: int) -> bool:
    """Returns whether a shape has these sizes; None stands for `least` or more."""
    return len(found) == len(sizes) and all(
        size >= least if wanted is None else size == wanted
        for size, wanted in zip(found, sizes, strict=True)
    )


@contextlib.contextmanager
def _directory(path: Path) -> Iterator[Path]:
    """Yields a temporary directory with the files that an export carries."""
    if not path.is_file():
        raise UserError(f"The model must be a file. Received: {path}, which {fault(path)}.")
    with tempfile.TemporaryDirectory(prefix="albert_tf-") as name:
        for file, content in _archived(path).items():
            (Path(name) / file).parent.mkdir(exist_ok=True)
            (Path(name) / file).write_bytes(content)
        yield Path(name)


def _archived(path: Path) -> dict[str, bytes]:
    """Returns the files that an export carries, and refuses them if they or its graph changed."""
    try:
        files, start = _stored_files(path)
    except Exception as error:  # a damaged archive can raise any exception
        if isinstance(error, OSError) and error.filename is not None:
            raise
        raise UserError(
            f"{path} must be as it was exported. Received: a damaged archive of its {CONFIG} and "
            f"tokenizer ({str(error)[:160]}). Copy it again, or export the model again."
        ) from error
    if CONFIG not in files:
        raise UserError(
            f"An exported file must carry the model's {CONFIG} and tokenizer. Received: "
            f"{path}, which has none: another program's file, an older export, or one for "
            "MediaPipe. Export the model again, for no host."
        )
    checksum = files.pop(CHECKSUM, None)
    with path.open("rb") as file:
        graph = file.read(start)
    if checksum != with_checksum(graph, files)[CHECKSUM]:
        raise UserError(
            f"{path} must be as it was exported, with its own {CONFIG} and tokenizer. "
            f"Received: {'no' if checksum is None else 'another'} checksum (SHA-256) of them: the "
            "file is damaged, was changed, or is an older export. Export the model again."
        )
    return files


def _stored_files(path: Path) -> tuple[dict[str, bytes], int]:
    """Returns the files in the archive behind a graph, and the size of the graph."""
    files: dict[str, bytes] = {}
    with path.open("rb") as file:
        if not zipfile.is_zipfile(file):
            return files, 0
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            name = member.filename
            is_known = name in (*FILES, CHECKSUM) or sentence_transformers.FILE_NAMES.fullmatch(
                name
            )
            # Only stored files: a packed one may be a bomb.
            if is_known and member.compress_type == zipfile.ZIP_STORED:
                files[name] = archive.read(member)
        return files, min((member.header_offset for member in archive.infolist()), default=0)


def _opened(path: Path, rank: int) -> list[RuntimeSignature]:
    """Returns the signatures of a file that take ids of this rank, of shortest rows first."""
    is_onnx = path.suffix == ".onnx"
    if is_onnx and importlib.util.find_spec("onnxruntime") is None:
        raise UserError(
            f"{path} needs ONNX Runtime. Received: no package onnxruntime. Run pip install "
            "onnxruntime."
        )
    try:
        with hidden_stderr():
            signatures = runtimes.OPENED[path.suffix[1:]](path, cores())
    except Exception as error:  # ONNX Runtime's classes have no common base but this.
        raise UserError(
            f"{path} must be {'an .onnx' if is_onnx else 'a .tflite'} file. "
            f"Received: {runtimes.reason(error)}."
        ) from error
    taking_ids = [
        each
        for name, each in signatures.items()
        if _OF_IDS.fullmatch(name) and len(each.inputs.get("input_ids", ())) == rank
    ]
    if not taking_ids:
        raise UserError(
            f"{path} must take input_ids of rank {rank}, by its {CONFIG}. Received: the signatures "
            f"{listed(signatures)}. Export the model again."
        )
    return sorted(taking_ids, key=_longest)


def _longest(signature: RuntimeSignature) -> float:
    """Returns the maximum number of tokens in a sequence."""
    length = signature.inputs["input_ids"][-1]
    return length if length > 0 else math.inf
