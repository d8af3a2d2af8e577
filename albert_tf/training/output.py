"""The output of a run: a folder that is new, or holds that run unfinished."""

import platform
from importlib import metadata
from pathlib import Path
from typing import Any, Final

from albert_tf.errors import UserError

REPORT: Final = "report.json"


def check_output(output: Path, unfinished: Path) -> None:
    """Refuses an output that holds something other than its own interrupted run.

    Args:
        unfinished: what only an interrupted run has there.
    Raises:
        UserError: it is a file, or holds something else.
    """
    if output.exists() and not output.is_dir():
        raise UserError(f"The output must be a folder. Received: {output}, a file.")
    if output.is_dir() and any(output.iterdir()) and not unfinished.is_dir():
        raise UserError(
            f"The output must be new, or hold an interrupted run. Received: {output}, which holds "
            "something else. Choose another folder, or replace its model with --force."
        )


def versions() -> dict[str, Any]:
    """Of Python and the packages that decide what a run computes."""
    packages = ("albert_tf", "tensorflow", "keras", "jax", "torch", "sentencepiece")
    installed = {dist.metadata["Name"]: dist.version for dist in metadata.distributions()}
    found = {name: installed[name] for name in packages if name in installed}
    return {"python": platform.python_version(), **found}
