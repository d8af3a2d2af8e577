"""Converts a checkpoint to another format and verifies the result."""

import shutil
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from albert_tf.checkpoints import (
    OUTPUTS,
    ConversionOptions,
    finder,
    google,
    hugging_face,
    names,
    sentence_transformers,
)
from albert_tf.checkpoints.finder import (
    SENTENCEPIECE,
    TOKENIZER_FILES,
    WORDPIECE,
    CheckpointLocation,
)
from albert_tf.checkpoints.weights import bad_values, misfits, require_fit
from albert_tf.errors import UserError
from albert_tf.files import check_apart, find_file, read_json, written_atomically
from albert_tf.labels import unnamed_labels
from albert_tf.options import accepts_keywords
from albert_tf.tasks import BY_MODEL

_VOCABULARY, _GOOGLE_VOCABULARY = SENTENCEPIECE[:2]


@accepts_keywords(ConversionOptions)
def convert(options: ConversionOptions) -> dict[str, Any]:
    """Converts a checkpoint to another format and copies its tokenizer files.

    The written checkpoint is read back and compared with the input before the output appears.

    Returns:
        A dict with `input`, `output`, the counts `tensors` and `parameters`, `files` (names of the
        copied files), and `left_out` (settings that the format can't store).
    Raises:
        UserError: if the input or one of its tokenizer files can't be read, the weights don't fit
            the configuration, the format can't express the model, or the output exists.

    Example:
        >>> import albert_tf
        >>> report = albert_tf.convert("small", "for-the-original-code", format="tf1")
        >>> "30k-clean.model" in report["files"]
        True
    """
    location = finder.find(options.input, tokenizer=True)
    check_apart(location.weights or location.folder, options.output)
    checkpoint = location.read()
    config, tensors = checkpoint.config, checkpoint.tensors
    wanted = names.shapes(config)
    known = {name: tensor for name, tensor in tensors.items() if name in wanted}
    faults = [*misfits(config, wanted, tensors), *bad_values(known, checkpoint.origin)]
    require_fit(faults, checkpoint.origin, "written")
    if options.dtype is not None:
        tensors = _cast(tensors, options.dtype)
    copies = {
        file: _GOOGLE_VOCABULARY if (options.format, name) == ("tf1", _VOCABULARY) else name
        for name, file in find_tokenizer_files(location).items()
    }
    for file in copies:
        if file.suffix == ".json":
            read_json(file)  # raises if it is damaged
    read_folder = partial(sentence_transformers.read, location.folder)
    embedding = sentence_transformers.read_to_copy(read_folder)
    own = OUTPUTS[options.format]
    with written_atomically(options.output, force=options.force, nowait=True, own=own) as folder:
        for file, name in copies.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, folder / name)
        if options.format == "tf1":
            google.write(folder, config, tensors)
        else:
            known_class = next(filter(BY_MODEL.get, location.architectures()), None)
            hugging_face.write(folder, config, tensors, known_class)
        if options.format == "hf" and embedding is not None:
            sentence_transformers.write(folder, embedding, config.hidden_size)
        again = finder.find(folder).read()
        if again.tensors.keys() != tensors.keys() or not all(
            np.array_equal(again.tensors[name], tensor) for name, tensor in tensors.items()
        ):
            raise RuntimeError("The written checkpoint differs from its source.")
    left_out = []
    if options.format != "hf":
        left_out += [sentence_transformers.MODULES] * (embedding is not None)
        unnamed = tuple(unnamed_labels(config.num_labels).values())
        left_out += ["label names"] * (config.labels != unnamed)
        kept = again.config.to_dict()
        left_out += [
            f"{name}={value}"
            for name, value in config.to_dict().items()
            if name not in ("id2label", "label2id") and kept.get(name) != value
        ]
    return {
        "input": checkpoint.origin,
        "output": str(options.output),
        "tensors": len(tensors),
        "parameters": sum(tensor.size for tensor in tensors.values()),
        "files": sorted(copies.values()),
        "left_out": left_out,
    }


def find_tokenizer_files(location: CheckpointLocation) -> dict[str, Path]:
    """Returns the tokenizer files of a checkpoint, keyed by their Hugging Face names.

    For a TensorFlow 1 checkpoint, they can also be in the parent folder.
    """
    wanted: list[tuple[str, ...]] = [SENTENCEPIECE]
    if location.format != "keras-hub":  # KerasHub's tokenizer.json has different content.
        wanted += [WORDPIECE, *((name,) for name in TOKENIZER_FILES)]
    files = {names[0]: find_file(location.folder, names, "vocabularies") for names in wanted}
    if location.format == "tf1":
        for names in wanted:
            paths = (location.folder.parent / name for name in names)
            files[names[0]] = files[names[0]] or next(filter(Path.is_file, paths), None)
    return {name: file for name, file in files.items() if file is not None}


def _cast(tensors: Mapping[str, np.ndarray], dtype: str) -> dict[str, np.ndarray]:
    with np.errstate(over="ignore"):
        cast = {name: tensor.astype(dtype) for name, tensor in tensors.items()}
    if lost := [name for name, tensor in cast.items() if not np.isfinite(tensor).all()]:
        raise UserError(
            f"These weights exceed the range of {dtype}: {', '.join(lost)}. Omit --dtype to store "
            "float32."
        )
    return cast
