"""Rules for every task's model."""

import copy
import dataclasses
import itertools

import keras
import numpy as np
import pytest
from keras import ops

from albert_tf.errors import UserError
from albert_tf.models import AlbertForMaskedLM, AlbertModel
from tests.models.conftest import TASKS

# TensorFlow and torch save the tracing of a short run; JAX would compile every operation.
EAGERLY = keras.backend.backend() != "jax"
# For tests that trace a graph for each task.
QUICK = ("token classification", "answerability", "multiple choice")
FEW = pytest.mark.parametrize(
    "task",
    [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in TASKS],
    indirect=True,
)


def arrays(outputs):
    return {
        name: ops.convert_to_numpy(value)
        for name, value in outputs.items()
        if not isinstance(value, tuple)
    }


def assert_equal(ours, theirs, tolerance=0.0):
    assert ours.keys() == theirs.keys()
    for name in ours:
        np.testing.assert_allclose(ours[name], theirs[name], atol=tolerance, rtol=0, err_msg=name)


@FEW
def test_fit_with_the_models_loss(task, task_config):
    keras.utils.set_random_seed(1)
    model = task.model(dataclasses.replace(task_config, num_hidden_layers=1))
    model.compile(keras.optimizers.Adam(0.01))
    examples = {**task.inputs, **task.labels}
    history = model.fit(examples, epochs=30, batch_size=4, verbose=0).history
    assert history["loss"][-1] < 0.6 * history["loss"][0]


def split(task, names):
    """Returns the task's examples with the labels of these names among the features."""
    features = {name: label for name, label in task.labels.items() if name in names}
    rest = {name: label for name, label in task.labels.items() if name not in names}
    return {**task.inputs, **features}, rest


def places(task):
    """Every share of the labels that may stand among the features, and not all of them."""
    needed = ["start_positions"] if task.config.get("answerability") else []
    free = [name for name in task.labels if name not in needed]
    for count in range(len(free)):
        for names in itertools.combinations(free, count):
            yield [*needed, *names]


@FEW
@pytest.mark.parametrize("loss", [None, "by name"])
def test_labels_in_either_place(task, task_model, loss):
    if loss is not None:
        if task.config.get("answerability"):
            pytest.skip("one of its outputs is no class")
        loss = "sparse_categorical_crossentropy"
    task_model.compile("sgd", loss=loss, run_eagerly=EAGERLY)
    spread = [split(task, names) for names in places(task)]
    losses = [task_model.evaluate(*each, batch_size=4, verbose=0) for each in spread]
    losses += [task_model.test_on_batch(*each) for each in spread]
    losses.append(task_model.evaluate({**task.inputs, **task.labels}, batch_size=4, verbose=0))
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        for each in (*spread, ({**task.inputs, **task.labels},)):
            dataset = tf.data.Dataset.from_tensors(each if len(each) > 1 else each[0])
            losses.append(task_model.evaluate(dataset, verbose=0))
    terms = 1 if loss is None or "start_positions" not in task.labels else 2  # Keras adds up
    direct = float(task_model(task.inputs, **task.labels)["loss"])
    losses = [np.ravel(each)[0] for each in losses]  # Keras also lists each output's
    assert losses == pytest.approx([terms * direct] * len(losses), rel=1e-5)


def test_a_label_in_both_places(task, task_model):
    task_model.compile("sgd", run_eagerly=EAGERLY)
    names = list(task.labels)
    for fit in (task_model.fit, task_model.evaluate, task_model.train_on_batch):
        with pytest.raises(UserError, match=f"given once.* Received: {names[-1]} twice"):
            fit({**task.inputs, **task.labels}, {names[-1]: task.labels[names[-1]]})
    with pytest.raises(ValueError, match="labels are labels|labels are start.*Received also: sop"):
        task_model.evaluate(task.inputs, {**task.labels, "sop": task.labels[names[0]]})


