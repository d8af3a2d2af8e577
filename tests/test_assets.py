"""The bundled model, found by its name without a network, the bundled reviews, and licenses."""

import re
import string
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy

from albert_tf import assets, pipeline
from albert_tf.checkpoints import hugging_face
from albert_tf.checkpoints.finder import find
from albert_tf.errors import UserError
from albert_tf.models import AlbertForPreTraining, load_pretrained
from albert_tf.text.tokenizer import AlbertTokenizer
from benchmarks import sentences
from tests.checkpoints.tensors import draw

ROOT = Path(__file__).resolve().parents[1]
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
    model = load_pretrained("small")
    tokenizer = AlbertTokenizer.from_pretrained("small")
    assert type(model) is AlbertForPreTraining and model.newly_initialized == []
    assert tokenizer.vocab_size == model.config.vocab_size
    assert tokenizer.model_max_length <= model.config.max_position_embeddings


def test_files_here_of_that_name_come_first(small_config, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert find("small").folder == assets.model("small")
    (tmp_path / "small.index").touch()
    assert find("small").format == "tf1"
    hugging_face.write(tmp_path / "small", small_config, draw(small_config))
    assert find("small").format == "hf" and find("small").folder != assets.model("small")
    assert find("small").read().config.vocab_size == 31


def test_the_reviews():
    texts, labels = assets.load_reviews()
    dev, answers = assets.load_reviews("dev")
    assert (len(texts), len(dev), labels.dtype) == (424, 104, np.int32)
    assert labels.mean() == answers.mean() == 0.5
    assert not set(texts) & set(dev)
    lines = (assets.reviews() / "dev.tsv").read_text("utf-8").splitlines()[1:]
    names = ("negative", "positive")
    assert lines == [f"{text}\t{names[label]}" for text, label in zip(dev, answers, strict=True)]
    with pytest.raises(UserError, match="split must be one of train, dev. Received: 'test'"):
        assets.load_reviews("test")


@pytest.mark.usefixtures("without_graphs")
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


def test_every_source_of_the_training_text_has_one_license():
    card = (assets.model("small") / "README.md").read_text("utf-8")
    table = card.split("| license | sources |\n")[1].split("\n\n")[0]
    rows = [
        [cell.strip() for cell in row.strip("| ").split(" | ")] for row in table.splitlines()[1:]
    ]
    sources = [source for _, names in rows for source in names.split(", ")]
    expected = {*sentences.SOURCES} - {sentences.LISTS} | {"package descriptions"}
    assert sorted(sources) == sorted(expected)
    assert all(license for license, _ in rows)


def test_the_distributions_contain_the_licenses_of_the_teacher():
    licenses = re.search(r"^license-files = (.*)", (ROOT / "pyproject.toml").read_text(), re.M)[1]
    assert '"NOTICE"' in licenses and '"LICENSE"' in licenses
    notice = (ROOT / "NOTICE").read_text("utf-8")
    card = (assets.model("small") / "README.md").read_text("utf-8")
    teacher = re.search("^base_model: (.*)", card, re.M)[1]
    assert f"{teacher}, Apache License 2.0" in notice
    assert "Copyright (c) Microsoft Corporation" in notice


@pytest.mark.parametrize("folder", ["small", "reviews"])
def test_links_work_where_the_package_is_installed(folder):
    page = Path(assets.__file__).parent / folder / "README.md"
    package = Path(assets.__file__).parents[1]
    for link in re.findall(r"\]\(([^)#]+)", page.read_text("utf-8")):
        target = (page.parent / link).resolve()
        assert link.startswith("https://") or (package in target.parents and target.exists()), link
