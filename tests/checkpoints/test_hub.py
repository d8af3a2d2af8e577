"""The hub's client with a cache in its layout, without a network."""

import json
import re
from unittest import mock

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
from tests.checkpoints.tensors import assert_equal, draw

huggingface_hub = pytest.importorskip("huggingface_hub", reason="needs huggingface_hub")
COMMIT = "0123456789abcdef0123456789abcdef01234567"
OTHER = "89abcdef0123456789abcdef0123456789abcdef"


def error(name):
    """Returns an error of the hub's client without the server response its constructor requires."""
    cls = getattr(huggingface_hub.errors, name)
    return cls.__new__(cls)


@pytest.fixture(scope="module")
def small_config(small_config):
    return small_config.replace(num_hidden_layers=1)


@pytest.fixture(scope="module")
def tokenizer():
    return AlbertTokenizer.from_pretrained("small")


@pytest.fixture
def snapshot(tmp_path):
    """Returns a function that writes albert-base-v2's files to a cache, and returns the cache."""

    def put(files, commit=COMMIT, revision="main"):
        folder = tmp_path / "cache" / "models--albert--albert-base-v2"
        (folder / "refs").mkdir(parents=True, exist_ok=True)
        (folder / "refs" / revision).write_text(commit)
        (folder / "snapshots" / commit).mkdir(parents=True)
        for name, content in files.items():
            (folder / "snapshots" / commit / name).write_bytes(content)
        return tmp_path / "cache"

    return put


@pytest.fixture
def files(small_config, tmp_path):
    """Returns a model directory's files, keyed by name."""
    hugging_face.write(tmp_path / "model", small_config, draw(small_config))
    (tmp_path / "model" / "spiece.model").write_bytes(b"vocabulary")
    return {path.name: path.read_bytes() for path in (tmp_path / "model").iterdir()}


@pytest.fixture
def remote(monkeypatch, tmp_path):
    """Returns a function that replaces the hub by one with these files; it returns requests."""
    asked = []

    def serve(files):
        def download(name, filename, *, subfolder=None, revision=None, **options):
            asked.append((filename, revision, options))
            path = tmp_path / "fake" / "snapshots" / COMMIT / (subfolder or "") / filename
            if filename not in files:
                raise error("RemoteEntryNotFoundError")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(files[filename])
            return str(path)

        monkeypatch.setattr(huggingface_hub, "hf_hub_download", download)
        return asked

    return serve


def test_names():
    for name, repository in {
        "albert/albert-base-v2": "albert/albert-base-v2",
        "albert-xxlarge-v1": "albert/albert-xxlarge-v1",
        "someone/bert": "someone/bert",
        **dict.fromkeys(("albert-base-v3", "bert-base-uncased", "./a/b", "../b", "~/b", "/a")),
        "a/b/c": None,
    }.items():
        assert hub.repository(name) == repository


def test_from_the_cache_alone(snapshot, files, small_config):
    changed = json.loads(files["config.json"])
    changed["hidden_dropout_prob"] = 0.25
    snapshot(files)
    other = {**files, "config.json": json.dumps(changed).encode()}
    cache = snapshot(other, OTHER, "old")
    alone = {"cache_dir": cache, "local_files_only": True}
    for revision, commit, dropout in (
        ("main", COMMIT, 0.0),
        ("old", OTHER, 0.25),
        (OTHER, OTHER, 0.25),
    ):
        checkpoint = find("albert-base-v2", revision=revision, **alone).read()
        assert checkpoint.config.hidden_dropout_prob == dropout
        assert_equal(checkpoint.tensors, draw(small_config))
        assert f"snapshots/{commit} (model.safetensors)" in checkpoint.origin


