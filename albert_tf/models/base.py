"""The base of all ALBERT models: checks inputs, saves and loads, checkpoints gradients."""

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import keras
import numpy as np

from albert_tf.checkpoints import finder, hub, hugging_face, weights
from albert_tf.config import AlbertConfig
from albert_tf.errors import UserError
from albert_tf.layers import FactorizedEmbedding
from albert_tf.layers.common import Tensor
from albert_tf.layers.ids import checked_ids
from albert_tf.models import losses
from albert_tf.models.card import model_card
from albert_tf.models.resizing import resize_vocabulary

Model = TypeVar("Model", bound="PreTrainedModel")

# The first arguments of every model's call, in their order.
ENCODER_INPUTS: Final = (
    "input_ids",
    "attention_mask",
    "token_type_ids",
    "position_ids",
    "inputs_embeds",
)
# Arguments of transformers' calls: the value that changes nothing, and the way out of others.
_FOREIGN: Final = {
    "return_dict": (True, "Use outputs.to_tuple(), or outputs[0]."),
    "head_mask": (None, "This model can't mask single heads."),
}
# Options of transformers' from_pretrained about the format, which is detected here.
_DETECTED: Final = ("from_pt", "from_tf", "from_flax", "use_safetensors")


class PreTrainedModel(keras.Model):
    """A Keras model with an `AlbertConfig` and a directory format; built by its constructor.

    Attributes:
        targets: for each label, the output that it is compared with.
        task_inputs: inputs besides the encoder's, without labels.
        keeps_labels: False drops the configuration's labels from a model whose head always has two
            outputs: transformers would make as many outputs as there are labels.
        input_rank: number of axes of `input_ids`.
        fresh_parts: parts that `from_pretrained` found no weights for.
    """

    targets: Mapping[str, str] = {}
    task_inputs: tuple[str, ...] = ()
    keeps_labels: bool = True
    input_rank: int = 2
    # Keras would trace it for SavedModels, with ids in float32; `export` declares what they have.
    _default_save_signature = None
    built: bool

    def __init__(self, config: AlbertConfig, **kwargs: Any):
        _require_config(type(self), config)
        super().__init__(**kwargs)
        self.config = config if self.keeps_labels else config.replace(id2label=None)
        self.fresh_parts: list[str] = []

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        kwargs = self._arrays(_without_foreign(kwargs))
        if args and isinstance(args[0], Mapping):  # Keras doesn't know a tokenizer's result
            args = (self._arrays(args[0]), *args[1:])
        given = {**dict(zip(ENCODER_INPUTS, args, strict=False)), **kwargs}
        if isinstance(given.get("input_ids"), dict):
            given |= given.pop("input_ids")
        _refuse_lists(given)
        self._check_labels(given, given)
        with checked_ids(self.config, given, _length(given)):
            return super().__call__(*args, **kwargs)

    def _arrays(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Returns a call's inputs, with labels that are lists as arrays."""
        return {
            name: _array(name, value)
            if name in self.targets and isinstance(value, list | tuple)
            else value
            for name, value in inputs.items()
        }

    def _check_labels(self, labels: Mapping[str, Any], inputs: Mapping[str, Any]) -> None:
        """Refuses labels outside the classes, where their values are known."""
        for name, count in self._class_counts(inputs).items():
            losses.check_classes(name, labels.get(name), count)

    def _class_counts(self, inputs: Mapping[str, Any]) -> dict[str, int]:
        """For each label that is the number of a class, the number of classes."""
        return {}

    def export(
        self,
        filepath: str | os.PathLike[str],
        format: str = "tf_saved_model",
        verbose: bool | None = None,
        input_signature: Any = None,
        **kwargs: Any,
    ) -> None:
        """Exports the model as `keras.Model.export` does, by default with declared inputs.

        They are the dict of `input_ids`, `attention_mask` and `token_type_ids`, int32. For files
        that take strings, run without Keras' quirks and are compared with the model, use
        `albert_tf.export_saved_model` and `albert_tf.export_tflite`.
        """
        if input_signature is None:
            input_signature = [self._input_specs()]
        super().export(filepath, format, verbose, input_signature, **kwargs)

    def _input_specs(self) -> dict[str, keras.InputSpec]:
        """The inputs that every export has."""
        return {
            name: keras.InputSpec(dtype="int32", shape=(None,) * self.input_rank, name=name)
            for name in ENCODER_INPUTS[:3]
        }

    def predict(self, x: Any, *args: Any, **kwargs: Any) -> Any:
        return super().predict(as_arrays(x), *args, **kwargs)

    def predict_on_batch(self, x: Any) -> Any:
        return super().predict_on_batch(as_arrays(x))

    def make_train_function(self, force: bool = False) -> Any:
        # Otherwise the first step would make the optimizer's slots, and TensorFlow trace twice.
        if not self.optimizer.built:
            self.optimizer.build(self.trainable_variables)
        return super().make_train_function(force)

    def _backbone(self) -> Any:
        """The `AlbertModel`: a task's, or the model itself. No property: saving walks those."""
        return getattr(self, "albert", self)

    def get_input_embeddings(self) -> FactorizedEmbedding:
        """Returns the layer with the word table, which is its `weight`."""
        return self._backbone().embedding

    def num_parameters(self, only_trainable: bool = False) -> int:
        """Returns the number of parameters."""
        weights = self.trainable_weights if only_trainable else self.weights
        return sum(math.prod(weight.shape) for weight in weights)

    def resize_token_embeddings(self, new_num_tokens: int | None = None) -> FactorizedEmbedding:
        """Gives the vocabulary another size, as after `tokenizer.add_tokens`.

        Words that remain keep their weights; new ones are initialized. The configuration, the
        decoder that shares the word table and its bias follow.

        Args:
            new_num_tokens: V, for example `len(tokenizer)`; None changes nothing.
        Returns:
            The layer with the word table.
        Raises:
            UserError: the optimizer has state already: call `compile` again first.
        """
        if new_num_tokens not in (None, self.config.vocab_size):
            resize_vocabulary(self, new_num_tokens)
        return self.get_input_embeddings()

    def gradient_checkpointing_enable(self, enabled: bool = True) -> None:
        """Computes each block again for the gradient, so that only its input stays in memory.

        Takes less memory and more time. Source: arXiv 1604.06174.
        """
        self._backbone().encoder.gradient_checkpointing = enabled
        self.train_function = None  # the next `fit` traces it again

    def gradient_checkpointing_disable(self) -> None:
        """Undoes `gradient_checkpointing_enable`."""
        self.gradient_checkpointing_enable(False)

    def _parts(self) -> Iterator[tuple[str, keras.layers.Layer]]:
        """Yields every part that can be frozen, with its path."""
        yield from ((layer.name, layer) for layer in self.layers)
        yield from ((f"albert/{layer.name}", layer) for layer in self._backbone().layers)
        yield from ((f"encoder/{block.name}", block) for block in self._backbone().encoder.blocks)

    def get_config(self) -> dict[str, Any]:
        return {
            "config": self.config.to_dict(),
            "name": self.name,
            "dtype": keras.dtype_policies.serialize(self.dtype_policy),
            "trainable": self.trainable,
            "frozen": [path for path, layer in self._parts() if not layer.trainable],
            "gradient_checkpointing": self._backbone().encoder.gradient_checkpointing,
            "quantized": {
                str(index): {
                    "mode": layer.quantization_mode,
                    "config": keras.saving.serialize_keras_object(layer.quantization_config),
                }
                for index, layer in enumerate(self._flatten_layers())
                if layer.quantization_mode is not None
            },
        }

    @classmethod
    def from_config(cls: type[Model], config: dict[str, Any], custom_objects: Any = None) -> Model:
        if isinstance(config, AlbertConfig):  # as transformers' classes for any model take it
            return cls(config)
        values = {**config, "config": AlbertConfig.from_dict(config["config"])}
        if "dtype" in values:
            values["dtype"] = keras.dtype_policies.deserialize(values["dtype"])
        frozen, trainable = values.pop("frozen", ()), values.pop("trainable", True)
        checkpointing = values.pop("gradient_checkpointing", False)
        quantized = values.pop("quantized", {})
        model = cls(**values)
        layers = list(model._flatten_layers())
        for index, how in quantized.items():
            options = keras.saving.deserialize_keras_object(how["config"])
            layers[int(index)].quantize(how["mode"], config=options)
        for path, layer in model._parts():
            if path in frozen:
                layer.trainable = False
        if not trainable:
            model.trainable = False
        model.gradient_checkpointing_enable(checkpointing)
        return model

    @classmethod
    def from_pretrained(
        cls: type[Model],
        name_or_path: str | os.PathLike[str],
        *,
        config: AlbertConfig | None = None,
        dtype: Any = None,
        ignore_mismatched_sizes: bool = False,
        **options: Any,
    ) -> Model:
        """Returns a model with the configuration and weights of a checkpoint of any format.

        Args:
            name_or_path: a directory of Hugging Face (safetensors, PyTorch, TensorFlow, Flax), a
                TensorFlow 1 checkpoint of Google's with its `albert_config.json`, a TF-Hub module,
                a KerasHub preset, a hub name such as "albert/albert-base-v2", or "small", the
                model that ships with the package.
            config: replaces the checkpoint's configuration.
            dtype: Keras dtype policy; the global one if None.
            ignore_mismatched_sizes: whether to initialize a head whose shapes differ.
            **options: `revision`, `token`, `cache_dir`, `local_files_only`, `force_download` and
                `subfolder` for the hub; anything else overrides a field of the configuration
                (`num_labels=3`, `hidden_dropout_prob=0.1`).
        Raises:
            UserError: there is no such model, it is damaged, or its weights don't fit its
                configuration.
        """
        hub_options, fields = finder.split_hub_options(options)
        fields = {name: value for name, value in fields.items() if name not in _DETECTED}
        checkpoint = finder.find(name_or_path, **hub_options).read()
        if config is not None:
            _require_config(cls, config)
            checkpoint = checkpoint._replace(config=config)
        return cls.from_checkpoint(checkpoint, dtype, ignore_mismatched_sizes, **fields)

    @classmethod
    def from_checkpoint(
        cls: type[Model],
        checkpoint: weights.Checkpoint,
        dtype: Any = None,
        ignore_mismatched_sizes: bool = False,
        **fields: Any,
    ) -> Model:
        """Returns a model of a checkpoint in memory; see `from_pretrained`."""
        checkpoint = checkpoint._replace(config=checkpoint.config.replace(**fields))
        weights.check_backbone(checkpoint)
        model = cls(checkpoint.config, dtype=dtype)
        model.fresh_parts = weights.assign(
            model, checkpoint.tensors, checkpoint.origin, ignore_mismatched_sizes
        )
        return model

    def save_pretrained(
        self,
        folder: str | os.PathLike[str],
        *,
        push_to_hub: bool = False,
        repo_id: str | None = None,
        **hub_options: Any,
    ) -> None:
        """Writes `config.json` and `model.safetensors` as transformers reads them.

        Args:
            folder: other files in it stay.
            push_to_hub: upload them too; see the method of this name.
            repo_id: default: the folder's name.
            **hub_options: of `push_to_hub`.
        """
        if hub_options and not push_to_hub:
            raise TypeError(
                "save_pretrained's options are push_to_hub and, with it, those of push_to_hub. "
                f"Received: {', '.join(hub_options)}. It writes model.safetensors alone."
            )
        tensors, name = weights.extract(self), type(self).__name__
        hugging_face.write_directory(folder, self.config, tensors, name)
        if push_to_hub:
            self.push_to_hub(repo_id or Path(folder).expanduser().resolve().name, **hub_options)

    def push_to_hub(self, repo_id: str, **options: Any) -> str:
        """Uploads the model's files to the Hugging Face hub, with a model card if there is none.

        Args:
            repo_id: of the form owner/name. The repository is made if necessary.
            **options: `token`, `private`, `commit_message`, `revision`, `create_pr`.
        Returns:
            The commit's URL.
        Raises:
            UserError: there is no token, no right to write, or no network.
        """
        facts = type(self).__name__, self.config, self.num_parameters()
        return hub.upload(
            self.save_pretrained, repo_id, card=lambda name: model_card(name, *facts), **options
        )


def _require_config(cls: type, config: Any) -> None:
    if not isinstance(config, AlbertConfig):
        raise TypeError(
            "A model is made from an AlbertConfig: AlbertConfig.from_size(name), or "
            f"{cls.__name__}.from_pretrained(directory). Received: {config!r}."
        )


def _without_foreign(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Drops transformers' arguments that change nothing here; refuses other values of them."""
    for name, (same, way_out) in _FOREIGN.items():
        if (value := arguments.get(name)) is not None and value is not same:
            raise UserError(
                f"{name} must be {same} or left out. Received: {name}={value!r}. {way_out}"
            )
    return {name: value for name, value in arguments.items() if name not in _FOREIGN}


def _array(name: str, values: Any) -> np.ndarray:
    try:
        return np.asarray(values)
    except ValueError as error:
        raise UserError(
            f"{name} must have rows of one length. Received: rows of several. Pad them with -100."
        ) from error


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


def check_shapes(inputs: Mapping[str, Tensor]) -> None:
    """Refuses an input of another shape than the ids, as far as shapes are known.

    Broadcasting would give an answer, but another one than was asked for.
    """
    given = inputs["inputs_embeds"] if inputs["input_ids"] is None else inputs["input_ids"]
    if len(given.shape) < 2:  # the lookup refuses it
        return
    batch, length = given.shape[:2]
    for name, shapes in {
        "attention_mask": [(batch, length), (batch, length, length)],
        "token_type_ids": [(batch, length)],
        "position_ids": [(batch, length), (1, length)],
    }.items():
        value = inputs[name]
        if value is not None and not any(_agree(value.shape, shape) for shape in shapes):
            raise ValueError(
                f"{name} must have the shape of the ids, {' or '.join(map(str, shapes))}. "
                f"Received: {tuple(value.shape)}."
            )


def _agree(found: Sequence[Any], wanted: Sequence[Any]) -> bool:
    """Whether two shapes may be equal; a size that isn't a number is unknown."""
    return len(found) == len(wanted) and all(
        one == other or not (isinstance(one, int) and isinstance(other, int))
        for one, other in zip(found, wanted, strict=True)
    )


def refuse_unknown(inputs: Mapping[str, Any], known: tuple[str, ...]) -> None:
    """Refuses names that aren't a model's inputs."""
    if unknown := inputs.keys() - set(known):
        raise ValueError(
            f"A model's inputs are {', '.join(known)}. Received also: {', '.join(sorted(unknown))}."
        )


def _refuse_lists(inputs: Mapping[str, Any]) -> None:
    """Refuses lists, which Keras would split into single numbers."""
    if lists := [name for name, value in inputs.items() if isinstance(value, list | tuple)]:
        raise ValueError(
            "A model's inputs must be arrays or tensors: tokenizer(texts, padding=True, "
            f"return_tensors='np') gives them. Received: a list as {', '.join(lists)}."
        )


def as_arrays(values: Any) -> Any:
    """Returns a tokenizer's result as a dict of arrays, and lists of numbers as arrays.

    Keras would take every number of a list for an input. Other data stays as it is.
    """
    if isinstance(values, Mapping):
        return {name: as_arrays(value) for name, value in values.items()}
    if not isinstance(values, list) or not values or hasattr(values[0], "shape"):
        return values
    try:
        return np.array(values)
    except ValueError:
        raise ValueError(
            "Rows must have the same length to become an array. Received: a list of rows that "
            "differ. Pad them: tokenizer(texts, padding=True)."
        ) from None


def _length(inputs: Mapping[str, Tensor]) -> int | None:
    """Number of pieces in a row, or None where it isn't known."""
    ids = inputs.get("input_ids")
    embedded = inputs.get("inputs_embeds")
    shape = getattr(ids, "shape", None) or getattr(embedded, "shape", (None, None))[:-1]
    return shape[-1] if shape else None
