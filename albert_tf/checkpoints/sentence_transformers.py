"""Folders of sentence-transformers: how a text's vector is made from its tokens' states.

`modules.json` lists the modules: a Transformer, which is Hugging Face's directory, in the folder
itself or in `0_Transformer`; a Pooling; then any of Dense, Normalize and Dropout. Their settings
are `config.json` in a folder each. Format: versions 2 to 6 of sentence-transformers.
"""

import dataclasses
import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, Final, NamedTuple

import numpy as np

from albert_tf.checkpoints import weight_files
from albert_tf.errors import UserError, listed, short_repr
from albert_tf.files import as_json, read_bytes, read_json, replace_files

MODULES: Final = "modules.json"
PROMPTS: Final = "config_sentence_transformers.json"
# The Transformer's settings; early versions named the file by the kind of model.
SETTINGS: Final = ("sentence_bert_config.json", "sentence_albert_config.json")
_CONFIG: Final = "config.json"
_WEIGHTS: Final = ("model.safetensors", "pytorch_model.bin")
# Names of files that `SentenceEmbedding.files` returns.
FILE_NAMES: Final = re.compile(
    rf"{MODULES}|{PROMPTS}|{SETTINGS[0]}|\d+_(Pooling|Dense|Normalize)/({_CONFIG}|{_WEIGHTS[0]})",
)
_TYPES: Final = "sentence_transformers."  # before a module's class
NORMALIZE: Final = "Normalize"
FOLDER: Final = "folder"  # the pooling that the model's folder says; none of other folders
POOLER: Final = "pooler"  # ALBERT's own, which sentence-transformers hasn't
_EPSILON: Final = 1e-12  # torch.nn.functional.normalize
_LOWEST: Final = -1e9

Pooled = Callable[[Any, Any, Any], Any]


def _sum(values: Any, ops: Any) -> Any:
    return ops.sum(values, axis=1)


def _count(weights: Any, ops: Any) -> Any:
    return ops.maximum(_sum(weights, ops), 1e-9)  # a row may be padding alone


# Functions of the states [B, T, H], the mask [B, T, 1] of rows that are padded on the right, and
# NumPy or keras.ops, in the order in which several are concatenated.
POOLINGS: Final[dict[str, Pooled]] = {
    "cls": lambda states, mask, ops: states[:, 0],
    "max": lambda states, mask, ops: ops.max(ops.where(mask > 0, states, _LOWEST), axis=1),
    "mean": lambda states, mask, ops: _sum(states * mask, ops) / _count(mask, ops),
    "mean_sqrt_len_tokens": lambda states, mask, ops: (
        _sum(states * mask, ops) / ops.sqrt(_count(mask, ops))
    ),
    "weightedmean": lambda states, mask, ops: (
        _sum(states * mask * ops.cumsum(mask, axis=1), ops)
        / _count(mask * ops.cumsum(mask, axis=1), ops)
    ),
    "lasttoken": lambda states, mask, ops: _sum(
        ops.where(ops.cumsum(mask, axis=1) * mask == _sum(mask, ops)[:, None], states, 0.0), ops
    ),
}
# The keys with which a Pooling's settings chose them before version 6.
_FLAGS: Final = {
    "cls": "pooling_mode_cls_token",
    "max": "pooling_mode_max_tokens",
    "mean": "pooling_mode_mean_tokens",
    "mean_sqrt_len_tokens": "pooling_mode_mean_sqrt_len_tokens",
    "weightedmean": "pooling_mode_weightedmean_tokens",
    "lasttoken": "pooling_mode_lasttoken",
}
_OLDEST_FLAGS: Final = ("cls", "mean", "max", "mean_sqrt_len_tokens")  # those of version 2.0
ACTIVATIONS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "torch.nn.modules.linear.Identity": lambda values, ops: values,
    "torch.nn.modules.activation.Tanh": lambda values, ops: ops.tanh(values),
    "torch.nn.modules.activation.ReLU": lambda values, ops: ops.maximum(values, 0.0),
    "torch.nn.modules.activation.Sigmoid": lambda values, ops: 1 / (1 + ops.exp(-values)),
}


