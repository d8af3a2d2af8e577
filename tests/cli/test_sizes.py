from albert_tf.checkpoints import hugging_face
from albert_tf.models import AlbertModel
from tests.checkpoints.tensors import draw


def test_every_size(run):
    status, output, _ = run("sizes")
    assert status == 0
    rows = [line.split() for line in output.splitlines()]
    for row in (
        "base 128 768 12 12 3072 all 11,683,584 89M",
        "large 128 1024 24 16 4096 all 17,683,968 307M",
        "xlarge 128 2048 24 16 8192 all 58,724,864 1216M",
        "xxlarge 128 4096 12 64 16384 all 222,595,584 2437M",
    ):
        assert row.split() in rows
    assert max(map(len, output.splitlines())) <= 100


def test_a_model_on_disk(run, small_config, tmp_path):
    tensors = draw(small_config, "classifier")
    hugging_face.write(tmp_path, small_config, tensors, "AlbertForTokenClassification")
    parameters = AlbertModel(small_config).count_params()
    for path in (tmp_path, tmp_path / "config.json"):
        _, row, *_ = run("sizes", "--model", path)[1].splitlines()
        assert row.split()[:3] == [str(path), "6", "20"]
        assert row.split()[6:8] == ["all", f"{parameters:,}"]
