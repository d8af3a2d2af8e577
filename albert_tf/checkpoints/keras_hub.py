"""KerasHub's presets, read and written without it: JSON files, and weights in HDF5."""

import importlib.metadata
import io
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from albert_tf.checkpoints import hdf5, keras_hub_config, keras_hub_names, names
from albert_tf.checkpoints.keras_hub_names import Place
from albert_tf.checkpoints.weights import Checkpoint
from albert_tf.config import AlbertConfig
from albert_tf.errors import UserError
from albert_tf.files import write_json

CONFIG: Final = "config.json"
WEIGHTS: Final = "model.weights.h5"
VOCABULARY: Final = "assets/tokenizer/vocabulary.spm"
TASK_FILES: Final = ("task.json", "task.weights.h5")  # of presets with a head
_TASK, _TASK_WEIGHTS = TASK_FILES
_SHARDED: Final = "model.weights.json"
# The containers of a model's layers, in today's files and in those of early Keras 3.
_CONTAINERS: Final = ("layers", "_layer_checkpoint_dependencies")
_VERSION: Final = "0.32.0"  # whose files these are


def read(folder: Path, weights: Path, config: AlbertConfig | None = None) -> Checkpoint:
    """Reads a preset of AlbertBackbone, AlbertTextClassifier or AlbertMaskedLM.

    A configuration that is given is used in the preset's place.

    KerasHub's masked-word head has a layer-norm epsilon of 1e-5, the original and this project
    1e-12, so their logits differ slightly.

    Raises:
        UserError: a file is missing or damaged, or it isn't an ALBERT's.
    """
    for path in (folder / CONFIG, weights):
        if not path.is_file():
            hint = " Presets in shards are not read." if (folder / _SHARDED).is_file() else ""
            raise UserError(
                f"A KerasHub preset must hold {path.name}. Received {folder}, without it.{hint}"
            )
    task = keras_hub_config.read_json(folder / _TASK) if (folder / _TASK).is_file() else None
    config = config or keras_hub_config.to_config(folder / CONFIG, task)
    found = dict(_read_places(weights, config, keras_hub_names.backbone(config)))
    if task and (folder / _TASK_WEIGHTS).is_file():
        found.update(_read_places(folder / _TASK_WEIGHTS, config, keras_hub_names.tasks()))
    tensors = {name: tensor for name, (_, tensor) in found.items()}
    sources = {name: source for name, (source, _) in found.items()}
    return Checkpoint(config, tensors, sources, f"{folder} (KerasHub preset)")


def _read_places(
    path: Path, config: AlbertConfig, places: Mapping[str, Place]
) -> Iterator[tuple[str, tuple[str, np.ndarray]]]:
    """Yields each tensor's name, its path in the file and its values; unknown ones by the path."""
    with hdf5.opened(path) as file:
        arrays = hdf5.datasets(file)
        container = next((name for name in _CONTAINERS if name in file), "/")
        layers = dict(_layer_paths(file[container]))
    by_steps = {}
    for name, place in places.items():
        layer = layers.get(place.layer, keras_hub_names.layer_path(place.layer, config))
        by_steps[_steps(layer, *place.below, "vars", str(place.variable))] = name, place
    for source, array in arrays.items():
        steps = _steps(*source.removeprefix(f"{container}/").split("/"))
        if steps in by_steps:
            name, place = by_steps[steps]
            yield name, (source, place.read(array, config))
        else:
            yield source, (source, array)


def _layer_paths(container: Any) -> Iterator[tuple[str, str]]:
    """Yields the name and the path of each layer that has a name, as in newer files."""
    for path, layer in container.items():
        if "vars" in layer and "name" in layer["vars"].attrs:
            yield str(layer["vars"].attrs["name"]), path


def _steps(*steps: str) -> tuple[str, ...]:
    """Returns a path's steps without the "_" that some begin with: Keras changed that."""
    return tuple(step.lstrip("_") for step in steps)


