"""Folders of sentence-transformers: how a text's vector is made from its tokens' states.

`modules.json` lists the modules: a Transformer, which is Hugging Face's directory, in the folder
itself or in `0_Transformer`; a Pooling; then Normalize or not, and Dropout. Their settings are
`config.json` in a folder each. Format: versions 2 to 6 of sentence-transformers.
"""

import dataclasses
import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path, PurePosixPath
from typing import Any, Final, NamedTuple

import numpy as np

from albert_tf.errors import UserError, listed, short_repr
from albert_tf.files import as_json, read_bytes, read_json, replace_files

MODULES: Final = "modules.json"
PROMPTS: Final = "config_sentence_transformers.json"
# The Transformer's settings; early versions named the file by the kind of model.
SETTINGS: Final = ("sentence_bert_config.json", "sentence_albert_config.json")
_CONFIG: Final = "config.json"
# Names of files that `SentenceEmbedding.files` returns.
FILE_NAMES: Final = re.compile(rf"{MODULES}|{PROMPTS}|{SETTINGS[0]}|1_Pooling/{_CONFIG}")
COSINE: Final = "cosine"
# Names in sentence-transformers of the functions that compare two vectors, and their older forms.
_SIMILARITIES: Final = {
    COSINE: COSINE,
    None: COSINE,
    "dot": "dot",
    "dot_product": "dot",
    "euclidean": "euclidean",
    "manhattan": "manhattan",
}
_TYPES: Final = "sentence_transformers."  # before a module's class
FOLDER: Final = "folder"  # the pooling that the model's folder says; none of other folders
_EPSILON: Final = 1e-12  # torch.nn.functional.normalize
_LOWEST: Final = -1e9

Pooled = Callable[[Any, Any, Any], Any]
# Functions of the states [B, T, H], the mask [B, T, 1] of rows that are padded on the right, and
# NumPy or keras.ops. A row may be padding alone.
POOLINGS: Final[dict[str, Pooled]] = {
    "mean": lambda states, mask, ops: (
        ops.sum(states * mask, axis=1) / ops.maximum(ops.sum(mask, axis=1), 1e-9)
    ),
    "cls": lambda states, mask, ops: states[:, 0],
    "max": lambda states, mask, ops: ops.max(ops.where(mask > 0, states, _LOWEST), axis=1),
}
# The keys with which a Pooling's settings chose them before version 6.
_FLAGS: Final = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_max_tokens": "max",
}


@dataclasses.dataclass(frozen=True)
class SentenceEmbedding:
    """How a text's vector is made from its tokens' states.

    Attributes:
        pooling: a key of `POOLINGS`.
        normalize: scale vectors to unit length.
        max_length: maximum number of tokens of a text; None for the tokenizer's.
        similarity: "cosine", "dot", "euclidean" or "manhattan", by which sentence-transformers
            compares the vectors. It changes no vector.
    """

    pooling: str
    normalize: bool = False
    max_length: int | None = None
    similarity: str = COSINE

    def __call__(self, states: Any, mask: Any, ops: Any = np) -> Any:
        """Returns the vectors of texts, float32 `[B, H]`.

        Args:
            states: float32 `[B, T, H]`, padded on the right.
            mask: float32 `[B, T]`, 1 for tokens and 0 for padding.
            ops: NumPy or `keras.ops`, which compute it.
        """
        vectors = POOLINGS[self.pooling](states, mask[..., None], ops)
        if self.normalize:
            squares = ops.sum(vectors * vectors, axis=-1, keepdims=True)
            vectors = vectors / ops.sqrt(ops.maximum(squares, _EPSILON**2))
        return vectors

    def require_cosine(self, origin: Any) -> None:
        """Checks that vectors are compared by their cosines.

        Raises:
            UserError: they are compared by another function.
        """
        if self.similarity != COSINE and not (self.similarity == "dot" and self.normalize):
            raise UserError(
                "Vectors are compared by their cosines here. Received: similarity_fn_name "
                f"{self.similarity!r} in the {PROMPTS} of {origin}. Compare the vectors of the "
                "pipeline feature-extraction yourself, or change it to 'cosine' and fine-tune."
            )

    def files(self, hidden_size: int) -> dict[str, bytes]:
        """Returns the content of the folder's files by their paths, without the model's.

        Args:
            hidden_size: H.
        """
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
    """Returns the embedding that options choose; None for the states of all tokens.

    Args:
        read_folder: reads the modules of the model's folder.
        pooling: `FOLDER` for those; None for the states; another one replaces all modules.
        normalize: scale vectors to unit length; None as the folder does, or not.
    Raises:
        UserError: as `read_folder` does, or `normalize` without vectors.
    """
    embedding = None
    if pooling == FOLDER:
        embedding = read_folder()
    elif pooling is not None:
        embedding = SentenceEmbedding(pooling)
    if embedding is None and normalize:
        raise UserError(
            "normalize needs a pooling. Received: none. Add pooling='mean' or 'cls' (--pooling)."
        )
    if embedding is None or normalize is None:
        return embedding
    return dataclasses.replace(embedding, normalize=normalize)


def write(folder: Path, embedding: SentenceEmbedding, hidden_size: int) -> None:
    """Writes the files of `SentenceEmbedding.files` beside a model's in its folder."""
    contents = embedding.files(hidden_size).items()
    replace_files(folder, {name: _writer(content) for name, content in contents})


def _writer(content: bytes) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(content)


