"""Builds the site from the repository's files in place: nothing is copied into docs/ or edited.

Pages link to each other as in the repository. Files outside docs/ that a page links to are added to
the site under their own paths. Notebooks become pages, with outputs if `make docs` ran them, and
links to folders become plain text. Comments before tables become charts, and drawings become page
elements in the color of the text. The front page is the README with the index of docs/, and
`api.md` lists the public names.
"""

import importlib
import inspect
import os
import re
import textwrap
from pathlib import Path

import griffe
import pictures
import yaml
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File
from mkdocs.structure.nav import Link

import notebooks

ROOT = Path(__file__).resolve().parents[1]
LINK = re.compile(r"\[(?P<text>[^][]*)\]\((?P<path>[^)\s#:]+)(?P<anchor>#[^)\s]*)?\)")
DRAWING = re.compile(r"!\[(?P<label>[^]]*)\]\((?P<path>[^):]+\.svg)\)")
CHART = re.compile(r"^<!-- chart (?P<options>\{.*?\}) -->$", re.DOTALL | re.MULTILINE)
FRONT = ("README.md", "docs/README.md")
# Menu items for sections, which a `nav` of MkDocs can't contain: page, title, anchor.
SECTIONS = {"serving.md": ("ONNX and OpenVINO", "onnx-runtime-and-openvino")}


def on_files(files, config):
    """Adds the API page, the style sheet, and every file outside docs/ that a page links to."""
    files.append(File.generated(config, "site.css", abs_src_path=str(ROOT / ".ci" / "site.css")))
    files.append(File.generated(config, "api.md", content=api()))
    waiting = [
        "README.md",
        *(f"docs/{file.src_uri}" for file in files if file.is_documentation_page()),
    ]
    while waiting:
        origin = waiting.pop()
        for link in LINK.finditer(page_text(origin)):
            target = repository_path(origin, link["path"])
            if (ROOT / target).is_file() and not files.get_file_from_path(site_path(target)):
                files.append(site_file(config, target))
                waiting += [target] * target.endswith((".md", ".ipynb"))
    return files


def on_nav(nav, config, files):
    """Adds the menu items for sections of pages."""
    for page in nav.pages:
        if page.file.src_uri in SECTIONS:
            title, anchor = SECTIONS[page.file.src_uri]
            siblings = page.parent.children
            link = Link(title, f"{page.file.dest_uri}#{anchor}")
            link.parent = page.parent
            siblings.insert(siblings.index(page) + 1, link)
    return nav


def on_page_content(html, page, config, files):
    """Checks that the sections in the menu exist."""
    _, anchor = SECTIONS.get(page.file.src_uri, ("", ""))
    if anchor and f'id="{anchor}"' not in html:
        raise PluginError(f"{page.file.src_uri} has no section #{anchor}. See SECTIONS.")
    return html


def on_page_markdown(markdown, page, config, files):
    """Replaces repository paths in links with site paths."""
    uri = page.file.src_uri
    if uri == "README.md":
        front, index = (site_markdown(page_text(name), name) for name in FRONT)
        return front + "\n" + index.replace("# Documentation", "## Documentation", 1)
    return site_markdown(
        markdown, next((name for name in origins(uri) if (ROOT / name).exists()), uri)
    )


def origins(uri):
    """Yields the possible sources of a page in the repository."""
    yield f"docs/{uri}"
    yield uri
    yield str(Path(uri).with_suffix(".ipynb"))


def site_path(target):
    """Returns the site path of a file in the repository."""
    if target.endswith(".ipynb"):
        return str(Path(target).with_suffix(".md"))
    return target.removeprefix("docs/")


def repository_path(origin, path):
    return os.path.normpath(os.path.join(os.path.dirname(origin), path))


