"""Exports models to files without this package: SavedModel, TensorFlow Lite, ONNX and a page."""

from albert_tf_export.check import Gate, ParityError, Report
from albert_tf_export.onnx import export_onnx
from albert_tf_export.saved_model import export_saved_model
from albert_tf_export.tflite import export_tflite
from albert_tf_export.web import export_web

__all__ = [
    "Gate",
    "ParityError",
    "Report",
    "export_onnx",
    "export_saved_model",
    "export_tflite",
    "export_web",
]
