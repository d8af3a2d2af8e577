import dataclasses
import itertools
import os

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.data.pretraining import records, rng
from albert_tf.data.pretraining.batches import (
    batches_per_source,
    evaluation_batches,
    mixed_batches,
    pretraining_batches,
)
from albert_tf.data.pretraining.masking import word_table
from albert_tf.data.pretraining.pairs import Pairs, swapped
from albert_tf.data.pretraining.sources import find_records, stored_records
from albert_tf.errors import UserError
from albert_tf.tasks import INPUTS, MASKED_LM_LABELS, MASKED_LM_POSITIONS, SENTENCE_ORDER_LABEL
from tests.data.pretraining.conftest import COUNTS, FIRST, P, T, masked_features

SEED = int(os.environ["ALBERT_TF_SEED"])
BATCH = 4
N = sum(COUNTS)  # 59: 14 batches, and 3 records left over
STEPS = N // BATCH
SMALL = {"shuffle_records": 11}  # windows of two batches


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
    made = masked_features(pairs, ids, table, directory.options)
    inputs = {
        "input_ids": made["input_ids"],
        "attention_mask": made["input_mask"],
        "token_type_ids": made["segment_ids"],
        "masked_lm_positions": made["masked_lm_positions"],
    }
    labels = np.where(made["masked_lm_weights"] > 0, made["masked_lm_ids"], -100)
    return inputs, {"labels": labels, "sentence_order_label": made["next_sentence_labels"]}


def rows_of(batch):
    inputs, labels = batch
    columns = [inputs[feature.name] for feature in INPUTS]
    columns += [inputs["masked_lm_positions"], labels["labels"], labels["sentence_order_label"]]
    columns = [np.asarray(column, "int32") for column in columns]
    return [tuple(row.tobytes() for row in rows) for rows in zip(*columns, strict=True)]


@pytest.fixture(scope="module", params=["dynamic", "static"])
def directory(request):
    return request.getfixturevalue(request.param)


@pytest.fixture(scope="module")
def dataset(directory):
    return pretraining_batches(directory.source, BATCH, SEED, **SMALL)


@pytest.fixture(scope="module")
def whole_static(static):
    return taken(pretraining_batches(static.source, BATCH, SEED, **SMALL), 3 * STEPS)


@pytest.fixture(scope="module")
def everything(directory):
    """Returns the evaluation batches of two passes."""
    dataset = evaluation_batches(directory.source, BATCH, SEED)
    assert dataset.cardinality() == STEPS + 1
    return taken(dataset, -1), taken(dataset, -1)


def test_batches_follow_the_schema(dataset):
    assert dataset.cardinality() == tf.data.INFINITE_CARDINALITY
    # The end of an iterator would wait for the tuner, up to a minute.
    assert dataset.options().autotune.enabled is False
    inputs, labels = dataset.element_spec
    found = {name: (spec.shape, spec.dtype) for name, spec in (inputs | labels).items()}
    shapes = {
        **dict.fromkeys(INPUTS, (BATCH, T)),
        MASKED_LM_POSITIONS: (BATCH, P),
        MASKED_LM_LABELS: (BATCH, P),
        SENTENCE_ORDER_LABEL: (BATCH,),
    }
    assert found == {feature.name: (shape, feature.dtype) for feature, shape in shapes.items()}


def test_dynamic_records_are_masked_by_seed_epoch_and_record(dynamic):
    tf.random.set_seed(5)  # changes no batch
    made = [{*rows_of(made_in_numpy(dynamic, epoch))} for epoch in range(2)]
    assert len(made[0] | made[1]) > 1.9 * N  # another mask in each epoch
    for batch_size, options in ((BATCH, SMALL), (7, {})):
        steps = find_records(dynamic.path).steps_per_epoch(batch_size)
        found = taken(pretraining_batches(dynamic.path, batch_size, SEED, **options), 2 * steps)
        for epoch in range(2):
            rows = flat(map(rows_of, found[epoch * steps : (epoch + 1) * steps]))
            assert len(set(rows)) == steps * batch_size
            assert set(rows) <= made[epoch]


def test_each_epoch_has_every_record_once_in_another_order(static, whole_static):
    found = numbers(whole_static)
    epochs = [flat(found[start : start + STEPS]) for start in range(0, 3 * STEPS, STEPS)]
    for epoch in epochs:
        assert len(set(epoch)) == STEPS * BATCH
        assert epoch != sorted(epoch)
    assert epochs[0] != epochs[1] != epochs[2] != epochs[0]


def test_the_order_depends_on_the_seed_alone(static, whole_static):
    files = find_records(static.source)
    tf.random.set_seed(7)
    again = taken(pretraining_batches(files, BATCH, SEED, **SMALL), 3 * STEPS)
    assert numbers(again) == numbers(whole_static)
    other = taken(pretraining_batches(files, BATCH, SEED + 1, **SMALL), STEPS)
    assert numbers(other) != numbers(whole_static)[:STEPS]


