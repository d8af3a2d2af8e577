import dataclasses
import itertools
import os

import keras
import numpy as np
import pytest
import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.data.pretraining import masking, records, rng
from albert_tf.data.pretraining.batches import (
    batches_per_source,
    evaluation_batches,
    mixed_batches,
    pretraining_batches,
)
from albert_tf.data.pretraining.masking import Unmasked, word_table
from albert_tf.data.pretraining.sources import find_records
from albert_tf.errors import UserError
from albert_tf.models import AlbertForMaskedLM, AlbertForPreTraining
from albert_tf.optimizers import AlbertAdamW
from albert_tf.tasks import INPUTS, MASKED_LM_LABELS, MASKED_LM_POSITIONS, SENTENCE_ORDER_LABEL

SEED = int(os.environ["ALBERT_TF_SEED"])
T, P, BATCH, FIRST = 40, 5, 4, 5
COUNTS = (13, 0, 9, 31, 6)
N = sum(COUNTS)  # 59: 14 batches, and 3 records left over
STEPS = N // BATCH
SMALL = {"shuffle_records": 11}  # windows of two batches


def arrays(batches):
    return [tf.nest.map_structure(np.asarray, batch) for batch in batches]


def taken(dataset, count):
    return arrays(dataset.take(count))


def assert_same(found, expected):
    assert len(found) == len(expected)
    tf.nest.map_structure(np.testing.assert_array_equal, found, expected)


def numbers(batches):
    """Returns the numbers of the static records in each batch."""
    return [(inputs["input_ids"][:, 0] - FIRST).tolist() for inputs, _ in batches]


def flat(lists):
    return list(itertools.chain.from_iterable(lists))


def made_in_numpy(directory, number, epoch, seed):
    """Returns the features of one dynamic record, swapped and masked."""
    key = rng.fold_in(rng.key(seed, "masks"), epoch, [number])
    swap = rng.uniform(key, 0, 0)[0, 0] < 0.5
    table, record = word_table(directory.tokenizer), directory.record(number)
    first, second = (record["segment_b" if swap == turn else "segment_a"] for turn in (0, 1))
    ids = [table.classify_id, *second, table.separate_id, *first, table.separate_id]
    at, length, end = np.arange(T), len(ids), len(second) + 2
    row = np.array([ids + [table.pad_id] * (T - length)], "int32")
    rows = Unmasked(row, np.array([length]), np.array([end]))
    masked = masking.mask(rows, key, table, directory.options)
    counted = np.arange(P) < masked.counts[0]
    return (
        masked.ids[0],
        at < length,
        (at >= end) & (at < length),
        masked.positions[0],
        np.where(counted, masked.labels[0], -100),
        np.array(swap),
    )


def rows_of(batch):
    inputs, labels = batch
    columns = [inputs[feature.name] for feature in INPUTS]
    columns += [inputs["masked_lm_positions"], labels["labels"], labels["sentence_order_label"]]
    return [tuple(map(as_bytes, row)) for row in zip(*columns, strict=True)]


def as_bytes(row):
    return np.asarray(row, "int32").tobytes()


@pytest.fixture(scope="module", params=["dynamic", "static"])
def directory(request):
    return request.getfixturevalue(request.param)


@pytest.fixture(scope="module")
def dataset(directory):
    return pretraining_batches(directory.source, BATCH, SEED, **SMALL)


@pytest.fixture(scope="module")
def whole(dataset):
    return taken(dataset, 3 * STEPS)


@pytest.fixture(scope="module")
def whole_static(static):
    return taken(pretraining_batches(static.source, BATCH, SEED, **SMALL), 3 * STEPS)


@pytest.fixture(scope="module")
def everything(directory):
    """Returns the evaluation batches of two passes."""
    dataset = evaluation_batches(directory.source, BATCH, SEED)
    assert dataset.cardinality() == STEPS + 1
    return arrays(dataset), arrays(dataset)


