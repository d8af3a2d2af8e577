"""The C program that serves a SavedModel, built against the pip package's own libraries."""

import importlib.util
import shutil
import subprocess
from pathlib import Path

import pytest

SOURCE = Path(__file__).with_name("serve_saved_model.c")


def package_folder(name: str) -> Path:
    return Path(importlib.util.find_spec(name).origin).parent


@pytest.fixture(scope="session")
def c_program(tmp_path_factory) -> Path:
    """The compiled `serve_saved_model`."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("needs a C compiler (cc, gcc or clang)")
    tensorflow = package_folder("tensorflow")
    libraries = [
        library
        for pattern in ("libtensorflow_cc.*", "libtensorflow_framework.*")
        for library in sorted(tensorflow.glob(pattern))[:1]
    ]
    program = tmp_path_factory.mktemp("capi") / "serve_saved_model"
    command = [compiler, "-std=c11", "-Wall", "-Wextra", "-Werror", "-O1"]
    command += ["-isystem", tensorflow / "include", SOURCE, *libraries]
    subprocess.run([*command, f"-Wl,-rpath,{tensorflow}", "-o", program], check=True)
    return program


@pytest.fixture(scope="session")
def text_operators() -> Path:
    """tensorflow-text's library with the only text operator that an export holds."""
    operators = package_folder("tensorflow_text") / "python/ops/_fast_sentencepiece_tokenizer.so"
    assert operators.is_file()
    return operators


@pytest.fixture(scope="session")
def signature_tensors():
    """A function: SavedModel folder and signature name -> names of its input and output tensors."""
    from tensorflow.core.protobuf import saved_model_pb2

    def read(folder: Path, signature: str = "serving_default"):
        saved_model = saved_model_pb2.SavedModel()
        saved_model.ParseFromString((Path(folder) / "saved_model.pb").read_bytes())
        declared = saved_model.meta_graphs[0].signature_def[signature]
        return (
            {name: tensor.name for name, tensor in declared.inputs.items()},
            {name: tensor.name for name, tensor in declared.outputs.items()},
        )

    return read


@pytest.fixture(scope="session")
def serve_with_c(c_program, text_operators):
    """A function that answers texts with the C program; returns the finished process."""

    def run(folder, source, *fetches, texts, library=text_operators):
        lines = "".join(f"{text}\n" for text in texts).encode()
        command = [c_program, library, folder, source, *fetches]
        return subprocess.run(command, input=lines, capture_output=True, timeout=300)

    return run