class Dense(NamedTuple):
    """A dense layer.

    Attributes:
        weight: float32 `[outputs, inputs]`.
        bias: float32 `[outputs]`, or None.
        activation: a key of `ACTIVATIONS`.
    """

    weight: np.ndarray
    bias: np.ndarray | None
    activation: str


@dataclasses.dataclass(frozen=True)
class SentenceEmbedding:
    """How a text's vector is made from its tokens' states.

    Attributes:
        poolings: keys of `POOLINGS`, or `POOLER`; several are concatenated.
        layers: a `Dense` or `NORMALIZE` each, in order.
        max_length: maximum number of tokens of a text; None for the tokenizer's.
        lower_case: lower-case texts first.
        prompt: text before each text.
        size: number of values to keep of the vector; None for all.
    """

    poolings: tuple[str, ...]
    layers: tuple[Dense | str, ...] = ()
    max_length: int | None = None
    lower_case: bool = False
    prompt: str = ""
    size: int | None = None

    def __call__(
        self, states: Any, mask: Any, ops: Any = np, *, cls: Any = None, pooler: Any = None
    ) -> Any:
        """Returns the vectors of texts, float32 `[B, D]`.

        Args:
            states: float32 `[B, T, H]`, padded on the right.
            mask: float32 `[B, T]`, 1 for tokens and 0 for padding.
            ops: NumPy or `keras.ops`, which compute it.
            cls: float32 `[B, H]`, the states of `[CLS]`. Default: the first of `states`.
            pooler: float32 `[B, H]`, the pooler's output.
        """
        given = {"cls": cls, POOLER: pooler}
        vectors = ops.concatenate(
            [
                POOLINGS[name](states, mask[..., None], ops)
                if given.get(name) is None
                else given[name]
                for name in self.poolings
            ],
            axis=-1,
        )
        for layer in self.layers:
            if isinstance(layer, Dense):
                vectors = ops.matmul(vectors, layer.weight.T)
                vectors = vectors if layer.bias is None else vectors + layer.bias
                vectors = ACTIVATIONS[layer.activation](vectors, ops)
            else:
                squares = ops.sum(vectors * vectors, axis=-1, keepdims=True)
                vectors = vectors / ops.sqrt(ops.maximum(squares, _EPSILON**2))
        return vectors if self.size is None else vectors[:, : self.size]

    def prepared(self, text: str) -> str:
        """Returns a text as the tokenizer reads it."""
        text = self.prompt + text
        return text.lower() if self.lower_case else text

    def files(self, hidden_size: int) -> dict[str, bytes]:
        """Returns the content of the folder's files by their paths, without the model's.

        Args:
            hidden_size: H.
        Raises:
            UserError: it has the pooler's output, which sentence-transformers can't pool.
        """
        if POOLER in self.poolings:
            raise UserError(
                f"sentence-transformers pools by one of {', '.join(POOLINGS)}. Received: {POOLER}."
            )
        if self.poolings == tuple(name for name in POOLINGS if name in self.poolings):
            flags = dict.fromkeys(_OLDEST_FLAGS, False) | dict.fromkeys(self.poolings, True)
            pooling: dict[str, Any] = {_FLAGS[name]: is_on for name, is_on in flags.items()}
            pooling["word_embedding_dimension"] = hidden_size
        else:  # another order, which only version 6 knows
            pooling = {"pooling_mode": self.poolings, "embedding_dimension": hidden_size}
        files = {f"1_Pooling/{_CONFIG}": _json(pooling)}
        names = [("Transformer", ""), ("Pooling", "1_Pooling")]
        for number, layer in enumerate(self.layers, start=2):
            name = "Dense" if isinstance(layer, Dense) else NORMALIZE
            names.append((name, f"{number}_{name}"))
            if isinstance(layer, Dense):
                files |= _dense_files(layer, f"{number}_{name}")
        modules = [
            {"idx": number, "name": str(number), "path": path, "type": f"{_TYPES}models.{name}"}
            for number, (name, path) in enumerate(names)
        ]
        settings = {"max_seq_length": self.max_length, "do_lower_case": self.lower_case}
        prompts = {"default": self.prompt} if self.prompt else {}
        about: dict[str, Any] = {
            "prompts": prompts,
            "default_prompt_name": next(iter(prompts), None),
            "similarity_fn_name": "cosine",
        }
        if self.size is not None:
            about["truncate_dim"] = self.size
        return files | {
            MODULES: _json(modules),
            SETTINGS[0]: _json(settings),
            PROMPTS: _json(about),
        }


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
        embedding = SentenceEmbedding((pooling,))
    if normalize is None:
        return embedding
    if embedding is None and normalize:
        raise UserError(
            "normalize needs a pooling. Received: none. Add pooling='mean' or 'cls' (--pooling)."
        )
    if embedding is None:
        return None
    layers = tuple(layer for layer in embedding.layers if layer != NORMALIZE)
    return dataclasses.replace(embedding, layers=(*layers, *[NORMALIZE] * normalize))


