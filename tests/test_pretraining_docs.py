"""Pretraining from the original's own files, by its options, as docs/pretraining.md says."""

import json
from pathlib import Path

import numpy as np
import pytest

from albert_tf import cli
from albert_tf.config import AlbertConfig
from albert_tf.data.pretraining.records import encode, frame
from albert_tf.text.tokenizer import AlbertTokenizer


@pytest.mark.slow
@pytest.mark.tensorflow
@pytest.mark.usefixtures("quick_runs", "without_graphs")
def test_the_files_and_options_of_the_original(tmp_path, tiny_vocabulary, monkeypatch):
    monkeypatch.chdir(tmp_path)
    generator = np.random.default_rng(4)
    masked = [
        {
            "input_ids": generator.integers(5, 100, 32).tolist(),
            "input_mask": [1] * 32,
            "segment_ids": [0] * 16 + [1] * 16,
            "masked_lm_positions": [3, 9],
            "masked_lm_ids": [7, 11],
            "masked_lm_weights": [1.0, 1.0],
            "next_sentence_labels": [row % 2],
        }
        for row in range(16)
    ]
    Path("masked.tfrecord").write_bytes(b"".join(frame(encode(each)) for each in masked))
    Path("spiece.model").write_bytes(tiny_vocabulary)
    size = AlbertConfig.from_size("tiny", vocab_size=AlbertTokenizer(tiny_vocabulary).vocab_size)
    Path("albert_config.json").write_text(json.dumps(size.to_dict()))
    run = (
        "--input_file *.tfrecord --vocab spiece.model --output_dir trained "
        "--albert_config_file albert_config.json --train_batch_size 8 "
        "--num_train_steps 2 --num_warmup_steps 1"
    )
    assert cli.main(["pretrain", *run.split()]) == 0
    assert json.loads(Path("trained/report.json").read_text())["tokens"] == 2 * 8 * 32
