"""The bundled model: found by its name, without a network, and as its card describes it."""

import json
import string

import numpy as np
import pytest
import safetensors.numpy

from albert_tf import assets, pipeline
from albert_tf.checkpoints.finder import find
from albert_tf.errors import UserError
from albert_tf.models import AlbertForMaskedLM, AlbertForPreTraining, load_pretrained
from albert_tf.text.tokenizer import AlbertTokenizer

LIMIT = 14_500_000  # bytes


@pytest.fixture(autouse=True)
def without_a_network(monkeypatch):
    import huggingface_hub

    def unreachable(*_, **__):
        raise AssertionError("The model must not be looked for on the hub.")

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", unreachable)


def test_it_is_small():
    folder = assets.model("small")
    assert sum(path.stat().st_size for path in folder.rglob("*")) < LIMIT
    tensors = safetensors.numpy.load_file(folder / "model.safetensors")
    assert {str(tensor.dtype) for tensor in tensors.values()} == {"float16"}
    assert all(np.isfinite(tensor).all() for tensor in tensors.values())


def test_it_reads_every_character_of_a_keyboard():
    tokenizer = AlbertTokenizer.from_pretrained("small")
    for character in string.printable.strip():
        ids = tokenizer.encode(f"a {character}", add_special_tokens=False)
        assert len(ids) > 1 and tokenizer.unk_token_id not in ids, character


def test_it_is_found_by_its_name():
    model = AlbertForPreTraining.from_pretrained("small")
    tokenizer = AlbertTokenizer.from_pretrained("small")
    assert type(load_pretrained("small")) is AlbertForPreTraining and model.newly_initialized == []
    assert tokenizer.vocab_size == model.config.vocab_size
    assert tokenizer.model_max_length <= model.config.max_position_embeddings


def test_a_folder_of_that_name_comes_first(small_config, tmp_path, monkeypatch):
    AlbertForPreTraining(small_config).save_pretrained(tmp_path / "small")
    monkeypatch.chdir(tmp_path)
    assert AlbertForPreTraining.from_pretrained("small").config.vocab_size == 31
    assert not find("small").bundled


def test_a_checkpoint_of_that_name_comes_first(tmp_path, monkeypatch):
    assert find("small").bundled
    (tmp_path / "small.index").touch()
    monkeypatch.chdir(tmp_path)
    assert find("small").format == "tf1"


def test_the_reviews():
    texts, labels = assets.load_reviews()
    dev, answers = assets.load_reviews("dev")
    assert (len(texts), len(dev), labels.dtype) == (424, 104, np.int32)
    assert labels.mean() == answers.mean() == 0.5
    assert not set(texts) & set(dev)
    lines = (assets.reviews() / "dev.tsv").read_text("utf-8").splitlines()[1:]
    for line, text, label in zip(lines, dev, answers, strict=True):
        assert line == f"{text}\t{('negative', 'positive')[label]}"
    with pytest.raises(UserError, match="split must be one of train, dev. Received: 'test'"):
        assets.load_reviews("test")


def test_it_fills_masks():
    words = {
        "i do not [MASK] what you mean.": "know",
        "they went out [MASK] the house.": "of",
        "it was one of the [MASK] important things in the world.": "most",
        "for the first [MASK] in his life he was happy.": "time",
        "at the [MASK] of the table sat an old man.": "end",
    }
    found = pipeline("fill-mask", model="small")(list(words))
    for (text, word), answers in zip(words.items(), found, strict=True):
        assert word in [each["token_str"] for each in answers], text


@pytest.mark.slow
def test_late_positions_know_as_much_as_early_ones():
    tokenizer, model = (
        cls.from_pretrained("small") for cls in (AlbertTokenizer, AlbertForMaskedLM)
    )
    texts, _ = assets.load_reviews()
    tokens = np.concatenate(tokenizer(texts, add_special_tokens=False)["input_ids"])
    length = model.config.max_position_embeddings
    count = len(tokens) // (length - 2)
    rows = np.full((count, length), tokenizer.sep_token_id)
    rows[:, 0] = tokenizer.cls_token_id
    rows[:, 1:-1] = tokens[: count * (length - 2)].reshape(count, -1)
    is_masked = np.random.default_rng(0).random(rows.shape) < 0.15
    is_masked[:, [0, -1]] = False
    logits = model(np.where(is_masked, tokenizer.mask_token_id, rows)).logits
    is_right = np.argmax(logits, axis=-1) == rows
    halves = np.s_[:, : length // 2], np.s_[:, length // 2 :]
    early, late = (is_right[half][is_masked[half]].mean() for half in halves)
    assert early > 0.15 and late > 0.8 * early, (early, late)


def test_its_card_says_what_it_is():
    card = (assets.model("small") / "README.md").read_text(encoding="utf-8")
    config = json.loads((assets.model("small") / "config.json").read_text())
    assert "license: apache-2.0" in card
    for said in ("albert-tf build-vocab", "benchmarks.distill_small", "--begin"):
        assert said in card
    assert f"{config['num_hidden_layers']} layers" in card
    for heading in ("Training data", "Evaluation", "Limits and biases"):
        assert f"## {heading}" in card
