"""Google's formats: TensorFlow 1 checkpoints, read and written, and TF-Hub modules, read.

They come from google-research/albert, Model Garden and brightmart/albert_zh. A module's graph is
parsed for what the weights don't show; nothing in it runs.
"""

import dataclasses
import logging
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from albert_tf.checkpoints import names, tf_checkpoint
from albert_tf.checkpoints.weights import Checkpoint
from albert_tf.config import AlbertConfig, unnamed_labels
from albert_tf.config_files import GOOGLE_CONSTANTS, GOOGLE_FIELDS
from albert_tf.errors import UserError
from albert_tf.files import read_bytes, read_json, write_json

logger = logging.getLogger(__name__)

PREFIX: Final = "model.ckpt"
CONFIG: Final = "albert_config.json"
_CONFIGS: Final = (CONFIG, "bert_config.json", "config.json")
_OTHER_CONFIGS: Final = frozenset(
    {"tokenizer_config.json", "generation_config.json", "preprocessor_config.json"}
)
_SCOPE: Final = "module/"  # around the variables of a TF-Hub module in a graph
_PROJECTION: Final = "encoder.embedding_hidden_mapping_in"
_LAYER_NORM_EPSILON: Final = 1e-12  # tf.contrib.layers.layer_norm has no other
_ACTIVATIONS: Final = {"gelu_new": "gelu", "relu": "relu", "tanh": "tanh"}
_BLOCK: Final = "bert/encoder/transformer/group_0/inner_group_0/"
_GARDEN: Final = {
    "word_embeddings/embeddings": "bert/embeddings/word_embeddings",
    "position_embedding/embeddings": "bert/embeddings/position_embeddings",
    "type_embeddings/embeddings": "bert/embeddings/token_type_embeddings",
    "embeddings/layer_norm": "bert/embeddings/LayerNorm",
    "embedding_projection": "bert/encoder/embedding_hidden_mapping_in",
    "transformer/self_attention/query": f"{_BLOCK}attention_1/self/query",
    "transformer/self_attention/key": f"{_BLOCK}attention_1/self/key",
    "transformer/self_attention/value": f"{_BLOCK}attention_1/self/value",
    "transformer/self_attention/attention_output": f"{_BLOCK}attention_1/output/dense",
    "transformer/self_attention_output": f"{_BLOCK}attention_1/output/dense",  # until 2020
    "transformer/self_attention_layer_norm": f"{_BLOCK}LayerNorm",
    "transformer/intermediate": f"{_BLOCK}ffn_1/intermediate/dense",
    "transformer/output": f"{_BLOCK}ffn_1/intermediate/output/dense",
    "transformer/output_layer_norm": f"{_BLOCK}LayerNorm_1",
    "pooler_transform": "bert/pooler/dense",
    "cls/predictions/output_bias/bias": "cls/predictions/output_bias",
    "cls/predictions/transform/dense": "cls/predictions/transform/dense",
    "cls/predictions/transform/LayerNorm": "cls/predictions/transform/LayerNorm",
}
_GARDEN_NAME: Final = re.compile(
    rf"(?:.*/)?({'|'.join(map(re.escape, _GARDEN))})(/(?:kernel|bias|gamma|beta))?"
)
_GARDEN_QUERY: Final = "transformer/self_attention/query/kernel"
_ZH_TABLE: Final = "bert/embeddings/word_embeddings"
_ZH_PROJECTION: Final = "bert/embeddings/word_embeddings_2"
_ZH_PARTS: Final = {
    "attention/self": "attention_1/self",
    "attention/output/dense": "attention_1/output/dense",
    "attention/output/LayerNorm": "LayerNorm",
    "intermediate/dense": "ffn_1/intermediate/dense",
    "output/dense": "ffn_1/intermediate/output/dense",
    "output/LayerNorm": "LayerNorm_1",
}
_ZH_PART: Final = re.compile(
    rf"bert/encoder/layer_shared/({'|'.join(map(re.escape, _ZH_PARTS))})(?=/)"
)
GRAPH: Final = "saved_model.pb"
VARIABLES: Final = "variables/variables"
_ASSETS: Final = "assets"
_PUBLISHED: Final = ("base", "large", "xlarge", "xxlarge")
_TABLES: Final = "bert/embeddings/{}_embeddings"
_BLOCK_SCOPE: Final = re.compile(r"bert/encoder/transformer/group_(\d+)/inner_group_(\d+)/")
# The constant [H, A, H/A] to which google-research/albert reshapes the query's kernel.
_QUERY_SHAPE: Final = re.compile(r"/query/Reshape/shape$")


