"""`albert-tf ablate`: what it asks for, and one comparison from text to table."""

import argparse

import pytest

from albert_tf.commands import ablate
from albert_tf.errors import UserError
from albert_tf.training import ablation_runs
from albert_tf.training.interruption import Interrupted
from tests.conftest import SENTENCES

TEXT = ["--input", "a.txt", "--eval-input", "b.txt", "--vocab", "spiece.model"]


def parsed(*arguments):
    parser = argparse.ArgumentParser()
    ablate.add_arguments(parser)
    return parser.parse_args([*arguments, "--output", "out"])


@pytest.mark.parametrize(
    ("given", "received"),
    [
        ([], "Received: none of them"),
        (["--data", "a"], "Received: --data.$"),
        (["--data", "a", "--eval-data", "b", "--vocab", "c"], "Received: --data, --eval-data, --v"),
        (TEXT[:4], "Received: --input, --eval-input.$"),
        ([*TEXT, "--eval-data", "b"], "Received: --eval-data, --input, --eval-input, --vocab"),
    ],
)
def test_records_or_text_are_given_whole(given, received):
    with pytest.raises(UserError, match=received):
        ablate.run(parsed("depth", *given))


def test_pair_tasks_need_text():
    with pytest.raises(UserError, match="pair-task trains on records of several kinds"):
        ablate.run(parsed("pair-task", "--data", "a", "--eval-data", "b"))


def test_an_interruption_says_how_to_go_on(monkeypatch, capsys):
    def interrupted(*arguments):
        raise Interrupted

    monkeypatch.setattr(ablation_runs, "ablate", interrupted)
    assert ablate.run(parsed("depth", "--data", "a", "--eval-data", "b")) == 130
    assert "The same command goes on" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.tensorflow
def test_from_text_to_a_table(tmp_path, tiny_vocabulary, capsys):
    for name, first in (("a.txt", 0), ("b.txt", 3)):
        texts = (
            " ".join(SENTENCES[(first + number + word) % 8] for word in range(1 + number % 5))
            for number in range(40)
        )
        (tmp_path / name).write_text("\n\n".join(texts))
    (tmp_path / "spiece.model").write_bytes(tiny_vocabulary)
    given = [str(tmp_path / each) if "." in each else each for each in TEXT]
    options = parsed("pair-task", *given, "--max-seq-length", "24", "--steps", "2")
    options.output, options.batch_size = tmp_path / "out", 3
    assert ablate.run(options) == 0
    lines = capsys.readouterr().out.splitlines()
    header = "|  | parameters | masked LM | NSP | SOP | loss | speed |"
    assert header in lines
    rows = lines[lines.index(header) + 2 :]
    assert [row.split(" | ")[0] for row in rows] == ["| none", "| nsp", "| sop"]
    assert ablate.run(options) == 0  # from what is there
    assert capsys.readouterr().out.splitlines()[-len(rows) :] == rows
