"""BERT folders: names, sizes, and outputs like those of transformers."""

import json
import re
import shutil

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import albert_tf
from albert_tf.checkpoints import bert, hugging_face
from albert_tf.errors import UserError
from tests.checkpoints.tensors import assert_equal
from tests.text.conftest import wordpiece_tables_of

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
    """Returns BERT's name for an ALBERT tensor."""
    name = name.removeprefix("albert.").replace("pooler.", "pooler.dense.")
    match = re.fullmatch(r"encoder\.albert_layer_groups\.(\d+)\.albert_layers\.0\.(.*)", name)
    if match:
        part, kind = match[2].rsplit(".", 1)
        (theirs,) = (theirs for theirs, ours in bert._PARTS.items() if ours == part)
        name = f"encoder.layer.{match[1]}.{theirs}.{kind}"
    return f"bert.{name}"


@pytest.fixture(scope="module")
def saved(scrambled, tmp_path_factory):
    """Returns a BERT folder, and the model that was saved in it."""
    folder = tmp_path_factory.mktemp("saved")
    sizes = {**SIZES, "embedding_size": 20, "num_hidden_groups": 3}
    ids = {"bos_token_id": None, "eos_token_id": None}
    config = albert_tf.AlbertConfig(hidden_act="gelu", **sizes, **ids)
    model = scrambled(albert_tf.AlbertModel(config))
    model.embedding.projection.set_weights([np.eye(20), np.zeros(20)])
    model.save_pretrained(folder / "albert")
    tensors = load_file(folder / "albert" / "model.safetensors")
    renamed = {as_bert(name): value for name, value in tensors.items() if "mapping_in" not in name}
    path = folder / "bert"
    path.mkdir()
    save_file(renamed, path / "model.safetensors", {"format": "pt"})
    (path / "config.json").write_text(json.dumps({"model_type": "bert", **SIZES}))
    (path / "vocab.txt").write_text("\n".join(VOCAB))
    return path, model


@pytest.fixture
def folder(saved, tmp_path):
    """Returns a copy that a test may change."""
    path, model = saved
    return shutil.copytree(path, tmp_path / "bert"), model


@pytest.fixture
def ascii_characters():
    with wordpiece_tables_of([range(1, 128)]):
        yield


@pytest.mark.usefixtures("ascii_characters")
def test_a_bert_is_an_albert_with_a_group_for_each_layer(saved, tmp_path):
    path, model = saved
    found = albert_tf.AlbertModel.from_pretrained(path)
    assert (found.config.embedding_size, found.config.num_hidden_groups) == (20, 3)
    assert found.config.hidden_act == "gelu" and found.config.hidden_dropout_prob == 0.1
    found.save_pretrained(tmp_path / "saved")
    assert json.loads((tmp_path / "saved" / "config.json").read_text())["model_type"] == "albert"
    expected = model(FEATURES)
    for each in (found, albert_tf.AlbertModel.from_pretrained(tmp_path / "saved")):
        assert_equal(each(FEATURES), expected)
    tokenizer = albert_tf.AlbertTokenizer.from_pretrained(path)
    assert tokenizer("It rained.")["input_ids"] == [2, 5, 6, 7, 8, 3]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"position_embedding_type": "relative_key"}, "position_embedding_type .*'absolute'"),
        ({"is_decoder": True}, "is_decoder .*false.* True"),  # attends to the tokens before
        ({"add_cross_attention": True}, "add_cross_attention .*false.* True"),
        ({"type_vocab_size": 1, "pad_token_id": 1}, "pad_token_id=1.*Choose a BERT"),  # RoBERTa's
        ({"model_type": "roberta"}, "the checkpoint's config.json, with model_type 'bert'"),
        (None, "the checkpoint's config.json, with model_type 'bert'"),
    ],
)
def test_other_models_are_refused(folder, changes, message):
    path, model = folder
    (path / "config.json").unlink()
    if changes is not None:
        (path / "config.json").write_text(json.dumps({"model_type": "bert", **SIZES, **changes}))
    given = {"config": model.config} if "json" in message else {}
    with pytest.raises(UserError, match=message):
        albert_tf.AlbertModel.from_pretrained(path, **given)


def test_a_head_of_another_task_is_refused(folder):
    path, _ = folder
    values = {"model_type": "bert", **SIZES, "architectures": ["TFBertForSequenceClassification"]}
    (path / "config.json").write_text(json.dumps(values))
    with pytest.raises(UserError, match="contains an AlbertForSequenceClassification"):
        albert_tf.pipeline("token-classification", str(path))


@pytest.mark.parametrize("rename", [hugging_face.from_keras, hugging_face.from_flax])
def test_heads_of_tensorflow_and_flax(rename):
    transform, order = np.ones((3, 2), "float32"), np.ones((3, 5), "float32")
    given = {
        "mlm___cls/predictions/transform/dense/kernel": transform,
        "cls/predictions/transform/LayerNorm/beta": transform[0],
        "nsp___cls/seq_relationship/kernel": order,
        "bert/pooler/dense/kernel": transform,
    }
    shapes = {name: value.shape for name, value in bert.albert_tensors(rename(given))}
    assert shapes == {
        "predictions.dense.weight": (2, 3),
        "predictions.LayerNorm.bias": (2,),
        "sop_classifier.classifier.weight": (5, 3),
        "pooler.weight": (2, 3),
    }


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
    torch = pytest.importorskip("torch", reason="needs torch (pip install albert_tf[peers])")
    transformers = pytest.importorskip(
        "transformers", reason="needs transformers (pip install albert_tf[peers])"
    )
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
