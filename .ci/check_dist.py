"""Checks that two builds are identical, and contain exactly the files that git tracks.

`check_dist.py CHECKOUT BUILD OTHER_BUILD`, where a build is a folder with a wheel and an sdist.
"""

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

PACKAGES = ("albert_tf", "export/albert_tf_export")
LICENSES = ("LICENSE", "NOTICE")
TOP = (".gitignore", "CHANGELOG.md", "CITATION.cff", *LICENSES, "README.md", "SECURITY.md")
TOP += ("export/serving", "pyproject.toml", "requirements.txt")
INFO = ("METADATA", "RECORD", "WHEEL", "entry_points.txt", *(f"licenses/{n}" for n in LICENSES))


def tracked(checkout: Path, *names: str) -> dict[str, bytes]:
    listed = subprocess.check_output(["git", "ls-files", "--", *names], cwd=checkout, text=True)
    return {name: (checkout / name).read_bytes() for name in listed.splitlines()}


def in_wheel(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def in_sdist(path: Path) -> dict[str, bytes]:
    """Returns the content of the files, keyed by their path below the top folder."""
    with tarfile.open(path) as archive:
        files = [member for member in archive if member.isfile()]
        return {file.name.split("/", 1)[1]: archive.extractfile(file).read() for file in files}


def compare(found: dict[str, bytes], expected: dict[str, bytes], what: str) -> None:
    faults = [f"{name} is missing" for name in sorted(expected.keys() - found.keys())]
    faults += [f"{name} is unexpected" for name in sorted(found.keys() - expected.keys())]
    common = sorted(found.keys() & expected.keys())
    faults += [f"{name} differs" for name in common if found[name] != expected[name]]
    if faults:
        sys.exit(f"{what} Received: {'; '.join(faults)}.")


def main(checkout: Path, build: Path, other: Path) -> None:
    first, second = (
        {file.name: file.read_bytes() for file in each.iterdir()} for each in (build, other)
    )
    compare(second, first, "Two builds must be identical.")
    [wheel], [sdist] = build.glob("*.whl"), build.glob("*.tar.gz")

    files = in_wheel(wheel)
    folder = "-".join(wheel.name.split("-")[:2]) + ".dist-info"
    info = {name: files.pop(f"{folder}/{name}", b"") for name in INFO}
    packages = tracked(checkout, *PACKAGES)
    by_package = {name.removeprefix("export/"): content for name, content in packages.items()}
    compare(files, by_package, f"{wheel.name} must contain the packages' tracked files.")
    compare(
        {name: info[f"licenses/{name}"] for name in LICENSES},
        tracked(checkout, *LICENSES),
        f"{wheel.name} must contain the licenses.",
    )

    expected = {**packages, **tracked(checkout, *TOP), "PKG-INFO": info["METADATA"]}
    compare(in_sdist(sdist), expected, f"{sdist.name} must contain the tracked files.")
    print(f"{wheel.name} and {sdist.name} are reproducible and complete.")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
