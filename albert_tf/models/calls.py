"""Inputs and outputs of a model's call: checks and conversions, and the named outputs."""

import functools
import inspect
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from numbers import Integral, Number, Real
from typing import Any, Final

import keras
import numpy as np
import optree

from albert_tf.errors import UserError, short_repr
from albert_tf.layers.common import Tensor
from albert_tf.layers.embedding import LIMITS, refuse_fractions
from albert_tf.text.encoding import BatchEncoding, as_leaves, from_leaves

# The first arguments of every model's call, in their order.
ENCODER_INPUTS: Final = (
    "input_ids",
    "attention_mask",
    "token_type_ids",
    "position_ids",
    "inputs_embeds",
)
# Arguments of `as_arrays` that are ids.
_IDS: Final = (*LIMITS, "masked_lm_positions", "x")
_QUANTIZE: Final = "Call model.quantize('int8')."
_TUPLES: Final = "Use outputs.to_tuple(), or outputs[0]."
_IN_CALLS: Final = "Pass it to each call: model(inputs, {}=True)."
# transformers' arguments that are accepted with their no-op value only: that value, and what to do
# instead.
CALL: Final = {
    "return_dict": (True, _TUPLES),
    "head_mask": (None, "Single heads can't be masked."),
    "train": (False, "Pass training=True."),
    "params": (None, "A model has its weights: call load_weights, or assign them."),
    "dropout_rng": (None, "Call keras.utils.set_random_seed(seed) before the model is made."),
}
LOADING: Final = {
    "return_dict": (True, _TUPLES),
    "output_attentions": (False, _IN_CALLS.format("output_attentions")),
    "output_hidden_states": (False, _IN_CALLS.format("output_hidden_states")),
    "torch_dtype": (None, "Pass dtype='mixed_float16', or another policy of Keras."),
    "attn_implementation": (None, "There is one implementation of attention."),
    "device_map": (None, "Load the model within keras.device(name)."),
    "quantization_config": (None, _QUANTIZE),
    "load_in_8bit": (False, _QUANTIZE),
    "load_in_4bit": (False, _QUANTIZE),
    "trust_remote_code": (False, "No code is loaded."),
    "output_loading_info": (False, "Read model.newly_initialized."),
    "variant": (None, "Rename the file to model.safetensors."),
    "state_dict": (None, "Make the model by AlbertModel(config), and call load_weights."),
}
SAVING: Final = {
    "safe_serialization": (True, "It writes model.safetensors."),
    "saved_model": (False, "Call albert_tf.export_saved_model(model, folder)."),
    "is_main_process": (True, "Call it in the main process only."),
    "state_dict": (None, "It writes the model's own weights."),
    "variant": (None, "It writes model.safetensors."),
}
# Options of transformers' `from_pretrained` and `save_pretrained` that may have any value.
WITHOUT_EFFECT: Final = frozenset(
    ("from_pt", "from_tf", "from_flax", "use_safetensors", "weights_only", "low_cpu_mem_usage")
    + ("max_shard_size", "save_function", "save_peft_format", "signatures", "version")
)
_ON_DEVICE: Final = "Make the model within keras.device(name)."
_POLICY: Final = "Load the model with from_pretrained(name, dtype='mixed_float16')."
_TRAINING: Final = "Pass training=True or training=False to each call."
_WEIGHTS: Final = "Read model.weights, or call model.get_weights() and model.set_weights(values)."
_TABLE: Final = "The word table is model.get_input_embeddings().weight."
_MASK: Final = "Pass attention_mask, [B, T] or [B, T, T], to each call."
_BIAS: Final = "The bias of the masked-word head is model.predictions.bias."
# Methods of transformers' models, and what to write instead. Some exist on torch.
METHODS: Final = {
    "prune_heads": "All layers have all heads. model.with_depth(n) removes whole layers.",
    "set_input_embeddings": f"{_TABLE} Call assign(values) on it.",
    "get_output_embeddings": f"{_TABLE} The masked-word head uses it too.",
    "set_output_embeddings": f"{_TABLE} Call assign(values) on it.",
    "get_lm_head": "The masked-word head is model.predictions.",
    "get_output_layer_with_bias": "The masked-word head is model.predictions.",
    "get_prefix_bias_name": _BIAS,
    "get_bias": _BIAS,
    "set_bias": _BIAS,
    "tie_weights": "The masked-word head always uses the word table.",
    "init_weights": "The constructor initializes all weights: AlbertModel(config).",
    "post_init": "The constructor initializes all weights: AlbertModel(config).",
    "get_position_embeddings": "The table is model.albert.embedding.position_embeddings.",
    "resize_position_embeddings": "Make the model with config.replace(max_position_embeddings=n).",
    "to": _ON_DEVICE,
    "cuda": _ON_DEVICE,
    "cpu": _ON_DEVICE,
    "half": _POLICY,
    "float": "Load the model with from_pretrained(name, dtype='float32').",
    "eval": _TRAINING,
    "train": _TRAINING,
    "forward": "Write model(inputs).",
    "generate": "ALBERT generates no text. Write pipeline('fill-mask', model) for masked words.",
    "state_dict": _WEIGHTS,
    "load_state_dict": _WEIGHTS,
    "parameters": _WEIGHTS,
    "named_parameters": _WEIGHTS,
    "prepare_tf_dataset": "Write model.fit(texts, labels), or use AlbertPreprocessor in tf.data.",
    "hf_compute_loss": "Write model(inputs, labels=labels).loss.",
    "serving": "Write albert_tf.export_saved_model(model, folder).",
    "create_model_card": "model.push_to_hub(repo_id) writes one.",
    "get_memory_footprint": "Multiply model.num_parameters() by the size of a weight in bytes.",
    "get_head_mask": "Single heads can't be masked.",
    "get_extended_attention_mask": _MASK,
    "invert_attention_mask": _MASK,
    "set_attn_implementation": "There is one implementation of attention.",
    "estimate_tokens": "Read inputs['input_ids'].size.",
    "floating_point_ops": "Run albert-tf sizes --model folder.",
    "enable_input_require_grads": "Set layer.trainable = True or False.",
    "disable_input_require_grads": "Set layer.trainable = True or False.",
    "add_adapter": "Call layer.enable_lora(rank) of Keras.",
    "load_adapter": "Call layer.enable_lora(rank) of Keras.",
    "add_model_tags": "Edit README.md in the model's folder.",
    "register_for_auto_class": "Import the class from its own module.",
}