def test_batches_follow_the_schema(dataset):
    assert dataset.cardinality() == tf.data.INFINITE_CARDINALITY
    inputs, labels = dataset.element_spec
    assert {name: spec.shape for name, spec in (inputs | labels).items()} == {
        **dict.fromkeys([feature.name for feature in INPUTS], (BATCH, T)),
        "masked_lm_positions": (BATCH, P),
        "labels": (BATCH, P),
        "sentence_order_label": (BATCH,),
    }
    for feature in (*INPUTS, MASKED_LM_POSITIONS):
        assert inputs[feature.name].dtype == feature.dtype
        assert inputs[feature.name].shape.rank == len(feature.shape)
    for feature in (MASKED_LM_LABELS, SENTENCE_ORDER_LABEL):
        assert labels[feature.name].dtype == feature.dtype
        assert labels[feature.name].shape.rank == len(feature.shape)


def test_dynamic_records_are_masked_by_seed_epoch_and_record(dynamic):
    tf.random.set_seed(5)  # changes no batch
    made = [
        {tuple(map(as_bytes, made_in_numpy(dynamic, number, epoch, SEED))) for number in range(N)}
        for epoch in range(2)
    ]
    assert len(made[0] | made[1]) > 1.9 * N  # another mask in each epoch
    for batch_size, options in ((BATCH, SMALL), (7, {})):
        steps = find_records(dynamic.path).steps_per_epoch(batch_size)
        found = taken(pretraining_batches(dynamic.path, batch_size, SEED, **options), 2 * steps)
        for epoch in range(2):
            rows = flat(map(rows_of, found[epoch * steps : (epoch + 1) * steps]))
            assert len(set(rows)) == steps * batch_size
            assert set(rows) <= made[epoch]


