import json

import numpy as np
import pytest

from albert_tf.pipelines import pipeline

TEXTS = ["She sells bread.", "", "In 1999, about 20,000 people came to see the lights. " * 3]


def vectors(output):
    return [json.loads(line)["vector"] for line in output.splitlines()]


@pytest.mark.parametrize("pooling", ["mean", "cls", "max"])
def test_embed(ask, task_model, pooling):
    extract = pipeline(
        "feature-extraction",
        *task_model("embed"),
        pooling=pooling,
        stride=11,  # a quarter of what a window of 48 tokens has
        return_tensors=True,
    )
    status, output, errors = ask("embed", *TEXTS, "--pooling", pooling)
    assert (status, errors) == (0, "")
    assert [json.loads(line)["text"] for line in output.splitlines()] == TEXTS
    np.testing.assert_allclose(vectors(output), np.stack(extract(TEXTS)), atol=1e-5)


def test_files(ask, tmp_path):
    expected = ask("embed", *TEXTS)[1]
    npy, jsonl = tmp_path / "vectors.npy", tmp_path / "vectors.jsonl"
    _, output, _ = ask("embed", *TEXTS, "--output", npy, "--json")
    assert json.loads(output) == {"texts": 3, "output": str(npy)}
    array = np.load(npy, allow_pickle=False)
    assert array.dtype == "float32"
    np.testing.assert_allclose(array, vectors(expected), atol=1e-5)
    assert ask("embed", *TEXTS, "--output", jsonl)[1] == f"3 vectors in {jsonl}\n"
    assert jsonl.read_text(encoding="utf-8") == expected


def test_the_output_must_not_replace_the_texts(ask, tmp_path):
    path = tmp_path / "texts.jsonl"
    path.write_text('{"text": "a", "id": 7}\n')
    status, _, errors = ask("embed", "--input", path, "--output", path, "--force")
    assert (status, "would replace the input" in errors) == (2, True)
    assert "7" in path.read_text()


@pytest.mark.parametrize("name", ["vectors.npy", "vectors.jsonl"])
def test_a_full_disk(ask, tmp_path, files_of_at_most, name):
    ask("embed", "a")  # writes the model
    with files_of_at_most(200):
        status, output, errors = ask("embed", *TEXTS, "--output", tmp_path / name)
    assert (status, output) == (2, "")
    assert f"error: {tmp_path / name}: File too large. Raise" in errors
    assert not list(tmp_path.iterdir())


def test_an_empty_file(ask, tmp_path, task_model):
    (tmp_path / "texts.txt").touch()
    npy = tmp_path / "vectors.npy"
    _, output, _ = ask("embed", "--input", tmp_path / "texts.txt", "--output", npy)
    assert output == f"0 vectors in {npy}\n"
    model, _ = task_model("embed")
    assert np.load(npy).shape == (0, model.config.hidden_size)


def test_a_folder_of_sentence_transformers(ask, task_model, sentence_folder):
    def embed(*arguments):
        status, output, errors = ask("embed", *TEXTS, *arguments, model=sentence_folder)
        assert (status, errors) == (0, "")
        return np.array(vectors(output))

    made = pipeline("feature-extraction", *task_model("embed"), pooling="max")
    expected = np.array(made(TEXTS, normalize=True, max_length=12, truncation=True))
    np.testing.assert_allclose(embed(), expected, atol=1e-6)
    lengths = np.linalg.norm(embed("--no-normalize"), axis=1)
    assert not np.allclose(lengths, 1, atol=1e-2)
    mean = made(TEXTS, pooling="mean", normalize=True, stride=11)
    np.testing.assert_allclose(embed("--pooling", "mean", "--normalize"), mean, atol=1e-6)
