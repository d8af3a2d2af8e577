"""The examples in docs/pretraining.md run, from text to a fine-tuned model."""

import gzip
import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest

from albert_tf import cli
from albert_tf.config import AlbertConfig
from albert_tf.data.pretraining.examples import masked_features
from albert_tf.data.pretraining.masking import WordTable
from albert_tf.data.pretraining.options import ExampleOptions
from albert_tf.data.pretraining.pairs import Pairs
from albert_tf.data.pretraining.records import decode, encode, frame, read_records
from albert_tf.data.pretraining.sources import find_records
from albert_tf.models import AlbertForSequenceClassification
from albert_tf.training import pretrain as training
from albert_tf.training.callbacks import Interrupted
from albert_tf.training.options import PretrainingOptions
from tests.conftest import SENTENCES

PAGE = Path(__file__).resolve().parents[1] / "docs" / "pretraining.md"
STEPS = 4
# Small numbers for the page's commands; the last value of a repeated option counts.
TINY = {
    "build-vocab": ["--vocab-size", 300],
    "build-data": ["--max-seq-length", 32, "--workers", 1],
    "pretrain": ["--batch-size", 16, "--steps", STEPS, "--warmup-steps", 1],
    "finetune": ["--steps", 2, "--batch-size", 4, "--max-length", 16],
}
OF_THE_ORIGINAL = shlex.split(
    "pretrain --input_file 'records/*.tfrecord' --vocab spiece.model "
    "--albert_config_file albert_config.json --output_dir from-records "
    "--train_batch_size 512 --num_train_steps 125000 --num_warmup_steps 3125"
)


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)


def commands():
    lines = "".join(blocks("sh")).replace("\\\n", "").splitlines()
    for line in lines:
        program, *arguments = shlex.split(line)
        assert program == "albert-tf"
        yield arguments


def folder_of(arguments):
    """Returns the output folder that a command names."""
    place = next(n for n, each in enumerate(arguments) if each in ("--output", "--output_dir"))
    return arguments[place + 1]


def reduced(arguments):
    """Returns the command with small numbers; the first model replaces the published one."""
    tiny = [str(each) for each in (*arguments, *TINY[arguments[0]])]
    if "--eval-data" in tiny:
        tiny += ["--eval-steps", "2"]
    if "--size" in tiny:
        tiny += ["--size", "tiny"]
    return ["my-model" if each == "albert/albert-base-v2" else each for each in tiny]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Returns a folder with all files that the page's commands read."""
    generator = np.random.default_rng(4)
    for name in ("corpus/a.txt.gz", "corpus/b.txt.gz", "held-out/c.txt.gz", "mails/d.txt"):
        documents = ("\n".join(generator.choice(SENTENCES, 9)) for _ in range(12))
        text = "\n\n".join(documents).encode()
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    rows = "".join(f'"{sentence}",{row % 2}\n' for row, sentence in enumerate(SENTENCES * 4))
    (tmp_path / "mails.csv").write_text("body,folder\n" + rows)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def prepare_the_original(folder):
    """Writes the records and the configuration that `OF_THE_ORIGINAL` reads."""
    records = ["--input", "corpus", "--vocab", "spiece.model", "--output", "made"]
    assert cli.main(reduced(["build-data", *records])) == 0
    (folder / "records").mkdir()
    write_masked(folder / "made", folder / "records" / "masked.tfrecord")
    config = json.loads((folder / "my-model" / "config.json").read_text())
    size = AlbertConfig.from_size("tiny", vocab_size=config["vocab_size"])
    (folder / "albert_config.json").write_text(json.dumps(size.to_dict()))


def write_masked(made, path):
    """Masks the records of build-data, as the original's code does before it writes them."""
    manifest = json.loads((made / "manifest.json").read_text())
    options = ExampleOptions.from_dict(manifest["settings"]["examples"])
    table = WordTable.from_json(json.loads((made / "words.json").read_text()))
    examples = [decode(each) for file in made.glob("*.tfrecord") for each in read_records(file)]
    segments = [each[name] for each in examples for name in ("segment_a", "segment_b")]
    sizes = np.array([len(ids) for ids in segments])
    bounds = np.stack([np.cumsum(sizes) - sizes, np.cumsum(sizes)], axis=1)
    keys, labels = np.arange(len(examples), dtype=np.uint64), np.zeros(len(examples), np.int32)
    pairs = Pairs(keys, bounds[::2], bounds[1::2], labels)
    columns = masked_features(pairs, np.concatenate(segments).astype(np.int32), table, options)
    rows = zip(*((column + 0).tolist() for column in columns.values()), strict=True)
    path.write_bytes(b"".join(frame(encode(dict(zip(columns, row, strict=True)))) for row in rows))


def stopped(options, *given):
    """Stops before the training, after all checks."""
    *_, curve, resume, _ = given
    assert curve.steps > resume.step == 0
    raise Interrupted


@pytest.mark.slow
@pytest.mark.tensorflow
def test_the_commands_of_the_page(folder, capsys, monkeypatch):
    """Runs two commands whole and the others up to their first step, to save time."""
    train, trained = training.train, []
    for arguments in [*commands(), OF_THE_ORIGINAL]:
        if arguments is OF_THE_ORIGINAL:
            prepare_the_original(folder)
        trains = arguments[0] != "pretrain" or folder_of(arguments) in ("my-model", "mail-model")
        monkeypatch.setattr(training, "train", train if trains else stopped)
        status = cli.main(reduced(arguments))
        assert status == (0 if trains else 130), capsys.readouterr().err
        if not trains:  # a run without a checkpoint may start again
            assert cli.main(reduced(arguments)) == 130
        trained += [folder_of(arguments)] * (status == 0)
    assert "my-model" in trained and "mail-model" in trained
    shown = capsys.readouterr().out
    assert f"Held out, at step {STEPS}: loss " in shown
    report = json.loads((folder / "my-model" / "report.json").read_text())
    records = find_records(folder / "held-out-examples")
    assert report["tokens"] == STEPS * 16 * records.max_seq_length
    assert [each["step"] for each in report["evaluation"]] == [2, 4]
    assert (folder / "my-model" / "curves.png").exists()
    assert list((folder / "my-model" / "logs").iterdir())
    assert not (folder / "my-model" / "checkpoints").exists()
    classifier = AlbertForSequenceClassification.from_pretrained(folder / "mail-classifier")
    assert classifier.config.id2label == {0: "0", 1: "1"}
    (code,) = blocks("python")
    monkeypatch.setattr(training, "train", stopped)
    with pytest.raises(Interrupted):
        exec(code.replace('"base"', '"tiny", batch_size=16').replace("my-model-2", "another"), {})


def test_the_defaults_that_the_page_names():
    """Compares the tables' second column with the options."""
    known = vars(PretrainingOptions(data="d", output=Path("o"), size="base"))
    rows = re.findall(r"^\| (`--[^|]*`) \| ([^|]+) \|", PAGE.read_text("utf-8"), re.MULTILINE)
    compared = set()
    for flags, shown in rows:
        names = [flag.replace("-", "_") for flag in re.findall(r"`--([\w-]+)`", flags)]
        defaults = shown.strip().strip("`").split(", ")
        if names[0] not in known or " " in defaults[0] or not defaults[0]:
            continue
        for name, default in zip(names, defaults, strict=True):
            kind = type(known[name])
            off = known[name] in (None, False)
            assert (default == "off") if off else (kind(default) == known[name]), name
            compared.add(name)
    assert compared >= {
        "batch_size",
        "warmup_steps",
        "schedule",
        "beta_2",
        "ema",
    }
    assert len(compared) == 10
