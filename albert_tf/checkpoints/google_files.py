"""Where a checkpoint of Google's code lies, and the configuration beside it."""

import json
import re
from pathlib import Path
from typing import Final

from albert_tf.config import AlbertConfig
from albert_tf.errors import UserError

CONFIG: Final = "albert_config.json"
STATE: Final = "checkpoint"
_CONFIGS: Final = (CONFIG, "bert_config.json", "config.json")
_NOT_OF_MODELS: Final = frozenset(
    {"tokenizer_config.json", "generation_config.json", "preprocessor_config.json"}
)
_PART: Final = re.compile(r"\.(index|meta|data-\d{5}-of-\d{5})$")


def is_checkpoint(path: Path) -> bool:
    """Whether a path is a checkpoint's prefix, one of its files, or a directory that holds one."""
    if path.is_dir():
        return bool(_prefixes(path)) and not (path / "saved_model.pb").exists()
    return bool(_prefixes(path.parent, _PART.sub("", path.name)))


def find_prefix(path: Path) -> Path:
    """The path of a checkpoint's files without their endings.

    Args:
        path: that path, one of the files, or their directory: its only checkpoint, or the one that
            its file `checkpoint` names.
    Raises:
        UserError: the directory holds several, and no file says which is the latest.
    """
    if not path.is_dir():
        return path.with_name(_PART.sub("", path.name))
    found = _prefixes(path)
    latest = _latest(path)
    if latest in found:
        return path / latest
    if len(found) > 1:
        raise UserError(
            f"A directory must hold one checkpoint, or a file {STATE!r} that names one of them. "
            f"Received: {path} with {', '.join(found)}. Give one of these paths without its ending."
        )
    return path / found[0]


def read_config(folders: tuple[Path, ...]) -> AlbertConfig:
    """The configuration in the first of these folders that has one.

    Raises:
        UserError: none has one, one has several, or it isn't an ALBERT's.
    """
    path = find_config(folders)
    if path is None:
        raise UserError(
            f"A checkpoint needs its configuration, {CONFIG}, beside it or one folder up. "
            f"Received: {folders[0]}, without one. Copy it there."
        )
    return _read_config(path)


def find_config(folders: tuple[Path, ...]) -> Path | None:
    """The configuration file in the first of these folders that has one; see `read_config`."""
    for folder in folders:
        for name in _CONFIGS:
            if (folder / name).is_file():
                return folder / name
        found = sorted(set(folder.glob("*config*.json")) - {folder / n for n in _NOT_OF_MODELS})
        if len(found) > 1:
            raise UserError(
                "There must be one configuration beside a checkpoint. "
                f"Received: {', '.join(map(str, found))}. Name the right one {CONFIG}."
            )
        if found:
            return found[0]
    return None


def _read_config(path: Path) -> AlbertConfig:
    config = AlbertConfig.from_json_file(path)
    if "embedding_size" not in json.loads(path.read_text(encoding="utf-8")):
        raise UserError(
            "An ALBERT's configuration has embedding_size. "
            f"Received: {path} without it, as BERT's are. Give an ALBERT's checkpoint."
        )
    return config


def _prefixes(folder: Path, name: str | None = None) -> list[str]:
    """The checkpoints in a folder, or the one of that name; one without .index counts too."""
    if not folder.is_dir():
        return []
    files = (path.name for path in folder.iterdir() if path.is_file())
    found = {
        _PART.sub("", file) for file in files if _PART.search(file) and not file.endswith(".meta")
    }
    return sorted(found if name is None else found & {name})


def _latest(folder: Path) -> str | None:
    """What the file `checkpoint` names, without its folder: files get moved, the name stays."""
    path = folder / STATE
    if not path.is_file():
        return None
    text = path.read_text(encoding="utf-8", errors="replace")
    match = re.search(r'^\s*model_checkpoint_path:\s*"([^"]*)"', text, re.MULTILINE)
    return re.split(r"[/\\]", match.group(1))[-1] if match else None
