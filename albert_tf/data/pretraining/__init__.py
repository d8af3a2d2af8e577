"""Pretraining examples: documents → sentence pairs → n-gram masks → records → batches."""
