"""An export's report: its size, its checksum, and how far its outputs are from Keras's."""

import contextlib
import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

from albert_tf.errors import UserError

PACKAGES: Final = ("keras", "tensorflow", "tensorflow-text", "ai-edge-litert")


class ParityError(UserError):
    """Raised if an export doesn't run, or its outputs differ from Keras's."""


@dataclass(frozen=True)
class Difference:
    """The difference between an output of a signature and Keras's float32 output.

    Attributes:
        output: name of the output.
        value: largest absolute difference over the sample texts.
        tolerance: largest difference allowed at the export's precision.
        milliseconds: median time per sample text.
        megabytes: peak memory beyond that of an empty interpreter, measured only on Linux. A
            SavedModel's signatures run in one process, so each peak includes the memory of the
            signatures that ran before.
    """

    output: str
    value: float
    tolerance: float
    milliseconds: float = 0.0
    megabytes: float = 0.0

    @property
    def share(self) -> float:
        """The difference divided by the tolerance; at most 1 for a valid export."""
        return math.inf if math.isnan(self.value) else self.value / self.tolerance

    def __str__(self) -> str:
        measured = (
            f"max abs difference from Keras {self.value:.2g} ({self.output}, tolerance "
            f"{self.tolerance:.2g})"
        )
        cost = f"{self.milliseconds:.1f} ms, {self.megabytes:.0f} MB of memory"
        return f"{measured}; {cost}" if self.milliseconds else measured


@dataclass(frozen=True)
class Report:
    """An export, and its differences from Keras in float32.

    Attributes:
        path: path of the file or folder.
        size: size in bytes.
        sha256: hexadecimal hash of the names and contents of the export's files. The same model,
            options, and packages result in the same hash.
        differences: for each signature, the output whose difference is the largest relative to its
            tolerance; empty if the check was skipped.
    """

    path: Path
    size: int
    sha256: str
    differences: Mapping[str, Difference]

    @classmethod
    def of(cls, path: Path, written: Path, differences: Mapping[str, Difference]) -> "Report":
        """Returns the report for an export that will be moved from `written` to `path`."""
        files = [file for file in sorted(written.rglob("*")) if file.is_file()] or [written]
        digest, size = hashlib.sha256(), 0
        for file in files:
            length = file.stat().st_size
            size += length
            digest.update(f"{file.relative_to(written).as_posix()}\0{length}\0".encode())
            with file.open("rb") as content:
                while block := content.read(1 << 20):
                    digest.update(block)
        return cls(path, size, digest.hexdigest(), differences)

    def __str__(self) -> str:
        lines = [f"{self.path}: {self.size / 1e6:.1f} MB, SHA-256 {self.sha256[:12]}"]
        lines += [f"{name}: {difference}" for name, difference in self.differences.items()]
        return "\n".join(lines)

    def write(self, path: Path, packages: Sequence[str] = PACKAGES) -> None:
        """Writes the report as JSON, with the export's final name and the package versions."""
        versions = {}
        for name in packages:
            with contextlib.suppress(PackageNotFoundError):  # tensorflow-text on Windows
                versions[name] = version(name)
        content = {
            "file": self.path.name,
            "size": self.size,
            "sha256": self.sha256,
            "signatures": {name: asdict(each) for name, each in self.differences.items()},
            "packages": versions,
        }
        path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8", newline="\n")
