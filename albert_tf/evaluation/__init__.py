"""The official metrics of each task."""
