"""The fine-tuning tasks, which turn files into examples and rows, and outputs into scores."""