def write(
    folder: str | os.PathLike[str],
    config: AlbertConfig,
    tensors: Mapping[str, np.ndarray],
    vocabulary: bytes | None = None,
) -> None:
    """Writes a preset, of the classifier or the masked language model if it has such a head.

    Args:
        folder: created if missing.
        config: the model's. Labels' names have no place in a preset.
        tensors: by Hugging Face's names without "albert.".
        vocabulary: a SentencePiece model for KerasHub's tokenizer.
    Raises:
        UserError: KerasHub can't express the model.
    """
    keras_hub_config.check_expressible(config)
    task = _task(tensors)
    backbone_places, task_places = keras_hub_names.backbone(config), keras_hub_names.tasks()
    _check_places(tensors, {**backbone_places, **task_places}, backbone_places)
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    _write_weights(folder / WEIGHTS, config, tensors, backbone_places)
    if task:
        _write_weights(folder / _TASK_WEIGHTS, config, tensors, task_places)
    for name, content in _json_files(config, tensors, task, vocabulary is not None).items():
        write_json(folder / name, content, indent=4)
    if vocabulary is not None:
        (folder / VOCABULARY).parent.mkdir(parents=True, exist_ok=True)
        (folder / VOCABULARY).write_bytes(vocabulary)


def places(config: AlbertConfig) -> dict[str, str]:
    """Returns the path of each tensor in the files that `write` makes."""
    table = {**keras_hub_names.backbone(config), **keras_hub_names.tasks()}
    return {name: _path(place, config) for name, place in table.items()}


def _path(place: Place, config: AlbertConfig) -> str:
    layer = keras_hub_names.layer_path(place.layer, config)
    return "/".join(("layers", layer, *place.below, "vars", str(place.variable)))


def _task(tensors: Mapping[str, np.ndarray]) -> str | None:
    heads = {names.part(name) for name in tensors} - {None, names.POOLER}
    if heads == {"classifier", "predictions"}:
        raise UserError(
            "A KerasHub preset must have one head at the most. Received: classifier and "
            "predictions. Leave one of them out."
        )
    if "classifier" in heads:
        return "text_classifier"
    return "masked_lm" if "predictions" in heads else None


def _check_places(
    tensors: Mapping[str, np.ndarray],
    table: Mapping[str, Place],
    backbone_places: Mapping[str, Place],
) -> None:
    homeless = sorted(tensors.keys() - table.keys() - names.REDUNDANT)
    missing = sorted(backbone_places.keys() - tensors.keys())
    if homeless:
        raise UserError(
            "A KerasHub preset must have a place for every weight. Received, without one: "
            f"{', '.join(homeless)}. Leave those heads out, or keep this model in another format."
        )
    if missing:
        raise UserError(
            f"KerasHub's backbone has weights that this model lacks: {', '.join(missing)}. "
            "Keep this model in another format."
        )


def _write_weights(
    path: Path,
    config: AlbertConfig,
    tensors: Mapping[str, np.ndarray],
    table: Mapping[str, Place],
) -> None:
    import h5py

    content = io.BytesIO()  # HDF5's own library leaves a full disk to tracebacks
    with h5py.File(content, "w") as file:
        for name, place in table.items():
            if name in tensors:
                array = np.asarray(tensors[name], "float32")
                file[_path(place, config)] = place.written(array, config)
                layer = f"layers/{keras_hub_names.layer_path(place.layer, config)}"
                file.require_group(f"{layer}/vars").attrs["name"] = place.layer
    path.write_bytes(content.getbuffer())


def _json_files(
    config: AlbertConfig,
    tensors: Mapping[str, np.ndarray],
    task: str | None,
    with_vocabulary: bool,
) -> dict[str, Any]:
    size = sum(np.size(tensors[name]) for name in keras_hub_names.backbone(config))
    files = {
        CONFIG: keras_hub_config.backbone(config),
        "metadata.json": {
            "keras_version": importlib.metadata.version("keras"),
            "keras_hub_version": _VERSION,
            "parameter_count": int(size),
            "tasks": ["MaskedLM", "TextClassifier"],
        },
    }
    preprocessor = None
    if with_vocabulary:
        files["tokenizer.json"] = keras_hub_config.tokenizer()
    if with_vocabulary and task:
        preprocessor = keras_hub_config.preprocessor(config, task)
        files["preprocessor.json"] = preprocessor
    if task:
        files[_TASK] = keras_hub_config.task(config, task, preprocessor)
    return files
