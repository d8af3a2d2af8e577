"""Locates a checkpoint (a directory, a bundled model, or a Hub model ID) and its format."""

import contextlib
import glob
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from albert_tf import assets
from albert_tf.checkpoints import (
    google,
    hub,
    hugging_face,
    keras_hub,
    sentence_transformers,
    tf_checkpoint,
    tf_hub,
)
from albert_tf.checkpoints.hugging_face import CONFIG, INDEX, WEIGHT_FILES, WEIGHTS
from albert_tf.checkpoints.weights import Checkpoint
from albert_tf.config import AlbertConfig
from albert_tf.errors import UserError, listed
from albert_tf.files import fault, is_exported, read_json, user_path
from albert_tf.huggingface import PRESETS
from albert_tf.tasks import BY_MODEL, ENCODER

# The file names of each vocabulary type, in the order of preference: Hugging Face's,
# google-research/albert's, TensorFlow Hub's, and KerasHub's. `files.find_file` tries the patterns
# last.
SENTENCEPIECE: Final = (
    "spiece.model",
    "30k-clean.model",
    "assets/30k-clean.model",
    keras_hub.VOCABULARY,
    *("*.model", "*.spm", "assets/*.model", "assets/*.spm"),
)
WORDPIECE: Final = (
    *("vocab.txt", "vocab_chinese.txt", "assets/vocab.txt"),
    *("vocab*.txt", "assets/vocab*.txt"),
)
TOKENIZER_JSON: Final = "tokenizer.json"
TOKENIZER_CONFIG: Final = "tokenizer_config.json"
SPECIAL_TOKENS_MAP: Final = "special_tokens_map.json"
ADDED_TOKENS: Final = "added_tokens.json"
TOKENIZER_FILES: Final = (TOKENIZER_CONFIG, SPECIAL_TOKENS_MAP, ADDED_TOKENS, TOKENIZER_JSON)

_POINTER: Final = b"version https://git-lfs.github.com/spec/"  # start of a Git LFS pointer
# A reader takes the folder, `CheckpointLocation.weights`, and a configuration to use instead of the
# checkpoint's. It raises UserError if a file is missing or damaged, or isn't from an ALBERT model.
_READERS: Final[dict[str, Callable[[Path, Path, AlbertConfig | None], Checkpoint]]] = {
    "keras-hub": keras_hub.read,
    "hf": hugging_face.read,
    "tf1": google.read,
    "tf-hub": tf_hub.read,
}


class CheckpointLocation(NamedTuple):
    """A located checkpoint.

    Attributes:
        folder: the checkpoint's directory.
        format: "hf", "keras-hub", "tf1" or "tf-hub"; empty if located with `weights=False`.
        weights: the weights file, its shard index, or the prefix of a TensorFlow checkpoint.
    """

    folder: Path
    format: str = ""
    weights: Path | None = None

    def read(self, config: AlbertConfig | None = None) -> Checkpoint:
        """Reads the checkpoint.

        Args:
            config: configuration to use instead of the checkpoint's, which is then not read.
        Raises:
            UserError: if a file is missing or damaged, or belongs to a different model.
        """
        assert self.weights is not None, "located with weights=False"
        try:
            checkpoint = _READERS[self.format](self.folder, self.weights, config)
        except Exception as error:  # a damaged file can raise any exception
            if isinstance(error, OSError) and error.filename is not None:
                raise
            stem = glob.escape(self.weights.name.partition(".")[0])
            pointers = []
            for path in sorted(self.weights.parent.glob(f"{stem}*")):  # shards too
                with contextlib.suppress(OSError), path.open("rb") as file:
                    if file.read(len(_POINTER)) == _POINTER:
                        pointers.append(path.name)
            if pointers:
                raise UserError(
                    f"{self.folder} contains Git LFS pointers instead of {listed(pointers)}. Run "
                    "git lfs pull there, or download the files."
                ) from error
            if isinstance(error, UserError):
                raise
            reason = next(iter(str(error).splitlines()), "")[:160]
            raise UserError(
                f"{self.weights} can't be read as a checkpoint ({type(error).__name__}: {reason}). "
                "Copy it again from its source."
            ) from error
        return checkpoint._replace(folder=self.folder, config=config or checkpoint.config)

    def architectures(self) -> list[str]:
        """Returns the class names in `config.json`, or an empty list if it is missing or damaged.

        The prefixes TF and Flax are dropped, and Bert becomes Albert.
        """
        names = _config_json(self.folder).get("architectures")
        names = names if isinstance(names, list) else []
        return [re.sub(r"^(TF|Flax)?(Albert|Bert)(?=[A-Z])", "Albert", str(name)) for name in names]

    def check_head(self, wanted: str) -> None:
        """Raises UserError if `config.json` lists only model classes for other tasks.

        Args:
            wanted: class name of the model.
        """
        tags = {name: task.pipeline_tag for name, task in BY_MODEL.items() if task is not ENCODER}
        named = [name for name in self.architectures() if name in tags]
        if wanted in tags and named and tags[wanted] not in map(tags.get, named):
            raise UserError(
                f"This task requires an {wanted}, but {self.folder} contains an "
                f"{' and an '.join(sorted(named))}. Fine-tune it first, or use another checkpoint."
            )