@FEW
def test_sample_weight_scales_each_example(task, task_model):
    task_model.compile("sgd", run_eagerly=EAGERLY)
    examples = {**task.inputs, **task.labels}

    def loss(weights):  # Keras drops weights that come without `y`
        return task_model.evaluate(
            *split(task, next(places(task))),
            sample_weight=np.array(weights, "float32"),
            batch_size=4,
            verbose=0,
        )

    whole = task_model.evaluate(examples, batch_size=4, verbose=0)
    alone = [loss(row) for row in np.eye(4)]
    assert loss([1, 1, 1, 1]) == pytest.approx(whole, rel=1e-5)
    assert sum(alone) == pytest.approx(whole, rel=1e-5)
    assert loss([2, 0, 0.5, 0]) == pytest.approx(2 * alone[0] + 0.5 * alone[2], rel=1e-5)


def test_keras_file_round_trip(task, task_model, tmp_path):
    path = tmp_path / "model.keras"
    task_model.save(path)
    again = keras.models.load_model(path)
    assert again.config == task_model.config
    assert_equal(arrays(again(task.inputs)), arrays(task_model(task.inputs)))


def test_directory_round_trip(task, task_model, tmp_path):
    task_model.save_pretrained(tmp_path)
    again = task.model.from_pretrained(tmp_path)
    assert again.config == task_model.config
    assert again.newly_initialized == []
    assert_equal(arrays(again(task.inputs)), arrays(task_model(task.inputs)))


def test_head_of_a_bare_encoder_is_new(task, task_config, tmp_path, caplog):
    AlbertModel(task_config).save_pretrained(tmp_path)
    model = task.model.from_pretrained(tmp_path)
    assert model.newly_initialized
    for part in model.newly_initialized:
        assert part in caplog.text


def test_layers_on_request(task, task_config, scrambled):
    task_model = scrambled(task.model(dataclasses.replace(task_config, num_hidden_layers=3)))
    outputs = task_model(task.inputs, output_hidden_states=True, output_attentions=True)
    sequences = task.inputs["input_ids"].reshape(-1, 7).shape[0]
    assert [state.shape for state in outputs.hidden_states] == [(sequences, 7, 20)] * 4
    assert [weights.shape for weights in outputs.attentions] == [(sequences, 5, 7, 7)] * 3
    looped = arrays(task_model(task.inputs, unroll=False))
    assert_equal(looped, arrays(task_model(task.inputs)), 1e-5)


def test_embeddings_and_positions_instead_of_ids(task, task_model):
    table = ops.convert_to_numpy(task_model.albert.embedding.word_embeddings)
    inputs = dict(task.inputs)
    expected = arrays(task_model(inputs))
    ids = inputs.pop("input_ids")
    positions = np.broadcast_to(np.arange(7, dtype="int32"), ids.shape)
    found = task_model({**inputs, "inputs_embeds": table[ids], "position_ids": positions})
    assert_equal(arrays(found), expected, 1e-5)
    moved = task_model(
        {**inputs, "inputs_embeds": table[ids], "position_ids": positions[..., ::-1]}
    )
    name = next(iter(expected))
    assert np.abs(arrays(moved)[name] - expected[name]).max() > 1e-3


def test_masks_of_queries_and_keys(task, task_model):
    inputs = dict(task.inputs)
    if task.config.get("answerability"):
        inputs["p_mask"] = np.zeros((4, 7), "float32")
    expected = arrays(task_model(inputs))
    mask = inputs["attention_mask"]
    inputs["attention_mask"] = np.repeat(mask[..., None, :], 7, axis=-2)
    assert_equal(arrays(task_model(inputs)), expected, 1e-5)


