import keras
import pytest


@pytest.fixture(scope="module", autouse=True)
def graphs_as_traced():
    """Omits TensorFlow's optimization of graphs, which takes a third of the time of a short run."""
    if keras.backend.backend() != "tensorflow":
        yield
        return
    import tensorflow as tf

    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
    yield
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": False})
