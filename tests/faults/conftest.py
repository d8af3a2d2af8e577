"""Commands on tiny inputs, and what they write if they run undisturbed."""

import functools
import hashlib
import json
import multiprocessing
import random
from typing import NamedTuple

import pytest

from albert_tf.config import AlbertConfig
from albert_tf.text.tokenizer import AlbertTokenizer
from tests.conftest import SENTENCES
from tests.faults import child
from tests.faults.child import Fault

OUTPUT = "out"
NONE = Fault()
# The server that forks the children imports these once.
PRELOADED = (
    child.__name__,
    "albert_tf.checkpoints.conversion",
    "albert_tf.data.jobs.local",
    "albert_tf.data.jobs.run",
    "albert_tf.training.finetune",
    "albert_tf.training.pretrain",
    "albert_tf_export",
)


class Run(NamedTuple):
    """The result of a process. A negative status is a signal."""

    status: int
    log: str


class Reference(NamedTuple):
    """The output of an undisturbed run, how often it touched files, and the files' sizes."""

    content: dict[str, str]
    touches: int
    sizes: list[int]


@pytest.fixture(scope="session")
def start():
    """Returns a function that starts a command in a folder, and returns a function to wait."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([*PRELOADED])

    def start(arguments, folder, fault=NONE):
        reader, writer = context.Pipe(duplex=False)
        process = context.Process(target=child.run, args=(arguments, folder, fault, writer))
        process.start()
        writer.close()

        def wait():
            with open(reader.fileno(), "rb", closefd=False) as output:
                log = output.read().decode()  # until the last process that can write ends
            process.join()
            reader.close()
            return Run(process.exitcode, log)

        return wait

    return start


@pytest.fixture(scope="session")
def commands(tiny_vocabulary, start, tmp_path_factory):
    """Returns a function from a command to its arguments, with the relative output `OUTPUT`."""
    inputs = tmp_path_factory.mktemp("inputs")
    (inputs / "spiece.model").write_bytes(tiny_vocabulary)
    sizes = {"vocab_size": AlbertTokenizer(tiny_vocabulary).vocab_size, "num_hidden_layers": 1}
    config = AlbertConfig.from_size("tiny", **sizes)
    (inputs / "config.json").write_text(json.dumps(config.to_dict()))
    generator = random.Random(4)
    texts = ["\n".join(generator.choices(SENTENCES, k=5)) for _ in range(60)]
    (inputs / "text.txt").write_text("\n\n".join(texts), encoding="utf-8")
    labelled = [f"{one} {two}\t{n % 2}" for n, one in enumerate(SENTENCES) for two in SENTENCES[:3]]
    pairs = [f"{text}\tSo: {text}" for text in SENTENCES]
    tables = {"task": ["text\tlabel", *labelled], "pairs": ["anchor\tpositive", *pairs]}
    for task, rows in tables.items():
        (inputs / task).mkdir()
        (inputs / task / "train.tsv").write_text("\n".join(rows) + "\n")
        (inputs / task / "dev.tsv").write_text("\n".join(rows[:8]) + "\n")
    fine_tuning = f"--model {inputs}/config.json --vocab {inputs}/spiece.model --max-length 16"
    lines = {
        "build-data": f"build-data --input {inputs}/text.txt --vocab {inputs}/spiece.model "
        "--max-seq-length 24 --shard-bytes 3000 --workers 1",
        "pretrain": f"pretrain --data {inputs}/build-data --size {inputs}/config.json "
        "--batch-size 4 --steps 5 --warmup-steps 1 --save-steps 2 --ema 0.5 "
        f"--eval-data {inputs}/build-data --eval-steps 2",
        "finetune": f"finetune --task classify --data {inputs}/task {fine_tuning} "
        "--batch-size 8 --epochs 2 --save-steps 2",
        "similarity": f"finetune --task similarity --data {inputs}/pairs {fine_tuning} "
        "--batch-size 4 --epochs 3 --save-steps 2",
        "saved-model": f"export saved-model --model {inputs}/finetune --ids-only --no-check",
        "tflite": f"export tflite --model {inputs}/finetune --ids-only --no-check",
        "convert": f"convert --format hf {inputs}/finetune",
    }

    def arguments(name):
        """Creates a command's input by running another command, if there is none yet."""
        for source in ("build-data", "finetune"):
            if f"{inputs}/{source}" in lines[name] and not (inputs / source).exists():
                folder = tmp_path_factory.mktemp(source)
                end = start(arguments(source), folder)()
                assert end.status == 0, end.log
                (folder / OUTPUT).rename(inputs / source)
        return [*lines[name].split(), *([OUTPUT] if name == "convert" else ["--output", OUTPUT])]

    return arguments


@pytest.fixture(scope="session")
def references(commands, start, tmp_path_factory):
    """Returns a function from a command to the `Reference` of an undisturbed run."""

    @functools.cache
    def reference(name):
        folder = tmp_path_factory.mktemp("reference")
        end = start(commands(name), folder)()
        assert end.status == 0, end.log
        sizes = {path.stat().st_size for path in folder.rglob("*") if path.is_file()} - {0}
        return Reference(content(folder), int(end.log.splitlines()[-1]), sorted(sizes))

    return reference


def content(folder):
    """Returns the digests of all files, keyed by relative path."""
    return {
        path.relative_to(folder).as_posix(): _digest(path)
        for path in sorted(folder.rglob("*"))
        if path.is_file()
        if path.parent.name != "logs"  # A resumed run adds a file.
    }


def _digest(path):
    data = path.read_bytes()
    if path.name == "report.json" and path.parent.suffix != ".partial":  # which may be truncated
        report = json.loads(data)
        report["seconds"] = report["examples_per_second"] = 0
        data = json.dumps(report).encode()
    return hashlib.sha256(data).hexdigest()
