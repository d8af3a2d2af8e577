import dataclasses
import json

import numpy as np
import pytest

from albert_tf import models
from albert_tf.config import SHARING, SIZES, AlbertConfig, applied_parameters, group_schedule
from albert_tf.config import parameters as parameters_of
from albert_tf.errors import UserError

GOOGLE = json.loads(
    """{"attention_probs_dropout_prob": 0.1, "down_scale_factor": 1, "embedding_size": 128,
    "gap_size": 0, "hidden_act": "gelu", "hidden_dropout_prob": 0.1, "hidden_size": 768,
    "initializer_range": 0.02, "inner_group_num": 1, "intermediate_size": 3072,
    "max_position_embeddings": 512, "net_structure_type": 0, "num_attention_heads": 12,
    "num_hidden_groups": 1, "num_hidden_layers": 12, "num_memory_blocks": 0,
    "type_vocab_size": 2, "vocab_size": 30000}"""
)


def test_google_and_hugging_face_mean_different_functions_by_gelu():
    assert AlbertConfig.from_dict(GOOGLE) == AlbertConfig.from_size("base-v1")
    assert AlbertConfig.from_dict(GOOGLE).hidden_act == "gelu_new"
    assert AlbertConfig.from_dict({**GOOGLE, "model_type": "albert"}).hidden_act == "gelu"
    assert AlbertConfig.from_dict({**GOOGLE, "hidden_act": "relu"}).hidden_act == "relu"


@pytest.mark.parametrize("name", SIZES)
def test_dict_round_trip(name):
    config = AlbertConfig.from_size(name, id2label={0: "no", 1: "yes", 2: "maybe"})
    assert AlbertConfig.from_dict(json.loads(json.dumps(config.to_dict()))) == config


def test_v1_and_v2_differ_in_dropout_only_and_v2_is_the_default():
    v1, v2 = AlbertConfig.from_size("large-v1"), AlbertConfig.from_size("large-v2")
    assert (v1.hidden_dropout_prob, v2.hidden_dropout_prob) == (0.1, 0.0)
    assert dataclasses.replace(v1, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0) == v2
    assert AlbertConfig.from_size("large") == v2
    assert AlbertConfig.from_size("xxlarge-v1").hidden_dropout_prob == 0.0


def test_is_frozen_and_hashable():
    config, same, other = (AlbertConfig(id2label={0: label}) for label in ("a", "a", "b"))
    with pytest.raises(dataclasses.FrozenInstanceError, match="hidden_size"):
        config.hidden_size = 3
    assert hash(config) == hash(same) != hash(other)


def test_labels():
    assert AlbertConfig().num_labels == 2
    assert AlbertConfig().labels == ("LABEL_0", "LABEL_1")
    assert AlbertConfig.from_dict({"num_labels": 3}).labels == ("LABEL_0", "LABEL_1", "LABEL_2")
    assert AlbertConfig.from_dict({"_num_labels": 5}).num_labels == 5  # an old name
    read = AlbertConfig.from_dict({"id2label": {"1": "good", "0": "bad"}})
    assert list(read.id2label.items()) == [(0, "bad"), (1, "good")]
    assert read.to_dict()["label2id"] == {"bad": 0, "good": 1}


@pytest.mark.parametrize(
    ("changes", "labels"),
    [
        ({}, ("bad", "good")),
        ({"num_labels": 2}, ("bad", "good")),
        ({"num_labels": 3}, ("LABEL_0", "LABEL_1", "LABEL_2")),
        ({"id2label": {"1": "b", "0": "a"}}, ("a", "b")),
        ({"label2id": {"b": 1, "a": 0}}, ("a", "b")),
        ({"id2label": None}, ("LABEL_0", "LABEL_1")),
    ],
)
def test_labels_are_replaced(changes, labels):
    config = AlbertConfig(id2label={0: "bad", 1: "good"})
    assert config.replace(**changes).labels == labels


