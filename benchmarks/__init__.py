"""Measures this library: `python -m benchmarks.NAME` prints figures for the documentation."""
