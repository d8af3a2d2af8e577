"""What all ALBERT models share: configuration, the way from inputs to outputs, the files."""

import dataclasses
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import keras

from albert_tf.checkpoints import directory, formats, weights
from albert_tf.config import AlbertConfig
from albert_tf.models.inputs import ENCODER_INPUTS, features, named, refuse_lists
from albert_tf.models.losses import total
from albert_tf.models.outputs import ModelOutput
from albert_tf.models.overrides import overridden
from albert_tf.models.trainable import TrainableModel

Model = TypeVar("Model", bound="PreTrainedModel")


class PreTrainedModel(TrainableModel):
    """A Keras model with an `AlbertConfig` and a directory format; built when constructed.

    A task's model has its encoder at `self.albert`, declares `targets` and `task_inputs`, and
    defines `answer` and `loss_terms`.

    Call arguments: those of `AlbertModel`, what the model lists as its own inputs, and its labels,
    which add `loss`, a scalar, to the output. All of them may come in one dict as `input_ids`.

    Attributes:
        labels_named: False drops the configuration's labels from a model whose head has two outputs
            anyway: transformers would give it as many as there are labels.
        fresh_parts: parts that `from_pretrained` found no weights for.
    """

    labels_named: bool = True
    built: bool
    albert: Any

    def __init__(self, config: AlbertConfig, **kwargs: Any):
        if not isinstance(config, AlbertConfig):
            raise TypeError(
                "A model is made from an AlbertConfig: AlbertConfig.from_size(name), or "
                f"{type(self).__name__}.from_pretrained(directory). Received: {config!r}."
            )
        super().__init__(**kwargs)
        self.config = config if self.labels_named else dataclasses.replace(config, id2label=None)
        self.fresh_parts: list[str] = []

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if args and isinstance(args[0], Mapping):  # a tokenizer's result is no dict to Keras
            args = (dict(args[0]), *args[1:])
        refuse_lists({**named(args), **kwargs})
        return super().__call__(*args, **kwargs)

    def call(
        self,
        input_ids: Any = None,
        attention_mask: Any = None,
        token_type_ids: Any = None,
        position_ids: Any = None,
        inputs_embeds: Any = None,
        output_attentions: bool = False,
        output_hidden_states: bool = False,
        unroll: bool = True,
        training: bool | None = None,
        **task_inputs: Any,
    ) -> ModelOutput:
        inputs = features(
            input_ids,
            (*self.task_inputs, *self.targets),
            attention_mask=attention_mask,
            token_type_ids=token_type_ids,
            position_ids=position_ids,
            inputs_embeds=inputs_embeds,
            **task_inputs,
        )
        encoded = self.encode(
            {name: inputs[name] for name in ENCODER_INPUTS},
            output_attentions=output_attentions,
            output_hidden_states=output_hidden_states,
            unroll=unroll,
            training=training,
        )
        outputs = ModelOutput(self.answer(encoded, inputs, training))
        labels = {name: inputs[name] for name in self.targets if inputs[name] is not None}
        if labels:
            outputs = ModelOutput(loss=total(self.loss_terms(labels, outputs)), **outputs)
        for name in ("hidden_states", "attentions"):
            if name in encoded:
                outputs[name] = encoded[name]
        return outputs

    def encode(self, inputs: Mapping[str, Any], **options: Any) -> ModelOutput:
        """The encoder's outputs for a task's inputs."""
        return self.albert(**inputs, **options)

    def answer(
        self, encoded: ModelOutput, inputs: Mapping[str, Any], training: bool | None
    ) -> dict[str, Any]:
        """The task's outputs."""
        raise NotImplementedError

    def gradient_checkpointing_enable(self, enabled: bool = True) -> None:
        """Keeps just each block's input for the gradient, and computes the rest again.

        Takes less memory and more time. Source: arXiv 1604.06174.
        """
        backbone: Any = getattr(self, "albert", self)
        backbone.encoder.gradient_checkpointing = enabled
        self.train_function = None  # traced anew

    def gradient_checkpointing_disable(self) -> None:
        """Undoes `gradient_checkpointing_enable`."""
        self.gradient_checkpointing_enable(False)

    def _parts(self) -> Iterator[tuple[str, keras.layers.Layer]]:
        """What may be frozen by itself, by its path."""
        yield from ((layer.name, layer) for layer in self.layers)
        backbone: Any = getattr(self, "albert", self)
        yield from ((f"albert/{layer.name}", layer) for layer in backbone.layers)
        yield from ((f"encoder/{block.name}", block) for block in backbone.encoder.blocks)

    def get_config(self) -> dict[str, Any]:
        backbone: Any = getattr(self, "albert", self)
        return {
            "config": self.config.to_dict(),
            "name": self.name,
            "dtype": keras.dtype_policies.serialize(self.dtype_policy),
            "trainable": self.trainable,
            "frozen": [path for path, layer in self._parts() if not layer.trainable],
            "gradient_checkpointing": backbone.encoder.gradient_checkpointing,
        }

    @classmethod
    def from_config(cls: type[Model], config: dict[str, Any], custom_objects: Any = None) -> Model:
        values = {**config, "config": AlbertConfig.from_dict(config["config"])}
        if "dtype" in values:
            values["dtype"] = keras.dtype_policies.deserialize(values["dtype"])
        frozen, trainable = values.pop("frozen", ()), values.pop("trainable", True)
        checkpointing = values.pop("gradient_checkpointing", False)
        model = cls(**values)
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
        dtype: Any = None,
        ignore_mismatched_sizes: bool = False,
        **options: Any,
    ) -> Model:
        """A model with the configuration and weights of a checkpoint, in any published format.

        Args:
            name_or_path: a directory of Hugging Face (safetensors, PyTorch, TensorFlow, Flax), a
                TensorFlow 1 checkpoint of Google's with its `albert_config.json`, a TF-Hub module,
                a KerasHub preset, a hub name such as "albert/albert-base-v2", or "small", the
                model that comes with the package.
            dtype: Keras dtype policy; the global one if None.
            ignore_mismatched_sizes: start a head afresh whose shapes differ (other labels).
            **options: `revision`, `token`, `cache_dir`, `local_files_only`, `force_download` and
                `subfolder` for the hub; anything else overrides a field of the configuration
                (`num_labels=3`, `hidden_dropout_prob=0.1`).
        Raises:
            UserError: there is no such model, it is damaged, or its weights don't fit its
                configuration.
        """
        hub_options, options = directory.split_hub_options(options)
        checkpoint = formats.read(name_or_path, **hub_options)
        model = cls(overridden(checkpoint.config, options), dtype=dtype)
        model.fresh_parts = weights.assign(
            model, checkpoint.tensors, checkpoint.origin, ignore_mismatched_sizes
        )
        return model

    def save_pretrained(self, folder: str | os.PathLike[str]) -> None:
        """Writes the `config.json` and `model.safetensors` that transformers reads."""
        config = {**self.config.to_dict(), "architectures": [type(self).__name__]}
        directory.write(Path(folder).expanduser(), config, weights.extract(self))
