"""Reads and writes sentence-transformers folders, which define how to pool token states.

`modules.json` lists the modules: a Transformer and a Pooling, optionally followed by Normalize and
Dropout. The Transformer is a Hugging Face directory, either the folder itself or `0_Transformer`.
Each module has a folder with settings in `config.json`. Supports versions 2 to 6 of the format.
"""

import dataclasses
import json
import re
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path, PurePosixPath
from typing import Any, Final, NamedTuple

import numpy as np

from albert_tf.errors import UserError, listed, short_repr
from albert_tf.files import as_json, read_bytes, read_json, replace_files

MODULES: Final = "modules.json"
PROMPTS: Final = "config_sentence_transformers.json"
# The Transformer's settings. In early versions, the file name contains the type of model.
SETTINGS: Final = ("sentence_bert_config.json", "sentence_albert_config.json")
_CONFIG: Final = "config.json"
# Names of the files that `SentenceEmbedding.files` returns.
FILE_NAMES: Final = re.compile(rf"{MODULES}|{PROMPTS}|{SETTINGS[0]}|1_Pooling/{_CONFIG}")
COSINE: Final = "cosine"
# Names that sentence-transformers has used for similarity functions, and their current names.
_SIMILARITIES: Final = {
    COSINE: COSINE,
    None: COSINE,
    "dot": "dot",
    "dot_product": "dot",
    "euclidean": "euclidean",
    "manhattan": "manhattan",
}
_TYPES: Final = "sentence_transformers."  # prefix of module classes
FOLDER: Final = "folder"  # use the pooling from the model's folder, if there is one
_EPSILON: Final = 1e-12  # the default of torch.nn.functional.normalize
_LOWEST: Final = -1e9

Pooled = Callable[[Any, Any, Any], Any]
# Each function takes the hidden states [B, T, H], the mask [B, T, 1], and the library to compute
# with (NumPy or keras.ops). Rows are padded on the right and may consist only of padding.
POOLINGS: Final[dict[str, Pooled]] = {
    "mean": lambda states, mask, ops: (
        ops.sum(states * mask, axis=1) / ops.maximum(ops.sum(mask, axis=1), 1e-9)
    ),
    "cls": lambda states, mask, ops: states[:, 0],
    "max": lambda states, mask, ops: ops.max(ops.where(mask > 0, states, _LOWEST), axis=1),
}
# The keys that select a pooling mode in settings written before version 6.
_FLAGS: Final = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_max_tokens": "max",
}


@dataclasses.dataclass(frozen=True)
class SentenceEmbedding:
    """Computes a text's vector from its token states.

    Attributes:
        pooling: a key of `POOLINGS`.
        normalize: whether to scale vectors to unit length.
        max_length: maximum number of tokens per text; None for the tokenizer's limit.
        similarity: how sentence-transformers compares the vectors: "cosine", "dot", "euclidean", or
            "manhattan".
    """

    pooling: str
    normalize: bool = False
    max_length: int | None = None
    similarity: str = COSINE

    def __call__(self, states: Any, mask: Any, ops: Any = np) -> Any:
        """Returns one vector per text, float32 `[B, H]`.

        Args:
            states: float32 `[B, T, H]`, padded on the right.
            mask: float32 `[B, T]`, 1 for tokens and 0 for padding.
            ops: NumPy or `keras.ops`.
        """
        vectors = POOLINGS[self.pooling](states, mask[..., None], ops)
        if self.normalize:
            squares = ops.sum(vectors * vectors, axis=-1, keepdims=True)
            vectors = vectors / ops.sqrt(ops.maximum(squares, _EPSILON**2))
        return vectors

    def require_cosine(self, origin: Any) -> None:
        """Raises UserError if the folder specifies a similarity function other than cosine."""
        if self.similarity != COSINE and not (self.similarity == "dot" and self.normalize):
            raise UserError(
                f"Only cosine similarity is supported. Received: similarity_fn_name "
                f"{self.similarity!r} in the {PROMPTS} of {origin}. Compare the vectors of the "
                "feature-extraction pipeline yourself, or set this field to 'cosine' and fine-tune."
            )

    def files(self, hidden_size: int) -> dict[str, bytes]:
        """Returns the content of the folder's files, except the model's, keyed by path."""
        pooling = {flag: name == self.pooling for flag, name in _FLAGS.items()}
        modules = [("Transformer", ""), ("Pooling", "1_Pooling")]
        modules += [("Normalize", "2_Normalize")] * self.normalize
        contents: dict[str, Any] = {
            f"1_Pooling/{_CONFIG}": {**pooling, "word_embedding_dimension": hidden_size},
            MODULES: [
                {"idx": number, "name": str(number), "path": path, "type": f"{_TYPES}models.{name}"}
                for number, (name, path) in enumerate(modules)
            ],
            SETTINGS[0]: {"max_seq_length": self.max_length, "do_lower_case": False},
            PROMPTS: {
                "prompts": {},
                "default_prompt_name": None,
                "similarity_fn_name": self.similarity,
            },
        }
        return {name: as_json(content).encode() for name, content in contents.items()}


