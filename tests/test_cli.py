import subprocess
import sys

import pytest

from albert_tf import cli


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("predict", "--model", "{tmp}", "text"), "must hold config.json"),
        (("predict", "--model", "{tmp}/none", "text"), "neither a directory here nor such a name"),
        (("predict", "--model", "{model}"), "Texts come as arguments or with --input"),
        (("predict", "--model", "{model}", "--batch-size", "0", "text"), "must be 1 or more"),
        (
            ("evaluate", "--model", "{model}", "--task", "sst2", "--data", "{tmp}"),
            "one file dev.tsv",
        ),
        (
            (
                "finetune",
                "--task",
                "sst2",
                "--data",
                "{tmp}",
                "--model",
                "tiny",
                "--output",
                "{tmp}/o",
            ),
            "must have one file train.tsv",
        ),
    ],
)
def test_a_users_mistake_is_one_line_and_status_2(tmp_path, capsys, arguments, message):
    filled = [argument.format(tmp=tmp_path, model="small") for argument in arguments]
    status = cli.main(filled)
    output, errors = capsys.readouterr()
    assert status == 2
    assert output == ""
    assert errors.startswith("albert-tf: error: ")
    assert message in errors


def test_wrong_use_is_status_2(capsys):
    for arguments in (["fintune"], [], ["predict"]):
        with pytest.raises(SystemExit, match="2"):
            cli.main(arguments)
    assert "albert-tf" in capsys.readouterr().err


def test_version_and_help_need_no_tensorflow():
    code = """
import contextlib, sys
from albert_tf import cli
for option in ("--version", "--help"):
    with contextlib.suppress(SystemExit):
        cli.main([option])
assert not {"keras", "tensorflow"} & sys.modules.keys()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "fine-tune a classifier" in done.stdout
