"""Prints the size of each installed package in MB, largest first, as a Markdown table.

    python benchmarks/install_size.py [--least 20]

Measures the environment of the Python that runs it, and only requires the standard library. The
figures of RESULTS.md are those of two new environments: one with albert_tf, and one with only what
runs exported files (docs/mobile.md).
"""

import argparse
from collections.abc import Iterable
from importlib import metadata

SKIPPED = ("pip", "setuptools", "wheel")  # part of a new environment


def sizes(packages: Iterable[metadata.Distribution]) -> dict[str, float]:
    """Returns the MB of each package's files, largest first."""
    found = {}
    for package in packages:
        files = {file.locate() for file in package.files or ()}
        # Compiled files aren't always listed.
        files |= {path for file in files for path in file.parent.glob(f"__pycache__/{file.stem}.*")}
        found[package.metadata["Name"]] = sum(f.stat().st_size for f in files if f.is_file()) / 1e6
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def table(found: dict[str, float], least: float) -> str:
    """Returns rows for packages of at least `least` MB, one for all others, and the total."""
    large = {name: size for name, size in found.items() if size >= least}
    rows = [
        *large.items(),
        (f"{len(found) - len(large)} others", sum(found.values()) - sum(large.values())),
    ]
    rows.append(("total", sum(found.values())))
    return "\n".join(
        ["| package | MB |", "|---|---:|", *(f"| {name} | {size:,.0f} |" for name, size in rows)]
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--least", type=float, default=20, help="MB of the smallest package shown")
    options = parser.parse_args()
    installed = (each for each in metadata.distributions() if each.metadata["Name"] not in SKIPPED)
    print(table(sizes(installed), options.least))