def site_markdown(markdown, origin):
    start = os.path.dirname(site_path(origin)) or "."

    def replace(match):
        target = repository_path(origin, match["path"])
        if (ROOT / target).is_dir():
            return match["text"]
        path = os.path.relpath(site_path(target), start)
        return f"[{match['text']}]({path}{match['anchor'] or ''})"

    def draw(match):
        svg = (ROOT / repository_path(origin, match["path"])).read_text(encoding="utf-8")
        return pictures.inline_svg(svg, match["label"])

    def draw_chart(match):
        options = yaml.safe_load(match["options"])
        if "of" in options:
            path, heading = options.pop("of").split("#")
            table = pictures.first_table(ROOT / repository_path(origin, path), heading)
        else:
            table = pictures.TABLE.search(markdown, match.end())[0]
        return pictures.inline_svg(pictures.chart(table, **options), options["title"])

    return LINK.sub(replace, DRAWING.sub(draw, CHART.sub(draw_chart, markdown)))


def site_file(config, target):
    if target.endswith(".md"):
        return File.generated(config, target, content=page_text(target))
    if target.endswith(".ipynb"):
        return File.generated(config, site_path(target), content=page_text(target))
    return File.generated(config, target, abs_src_path=str(ROOT / target))


def page_text(name):
    """Returns a page's Markdown."""
    path = ROOT / name
    if name.endswith(".ipynb"):
        return notebooks.markdown(path)
    return path.read_text(encoding="utf-8") if path.exists() else ""


class Docstrings(griffe.Extension):
    """Renders doctests as code, Keras's "Call arguments" as a table, and options as arguments."""

    def on_object(self, *, obj, **_):
        if obj.docstring:
            text = re.sub(r"(?m)^( *)>>> .+(?:\n.+)*", self.fenced, obj.docstring.value)
            text = re.sub(r"(?m)^Call arguments:.*", self.titled, text)
            obj.docstring.value = re.sub(r"(?m)^(?=[A-Z][A-Za-z ]+:)", "\n", text)

    @staticmethod
    def fenced(match):
        code = textwrap.dedent(match[0])
        return f"\n```pycon\n{code}\n```\n"

    @staticmethod
    def titled(match):
        return f"Other Args: {match[0]}".replace("`", "")

    def on_function(self, *, func, **_):
        for decorator in func.decorators:
            if decorator.callable_path == "albert_tf.options.accepts_keywords":
                add_options(func, str(decorator.value.arguments[0]))


def add_options(func, name):
    """Replaces the last parameter, a dataclass, with the keywords from `accepts_keywords`."""
    from albert_tf.options import declared

    module, _, name = func.module.resolve(name).rpartition(".")
    options_class = getattr(importlib.import_module(module), name)
    options = declared(options_class)
    func.parameters = griffe.Parameters(
        *list(func.parameters)[:-1],
        *(
            griffe.Parameter(
                parameter.name,
                kind=griffe.ParameterKind.keyword_only,
                annotation=getattr(parameter.annotation, "__name__", str(parameter.annotation)),
                default=None if parameter.default is parameter.empty else repr(parameter.default),
            )
            for parameter in inspect.signature(options_class).parameters.values()
        ),
    )
    lines = "".join(f"    {name}: {option.help}\n" for name, option in options.items())
    text, arguments = re.subn(
        r"(?m)^Args:\n(?: {4}.*\n)+", lambda match: match[0] + lines, func.docstring.value
    )
    func.docstring.value = text if arguments else f"{text}\n\nArgs:\n{lines}"


def api():
    """Returns the page of public names, grouped by subpackage."""
    import albert_tf

    parts = {}
    for name, home in albert_tf._HOMES.items():
        part = home.split(".")[1] if "." in home else "export"
        parts.setdefault(part, []).append(f"::: albert_tf.{name}\n")
    parts["config"].append("    options: {show_signature: false}\n")  # Its defaults are calls.
    sections = (f"## {part.capitalize()}\n\n" + "\n".join(parts[part]) for part in sorted(parts))
    return "# API reference\n\n" + "\n".join(sections)
