"""Each task's official metrics."""
