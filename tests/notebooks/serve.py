assert words == [each["token_str"] for each in expected]
assert len(loaded.signatures) == 5
assert [answer["token_str"][0][0] for answer in answers] == [
    each[0]["token_str"] for each in albert_tf.pipeline("fill-mask", "small", top_k=1)(texts)
], answers
assert "at most 32 rows" in refusal, refusal
assert list(rates) == [1, 2, 4, 8, 16, 32]
