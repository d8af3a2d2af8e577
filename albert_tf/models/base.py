"""Base class of all models: configuration, checked calls, loading, and saving."""

import hashlib
import math
import os
from collections.abc import Iterable, Iterator, Mapping
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Final, TypeVar
from weakref import WeakValueDictionary

import keras
import numpy as np
from keras import ops

from albert_tf.checkpoints import finder, models, names, sentence_transformers, weight_files
from albert_tf.checkpoints.sentence_transformers import SentenceEmbedding
from albert_tf.checkpoints.weights import Checkpoint
from albert_tf.config import AlbertConfig
from albert_tf.errors import UserError, short_repr
from albert_tf.files import user_path
from albert_tf.huggingface import IGNORED_BY_MODELS, MODEL_METHODS, MODEL_SAVING, own_options
from albert_tf.layers.common import ShapesFromCall
from albert_tf.layers.embedding import WordEmbeddings, check_ids, is_trusted, trusted
from albert_tf.models import surgery
from albert_tf.models.batch import check_call
from albert_tf.models.examples import (
    ENCODER_INPUTS,
    Target,
    check_types,
    holds_rows,
    input_arrays,
    is_empty,
)
from albert_tf.options import COUNT, checks_numbers, without_methods
from albert_tf.tasks import ENCODER, TaskFacts

# Whether a call is part of `predict` and needs no gradients. Each thread has its own value.
in_predict: Final[ContextVar[bool]] = ContextVar("in predict", default=False)
Model = TypeVar("Model", bound="PreTrainedModel")