def test_the_end_of_an_iterator_waits_for_no_tuner(static):
    for batches in (
        pretraining_batches(static.source, BATCH),
        evaluation_batches(static.source, BATCH),
    ):
        assert batches.options().autotune.enabled is False


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
    files, count = find_records(dynamic.path), 2
    whole = taken(pretraining_batches(files, BATCH, SEED, **SMALL), 12)
    hosts = [
        pretraining_batches(files, BATCH, SEED, start, part=(index, count), **SMALL)
        for index, start in ((0, 0), (1, 10))
    ]
    first, late = taken(hosts[0], 12), taken(hosts[1], 2)
    for step, batch in enumerate(whole):
        half, rest = rows_of(first[step]), rows_of(batch)[BATCH // count :]
        assert half == rows_of(batch)[: BATCH // count]
        assert step < 10 or rows_of(late[step - 10]) == rest


@pytest.mark.parametrize("start", [STEPS, STEPS + 5])
def test_a_run_resumes_in_the_middle(static, whole_static, start):
    rest = pretraining_batches(static.source, BATCH, SEED, start, **SMALL)
    assert_same(taken(rest, 4), whole_static[start : start + 4])


def test_a_run_with_dynamic_records_in_buckets_resumes_in_the_middle(dynamic):
    options = {**SMALL, "length_buckets": True}
    start = STEPS + 5
    uninterrupted = taken(pretraining_batches(dynamic.path, BATCH, SEED, **options), start + 4)
    rest = pretraining_batches(dynamic.path, BATCH, SEED, start, **options)
    assert_same(taken(rest, 4), uninterrupted[start:])


def test_an_iterator_can_be_saved_and_restored(static, whole_static, tmp_path):
    dataset = pretraining_batches(static.source, BATCH, SEED, **SMALL)
    iterator = iter(dataset)
    for _ in range(STEPS - 3):
        next(iterator)
    path = tf.train.Checkpoint(iterator=iterator).write(str(tmp_path / "position"))
    restored = iter(dataset)
    tf.train.Checkpoint(iterator=restored).read(path).assert_consumed()
    assert_same(arrays(itertools.islice(restored, 9)), whole_static[STEPS - 3 : STEPS + 6])


def test_length_buckets_pad_less_and_lose_nothing(directory, whole, everything):
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
        np.sum([inputs["attention_mask"].sum() for inputs, _ in batches])
        / np.sum([inputs["attention_mask"].size for inputs, _ in batches])
        for batches in (whole[:STEPS], bucketed)
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
    found = list(map(records.decode, records.read_records(path)))
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


@pytest.mark.parametrize("model_class", [AlbertForPreTraining, AlbertForMaskedLM])
def test_models_train_on_batches(static, model_class):
    config = AlbertConfig.from_size(
        "tiny", vocab_size=static.tokenizer.vocab_size, num_hidden_layers=1
    )
    keras.utils.set_random_seed(3)
    model = model_class(config)
    model.compile(AlbertAdamW(1e-3), run_eagerly=True)

    def of_model(batches):
        return batches.map(lambda x, y: (x, {name: y[name] for name in model.targets}))

    all_labels = pretraining_batches(static.source, BATCH, SEED, **SMALL)
    if model_class is AlbertForMaskedLM:
        with pytest.raises(ValueError, match="Received also: sentence_order_label"):
            model.fit(all_labels, steps_per_epoch=1, verbose=0)
    batches = of_model(all_labels)
    losses = model.fit(batches, steps_per_epoch=2, epochs=4, verbose=0).history["loss"]
    assert int(model.optimizer.iterations) == 8
    assert losses[-1] < losses[0]
    rest = of_model(evaluation_batches(static.source, N - 1).skip(1))  # a last, smaller batch
    assert 0 < model.evaluate(rest, verbose=0) < losses[0]


def test_a_data_service_gives_the_same_batches(dynamic):
    dataset = pretraining_batches(dynamic.path, BATCH, SEED, **SMALL)
    service = tf.data.experimental.service
    dispatcher = service.DispatchServer()
    address = dispatcher.target.split("://")[1]
    config = service.WorkerConfig(dispatcher_address=address)
    worker = service.WorkerServer(config)
    served = dataset.apply(
        service.distribute(service.ShardingPolicy.OFF, service=dispatcher.target)
    )
    assert served.cardinality() == tf.data.INFINITE_CARDINALITY
    assert_same(taken(served, STEPS + 3), taken(dataset, STEPS + 3))
    del worker


def test_arguments_out_of_their_range_are_refused(static):
    files = find_records(static.source)
    with pytest.raises(UserError, match="batch_size must be 1 or more. Received: 0"):
        pretraining_batches(files, 0, SEED)
    with pytest.raises(
        UserError, match=r"multiple of count. Received: part=\(0, 2\), batch_size=5"
    ):
        pretraining_batches(files, 5, SEED, part=(0, 2))
    with pytest.raises(UserError, match=r"Received: part=\(2, 2\), batch_size=6"):
        pretraining_batches(files, 6, SEED, part=(2, 2))
    with pytest.raises(UserError, match="start must be 0 or more. Received: -1"):
        pretraining_batches(files, BATCH, SEED, start=-1)
    with pytest.raises(UserError, match="An epoch must have a batch"):
        pretraining_batches(files, 60, SEED)


@pytest.mark.parametrize("sources", [1, 2, 3])
def test_batches_of_each_source(sources):
    for steps in range(3 * sources + 2):
        turns = [step % sources for step in range(steps)]
        assert batches_per_source(sources, steps) == [turns.count(at) for at in range(sources)]


@pytest.mark.slow
def test_batches_take_turns_and_resume(dynamic):
    short = find_records(dynamic.path)
    long = dataclasses.replace(short, max_seq_length=short.max_seq_length + 8)

    def batches(start, count):
        mixed = mixed_batches([short, short, long], 4, 7, start, (0, 1))
        return list(mixed.take(count).as_numpy_iterator())

    def ids(batch):
        return batch[0]["input_ids"]

    whole = batches(0, 6)
    widths = [ids(batch).shape[1] - short.max_seq_length for batch in whole]
    assert widths == [0, 0, 8, 0, 0, 8]
    alone = [
        iter(pretraining_batches(source, 4, seed).as_numpy_iterator())
        for source, seed in zip((short, short, long), (7, 8, 9), strict=True)
    ]
    for batch, source in zip(whole, (0, 1, 2) * 2, strict=True):
        np.testing.assert_array_equal(ids(batch), ids(next(alone[source])))
    for resumed, batch in zip(batches(4, 2), whole[4:], strict=True):
        np.testing.assert_array_equal(ids(resumed), ids(batch))
        np.testing.assert_array_equal(resumed[1]["labels"], batch[1]["labels"])
