"""The hub's client with a cache in its layout, without a network."""

import json
import os

import pytest

from albert_tf.checkpoints import hub, sentence_transformers
from albert_tf.checkpoints.finder import find
from albert_tf.checkpoints.sentence_transformers import SentenceEmbedding
from albert_tf.errors import UserError

huggingface_hub = pytest.importorskip("huggingface_hub", reason="needs huggingface_hub")
COMMIT = "0123456789abcdef0123456789abcdef01234567"
OTHER = "89abcdef0123456789abcdef0123456789abcdef"


def error(name):
    """Returns an error of the hub's client; its constructor would need a server's answer."""
    cls = getattr(huggingface_hub.errors, name)
    return cls.__new__(cls)


@pytest.fixture
def snapshot(tmp_path):
    """Returns a function that puts files into a cache as `main`; it returns the cache."""

    def put(repository, files, commit=COMMIT, revision="main"):
        folder = tmp_path / "cache" / f"models--{repository.replace('/', '--')}"
        (folder / "refs").mkdir(parents=True, exist_ok=True)
        (folder / "refs" / revision).write_text(commit)
        for name, content in files.items():
            path = folder / "snapshots" / commit / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        return tmp_path / "cache"

    return put


@pytest.fixture
def files(small_config, tmp_path):
    """A model directory's files by name."""
    from albert_tf.models import AlbertModel

    AlbertModel(small_config).save_pretrained(tmp_path / "model")
    (tmp_path / "model" / "spiece.model").write_bytes(b"vocabulary")
    return {path.name: path.read_bytes() for path in (tmp_path / "model").iterdir()}


@pytest.fixture
def remote(monkeypatch, tmp_path):
    """Returns a function that replaces the hub by one with given files; it returns its requests."""
    asked = []

    def serve(files, commit=COMMIT):
        def download(name, filename, *, subfolder=None, revision=None, **options):
            asked.append((name, filename, revision, options))
            path = tmp_path / "fake" / "snapshots" / commit / (subfolder or "") / filename
            if filename not in files:
                raise error("RemoteEntryNotFoundError")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(files[filename])
            return str(path)

        monkeypatch.setattr(huggingface_hub, "hf_hub_download", download)
        return asked

    return serve


@pytest.mark.parametrize(
    ("name", "repository"),
    [
        ("albert/albert-base-v2", "albert/albert-base-v2"),
        ("albert-base-v2", "albert/albert-base-v2"),
        ("albert-xxlarge-v1", "albert/albert-xxlarge-v1"),
        ("someone/bert", "someone/bert"),
        ("albert-base-v3", None),
        ("bert-base-uncased", None),
        ("./a/b", None),
        ("../b", None),
        ("~/b", None),
        ("/a", None),
        ("a/b/c", None),
    ],
)
def test_names(name, repository):
    assert hub.repository(name) == repository


@pytest.mark.parametrize("name", ["albert-base-v2", "albert/albert-base-v2"])
def test_from_the_cache_alone(snapshot, files, name):
    cache = snapshot("albert/albert-base-v2", files)
    checkpoint = find(name, cache_dir=cache, local_files_only=True).read()
    assert checkpoint.config.hidden_size == 20
    assert checkpoint.tensors["pooler.weight"].shape == (20, 20)
    assert f"snapshots/{COMMIT} (model.safetensors)" in checkpoint.origin


def test_offline_by_environment(snapshot, files, monkeypatch):
    cache = snapshot("albert/albert-base-v2", files)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(cache))
    # The client binds its default when it is imported, so the cache is given.
    assert find("albert-base-v2", cache_dir=cache).read().config.hidden_size == 20
    with pytest.raises(UserError, match="HF_HUB_OFFLINE is set.*or found in its cache .*"):
        find("albert-large-v2", cache_dir=cache).read()


def test_a_revision(snapshot, files):
    changed = json.loads(files["config.json"])
    changed["hidden_dropout_prob"] = 0.25
    snapshot("albert/albert-base-v2", files)
    other = {**files, "config.json": json.dumps(changed).encode()}
    cache = snapshot("albert/albert-base-v2", other, OTHER, "old")
    read = {
        revision: find("albert-base-v2", cache_dir=cache, local_files_only=True, revision=revision)
        .read()
        .config.hidden_dropout_prob
        for revision in ("main", "old", OTHER)
    }
    assert read == {"main": 0.0, "old": 0.25, OTHER: 0.25}