def test_replacements_that_contradict():
    with pytest.raises(ValueError, match="number of names in id2label. Received: num_labels=3"):
        AlbertConfig().replace(num_labels=3, id2label={0: "a"})
    with pytest.raises(TypeError, match="Unknown option colour, size: .* a field of AlbertConfig"):
        AlbertConfig().replace(size=3, colour=2)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"hidden_size": 21, "num_attention_heads": 5}, "multiple of num_attention_heads.*=21"),
        ({"num_hidden_layers": 3, "num_hidden_groups": 4}, "must not exceed.*=4.*=3"),
        ({"num_hidden_layers": 64, "inner_group_num": 64}, "num_hidden_layers . inner.* 1024"),
        ({"vocab_size": 0}, "vocab_size must be between 1 and 10000000. Received: vocab_size=0"),
        ({"embedding_size": 1.5}, "embedding_size must be a whole number.*=1.5"),
        ({"num_hidden_layers": True}, "num_hidden_layers must be a whole number.*=True"),
        ({"hidden_act": "mish"}, "hidden_act must be one of .*gelu_new.*mish"),
        ({"hidden_dropout_prob": 1.0}, "hidden_dropout_prob must be 0 or more and below 1"),
        ({"layer_norm_eps": 0.0}, "layer_norm_eps must be 1 or less and above 0"),
        ({"layer_norm_eps": float("nan")}, "layer_norm_eps must be 1 or less and above 0"),
        ({"num_labels": True}, "num_labels must be a whole number. Received: num_labels=True"),
        ({"thresholds": "0.5"}, "thresholds must be a list of numbers. Received: '0.5'"),
        ({"thresholds": ["0.5"]}, "thresholds must be a number. Received: thresholds='0.5'"),
        ({"thresholds": [float("nan")]}, "thresholds must be finite. Received: thresholds=nan"),
        ({"pad_token_id": 30000}, "pad_token_id must be null or an id below vocab_size"),
        ({"problem_type": "ranking"}, "problem_type must be one of"),
        ({"id2label": {0: "a", 2: "b"}}, "without a gap"),
        ({"id2label": {0: "a", 1: "a"}}, "two classes alike"),
    ],
)
def test_values_out_of_range(values, message):
    with pytest.raises(ValueError, match=message):
        AlbertConfig(**values)


NUMBERS = [field.name for field in dataclasses.fields(AlbertConfig) if field.type is int]


@pytest.mark.parametrize("field", [*NUMBERS, "num_labels"])
def test_numbers_have_bounds(field):
    """A file of a few bytes can't claim a model that no machine allocates."""
    with pytest.raises(UserError, match=f"{field} must be between 1 and .* Received: .*1000000000"):
        AlbertConfig.from_dict({field: 10**9})


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"hiden_size": 768}, "Unknown key 'hiden_size' in .*. Did you mean 'hidden_size'"),
        ({"pruned_heads": {"0": [1]}}, "pruned_heads must be empty"),
        ({"tie_word_embeddings": False}, "tie_word_embeddings must be True"),
        ({"model_type": "roberta"}, "model_type must be 'albert'.*'roberta'"),
        ({"net_structure_type": 1}, "net_structure_type must be 0.*Received: 1"),
        ({"position_embedding_type": "relative_key"}, "must be 'absolute'"),
        ({"id2label": {"a": "b"}}, "id2label must map class numbers to names"),
        ({"id2label": ["a", "b"]}, "id2label must map class numbers to names"),
        ({"id2label": {"0": ["a"]}}, "id2label must have text as names"),
        ({"id2label": {"0": "\ud800"}}, "id2label must have text as names"),
        ({"num_labels": 0}, "num_labels must be between 1 and 1000000"),
        ({"hidden_size": 21, "model_type": "albert"}, "not valid. hidden_size must be a multiple"),
    ],
)
def test_configurations_of_other_models(tmp_path, values, message):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(values))
    with pytest.raises(UserError, match=message) as raised:
        AlbertConfig.from_json_file(path)
    assert str(path) in str(raised.value)