def chosen(
    read_folder: Callable[[], SentenceEmbedding | None],
    pooling: str | None,
    normalize: bool | None,
) -> SentenceEmbedding | None:
    """Returns the embedding that the options select, or None for the states of all tokens.

    Args:
        read_folder: function that reads the modules in the model's folder.
        pooling: `FOLDER` to use those modules, a key of `POOLINGS` to replace them, or None for the
            states of all tokens.
        normalize: whether to scale vectors to unit length. Default: the folder's setting, or False.
    Raises:
        UserError: if `normalize` is set without pooling, or if `read_folder` fails.
    """
    embedding = None
    if pooling == FOLDER:
        try:
            embedding = read_folder()
        except UserError as error:
            raise UserError(
                f"{error} To ignore the modules, choose a pooling mode (pooling='mean', "
                "--pooling mean)."
            ) from error
    elif pooling is not None:
        embedding = SentenceEmbedding(pooling)
    if embedding is None and normalize:
        raise UserError("normalize requires pooling. Pass pooling='mean' or 'cls' (--pooling) too.")
    if embedding is None or normalize is None:
        return embedding
    return dataclasses.replace(embedding, normalize=normalize)


def write(folder: Path, embedding: SentenceEmbedding, hidden_size: int) -> None:
    """Writes the files of `SentenceEmbedding.files` to a model's folder."""
    replace_files(folder, embedding.files(hidden_size))


def encoder_folder(folder: Path) -> Path:
    """Returns the Transformer's folder in a sentence-transformers folder, or else `folder`."""
    if not (folder / MODULES).is_file():
        return folder
    try:
        path = _modules(folder)[0].path
    except UserError:
        if (folder / _CONFIG).is_file():
            return folder
        raise
    return folder / path if (folder / path).is_dir() else folder


def read(folder: Path) -> SentenceEmbedding | None:
    """Reads the modules in a model's folder or its parent; returns None if there are none.

    Raises UserError if a module, pooling mode, or prompt isn't supported, or a file is damaged.
    """
    root = folder
    if not (root / MODULES).is_file():
        root = folder.parent
        if not (root / MODULES).is_file() or encoder_folder(root) != folder:
            return None
    modules = _modules(root)
    # Dropout only affects training.
    names = [module.name for module in modules if module.name != "Dropout"]
    if names[:2] != ["Transformer", "Pooling"] or names[2:] not in ([], ["Normalize"]):
        rule = "a Transformer, a Pooling, and optionally a Normalize"
        raise _unsupported(root / MODULES, rule, listed(names))
    settings = _settings(root / modules[0].path)
    similarity = _similarity(root / PROMPTS)
    pooling = next(module.path for module in modules if module.name == "Pooling")
    return SentenceEmbedding(
        _pooling(root / pooling / _CONFIG),
        len(names) > 2,
        settings.get("max_seq_length"),
        similarity,
    )


def read_to_copy(read_folder: Callable[[], SentenceEmbedding | None]) -> SentenceEmbedding | None:
    """Returns the modules to save with a copy of a model; warns if they aren't supported."""
    try:
        return read_folder()
    except UserError as error:
        warnings.warn(f"The sentence-transformers modules aren't saved: {error}", stacklevel=3)
        return None


class Module(NamedTuple):
    """An entry of `modules.json`."""

    name: str  # class name; fully qualified if from another package
    path: str  # folder, or "" for the root


