"""Training with `Model.fit`: pretraining, fine-tuning, checkpoints, and evaluation."""
