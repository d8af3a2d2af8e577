"""The server's configuration in export/serving is what TensorFlow Serving reads."""

from pathlib import Path

import pytest
import yaml

FOLDER = Path(__file__).parents[2] / "export/serving"


def test_compose_names_files_that_are_there():
    services = yaml.safe_load((FOLDER / "compose.yaml").read_text())["services"]
    for line in services["serving"]["command"]:
        name = line.partition("=/models/")[2]
        assert not name or (FOLDER / name).exists()


def test_the_server_reads_its_models():
    config = pytest.importorskip("tensorflow_serving.config.model_server_config_pb2")
    from google.protobuf import text_format

    found = text_format.Parse((FOLDER / "models.config").read_text(), config.ModelServerConfig())
    (model,) = found.model_config_list.config
    assert (model.name, model.base_path) == ("reviews", "/models/reviews")


def test_batches_are_not_padded():
    """The server pads masks with 1."""
    lines = (FOLDER / "batching.config").read_text().splitlines()
    assert not any("pad_variable" in line for line in lines if not line.startswith("#"))