def encoder_folder(folder: Path) -> Path:
    """Returns the folder of the Transformer in a folder of sentence-transformers; others as given.

    Raises:
        UserError: `modules.json` is damaged, or names a path outside the folder.
    """
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
    """Reads how vectors are made, beside a model's files or above them; None without modules.

    Args:
        folder: of the model's `config.json`.
    Raises:
        UserError: a file is missing or damaged, or a module, a pooling or a prompt has no equal
            here; the message names it.
    """
    root = folder
    if not (root / MODULES).is_file():
        root = folder.parent
        if not (root / MODULES).is_file() or encoder_folder(root) != folder:
            return None
    modules = _modules(root)
    # Dropout does nothing after training.
    names = [module.name for module in modules if module.name != "Dropout"]
    if names[:2] != ["Transformer", "Pooling"] or names[2:] not in ([], ["Normalize"]):
        rule = "a Transformer, a Pooling and at most a Normalize"
        raise _unlike(root / MODULES, rule, listed(names))
    settings = _settings(root / modules[0].path)
    similarity = _similarity(root / PROMPTS)
    pooling = next(module.path for module in modules if module.name == "Pooling")
    return SentenceEmbedding(
        _pooling(root / pooling / _CONFIG),
        len(names) > 2,
        settings.get("max_seq_length"),
        similarity,
    )


class Module(NamedTuple):
    """An entry of `modules.json`: the name of its class and its folder, "" for the root.

    A class of another package has its full name.
    """

    name: str
    path: str


def module_files(folder: Path) -> list[str]:
    """Returns paths of files that may lie beside the model's.

    Args:
        folder: has `modules.json`.
    """
    first, *others = _modules(folder)
    files = [PROMPTS, *(str(PurePosixPath(first.path, name)) for name in SETTINGS)]
    return files + [f"{module.path}/{_CONFIG}" for module in others]


def _modules(root: Path) -> list[Module]:
    path, modules = root / MODULES, []
    try:
        content = json.loads(read_bytes(path).decode("utf-8"))
        found = [(str(each["type"]), str(each["path"])) for each in content]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise _unlike(path, "a JSON list of modules with type and path", str(error)) from error
    for kind, module_path in found:
        parts = PurePosixPath(module_path).parts
        if len(parts) > 1 or parts in (("..",), ("/",)) or "\\" in module_path:
            raise _unlike(path, "paths of folders beside it", short_repr(module_path))
        name = kind.rpartition(".")[2] if kind.startswith(_TYPES) else kind
        modules.append(Module(name, module_path))
    if not modules:
        raise _unlike(path, "a Transformer, then a Pooling", "none")
    return modules


def _settings(folder: Path) -> Mapping[str, Any]:
    """Returns the Transformer's settings."""
    path = next((folder / name for name in SETTINGS if (folder / name).is_file()), None)
    if path is None:
        return {}
    settings = read_json(path)
    task = settings.get("transformer_task", "feature-extraction")
    if task != "feature-extraction":
        raise _unlike(path, "the transformer_task feature-extraction", repr(task))
    modalities = settings.get("modality_config")
    text = modalities.get("text") if isinstance(modalities, Mapping) else modalities
    output = text.get("method_output_name") if isinstance(text, Mapping) else text
    if output not in (None, "last_hidden_state"):
        raise _unlike(path, "last_hidden_state as the output for text", repr(output))
    length = settings.get("max_seq_length")
    is_count = isinstance(length, int) and not isinstance(length, bool) and length > 0
    if length is not None and not is_count:
        rule = "a positive whole number or null as max_seq_length"
        raise _unlike(path, rule, short_repr(length))
    if settings.get("do_lower_case"):
        raise _unlike(path, "do_lower_case false", "true")
    return settings


def _similarity(path: Path) -> str:
    """Returns the similarity function, after checking that vectors need no prompt and aren't cut.

    Raises:
        UserError: the file has a setting that has no equal here; the message names it.
    """
    about = read_json(path) if path.is_file() else {}
    kind = about.get("model_type", "SentenceTransformer")
    if kind != "SentenceTransformer":
        raise _unlike(path, "the model_type SentenceTransformer", repr(kind))
    prompts, default = about.get("prompts") or {}, about.get("default_prompt_name")
    is_plain = isinstance(prompts, Mapping) and not any(prompts.values())
    if not is_plain or default not in (None, *prompts):
        received = f"{short_repr(prompts)}, default_prompt_name {short_repr(default)}"
        raise _unlike(path, "no prompts", received)
    if about.get("truncate_dim") is not None:
        raise _unlike(path, "no truncate_dim", short_repr(about["truncate_dim"]))
    name = about.get("similarity_fn_name")
    if not isinstance(name, str | None) or name not in _SIMILARITIES:
        known = ", ".join(sorted({*_SIMILARITIES.values()}))
        raise _unlike(path, f"a similarity_fn_name of {known}", short_repr(name))
    return _SIMILARITIES[name]


def _pooling(path: Path) -> str:
    """Returns the name of the pooling in a Pooling's settings, of any version."""
    settings = read_json(path)
    names = settings.get("pooling_mode")
    if names is None:
        flags = {key: value for key, value in settings.items() if key.startswith("pooling_mode_")}
        names = [_FLAGS.get(key, key) for key, value in flags.items() if value]
        names = names if flags else "mean"
    names = [names] if isinstance(names, str) else names
    if not isinstance(names, list) or len(names) != 1 or names[0] not in (*POOLINGS,):
        raise _unlike(path, f"one pooling of {', '.join(POOLINGS)}", short_repr(names))
    return names[0]


def _unlike(path: Path, rule: str, received: str) -> UserError:
    return UserError(
        f"{path} must have {rule}. Received: {received}. Choose a pooling of your own "
        "(pooling='mean', --pooling mean), or another model."
    )