def with_inputs(call: Callable[..., Any], names: Iterable[str]) -> Callable[..., Any]:
    """Returns `call` with a signature that names its inputs instead of `**head_inputs`.

    They follow `ENCODER_INPUTS`. Keras, `inspect.signature` and editors read the signature.
    """
    shared = inspect.signature(call)
    *parameters, _ = shared.parameters.values()
    own = [
        inspect.Parameter(name, parameters[-1].kind, default=None, annotation=Tensor)
        for name in dict.fromkeys(names)
    ]
    count = 1 + len(ENCODER_INPUTS)  # with self
    signature = shared.replace(parameters=[*parameters[:count], *own, *parameters[count:]])

    @functools.wraps(call)
    def named(*args: Any, **kwargs: Any) -> Any:
        return call(**signature.bind(*args, **kwargs).arguments)

    named.__signature__ = signature  # type: ignore[attr-defined]
    return named


def named_inputs(arguments: Mapping[str, Any], known: tuple[str, ...]) -> dict[str, Tensor]:
    """Returns a model's inputs by name, from a call's arguments.

    Args:
        arguments: the call's arguments by name; `input_ids` may be a dict with any of the inputs.
        known: names of the model's inputs.
    Raises:
        ValueError: an unknown name, or neither or both of `input_ids` and `inputs_embeds`.
    """
    given = {name: value for name, value in arguments.items() if value is not None}
    if isinstance(given.get("input_ids"), Mapping):
        given |= given.pop("input_ids")
    refuse_unknown(given, known)
    given = dict.fromkeys(known) | given
    if (given["input_ids"] is None) == (given["inputs_embeds"] is None):
        received = "neither" if given["input_ids"] is None else "both"
        raise ValueError(f"A model needs either input_ids or inputs_embeds. Received {received}.")
    return given


