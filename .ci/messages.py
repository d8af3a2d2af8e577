"""Writes tests/messages.txt: every error message, warning, and help text, in the order of the code.

    python .ci/messages.py

Changes in wording can then be reviewed as one diff, and tests of behavior match only the part of a
message that varies. tests/test_messages.py compares the file with the code.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FILE = ROOT / "tests" / "messages.txt"
PACKAGES = ("albert_tf", "export/albert_tf_export")
WARNINGS = ("info", "warning", "warn", "warn_once")


def messages() -> str:
    """Returns the content: the path of each source file, then its messages, indented."""
    found = []
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            tree = ast.parse(path.read_text("utf-8"))
            lines = [line for node in in_order(tree) for line in message(node)]
            if lines:
                found.append("\n".join([path.relative_to(ROOT).as_posix(), *lines]) + "\n")
    return "\n".join(found)


def in_order(node: ast.AST) -> Iterator[ast.AST]:
    """Yields all nodes in source order."""
    yield node
    for child in ast.iter_child_nodes(node):
        yield from in_order(child)


def message(node: ast.AST) -> Iterator[str]:
    """Yields the message of a call that creates an error, a warning, or an option."""
    if not isinstance(node, ast.Call):
        return
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    values = [keyword.value for keyword in node.keywords if keyword.arg == "help"]
    if name.endswith(("Error", "Interrupted", "Diverged")) or name in WARNINGS:
        values += node.args[:1]
    for value in values:
        words = text(value)
        if " " in words.strip():
            kind = "help" if name not in WARNINGS and not name[:1].isupper() else name
            yield f"  {kind}: {words}"


def text(node: ast.AST) -> str:
    """Returns a string expression on one line, with `{expression}` for values."""
    if isinstance(node, ast.Constant):
        return node.value.replace("\n", "\\n") if isinstance(node.value, str) else ""
    if isinstance(node, ast.JoinedStr):
        return "".join(map(text, node.values))
    if isinstance(node, ast.FormattedValue):
        return f"{{{ast.unparse(node.value)}}}"
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return text(node.left) + text(node.right)
    if isinstance(node, ast.BinOp):  # a %-pattern and its values, or an optional part
        return text(node.left)
    if isinstance(node, ast.IfExp):
        return f"{text(node.body)} | {text(node.orelse)}"
    return f"{{{ast.unparse(node)}}}" if isinstance(node, ast.expr) else ""


if __name__ == "__main__":
    FILE.write_text(messages(), encoding="utf-8", newline="\n")
