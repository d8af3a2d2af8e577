"""The examples in docs/migration.md run on tiny models of every origin."""

import re
from pathlib import Path

import pytest

from albert_tf import cli
from albert_tf.checkpoints import google, keras_hub, weights
from albert_tf.config import AlbertConfig
from albert_tf.huggingface import KERAS_HUB, MODEL_METHODS, NAMES, PRESETS
from albert_tf.models import AlbertForPreTraining, AlbertForSequenceClassification
from albert_tf.text.tokenizer import AlbertTokenizer
from tests.checkpoints.presets import write_preset

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "migration.md").read_text(encoding="utf-8")


def section(title):
    """Returns the text from a heading of the second level to the next one."""
    pattern = rf"^## {re.escape(title)}.*?(?=^## |\Z)"
    return re.search(pattern, PAGE, re.DOTALL | re.MULTILINE)[0]


def code(title):
    """Returns the blocks of Python in a section."""
    return "\n".join(re.findall(r"```python\n(.*?)```", section(title), re.DOTALL))


def test_the_table_of_other_names_is_that_of_the_errors():
    names = {}
    for name, way_out in NAMES.items():
        names.setdefault(way_out, []).append(name)
    rows = [f"| {', '.join(names[way_out])} | {way_out} |" for way_out in names]
    _, table = section("Other names").replace("`", "").split("|---|---|\n")
    assert table.splitlines() == rows


def test_names_of_keras_hub_are_answered():
    """Inputs and outputs aren't, because an error about them lists the model's own."""
    spans = re.findall(r"`(.+?)`(?=.* \| )", section("From KerasHub"))
    listed = {re.match(r'(?:\w+\.)?"?(\w+)', span)[1] for span in spans}
    methods = {"from_preset", "save_to_preset", "enable_lora", "backbone", "preprocessor"}
    assert methods <= {name.lstrip(".") for name in MODEL_METHODS}
    answered = {*KERAS_HUB, *PRESETS, *methods}
    assert answered <= listed
    own = {"AlbertTokenizer", "AlbertPreprocessor", "predict"}
    inputs = {"token_ids", "segment_ids", "padding_mask", "mask_positions"}
    assert listed - NAMES.keys() == answered | own | inputs | {"sequence_output", "pooled_output"}


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


@pytest.mark.slow
def test_from_transformers_4(config, tokenizer, tmp_path, run):
    """tests/checkpoints/test_hugging_face.py reads tf_model.h5."""
    AlbertForSequenceClassification(config).save_pretrained(tmp_path / "my-tf4-model")
    tokenizer.save_pretrained(tmp_path / "my-tf4-model")
    output = run(code("From the `TFAlbert*`"))
    assert "['classifier']" in output
    assert "'score'" in output
    assert (tmp_path / "my-model" / "model.safetensors").is_file()


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
    output = run(code("From google-research/albert"))
    assert f"(1, 1, {config.vocab_size}) (1, 2)" in output.replace("TensorShape", "")


def test_commands_from_google(googles, monkeypatch, capsys):
    monkeypatch.chdir(googles)
    commands = re.findall("^albert-tf (convert .*)", PAGE, re.MULTILINE)
    assert len(commands) == 2
    for command in commands:
        assert cli.main(command.split()) == 0, capsys.readouterr().err
    assert (googles / "for-the-original-code" / "albert_config.json").is_file()


@pytest.mark.peers
@pytest.mark.slow
def test_from_keras_hub(config, tokenizer, tmp_path, run):
    """tests/peers/test_keras_hub.py compares the outputs."""
    pytest.importorskip("keras_hub", reason="needs keras-hub")
    model = AlbertForSequenceClassification(config)
    vocabulary = tmp_path / "my-preset" / keras_hub.VOCABULARY
    vocabulary.parent.mkdir(parents=True)
    vocabulary.write_bytes(tokenizer.model_bytes)
    write_preset(tmp_path / "my-preset", config, weights.extract(model))
    output = run(code("From KerasHub") + "print(new.count_params(), new.newly_initialized)")
    assert f"{model.count_params()} []" in output
