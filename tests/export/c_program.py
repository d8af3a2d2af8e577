"""The C programs of this folder: compiles them, sends requests, and reads replies (tensors.h)."""

import contextlib
import importlib.util
import shutil
import struct
import subprocess
import tempfile
from pathlib import Path

import numpy as np

# The numbers of dtypes in TensorFlow's C API, and in LiteRT's.
TENSORFLOW = {"float32": 1, "int32": 3, "int8": 6, "object": 7, "int64": 9}
LITERT = {"float32": 1, "int32": 2, "int64": 4, "object": 5, "int8": 9}


def package_folder(name):
    """Returns the folder that a package is installed in."""
    return Path(importlib.util.find_spec(name).origin).parent


def compile_program(source, path):
    """Compiles a C file in this folder, and links it with the libraries in Python packages."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        raise FileNotFoundError("needs a C compiler (cc, gcc or clang)")
    if source == "serve_saved_model.c":
        folder = package_folder("tensorflow")
        names = ("libtensorflow_cc.*", "libtensorflow_framework.*")
        libraries = [next(iter(sorted(folder.glob(name)))) for name in names]
        libraries += ["-isystem", folder / "include"]
    else:
        folder = package_folder("ai_edge_litert")
        libraries = [folder / "libLiteRt.so"]
    command = [compiler, "-std=c11", "-Wall", "-Wextra", "-Werror", "-O1"]
    command += [Path(__file__).with_name(source), *libraries, f"-Wl,-rpath,{folder}", "-o", path]
    if shutil.which("ld.gold"):  # reads the libraries' symbols in a quarter of the usual time
        command.append("-fuse-ld=gold")
    subprocess.run(command, check=True)


class Refused(Exception):
    """A program's error for a request."""


class CProgram(contextlib.AbstractContextManager):
    """A running program, which maps arrays by name to arrays by name.

    Args:
        command: the program and its arguments.
        numbers: the numbers of dtypes, `TENSORFLOW` or `LITERT`.
    """

    def __init__(self, command, numbers):
        self.numbers = numbers
        self.dtypes = {number: name for name, number in numbers.items()}
        self.log = tempfile.TemporaryFile()  # noqa: SIM115 (closed in __exit__)
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": self.log}
        self.process = subprocess.Popen(command, **pipes)
        self.read()

    def start(self):
        """Lets the program load its file."""
        self.send(struct.pack("q", 0))

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()
        self.log.close()

    def __call__(self, **arrays):
        """Raises Refused for an error, and RuntimeError if the program has ended."""
        tensors = [self.packed(name, np.asarray(array)) for name, array in arrays.items()]
        self.send(struct.pack("q", len(tensors)) + b"".join(tensors))
        return self.read()

    def packed(self, name, array):
        data = array.tobytes()
        if array.dtype == object:
            data = b"".join(struct.pack("q", len(each)) + each for each in array.ravel())
        number = self.numbers[array.dtype.name]
        header = struct.pack(f"{3 + array.ndim}q", number, array.ndim, *array.shape, len(data))
        return struct.pack("q", len(name)) + name.encode() + header + data

    def send(self, content):
        try:
            self.process.stdin.write(content)
            self.process.stdin.flush()
        except BrokenPipeError:
            self.raise_ended()

    def read(self):
        count = self.number()
        if count < 0:
            raise Refused(self.bytes().decode())
        return dict(self.tensor() for _ in range(count))

    def tensor(self):
        name, dtype = self.bytes().decode(), self.dtypes[self.number()]
        shape = [self.number() for _ in range(self.number())]
        data = self.bytes()
        if dtype != "object":
            return name, np.frombuffer(data, dtype).reshape(shape)
        texts, start = [], 0
        while start < len(data):
            (size,) = struct.unpack_from("q", data, start)
            texts.append(data[start + 8 : start + 8 + size])
            start += 8 + size
        return name, np.array(texts, object).reshape(shape)

    def number(self):
        return struct.unpack("q", self.exactly(8))[0]

    def bytes(self):
        return self.exactly(self.number())

    def exactly(self, size):
        content = self.process.stdout.read(size)
        if len(content) < size:
            self.raise_ended()
        return content

    def raise_ended(self):
        status = self.process.wait()
        raise RuntimeError(f"The program ended with status {status}. {self.errors()}")

    def errors(self):
        """Returns the lines on standard error."""
        self.log.seek(0)
        return self.log.read().decode(errors="replace")


class SavedModel(CProgram):
    """A signature of a SavedModel.

    Args:
        program: the compiled serve_saved_model.c.
        folder: the SavedModel.
        signature: its name.
        outputs: names of outputs.
        library: libraries of operators. Default: tensorflow-text's, for the signature `text`.
    """

    def __init__(self, program, folder, signature, *outputs, library=None):
        if library is None:
            operators = package_folder("tensorflow_text") / "python/ops"
            names = ("_fast_sentencepiece_tokenizer.so", "_sentencepiece_tokenizer.so")
            library = ",".join(str(operators / name) for name in names)
        self.inputs, made = tensors(folder, signature)
        self.outputs = {made[name]: name for name in outputs}
        super().__init__([program, library, folder, *self.outputs], TENSORFLOW)

    def __call__(self, **arrays):
        named = {self.inputs.get(name, name): each for name, each in arrays.items()}
        return {self.outputs[tensor]: each for tensor, each in super().__call__(**named).items()}


def tensors(folder, signature):
    """Returns the names of a signature's input and output tensors, by its names for them."""
    from tensorflow.core.protobuf import saved_model_pb2

    content = (Path(folder) / "saved_model.pb").read_bytes()
    graphs = saved_model_pb2.SavedModel.FromString(content).meta_graphs
    declared = graphs[0].signature_def[signature]
    return tuple(
        {name: tensor.name for name, tensor in each.items()}
        for each in (declared.inputs, declared.outputs)
    )


class TFLite(CProgram):
    """A signature of a .tflite file; `program` is the compiled run_tflite.c."""

    def __init__(self, program, file, signature="ids"):
        super().__init__([program, file, signature], LITERT)
