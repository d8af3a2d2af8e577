"""The commands of `albert-tf`: each has SUMMARY, EXAMPLES, OPTIONS (a dataclass) and `run`."""