def test_rows_of_padding_alone_are_finite(task, task_model):
    inputs = {**task.inputs, "attention_mask": np.zeros_like(task.inputs["attention_mask"])}
    for values in arrays(task_model(inputs)).values():
        assert np.isfinite(values).all()


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "float16"])
def test_half_precision(task, task_config, scrambled, policy):
    whole = scrambled(task.model(task_config))
    half = scrambled(task.model(task_config, dtype=policy))
    outputs = half(task.inputs, **task.labels)
    for value in outputs.values():
        assert keras.backend.standardize_dtype(value.dtype) in ("float32", "int32")
    expected = whole(task.inputs, **task.labels)
    assert float(outputs["loss"]) == pytest.approx(float(expected["loss"]), abs=0.15)


@pytest.mark.slow
def test_training_in_half_precision(task, task_config):
    keras.utils.set_random_seed(1)
    config = dataclasses.replace(task_config, hidden_dropout_prob=0.1, num_hidden_layers=1)
    model = task.model(config, dtype="mixed_float16")
    model.compile(keras.optimizers.Adam(0.002), jit_compile=not EAGERLY)  # few examples: noisy
    losses = model.fit({**task.inputs, **task.labels}, epochs=16, verbose=0).history["loss"]
    assert np.isfinite(losses).all()
    assert losses[-1] < losses[0]


def test_weights_and_metrics_by_label(task, task_model):
    """Weights and metrics are dicts, by label or by output, or in the order of the labels."""
    if task.config.get("answerability"):
        pytest.skip("takes its labels among the features")
    names, loss = list(task_model.targets.values()), "sparse_categorical_crossentropy"
    generator = np.random.default_rng(4)
    weights = {name: generator.random(4).astype("float32") for name in task.labels}
    outputs = arrays(task_model(task.inputs))
    expected = {}
    for (label, values), name in zip(task.labels.items(), names, strict=True):
        right = (outputs[name].argmax(axis=-1) == values).reshape(4, -1).astype("float32")
        known = (values != -100).reshape(4, -1) * weights[label][:, None]
        expected[name] = (right * known).sum() / known.sum()
    task_model.compile("sgd", run_eagerly=EAGERLY)
    own = task_model.evaluate(task.inputs, task.labels, sample_weight=weights, verbose=0)
    single = len(names) == 1

    def in_order(values):
        return next(iter(values.values())) if single else tuple(values.values())

    def by_output(values):
        return dict(zip(names, values.values(), strict=True))

    for metrics, form in (
        ({name: ["accuracy"] for name in names}, dict),
        (dict.fromkeys(task.labels, "accuracy"), by_output),
        ([["accuracy"]] * len(names), in_order),
    ):
        task_model.compile(
            "sgd", loss=[loss] * len(names), weighted_metrics=metrics, run_eagerly=EAGERLY
        )
        results = task_model.evaluate(
            task.inputs, form(task.labels), sample_weight=form(weights), verbose=0, return_dict=True
        )
        scale = 2 if "start_positions" in task.labels else 1
        assert results["loss"] == pytest.approx(scale * own, rel=1e-5)
        for name, value in expected.items():
            key = "accuracy" if single else f"{name}_accuracy"
            assert results[key] == pytest.approx(value, abs=1e-6)


def test_training_without_labels_is_refused(task, task_model):
    task_model.compile("sgd", run_eagerly=EAGERLY)
    with pytest.raises(ValueError, match="The model's own loss needs .* Received none"):
        task_model.fit(task.inputs, verbose=0)


def test_lists_are_refused(task, task_model):
    ids = task.inputs["input_ids"].tolist()
    with pytest.raises(ValueError, match="must be arrays or tensors.*a list as input_ids"):
        task_model({**task.inputs, "input_ids": ids})
    with pytest.raises(ValueError, match="a list as attention_mask"):
        task_model(task.inputs["input_ids"], attention_mask=ids)


def test_an_unknown_input_is_refused(task, task_model):
    with pytest.raises(ValueError, match="Received also: input_mask"):
        task_model({**task.inputs, "input_mask": task.inputs["attention_mask"]})
    with pytest.raises(TypeError, match="unexpected keyword argument 'segment_ids'"):
        task_model(task.inputs, segment_ids=task.inputs["token_type_ids"])


