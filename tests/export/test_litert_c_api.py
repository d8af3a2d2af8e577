"""A C program with LiteRT's C API gives the outputs of Python's interpreter, or an error."""

import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter
from albert_tf_export import export_tflite

from tests.export.c_program import Refused

NAMES = ("input_ids", "attention_mask", "token_type_ids")


def rows(*ids):
    values = np.array(ids, np.int32)
    return dict(zip(NAMES, (values, np.ones_like(values), np.zeros_like(values)), strict=True))


@pytest.mark.parametrize("task", ["sequence-classification", "token-classification"])
def test_rows_of_any_number_and_length(task, checked, phone):
    """The signature `text` in the same file isn't called, so its operators aren't needed."""
    path = checked(export_tflite, task, batch=None).path
    signature, program = Interpreter(str(path)).get_signature_runner("ids"), phone(path)
    for ids in ([[2, 9, 11, 30, 3]], [[2, 17, 3]] * 300, [[2, *range(4, 40), 3]], [[2, 9, 3]] * 2):
        found, expected = program(**rows(*ids)), signature(**rows(*ids))
        for name in ("logits", "probabilities"):
            np.testing.assert_allclose(found[name], expected[name], rtol=0, atol=1e-6)


def test_fixed_lengths(checked, classifier, phone):
    path = checked(export_tflite, classifier, max_length=None, lengths=(8, 16)).path
    short, long = rows([2, *[9] * 6, 3]), rows([2, *[9] * 14, 3])
    for name, right, wrong in (("ids_8", short, long), ("ids_16", long, short)):
        program = phone(path, name)
        assert program(**right)["probabilities"].sum() == pytest.approx(1, abs=1e-6)
        with pytest.raises(Refused, match="Resizing an input failed"):
            program(**wrong)


def test_says_what_is_wrong(written, phone, tmp_path):
    wrong = tmp_path / "wrong.tflite"
    wrong.write_bytes(b"not a model")
    for file, signature, message in (
        (written(export_tflite), "absent", "must have the signature. Received: absent"),
        (wrong, "ids", f"{wrong} failed with LiteRT's status"),
        (tmp_path / "absent.tflite", "ids", "absent.tflite failed with LiteRT's status"),
    ):
        with pytest.raises(RuntimeError, match=f"(?s)ended with status 1. .*{message}"):
            phone(file, signature)(**rows([2, 3]))
