"""The fine-tuning tasks: from files to examples and rows, and from model outputs to scores."""