def check_shapes(inputs: Mapping[str, Tensor], longest: int) -> None:
    """Refuses ids of a wrong rank or length, and inputs of another shape, where shapes are known.

    Broadcasting would give an answer, but another one than was asked for.
    """
    name = "inputs_embeds" if inputs["input_ids"] is None else "input_ids"
    given, axes = inputs[name], ["batch", "length", "embedding"][: 2 + (name == "inputs_embeds")]
    if len(given.shape) != len(axes):
        raise ValueError(
            f"{name} must have shape [{', '.join(axes)}]. Received shape {tuple(given.shape)}."
        )
    batch, length = given.shape[:2]
    is_guess = getattr(given, "is_meta", False)  # Keras', on torch
    if isinstance(length, int) and length > longest and not is_guess:
        raise ValueError(
            "A sequence must not be longer than max_position_embeddings: truncate it, or split it "
            f"into windows. Received a length of {length}, max_position_embeddings={longest}."
        )
    for name, shapes in {
        "attention_mask": [(batch, length), (batch, length, length)],
        "token_type_ids": [(batch, length)],
        "position_ids": [(batch, length), (1, length)],
    }.items():
        value = inputs[name]
        if value is not None and not any(agree(value.shape, shape) for shape in shapes):
            raise ValueError(
                f"{name} must have the shape of the ids, {' or '.join(map(str, shapes))}. "
                f"Received: {tuple(value.shape)}."
            )


def agree(shape: Sequence[Any], expected: Sequence[Any]) -> bool:
    """Whether two shapes may be equal; a size that isn't a number is unknown."""
    return len(shape) == len(expected) and all(
        size == other or not (isinstance(size, int) and isinstance(other, int))
        for size, other in zip(shape, expected, strict=True)
    )


def refuse_unknown(given: Mapping[str, Any], known: tuple[str, ...], what: str = "inputs") -> None:
    """Refuses names that aren't a model's inputs, or labels."""
    if unknown := given.keys() - set(known):
        raise ValueError(
            f"A model's {what} are {', '.join(known)}. Received also: {', '.join(sorted(unknown))}."
        )


def refuse_strings(inputs: Mapping[str, Any]) -> None:
    """Refuses arrays and tensors of strings."""
    for name, values in inputs.items():
        if _kind(values) not in ("string", "str", "object"):
            continue
        others = np.ravel(values) if isinstance(values, np.ndarray | str) else ["…"]
        other = next((each for each in others if not isinstance(each, Number)), others[:1])
        received = f"{other.item() if isinstance(other, np.generic) else other!r:.60}"
        raise UserError(
            f"Inputs and labels must be numbers. Received: {received}, … as {name}. "
            "config.label2id has the number of each label; a tokenizer makes ids of texts, "
            "AlbertPreprocessor in tf.data and graphs."
        )


def _kind(values: Any) -> str:
    if isinstance(values, str):
        return "str"
    dtype = getattr(values, "dtype", None)
    if isinstance(dtype, np.dtype):
        return {"O": "object", "U": "str", "S": "str", "T": "str"}.get(dtype.kind, dtype.name)
    return str(getattr(dtype, "name", dtype))


def refuse_lists(inputs: Mapping[str, Any]) -> None:
    """Refuses lists, which Keras would split into single numbers, and inputs by position."""
    ids = inputs.get("input_ids")
    if isinstance(ids, list | tuple) and ids and all(hasattr(each, "shape") for each in ids):
        given = ", ".join(f"{name!r}: …" for name in ENCODER_INPUTS[: len(ids)])
        raise ValueError(
            f"Give a model's inputs by name: model({{{given}}}). Received: a list of {len(ids)}."
        )
    if lists := [name for name, value in inputs.items() if isinstance(value, list | tuple)]:
        raise ValueError(
            "A model's inputs must be arrays or tensors: tokenizer(texts, padding=True, "
            f"return_tensors='np') gives them. Received: a list as {', '.join(lists)}."
        )


