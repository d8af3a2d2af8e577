import dataclasses
import itertools
import os

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.data.pretraining import records, rng
from albert_tf.data.pretraining.batches import (
    batches_per_source,
    dynamic_batch,
    evaluation_batches,
    mixed_batches,
    pretraining_batches,
    row_lengths,
    static_batch,
)
from albert_tf.data.pretraining.masking import word_table
from albert_tf.data.pretraining.pairs import Pairs, swapped
from albert_tf.data.pretraining.sources import find_records, stored_records
from albert_tf.errors import UserError
from albert_tf.tasks import INPUTS, MASKED_LM_LABELS, MASKED_LM_POSITIONS, SENTENCE_ORDER_LABEL
from tests.data.pretraining.conftest import COUNTS, FIRST, P, T, masked_batch

SEED = int(os.environ["ALBERT_TF_SEED"])
BATCH = 4
N = sum(COUNTS)  # 59: 14 batches, and 3 records left over
STEPS = N // BATCH
SMALL = {"shuffle_records": 11}  # windows of two batches
BUCKETS = {**SMALL, "length_buckets": True}


def taken(dataset, count):
    return [tf.nest.map_structure(np.asarray, batch) for batch in dataset.take(count)]


def assert_same(found, expected):
    assert len(found) == len(expected)
    tf.nest.map_structure(np.testing.assert_array_equal, found, expected)


def numbers(batches):
    """Returns the numbers of the static records in each batch."""
    return [np.asarray(inputs["input_ids"][:, 0] - FIRST).tolist() for inputs, _ in batches]


def flat(lists):
    return list(itertools.chain.from_iterable(lists))


def made_in_numpy(directory, epoch):
    """Returns the features and labels of all dynamic records, swapped and masked."""
    found = [directory.record(number) for number in range(N)]
    segments = [each[name] for each in found for name in ("segment_a", "segment_b")]
    ends = np.cumsum([len(segment) for segment in segments])
    bounds = np.stack([np.append(0, ends[:-1]), ends], axis=1)
    keys = rng.fold_in(rng.key(SEED, "masks"), epoch, np.arange(N))
    pairs = swapped(Pairs(keys, bounds[::2], bounds[1::2], np.zeros(N, np.int32)))
    ids, table = np.concatenate(segments).astype(np.int32), word_table(directory.tokenizer)
    return masked_batch(pairs, ids, table, directory.options)


def rows_of(batch):
    """Returns the columns of each example as bytes, without padding and other zeros at the end."""
    inputs, labels = batch
    columns = [inputs[feature.name] for feature in INPUTS]
    columns += [inputs["masked_lm_positions"], labels["labels"], labels["sentence_order_label"]]
    rows = zip(*(np.asarray(column, "int32") for column in columns), strict=True)
    return [tuple(column.tobytes().rstrip(b"\0") for column in row) for row in rows]


@pytest.fixture(scope="module")
def static_run(static):
    """Returns a dataset of the static records, and the batches of three epochs."""
    dataset = pretraining_batches(static.source, BATCH, SEED, **SMALL)
    return dataset, taken(dataset, 3 * STEPS)


@pytest.fixture(scope="module")
def dynamic_run(dynamic):
    """Returns a dataset of the dynamic records by length, and the batches of two epochs."""
    tf.random.set_seed(5)  # changes no batch
    dataset = pretraining_batches(dynamic.path, BATCH, SEED, **BUCKETS)
    return dataset, taken(dataset, 2 * STEPS)


