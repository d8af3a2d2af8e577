"""Checks the wheel and the sdist that `make dist` builds, and installs them in empty environments.

    python .ci/check_dist.py dist 3.10 3.11 3.12 3.13

A second build, from a copy of the checkout with different file dates and modes, must have the same
bytes. Both files must contain exactly what git tracks. With each of these Python versions that is
installed, the wheel must export a model and predict, the sdist must predict the same, and so must
the wheel if only the packages that run exported files are installed.
"""

import os
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[1]
PACKAGES = ("albert_tf", "export/albert_tf_export")
LICENSES = ("LICENSE", "NOTICE")
TOP = (".gitignore", "CHANGELOG.md", "CITATION.cff", *LICENSES, "README.md", "SECURITY.md")
TOP += ("export/serving", "pyproject.toml", "requirements.txt")
# With the wheel (--no-deps), only these packages are needed to run exported files.
RUNTIME = ("ai-edge-litert", "sentencepiece", "optree", "fsspec", "filelock")
PREDICT = ["albert-tf", "predict", "--model", "model.tflite", "A wonderful surprise."]
COMMANDS = (
    ["python", CHECKOUT / ".ci" / "make_tiny_model.py", "model"],
    ["albert-tf", "export", "saved-model", "--model", "model", "--output", "saved_model/1"],
    ["albert-tf", "export", "tflite", "--model", "model", "--output", "model.tflite"],
    ["albert-tf", "predict", "--model", "model", "A wonderful surprise.", "Broken and too loud."],
    PREDICT,
)
LOG_LEVEL = "TF_CPP_MIN_LOG_LEVEL"  # if unset, albert_tf hides TensorFlow's log lines
INFO = ("METADATA", "RECORD", "WHEEL", "entry_points.txt", *(f"licenses/{n}" for n in LICENSES))


def tracked(*names: str) -> dict[str, bytes]:
    listed = subprocess.check_output(["git", "ls-files", "--", *names], cwd=CHECKOUT, text=True)
    return {name: (CHECKOUT / name).read_bytes() for name in listed.splitlines()}


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


def build_copy(folder: Path) -> Path:
    """Builds a copy of the tracked files in a folder and returns the folder with the results."""
    os.umask(0o077)
    for name, content in tracked().items():
        path = folder / "copy" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        path.chmod(CHECKOUT.joinpath(name).stat().st_mode & 0o700)
    command = [sys.executable, "-m", "build", "--sdist", "--wheel", "--outdir", folder / "build"]
    subprocess.run([*command, folder / "copy"], check=True, stdout=subprocess.DEVNULL)
    return folder / "build"


def check_content(build: Path, other: Path) -> None:
    first, second = (
        {file.name: file.read_bytes() for file in each.iterdir()} for each in (build, other)
    )
    compare(second, first, "Two builds must be identical.")
    [wheel], [sdist] = build.glob("*.whl"), build.glob("*.tar.gz")

    files = in_wheel(wheel)
    folder = "-".join(wheel.name.split("-")[:2]) + ".dist-info"
    info = {name: files.pop(f"{folder}/{name}", b"") for name in INFO}
    packages = tracked(*PACKAGES)
    by_package = {name.removeprefix("export/"): content for name, content in packages.items()}
    compare(files, by_package, f"{wheel.name} must contain the packages' tracked files.")
    compare(
        {name: info[f"licenses/{name}"] for name in LICENSES},
        tracked(*LICENSES),
        f"{wheel.name} must contain the licenses.",
    )

    expected = {**packages, **tracked(*TOP), "PKG-INFO": info["METADATA"]}
    compare(in_sdist(sdist), expected, f"{sdist.name} must contain the tracked files.")
    print(f"{wheel.name} and {sdist.name} are reproducible and complete.", flush=True)


class Environment:
    """A new virtual environment, whose programs run in a folder outside the checkout."""

    def __init__(self, folder: Path, python: str):
        self.python, self.work = folder / "venv" / "bin" / "python", folder / "work"
        self.work.mkdir(parents=True, exist_ok=True)
        path = f"{self.python.parent}:{os.environ['PATH']}"
        kept = {name: os.environ[name] for name in os.environ.keys() - {"PYTHONPATH", LOG_LEVEL}}
        self.variables = {**kept, "PATH": path}
        self.uv("venv", "--quiet", "--clear", "--python", python, folder / "venv")

    def uv(self, *arguments: str | Path) -> None:
        command = [sys.executable, "-m", "uv", *arguments]
        subprocess.run(command, env=self.variables, check=True)

    def install(self, *arguments: str | Path) -> None:
        self.uv("pip", "install", "--quiet", "--python", self.python, *arguments)

    def run(self, *command: str | Path) -> str:
        program = self.python.parent / command[0]
        return subprocess.check_output(
            [program, *command[1:]], cwd=self.work, env=self.variables, text=True
        )


def check_installed(build: Path, pythons: list[str]) -> None:
    """Installs and uses the wheel and the sdist with each of these Pythons that is installed."""
    [wheel], [sdist] = build.resolve().glob("*.whl"), build.resolve().glob("*.tar.gz")
    version = wheel.name.split("-")[1]
    tried = []
    with tempfile.TemporaryDirectory() as name:
        for python in pythons:
            find = [sys.executable, "-m", "uv", "python", "find", "--quiet", python]
            if subprocess.run(find, stdout=subprocess.DEVNULL).returncode:
                print(f"Python {python} is not installed, so it is skipped.", flush=True)
                continue
            environment = Environment(Path(name) / python, python)
            environment.install(wheel)
            for command in COMMANDS:
                printed = environment.run(*command)
            environment.install("--no-deps", "--reinstall", sdist)
            found = environment.run("albert-tf", "--version").strip(), environment.run(*PREDICT)
            if found != (version, printed):
                sys.exit(f"The sdist must do what the wheel does. Received: {found}, {printed}.")
            tried.append(python)
            print(f"Python {python}: the wheel and the sdist export and predict.", flush=True)
            # Replaces the environment, but keeps the model in the work folder.
            environment = Environment(Path(name) / python, python)
            environment.install("--no-deps", wheel)
            environment.install(*RUNTIME)
            if environment.run(*PREDICT) != printed:
                sys.exit("The exported file must return the same result without TensorFlow.")
            print(f"Python {python}: the exported file runs without TensorFlow.", flush=True)
    if not tried:
        sys.exit(f"None of these Pythons is installed. Received: {', '.join(pythons)}.")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        check_content(Path(sys.argv[1]), build_copy(Path(scratch)))
    check_installed(Path(sys.argv[1]), sys.argv[2:])
