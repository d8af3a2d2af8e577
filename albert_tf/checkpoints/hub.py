"""Models on the Hugging Face hub: just the files that are needed, through its client's cache."""

import json
import re
from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from typing import Any, Final

from albert_tf.errors import UserError

OPTIONS: Final = (
    "revision",
    "token",
    "cache_dir",
    "local_files_only",
    "force_download",
    "subfolder",
)
_WITHOUT_OWNER: Final = re.compile(r"albert-(base|large|xlarge|xxlarge)-v[12]")


def repository(name: str) -> str | None:
    """The hub's name for a model, or None: "albert-base-v2" was "albert/albert-base-v2" once."""
    if _WITHOUT_OWNER.fullmatch(name):
        return f"albert/{name}"
    path = PurePosixPath(name)
    is_name = len(path.parts) == 2 and not path.is_absolute() and name[0] not in ".~"
    return name if is_name else None


class Repository:
    """A model's repository on the hub at one revision.

    Args:
        name: of the form owner/name.
        **options: see `OPTIONS`; passed to `huggingface_hub.hf_hub_download`.
    """

    def __init__(self, name: str, **options: Any):
        self.name = name
        self.options = options
        self.unreachable: Exception | None = None

    def file(self, filename: str) -> Path | None:
        """The local path of a file, downloaded if need be; None if there is none.

        Without a network the cache alone is looked at from then on.

        Raises:
            UserError: there is no such repository or revision, or it is closed to this user.
        """
        import huggingface_hub
        import huggingface_hub.errors as errors

        try:
            path = Path(huggingface_hub.hf_hub_download(self.name, filename, **self.options))
        except errors.LocalEntryNotFoundError as error:  # also an EntryNotFoundError
            self.unreachable = error
            self.options["local_files_only"] = True
            self.options.pop("force_download", None)
            return None
        except errors.EntryNotFoundError:
            return None
        except (errors.HfHubHTTPError, errors.HFValidationError, OSError) as error:
            raise self.failure(error) from error
        folder = self._snapshot(path, filename)
        if folder.parent.name == "snapshots":  # further files come from this very commit
            self.options["revision"] = folder.name
        return path

    def first(self, filenames: Iterable[str]) -> Path | None:
        """The first of several files that there is."""
        return next((path for name in filenames if (path := self.file(name))), None)

    def shards(self, index: Path) -> None:
        """Brings the files that an index of shards names."""
        for name in shard_names(index):
            if self.file(name) is None:
                raise self.failure(self.unreachable, f"{name}, which {index.name} names")

    def failure(self, error: Exception | None, what: str = "it") -> UserError:
        """The error to raise when something can't be had."""
        import huggingface_hub.constants as constants
        import huggingface_hub.errors as errors

        cache = self.options.get("cache_dir") or constants.HF_HUB_CACHE
        reason = "which has none" if error is None else type(error).__name__
        if constants.HF_HUB_OFFLINE:
            reason += ", HF_HUB_OFFLINE is set"
        way_out = "Download it where there is a network, or give a directory."
        if isinstance(error, errors.RepositoryNotFoundError | errors.GatedRepoError):
            way_out = "Check the name, and give a token= if it is private or gated."
        if isinstance(error, errors.RevisionNotFoundError):
            way_out = "Check revision=."
        return UserError(
            f"{self.name} is no directory here, the hub couldn't give {what} ({reason}), and its "
            f"cache {cache} doesn't hold it. {way_out}"
        )

    @staticmethod
    def _snapshot(path: Path, filename: str) -> Path:
        return next((each for each in path.parents if each.parent.name == "snapshots"), path.parent)


def shard_names(index: Path) -> list[str]:
    """The files that an index of shards names.

    Raises:
        UserError: it is damaged, or names files elsewhere.
    """
    try:
        weight_map = json.loads(index.read_text(encoding="utf-8"))["weight_map"]
        names = sorted({str(name) for name in weight_map.values()})
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(
            f'{index} must be JSON with a "weight_map". Received a file that doesn\'t read as such '
            f"({type(error).__name__}: {error}). Copy it again from its source."
        ) from error
    strangers = [name for name in names if PurePosixPath(name).name != name or "\\" in name]
    if strangers:
        raise UserError(f"{index} must name files beside it. Received: {strangers[0]!r}.")
    return names
