"""Commands that are killed, starved of space, locked out or run twice at once.

Nothing is lost, nothing is half-written, and the same command ends with the same bytes. Each trial
is drawn from ALBERT_TF_SEED and its number, which its name shows. ALBERT_TF_TRIALS is the number of
trials of `make test-faults`.
"""

import os
import random

import pytest
from safetensors import safe_open

from tests.faults.child import Fault
from tests.faults.conftest import NONE, OUTPUT, content

TRIALS = int(os.environ.get("ALBERT_TF_TRIALS", "200"))
# The others write all at once.
RESUMED = ("build-data", "pretrain", "finetune", "similarity")
ATOMIC = ("saved-model", "tflite", "convert")
EARLIER = {"saved-model": "saved_model.pb", "convert": "config.json"}  # a file of each folder
TRIED = [
    *(("build-data", kind) for kind in ("kill", "cut", "limit", "torn", "twice", "read-only")),
    *(("convert", kind) for kind in ("kill", "cut", "limit", "twice", "read-only")),
    ("saved-model", "limit"),
    ("tflite", "cut"),
    ("pretrain", "kill"),
    ("finetune", "kill"),
    ("similarity", "torn"),
]
KINDS = ("kill", "cut", "cut", "limit", "read-only", "torn", "twice")
REPLACED = f".{OUTPUT}.partial/.{OUTPUT}.replaced"


@pytest.fixture
def trial(start, commands, references, tmp_path):
    """Returns a function that tries a command with one kind of fault."""

    def try_it(name, kind, number):
        draw = random.Random(f"{os.environ['ALBERT_TF_SEED']} {number}")
        Trial(start, commands(name), references(name), tmp_path)(name, kind, draw)

    return try_it


@pytest.mark.slow
@pytest.mark.parametrize(("name", "kind"), TRIED)
def test_a_fault(trial, name, kind):
    trial(name, kind, 0)


@pytest.mark.faults
@pytest.mark.parametrize("number", range(1, TRIALS + 1))
def test_many_faults(trial, number):
    draw = random.Random(f"{os.environ['ALBERT_TF_SEED']} kind {number}")
    trial(draw.choice([*RESUMED, *ATOMIC]), draw.choice(KINDS), number)


class Trial:
    """A command, its expected output, and a folder to run it in."""

    def __init__(self, start, arguments, reference, folder):
        self.start, self.arguments, self.reference = start, arguments, reference
        self.folder, self.old = folder, {}

    def __call__(self, name, kind, draw):
        if name in ATOMIC:
            self.arguments = [*self.arguments, "--force"]
            if name in EARLIER and draw.random() < 0.5:
                (self.folder / OUTPUT).mkdir()
                (self.folder / OUTPUT / EARLIER[name]).write_text("of an earlier output")
                self.old = content(self.folder)
        getattr(self, f"_{kind.replace('-', '_')}")(name, draw)
        self.expect_end(damaged=kind == "torn")

    def run(self, name, fault=NONE):
        """Runs the command, and checks that its files are complete whatever happens to it."""
        end = self.start(self.arguments, self.folder, fault)()
        self.expect_report(end, fault)
        self.expect_whole(name)
        return end

    def expect_report(self, end, fault):
        """Expects success, the requested kill, or a one-line error."""
        assert "Traceback" not in end.log, end.log
        if end.status < 0:
            assert fault.cut or (fault.touch and fault.limit is None), end
        elif end.status:
            assert end.status == 2 and end.log.count("albert-tf: error: ") == 1, end.log

    def expect_whole(self, name):
        """Expects each file under its final name to be complete."""
        found = {
            path: digest
            for path, digest in content(self.folder).items()
            if ".partial/" not in path and not path.endswith("/.lock")
        }
        if name == "tflite" and OUTPUT not in found:
            return  # its labels get their name before it
        if name in ATOMIC:
            lost = self.old and (self.folder / REPLACED).exists()
            assert found in (self.reference.content, self.old) or (lost and not found), found
        for path in found:
            file = self.folder / path
            if file.suffix == ".safetensors":
                with safe_open(file, "numpy") as tensors:
                    assert tensors.keys()
            if file.suffix == ".tfrecord":
                assert found[path] == self.reference.content[path], path

    def expect_end(self, damaged):
        """Expects that the same command, undisturbed, ends with the same bytes.

        It may refuse an output that is complete already, or whose files are damaged.
        """
        end = self.start(self.arguments, self.folder)()
        self.expect_report(end, NONE)
        if end.status == 2:
            assert "--force" in end.log or damaged, end.log
            end = self.start([*self.arguments, "--force"], self.folder)()
        assert end.status == 0, end.log
        assert content(self.folder) == self.reference.content
        files = {path.partition("/")[0] for path in self.reference.content}
        assert set(os.listdir(self.folder)) == files

    def _kill(self, name, draw):
        for _ in range(draw.randint(1, 2)):
            self.run(name, Fault(touch=draw.randint(1, self.reference.touches)))

    def _cut(self, name, draw):
        """Kills the command while it writes a file; touches come before or after."""
        for _ in range(draw.randint(1, 2)):
            limit = draw.randint(0, draw.choice(self.reference.sizes) - 1)
            self.run(name, Fault(draw.randint(0, self.reference.touches), limit=limit, cut=True))

    def _limit(self, name, draw):
        """Limits the file size to less than a file it should write."""
        limit = draw.choice(self.reference.sizes) - 1
        touch = draw.choice([0, draw.randint(1, self.reference.touches)])
        end = self.run(name, Fault(touch, limit=limit))
        assert end.status == 2 or touch, end
        if name in ATOMIC and end.status:
            assert content(self.folder) == self.old

    def _read_only(self, name, draw):
        self.folder.chmod(0o555)
        end = self.run(name, Fault(obeys=True))
        self.folder.chmod(0o755)
        assert end.status == 2 and "Permission denied" in end.log and OUTPUT in end.log, end.log
        assert content(self.folder) == self.old

    def _torn(self, name, draw):
        """Shortens a file that a killed run left, as a power failure may.

        The best version's files are on the disk before they get their names.
        """
        self.run(name, Fault(touch=draw.randint(1, self.reference.touches)))
        files = [
            path
            for path in sorted(self.folder.rglob("*"))
            if path.is_file() and path.parent.name != "best"
        ]
        if files and name not in ATOMIC:
            file = draw.choice(files)
            os.truncate(file, draw.randint(0, file.stat().st_size))

    def _twice(self, name, draw):
        """Starts the same command twice at once."""
        waits = [self.start(self.arguments, self.folder) for _ in range(2)]
        ends = [wait() for wait in waits]
        for end in ends:
            self.expect_report(end, NONE)
            assert end.status == 0 or "Another run is writing to" in end.log or "--force" in end.log
        assert 0 in [end.status for end in ends], ends
        self.expect_whole(name)
