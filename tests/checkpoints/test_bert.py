"""BERT's folders: their names and sizes, and outputs like transformers'."""

import json
import re

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import albert_tf
from albert_tf.checkpoints import names
from albert_tf.errors import UserError

VOCAB = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "it", "rain", "##ed", "."]
SIZES = {
    "vocab_size": len(VOCAB),
    "hidden_size": 20,
    "num_hidden_layers": 3,
    "num_attention_heads": 5,
    "intermediate_size": 28,
    "max_position_embeddings": 11,
    "type_vocab_size": 2,
}
FEATURES = {
    "input_ids": np.array([[2, 5, 6, 7, 8, 3], [2, 6, 3, 0, 0, 0]], "int32"),
    "attention_mask": np.array([[1] * 6, [1] * 3 + [0] * 3], "int32"),
    "token_type_ids": np.array([[0, 0, 0, 1, 1, 1], [0] * 6], "int32"),
}


def as_bert(name):
    """Returns BERT's name of a tensor of ALBERT's."""
    name = name.removeprefix("albert.").replace("pooler.", "pooler.dense.")
    match = re.fullmatch(r"encoder\.albert_layer_groups\.(\d+)\.albert_layers\.0\.(.*)", name)
    if match:
        part, kind = match[2].rsplit(".", 1)
        theirs = {ours: theirs for theirs, ours in names._BERT_PARTS.items()}[part]
        name = f"encoder.layer.{match[1]}.{theirs}.{kind}"
    return f"bert.{name}"


@pytest.fixture
def folder(scrambled, tmp_path):
    """A BERT's folder, and the model that was written to it."""
    config = albert_tf.AlbertConfig(
        **SIZES,
        embedding_size=20,
        num_hidden_groups=3,
        hidden_act="gelu",
        bos_token_id=None,
        eos_token_id=None,
    )
    model = scrambled(albert_tf.AlbertModel(config))
    model.embedding.projection.set_weights([np.eye(20), np.zeros(20)])
    model.save_pretrained(tmp_path / "albert")
    tensors = load_file(tmp_path / "albert" / "model.safetensors")
    renamed = {as_bert(name): value for name, value in tensors.items() if "mapping_in" not in name}
    path = tmp_path / "bert"
    path.mkdir()
    save_file(renamed, path / "model.safetensors", {"format": "pt"})
    (path / "config.json").write_text(json.dumps({"model_type": "bert", **SIZES}))
    (path / "vocab.txt").write_text("\n".join(VOCAB))
    return path, model


def test_a_bert_is_an_albert_with_a_group_for_each_layer(folder):
    path, model = folder
    found = albert_tf.AlbertModel.from_pretrained(path)
    assert (found.config.embedding_size, found.config.num_hidden_groups) == (20, 3)
    assert found.config.hidden_act == "gelu" and found.config.hidden_dropout_prob == 0.1
    for one, other in zip(found(FEATURES).values(), model(FEATURES).values(), strict=True):
        np.testing.assert_array_equal(one, other)
    tokenizer = albert_tf.AlbertTokenizer.from_pretrained(path)
    assert tokenizer("It rained.")["input_ids"] == [2, 5, 6, 7, 8, 3]


def test_it_is_saved_as_an_albert(folder, tmp_path):
    path, model = folder
    albert_tf.AlbertModel.from_pretrained(path).save_pretrained(tmp_path / "saved")
    assert json.loads((tmp_path / "saved" / "config.json").read_text())["model_type"] == "albert"
    again = albert_tf.AlbertModel.from_pretrained(tmp_path / "saved")
    np.testing.assert_array_equal(again(FEATURES).pooler_output, model(FEATURES).pooler_output)


def test_other_positions_are_refused(folder):
    path, _ = folder
    values = {"model_type": "bert", **SIZES, "position_embedding_type": "relative_key"}
    (path / "config.json").write_text(json.dumps(values))
    with pytest.raises(UserError, match="position_embedding_type must be 'absolute'"):
        albert_tf.AlbertModel.from_pretrained(path)


@pytest.mark.peers
@pytest.mark.parametrize(
    ("task", "outputs"),
    [
        ("Model", ["last_hidden_state", "pooler_output"]),
        ("ForPreTraining", ["prediction_logits", "seq_relationship_logits"]),
        ("ForMaskedLM", ["logits"]),
        ("ForSequenceClassification", ["logits"]),
        ("ForTokenClassification", ["logits"]),
        ("ForQuestionAnswering", ["start_logits", "end_logits"]),
    ],
)
def test_outputs_are_transformers(task, outputs, tmp_path):
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    theirs = getattr(transformers, f"Bert{task}")(transformers.BertConfig(**SIZES)).eval()
    for parameter in theirs.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    theirs.save_pretrained(tmp_path)
    ours = getattr(albert_tf, f"Albert{task}").from_pretrained(tmp_path)
    with torch.no_grad():
        wanted = theirs(**{name: torch.tensor(value) for name, value in FEATURES.items()})
    found = ours(FEATURES)
    for name in outputs:
        own = {"seq_relationship_logits": "sop_logits"}.get(name, name)
        np.testing.assert_allclose(found[own], wanted[name].numpy(), atol=1e-5)
