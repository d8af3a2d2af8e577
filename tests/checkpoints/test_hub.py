"""The Hub's client, which is connected to the local server in `local_hub.py`."""

import json
import os
import re
import shutil
import sys

import pytest

from albert_tf import models
from albert_tf.checkpoints import hub, hugging_face, sentence_transformers
from albert_tf.checkpoints.finder import find
from albert_tf.checkpoints.sentence_transformers import SentenceEmbedding
from albert_tf.cli import main
from albert_tf.errors import UserError
from albert_tf.models import AlbertForTokenClassification, AlbertModel
from albert_tf.tasks import BY_MODEL, SIMILARITY
from albert_tf.text.tokenizer import AlbertTokenizer
from tests.checkpoints.local_hub import EXPIRED, LocalHub
from tests.checkpoints.tensors import assert_equal, draw

huggingface_hub = pytest.importorskip("huggingface_hub", reason="needs huggingface_hub")
BASE = "albert/albert-base-v2"


def client_modules():
    return [name for name in sys.modules if name.partition(".")[0] == "huggingface_hub"]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """Yields the server, and imports the client again, because it reads its settings on import."""
    settings = {
        "HF_HUB_CACHE": str(tmp_path_factory.mktemp("cache")),
        "HF_HUB_DISABLE_IMPLICIT_TOKEN": "1",
        "HF_HUB_DISABLE_XET": "1",
        "HF_HUB_OFFLINE": "0",
        "NO_PROXY": "*",
    }
    with LocalHub() as server, pytest.MonkeyPatch.context() as patch:
        for name, value in {"HF_ENDPOINT": server.address, **settings}.items():
            patch.setenv(name, value)
        for name in client_modules():
            patch.delitem(sys.modules, name)
        yield server
        for name in client_modules():
            del sys.modules[name]


@pytest.fixture
def remote(server):
    """Returns the server after removing its repositories and emptying the client's cache."""
    server.clear()
    shutil.rmtree(os.environ["HF_HUB_CACHE"], ignore_errors=True)
    return server


@pytest.fixture(scope="module")
def small_config(small_config):
    return small_config.replace(num_hidden_layers=1)


@pytest.fixture(scope="module")
def tokenizer(tiny_vocabulary):
    return AlbertTokenizer(tiny_vocabulary, model_max_length=64)


@pytest.fixture(scope="module")
def files(small_config, tmp_path_factory):
    """Returns a model directory's files, keyed by name."""
    folder = tmp_path_factory.mktemp("model")
    hugging_face.write(folder, small_config, draw(small_config))
    (folder / "spiece.model").write_bytes(b"vocabulary")
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_names():
    for name, repository in {
        "albert/albert-base-v2": "albert/albert-base-v2",
        "albert-xxlarge-v1": "albert/albert-xxlarge-v1",
        "someone/bert": "someone/bert",
        **dict.fromkeys(("albert-base-v3", "bert-base-uncased", "./a/b", "../b", "~/b", "/a")),
        "a/b/c": None,
    }.items():
        assert hub.repository(name) == repository


def test_revisions_and_the_cache(remote, files, small_config, monkeypatch):
    changed = json.loads(files["config.json"])
    changed["hidden_dropout_prob"] = 0.25
    old = remote.put(BASE, {**files, "config.json": json.dumps(changed).encode()}, "old")
    new = remote.put(BASE, files)
    for is_cached in (False, True):
        remote.asked.clear()
        for revision, commit, dropout in (("main", new, 0.0), ("old", old, 0.25), (old, old, 0.25)):
            location = find("albert-base-v2", revision=revision, local_files_only=is_cached)
            checkpoint = location.read()
            assert checkpoint.config.hidden_dropout_prob == dropout
            assert_equal(checkpoint.tensors, draw(small_config))
            assert f"snapshots/{commit} (model.safetensors)" in checkpoint.origin
        assert bool(remote.asked) == (not is_cached)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    assert find("albert-base-v2").read().config.hidden_size == 20
    cache = os.environ["HF_HUB_CACHE"]
    with pytest.raises(UserError, match=f"HF_HUB_OFFLINE is set.* the cache {cache}"):
        find("albert-large-v2")


def test_only_needed_files_are_downloaded(remote, files, tmp_path):
    more = dict.fromkeys(("pytorch_model.bin", "tf_model.h5", "tokenizer.json"), b"")
    commit = remote.put(BASE, {**files, **more})
    options = {"token": "secret", "cache_dir": tmp_path}
    for force_download in (False, False, True):
        find("albert-base-v2", force_download=force_download, **options).read()
    names = ["config.json", "model.safetensors"]
    assert remote.sent == names * 2  # the second time, they are cached
    first = [(names[0], "main", "secret"), (names[1], commit, "secret")]  # both from one commit
    assert remote.asked == [*first, first[0], *first]
    assert next(tmp_path.glob("models--*"))


