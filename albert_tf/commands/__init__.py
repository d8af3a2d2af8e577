"""The commands of `albert-tf`, one a file: `add_arguments` declares, `run` does."""