@without_methods(MODEL_METHODS)
class PreTrainedModel(ShapesFromCall, keras.Model):
    """Base class of all models: Keras models that have an `AlbertConfig` and are built on creation.

    Attributes:
        task: facts about the task; see `tasks.TaskFacts`.
        form_options: constructor arguments that `from_pretrained` also accepts.
        targets: maps each label to the output it is compared with; see `examples.Target`.
        task_inputs: inputs in addition to the encoder's, including labels that the head reads.
        keeps_labels: False for heads that always have two outputs. Their config has no `id2label`,
            because transformers would derive the head's size from it.
        tokenizer: the tokenizer for texts in `fit`, and the default wherever one is optional.
            `from_pretrained` uses the tokenizer in the checkpoint's folder, if there is one.
        newly_initialized: names of the parts that have no weights in the checkpoint. Clear the list
            after you train these parts in a custom loop.
    """

    task: TaskFacts
    form_options: tuple[str, ...] = ()
    targets: Mapping[str, Target] = {}
    task_inputs: tuple[str, ...] = ()
    keeps_labels: bool = True
    takes_ids = True
    built: bool

    def __init__(self, config: AlbertConfig, **kwargs: Any):
        require_config(type(self), config)
        super().__init__(**kwargs)
        self.config = config if self.keeps_labels else config.replace(id2label=None)
        self.newly_initialized: list[str] = []
        self._tokenizer: Any = None
        self._folder: Path | None = None  # contains the weights
        self._module_folder: Path | None = None  # it or its parent contains modules.json
        self._max_length: int | None = None  # overrides tokenizer_config.json

    def _inherit(self, source: "PreTrainedModel") -> None:
        """Copies the original model's attributes that aren't in `get_config` or the weights."""
        self.newly_initialized = source.untrained_parts()
        for name in ("_tokenizer", "_folder", "_module_folder", "_max_length"):
            setattr(self, name, getattr(source, name))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if is_trusted():
            return super().__call__(*args, **kwargs)
        args, kwargs = check_call(self, args, kwargs)
        with trusted():
            return super().__call__(*args, **kwargs)

    @property
    def known_inputs(self) -> tuple[str, ...]:
        """The names of all inputs and labels."""
        return (*ENCODER_INPUTS, *self.task_inputs, *self.targets)

    def make_train_function(self, force: bool = False) -> Any:
        surgery.redraw_merged_adapters(self)
        # If the first step created the optimizer's slots, TensorFlow would trace the step twice.
        are_built = all(getattr(part, "built", True) for part in names.added(self))
        if are_built and not self.optimizer.built:
            self.optimizer.build(self.trainable_variables)
        return super().make_train_function(force)

    @property
    def parallel_batches(self) -> int:
        """Number of batches to predict in parallel: 2 with TensorFlow on a CPU, otherwise 1."""
        if keras.backend.backend() != "tensorflow":
            return 1
        from albert_tf.models.steps_tensorflow import has_accelerator

        return 1 if has_accelerator() else 2

    @property
    def tokenizer(self) -> Any:
        # Loaded on first use, because loading a published vocabulary takes seconds.
        if self._tokenizer is None and self._folder is not None:
            from albert_tf.text.tokenizer import AlbertTokenizer
            from albert_tf.text.tokenizer_files import vocabulary_in

            if vocabulary_in(self._folder) is not None:
                length = {} if self._max_length is None else {"model_max_length": self._max_length}
                self._tokenizer = AlbertTokenizer.from_pretrained(self._folder, **length)
        return self._tokenizer

    @tokenizer.setter
    def tokenizer(self, tokenizer: Any) -> None:
        self._tokenizer, self._folder = tokenizer, None

    @property
    def saved_class(self) -> str:
        """The class name that `save_pretrained` writes to `config.json`."""
        return type(self).__name__

    def sentence_embedding(self) -> SentenceEmbedding | None:
        """Reads the pooling and normalization from a sentence-transformers folder.

        Returns None for task models and for models that weren't loaded from such a folder.

        Raises:
            UserError: see `sentence_transformers.read`.
        """
        if self._module_folder is None or self.task.pipeline_tag != ENCODER.pipeline_tag:
            return None
        return sentence_transformers.read(self._module_folder)

    def build_added(self) -> list[str]:
        """Builds the layers that a subclass adds, and returns the names of layers with weights.

        Keras builds a layer on its first call, but the layer's weights may be needed earlier.
        """
        added = names.added(self)
        if not all(getattr(part, "built", True) for part in added):
            inputs = {
                name: keras.KerasTensor(spec.shape, spec.dtype)
                for name, spec in self._input_specs().items()
            }
            try:
                self.compute_output_spec(inputs)
            except Exception as error:
                unbuilt = [part.name for part in added if not getattr(part, "built", True)]
                raise UserError(
                    f"{type(self).__name__} adds layers that aren't built ({', '.join(unbuilt)}), "
                    f"and its call doesn't work with only {', '.join(inputs)}. Call build(shape) "
                    "on each layer in __init__."
                ) from error
        return [part.name for part in added if getattr(part, "weights", True)]

    def export(
        self,
        filepath: str | os.PathLike[str],
        format: str = "tf_saved_model",
        verbose: bool | None = None,
        input_signature: Any = None,
        **kwargs: Any,
    ) -> None:
        """Exports the model for inference, like `keras.Model.export`.

        By default, the exported model takes a dict of `input_ids`, `attention_mask`, and
        `token_type_ids`, all int32. To export a model that takes strings, call
        `albert_tf.export_saved_model` or `albert_tf.export_tflite`. They also compare the outputs
        of the exported model with those of the original.

        Raises:
            UserError: if the backend is torch.
        """
        backend = keras.backend.backend()
        if backend == "torch":  # Keras can't trace dicts of inputs on torch.
            raise UserError(
                "model.export requires the TensorFlow or JAX backend. On torch, call "
                "save_pretrained, then run albert-tf export on the folder."
            )
        if input_signature is None:
            input_signature = [self._input_specs()]
            if backend == "jax":  # Otherwise each input would have its own symbolic length.
                axes = "batch, choices, length" if self.task.has_choices else "batch, length"
                shapes = dict.fromkeys(input_signature[0], f"({axes})")
                kwargs.setdefault("jax2tf_kwargs", {"polymorphic_shapes": [shapes]})
        super().export(filepath, format, verbose, input_signature, **kwargs)

    @property
    def _default_save_signature(self) -> Any:
        """The default signature of `tf.saved_model.save`: int32 inputs and float32 outputs.

        Keras's own default signature takes float32 ids.
        """
        if keras.backend.backend() != "tensorflow":
            return None
        import tensorflow as tf

        inputs = {
            name: tf.TensorSpec(spec.shape, spec.dtype, name)
            for name, spec in self._input_specs().items()
        }

        @tf.function(input_signature=[inputs], autograph=False)
        def serving_default(inputs: dict[str, Any]) -> Any:
            outputs = self(inputs, training=False)
            return keras.tree.map_structure(
                lambda value: tf.cast(value, tf.float32) if value.dtype.is_floating else value,
                dict(outputs) if isinstance(outputs, Mapping) else outputs,
            )

        return serving_default

    def _input_specs(self) -> dict[str, keras.InputSpec]:
        """Returns the input specs for `export`."""
        shape = (None, None, None) if self.task.has_choices else (None, None)
        return {
            name: keras.InputSpec(dtype="int32", shape=shape, name=name)
            for name in ENCODER_INPUTS[:3]
        }

    def _check_inputs(self, x: Any) -> Any:
        """Converts lists to arrays and rejects ids that are out of range."""
        x = input_arrays(x)
        if holds_rows(x):
            inputs = x if isinstance(x, Mapping) else {ENCODER_INPUTS[0]: x}
            check_types(inputs)
            check_ids(self.config, inputs)
        return x

    def predict(self, x: Any, *args: Any, **kwargs: Any) -> Any:
        x = self._check_inputs(x)
        if is_empty(x):  # Keras returns no outputs if there is no batch
            if not isinstance(x, Mapping):
                specs = self._input_specs()
                x = {
                    name: np.zeros((0, *[1] * len(spec.shape[1:])), "int32")
                    for name, spec in specs.items()
                }
            return keras.tree.map_structure(ops.convert_to_numpy, self(x, training=False))
        return super().predict(x, *args, **kwargs)

    def predict_on_batch(self, x: Any) -> Any:
        x = self._check_inputs(x)
        if self.predict_function is None:
            self.make_predict_function()
            if keras.backend.backend() == "tensorflow":
                _trace_for_all_sizes(self.predict_function, x)
        return super().predict_on_batch(x)

    def predict_step(self, *args: Any) -> Any:
        """Runs Keras's `predict_step` and lets the layers run in a graph loop."""
        x, *_ = keras.utils.unpack_x_y_sample_weight(args[-1])
        inputs = x if isinstance(x, Mapping) else {ENCODER_INPUTS[0]: x}
        check_types(inputs)
        token = in_predict.set(True)
        try:
            with trusted():
                return super().predict_step(*args)
        finally:
            in_predict.reset(token)

    def save_own_variables(self, store: Any) -> None:
        self.build_added()
        super().save_own_variables(store)

    def load_weights(self, filepath: Any, *args: Any, **kwargs: Any) -> None:
        self.build_added()
        if weight_files.is_keras_2(Path(filepath)):
            raise UserError(
                f"load_weights doesn't read Keras 2 files. Received: {filepath}. Rename the "
                "file to tf_model.h5, put it next to the model's config.json, and pass the folder "
                f"to {type(self).__name__}.from_pretrained."
            )
        with weight_files.whole_file(Path(filepath)):
            super().load_weights(filepath, *args, **kwargs)

    def save_assets(self, dir_path: str) -> None:
        """Writes the tokenizer, if there is one, to a `.keras` file."""
        if self.tokenizer is not None:
            self.tokenizer.save_pretrained(dir_path)

    def load_assets(self, dir_path: str | None) -> None:
        """Loads the saved tokenizer immediately, because Keras will delete the folder."""
        if dir_path is not None:
            self._folder = Path(dir_path)
            self.tokenizer = self.tokenizer

    def __dir__(self) -> Iterable[str]:
        """Omits `tokenizer`, which Keras would load whenever it saves or loads a model."""
        return [name for name in super().__dir__() if name != "tokenizer"]

    def _backbone(self) -> Any:
        """Returns `self.albert`, or the model itself if it is the encoder.

        This isn't a property, because Keras reads every property when it saves a model.
        """
        return getattr(self, "albert", self)

    def untrained_parts(self) -> list[str]:
        """Returns `newly_initialized`, or an empty list if the optimizer has taken a step."""
        optimizer = getattr(self, "optimizer", None)
        is_trained = optimizer is not None and surgery.steps_of(optimizer) > 0
        return [] if is_trained else list(self.newly_initialized)

    def get_input_embeddings(self) -> WordEmbeddings:
        """Returns the layer that maps ids to `inputs_embeds`; `weight` is its embedding matrix."""
        return WordEmbeddings(self._backbone().embedding)

    @checks_numbers(new_num_tokens=COUNT, pad_to_multiple_of=COUNT)
    def resize_token_embeddings(
        self, new_num_tokens: int | None = None, pad_to_multiple_of: int | None = None
    ) -> WordEmbeddings:
        """Resizes the vocabulary, for example after `tokenizer.add_tokens`.

        Existing tokens keep their weights; the weights of new tokens are initialized. The
        configuration and the head that shares the embedding matrix are updated as well.

        Args:
            new_num_tokens: the new size V, for example `len(tokenizer)`. Default: the current size.
            pad_to_multiple_of: if set, V is rounded up to a multiple of this number.
        Returns:
            The layer that `get_input_embeddings` returns.
        Raises:
            UserError: if the optimizer already has state. Call `compile` again first.
        """
        size = self.config.vocab_size if new_num_tokens is None else new_num_tokens
        if pad_to_multiple_of:
            size = -(-size // pad_to_multiple_of) * pad_to_multiple_of
        if size != self.config.vocab_size:
            surgery.resize_vocabulary(self, size)
        return self.get_input_embeddings()

    @checks_numbers(num_hidden_layers=COUNT)
    def with_depth(self: Model, num_hidden_layers: int) -> Model:
        """Returns a copy with the first `num_hidden_layers` layers and the same head.

        With a single group of shared layers, the copy can also be deeper than the model.

        Args:
            num_hidden_layers: number of layers in the copy.
        Raises:
            UserError: if the model doesn't support this depth; see `AlbertConfig.at_depth`.

        Example:
            >>> from albert_tf import AlbertForSequenceClassification
            >>> model = AlbertForSequenceClassification.from_pretrained("small", num_labels=2)
            >>> shallow = model.with_depth(2)
            >>> shallow.config.num_hidden_layers
            2
        """
        return surgery.with_depth(self, num_hidden_layers)

    def num_parameters(self, only_trainable: bool = False, exclude_embeddings: bool = False) -> int:
        """Returns the number of parameters, optionally without the three embedding matrices."""
        weights = self.trainable_weights if only_trainable else self.weights
        embedding = self._backbone().embedding
        tables = (
            embedding.word_embeddings,
            embedding.position_embeddings,
            embedding.token_type_embeddings,
        )
        excluded = {id(table) for table in tables if exclude_embeddings}
        return sum(math.prod(weight.shape) for weight in weights if id(weight) not in excluded)

    def gradient_checkpointing_enable(self, enabled: bool = True) -> None:
        """Saves memory during training: blocks keep only their inputs and recompute the rest.

        Training takes longer. Source: arXiv 1604.06174.
        """
        self._backbone().encoder.gradient_checkpointing = enabled
        self.train_function = None  # `fit` traces a new one

    def gradient_checkpointing_disable(self) -> None:
        """Undoes `gradient_checkpointing_enable`."""
        self.gradient_checkpointing_enable(False)

    def _parts(self) -> Iterator[tuple[str, keras.layers.Layer]]:
        """Yields every layer with its path, each followed by its sublayers."""

        def parts(layer: keras.layers.Layer, path: str) -> Iterator[tuple[str, Any]]:
            for part in layer._flatten_layers(include_self=False, recursive=False):
                yield path + part.name, part
                yield from parts(part, f"{path}{part.name}/")

        return parts(self, "")

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
                    "config": keras.saving.serialize_keras_object(
                        getattr(layer, "quantization_config", None)  # not in Keras 3.12
                    ),
                }
                for index, layer in enumerate(self._flatten_layers())
                if layer.quantization_mode and layer.dtype_policy != self.dtype_policy
            },
            "lora": {
                str(index): [layer.lora_rank, layer.lora_alpha]
                for index, layer in enumerate(self._flatten_layers())
                if getattr(layer, "lora_enabled", False)
            },
            "tokenizer": _remember(self.tokenizer),
        }

    @classmethod
    def from_config(cls: type[Model], config: dict[str, Any], custom_objects: Any = None) -> Model:
        if isinstance(config, AlbertConfig):  # as in transformers' `AutoModel`
            return cls(config)
        values = {**config, "config": AlbertConfig.from_dict(config["config"])}
        if "dtype" in values:
            values["dtype"] = keras.dtype_policies.deserialize(values["dtype"])
        frozen, trainable = values.pop("frozen", ()), values.pop("trainable", True)
        checkpointing = values.pop("gradient_checkpointing", False)
        quantized, lora = values.pop("quantized", {}), values.pop("lora", {})
        tokenizer = _tokenizers.get(values.pop("tokenizer", None) or "")
        model = cls(**values)
        model._tokenizer = tokenizer
        model.build_added()
        layers = list(model._flatten_layers())
        for index, how in quantized.items():
            options = keras.saving.deserialize_keras_object(how["config"])
            layers[int(index)].quantize(how["mode"], **({"config": options} if options else {}))
        for path, layer in model._parts():
            layer.trainable = path not in frozen
        for index, (rank, alpha) in lora.items():
            layers[int(index)].enable_lora(rank, lora_alpha=alpha)  # also freezes the kernel
        if not trainable:
            model.trainable = False
        model.gradient_checkpointing_enable(checkpointing)
        return model

    @classmethod
    def from_pretrained(
        cls: type[Model],
        pretrained_model_name_or_path: str | os.PathLike[str],
        *,
        config: AlbertConfig | None = None,
        dtype: Any = None,
        ignore_mismatched_sizes: bool = False,
        **options: Any,
    ) -> Model:
        """Loads the configuration and weights of a checkpoint in any supported format.

        Args:
            pretrained_model_name_or_path: a Hugging Face directory (safetensors, PyTorch,
                TensorFlow, or Flax), a Google TensorFlow 1 checkpoint with its
                `albert_config.json`, a TensorFlow checkpoint or SavedModel of a `TFAlbert*` model,
                a TF-Hub module, a KerasHub preset, a model ID on the Hub such as
                "albert/albert-base-v2", or "small" (the model that ships with the package).
            config: the configuration to use instead of the checkpoint's own.
            dtype: Keras dtype policy. Default: the global policy.
            ignore_mismatched_sizes: whether to initialize a head whose shapes don't match the
                checkpoint, instead of raising an error.
            **options: Hub options (`revision`, `token`, `cache_dir`, `local_files_only`,
                `force_download`, and `subfolder`), configuration fields to override
                (`num_labels=3`), and constructor arguments (`add_pooling_layer=False` for
                `AlbertModel`).
        Raises:
            UserError: if the checkpoint doesn't exist, is damaged, or has weights that don't fit
                its configuration.
        """
        hub_options, fields = finder.split_hub_options(options)
        if config is not None:
            require_config(cls, config)
        checkpoint = finder.find(pretrained_model_name_or_path, tokenizer=True, **hub_options).read(
            config
        )
        return cls.from_checkpoint(checkpoint, dtype, ignore_mismatched_sizes, **fields)

    @classmethod
    def from_checkpoint(
        cls: type[Model],
        checkpoint: Checkpoint,
        dtype: Any = None,
        ignore_mismatched_sizes: bool = False,
        **fields: Any,
    ) -> Model:
        """Creates a model from a checkpoint in memory; see `from_pretrained`."""
        return models.load(cls, checkpoint, dtype, ignore_mismatched_sizes, **fields)

    def save_pretrained(
        self,
        save_directory: str | os.PathLike[str],
        *,
        push_to_hub: bool = False,
        repo_id: str | None = None,
        **hub_options: Any,
    ) -> None:
        """Writes a Hugging Face directory: `config.json`, `model.safetensors`, and the tokenizer.

        A model with a `sentence_embedding` also saves its sentence-transformers modules. If the
        model's tokenizer was found next to the loaded weights but never used, a tokenizer that is
        already in `save_directory` is kept.

        Args:
            save_directory: path of the directory. Other files in it are kept.
            push_to_hub: whether to also call `push_to_hub`, with the directory's `README.md` as
                the model card if there is one.
            repo_id: name of the repository. Default: the name of the directory.
            **hub_options: `push_to_hub` options, and transformers options that have no effect.
        """
        hub_options = own_options(hub_options, MODEL_SAVING, IGNORED_BY_MODELS)
        if hub_options and not push_to_hub:
            raise TypeError(
                "save_pretrained accepts only push_to_hub options, and only with "
                f"push_to_hub=True. Received: {', '.join(hub_options)}."
            )
        path = user_path(save_directory)
        models.save(self, path, self._tokenizer_for(path))
        if push_to_hub:
            path = path.resolve()
            models.upload(self, repo_id or path.name, path, **hub_options)

    def _tokenizer_for(self, folder: Path) -> Any:
        """Returns the tokenizer to save in a folder, or None if none should be saved."""
        from albert_tf.text.tokenizer import check_fit
        from albert_tf.text.tokenizer_files import vocabulary_in

        is_used = self._tokenizer is not None
        if not is_used and (self._folder is None or vocabulary_in(folder) is not None):
            return None
        tokenizer = self.tokenizer
        if tokenizer is None or not (is_used or tokenizer.vocab_size == self.config.vocab_size):
            return None
        check_fit(tokenizer, self.config, 3)
        return tokenizer

    def push_to_hub(self, repo_id: str, **options: Any) -> str:
        """Uploads the model to the Hugging Face Hub and adds a model card if there is none.

        Args:
            repo_id: owner/name. The repository is created if it doesn't exist.
            **options: `token`, `private`, `commit_message`, `revision`, and `create_pr`.
        Returns:
            The URL of the commit.
        Raises:
            UserError: if there is no access token, write permission, or network connection.
        """
        return models.upload(self, repo_id, **options)


