"""Numbered records like those from `build-data` and the original code."""

import dataclasses
import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from albert_tf.data.pretraining import records
from albert_tf.data.pretraining.masking import as_rows, mask, word_table
from albert_tf.data.pretraining.options import ExampleOptions
from albert_tf.text.tokenizer import AlbertTokenizer

T, P = 40, 5
FIRST = 5  # the first piece that isn't special
COUNTS = (13, 0, 9, 31, 6)  # records in each file


@dataclasses.dataclass
class Directory:
    """Writes a directory of records. `record` maps a record's number to its features or bytes.

    Without options, there is no manifest, as for the original code's files.
    """

    path: Path
    record: Callable[[int], dict[str, Any]]
    options: ExampleOptions | None = None
    tokenizer: AlbertTokenizer | None = None

    @property
    def source(self) -> str:
        return str(self.path if self.options else self.path / "*.tfrecord")

    def write(self) -> "Directory":
        numbers, shards = itertools.count(), []
        for place, count in enumerate(COUNTS):
            path = self.path / f"examples-{place:05d}-of-{len(COUNTS):05d}.tfrecord"
            made = (self.record(next(numbers)) for _ in range(count))
            encoded = (each if isinstance(each, bytes) else records.encode(each) for each in made)
            path.write_bytes(b"".join(map(records.frame, encoded)))
            shards.append({"file": path.name, "records": count, "bytes": path.stat().st_size})
        if self.options is None:
            return self
        settings = {"examples": dataclasses.asdict(self.options)}
        manifest = {"settings": settings, "shards": shards, "totals": {"examples": sum(COUNTS)}}
        (self.path / "manifest.json").write_text(json.dumps(manifest))
        self.tokenizer.save_pretrained(self.path)
        words = word_table(self.tokenizer).as_json()
        (self.path / records.WORDS).write_text(json.dumps(words))
        return self


def dynamic_record(number):
    """Returns a dynamic record whose first segment begins with its number."""
    generator = np.random.default_rng(number)
    first, second = (
        generator.integers(FIRST, 110, size).tolist()
        for size in generator.integers(1, T // 2 - 1, 2)
    )
    first[0] = FIRST + number
    return {"segment_a": first, "segment_b": second, "next_sentence_labels": [0]}


def static_record(number):
    """Returns a static record that begins with its number."""
    length, predicted = 9 + number * 7 % (T - 8), 1 + number % P
    row = np.arange(T)
    inside = row < length
    return {
        "input_ids": (np.where(row == 0, FIRST + number, 7) * inside).tolist(),
        "input_mask": inside.astype(int).tolist(),
        "segment_ids": (inside & (row > 4)).astype(int).tolist(),
        "masked_lm_positions": [*range(1, 1 + predicted), *[0] * (P - predicted)],
        "masked_lm_ids": [*[9] * predicted, *[0] * (P - predicted)],
        "masked_lm_weights": [*[1.0] * predicted, *[0.0] * (P - predicted)],
        "next_sentence_labels": [number % 2],
    }


def masked_batch(pairs, ids, table, options):
    """Masks pairs in NumPy, and returns features and labels."""
    rows = as_rows(pairs, ids, table, options.max_seq_length)
    masked = mask(rows, pairs.keys, table, options)
    at = np.arange(options.max_seq_length)
    inside = at < rows.lengths[:, None]
    inputs = {
        "input_ids": masked.ids,
        "attention_mask": inside,
        "token_type_ids": inside & (at >= rows.first[:, None]),
        "masked_lm_positions": masked.positions,
    }
    return inputs, {"labels": masked.labels, "sentence_order_label": pairs.labels}


@pytest.fixture(scope="session")
def dynamic(tmp_path_factory, tiny_vocabulary):
    options = ExampleOptions(max_seq_length=T, max_predictions_per_seq=P)
    path, tokenizer = tmp_path_factory.mktemp("dynamic"), AlbertTokenizer(tiny_vocabulary)
    return Directory(path, dynamic_record, options, tokenizer).write()


@pytest.fixture(scope="session")
def static(tmp_path_factory):
    return Directory(tmp_path_factory.mktemp("static"), static_record).write()
