"""tests/public_api.txt lists the public names, their signatures, and the commands' options."""

import re
from pathlib import Path

import public_api
import pytest

import albert_tf

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.tensorflow
def test_the_public_api_is_on_record():
    found, recorded = (
        public_api.public_api().splitlines(),
        public_api.FILE.read_text("utf-8").splitlines(),
    )
    differences = [f"+ {line}" for line in found if line not in recorded]
    differences += [f"- {line}" for line in recorded if line not in found]
    message = "Run `make public-api`, and see docs/stability.md for what a release may change."
    assert found == recorded, "\n".join([message, *differences])


def test_every_file_names_the_version():
    citation = (ROOT / "CITATION.cff").read_text("utf-8")
    assert re.findall(r"^version: (.+)$", citation, re.MULTILINE) == [albert_tf.__version__]
    notebooks = [path.read_text("utf-8") for path in sorted(ROOT.glob("notebooks/*.ipynb"))]
    named = [re.findall(r"albert_tf-([\d.]+)-py3", text) for text in notebooks]
    assert {version for versions in named for version in versions} == {albert_tf.__version__}
    changelog = (ROOT / "CHANGELOG.md").read_text("utf-8")
    assert re.search(r"^## \[([\d.]+)\]", changelog, re.MULTILINE)[1] == albert_tf.__version__


def test_members_of_a_class():
    """Lists neither private names, nor those of another package, nor annotations."""

    class Theirs:
        def inherited(self):
            pass

        def hook(self):
            pass

    class Ours(Theirs):
        def __init__(self, size: int = 3, make: object = object()):
            pass

        def __call__(self, *texts: str, **options: bool) -> str:
            pass

        def hook(self):
            pass

        @classmethod
        def load(cls, path):
            pass

        @classmethod
        def from_name(cls, name: str) -> "Ours":
            pass

        @property
        def labels(self):
            pass

        def _private(self):
            pass

    Ours.__module__ = "albert_tf.models"
    assert public_api.members(Ours) == {
        "__call__": "__call__(*texts, **options)",
        "from_name": "from_name(name)",
        "labels": "labels",
    }
    constructor = public_api.constructor(Ours)
    assert public_api.signature(constructor) == "(size=3, make=…)"