# Tokenizers that `from_config` passes on to copies in this process. Files contain their own.
_tokenizers: Final[WeakValueDictionary[str, Any]] = WeakValueDictionary()


def _remember(tokenizer: Any) -> str | None:
    """Stores a tokenizer for `from_config` and returns its key: the SHA-256 of the vocabulary."""
    if tokenizer is None:
        return None
    name = hashlib.sha256(tokenizer.model_bytes).hexdigest()
    _tokenizers[name] = tokenizer
    return name


def _trace_for_all_sizes(function: Any, inputs: Any) -> None:
    """Traces a TensorFlow `predict_function` once for all batch sizes and lengths.

    Otherwise, TensorFlow would retrace it once the length changes, and again once the batch size
    changes. A function that runs eagerly isn't traced.
    """
    import tensorflow as tf

    if tf.config.functions_run_eagerly() or not hasattr(function, "get_concrete_function"):
        return
    specs = tf.nest.map_structure(
        lambda values: tf.TensorSpec([None] * len(values.shape), values.dtype), inputs
    )
    function.get_concrete_function([(specs,)])


def require_config(cls: type, config: Any) -> None:
    """Rejects values that aren't an `AlbertConfig`, such as a path."""
    if not isinstance(config, AlbertConfig):
        raise TypeError(
            f"config must be an AlbertConfig. Received: {short_repr(config)}. Pass "
            f"AlbertConfig.from_size(name), or call {cls.__name__}.from_pretrained(directory)."
        )