# Keys besides a model's own that transformers 2.3 to 5, google-research/albert and
# brightmart/albert_zh wrote, with their values there.
OTHERS = """{"finetuning_task": "sst-2", "is_decoder": false, "num_labels": 2, "output_past": true,
    "pruned_heads": {}, "torchscript": false, "use_bfloat16": false, "bos_token_id": 2,
    "eos_token_ids": 0, "length_penalty": 1.0, "num_beams": 1, "repetition_penalty": 1.0,
    "temperature": 1.0, "_num_labels": 2, "bad_words_ids": null, "prefix": null, "top_k": 50,
    "name_or_path": "albert-base-v2", "chunk_size_feed_forward": 0, "return_dict": false,
    "tie_encoder_decoder": false, "xla_device": null, "classifier_dropout_prob": null,
    "position_embedding_type": "absolute", "torch_dtype": "float32", "typical_p": 1.0,
    "dtype": "float32", "transformers_version": "5.0.0", "down_scale_factor": 1, "gap_size": 0,
    "net_structure_type": 0, "directionality": "bidi", "ln_type": "postln",
    "pooler_fc_size": 768}"""


def test_files_of_all_ages(caplog):
    own = {"hidden_size": 768, "num_attention_heads": 12}
    assert AlbertConfig.from_dict({**own, **json.loads(OTHERS)}) == AlbertConfig(**own)
    assert not caplog.records


def test_unknown_keys_are_warned_of(caplog):
    values = {"quantization_config": {"bits": 8}, "share_type": "all", "\x1b[2J": 1}
    assert AlbertConfig.from_dict(values) == AlbertConfig()
    (record,) = caplog.records
    assert record.getMessage() == (
        "Unknown keys in the configuration are ignored: '\\x1b[2J', 'quantization_config', "
        "'share_type'."
    )


def test_unknown_size():
    with pytest.raises(UserError, match="one of base-v1, .*Received: 'huge'"):
        AlbertConfig.from_size("huge")


def test_thresholds_are_written_only_if_set():
    assert "thresholds" not in AlbertConfig().to_dict()
    config = AlbertConfig(thresholds=[0.25, 1])
    assert config.thresholds == (0.25, 1.0)
    assert AlbertConfig.from_dict(json.loads(json.dumps(config.to_dict()))) == config


def test_the_schedule_of_groups_is_the_originals_up_to_17_layers():
    for layers in range(1, 18):
        for groups in range(1, layers + 1):
            original = [int(layer / layers * groups) for layer in range(layers)]
            assert group_schedule(layers, groups) == original


@pytest.mark.parametrize("share", SHARING)
@pytest.mark.parametrize(("groups", "inner"), [(1, 1), (2, 3)])
def test_a_model_has_as_many(small_config, share, groups, inner):
    """Every variable once, and every kernel as often as a pass applies it."""
    config = dataclasses.replace(
        small_config, share=share, num_hidden_groups=groups, inner_group_num=inner
    )
    model = models.AlbertModel(config)
    assert parameters_of(config) == model.count_params()
    visited = [block for group in model.encoder.schedule for block in model.encoder.group(group)]
    layers = [model.embedding.projection, *visited, model.pooler]
    kernels = [each for layer in layers for each in layer.weights if each.name == "kernel"]
    applied = [model.embedding.word_embeddings, *kernels]
    assert applied_parameters(config) == sum(np.prod(each.shape) for each in applied)


@pytest.mark.parametrize(
    ("size", "parameters", "applied"),
    [
        ("base", 11_683_584, 89e6),
        ("large", 17_683_968, 307e6),
        ("xlarge", 58_724_864, 1216e6),
        ("xxlarge", 222_595_584, 2437e6),
    ],
)
def test_published_sizes(size, parameters, applied):
    """Parameters: the released checkpoints'. Applied: the figures in the paper's notes."""
    for version in ("", "-v1", "-v2"):
        assert parameters_of(AlbertConfig.from_size(size + version)) == parameters
    found = applied_parameters(AlbertConfig.from_size(size))
    assert found == pytest.approx(applied, abs=5e5)