def refuse_ragged(inputs: Mapping[str, Any]) -> None:
    """Rejects ragged tensors, which no layer here computes."""
    if ragged := [name for name, value in inputs.items() if hasattr(value, "row_splits")]:
        raise UserError(
            "A model's inputs must be dense tensors. Received: a ragged tensor as "
            f"{', '.join(ragged)}. Pad its rows: give ids.to_tensor() as input_ids, and "
            "tf.sequence_mask(ids.row_lengths()) as attention_mask."
        )


def arguments(method: Any, model: Any, *args: Any, **kwargs: Any) -> dict[str, Any]:
    """Returns the arguments of a call of a model's method by name, without the model."""
    given = inspect.signature(method).bind(model, *args, **kwargs).arguments
    del given["self"]
    return given | given.pop("kwargs", {})


def text_columns(x: Any) -> list[list[str]] | None:
    """Returns texts as a column and pairs of texts as two; None for other inputs of a model.

    Args:
        x: texts (a list, an array or a pandas Series), a list of tuples of two texts, or a tuple
            of two columns.
    Raises:
        UserError: texts in another form, or something else among them.
    """
    if not holds_texts(x):
        return None
    if not _is_column(x):
        shape = getattr(x, "shape", None)
        kind = type(x).__name__
        raise _not_texts(short_repr(x) if shape is None else f"{kind} of shape {tuple(shape)}")
    columns = [list(x)]
    if isinstance(x, tuple) and len(x) == 2:
        if not all(map(_is_column, x)) or all(map(_is_pair, x)):
            raise _not_texts(f"{short_repr(x)}, which may be two rows or two columns")
        columns = [list(column) for column in x]
    elif all(map(_is_pair, x)):
        columns = [list(column) for column in zip(*x, strict=True)]
    for column in columns:
        for row, value in enumerate(column):
            if not isinstance(value, str):
                raise _not_texts(f"{short_repr(value)} ({type(value).__name__}) in row {row}")
    if len(columns[0]) != len(columns[-1]):
        raise _not_texts(f"{len(columns[0])} texts and {len(columns[1])} texts")
    return columns


def _not_texts(received: str) -> UserError:
    return UserError(
        "Texts must be a list of strings; pairs a list of tuples, [(text, pair), …], or a tuple of "
        f"two columns, (texts, pairs). Received: {received}. "
        "AlbertPreprocessor takes tensors of strings, in tf.data and graphs."
    )


def holds_texts(x: Any) -> bool:
    """Whether there is a string, also among other values, and in rows of rows."""
    values = x.to_numpy() if hasattr(x, "to_numpy") else x  # of a data frame
    if (kind := _kind(values)) in ("str", "string"):
        return True
    if isinstance(values, np.ndarray):
        return kind == "object" and any(map(holds_texts, values.flat))
    return isinstance(values, bytes) or (
        isinstance(values, Sequence) and any(map(holds_texts, values))
    )


def _is_column(values: Any) -> bool:
    if isinstance(values, np.ndarray) or hasattr(values, "to_list"):
        return np.ndim(values) == 1
    return isinstance(values, Sequence) and not isinstance(values, str | bytes)


def _is_pair(row: Any) -> bool:
    return isinstance(row, tuple) and len(row) == 2


def as_arrays(values: Any, name: str = "y") -> Any:
    """Returns a tokenizer's result as a dict of arrays, and lists of numbers as arrays.

    Keras would take every number of a list for an input. Other data stays as it is; strings are
    refused.
    """
    if isinstance(values, Mapping):
        return {
            name: as_arrays(list(value) if isinstance(value, tuple) else value, name)
            for name, value in values.items()
        }
    if isinstance(values, tuple | list) and values and not len(getattr(values[0], "shape", ())):
        if isinstance(values, tuple) and not isinstance(values[0], Number | str | np.generic):
            return values
        try:
            values = np.asarray(values)
        except ValueError as error:
            how = "with tokenizer(texts, padding=True)" if name in ENCODER_INPUTS else "with -100"
            raise UserError(
                f"{name} must have rows of one length. Received: rows of several. Pad them {how}."
            ) from error
    refuse_strings({name: values})
    if name in _IDS:
        refuse_fractions(name, values)
    return values


