assert len(texts) > 900, len(texts)
assert vectors.shape == (len(texts), 384)
np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, rtol=1e-4)
assert same > 0.5, same
