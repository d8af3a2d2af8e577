"""PyTorch's weight files, `pytorch_model.bin`, read without running anything in them."""

import errno
import pickle
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from albert_tf.errors import UserError


def read(path: Path) -> dict[str, np.ndarray]:
    """The tensors of a state dict by name, float32 where they are floating point.

    Zip files are mapped into memory; those that torch wrote before 1.6 are read whole.

    Raises:
        UserError: torch isn't installed; the file is damaged, holds code, or isn't a state dict.
    """
    try:
        import torch
    except ImportError as error:
        raise UserError(
            f"PyTorch's files are read with torch, which isn't installed. Received: {path}. "
            "pip install albert_tf[torch], or save the model as safetensors."
        ) from error
    content = _load(torch, path)
    if not isinstance(content, Mapping) or not content:
        raise UserError(
            f"{path} must be a model's state dict. Received: {type(content).__name__}. "
            "Save model.state_dict(), or use save_pretrained."
        )
    return {str(name): _as_array(torch, path, str(name), value) for name, value in content.items()}


def _load(torch: Any, path: Path) -> Any:
    try:
        return torch.load(
            path, map_location="cpu", weights_only=True, mmap=zipfile.is_zipfile(path)
        )
    except pickle.UnpicklingError as error:
        text = str(error)
        if "Unsupported global" in text or "Unsupported class" in text or "GLOBAL" in text:
            raise UserError(
                f"{path} must hold tensors alone. Received a pickle with code in it, which was not "
                f"run ({_reason(text)}). Get the weights as safetensors from someone you trust."
            ) from error
        raise _damaged(path, error) from error
    except OSError as error:
        if error.errno != errno.EINVAL:  # torch's, of a zip file cut short
            raise
        raise _damaged(path, error) from error
    except Exception as error:  # damage shows in every way: EOFError, KeyError, AssertionError, …
        raise _damaged(path, error) from error


def _as_array(torch: Any, path: Path, name: str, value: Any) -> np.ndarray:
    if not isinstance(value, torch.Tensor):
        raise UserError(
            f"{path} must be a model's state dict, names with tensors. Received: {name} with "
            f"{type(value).__name__}. Save model.state_dict(), or use save_pretrained."
        )
    value = value.detach()
    return (value.to(torch.float32) if value.is_floating_point() else value).numpy()


def _damaged(path: Path, error: Exception) -> UserError:
    return UserError(
        f"{path} must be a whole PyTorch file. Received {path.stat().st_size:,} bytes that don't "
        f"read as one ({type(error).__name__}). Copy it again from its source."
    )


def _reason(text: str) -> str:
    """The line of torch's explanation that names what is not allowed."""
    lines = [line.strip() for line in text.splitlines() if "nsupported" in line or "GLOBAL" in line]
    return lines[0][:120] if lines else "unknown"
