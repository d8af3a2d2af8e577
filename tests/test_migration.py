"""The examples in docs/migration.md run on tiny models of every origin."""

import re
from pathlib import Path

import pytest

from albert_tf import cli
from albert_tf.checkpoints import google, keras_hub, weights
from albert_tf.config import AlbertConfig
from albert_tf.models import AlbertForPreTraining, AlbertForSequenceClassification
from albert_tf.text.tokenizer import AlbertTokenizer
from tests.checkpoints.presets import write_preset

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "migration.md").read_text(encoding="utf-8")


def section(title):
    """Returns the text from a heading of the second level to the next one."""
    return re.search(rf"^## {re.escape(title)}.*?(?=^## |\Z)", PAGE, re.DOTALL | re.MULTILINE)[0]


def blocks(text, language="python"):
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Runs code in the test's folder; returns its output."""
    monkeypatch.chdir(tmp_path)

    def run(code):
        exec(code, {})
        return capsys.readouterr().out

    return run


@pytest.fixture(scope="module")
def tokenizer(tiny_vocabulary):
    return AlbertTokenizer(tiny_vocabulary, model_max_length=24)


@pytest.fixture(scope="module")
def config(tokenizer):
    return AlbertConfig.from_size("tiny", vocab_size=tokenizer.vocab_size)


def tf4_name(name):
    """Returns the path of a tensor in a tf_model.h5 by `save_pretrained` of transformers 4.57."""
    steps = re.sub(r"(groups|layers)\.(\d+)", r"\1 \2", name).split(".")
    norm = any("LayerNorm" in step or "layer_norm" in step for step in steps)
    if steps[-1] == "weight" and not steps[-2].startswith("word"):
        steps[-1] = "gamma" if norm else "embeddings" if "embeddings" in steps else "kernel"
    if "embedding_hidden_mapping_in" in steps and steps[-1] == "embeddings":
        steps[-1] = "kernel"
    if norm and steps[-1] == "bias":
        steps[-1] = "beta"
    group = "classifier" if steps[0] == "classifier" else "albert"
    scope = "tf_albert_for_sequence_classification"
    inner = steps if group == "classifier" else ["albert", *steps]
    return "/".join([group, scope, *inner]).replace(" ", "_._") + ":0"


def write_tf4(folder, model):
    h5py = pytest.importorskip("h5py", reason="needs h5py, which Keras brings")
    model.save_pretrained(folder)
    (folder / "model.safetensors").unlink()
    with h5py.File(folder / "tf_model.h5", "w") as file:
        for name, tensor in weights.extract(model).items():
            place = tf4_name(name)
            file[place] = tensor.T if place.endswith("kernel:0") else tensor


@pytest.mark.slow
def test_from_transformers_4(config, tokenizer, tmp_path, run):
    model = AlbertForSequenceClassification(config)
    write_tf4(tmp_path / "my-tf4-model", model)
    tokenizer.save_pretrained(tmp_path / "my-tf4-model")
    output = run("\n".join(blocks(section("From `TFAlbert*`"))))
    assert "['classifier']" in output
    assert "'score'" in output
    assert (tmp_path / "my-model" / "model.safetensors").is_file()
    again = AlbertForSequenceClassification.from_pretrained(tmp_path / "my-tf4-model")
    for name, tensor in weights.extract(model).items():
        assert (weights.extract(again)[name] == tensor).all(), name


@pytest.fixture
def googles(config, tokenizer, tmp_path):
    """Returns a folder with Google's layout."""
    folder = tmp_path / "albert_base"
    model = AlbertForPreTraining(config)
    google.write(folder, config, weights.extract(model))
    for path in folder.glob("model.ckpt.*"):
        path.rename(path.with_name(path.name.replace("model.ckpt", "model.ckpt-best")))
    (folder / "checkpoint").unlink()
    (folder / "30k-clean.model").write_bytes(tokenizer.model_bytes)
    return tmp_path


