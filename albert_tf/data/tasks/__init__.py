"""The fine-tuning tasks. They turn files into examples and rows, and outputs into scores."""