def test_a_renamed_repository(remote, files, small_config):
    remote.put("someone/new", files)
    remote.new_names["someone/old"] = "someone/new"
    assert_equal(find("someone/old").read().tensors, draw(small_config))


def test_a_download_that_breaks_off(remote, files, small_config, monkeypatch):
    monkeypatch.setattr("time.sleep", lambda _: None)  # between two tries
    remote.put(BASE, files)
    remote.cuts = [1000] * 3
    assert_equal(find("albert-base-v2").read().tensors, draw(small_config))
    assert remote.sent.count("model.safetensors") > 1
    remote.cuts = [0] * 99
    with pytest.raises(UserError, match=r"couldn't be downloaded from the Hub \(RemoteProtocol"):
        find("albert-base-v2", force_download=True)
    remote.cuts.clear()
    assert_equal(find("albert-base-v2").read().tensors, draw(small_config))


def test_modules_of_sentence_transformers_are_downloaded(remote, files, small_config):
    embedding = SentenceEmbedding("cls", normalize=True, max_length=9)
    remote.put("someone/sentences", {**files, **embedding.files(small_config.hidden_size)})
    location = find("someone/sentences", tokenizer=True)
    assert sentence_transformers.read(location.folder) == embedding


def test_shards(remote, files):
    shards = ["model-1.safetensors", "model-2.safetensors"]
    index = {"weight_map": dict(zip("ab", shards, strict=True))}
    served = {"config.json": files["config.json"], **{name: name.encode() for name in shards}}
    served["model.safetensors.index.json"] = json.dumps(index).encode()
    remote.put(BASE, served)
    find("albert-base-v2")
    assert remote.sent[-2:] == shards
    del served["model-2.safetensors"]
    remote.put(BASE, served)
    with pytest.raises(UserError, match="model-2.safetensors .listed in.* couldn't be downloaded"):
        find("albert-base-v2")


def test_a_preset(remote):
    config = json.dumps({"class_name": "AlbertBackbone", "config": {}}).encode()
    served = {"config.json": config, "model.weights.h5": b"weights", "task.json": b"{}"}
    served["assets/tokenizer/vocabulary.spm"] = b"vocabulary"
    remote.put("keras/albert_base_en_uncased", served)
    find("keras/albert_base_en_uncased")
    assert [file for file, *_ in remote.asked] == [
        "config.json",
        "model.weights.h5",
        "task.json",
        "task.weights.h5",
    ]
    folder = find("keras/albert_base_en_uncased", weights=False, tokenizer=True).folder
    assert (folder / "assets/tokenizer/vocabulary.spm").read_bytes() == b"vocabulary"


def test_tokenizers_download_no_weights(remote, files):
    remote.put(BASE, files)
    folder = find("albert-base-v2", weights=False, tokenizer=True).folder
    assert (folder / "spiece.model").read_bytes() == b"vocabulary"
    asked = {file for file, *_ in remote.asked}
    assert not {"model.safetensors", "vocab.txt", "tokenizer.json"} & asked
    remote.put(BASE, {"config.json": files["config.json"], "tokenizer.json": b"{}"})
    folder = find("albert-base-v2", weights=False, tokenizer=True).folder
    assert (folder / "tokenizer.json").exists()


def test_a_conversion_brings_the_vocabulary(remote, files, tmp_path, monkeypatch):
    remote.put(BASE, files)
    monkeypatch.chdir(tmp_path)
    assert main(["convert", "albert-base-v2", "out", "--format", "hf"]) == 0
    assert (tmp_path / "out" / "spiece.model").read_bytes() == b"vocabulary"


def test_a_subfolder(remote, files, tmp_path):
    remote.put("someone/models", {f"small/{name}": content for name, content in files.items()})
    location = find("someone/models", subfolder="small")
    assert location.folder.name == "small"
    assert location.read().config.hidden_size == 20
    (tmp_path / "model").mkdir()
    for name, content in files.items():
        (tmp_path / "model" / name).write_bytes(content)
    assert find(tmp_path, subfolder="model").folder == tmp_path / "model"


def test_nothing_to_read_there(remote, files):
    remote.put(BASE, {"README.md": b"", "config.json": files["config.json"]})
    with pytest.raises(UserError, match=r"its weights couldn't .* \(not found there\)"):
        find("albert-base-v2")
    remote.put(BASE, {"README.md": b""})
    with pytest.raises(UserError, match="config.json couldn't be downloaded"):
        find("albert-base-v2")


