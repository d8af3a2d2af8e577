"""Vectors of the same folders from sentence-transformers and here, with random weights."""

import shutil

import numpy as np
import pytest

from albert_tf.checkpoints import sentence_transformers as format
from albert_tf.checkpoints.sentence_transformers import POOLINGS
from albert_tf.models import AlbertModel
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


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("name", [*POOLINGS])
def test_either_reads_what_the_other_writes(saved, tmp_path, name, normalize):
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    AlbertModel.from_pretrained(saved("feature-extraction")).save_pretrained(ours)
    format.write(ours, format.SentenceEmbedding(name, normalize, max_length=11), H)
    model = sentence_transformers.SentenceTransformer(str(ours), device="cpu")
    assert model.max_seq_length == 11
    expected = model.encode(TEXTS)
    assert expected.shape == (len(TEXTS), H)
    model.save(str(theirs))
    # transformers 5 writes tokenizer.json alone.
    shutil.copyfile(ours / "spiece.model", theirs / "spiece.model")
    for folder in (ours, theirs):
        embed = pipeline("feature-extraction", folder, truncation=True, return_tensors=True)
        np.testing.assert_allclose(np.stack(embed(TEXTS)), expected, atol=1e-5)
