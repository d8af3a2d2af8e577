"""Measures this library: `python -m benchmarks.NAME` prints a figure that a document shows."""
