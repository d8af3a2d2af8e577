"""The defaults in docs/pretraining.md, and a run from the original's own files."""

import gzip
import json
import re
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
from albert_tf.training.options import PretrainingOptions
from tests.conftest import SENTENCES

PAGE = Path(__file__).resolve().parents[1] / "docs" / "pretraining.md"


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


@pytest.mark.slow
@pytest.mark.tensorflow
def test_the_files_and_options_of_the_original(tmp_path, tiny_vocabulary, monkeypatch):
    monkeypatch.chdir(tmp_path)
    generator = np.random.default_rng(4)
    documents = ("\n".join(generator.choice(SENTENCES, 9)) for _ in range(12))
    Path("corpus.txt.gz").write_bytes(gzip.compress("\n\n".join(documents).encode()))
    Path("spiece.model").write_bytes(tiny_vocabulary)
    made = (
        "--input corpus.txt.gz --vocab spiece.model --max-seq-length 32 --workers 1 --output made"
    )
    assert cli.main(["build-data", *made.split()]) == 0
    Path("records").mkdir()
    write_masked(Path("made"), Path("records/masked.tfrecord"))
    words = json.loads(Path("made/words.json").read_text())
    size = AlbertConfig.from_size("tiny", vocab_size=len(WordTable.from_json(words).starts))
    Path("albert_config.json").write_text(json.dumps(size.to_dict()))
    run = (
        "--input_file records/*.tfrecord --vocab spiece.model --output_dir trained "
        "--albert_config_file albert_config.json --train_batch_size 8 "
        "--num_train_steps 2 --num_warmup_steps 1"
    )
    assert cli.main(["pretrain", *run.split()]) == 0
    assert json.loads(Path("trained/report.json").read_text())["tokens"] == 2 * 8 * 32


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
