"""Records on which a tiny model trains in seconds."""

import random

import pytest

from tests.conftest import SENTENCES


@pytest.fixture(scope="session")
def records(tiny_vocabulary, tmp_path_factory):
    """Returns a directory by `build-data` with at least 60 examples of 24 pieces."""
    from albert_tf.cli import main

    folder = tmp_path_factory.mktemp("records")
    generator = random.Random(2)
    texts = ["\n".join(generator.sample(SENTENCES, 5)) for _ in range(40)]
    (folder / "text.txt").write_text("\n\n".join(texts), encoding="utf-8")
    (folder / "spiece.model").write_bytes(tiny_vocabulary)
    command = f"build-data --input {folder}/text.txt --vocab {folder}/spiece.model --workers 1"
    assert main([*command.split(), "--max-seq-length", "24", "--output", f"{folder}/made"]) == 0
    return folder / "made"
