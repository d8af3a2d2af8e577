"""The README's first example prints the labels that it shows, whatever the seed."""

import os
import re
from pathlib import Path

import pytest

from benchmarks import first_example

README = (Path(__file__).parents[2] / "README.md").read_text("utf-8")


def test_the_script_measures_the_readmes_example():
    (code,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    (shown,) = re.findall(r"```text\n(.*?)```", README, re.DOTALL)
    assert repr(list(first_example.ANSWERS)).replace("'", '"') in code
    assert shown.split() == list(first_example.ANSWERS.values())
    source = Path(first_example.__file__).read_text("utf-8")
    for call in ('from_pretrained("small", id2label=', 'compile(metrics=["accuracy"])'):
        assert call in code and call in source
    (fit,) = re.findall(r"model.fit\((.*)\)", code)
    assert f"model.fit({fit}, verbose=0)" in source


@pytest.mark.slow
def test_the_answers_are_right():
    """Draws a seed each day; `python -m benchmarks.first_example` tries a hundred."""
    seed = int(os.environ["ALBERT_TF_SEED"]) % 100
    accuracy, is_right, difference = first_example.run(seed)
    assert is_right
    assert accuracy > 0.75
    assert difference < 0.7  # of the one that is allowed; of seeds to 9, 8 has the largest: 0.29