def test_only_needed_files_are_downloaded(remote, files):
    more = dict.fromkeys(("pytorch_model.bin", "tf_model.h5", "tokenizer.json"), b"")
    asked = remote({**files, **more})
    find("albert-base-v2", revision="main", token="secret", force_download=True).read()
    assert [each[1] for each in asked] == ["config.json", "model.safetensors"]
    assert asked[0][2:] == ("main", {"token": "secret", "force_download": True})
    assert asked[1][2] == COMMIT  # both from one commit, whatever is uploaded meanwhile


def test_modules_of_sentence_transformers_are_downloaded(remote, files, small_config):
    embedding = SentenceEmbedding("cls", normalize=True, max_length=9)
    remote({**files, **embedding.files(small_config.hidden_size)})
    location = find("someone/sentences", tokenizer=True)
    assert sentence_transformers.read(location.folder) == embedding


def test_the_preferred_weights_are_downloaded(remote, files):
    asked = remote(
        {"config.json": files["config.json"], "tf_model.h5": b"x", "flax_model.msgpack": b"x"}
    )
    found = find("albert-base-v2")
    assert asked[-1][1] == found.weights.name == "tf_model.h5"
    assert found.format == "hf"


def test_shards(remote, files):
    index = {"weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}}
    served = {
        "config.json": files["config.json"],
        "model-1.safetensors": b"",
        "model-2.safetensors": b"",
    }
    served["model.safetensors.index.json"] = json.dumps(index).encode()
    asked = remote(served)
    find("albert-base-v2")
    assert [each[1] for each in asked][-2:] == ["model-1.safetensors", "model-2.safetensors"]
    del served["model-2.safetensors"]
    with pytest.raises(UserError, match="model-2.safetensors, which model.* couldn't be downloa"):
        find("albert-base-v2")


def test_a_preset(remote):
    config = json.dumps({"class_name": "AlbertBackbone", "config": {}}).encode()
    served = {"config.json": config, "model.weights.h5": b"", "task.json": b""}
    served["assets/tokenizer/vocabulary.spm"] = b"vocabulary"
    asked = remote(served)
    find("keras/albert_base_en_uncased")
    assert {each[1] for each in asked} == {
        "config.json",
        "model.weights.h5",
        "task.json",
        "task.weights.h5",
    }
    folder = find("keras/albert_base_en_uncased", weights=False, tokenizer=True).folder
    assert (folder / "assets/tokenizer/vocabulary.spm").read_bytes() == b"vocabulary"


def test_tokenizers_download_no_weights(remote, files):
    asked = remote(files)
    folder = find("albert-base-v2", weights=False, tokenizer=True).folder
    assert (folder / "spiece.model").read_bytes() == b"vocabulary"
    assert not {"model.safetensors", "vocab.txt", "tokenizer.json"} & {each[1] for each in asked}
    del files["spiece.model"]
    asked.clear()
    remote({**files, "tokenizer.json": b"{}"})
    find("albert-base-v2", weights=False, tokenizer=True)
    assert "tokenizer.json" in {each[1] for each in asked}


def test_a_subfolder(remote, files, tmp_path):
    remote(files)
    folder = find("someone/models", subfolder="small").folder
    assert folder.name == "small"
    assert find("someone/models", subfolder="small").read().config.hidden_size == 20
    assert find(tmp_path, subfolder="model").read().config.hidden_size == 20


def test_nothing_to_read_there(remote, files):
    remote({"config.json": files["config.json"], "README.md": b""})
    with pytest.raises(UserError, match=r"its weights couldn't .* \(which has none\)"):
        find("albert-base-v2").read()
    remote({"README.md": b""})
    with pytest.raises(UserError, match="config.json couldn't be downloaded"):
        find("albert-base-v2").read()


@pytest.mark.parametrize(
    ("name", "way_out"),
    [
        ("RepositoryNotFoundError", "give a token= if it is private or gated"),
        ("GatedRepoError", "give a token= if it is private or gated"),
        ("RevisionNotFoundError", "Check revision="),
        ("HfHubHTTPError", "Download it where there is a network"),
    ],
)
def test_errors_of_the_hub(monkeypatch, name, way_out):
    def refuse(*arguments, **options):
        raise error(name)

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", refuse)
    with pytest.raises(UserError, match=rf"\({name}\).*{way_out}"):
        find("someone/model").read()


def test_without_a_network_the_cache_is_asked_once(monkeypatch, snapshot, files):
    cache = snapshot("albert/albert-base-v2", {"config.json": files["config.json"]})
    real, asked = huggingface_hub.hf_hub_download, []

    def download(name, filename, **options):
        asked.append(options.get("local_files_only", False))
        return real(name, filename, **{**options, "local_files_only": True})

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", download)
    with pytest.raises(UserError, match=r"its weights couldn't .* \(LocalEntryNotFoundError\)"):
        find("albert-base-v2", cache_dir=cache).read()
    assert asked[:3] == [False, False, True]  # the configuration, the first weights, the others


def test_home(monkeypatch, files, tmp_path):
    monkeypatch.setenv("HOME", os.fspath(tmp_path))
    assert find("~/model").read().config.hidden_size == 20
    with pytest.raises(UserError, match=f"Received: {tmp_path}/none, which is neither"):
        find("~/none").read()


class FakeHub:
    """Stands in for `huggingface_hub.HfApi`; has the uploaded files and the calls' arguments."""

    def __init__(self, has_card=False, refusal=None):
        self.has_card, self.refusal = has_card, refusal
        self.files, self.calls = {}, []

    def __call__(self, token=None):
        self.calls.append(("token", token))
        return self

    def create_repo(self, repo_id, **options):
        if self.refusal:
            raise self.refusal
        self.calls.append((repo_id, options))
        name = repo_id if "/" in repo_id else f"someone/{repo_id}"
        return huggingface_hub.RepoUrl(f"https://huggingface.co/{name}")

    def file_exists(self, repo_id, filename, **options):
        return self.has_card

    def upload_folder(self, repo_id, folder_path, **options):
        self.calls.append((repo_id, options))
        self.files = {path.name: path.read_bytes() for path in folder_path.iterdir()}
        return f"https://huggingface.co/{repo_id}/commit/1"


def test_uploads_a_model_with_its_card(monkeypatch, small_config, tmp_path):
    from albert_tf.models import AlbertForTokenClassification

    fake = FakeHub()
    monkeypatch.setattr(huggingface_hub, "HfApi", fake)
    model = AlbertForTokenClassification(small_config)
    url = model.push_to_hub("tagger", private=True, token="secret", commit_message="First")
    assert url == "https://huggingface.co/someone/tagger/commit/1"
    assert fake.calls[:2] == [("token", "secret"), ("tagger", {"private": True, "exist_ok": True})]
    assert fake.calls[2][1]["commit_message"] == "First"
    model.save_pretrained(tmp_path)
    for path in tmp_path.iterdir():
        assert fake.files.pop(path.name) == path.read_bytes()
    assert fake.files.keys() == {"README.md"}
    card = huggingface_hub.ModelCard(fake.files["README.md"].decode())
    assert (card.data.pipeline_tag, card.data.library_name) == ("token-classification", "albert_tf")
    assert 'AlbertForTokenClassification.from_pretrained("someone/tagger")' in card.text
    assert f"{model.count_params():,}" in card.text


def test_uploads_the_card_beside_a_model(monkeypatch, small_config, tmp_path):
    from albert_tf.models import AlbertModel

    fake = FakeHub()
    monkeypatch.setattr(huggingface_hub, "HfApi", fake)
    (tmp_path / "README.md").write_text("Mine.")
    AlbertModel(small_config).save_pretrained(tmp_path, push_to_hub=True)
    assert fake.files["README.md"] == b"Mine."
    assert (tmp_path / "README.md").read_text() == "Mine."


def test_uploads_without_touching_a_card(monkeypatch, small_config, tmp_path, tiny_tokenizer):
    from albert_tf.models import AlbertModel

    fake = FakeHub(has_card=True)
    monkeypatch.setattr(huggingface_hub, "HfApi", fake)
    AlbertModel(small_config).save_pretrained(tmp_path / "mine", push_to_hub=True)
    assert fake.calls[-1][0] == "someone/mine"
    assert "README.md" not in fake.files
    tiny_tokenizer.push_to_hub("a/b")
    assert {"spiece.model", "tokenizer_config.json"} <= fake.files.keys()
    assert "README.md" not in fake.files
    with pytest.raises(TypeError, match="Received: saved_model. It writes model.safetensors alone"):
        AlbertModel(small_config).save_pretrained(tmp_path / "mine", saved_model=True)


def test_an_upload_that_is_refused(monkeypatch, tiny_tokenizer):
    refusal = OSError("no network\nand a long story")
    monkeypatch.setattr(huggingface_hub, "HfApi", FakeHub(refusal=refusal))
    with pytest.raises(UserError, match="OSError: no network. Log in with `hf auth login`"):
        tiny_tokenizer.push_to_hub("a/b")