def read(folder: Path, prefix: Path, config: AlbertConfig | None = None) -> Checkpoint:
    """Reads a checkpoint of the original code, of brightmart/albert_zh or of Model Garden.

    Args:
        folder: has `albert_config.json`, or lies in a folder that has.
        prefix: the path of its files without their endings.
        config: replaces the file.
    Returns:
        all weights without optimizer slots and counters; variables that no ALBERT has keep their
        names. A classifier's rows give the number of labels, SQuAD 2.0's head `answerability`.
    Raises:
        UserError: a file is missing or damaged, or several configurations are there.
    """
    if config is None:
        path = find_config((folder, folder.parent))
        if path is None:
            raise UserError(
                f"A checkpoint needs its configuration, {CONFIG}, beside it or one folder up. "
                f"Received: {folder}, without one. Copy it there."
            )
        config = read_config(path)
    variables = _with_google_names(tf_checkpoint.read_variables(prefix))
    if is_albert_zh(variables):
        config, variables = from_albert_zh(config, variables)
    if layers_in_other_groups(config):
        logger.warning("%s: the original code rounds layers into other groups than these.", prefix)
    return as_checkpoint(config, variables, f"{prefix} (Google's TensorFlow 1 checkpoint)")


def read_module(folder: Path, prefix: Path, config: AlbertConfig | None = None) -> Checkpoint:
    """Reads the variables of a module.

    The configuration is the JSON file among its assets, or beside them. Without one, the shapes of
    the variables give the sizes, and the graph gives the number of layers and heads and the
    activation; where it doesn't show them, the published model of that size does. Dropout, which a
    module doesn't show, is then 0.

    Args:
        folder: has `saved_model.pb`, `variables/` and `assets/`.
        prefix: the path of the variables' files without their endings.
        config: replaces all that.
    Raises:
        UserError: a file is missing or damaged, it isn't an ALBERT, or its layers and heads are
            unknown.
    """
    stored = tf_checkpoint.read_variables(prefix)
    variables = _with_google_names(stored)
    if config is None and (path := find_config((folder / _ASSETS, folder))):
        config = read_config(path)
    if config is None:
        hints = read_hints(folder)
        heads = model_garden_heads(stored) or hints.heads
        config = inferred_config(variables, hints._replace(heads=heads), folder)
    return as_checkpoint(config, variables, f"{folder} (TF-Hub module)")


def find_config(folders: tuple[Path, ...]) -> Path | None:
    """Returns the configuration file in the first of these folders that has one.

    Raises:
        UserError: a folder has several, and none is called `albert_config.json`.
    """
    for folder in folders:
        known = [folder / name for name in _CONFIGS if (folder / name).is_file()]
        paths = known[:1] or sorted(
            path for path in folder.glob("*config*.json") if path.name not in _OTHER_CONFIGS
        )
        if len(paths) > 1:
            raise UserError(
                "There must be one configuration beside a checkpoint. "
                f"Received: {', '.join(map(str, paths))}. Name the right one {CONFIG}."
            )
        if paths:
            return paths[0]
    return None


def read_config(path: Path) -> AlbertConfig:
    """Reads `albert_config.json`.

    Raises:
        UserError: the file isn't an ALBERT's.
    """
    config = AlbertConfig.from_json_file(path)
    if "embedding_size" not in read_json(path):
        raise UserError(
            "An ALBERT's configuration has embedding_size. "
            f"Received: {path} without it, as BERT's are. Give an ALBERT's checkpoint."
        )
    return config


