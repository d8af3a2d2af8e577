"""KerasHub's presets, read and written without it: JSON files, and weights in HDF5."""

import importlib.metadata
import io
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from albert_tf.checkpoints import directory, h5_file, keras_hub_config, keras_hub_names, names
from albert_tf.checkpoints.checkpoint import Checkpoint
from albert_tf.checkpoints.keras_hub_names import Place
from albert_tf.config import AlbertConfig
from albert_tf.errors import UserError

BACKBONE_WEIGHTS: Final = directory.PRESET_WEIGHTS
TASK: Final = "task.json"
TASK_WEIGHTS: Final = "task.weights.h5"
VOCABULARY: Final = directory.PRESET_VOCABULARY
_SHARDED: Final = "model.weights.json"
# The containers of a model's layers, in today's files and in those of early Keras 3.
_CONTAINERS: Final = ("layers", "_layer_checkpoint_dependencies")
_VERSION: Final = "0.32.0"  # whose files these are


def matches(path: Path) -> bool:
    """Whether a directory is a preset of KerasHub's."""
    return (path / BACKBONE_WEIGHTS).is_file() or directory.is_preset(path / directory.CONFIG)


def read(path: Path) -> Checkpoint:
    """Reads a preset of AlbertBackbone, AlbertTextClassifier or AlbertMaskedLM.

    KerasHub's masked-word head has a layer-norm epsilon of 1e-5, the original and this project
    1e-12, so its logits differ by what that makes.

    Raises:
        UserError: a file is missing or damaged, or it isn't an ALBERT's.
    """
    return load(path)[0]


def load(path: Path) -> tuple[Checkpoint, dict[str, str]]:
    """`read`, and the name of each tensor in the files."""
    for name in (directory.CONFIG, BACKBONE_WEIGHTS):
        if not (path / name).is_file():
            hint = " Presets in shards are not read." if (path / _SHARDED).is_file() else ""
            raise UserError(
                f"A KerasHub preset must hold {name}. "
                f"Received {path}, which holds {directory.listing(path)}.{hint}"
            )
    task = keras_hub_config.read_json(path / TASK) if (path / TASK).is_file() else None
    config = keras_hub_config.to_config(path / directory.CONFIG, task)
    found = dict(_read_places(path / BACKBONE_WEIGHTS, config, keras_hub_names.backbone(config)))
    if task and (path / TASK_WEIGHTS).is_file():
        found.update(_read_places(path / TASK_WEIGHTS, config, keras_hub_names.tasks()))
    tensors = {name: tensor for name, (_, tensor) in found.items()}
    sources = {name: source for name, (source, _) in found.items()}
    return Checkpoint(config, tensors, f"{path} (KerasHub preset)"), sources


def _read_places(
    path: Path, config: AlbertConfig, places: Mapping[str, Place]
) -> Iterator[tuple[str, tuple[str, np.ndarray]]]:
    """Each tensor by our name, with its place in the file; unknown ones by that place."""
    with h5_file.opened(path) as file:
        container = next((file[name] for name in _CONTAINERS if name in file), file)
        layers = _layers_by_name(container)
        seen = set()
        for name, place in places.items():
            layer = layers.get(place.layer, keras_hub_names.layer_path(place.layer, config))
            dataset = _find(container, (layer, *place.below, "vars", str(place.variable)))
            if dataset is not None:
                seen.add(dataset.name)
                yield name, (dataset.name, _turned_back(dataset, place, config))
        for name, array in h5_file.datasets(file).items():
            if f"/{name}" not in seen:
                yield name, (name, array)


def _turned_back(dataset: Any, place: Place, config: AlbertConfig) -> np.ndarray:
    array = h5_file.as_array(dataset)
    try:
        return np.ascontiguousarray(place.form.back(array, config))
    except ValueError:  # another shape than the configuration's: loading lists it
        return array


def _layers_by_name(container: Any) -> dict[str, str]:
    """The path of each layer by its name, which newer files keep."""
    found = {}
    for path, layer in container.items():
        name = layer["vars"].attrs.get("name") if "vars" in layer else None
        if name is not None:
            found[str(name)] = path
    return found


def _find(group: Any, steps: tuple[str, ...]) -> Any:
    """What lies at a path whose steps may be private names or not: Keras changed that."""
    for step in steps:
        bare = step.lstrip("_")
        key = next((each for each in (step, bare, f"_{bare}") if each in group), None)
        if key is None:
            return None
        group = group[key]
    return group


def write(
    folder: str | os.PathLike[str],
    config: AlbertConfig,
    tensors: Mapping[str, np.ndarray],
    vocabulary: bytes | None = None,
) -> None:
    """Writes a preset: of the classifier or the masked language model if there is such a head.

    Args:
        folder: made if it isn't there.
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
    _write_weights(folder / BACKBONE_WEIGHTS, config, tensors, backbone_places)
    if task:
        _write_weights(folder / TASK_WEIGHTS, config, tensors, task_places)
    for name, content in _json_files(config, tensors, task, vocabulary is not None).items():
        (folder / name).write_text(json.dumps(content, indent=4) + "\n", encoding="utf-8")
    if vocabulary is not None:
        (folder / VOCABULARY).parent.mkdir(parents=True, exist_ok=True)
        (folder / VOCABULARY).write_bytes(vocabulary)


def places(config: AlbertConfig) -> dict[str, str]:
    """What `write` calls each tensor: its path in the file."""
    table = {**keras_hub_names.backbone(config), **keras_hub_names.tasks()}
    return {name: _path(place, config) for name, place in table.items()}


def _path(place: Place, config: AlbertConfig) -> str:
    layer = keras_hub_names.layer_path(place.layer, config)
    return "/".join(("/layers", layer, *place.below, "vars", str(place.variable)))


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
                file[_path(place, config)] = place.form.there(array, config)
                layer = f"/layers/{keras_hub_names.layer_path(place.layer, config)}"
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
        directory.CONFIG: keras_hub_config.backbone(config),
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
        if task:
            preprocessor = keras_hub_config.preprocessor(config, task)
            files["preprocessor.json"] = preprocessor
    if task == "text_classifier":
        files[TASK] = keras_hub_config.classifier(config, preprocessor)
    elif task == "masked_lm":
        files[TASK] = keras_hub_config.masked_lm(config, preprocessor)
    return files
