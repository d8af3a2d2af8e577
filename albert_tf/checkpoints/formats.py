"""Every format of checkpoints behind one door: what a path holds decides who reads it."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from albert_tf.checkpoints import directory, google, hub_module, hugging_face, keras_hub, names
from albert_tf.checkpoints.checkpoint import Checkpoint
from albert_tf.errors import UserError

_READERS: Final[dict[str, Any]] = {
    "keras-hub": keras_hub,
    "hf": hugging_face,
    "tf1": google,
    "tf-hub": hub_module,
}
WRITERS: Final[dict[str, Callable[..., None]]] = {
    "hf": hugging_face.write,
    "tf1": google.write,
    "keras-hub": keras_hub.write,
}


def read(name_or_path: str | os.PathLike[str], **hub_options: Any) -> Checkpoint:
    """The checkpoint at a path, or of a name on the Hugging Face hub, in whatever format.

    Args:
        name_or_path: a directory; a TensorFlow 1 checkpoint's path without its ending; or a hub
            name such as "albert/albert-base-v2".
        **hub_options: see `directory.locate`.
    Raises:
        UserError: nothing is there, or nothing that is read; a damaged file; another model.
    """
    path = locate(name_or_path, **hub_options)
    return load(path)[0]


def load(path: Path) -> tuple[Checkpoint, dict[str, str]]:
    """The checkpoint at a path, and what each of its tensors is called there.

    Raises:
        UserError: see `read`.
    """
    kind = detect(path)
    if kind == "hf":
        return hugging_face.load(path)
    if kind == "keras-hub":
        return keras_hub.load(path)
    checkpoint = _READERS[kind].read(path)
    return checkpoint, stored_names("tf1", checkpoint)


def stored_names(kind: str, checkpoint: Checkpoint) -> dict[str, str]:
    """What each tensor of a checkpoint is called in a format of `WRITERS`."""
    if kind == "hf":
        return hugging_face.stored_names(checkpoint.tensors)
    if kind == "keras-hub":
        table = keras_hub.places(checkpoint.config)
    else:
        googles = names.google(checkpoint.config).items()
        table = {tensor: variable for variable, (tensor, _) in googles}
    return {name: table.get(name, name) for name in checkpoint.tensors}


def locate(name_or_path: str | os.PathLike[str], **hub_options: Any) -> Path:
    """The path of a checkpoint, brought from the hub if it isn't here."""
    if not str(name_or_path):
        raise UserError("A model is a directory, or a name on the hub. Received: an empty one.")
    path = Path(name_or_path).expanduser()
    if not path.is_dir() and google.matches(path):
        return path
    return directory.locate(name_or_path, weights=True, **hub_options)


def detect(path: Path) -> str:
    """The name of the format at a path: "hf", "keras-hub", "tf1" or "tf-hub".

    Raises:
        UserError: none of them.
    """
    for name, reader in _READERS.items():
        if reader.matches(path):
            return name
    has_config = (path / directory.CONFIG).is_file()
    others = ", ".join(directory.WEIGHT_FILES[1:])
    raise UserError(
        f"A model directory must hold {directory.WEIGHTS if has_config else directory.CONFIG}. "
        f"Received {path}, which holds {directory.listing(path)}. Weights are also read from "
        f"{others}; from a KerasHub preset ({directory.PRESET_WEIGHTS}), a TensorFlow 1 checkpoint "
        "(*.index with albert_config.json) and a TF-Hub module (saved_model.pb)."
    )
