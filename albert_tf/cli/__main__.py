"""Runs `albert-tf` as `python -m albert_tf.cli`."""

from albert_tf.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