def find(
    name_or_path: str | os.PathLike[str],
    *,
    weights: bool = True,
    tokenizer: bool = False,
    **hub_options: Any,
) -> CheckpointLocation:
    """Locates a checkpoint and, for a Hub model ID, downloads the requested files.

    Args:
        name_or_path: a directory; the path of a TensorFlow checkpoint without its suffix; a Hub
            model ID such as "albert/albert-base-v2"; or "small", the bundled model.
        weights: whether to locate the weights too. If they exist in several formats, the first
            format in the order of preference is used.
        tokenizer: whether to download the tokenizer files and, if `weights` is also set, the
            sentence-transformers files.
        **hub_options: `revision`, `token`, `cache_dir`, `local_files_only`, and `force_download`,
            as in huggingface_hub. `subfolder` names a folder in the directory or repository.
    Raises:
        UserError: if there is no checkpoint, its format is unknown, or the Hub can't be reached.
    """
    if not str(name_or_path):
        raise UserError("The model name is empty. Pass a directory or a Hub model ID.")
    path = user_path(name_or_path) / (hub_options.get("subfolder") or "")
    location = CheckpointLocation(sentence_transformers.encoder_folder(path))
    if not path.is_dir():
        if prefix := tf_checkpoint.find_prefix(path):
            return CheckpointLocation(prefix.parent, "tf1", prefix)
        if str(name_or_path) in assets.MODELS:
            location = CheckpointLocation(assets.model(str(name_or_path)))
        else:
            repository = hub.Repository(_repository_name(str(name_or_path), path), **hub_options)
            location = CheckpointLocation(_download(repository, weights, tokenizer))
    elif path.name.startswith(hub.CACHED) and (snapshots := [*path.glob("snapshots/*/")]):
        raise UserError(
            f"{path} is a model's folder in the Hub cache. Pass {' or '.join(map(str, snapshots))}."
        )
    return _with_format(location) if weights else location


def read_config(name_or_path: str | os.PathLike[str], **hub_options: Any) -> AlbertConfig:
    """Reads a configuration, and the weights only if the configuration depends on them."""
    location = find(name_or_path, weights=False, **hub_options)
    path = location.folder / CONFIG
    if location.weights is None and path.is_file() and not _is_preset(location.folder):
        return AlbertConfig.from_json_file(path)
    return find(name_or_path, **hub_options).read().config