@pytest.mark.slow
def test_hosts_share_each_batch(dynamic):
    """Joins the parts of hosts to the batch of one host, masks included, also after a resume."""
    files = find_records(dynamic.path)
    whole = taken(pretraining_batches(files, BATCH, SEED, **SMALL), 12)
    first = taken(pretraining_batches(files, BATCH, SEED, part=(0, 2), **SMALL), 12)
    late = taken(pretraining_batches(files, BATCH, SEED, 10, part=(1, 2), **SMALL), 2)
    for batch, half in zip(whole, first, strict=True):
        assert rows_of(half) == rows_of(batch)[: BATCH // 2]
    for batch, half in zip(whole[10:], late, strict=True):
        assert rows_of(half) == rows_of(batch)[BATCH // 2 :]


@pytest.mark.parametrize(
    ("mode", "start", "options"),
    [
        pytest.param("static", STEPS, {}, marks=pytest.mark.slow),
        ("static", STEPS + 5, {}),
        pytest.param("dynamic", STEPS + 5, {"length_buckets": True}, marks=pytest.mark.slow),
    ],
)
def test_a_run_resumes_in_the_middle(request, mode, start, options):
    files = find_records(request.getfixturevalue(mode).source)
    whole = taken(pretraining_batches(files, BATCH, SEED, **SMALL, **options), start + 4)
    rest = taken(pretraining_batches(files, BATCH, SEED, start, **SMALL, **options), 4)
    assert_same(rest, whole[start:])


def test_an_iterator_can_be_saved_and_restored(static, whole_static, tmp_path):
    dataset = pretraining_batches(static.source, BATCH, SEED, **SMALL)
    iterator, restored = iter(dataset), iter(dataset)
    for _ in range(STEPS - 3):
        next(iterator)
    path = tf.train.Checkpoint(iterator=iterator).write(str(tmp_path / "position"))
    tf.train.Checkpoint(iterator=restored).read(path).assert_consumed()
    expected = numbers(whole_static[STEPS - 3 : STEPS + 6])
    assert numbers(itertools.islice(restored, 9)) == expected


def test_length_buckets_pad_less_and_lose_nothing(directory, everything):
    dataset = pretraining_batches(directory.source, BATCH, SEED, length_buckets=True)
    bucketed = taken(dataset, STEPS)
    assert dataset.element_spec[0]["input_ids"].shape.as_list() == [BATCH, None]
    widths = {inputs["input_ids"].shape[1] for inputs, _ in bucketed}
    assert len(widths) > 2
    assert all(width % 5 == 0 and width <= T for width in widths)  # eighths of 40

    def unpadded(batches):
        found = set()
        for batch in batches:
            for row, length in zip(rows_of(batch), batch[0]["attention_mask"].sum(1), strict=True):
                found.add(tuple(column[: 4 * length] for column in row[:3]) + row[3:])
        return found

    assert len(unpadded(bucketed)) == STEPS * BATCH
    assert unpadded(bucketed) <= unpadded(everything[0])
    shares = [
        np.concatenate([inputs["attention_mask"].ravel() for inputs, _ in batches]).mean()
        for batches in (everything[0], bucketed)
    ]
    assert shares[1] > shares[0] + 0.1


def test_evaluation_sees_every_example_once_with_the_same_masks(everything):
    first, second = everything
    assert_same(first, second)
    sizes = [len(labels["labels"]) for _, labels in first]
    assert sizes == [BATCH] * STEPS + [N - STEPS * BATCH]
    assert len(set(flat(map(rows_of, first)))) == N


@pytest.mark.parametrize(("pair_task", "label"), [("nsp", 1), ("none", -100)])
def test_only_pairs_for_sentence_order_are_swapped(dynamic, tmp_path, pair_task, label):
    options = dataclasses.replace(dynamic.options, pair_task=pair_task, masked_lm_prob=0.0)
    dataclasses.replace(
        dynamic,
        path=tmp_path,
        options=options,
        record=lambda number: dynamic.record(number) | {"next_sentence_labels": [label]},
    ).write()
    ((inputs, labels),) = evaluation_batches(tmp_path, N)
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


def test_a_data_service_gives_the_same_batches(dynamic):
    dataset = pretraining_batches(dynamic.path, BATCH, SEED, **SMALL)
    service = tf.data.experimental.service
    dispatcher = service.DispatchServer()
    address = dispatcher.target.split("://")[1]
    worker = service.WorkerServer(service.WorkerConfig(dispatcher_address=address))
    served = dataset.apply(
        service.distribute(service.ShardingPolicy.OFF, service=dispatcher.target)
    )
    assert_same(taken(served, STEPS + 3), taken(dataset, STEPS + 3))
    del worker


def test_a_batch_that_hosts_cannot_share_evenly_is_refused(static):
    with pytest.raises(UserError, match=r"Received: part=\(0, 2\), batch_size=5"):
        pretraining_batches(find_records(static.source), 5, part=(0, 2))


def test_batches_of_each_source():
    found = [batches_per_source(3, steps) for steps in (0, 2, 3, 4)]
    assert found == [[0, 0, 0], [1, 1, 0], [1, 1, 1], [2, 1, 1]]


@pytest.mark.slow
def test_batches_take_turns_and_resume(dynamic):
    short = find_records(dynamic.path)
    long = dataclasses.replace(short, max_seq_length=T + 8)
    sources = short, short, long
    whole = taken(mixed_batches(sources, BATCH, 7, 0, (0, 1)), 6)
    assert [inputs["input_ids"].shape[1] for inputs, _ in whole] == [T, T, T + 8] * 2
    for number, source in enumerate(sources):
        alone = taken(pretraining_batches(source, BATCH, 7 + number), 2)
        assert_same(whole[number::3], alone)
    assert_same(taken(mixed_batches(sources, BATCH, 7, 4, (0, 1)), 2), whole[4:])
