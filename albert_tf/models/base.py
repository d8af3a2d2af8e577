"""What all ALBERT models share: configuration, losses in `fit`, and the directory format."""

import dataclasses
import os
from collections.abc import Mapping
from typing import Any, TypeVar

import keras
from keras import ops

from albert_tf.checkpoints import directory, weights
from albert_tf.config import AlbertConfig, unnamed_labels

Model = TypeVar("Model", bound="PreTrainedModel")


class PreTrainedModel(keras.Model):
    """A Keras model with an `AlbertConfig` and a directory format; built when constructed.

    Subclasses set `main_output`, the output that a loss and metrics given to `compile` receive, and
    `example_losses`, the loss that `fit` minimises when `compile` got none.
    """

    main_output: str | None = None
    built: bool

    def __init__(self, config: AlbertConfig, **kwargs: Any):
        if not isinstance(config, AlbertConfig):
            raise TypeError(
                "A model is made from an AlbertConfig: AlbertConfig.from_size(name), or "
                f"{type(self).__name__}.from_pretrained(directory). Received: {config!r}."
            )
        super().__init__(**kwargs)
        self.config = config

    def get_config(self) -> dict[str, Any]:
        return {
            "config": self.config.to_dict(),
            "name": self.name,
            "dtype": keras.dtype_policies.serialize(self.dtype_policy),
        }

    @classmethod
    def from_config(cls: type[Model], config: dict[str, Any], custom_objects: Any = None) -> Model:
        policy = keras.dtype_policies.deserialize(config["dtype"]) if "dtype" in config else None
        values = {**config, "dtype": policy, "config": AlbertConfig.from_dict(config["config"])}
        return cls(**values)

    @classmethod
    def from_pretrained(
        cls: type[Model],
        name_or_path: str | os.PathLike[str],
        *,
        dtype: Any = None,
        ignore_mismatched_sizes: bool = False,
        **options: Any,
    ) -> Model:
        """A model with the configuration and weights of a directory, or of a name on the hub.

        Args:
            name_or_path: a directory in Hugging Face's format, or a hub name such as
                "albert/albert-base-v2".
            dtype: Keras dtype policy; the global one if None.
            ignore_mismatched_sizes: start a head afresh whose shapes differ (other labels).
            **options: `revision`, `token`, `cache_dir`, `local_files_only` for the hub; anything
                else overrides a field of the configuration (`num_labels=3`,
                `hidden_dropout_prob=0.1`).
        Raises:
            UserError: there is no such model, it is damaged, or its weights don't fit its
                configuration.
        """
        hub_options, options = directory.split_hub_options(options)
        folder = directory.locate(name_or_path, **hub_options)
        config = _overridden(directory.read_config(folder), options)
        tensors = directory.read_tensors(folder)
        model = cls(config, dtype=dtype)
        weights.assign(model, tensors, str(name_or_path), ignore_mismatched_sizes)
        return model

    def save_pretrained(self, folder: str | os.PathLike[str]) -> None:
        """Writes the `config.json` and `model.safetensors` that transformers reads."""
        config = {**self.config.to_dict(), "architectures": [type(self).__name__]}
        directory.write(folder, config, weights.extract(self))

    def example_losses(self, labels: Any, outputs: Mapping[str, Any]) -> Any:
        """The loss of each example, `[B]`."""
        raise NotImplementedError(
            f"{type(self).__name__} has no loss of its own: compile it with one, or choose a "
            "task model."
        )

    def compute_loss(
        self,
        x: Any = None,
        y: Any = None,
        y_pred: Any = None,
        sample_weight: Any = None,
        training: bool = True,
    ) -> Any:
        labels = _labels(x, y)
        if self.loss is not None:
            return super().compute_loss(x, labels, self._main(y_pred), sample_weight, training)
        losses = self.example_losses(labels, y_pred)
        if sample_weight is not None:
            losses = losses * ops.cast(sample_weight, losses.dtype)
        return ops.mean(losses) + sum(self.losses)

    def compute_metrics(
        self, x: Any, y: Any, y_pred: Any, sample_weight: Any = None
    ) -> dict[str, Any]:
        return super().compute_metrics(x, _labels(x, y), self._main(y_pred), sample_weight)

    def _main(self, outputs: Any) -> Any:
        return outputs if self.main_output is None else outputs[self.main_output]


def features(input_ids: Any, **others: Any) -> dict[str, Any]:
    """One dict of a model's inputs, from arguments or from a dict given in the first one's place.

    Raises:
        ValueError: an unknown name in the dict, or neither or both of `input_ids` and
            `inputs_embeds`.
    """
    if isinstance(input_ids, Mapping):
        unknown = input_ids.keys() - {"input_ids", *others}
        if unknown:
            raise ValueError(
                f"A model's inputs are input_ids, {', '.join(others)}. Received also: "
                f"{', '.join(sorted(unknown))}."
            )
        given = {**others, "input_ids": None, **input_ids}
    else:
        given = {"input_ids": input_ids, **others}
    if (given["input_ids"] is None) == (given["inputs_embeds"] is None):
        received = "neither" if given["input_ids"] is None else "both"
        raise ValueError(f"A model needs either input_ids or inputs_embeds. Received {received}.")
    return given


def _labels(x: Any, y: Any) -> Any:
    return x.get("labels") if y is None and isinstance(x, Mapping) else y


def _overridden(config: AlbertConfig, changes: dict[str, Any]) -> AlbertConfig:
    """`config` with other values; `num_labels` keeps the labels' names if their number stays."""
    count = changes.pop("num_labels", config.num_labels)
    if count != config.num_labels:
        changes = {"id2label": unnamed_labels(count), **changes}
    unknown = changes.keys() - {field.name for field in dataclasses.fields(config)}
    if unknown:
        raise TypeError(
            f"from_pretrained takes {', '.join(directory.HUB_OPTIONS)}, dtype and fields of "
            f"AlbertConfig. Received: {', '.join(sorted(unknown))}."
        )
    return dataclasses.replace(config, **changes)
