"""Exports models to files that run without this package: SavedModel, TFLite, ONNX, and a web page.

The names below are imported on first use, so reading the options doesn't load TensorFlow.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from albert_tf_export.onnx import export_onnx as export_onnx
    from albert_tf_export.report import ParityError as ParityError
    from albert_tf_export.report import Report as Report
    from albert_tf_export.saved_model import export_saved_model as export_saved_model
    from albert_tf_export.tflite import export_tflite as export_tflite
    from albert_tf_export.web import export_web as export_web

_HOMES = {
    "ParityError": "report",
    "Report": "report",
    "export_onnx": "onnx",
    "export_saved_model": "saved_model",
    "export_tflite": "tflite",
    "export_web": "web",
}
__all__ = [*_HOMES]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
