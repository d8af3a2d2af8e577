"""Runs the code blocks of the pages in an empty folder and compares their output with the pages.

Python, sh, and bash blocks run unless the comment above a block states why not: `<!-- not run:
needs Docker -->`. A text block contains lines that the block above it prints to stdout or stderr,
where `…` stands for anything. If the sentence between the two contains `within 0.02` or `within
5%`, numbers may differ by that much. A block in any language with `title="app.py"` is not run, but
saved as a file with this name. The pages run in the order of docs/README.md and in one folder, so a
page can use the models of earlier ones. Python blocks on a page share variables.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import textwrap
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FENCE = re.compile(
    r"^(?P<indent> *)```(?P<language>\w*)(?: title=\"(?P<file>[\w.]+)\")?\n(?P<code>.*?)^ *```$",
    re.DOTALL | re.MULTILINE,
)
NOT_RUN = re.compile(r"<!-- not run: ([^>]+) -->\s*\Z")
TOLERANCE = re.compile(r"\bwithin (\d+(?:\.\d+)?)(%)?")
NUMBER = re.compile(r"[-+]?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?")
END = "--- end of the block ---"
# Runs a page's Python blocks, one per line of its input.
PYTHON = f"""
import json, sys
names = {{"__name__": "__main__"}}
for line in sys.stdin:
    code, page = json.loads(line)
    exec(compile(code, page, "exec"), names)
    print({END!r}, flush=True)
"""


class PageError(Exception):
    """A block failed, or its output differs from the page."""


@dataclass
class Block:
    """A code block, its expected output, why it isn't run (if so), and the file to save it as."""

    language: str
    code: str
    line: int
    reason: str = ""
    file: str | None = None
    shown: str = ""
    tolerance: tuple[float, bool] | None = None  # the number, and whether it is a percentage


def blocks(page: str) -> list[Block]:
    """Returns the code blocks of a Markdown page with their expected outputs."""
    found: list[Block] = []
    end = 0
    for fence in FENCE.finditer(page):
        between, end = page[end : fence.start()], fence.end()
        code = textwrap.dedent(fence["code"])
        line = page.count("\n", 0, fence.start()) + 1
        if fence["language"] in ("python", "sh", "bash") or fence["file"]:
            reason = NOT_RUN.search(between)
            given = reason[1] if reason else "", fence["file"]
            found.append(Block(fence["language"], code, line, *given))
        elif fence["language"] == "text":
            if not found or found[-1].shown or len(between.strip().splitlines()) > 3:
                raise PageError(f"line {line}: this output follows no block that prints it")
            tolerance = TOLERANCE.search(between)
            found[-1].shown = code
            found[-1].tolerance = tolerance and (float(tolerance[1]), bool(tolerance[2]))
    return found


def agrees(shown: str, printed: str, tolerance: tuple[float, bool] | None) -> bool:
    """Returns whether the printed text contains the shown lines consecutively."""
    printed = "\n".join(line.split("\r")[-1].rstrip() for line in printed.splitlines())
    pattern, numbers = "", []
    # "…" as a whole line, or within one
    for part in re.split(r"((?<![^\n])…\n|…)", shown.strip("\n")):
        if part.startswith("…"):
            pattern += "(?s:.*?)"
            continue
        place = 0
        for number in NUMBER.finditer(part) if tolerance else ():
            pattern += space_pattern(part[place : number.start()]) + f"({NUMBER.pattern})"
            numbers.append(value(number[0]))
            place = number.end()
        pattern += space_pattern(part[place:])
    return any(
        all(
            abs(value(got) - wanted) <= tolerance[0] * (abs(wanted) / 100 if tolerance[1] else 1)
            for got, wanted in zip(match.groups(), numbers, strict=True)
        )
        for match in re.finditer(f"^{pattern}$", printed, re.MULTILINE)
    )


def space_pattern(text: str) -> str:
    """Returns a pattern for the text in which spaces also match tabs."""
    return re.sub(r"(?:\\[ \t])+", r"[ \t]+", re.escape(text))


def value(number: str) -> float:
    return float(number.replace(",", ""))


class Session:
    """Runs the blocks of one page in a folder, with one Python and the programs next to it."""

    def __init__(self, page: str, folder: Path, python: Path):
        self.page = page
        self.options = {
            "cwd": folder,
            "stdout": subprocess.PIPE,
            "stderr": subprocess.STDOUT,
            "text": True,
            "env": {
                **{name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
                "PATH": f"{python.parent}:{os.environ['PATH']}",
                "PYTHONUNBUFFERED": "1",
            },
        }
        self.python = subprocess.Popen(
            [python, "-c", PYTHON], stdin=subprocess.PIPE, **self.options
        )

    def run(self, block: Block) -> None:
        if block.file:
            (Path(self.options["cwd"]) / block.file).write_text(block.code, "utf-8")
            return
        printed, failed = self.shell(block) if block.language != "python" else self.execute(block)
        if failed:
            raise PageError(f"line {block.line}: the block fails\n{printed}")
        if block.shown and not agrees(block.shown, printed, block.tolerance):
            raise PageError(
                f"line {block.line}: the page shows\n{block.shown}but the block prints\n{printed}"
            )

    def shell(self, block: Block) -> tuple[str, bool]:
        command = ["bash", "-euo", "pipefail", "-c", block.code]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, **self.options)
        return done.stdout, done.returncode != 0

    def execute(self, block: Block) -> tuple[str, bool]:
        code = "\n" * block.line + block.code  # so that tracebacks show the page's line
        self.python.stdin.write(json.dumps([code, self.page]) + "\n")
        self.python.stdin.flush()
        printed = ""
        for line in self.python.stdout:
            if line == f"{END}\n":
                return printed, False
            printed += line
        return printed, True

    def close(self) -> None:
        self.python.stdin.close()
        self.python.stdout.close()
        self.python.wait()


def pages() -> list[Path]:
    """Returns README.md and the pages in docs/, in the order of docs/README.md."""
    index = (ROOT / "docs" / "README.md").read_text("utf-8")
    names = list(dict.fromkeys(re.findall(r"\]\(([\w-]+\.md)[)#]", index)))
    missing = {path.name for path in ROOT.glob("docs/*.md")} - {"README.md", *names}
    if missing:
        raise PageError(f"docs/README.md does not link to {', '.join(sorted(missing))}")
    return [ROOT / "README.md", *(ROOT / "docs" / name for name in names)]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pages", nargs="*", type=Path, help="pages to run; default: all")
    parser.add_argument("--python", type=Path, default=Path(sys.executable))
    parser.add_argument(
        "--folder", type=Path, help="folder to work in, which is kept; default: a temporary one"
    )
    options = parser.parse_args(arguments)
    python = options.python.parent.resolve() / options.python.name
    skipped, failed, run = [], 0, 0
    with tempfile.TemporaryDirectory() as empty:
        folder = options.folder or Path(empty)
        for path in options.pages or pages():
            start, ran = time.monotonic(), 0
            session = Session(path.name, folder, python)
            try:
                for block in blocks(path.read_text("utf-8")):
                    if block.reason:
                        skipped.append(f"{path.name}:{block.line}: {block.reason}")
                        continue
                    session.run(block)
                    ran += 1
            except PageError as error:
                failed += 1
                print(f"{path.name}, {error}")
            finally:
                session.close()
            run += ran
            print(f"{path.name}: {ran} blocks in {time.monotonic() - start:.0f} s", flush=True)
    print("Not run:", *skipped, sep="\n  ")
    print(f"{run} blocks run, {len(skipped)} not run, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