def test_offline_by_environment(snapshot, files, monkeypatch):
    cache = snapshot(files)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(cache))
    # The client binds its default when it is imported, so the cache is given.
    assert find("albert-base-v2", cache_dir=cache).read().config.hidden_size == 20
    with pytest.raises(UserError, match=f"HF_HUB_OFFLINE is set.* the cache {cache}"):
        find("albert-large-v2", cache_dir=cache).read()


def test_only_needed_files_are_downloaded(remote, files):
    more = dict.fromkeys(("pytorch_model.bin", "tf_model.h5", "tokenizer.json"), b"")
    asked = remote({**files, **more})
    options = {"token": "secret", "force_download": True}
    find("albert-base-v2", revision="main", **options).read()
    assert asked == [
        ("config.json", "main", options),
        ("model.safetensors", COMMIT, options),  # both from one commit
    ]


def test_modules_of_sentence_transformers_are_downloaded(remote, files, small_config):
    embedding = SentenceEmbedding("cls", normalize=True, max_length=9)
    remote({**files, **embedding.files(small_config.hidden_size)})
    location = find("someone/sentences", tokenizer=True)
    assert sentence_transformers.read(location.folder) == embedding


def test_shards(remote, files):
    shards = ["model-1.safetensors", "model-2.safetensors"]
    index = {"weight_map": dict(zip("ab", shards, strict=True))}
    served = {"config.json": files["config.json"], **dict.fromkeys(shards, b"")}
    served["model.safetensors.index.json"] = json.dumps(index).encode()
    asked = remote(served)
    find("albert-base-v2")
    assert [request[0] for request in asked][-2:] == shards
    del served["model-2.safetensors"]
    with pytest.raises(UserError, match="model-2.safetensors, which model.* couldn't be downloa"):
        find("albert-base-v2")


def test_a_preset(remote):
    config = json.dumps({"class_name": "AlbertBackbone", "config": {}}).encode()
    served = {"config.json": config, "model.weights.h5": b"", "task.json": b""}
    served["assets/tokenizer/vocabulary.spm"] = b"vocabulary"
    asked = remote(served)
    find("keras/albert_base_en_uncased")
    assert [request[0] for request in asked] == [
        "config.json",
        "model.weights.h5",
        "task.json",
        "task.weights.h5",
    ]
    folder = find("keras/albert_base_en_uncased", weights=False, tokenizer=True).folder
    assert (folder / "assets/tokenizer/vocabulary.spm").read_bytes() == b"vocabulary"


def test_tokenizers_download_no_weights(remote, files):
    asked = remote(files)
    folder = find("albert-base-v2", weights=False, tokenizer=True).folder
    assert (folder / "spiece.model").read_bytes() == b"vocabulary"
    assert not {"model.safetensors", "vocab.txt", "tokenizer.json"} & {name for name, *_ in asked}
    del files["spiece.model"]
    remote({**files, "tokenizer.json": b"{}"})
    folder = find("albert-base-v2", weights=False, tokenizer=True).folder
    assert (folder / "tokenizer.json").exists()


def test_a_conversion_brings_the_vocabulary(remote, files, tmp_path, monkeypatch):
    remote(files)
    monkeypatch.chdir(tmp_path)
    assert main(["convert", "albert-base-v2", "out", "--format", "hf"]) == 0
    assert (tmp_path / "out" / "spiece.model").read_bytes() == b"vocabulary"


def test_a_subfolder(remote, files, tmp_path):
    remote(files)
    location = find("someone/models", subfolder="small")
    assert location.folder.name == "small"
    assert location.read().config.hidden_size == 20
    assert find(tmp_path, subfolder="model").folder == tmp_path / "model"


def test_nothing_to_read_there(remote, files):
    remote({"README.md": b"", "config.json": files["config.json"]})
    with pytest.raises(UserError, match=r"its weights couldn't .* \(not found there\)"):
        find("albert-base-v2")
    remote({"README.md": b""})
    with pytest.raises(UserError, match="config.json couldn't be downloaded"):
        find("albert-base-v2")