@pytest.fixture
def masked_lm(tiny_tokenizer, small_config):
    """A model of the vocabulary's size, without its tokenizer."""
    return AlbertForMaskedLM(small_config.replace(vocab_size=len(tiny_tokenizer)))


def vocabulary(folder):
    path = folder / "spiece.model"
    return path.read_bytes() if path.exists() else None


def test_the_tokenizer_beside_the_weights(tiny_tokenizer, masked_lm, tmp_path):
    masked_lm.save_pretrained(tmp_path / "alone")
    assert masked_lm.tokenizer is None and vocabulary(tmp_path / "alone") is None
    assert AlbertForMaskedLM.from_pretrained(tmp_path / "alone").tokenizer is None
    masked_lm.tokenizer = tiny_tokenizer
    masked_lm.save_pretrained(tmp_path / "both")
    assert vocabulary(tmp_path / "both") == tiny_tokenizer.model_bytes
    again = AlbertForMaskedLM.from_pretrained(tmp_path / "both")
    again.save_pretrained(tmp_path / "copy")
    assert vocabulary(tmp_path / "copy") == tiny_tokenizer.model_bytes
    assert again.tokenizer.get_vocab() == tiny_tokenizer.get_vocab()
    again.tokenizer = None
    assert again.tokenizer is None


def test_only_a_used_tokenizer_replaces_another_one(tiny_tokenizer, masked_lm, tmp_path):
    """`tokenizer.save_pretrained(folder)` may come before the model's."""
    masked_lm.tokenizer = tiny_tokenizer
    masked_lm.save_pretrained(tmp_path / "model")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "spiece.model").write_bytes(b"another one")
    again = AlbertForMaskedLM.from_pretrained(tmp_path / "model")
    again.save_pretrained(tmp_path / "other")
    assert vocabulary(tmp_path / "other") == b"another one"
    assert again.tokenizer is not None
    again.save_pretrained(tmp_path / "other")
    assert vocabulary(tmp_path / "other") == tiny_tokenizer.model_bytes


def test_a_tokenizer_that_the_model_has_outgrown(tiny_tokenizer, masked_lm, tmp_path):
    masked_lm.tokenizer = tiny_tokenizer
    masked_lm.save_pretrained(tmp_path / "model")
    again = AlbertForMaskedLM.from_pretrained(tmp_path / "model")
    again.resize_token_embeddings(len(tiny_tokenizer) + 1)
    again.save_pretrained(tmp_path / "larger")
    assert vocabulary(tmp_path / "larger") is None
    masked_lm.resize_token_embeddings(len(tiny_tokenizer) + 1)
    with pytest.raises(UserError, match="must have the same vocabulary"):
        masked_lm.save_pretrained(tmp_path / "larger")


def test_keras_files_leave_the_tokenizer_alone(tiny_tokenizer, masked_lm, tmp_path):
    """Saving reads every attribute of a model, and a published vocabulary takes seconds."""
    masked_lm.tokenizer = tiny_tokenizer
    masked_lm.save_pretrained(tmp_path / "model")
    again = AlbertForMaskedLM.from_pretrained(tmp_path / "model")
    again.save(tmp_path / "model.keras")
    assert again._tokenizer is None
    assert keras.models.load_model(tmp_path / "model.keras").tokenizer is None


def test_keras_files_hold_a_tokenizer_that_was_set_or_used(tiny_tokenizer, masked_lm, tmp_path):
    tiny_tokenizer.model_max_length = 9
    masked_lm.tokenizer = tiny_tokenizer
    masked_lm.save(tmp_path / "model.keras")
    for again in (keras.models.load_model(tmp_path / "model.keras"), copy.deepcopy(masked_lm)):
        assert again.tokenizer.model_bytes == tiny_tokenizer.model_bytes
        assert again.tokenizer.model_max_length == 9
