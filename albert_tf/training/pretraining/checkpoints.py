"""Checkpoints of a run: model directories with all that the run needs to go on, the newest kept."""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from albert_tf.files import written_atomically
from albert_tf.models.base import PreTrainedModel
from albert_tf.text.base_tokenizer import BaseTokenizer
from albert_tf.training.state import load_state, save_state

STATE: Final = "state.safetensors"


class Checkpoints:
    """The checkpoints of one run.

    Args:
        folder: of `step-00001000` and the like, which `from_pretrained` reads; made when needed.
        tokenizer: saved with each.
        settings: what a run must have in common with the one that goes on.
        keep: how many newest ones stay.
    """

    def __init__(
        self, folder: Path, tokenizer: BaseTokenizer, settings: Mapping[str, Any], keep: int
    ):
        self.folder, self.tokenizer = folder, tokenizer
        self.settings, self.keep = settings, keep

    def save(self, model: PreTrainedModel, progress: Mapping[str, Any]) -> Path:
        """Writes a checkpoint at `progress["step"]`, then removes those that are too old."""
        path = self.folder / f"step-{progress['step']:08d}"
        with written_atomically(path, force=True) as made:
            model.save_pretrained(made)
            self.tokenizer.save_pretrained(made)
            save_state(made / STATE, model, self.settings, progress)
        for old in self.found()[: -self.keep]:
            shutil.rmtree(old)
        return path

    def load(self, model: PreTrainedModel) -> dict[str, Any] | None:
        """Puts a compiled model where the newest checkpoint found it.

        Returns:
            the progress, or None if there is no checkpoint.
        Raises:
            UserError: the newest is damaged, or was saved with other settings.
        """
        found = self.found()
        return load_state(found[-1] / STATE, model, self.settings) if found else None

    def found(self) -> list[Path]:
        """The checkpoints, oldest first."""
        return sorted(self.folder.glob("step-*"))