def _with_google_names(variables: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Renames the variables of a TF-Hub module or of Model Garden to the original's."""
    if model_garden_heads(variables):
        return from_model_garden(variables)
    return {name.removeprefix(_SCOPE): tensor for name, tensor in variables.items()}


def model_garden_heads(variables: Mapping[str, np.ndarray]) -> int | None:
    """Returns A from Model Garden's query kernel `[H, A, H/A]`; None for other variables."""
    kernels = [tensor for name, tensor in variables.items() if name.endswith(_GARDEN_QUERY)]
    return kernels[0].shape[1] if kernels and kernels[0].ndim == 3 else None


def from_model_garden(variables: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Renames and reshapes the weights of Model Garden's `AlbertEncoder`; keeps unknown ones.

    Kernels `[H, A, H/A]` and `[A, H/A, H]` become `[H, H]`, biases `[A, H/A]` become `[H]`.
    Source: tensorflow/models 2.20, official/nlp/modeling/networks/albert_encoder.py.
    """
    return dict(_from_model_garden(name, tensor) for name, tensor in variables.items())


def _from_model_garden(name: str, tensor: np.ndarray) -> tuple[str, np.ndarray]:
    match = _GARDEN_NAME.fullmatch(name)
    if not match:
        return name, tensor
    part = match.group(2) or ""
    if "self_attention" in match.group(1) and part in ("/kernel", "/bias"):
        width = tensor.shape[-1] if match.group(1).endswith("output") else tensor.shape[0]
        tensor = tensor.reshape((width, width) if part == "/kernel" else -1)
    return _GARDEN[match.group(1)] + part, tensor


def is_albert_zh(variables: Mapping[str, np.ndarray]) -> bool:
    """Returns whether a checkpoint is of brightmart/albert_zh."""
    return _ZH_PROJECTION in variables


def from_albert_zh(
    config: AlbertConfig, variables: Mapping[str, np.ndarray]
) -> tuple[AlbertConfig, dict[str, np.ndarray]]:
    """Returns the same model with the embedding of ALBERT's paper, E = H, and Google's names.

    That code projects the words alone, without bias, then adds positions and types and normalizes,
    in H. ALBERT adds and normalizes in E, before the projection. With E = H there is no projection,
    so a word table of the products, `[V, H]`, gives the same outputs; the masked-language head,
    which that code projects back to E, is tied to the same products.
    Source: brightmart/albert_zh, modeling.py and run_pretraining.py.

    Raises:
        UserError: the tables don't fit the other weights; their product may take terabytes.
    """
    width = config.hidden_size
    table, projection = variables[_ZH_TABLE], variables[_ZH_PROJECTION]
    widths = {tensor.shape for tensor in variables.values()}
    if projection.shape != (*table.shape[1:], width) or (width, width) not in widths:
        raise UserError(
            f"An albert_zh must have {_ZH_TABLE} [V, E], {_ZH_PROJECTION} [E, H] "
            f"and weights [H, H] with H = hidden_size. Received: {table.shape}, "
            f"{projection.shape} and hidden_size={width}. Give the configuration that these "
            "weights were saved with."
        )
    renamed = {
        _ZH_PART.sub(lambda match: _BLOCK + _ZH_PARTS[match.group(1)], name): tensor
        for name, tensor in variables.items()
        if name != _ZH_PROJECTION
    }
    renamed[_ZH_TABLE] = table @ projection
    return dataclasses.replace(config, embedding_size=config.hidden_size), renamed


def as_checkpoint(
    config: AlbertConfig, variables: Mapping[str, np.ndarray], origin: str
) -> Checkpoint:
    """Renames Google's variables to Hugging Face's; completes the configuration by their heads."""
    table = names.google(config)
    tensors = {}
    for name, variable in variables.items():
        tensor, transposed = table.get(name, (name, False))
        tensors[tensor] = np.ascontiguousarray(variable.T) if transposed else variable
    width = config.hidden_size
    # Where the original has no projection; a file that holds no such matrix gets none either.
    if config.embedding_size == width and any(
        tensor.shape == (width, width) for tensor in tensors.values()
    ):
        tensors.setdefault(f"{_PROJECTION}.weight", np.eye(width, dtype="float32"))
        tensors.setdefault(f"{_PROJECTION}.bias", np.zeros(width, "float32"))
    if "classifier.weight" in tensors:
        labels = unnamed_labels(tensors["classifier.weight"].shape[0])
        config = dataclasses.replace(config, id2label=labels)
    if "start_logits.dense.weight" in tensors:
        config = dataclasses.replace(config, answerability=True)
    return Checkpoint(config, tensors, origin)


class GraphHints(NamedTuple):
    """Hyperparameters inferred from the graph; None if it doesn't reveal them.

    Attributes:
        blocks: applications of a block: one softmax each.
        heads: A.
        hidden_act: in Hugging Face's meaning.
    """

    blocks: int | None
    heads: int | None
    hidden_act: str | None


def inferred_config(
    variables: Mapping[str, np.ndarray], hints: GraphHints, origin: Path
) -> AlbertConfig:
    """Returns the configuration of an ALBERT from its weights under Google's names, and its graph.

    Raises:
        UserError: these aren't an ALBERT's weights, or they don't say enough.
    """
    fields = _sizes(variables, origin)
    known = _published(fields)
    numbers = [
        tuple(map(int, match.groups())) for match in map(_BLOCK_SCOPE.match, variables) if match
    ]
    groups, inner = (max(axis) + 1 for axis in zip(*numbers, strict=True))
    fields |= {"num_hidden_groups": groups, "inner_group_num": inner}
    for field, value in (
        ("num_hidden_layers", hints.blocks and hints.blocks // inner),
        ("num_attention_heads", hints.heads),
        ("hidden_act", hints.hidden_act),
    ):
        fields[field] = value or (known and getattr(known, field))
    if unknown := [field for field, value in fields.items() if value is None]:
        raise UserError(
            f"A module without {CONFIG} must show what it is. Received: {origin}, which "
            f"doesn't show {', '.join(unknown)}. Put its {CONFIG} there."
        )
    try:
        return AlbertConfig(**fields)
    except ValueError as error:
        raise UserError(
            f"The sizes in a module must be an ALBERT's. Received: {origin}: {error} "
            f"Put its {CONFIG} there."
        ) from error


def _sizes(variables: Mapping[str, np.ndarray], origin: Path) -> dict[str, Any]:
    try:
        (words, width), (positions, _), (types, _) = (
            variables[_TABLES.format(name)].shape for name in ("word", "position", "token_type")
        )
        hidden, _ = variables[f"{_BLOCK}attention_1/self/query/kernel"].shape
        _, inside = variables[f"{_BLOCK}ffn_1/intermediate/dense/kernel"].shape
    except (KeyError, ValueError) as error:
        raise UserError(
            f"A module must hold an ALBERT's weights. Received: {origin} without {error}, but with "
            f"{', '.join(sorted(variables)[:3]) or 'none'}, … Give another module; in place of a "
            "SavedModel for serving, the model that was exported."
        ) from error
    return {
        "vocab_size": words,
        "embedding_size": width,
        "hidden_size": hidden,
        "intermediate_size": inside,
        "max_position_embeddings": positions,
        "type_vocab_size": types,
    }


def _published(sizes: Mapping[str, int]) -> AlbertConfig | None:
    """Returns the published model of exactly these sizes."""
    for name in _PUBLISHED:
        config = AlbertConfig.from_size(name)
        if all(getattr(config, field) == size for field, size in sizes.items()):
            return config
    return None


def read_hints(folder: Path) -> GraphHints:
    """Reads the operations of a SavedModel of TensorFlow 1 or 2."""
    from tensorflow.core.protobuf import saved_model_pb2

    model = saved_model_pb2.SavedModel.FromString(read_bytes(folder / GRAPH))
    if not model.meta_graphs:
        return GraphHints(None, None, None)
    # A module of TensorFlow 1 has a graph for training too, tagged "train".
    meta = min(model.meta_graphs, key=lambda meta: "train" in meta.meta_info_def.tags)
    operations, heads = _operations(meta.graph_def), _heads(meta.graph_def.node)
    blocks = operations["Softmax"]
    return GraphHints(blocks or None, heads, _activation(operations, blocks))


def _operations(graph: Any) -> Counter[str]:
    """Counts the operations of the graph, or of the function in it that has most softmaxes.

    TensorFlow 2 has a function for each signature, for saving and for restoring; they call others.

    Raises:
        ValueError: functions call each other in a ring.
        RecursionError: they call each other too deeply.
    """
    functions = {function.signature.name: function.node_def for function in graph.library.function}
    counted: dict[str, Counter[str] | None] = {}  # None: being counted

    def of_function(name: str) -> Counter[str]:
        if name not in counted:
            counted[name] = None
            counted[name] = of_nodes(functions[name])
        total = counted[name]
        if total is None:
            raise ValueError(f"the function {name} calls itself")
        return total

    def of_nodes(nodes: Iterable[Any]) -> Counter[str]:
        total: Counter[str] = Counter()
        for node in nodes:
            name = node.attr["f"].func.name if "f" in node.attr else ""
            total.update(of_function(name) if name in functions else {node.op: 1})
        return total

    calls = [[node] for node in graph.node if "f" in node.attr]
    others = [node for node in graph.node if "f" not in node.attr]
    return max((of_nodes(nodes) for nodes in (others, *calls)), key=lambda total: total["Softmax"])


def _activation(operations: Counter[str], blocks: int) -> str | None:
    """Returns the feed-forward network's activation by its operations; the pooler has a tanh."""
    if not blocks:
        return None
    if operations["Erf"] + operations["Erfc"] >= blocks:
        return "gelu"
    if operations["Relu"] >= blocks:
        return "relu"
    if operations["Tanh"] > blocks:
        return "gelu_new" if operations["Pow"] >= blocks else "tanh"
    return None


def _heads(nodes: Iterable[Any]) -> int | None:
    from tensorflow import make_ndarray

    for node in nodes:
        if node.op == "Const" and _QUERY_SHAPE.search(node.name):
            tensor = node.attr["value"].tensor
            if [axis.size for axis in tensor.tensor_shape.dim] == [3]:
                return int(make_ndarray(tensor)[1])
    return None


def write(folder: Path, config: AlbertConfig, tensors: Mapping[str, np.ndarray]) -> None:
    """Writes the files that the original code loads.

    They are a checkpoint, `albert_config.json` and `checkpoint`. The format can't store names
    of labels, token ids and `classifier_dropout_prob`.

    Args:
        folder: created if missing.
        config: the model's.
        tensors: by Hugging Face's names without "albert.".
    Raises:
        UserError: the original can't express the model.
    """
    values, variables = to_google(config), _variables(config, tensors)
    folder.mkdir(parents=True, exist_ok=True)
    tf_checkpoint.write_variables(folder / PREFIX, variables)
    write_json(folder / CONFIG, values)
    (folder / tf_checkpoint.STATE).write_text(
        f'model_checkpoint_path: "{PREFIX}"\nall_model_checkpoint_paths: "{PREFIX}"\n',
        encoding="utf-8",
        newline="\n",
    )


def to_google(config: AlbertConfig) -> dict[str, Any]:
    """Returns the content of `albert_config.json`; Google's "gelu" is the tanh approximation.

    Layers that share only some of their weights become as many groups.

    Raises:
        UserError: the original code has no such activation or epsilon, or would give a layer
            another group.
    """
    if config.hidden_act not in _ACTIVATIONS:
        raise UserError(
            "google-research/albert supports only the activations "
            f"{', '.join(sorted(_ACTIVATIONS))}. "
            f"Received: hidden_act={config.hidden_act!r}. Keep this model in another format."
        )
    if config.layer_norm_eps != _LAYER_NORM_EPSILON:
        raise UserError(
            f"Google's code has layer_norm_eps={_LAYER_NORM_EPSILON}. "
            f"Received: {config.layer_norm_eps}. Keep this model in another format."
        )
    if differing := layers_in_other_groups(config):
        raise UserError(
            "Google's code must apply the same group in every layer. Received: "
            f"num_hidden_layers={config.num_hidden_layers} in {config.stored_groups} groups, where "
            f"its rounding gives layer {differing[0]} another. Keep this model in another format."
        )
    return {
        **{field: getattr(config, field) for field in sorted(GOOGLE_FIELDS)},
        **GOOGLE_CONSTANTS,
        "hidden_act": _ACTIVATIONS[config.hidden_act],
        "num_hidden_groups": config.stored_groups,
    }


def layers_in_other_groups(config: AlbertConfig) -> list[int]:
    """Returns the layers that the original rounds into another group than transformers does.

    Source: google-research/albert, modeling.py; transformers, modeling_albert.py.
    """
    layers, groups = config.num_hidden_layers, config.stored_groups
    return [
        layer
        for layer in range(layers)
        if int(layer / layers * groups) != int(layer / (layers / groups))
    ]


def _variables(config: AlbertConfig, tensors: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Returns Google's variables, float32, and the step counter that its predictions restore."""
    given = dict(tensors)
    if config.embedding_size == config.hidden_size:
        _drop_identity(given)
    table = {tensor: (name, turned) for name, (tensor, turned) in names.google(config).items()}
    if unknown := sorted(given.keys() - table.keys()):
        raise UserError(
            f"Google's code must have every weight of the model. Received: {', '.join(unknown)}, "
            "which it has not. Keep this model in another format."
        )
    variables = {"global_step": np.zeros((), "int64")}
    for tensor, values in given.items():
        name, transposed = table[tensor]
        array = np.asarray(values).astype("float32")
        variables[name] = np.ascontiguousarray(array.T) if transposed else array
    return variables


def _drop_identity(tensors: dict[str, np.ndarray]) -> None:
    """Removes the projection where E = H: the original has none there."""
    weight = tensors.pop(f"{_PROJECTION}.weight")
    bias = tensors.pop(f"{_PROJECTION}.bias")
    if np.any(bias) or not np.array_equal(weight, np.eye(len(weight))):
        raise UserError(
            "Google's code has no projection where embedding_size equals hidden_size. "
            f"Received: both {len(weight)}, and a projection that changes its input. "
            "Keep this model in another format."
        )