def compared_poolings(embedding: SentenceEmbedding | None, origin: Path | str) -> tuple[str, ...]:
    """Returns the poolings of vectors that are compared by their cosines: the mean without modules.

    Args:
        embedding: the modules of `origin`.
    Raises:
        UserError: there are other modules than Pooling and Normalize.
    """
    if embedding is None:
        return ("mean",)
    pooling = SentenceEmbedding(embedding.poolings, max_length=embedding.max_length)
    if embedding not in (pooling, dataclasses.replace(pooling, layers=(NORMALIZE,))):
        raise UserError(
            "A model for similarity must have Pooling and Normalize alone. Received: "
            f"{origin}, with Dense, a prompt, do_lower_case or truncate_dim. Choose another model."
        )
    return embedding.poolings


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
        UserError: a file is missing or damaged, or a module, a pooling or an activation has no
            equal here; the message names it.
    """
    root = folder
    if not (root / MODULES).is_file():
        root = folder.parent
        if not (root / MODULES).is_file() or encoder_folder(root) != folder:
            return None
    first, *others = modules = _modules(root)
    if [module.name for module in modules[:2]] != ["Transformer", "Pooling"]:
        names = listed(module.name for module in modules)
        raise _unlike(root / MODULES, "a Transformer, then a Pooling", names)
    settings = _settings(root / first.path)
    about = read_json(root / PROMPTS) if (root / PROMPTS).is_file() else {}
    kind = about.get("model_type", "SentenceTransformer")
    if kind != "SentenceTransformer":
        raise _unlike(root / PROMPTS, "the model_type SentenceTransformer", repr(kind))
    prompts = about.get("prompts") or {}
    prompt = prompts.get(about.get("default_prompt_name")) or ""
    pooling_path = root / others[0].path / _CONFIG
    layers: list[Dense | str] = []
    for module in others[1:]:
        if module.name == "Dense":
            layers.append(_dense(root / module.path))
        elif module.name == NORMALIZE:
            layers.append(NORMALIZE)
        elif module.name != "Dropout":  # which does nothing after training
            raise _unlike(root / MODULES, "Dense, Normalize or Dropout after Pooling", module.name)
    return SentenceEmbedding(
        _poolings(pooling_path, bool(prompt)),
        tuple(layers),
        _checked_count(root, "max_seq_length", settings.get("max_seq_length")),
        bool(settings.get("do_lower_case")),
        str(prompt),
        _checked_count(root, "truncate_dim", about.get("truncate_dim")),
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
    paths = [module.path for module in _modules(folder)]
    files = [PROMPTS, *(str(PurePosixPath(paths[0], name)) for name in SETTINGS)]
    for path in paths[1:]:
        files += [f"{path}/{name}" for name in (_CONFIG, *_WEIGHTS)]
    return files


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
    text = (settings.get("modality_config") or {}).get("text")
    output = text.get("method_output_name") if isinstance(text, Mapping) else None
    if output not in (None, "last_hidden_state"):
        raise _unlike(path, "last_hidden_state as the output for text", repr(output))
    return settings


def _poolings(path: Path, has_prompt: bool) -> tuple[str, ...]:
    """Returns the names of the poolings in a Pooling's settings, of any version."""
    settings = read_json(path)
    names = settings.get("pooling_mode")
    if names is None:
        names = [name for name in POOLINGS if settings.get(_FLAGS[name])]
        if not any(key.startswith("pooling_mode_") for key in settings):
            names = ["mean"]
        elif unknown := [
            key
            for key, value in settings.items()
            if key.startswith("pooling_mode_") and value and key not in _FLAGS.values()
        ]:
            names = unknown
    names = [names] if isinstance(names, str) else names
    if not (isinstance(names, Sequence) and names and set(map(str, names)) <= POOLINGS.keys()):
        raise _unlike(path, f"poolings of {', '.join(POOLINGS)}", short_repr(names))
    if has_prompt and not settings.get("include_prompt", True):
        raise _unlike(path, "include_prompt with a default prompt", "include_prompt false")
    return tuple(names)


