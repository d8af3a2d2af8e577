"""Tests that need an optional package are marked for the target that installs it."""

import re
from pathlib import Path

TESTS = Path(__file__).parent
# `make test` installs none of these; the target named like the marker requires them.
OPTIONAL = {"apache_beam", "flax", "jax", "keras_hub", "playwright", "pyspark", "torch"}
OPTIONAL |= {"mediapipe", "transformers"}
MARKERS = ("mark.peers", "mark.backends", "mark.engines", "mark.browser")


def test_files_that_need_a_package_say_so():
    """Without a marker every target would skip the test."""
    needing = 0
    for path in TESTS.rglob("test_*.py"):
        source = path.read_text(encoding="utf-8")
        if OPTIONAL.intersection(re.findall(r'importorskip\(\s*"(\w+)', source)):
            assert any(marker in source for marker in MARKERS), path
            needing += 1
    assert needing > 5
