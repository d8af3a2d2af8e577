import os
import signal
import subprocess
import sys
import time

import pytest

from albert_tf import cli
from albert_tf.data.jobs import run as jobs
from albert_tf.data.jobs.job import Output
from albert_tf.data.jobs.run import read_manifest
from albert_tf.data.pretraining.options import ExampleOptions
from tests.conftest import SENTENCES

pytestmark = pytest.mark.usefixtures("ctrl_c_enabled")


@pytest.fixture
def places(tmp_path, tiny_vocabulary):
    """Returns the arguments of a run on 30 documents, which takes a second."""
    texts = (f"{SENTENCES[number % 7]} {SENTENCES[number % 3]}" for number in range(30))
    (tmp_path / "a.txt").write_text("\n\n".join(texts))
    (tmp_path / "spiece.model").write_bytes(tiny_vocabulary)
    files = f"--input {tmp_path}/a.txt --output {tmp_path}/out --vocab {tmp_path}/spiece.model"
    return [*files.split(), "--max-seq-length", "40", "--shard-bytes", "4096"]


@pytest.fixture
def run(places):
    return lambda *arguments: cli.main(["build-data", *places, "--workers", "1", *arguments])


@pytest.mark.parametrize(
    "arguments",
    [
        "--max_seq_length=128 --max_predictions_per_seq=20 --masked_lm_prob=0.2 "
        "--short_seq_prob=0.3 --ngram=2 --nofavor_shorter_ngram --do_whole_word_mask=False "
        "--pair_task=nsp --random_seed=7",
        "--max-seq-length 128 --max-predictions-per-seq 20 --masked-lm-prob .2 "
        "--short-seq-prob .3 --ngram 2 --favor-shorter-ngram false --no-do-whole-word-mask "
        "--pair-task nsp --seed 7",
    ],
)
def test_every_option_of_the_original_in_either_spelling(arguments):
    needed = "--input a.txt --output out --vocab spiece.model"
    options = cli._parse(["build-data", *needed.split(), *arguments.split()])[1]
    assert options.examples == ExampleOptions(
        max_seq_length=128,
        max_predictions_per_seq=20,
        masked_lm_prob=0.2,
        short_seq_prob=0.3,
        ngram=2,
        favor_shorter_ngram=False,
        do_whole_word_mask=False,
        pair_task="nsp",
        random_seed=7,
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--workers 2 --engine spark", "--workers requires --engine local"),
        ("--engine-option a=b", "--engine-option requires --engine spark"),
        ("--engine spark --engine-option a", "must be NAME=VALUE"),
        ("--language de --lines sentences", "Received: --language de --lines sentences"),
        (
            "--language de --sentence-splitter textwrap:wrap",
            "--lines paragraphs and --sentence-splitter",
        ),
        ("--ngram 1 --favor-shorter-ngram false", "--ngram 2 or more. Received: --ngram 1"),
    ],
)
def test_contradicting_options_are_refused(places, capsys, arguments, message):
    assert cli.main(["build-data", *places, *arguments.split()]) == 2
    assert message in capsys.readouterr().err


def test_the_summary_counts_new_and_reused_parts(run, tmp_path, capsys):
    assert run() == 0
    manifest = read_manifest(Output(str(tmp_path / "out")))
    totals, shards = manifest.totals, manifest.shards
    assert capsys.readouterr().out.startswith(
        f"30 documents, {totals['tokens']:,} tokens, {totals['examples']} examples, "
        f"{len(shards)} files of 0.0 MB"
    )
    assert run() == 0
    assert "Nothing to do: " in capsys.readouterr().out
    (tmp_path / "out" / "examples-000001-00000.tfrecord").write_bytes(b"")
    assert run() == 0
    assert "1 of these files were " in capsys.readouterr().out


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_and_sigterm_say_how_to_resume(run, capsys, monkeypatch, number):
    def stop(*_, **__):
        os.kill(os.getpid(), number)
        time.sleep(10)

    monkeypatch.setattr(jobs, "run_job", stop)
    before = signal.getsignal(signal.SIGTERM)
    assert run() == 130
    assert "/out. Run the same command to resume." in capsys.readouterr().out
    assert run("--force") == 130
    assert "Run the same command without --force to resume." in capsys.readouterr().out
    assert signal.getsignal(signal.SIGTERM) == before


@pytest.mark.slow
def test_it_runs_in_several_processes(places):
    script = os.path.join(os.path.dirname(sys.executable), "albert-tf")
    done = subprocess.run(
        [sys.executable, script, "build-data", *places, "--workers", "2"],
        capture_output=True,
        text=True,
    )
    assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stderr
    assert "30 documents" in done.stdout
