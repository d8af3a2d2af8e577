"""Draws faults at random: each changes one expression or drops one statement of the package.

The files are drawn in proportion to their lines. `python tests/mutants MARKERS --random 60` runs
the tests of each file, those of its folder, those of the public names, and the test files of the
modules that import it, up to the first failure. The same ALBERT_TF_SEED draws the same faults, as
long as the sources are the same.
"""

import ast
import copy
import difflib
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Final

SOURCES: Final = ("albert_tf", "export/albert_tf_export")
OPERATORS: Final = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Div,
    ast.Mod: ast.FloorDiv,
    ast.And: ast.Or,
    ast.Or: ast.And,
}


def changed(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """Yields the kind of each fault that a node allows, and a copy with this fault."""
    new = copy.deepcopy(node)
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in OPERATORS:
        new.ops = [OPERATORS[type(node.ops[0])]()]
        yield "comparison", new
    elif isinstance(node, ast.BinOp | ast.BoolOp) and type(node.op) in OPERATORS:
        new.op = OPERATORS[type(node.op)]()
        yield "operator", new
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.USub):
        yield "sign", node.operand
    elif isinstance(node, ast.IfExp | ast.If | ast.While):
        new.test = ast.UnaryOp(ast.Not(), node.test)
        yield "condition", new
    elif isinstance(node, ast.Call) and len(node.args) > 1:
        if not any(isinstance(each, ast.Starred) for each in node.args[:2]):
            new.args[:2] = reversed(node.args[:2])
            yield "swapped arguments", new
    elif isinstance(node, ast.Constant) and type(node.value) in (int, bool):
        new.value = not node.value if isinstance(node.value, bool) else node.value + 1
        yield "boundary", new
    elif isinstance(node, ast.AugAssign) or (
        isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
    ):
        yield "dropped line", ast.Pass()


def candidates(tree: ast.Module) -> list[tuple[str, ast.AST, ast.AST]]:
    """Returns all changes of a module, except in annotations, messages, and imports."""
    skipped = (ast.Raise, ast.JoinedStr, ast.Import, ast.ImportFrom, ast.Assert)
    found = []

    def visit(node: ast.AST) -> None:
        found.extend((kind, node, new) for kind, new in changed(node))
        for name, value in ast.iter_fields(node):
            if name in ("annotation", "returns", "decorator_list", "bases", "type_params"):
                continue
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST) and not isinstance(child, skipped):
                    visit(child)

    visit(tree)
    return found


def replaced(source: str, node: ast.AST, new: ast.AST) -> str:
    """Returns a source with the text of a node replaced."""
    if isinstance(node, ast.If | ast.While):  # only the condition changes
        node, new = node.test, new.test
    lines = source.splitlines(keepends=True)
    before = "".join(lines[: node.lineno - 1]).encode()
    start = len(before) + node.col_offset
    end = len("".join(lines[: node.end_lineno - 1]).encode()) + node.end_col_offset
    text = ast.unparse(new)
    text = f"({text})" if isinstance(new, ast.expr) else text
    content = source.encode()
    return (content[:start] + text.encode() + content[end:]).decode()


def mirrored(root: Path, path: Path) -> list[Path]:
    """Returns the test file of a source file, if there is one, and the folder of its tests."""
    *folders, name = path.relative_to(root).parts
    folder = root.joinpath("tests", *(["export"] if folders[0] == "export" else folders[1:]))
    while not folder.is_dir():
        folder = folder.parent
    found = [folder / f"test_{name}"] if (folder / f"test_{name}").is_file() else []
    return [*found, folder] if folder != root / "tests" else found


def imports(text: str) -> set[str]:
    """Returns the modules that a source may import, and the names that it imports from them."""
    found = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ImportFrom)]
    return {f"{node.module}.{name.name}" for node in found for name in node.names} | {
        str(node.module) for node in found
    }


def tests_of(root: Path, path: Path, imported: dict[Path, set[str]]) -> str:
    """Returns the tests of a source file, of the public names, and of modules that import it."""
    module = ".".join(path.relative_to(root).with_suffix("").parts).removeprefix("export.")
    tests = [*mirrored(root, path), root / "tests" / "test_public_api.py"]
    importers = [each for each, names in imported.items() if module in names]
    for each in importers:
        tests += [test for test in mirrored(root, each) if test.is_file()]
    return " ".join(dict.fromkeys(each.relative_to(root).as_posix() for each in tests))


def draw(root: Path, count: int, seed: str, folder: Path) -> list[Path]:
    """Writes `count` patches to a folder, and returns their paths."""
    generator = random.Random(seed)
    paths = sorted(path for part in SOURCES for path in (root / part).rglob("*.py"))
    texts = {path: path.read_text("utf-8") for path in paths}
    sizes = [text.count("\n") for text in texts.values()]
    imported = {path: imports(text) for path, text in texts.items()}
    patches: list[Path] = []
    faults: set[str] = set()
    while len(patches) < count:
        (path,) = generator.choices(paths, sizes)
        source = texts[path]
        if not (found := candidates(ast.parse(source))):
            continue
        kind, node, new = generator.choice(found)
        fault = replaced(source, node, new)
        if fault in faults or ast.dump(ast.parse(fault)) == ast.dump(ast.parse(source)):
            continue
        faults.add(fault)
        name = path.relative_to(root).as_posix()
        diff = difflib.unified_diff(
            *(each.splitlines(keepends=True) for each in (source, fault)),
            *(f"a/{name}", f"b/{name}"),
            n=2,
        )
        title = (
            f"{len(patches):03d}-{name.replace('/', '.')}-{node.lineno}-{kind.replace(' ', '-')}"
        )
        patch = folder / f"{title}.patch"
        tests = tests_of(root, path, imported)
        patch.write_text(f"# tests: {tests}\n" + "".join(diff), "utf-8")
        patches.append(patch)
    return patches
