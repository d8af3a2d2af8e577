from albert_tf.checkpoints import weights
from albert_tf.training import start


def test_a_resumed_run_does_not_warn_of_new_weights(tmp_path, caplog):
    with start._silent_on_new_parts(tmp_path):
        weights.logger.warning("newly initialized: classifier")
    assert len(caplog.records) == 1
    (tmp_path / "checkpoints" / "step-00000001").mkdir(parents=True)
    with start._silent_on_new_parts(tmp_path):
        weights.logger.warning("newly initialized: classifier")
    assert len(caplog.records) == 1
    weights.logger.warning("newly initialized: classifier")
    assert len(caplog.records) == 2