def _dense(folder: Path) -> Dense:
    path = folder / _CONFIG
    settings = read_json(path)
    activation = settings.get("activation_function", "torch.nn.modules.activation.Tanh")
    if activation not in ACTIVATIONS:
        raise _unlike(path, f"an activation_function of {', '.join(ACTIVATIONS)}", activation)
    for name in ("module_input_name", "module_output_name"):
        if settings.get(name) not in (None, "sentence_embedding"):
            raise _unlike(path, f"the {name} sentence_embedding", repr(settings[name]))
    if settings.get("use_residual"):
        raise _unlike(path, "a Dense without use_residual", "use_residual true")
    file = next((folder / name for name in _WEIGHTS if (folder / name).is_file()), None)
    if file is None:
        raise _unlike(folder, " or ".join(_WEIGHTS), "neither")
    is_pytorch = file.suffix == ".bin"
    tensors = weight_files.read_pytorch(file) if is_pytorch else weight_files.read_tensors(file)[0]
    shapes = {name: tensor.shape for name, tensor in tensors.items()}
    sizes = (settings.get("out_features"), settings.get("in_features"))
    wanted: dict[str, tuple[Any, ...]] = {"linear.weight": sizes}
    if settings.get("bias", True):
        wanted["linear.bias"] = sizes[:1]
    if shapes != wanted:
        raise _unlike(file, f"tensors of shapes {wanted}", str(shapes))
    weight, bias = (
        tensors[name].astype("float32") if name in tensors else None
        for name in ("linear.weight", "linear.bias")
    )
    assert weight is not None
    return Dense(weight, bias, activation)


def _dense_files(layer: Dense, folder: str) -> dict[str, bytes]:
    import safetensors.numpy

    outputs, inputs = layer.weight.shape
    settings = {
        "in_features": inputs,
        "out_features": outputs,
        "bias": layer.bias is not None,
        "activation_function": layer.activation,
    }
    tensors = {"linear.weight": layer.weight}
    if layer.bias is not None:
        tensors["linear.bias"] = layer.bias
    return {
        f"{folder}/{_CONFIG}": _json(settings),
        f"{folder}/{_WEIGHTS[0]}": safetensors.numpy.save(tensors, {"format": "pt"}),
    }


def _checked_count(root: Path, name: str, value: Any) -> int | None:
    is_count = isinstance(value, int) and not isinstance(value, bool) and value > 0
    if value is not None and not is_count:
        raise _unlike(root, f"a positive whole number or null as {name}", short_repr(value))
    return value


def _json(content: Any) -> bytes:
    return as_json(content).encode()


def _unlike(path: Path, rule: str, received: str) -> UserError:
    return UserError(
        f"{path} must have {rule}. Received: {received}. Choose a pooling of your own "
        "(pooling='mean', --pooling mean), or another model."
    )
