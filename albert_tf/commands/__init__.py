"""The commands of `albert-tf`. Each defines SUMMARY, EXAMPLES, OPTIONS (a dataclass), and `run`."""
