"""The options of a call are checked by their declaration."""

import pytest

from albert_tf.text.layout import OPTIONS, Layout


@pytest.mark.parametrize(
    ("options", "truncation"),
    [
        ({}, "do_not_truncate"),
        ({"max_length": 9}, "longest_first"),
        ({"max_length": 9, "padding": True}, "do_not_truncate"),
        ({"max_length": 9, "truncation": False}, "do_not_truncate"),
        ({"truncation": True}, "longest_first"),
        ({"truncation": "only_second"}, "only_second"),
    ],
)
def test_truncation_depends_on_the_other_options(options, truncation):
    assert Layout(**options).truncation == truncation


@pytest.mark.parametrize(
    ("option", "value"),
    [("stride", None), ("max_length", True), ("padding_side", "top"), ("truncation_side", "top")],
)
def test_values_that_hugging_face_lacks(option, value):
    with pytest.raises(ValueError, match=f"{option} must be .*{value!r}"):
        Layout(**{option: value})


def test_a_setting_of_the_tokenizer_replaces_none(tokenizer):
    own = {"padding_side": "left", "truncation_side": "left", "split_special_tokens": True}
    own |= {"model_max_length": 23}
    assert own.keys() <= OPTIONS
    other = type(tokenizer)(tokenizer.model_bytes, **own)
    layout = other._layout({"padding_side": None, "truncation_side": "right"})
    assert layout == Layout(**own | {"truncation_side": "right"})
    assert layout.length == 23
    assert other._layout({"max_length": 5}).length == 5