def module_files(folder: Path) -> list[str]:
    """Returns the paths of the settings files that a folder with `modules.json` may contain."""
    first, *others = _modules(folder)
    files = [PROMPTS, *(str(PurePosixPath(first.path, name)) for name in SETTINGS)]
    return files + [f"{module.path}/{_CONFIG}" for module in others]


def _modules(root: Path) -> list[Module]:
    path, modules = root / MODULES, []
    try:
        content = json.loads(read_bytes(path).decode("utf-8-sig"))
        found = [(str(each["type"]), str(each["path"])) for each in content]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise _unsupported(path, "a JSON list of modules with type and path", str(error)) from error
    for kind, module_path in found:
        parts = PurePosixPath(module_path).parts
        if len(parts) > 1 or parts in (("..",), ("/",)) or "\\" in module_path:
            raise _unsupported(path, "paths of folders next to it", short_repr(module_path))
        name = kind.rpartition(".")[2] if kind.startswith(_TYPES) else kind
        modules.append(Module(name, module_path))
    if not modules:
        raise _unsupported(path, "a Transformer and a Pooling", "none")
    return modules


def _settings(folder: Path) -> Mapping[str, Any]:
    """Returns the Transformer's settings."""
    path = next((folder / name for name in SETTINGS if (folder / name).is_file()), None)
    if path is None:
        return {}
    settings = read_json(path)
    task = settings.get("transformer_task", "feature-extraction")
    if task != "feature-extraction":
        raise _unsupported(path, "the transformer_task feature-extraction", repr(task))
    modalities = settings.get("modality_config")
    text = modalities.get("text") if isinstance(modalities, Mapping) else modalities
    output = text.get("method_output_name") if isinstance(text, Mapping) else text
    if output not in (None, "last_hidden_state"):
        raise _unsupported(path, "last_hidden_state as the output for text", repr(output))
    length = settings.get("max_seq_length")
    is_count = isinstance(length, int) and not isinstance(length, bool) and length > 0
    if length is not None and not is_count:
        rule = "a positive integer or null as max_seq_length"
        raise _unsupported(path, rule, short_repr(length))
    if settings.get("do_lower_case"):
        raise _unsupported(path, "do_lower_case false", "true")
    return settings


def _similarity(path: Path) -> str:
    """Returns the similarity function, and rejects prompts and truncated vectors."""
    about = read_json(path) if path.is_file() else {}
    kind = about.get("model_type", "SentenceTransformer")
    if kind != "SentenceTransformer":
        raise _unsupported(path, "the model_type SentenceTransformer", repr(kind))
    prompts, default = about.get("prompts") or {}, about.get("default_prompt_name")
    is_plain = isinstance(prompts, Mapping) and not any(prompts.values())
    if not is_plain or default not in (None, *prompts):
        received = f"{short_repr(prompts)}, default_prompt_name {short_repr(default)}"
        raise _unsupported(path, "no prompts", received)
    if about.get("truncate_dim") is not None:
        raise _unsupported(path, "no truncate_dim", short_repr(about["truncate_dim"]))
    name = about.get("similarity_fn_name")
    if not isinstance(name, str | None) or name not in _SIMILARITIES:
        known = ", ".join(sorted({*_SIMILARITIES.values()}))
        raise _unsupported(path, f"a similarity_fn_name from {known}", short_repr(name))
    return _SIMILARITIES[name]


def _pooling(path: Path) -> str:
    """Returns the name of the pooling mode, from settings written by any version."""
    settings = read_json(path)
    names = settings.get("pooling_mode")
    if names is None:
        flags = {key: value for key, value in settings.items() if key.startswith("pooling_mode_")}
        names = [_FLAGS.get(key, key) for key, value in flags.items() if value]
        names = names if flags else "mean"
    names = [names] if isinstance(names, str) else names
    if not isinstance(names, list) or len(names) != 1 or names[0] not in (*POOLINGS,):
        raise _unsupported(path, f"one pooling mode from {', '.join(POOLINGS)}", short_repr(names))
    return names[0]


def _unsupported(path: Path, rule: str, received: str) -> UserError:
    return UserError(f"{path} must contain {rule}. Received: {received}. Use another model.")
