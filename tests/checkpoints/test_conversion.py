import hashlib

import numpy as np

from albert_tf.checkpoints import conversion

TENSORS = {
    "b": np.array([[1.0, 2.0, 3.0]], "float32"),
    "a": np.array([4.0], "float32"),
}


def test_digest_is_what_it_says():
    text = b'["a",[1]]\0' + bytes.fromhex("00008040")  # 4.0
    text += b'["b",[1,3]]\0' + bytes.fromhex("0000803f0000004000004040")
    assert conversion.digest(TENSORS) == hashlib.sha256(text).hexdigest()


def test_order_layout_and_dtype_do_not_matter():
    other = {
        "a": TENSORS["a"].astype("float16"),
        "b": np.asfortranarray(TENSORS["b"]).astype(">f4"),
    }
    assert conversion.digest(other) == conversion.digest(TENSORS)
    assert conversion.checksum(other["b"]) == conversion.checksum(TENSORS["b"])


def test_names_shapes_and_values_do():
    digests = {
        conversion.digest(tensors)
        for tensors in (
            TENSORS,
            {**TENSORS, "b": TENSORS["b"].T},
            {**TENSORS, "b": TENSORS["b"][:, ::-1]},
            {"a": TENSORS["a"], "c": TENSORS["b"]},
            {"b": TENSORS["b"]},
        )
    }
    assert len(digests) == 5
    assert conversion.checksum(TENSORS["b"]) == conversion.checksum(TENSORS["b"].T)
