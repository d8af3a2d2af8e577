"""The tasks of fine-tuning: files to examples, examples to rows, a model's outputs to scores."""
