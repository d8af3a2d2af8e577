"""Runs the notebooks and converts them to Markdown with their text output and plots.

    python .ci/notebooks.py [--draw]

A hidden last cell, from `tests/notebooks`, checks the results of the others. Executed notebooks are
cached in build/notebooks under a digest of everything they depend on, so that they run again only
if it changes. With --draw (`make pictures`), the first plot of each is written to docs/pictures.
"""

import base64
import hashlib
import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib.metadata import version
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from pictures import PICTURES, inline_svg, standalone

from albert_tf.files import written_atomically

ROOT = Path(__file__).resolve().parents[1]
STYLE = ROOT / ".ci" / "matplotlibrc"
CACHE = ROOT / "build" / "notebooks"
CHECKS = ROOT / "tests" / "notebooks"
PACKAGES = ("albert_tf", "export")
LIBRARIES = ("tensorflow", "keras", "ai-edge-litert", "sentencepiece", "matplotlib")
# Plots are SVG in the site's style, which pictures.py embeds in a page.
ENVIRONMENT = {"MATPLOTLIBRC": str(STYLE), "TF_CPP_MIN_LOG_LEVEL": "3"}
IMAGE = re.compile(r"!\[(?P<label>[^]]*)\]\((?P<path>[^)]*\.png)\)")
SVG = "image/svg+xml"
# The picture that the repository shows instead of the outputs; `make pictures` draws it.
PREVIEW = re.compile(r"\n*!\[[^]]*\]\(\.\./docs/pictures/[^)]*\)")
ARGUMENTS = ["--InlineBackend.figure_formats=svg"]


def run_all():
    """Executes every notebook whose outputs aren't in the cache, two at a time."""
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(execute, sorted(ROOT.glob("notebooks/*.ipynb"))))


def execute(path):
    """Returns the notebook with its outputs. Raises `CellExecutionError` if a cell fails."""
    cached = cache_path(path)
    if not cached.exists():
        notebook = nbformat.read(path, as_version=4)
        notebook.cells.append(nbformat.v4.new_code_cell(checks(path).read_text("utf-8")))
        with tempfile.TemporaryDirectory() as folder:
            NotebookClient(
                notebook,
                timeout=600,
                coalesce_streams=True,
                kernel_name="python3",
                extra_arguments=ARGUMENTS,
                resources={"metadata": {"path": folder}},
            ).execute(env={**os.environ, **ENVIRONMENT}, stderr=subprocess.DEVNULL)
            del notebook.cells[-1]
            for cell in notebook.cells:
                if cell.cell_type == "markdown":
                    cell.source = IMAGE.sub(partial(embed_png, Path(folder)), cell.source)
        for old in CACHE.glob(f"{path.stem}-*"):
            old.unlink()
        with written_atomically(cached, force=True) as temporary:
            nbformat.write(notebook, temporary)
    return nbformat.read(cached, as_version=4)


def cache_path(path):
    """Returns the cache path of the executed notebook."""
    return CACHE / f"{path.stem}-{digest(path)}.ipynb"


def checks(path):
    return CHECKS / f"{path.stem}.py"


def embed_png(folder, match):
    """Returns the image with the content of the PNG file that the run wrote."""
    content = base64.b64encode((folder / match["path"]).read_bytes()).decode()
    return f"![{match['label']}](data:image/png;base64,{content})"


def digest(path):
    files = [path, checks(path), STYLE, Path(__file__)]
    for package in PACKAGES:
        files += sorted(
            file
            for file in (ROOT / package).rglob("*")
            if file.is_file() and "__pycache__" not in file.parts
        )
    result = hashlib.sha256(" ".join(map(version, LIBRARIES)).encode())
    for file in files:
        result.update(hashlib.sha256(file.read_bytes()).digest())
    return result.hexdigest()[:16]


def markdown(path):
    """Returns the cells as Markdown, with their outputs if the notebook has run."""
    cached = cache_path(path)
    blocks = []
    for cell in nbformat.read(cached if cached.exists() else path, as_version=4).cells:
        if cell.cell_type == "code":
            blocks += [f"```python\n{cell.source}\n```", *outputs(cell)]
        else:
            text = PREVIEW.sub("", cell.source)
            blocks.append(IMAGE.sub(r"\g<label>", text))  # images that no run wrote
    return "\n\n".join(blocks)


def outputs(cell):
    """Yields what a cell prints, draws, and returns, except logs and the names of plots."""
    drawings = [each for each in cell.outputs if SVG in each.get("data", {})]
    for each in cell.outputs:
        if each in drawings:
            yield inline_svg(each.data[SVG], "plot by the code above")
        elif each.output_type == "stream" and each.name == "stdout":
            yield text_block(re.sub(r"(?m)^INFO:.*\n", "", each.text))
        elif each.output_type == "execute_result" and not drawings:
            yield text_block(each.data["text/plain"])


def text_block(text):
    return f"``` {{.text .output .no-copy}}\n{text.rstrip()}\n```" if text.strip() else ""


def first_plot(path):
    """Returns the SVG of the first plot of a notebook, or None."""
    outputs = (each for cell in execute(path).cells for each in cell.get("outputs", ()))
    return next((each.data[SVG] for each in outputs if SVG in each.get("data", {})), None)


if __name__ == "__main__":
    run_all()
    if sys.argv[1:] == ["--draw"]:
        for path in sorted(ROOT.glob("notebooks/*.ipynb")):
            if svg := first_plot(path):
                target = PICTURES / f"{path.stem}.svg"
                target.write_text(standalone(svg), encoding="utf-8")
                print(target)