@pytest.mark.slow
def test_from_google(googles, config, run):
    output = run("\n".join(blocks(section("From google-research/albert"))))
    assert f"(1, 1, {config.vocab_size}) (1, 2)" in output.replace("TensorShape", "")


def test_commands_from_google(googles, monkeypatch, capsys):
    monkeypatch.chdir(googles)
    commands = [
        line.split()[1:]
        for block in blocks(PAGE, "sh")
        for line in block.replace("\\\n", "").splitlines()
    ]
    assert {command[0] for command in commands} >= {"convert", "finetune", "build-data", "pretrain"}
    for command in commands:
        if command[0] == "convert":
            assert cli.main(command) == 0, capsys.readouterr().err
    assert (googles / "for-the-original-code" / "albert_config.json").is_file()


@pytest.mark.peers
@pytest.mark.slow
def test_from_keras_hub(config, tokenizer, tmp_path, run):
    model = AlbertForSequenceClassification(config)
    vocabulary = tmp_path / "my-preset" / keras_hub.VOCABULARY
    vocabulary.parent.mkdir(parents=True)
    vocabulary.write_bytes(tokenizer.model_bytes)
    write_preset(tmp_path / "my-preset", config, weights.extract(model))
    before, after = blocks(section("From KerasHub"))
    output = run(after + "print(new.count_params(), new.newly_initialized)")
    assert f"{model.count_params()} []" in output
    pytest.importorskip("keras_hub", reason="the page's other block needs keras-hub")
    compare = """
import numpy as np
ids = np.array([[2, 9, 14, 3, 0], [2, 5, 11, 6, 3]])
mask = ids > 0
theirs = old({"token_ids": ids, "segment_ids": 0 * ids, "padding_mask": mask})
ours = new({"input_ids": ids, "token_type_ids": 0 * ids, "attention_mask": mask}).logits
print("difference", np.abs(np.array(theirs) - np.array(ours)).max() < 1e-5)
"""
    assert "difference True" in run(before + after + compare)


def test_every_flag_of_the_original_has_its_line():
    """Checks the flags of google-research/albert's scripts for fine-tuning and pretraining."""
    text = section("From google-research/albert")
    flags = """albert_config_file albert_hub_module_handle cached_dir data_dir do_eval do_lower_case
        do_predict do_train doc_stride dropout_prob end_n_top eval_batch_size export_dir gcp_project
        high_only init_checkpoint init_from_group0 input_file iterations_per_loop
        keep_checkpoint_max learning_rate masked_lm_budget master max_answer_length
        max_eval_steps max_predictions_per_seq max_qa_length max_query_length max_seq_length
        middle_only n_best_size num_keep_checkpoint num_tpu_cores num_train_epochs num_train_steps
        num_warmup_steps optimizer output_dir poly_power
        predict_batch_size predict_feature_file predict_feature_left_file predict_file
        save_checkpoints_steps spm_model_file start_n_top start_warmup_step task_name tpu_name
        tpu_zone train_batch_size train_feature_file train_file train_step use_einsum use_tpu
        vocab_file warmup_proportion warmup_step"""
    for flag in flags.split():
        assert re.search(rf"`--{flag}\b", text), flag


def test_options_on_the_page_exist():
    """Checks that each `--option` in the right column of the tables for fine-tuning exists."""
    tables = r"### Flags for all scripts.*?(?=^### `create_pretraining)"
    table = re.search(tables, PAGE, re.DOTALL | re.MULTILINE)[0]
    named = set()
    for line in table.splitlines():
        if line.startswith("| `--"):
            named |= set(re.findall(r"`(?:\w+ )?(--[a-z-]+)[ `]", line.split("|")[2]))
    parser = cli._parser()
    commands = parser._subparsers._group_actions[0].choices
    known = {
        option
        for command in ("finetune", "evaluate", "predict")
        for action in commands[command]._actions
        for option in action.option_strings
    }
    assert len(named) > 6
    assert named <= known, named - known
