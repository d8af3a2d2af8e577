"""`python -m albert_tf.cli` is `albert-tf`."""

from albert_tf.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
