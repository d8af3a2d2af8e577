"""Jobs on the corpus of tests/data/jobs, and the settings of a small Spark."""

import pytest

from tests.data.jobs.conftest import corpus, finished, make, vocabulary  # noqa: F401


@pytest.fixture(scope="session")
def read():
    """Returns a function from a folder without subfolders to its files' content, keyed by name."""
    return lambda folder: {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture(scope="session")
def spark_settings():
    """Yields the settings of a small Spark on the loopback interface."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        yield {
            "spark.master": "local[2]",
            "spark.ui.enabled": "false",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.memory": "512m",
            "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
            "spark.executor.memory": "512m",
            "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1",
        }