ACCESS = "token= if it is private or gated"


@pytest.mark.parametrize(
    ("repository", "options", "error", "way_out"),
    [
        ("missing", {}, "RepositoryNotFoundError", ACCESS),
        ("missing", {"token": "secret"}, "RepositoryNotFoundError", ACCESS),
        ("gated", {}, "GatedRepoError", ACCESS),
        ("gated", {"token": "of someone else"}, "GatedRepoError", ACCESS),
        ("open", {"revision": "v9"}, "RevisionNotFoundError", "Check revision="),
        ("open", {"token": EXPIRED}, "HfHubHTTPError", "a valid token="),
        ("not--a--name", {}, "HFValidationError", "or pass a directory"),  # raised by the client
    ],
)
def test_errors_of_the_hub(remote, files, repository, options, error, way_out):
    for name in ("gated", "open"):
        remote.put(f"someone/{name}", files)
    remote.tokens["someone/gated"] = "secret"
    with pytest.raises(UserError, match=rf"\({error}\).*{way_out}"):
        find(f"someone/{repository}", **options)
    assert find("someone/gated", token="secret").read().config.hidden_size == 20


def test_without_a_network_the_cache_is_asked_once(remote, files, monkeypatch):
    monkeypatch.setattr("time.sleep", lambda _: None)
    remote.put(BASE, files)
    find("albert-base-v2", weights=False)
    remote.asked.clear()
    remote.status = 503
    with pytest.raises(UserError, match=r"its weights couldn't .* \(LocalEntryNotFoundError\)"):
        find("albert-base-v2")
    assert {file for file, *_ in remote.asked} == {"config.json", "model.safetensors"}


def test_uploads_a_model_with_its_card(remote, small_config, tmp_path):
    model = AlbertForTokenClassification(small_config)
    url = model.push_to_hub("tagger", private=True, token="secret", commit_message="First")
    assert (
        url == f"{remote.address}/someone/tagger/commit/{remote.commits['someone/tagger']['main']}"
    )
    assert (remote.private, remote.messages) == ({"someone/tagger"}, ["First"])
    stored = remote.latest("someone/tagger")
    text = stored["README.md"].decode()
    model.save_pretrained(tmp_path)
    saved = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert stored == {"README.md": text.encode(), **saved}
    loaded = AlbertForTokenClassification.from_pretrained("someone/tagger")
    assert loaded.count_params() == model.count_params() and not loaded.newly_initialized
    card = huggingface_hub.ModelCard(text)
    assert (card.data.pipeline_tag, card.data.library_name) == ("token-classification", "albert_tf")
    assert 'AlbertForTokenClassification.from_pretrained("someone/tagger")' in card.text
    assert f"{model.count_params():,}" in card.text


@pytest.mark.tensorflow
@pytest.mark.usefixtures("without_graphs")
@pytest.mark.parametrize("name", [name for name in BY_MODEL if name != SIMILARITY.model])
def test_the_code_of_a_card_runs(name, small_config, tokenizer, tmp_path, monkeypatch, capsys):
    """Predicts from the folder that contains the model; multiple choice only loads."""
    config = small_config.replace(vocab_size=len(tokenizer), max_position_embeddings=64)
    model = getattr(models, name)(config)
    model.save_pretrained(tmp_path / "my-model")
    tokenizer.save_pretrained(tmp_path / "my-model")
    text = hub.model_card("my-model", name, config, model.count_params())
    [code] = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    exec(code, {})
    assert bool(capsys.readouterr().out) == ("print" in code) == bool(BY_MODEL[name].pipelines)


def test_uploads_without_touching_a_card(remote, small_config, tokenizer, tmp_path):
    model = AlbertModel(small_config)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "README.md").write_text("Mine.")
    model.save_pretrained(tmp_path / "mine", push_to_hub=True, token="secret")
    assert remote.latest("someone/mine")["README.md"] == b"Mine."
    remote.put("a/b", {"README.md": b"Theirs."})
    model.push_to_hub("a/b", token="secret")
    model_files = {"README.md", "config.json", "model.safetensors"}
    assert remote.latest("a/b").keys() == model_files
    tokenizer.push_to_hub("a/b", token="secret")
    stored = remote.latest("a/b")
    assert stored.keys() >= {"spiece.model", "tokenizer_config.json", *model_files}
    assert stored["README.md"] == b"Theirs."
    with pytest.raises(TypeError, match="Received: private"):
        model.save_pretrained(tmp_path, private=True)
    with pytest.raises(UserError, match=r"HfHubHTTPError: .*401.*\. Log in with `hf auth login`"):
        tokenizer.push_to_hub("a/b")
