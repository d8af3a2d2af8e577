"""Files of Hugging Face, Google, and BERT, of all ages."""

import json

import pytest

from albert_tf.config import AlbertConfig
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


def test_other_names_of_activations():
    """Source: ACT2CLS in transformers 4.57.6, activations.py."""
    for name in ("gelu_accurate", "gelu_fast", "gelu_python_tanh", "gelu_pytorch_tanh"):
        values = {"model_type": "albert", "hidden_act": name}
        assert AlbertConfig.from_dict(values) == AlbertConfig(hidden_act="gelu_new")
    assert AlbertConfig(hidden_act="gelu_python").hidden_act == "gelu"


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"hiden_size": 768}, "Unknown key 'hiden_size' in .*. Did you mean 'hidden_size'"),
        ({"pruned_heads": {"0": [1]}}, "pruned_heads must be empty"),
        ({"model_type": "roberta"}, "model_type must be 'albert'.*'roberta'"),
        ({"net_structure_type": 1}, "net_structure_type must be 0.*Received: 1"),
        ({"num_labels": 0}, "num_labels must be .*between 1 and 1000000"),
        ({"hidden_size": 21, "model_type": "albert"}, "invalid: hidden_size must be a multiple"),
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
