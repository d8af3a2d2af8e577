"""The examples in docstrings of public names run and give the results that they show."""

import doctest

import pytest

import albert_tf

MOST_LINES = 8  # of code in an example
# Public names without an example yet. Whoever writes an example removes its name here.
WITHOUT_EXAMPLE = {
    "UserError",
    "build_data",
    "evaluate",
    "export_onnx",  # needs the extra onnx; tests/export/test_onnx.py
    "export_web",  # installs packages with npm
    "finetune",
    "pretrain",
}
PUBLIC = [name for name in albert_tf.__all__ if name != "__version__"]


def example(name: str) -> doctest.DocTest:
    text = getattr(albert_tf, name).__doc__ or ""
    return doctest.DocTestParser().get_doctest(text, {}, name, None, None)


@pytest.mark.slow
@pytest.mark.tensorflow
@pytest.mark.parametrize("name", [name for name in PUBLIC if name not in WITHOUT_EXAMPLE])
def test_an_example_runs(name, tmp_path, monkeypatch, request):
    """Runs the example in an empty folder, with the bundled model."""
    monkeypatch.chdir(tmp_path)
    found = example(name)
    if ".fit(" in found.docstring:
        request.getfixturevalue("without_graphs")
    assert found.examples, f"{name} has no example: lines that begin with >>> in its docstring"
    lines = [line for each in found.examples for line in each.source.splitlines()]
    assert len(lines) <= MOST_LINES
    report: list[str] = []
    options = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    results = doctest.DocTestRunner(optionflags=options).run(found, out=report.append)
    assert results.failed == 0, "".join(report)


def test_names_without_an_example_are_listed():
    listed = WITHOUT_EXAMPLE.intersection(PUBLIC)
    assert listed == {name for name in PUBLIC if not example(name).examples}
