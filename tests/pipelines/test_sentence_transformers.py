"""Vectors of the same folders from sentence-transformers and here, with random weights."""

import shutil

import numpy as np
import pytest

from albert_tf.checkpoints import sentence_transformers as format
from albert_tf.checkpoints.sentence_transformers import POOLINGS
from albert_tf.pipelines import pipeline

pytest.importorskip("torch", reason="needs torch (pip install albert_tf[peers])")
pytest.importorskip("transformers", reason="needs transformers (pip install albert_tf[peers])")
sentence_transformers = pytest.importorskip(
    "sentence_transformers", reason="needs sentence-transformers (pip install albert_tf[peers])"
)
pytestmark = pytest.mark.peers

TEXTS = [
    "the cat sat on a mat",
    "A dog barked, near Paris!",
    "",
    "ada lives in new york city and the old dog barked at the moon over france. " * 3,
]
H = 20


def assert_same(theirs, folder):
    ours = pipeline("feature-extraction", folder, truncation=True, return_tensors=True)
    np.testing.assert_allclose(np.stack(ours(TEXTS)), theirs.encode(TEXTS), atol=1e-5)


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("name", [*POOLINGS])
def test_folders_that_we_write(saved, tmp_path, name, normalize):
    from albert_tf import AlbertModel

    AlbertModel.from_pretrained(saved("feature-extraction")).save_pretrained(tmp_path)
    format.write(tmp_path, format.SentenceEmbedding(name, normalize, max_length=11), H)
    theirs = sentence_transformers.SentenceTransformer(str(tmp_path), device="cpu")
    assert theirs.max_seq_length == 11
    assert theirs.encode(TEXTS).shape == (len(TEXTS), H)
    assert_same(theirs, tmp_path)


@pytest.mark.parametrize("name", [*POOLINGS])
def test_folders_that_they_write(saved, tmp_path, name):
    modules = sentence_transformers.models
    encoder = modules.Transformer(str(saved("feature-extraction")), max_seq_length=15)
    pooling = modules.Pooling(H, pooling_mode=name)
    theirs = sentence_transformers.SentenceTransformer(
        modules=[encoder, pooling, modules.Normalize()], device="cpu"
    )
    theirs.save(str(tmp_path))
    # transformers 5 writes tokenizer.json alone.
    shutil.copyfile(saved("feature-extraction") / "spiece.model", tmp_path / "spiece.model")
    assert_same(theirs, tmp_path)