def class_weights(
    given: Any, numbers: Mapping[str, int], count: int | None
) -> dict[int, float] | None:
    """Returns `class_weight` of `fit` by the numbers of classes; keys may be their names, too.

    Args:
        given: by class.
        numbers: the number of each name.
        count: number of classes, or None where it isn't known.
    Raises:
        UserError: it isn't a dict, or has other keys.
    """
    if given is None:
        return None
    if not isinstance(given, Mapping):
        raise UserError(
            "class_weight must be a dict with the weight of each class: dict(enumerate(weights)). "
            f"Received: {short_repr(given)}."
        )
    weights = {numbers.get(key, key): weight for key, weight in given.items()}
    for key in weights:
        if not isinstance(key, Integral) or not 0 <= key < (count or math.inf):
            raise UserError(
                "class_weight's keys must be numbers of classes, or names in label2id: "
                f"{', '.join(numbers)}. Received: {short_repr(key)}."
            )
    for key, weight in given.items():
        if not isinstance(weight, Real) or not 0 <= float(weight) < math.inf:
            raise UserError(
                "class_weight's values must be numbers, 0 or more. Received: "
                f"{short_repr(weight)} for {short_repr(key)}."
            )
    return {**dict.fromkeys(range(count or 0), 1.0), **weights}


def has_no_rows(x: Any) -> bool:
    """Whether these are no examples: an empty list, columns without rows, or empty arrays."""
    while isinstance(x, Mapping | tuple) and x:
        x = next(iter(x.values())) if isinstance(x, Mapping) else x[0]
    return 0 in x.shape[:1] if isinstance(x, np.ndarray) else isinstance(x, list | tuple) and not x


def length_of(inputs: Mapping[str, Tensor]) -> int | None:
    """Number of tokens in a sequence, or None where it isn't known."""
    ids = inputs.get("input_ids")
    embedded = inputs.get("inputs_embeds")
    shape = getattr(ids, "shape", None) or getattr(embedded, "shape", (None, None))[:-1]
    return shape[-1] if shape else None


ON_REQUEST: Final = ("hidden_states", "attentions")  # outputs


class ModelOutput(dict[str, Any]):
    """Named outputs, read as `outputs["logits"]`, `outputs.logits` or `outputs[0]`.

    As attributes, `loss`, `hidden_states` and `attentions` are None where they weren't computed.
    Keras, TensorFlow, JAX and torch treat it as a nested structure, like any dict.

    Example:
        >>> from albert_tf import ModelOutput
        >>> outputs = ModelOutput(loss=0.5, logits=[1.0, 2.0])
        >>> outputs.logits == outputs["logits"] == outputs[1]
        True
    """

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            if name in ("loss", *ON_REQUEST):
                return None
            raise AttributeError(
                f"There is no output {name!r}. Received outputs: {', '.join(self)}."
            ) from None

    def __getitem__(self, key: Any) -> Any:
        return self.to_tuple()[key] if isinstance(key, int | slice) else super().__getitem__(key)

    def to_tuple(self) -> tuple[Any, ...]:
        """The values, in order."""
        return tuple(self.values())


def _flatten(output: ModelOutput) -> tuple[tuple[Any, ...], tuple[str, ...]]:
    return output.to_tuple(), tuple(output)


def _unflatten(names: tuple[str, ...], values: Any) -> ModelOutput:
    return ModelOutput(zip(names, values, strict=True))


optree.register_pytree_node(ModelOutput, _flatten, _unflatten, namespace="keras")
if keras.backend.backend() == "jax":
    import jax

    jax.tree_util.register_pytree_node(ModelOutput, _flatten, _unflatten)
elif keras.backend.backend() == "torch":
    from torch.utils import _pytree

    # torch passes and expects the values first, as a list.
    _pytree.register_pytree_node(
        ModelOutput,
        lambda output: (list(output.values()), tuple(output)),
        lambda values, names: _unflatten(names, values),
    )
    _pytree.register_pytree_node(
        BatchEncoding, as_leaves, lambda values, names: from_leaves(names, values)
    )