@pytest.fixture(scope="module")
def evaluated(dynamic):
    """Returns the evaluation batches of two passes, with another batch size."""
    dataset = evaluation_batches(dynamic.source, 7, SEED)
    assert dataset.cardinality() == -(-N // 7)
    return taken(dataset, -1), taken(dataset, -1)


@pytest.mark.parametrize(("run", "length"), [("static_run", T), ("dynamic_run", None)])
def test_batches_follow_the_schema(request, run, length):
    dataset, _ = request.getfixturevalue(run)
    assert dataset.cardinality() == tf.data.INFINITE_CARDINALITY
    # The end of an iterator would wait for the tuner, up to a minute.
    assert dataset.options().autotune.enabled is False
    inputs, labels = dataset.element_spec
    found = {name: (spec.shape, spec.dtype) for name, spec in (inputs | labels).items()}
    shapes = {
        **dict.fromkeys(INPUTS, (BATCH, length)),
        MASKED_LM_POSITIONS: (BATCH, P),
        MASKED_LM_LABELS: (BATCH, P),
        SENTENCE_ORDER_LABEL: (BATCH,),
    }
    assert found == {feature.name: (shape, feature.dtype) for feature, shape in shapes.items()}


def test_dynamic_records_are_masked_by_seed_epoch_and_record(dynamic, dynamic_run):
    made = [{*rows_of(made_in_numpy(dynamic, epoch))} for epoch in range(2)]
    assert len(made[0] | made[1]) > 1.9 * N  # another mask in each epoch
    for epoch in range(2):
        rows = flat(map(rows_of, dynamic_run[1][epoch * STEPS : (epoch + 1) * STEPS]))
        assert len(set(rows)) == STEPS * BATCH
        assert set(rows) <= made[epoch]


def test_each_epoch_has_every_record_once_in_another_order(static_run):
    found = numbers(static_run[1])
    epochs = [flat(found[start : start + STEPS]) for start in range(0, 3 * STEPS, STEPS)]
    for epoch in epochs:
        assert len(set(epoch)) == STEPS * BATCH
        assert epoch != sorted(epoch)
    assert epochs[0] != epochs[1] != epochs[2] != epochs[0]


def test_another_seed_gives_another_order(static, static_run):
    other = taken(pretraining_batches(static.source, BATCH, SEED + 1, **SMALL), STEPS)
    assert numbers(other) != numbers(static_run[1])[:STEPS]


@pytest.mark.slow
def test_hosts_share_each_batch(dynamic, dynamic_run):
    """Joins the parts of hosts to the batch of one host, masks included, also after a resume."""
    files = find_records(dynamic.path)
    whole = dynamic_run[1][:12]
    first = taken(pretraining_batches(files, BATCH, SEED, part=(0, 2), **BUCKETS), 12)
    late = taken(pretraining_batches(files, BATCH, SEED, 10, part=(1, 2), **BUCKETS), 2)
    for batch, half in zip(whole, first, strict=True):
        assert rows_of(half) == rows_of(batch)[: BATCH // 2]
    for batch, half in zip(whole[10:], late, strict=True):
        assert rows_of(half) == rows_of(batch)[BATCH // 2 :]


@pytest.mark.parametrize(
    ("mode", "start", "options"),
    [
        ("static", STEPS + 5, SMALL),
        pytest.param("static", STEPS, SMALL, marks=pytest.mark.slow),
        pytest.param("dynamic", STEPS + 5, BUCKETS, marks=pytest.mark.slow),
    ],
)
def test_a_run_resumes_with_the_same_batches(request, mode, start, options):
    tf.random.set_seed(7)  # changes no batch
    _, whole = request.getfixturevalue(f"{mode}_run")
    files = find_records(request.getfixturevalue(mode).source)
    dataset = pretraining_batches(files, BATCH, SEED, start, **options)
    assert_same(taken(dataset, 4), whole[start : start + 4])


def test_an_iterator_can_be_saved_and_restored(static_run, tmp_path):
    dataset, whole = static_run
    iterator, restored = iter(dataset), iter(dataset)
    for _ in range(STEPS - 3):
        next(iterator)
    path = tf.train.Checkpoint(iterator=iterator).write(str(tmp_path / "position"))
    tf.train.Checkpoint(iterator=restored).read(path).assert_consumed()
    assert numbers(itertools.islice(restored, 9)) == numbers(whole[STEPS - 3 : STEPS + 6])


def test_length_buckets_pad_less(dynamic_run, evaluated):
    widths = {inputs["input_ids"].shape[1] for inputs, _ in dynamic_run[1]}
    assert len(widths) > 2
    assert all(width % 5 == 0 and width <= T for width in widths)  # eighths of 40
    padded, bucketed = (
        np.concatenate([inputs["attention_mask"].ravel() for inputs, _ in batches]).mean()
        for batches in (evaluated[0], dynamic_run[1])
    )
    assert bucketed > padded + 0.1


def test_length_buckets_of_static_records(static):
    files = find_records(static.source)
    stored = tf.constant([records.encode(static.record(number)) for number in range(6)])
    assert row_lengths(files, stored).numpy().tolist() == [9, 16, 23, 30, 37, 12]
    cut = static_batch(None, stored[:3], files, 5)
    assert cut[0]["input_ids"].shape == (3, 25)
    assert rows_of(cut) == rows_of(static_batch(None, stored, files, None))[:3]


def test_evaluation_sees_every_example_once_with_the_same_masks(dynamic, evaluated):
    first, second = evaluated
    assert_same(first, second)
    assert [len(labels["labels"]) for _, labels in first] == [7] * (N // 7) + [N % 7]
    whole = tf.nest.map_structure(lambda *parts: np.concatenate(parts), *first)
    assert_same(whole, made_in_numpy(dynamic, epoch=0))


@pytest.mark.parametrize(("pair_task", "label"), [("nsp", 1), ("none", -100)])
def test_only_pairs_for_sentence_order_are_swapped(dynamic, pair_task, label):
    options = dataclasses.replace(dynamic.options, pair_task=pair_task, masked_lm_prob=0.0)
    files = dataclasses.replace(find_records(dynamic.source), dynamic=options)
    label_of = {"next_sentence_labels": [label]}
    stored = [records.encode(dynamic.record(number) | label_of) for number in range(N)]
    inputs, labels = dynamic_batch(
        tf.constant(range(N), tf.uint64), tf.constant(stored), files, None
    )
    assert set(labels["sentence_order_label"].numpy()) == {label}
    assert set(labels["labels"].numpy().ravel()) == {-100}
    assert inputs["input_ids"][:, 1].numpy().tolist() == list(range(FIRST, FIRST + N))


def test_files_of_the_original_code_are_read(golden):
    path = golden / "F_pretraining_data" / "sample_seq64_pred10.tfrecord"
    found = list(map(records.decode, stored_records(str(path))))
    ((inputs, labels),) = evaluation_batches(path, 150)
    assert len(found) == 150
    for name, original in (
        ("input_ids", "input_ids"),
        ("attention_mask", "input_mask"),
        ("token_type_ids", "segment_ids"),
        ("masked_lm_positions", "masked_lm_positions"),
    ):
        np.testing.assert_array_equal(inputs[name], [record[original] for record in found])
    counted = np.array([record["masked_lm_weights"] for record in found]) == 1
    expected = np.where(counted, [record["masked_lm_ids"] for record in found], -100)
    np.testing.assert_array_equal(labels["labels"], expected)
    order = [record["next_sentence_labels"][0] for record in found]
    np.testing.assert_array_equal(labels["sentence_order_label"], order)


def test_a_data_service_gives_the_same_batches(dynamic_run):
    dataset, expected = dynamic_run
    service = tf.data.experimental.service
    dispatcher = service.DispatchServer()
    address = dispatcher.target.split("://")[1]
    worker = service.WorkerServer(service.WorkerConfig(dispatcher_address=address))
    served = dataset.apply(
        service.distribute(service.ShardingPolicy.OFF, service=dispatcher.target)
    )
    assert_same(taken(served, STEPS + 3), expected[: STEPS + 3])
    del worker


def test_a_batch_that_hosts_cannot_share_evenly_is_refused(static):
    with pytest.raises(UserError, match=r"Received: part=\(0, 2\), batch_size=5"):
        pretraining_batches(find_records(static.source), 5, part=(0, 2))


def test_batches_of_each_source():
    found = [batches_per_source(3, steps) for steps in (0, 2, 3, 4)]
    assert found == [[0, 0, 0], [1, 1, 0], [1, 1, 1], [2, 1, 1]]


@pytest.mark.slow
def test_batches_take_turns_and_resume(static, dynamic):
    longer = dataclasses.replace(find_records(dynamic.path), max_seq_length=T + 8)
    sources = find_records(static.source), longer
    whole = taken(mixed_batches(sources, BATCH, 7, 0, (0, 1)), 6)
    assert [inputs["input_ids"].shape[1] for inputs, _ in whole] == [T, T + 8] * 3
    for number, source in enumerate(sources):
        alone = taken(pretraining_batches(source, BATCH, 7 + number), 3)
        assert_same(whole[number::2], alone)
    assert_same(taken(mixed_batches(sources, BATCH, 7, 3, (0, 1)), 3), whole[3:])
