np.testing.assert_allclose(found, expected, rtol=0, atol=1e-4)
assert set(loaded.signatures) == {"serving_default", "text", "ids"}
in_keras = albert_tf.pipeline("feature-extraction", "small", pooling="mean")(texts)
np.testing.assert_allclose(vectors, in_keras, rtol=0, atol=1e-4)
assert refusal.status_code == 400 and "at most 32 rows" in refusal.text, refusal.text
assert list(rates) == [1, 2, 4, 8, 16, 32]
