"""Settings of the fuzz tests: a dozen fixed examples each or, in `make fuzz`, random ones.

Tests draw their examples with Hypothesis. `mutated` draws damaged files, and `JSON_VALUES` any
JSON value.
"""

import contextlib
import os
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st

SECONDS = float(os.environ.get("ALBERT_TF_FUZZ_SECONDS", 0))  # for all tests together
QUICK, MANY = 12, 100  # examples
_COMMON = settings(
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.generate, Phase.shrink],
)
settings.register_profile("quick", _COMMON, max_examples=QUICK, derandomize=True)
settings.register_profile("many", _COMMON, max_examples=MANY, print_blob=True)
settings.load_profile("many" if SECONDS else "quick")


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    """Repeats a test with new examples until its share of the time has passed."""
    if not SECONDS:
        return None
    here = [item for item in pyfuncitem.session.items if Path(__file__).parent in item.path.parents]
    end = time.monotonic() + SECONDS / len(here)
    names = pyfuncitem._fixtureinfo.argnames
    arguments = {name: pyfuncitem.funcargs[name] for name in names}
    while time.monotonic() < end:
        pyfuncitem.obj(**arguments)
    return True


@pytest.fixture(scope="module")
def few_characters():
    """Limits the characters of WordPiece, except in `make fuzz`."""
    from tests.text.conftest import FEW, wordpiece_tables_of

    with contextlib.nullcontext() if SECONDS else wordpiece_tables_of(FEW):
        yield


# JSON values of any type.
JSON_VALUES = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(),
        st.text(max_size=9),
        st.sampled_from([0, 1, 2, 31, 10**9, -1, 1e-12, "gelu", "all", "ffn"]),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.one_of(st.text(max_size=3), st.sampled_from("012")), inner, max_size=3),
    ),
    max_leaves=5,
)


@st.composite
def mutated(draw, content):
    """Draws `content` with one to four changes: a flipped bit, or bytes cut, repeated, or added."""
    changed = bytearray(content)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(changed)))
        length = draw(st.sampled_from([1, 1, 2, 7, 100, len(changed)]))
        change = draw(st.sampled_from(["flip", "cut", "repeat", "insert", "end"]))
        if change == "flip" and at < len(changed):
            changed[at] ^= 1 << draw(st.integers(0, 7))
        elif change == "cut":
            del changed[at : at + length]
        elif change == "repeat":
            changed[at:at] = changed[at : at + length]
        elif change == "insert":
            changed[at:at] = draw(st.binary(min_size=1, max_size=8))
        else:
            del changed[at:]
    return bytes(changed)
