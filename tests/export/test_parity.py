import math
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from albert_tf_export import parity
from albert_tf_export.parity import Difference
from albert_tf_export.samples import Case, sample


def case(*logits):
    rows = [{"logits": np.array(each, "float32"), "odds": np.zeros(2)} for each in logits]
    return Case([{}] * len(rows), rows, [9] * len(rows))


def test_tolerance_follows_the_output():
    found = parity._difference(case([0.1, -0.2]).expected, case([0.1, -0.3]), "dynamic")
    assert found[:3] == ("logits", pytest.approx(0.1), parity.TOLERANCES["dynamic"])
    small, large = case([0, 0], [0, 0]), case([0, 0], [4, -8])
    found = parity._difference(small.expected, large, "none")
    assert found[:3] == ("logits", 8, 8 * parity.EXACT)


def test_the_output_nearest_to_its_tolerance_is_reported():
    expected = case([100, 0])
    near = [{"logits": np.array([100.001, 0]), "odds": np.array([9e-5, 0])}]
    assert parity._difference(near, expected, "none").output == "odds"
    near[0]["logits"][1] = math.nan
    assert parity._difference(near, expected, "none").output == "logits"


def test_an_export_that_does_not_run(classifier, tmp_path, tokenizer):
    path = tmp_path / "broken.tflite"
    path.write_bytes(b"no flatbuffer at all")
    samples = {"ids": sample(classifier, tokenizer, 24, pairs=False)["ids"]}
    with pytest.raises(parity.ParityError, match="must run without this package. Received: "):
        parity.check("tflite.py", path, samples, "none")


def test_report(tmp_path):
    report = parity.Report(tmp_path, 1_230_000, "3fa9", {"ids": Difference("logits", 2e-7, 1e-4)})
    line = "ids: max abs difference from Keras 2e-07 (logits, tolerance 0.0001)"
    assert str(report) == f"{tmp_path}: 1.2 MB, SHA-256 3fa9\n{line}"


def test_report_without_a_check(tmp_path):
    report = parity.Report(tmp_path, 1_230_000, "3fa9", {})
    assert str(report) == f"{tmp_path}: 1.2 MB, SHA-256 3fa9"


def test_the_digest_depends_on_names_and_contents_alone(tmp_path):
    digests = []
    for number, (name, content) in enumerate([("a", "1"), ("a", "1"), ("a", "2"), ("b", "1")]):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / name).write_text(content)
        digests.append(parity.report(tmp_path, folder, {}).sha256)
    assert digests[0] == digests[1] and len(set(digests)) == 3
    file = parity.report(tmp_path, tmp_path / "0" / "a", {})
    assert file.size == 1 and len(file.sha256) == 64


PARENT = """
import contextlib, signal, sys
from pathlib import Path
from albert_tf_export import parity
signal.signal(signal.SIGINT, signal.default_int_handler)  # A background job ignores it.
with contextlib.suppress(KeyboardInterrupt):
    parity._run_scripts([[Path(sys.argv[1])]])
parity._run_scripts([[Path(sys.argv[1])]])
"""
ENDLESS = """
import os, sys, time
print(os.getpid(), file=open(sys.path[0] + "/pid", "w"))
time.sleep(600)
"""


def test_a_check_ends_with_its_parent(tmp_path):
    """Interrupts a parent in its first check, and kills it in its second one."""
    script, pid = tmp_path / "script.py", tmp_path / "pid"
    script.write_text(ENDLESS)
    parent = subprocess.Popen([sys.executable, "-c", PARENT, script], stderr=subprocess.PIPE)
    for stop in (signal.SIGINT, signal.SIGKILL):
        while not pid.exists() or not pid.read_text().strip():
            assert parent.poll() is None, parent.stderr.read()
            time.sleep(0.01)
        child = Path("/proc", pid.read_text().strip())
        pid.unlink()
        parent.send_signal(stop)
        for _ in range(3000):
            if not child.exists():
                break
            time.sleep(0.01)
        assert not child.exists()
    parent.communicate()
    assert parent.returncode == -signal.SIGKILL