def split_hub_options(options: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Splits the options of `from_pretrained` into Hub options and all other options."""
    chosen = {name: value for name, value in options.items() if name in hub.OPTIONS}
    return chosen, {name: value for name, value in options.items() if name not in hub.OPTIONS}


def _with_format(location: CheckpointLocation) -> CheckpointLocation:
    folder = location.folder
    if _is_preset(folder):
        return location._replace(format="keras-hub", weights=folder / keras_hub.WEIGHTS)
    files = (folder / name for name in hugging_face.WEIGHT_NAMES)
    file = next((file for file in files if file.is_file()), None)
    if file:
        return location._replace(format="hf", weights=file)
    if (folder / tf_hub.GRAPH).is_file():
        return location._replace(format="tf-hub", weights=folder / tf_hub.VARIABLES)
    if prefix := tf_checkpoint.find_prefix(folder):
        return location._replace(format="tf1", weights=prefix)
    if (folder / keras_hub.WEIGHTS).is_file():  # The reader's error names the missing file.
        return location._replace(format="keras-hub", weights=folder / keras_hub.WEIGHTS)
    broken = " (a broken link)"
    found = sorted(
        entry.name + "/" * entry.is_dir() + broken * (not entry.exists())
        for entry in folder.iterdir()
    )
    listing = ", ".join(found[:8]) + ", …" * (len(found) > 8)
    raise UserError(
        f"A model directory must contain {WEIGHTS if CONFIG in found else CONFIG}. Received: "
        f"{folder}, which contains {listing or 'no files'}. Weights are also read from "
        f"{', '.join(WEIGHT_FILES[1:])}, a KerasHub preset ({keras_hub.WEIGHTS}), a TensorFlow "
        f"checkpoint (*.index with {google.CONFIG} or {CONFIG}), and a TF-Hub module or another "
        f"SavedModel ({tf_hub.GRAPH})."
    )


def _repository_name(name: str, path: Path) -> str:
    if path.exists() and not path.is_file():
        raise UserError(f"A model must be a directory. Received: {path}, which {fault(path)}.")
    if is_exported(path) and path.exists():
        raise UserError(
            f"{path} is an exported file, which can only be run. To load, train, convert, or "
            "export the model, pass the directory that it was exported from."
        )
    if path.exists():
        raise UserError(
            f"{path} is a file, not a model directory. Pass a directory that contains {CONFIG} and "
            f"one of the weight files {', '.join(WEIGHT_FILES[:3])} (Keras 2), or "
            f"{WEIGHT_FILES[3]}."
        )
    repository = hub.repository(name)
    if repository is None and (preset := PRESETS.get(path.name)):
        raise UserError(f"{name} is a preset of KerasHub. Pass {preset!r}, or the preset's folder.")
    if repository is None:
        raise UserError(
            "A model must be a directory or a Hub model ID of the form owner/name. "
            f"Received: {path}, which is neither."
        )
    return repository


def _download(repository: hub.Repository, weights: bool, tokenizer: bool) -> Path:
    """Downloads the requested files and returns their folder."""
    config = repository.file(CONFIG)
    preset = config is not None and _is_preset(config.parent)
    if config is None and (weights or not tokenizer):
        raise repository.failure(CONFIG)
    if weights:
        names = (keras_hub.WEIGHTS,) if preset else hugging_face.WEIGHT_NAMES
        file = repository.first(names)
        if file is None:
            raise repository.failure("its weights")
        for name in keras_hub.TASK_FILES if preset else ():
            repository.file(name)
        for name in hugging_face.read_index(file) if file.name.endswith(INDEX) else ():
            if repository.file(name) is None:
                raise repository.failure(f"{name} (listed in {file.name})")
    vocabulary = None
    if tokenizer:
        vocabularies = (SENTENCEPIECE[0], WORDPIECE[0], TOKENIZER_JSON)
        vocabulary = repository.first((keras_hub.VOCABULARY,) if preset else vocabularies)
        for name in (TOKENIZER_CONFIG, SPECIAL_TOKENS_MAP, ADDED_TOKENS):
            repository.file(name)
    is_whole = weights and tokenizer and not preset
    if is_whole and (modules := repository.file(sentence_transformers.MODULES)):
        for name in sentence_transformers.module_files(modules.parent):
            repository.file(name)
    if config is None and vocabulary is None:
        raise repository.failure()
    return (config or vocabulary).parent  # type: ignore[union-attr]


def _is_preset(folder: Path) -> bool:
    """Returns whether `config.json` is from KerasHub, which adds a class name."""
    return "class_name" in _config_json(folder)


def _config_json(folder: Path) -> dict[str, Any]:
    try:
        return read_json(folder / CONFIG)
    except (OSError, UserError):
        return {}