def test_errors_of_the_hub(monkeypatch):
    for name, way_out in {
        "RepositoryNotFoundError": "token= if it is private or gated",
        "GatedRepoError": "token= if it is private or gated",
        "RevisionNotFoundError": "Check revision=",
        "HfHubHTTPError": "or pass a directory",
        "RuntimeError": "or pass a directory",  # of the HTTP client, such as a proxy's error
    }.items():
        raised = RuntimeError("407 Proxy") if name == "RuntimeError" else error(name)
        monkeypatch.setattr(huggingface_hub, "hf_hub_download", mock.Mock(side_effect=raised))
        with pytest.raises(UserError, match=rf"\({name}\).*{way_out}"):
            find("someone/model")


def test_without_a_network_the_cache_is_asked_once(monkeypatch, snapshot, files):
    cache = snapshot({"config.json": files["config.json"]})
    real, asked = huggingface_hub.hf_hub_download, []

    def download(name, filename, **options):
        asked.append(options.get("local_files_only", False))
        return real(name, filename, **{**options, "local_files_only": True})

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", download)
    with pytest.raises(UserError, match=r"its weights couldn't .* \(LocalEntryNotFoundError\)"):
        find("albert-base-v2", cache_dir=cache)
    assert asked[:3] == [False, False, True]  # the configuration, the first weights, the others


@pytest.fixture
def api(monkeypatch):
    """Replaces an instance of `huggingface_hub.HfApi`; `files` are the last uploaded files."""
    cls = mock.create_autospec(huggingface_hub.HfApi)

    def create(repo_id, **_):
        name = repo_id if "/" in repo_id else f"someone/{repo_id}"
        return huggingface_hub.RepoUrl(f"https://huggingface.co/{name}")

    def upload(repo_id, folder_path, **_):
        cls.return_value.files = {path.name: path.read_bytes() for path in folder_path.iterdir()}
        return f"https://huggingface.co/{repo_id}/commit/1"

    cls.return_value.create_repo.side_effect = create
    cls.return_value.file_exists.return_value = False
    cls.return_value.upload_folder.side_effect = upload
    monkeypatch.setattr(huggingface_hub, "HfApi", cls)
    return cls.return_value


def test_uploads_a_model_with_its_card(api, small_config, tmp_path):
    model = AlbertForTokenClassification(small_config)
    url = model.push_to_hub("tagger", private=True, token="secret", commit_message="First")
    assert url == "https://huggingface.co/someone/tagger/commit/1"
    huggingface_hub.HfApi.assert_called_once_with(token="secret")
    api.create_repo.assert_called_once_with("tagger", private=True, exist_ok=True)
    assert api.upload_folder.call_args.kwargs["commit_message"] == "First"
    model.save_pretrained(tmp_path)
    text = api.files.pop("README.md").decode()
    assert api.files == {path.name: path.read_bytes() for path in tmp_path.iterdir()}
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


def test_uploads_without_touching_a_card(api, small_config, tokenizer, tmp_path):
    model = AlbertModel(small_config)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "README.md").write_text("Mine.")
    model.save_pretrained(tmp_path / "mine", push_to_hub=True)
    assert api.files["README.md"] == b"Mine."
    assert api.upload_folder.call_args.kwargs["repo_id"] == "someone/mine"
    api.file_exists.return_value = True
    model.push_to_hub("a/b")
    assert api.files.keys() == {"config.json", "model.safetensors"}
    tokenizer.push_to_hub("a/b")
    assert {"spiece.model", "tokenizer_config.json"} <= api.files.keys()
    assert "README.md" not in api.files
    with pytest.raises(TypeError, match="Received: private"):
        model.save_pretrained(tmp_path, private=True)
    api.create_repo.side_effect = OSError("no network\nand a long story")
    with pytest.raises(UserError, match="OSError: no network. Log in with `hf auth login`"):
        tokenizer.push_to_hub("a/b")
