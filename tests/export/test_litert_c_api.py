"""A C program with LiteRT's C API returns the same outputs as the Python interpreter."""

import numpy as np
from ai_edge_litert.interpreter import Interpreter
from albert_tf_export import export_tflite

NAMES = ("input_ids", "attention_mask", "token_type_ids")


def rows(*ids):
    values = np.array(ids, np.int32)
    return dict(zip(NAMES, (values, np.ones_like(values), np.zeros_like(values)), strict=True))


def test_rows_of_any_number_and_length(checked, phone):
    """Token classification returns outputs per token; test_bad_input.py covers classifiers."""
    path = checked(export_tflite, "token-classification", batch=None).path
    signature, program = Interpreter(str(path)).get_signature_runner("ids"), phone(path)
    for ids in ([[2, 9, 11, 30, 3]], [[2, 17, 3]] * 300, [[2, *range(4, 40), 3]], [[2, 9, 3]] * 2):
        found, expected = program(**rows(*ids)), signature(**rows(*ids))
        for name in ("logits", "probabilities"):
            np.testing.assert_allclose(found[name], expected[name], rtol=0, atol=1e-6)
