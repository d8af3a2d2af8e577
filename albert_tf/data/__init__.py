"""From files to batches: readers of tasks, one schema of features, and padded batches by length."""
