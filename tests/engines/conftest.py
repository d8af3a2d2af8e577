"""A job that a test can pause, and the files that `map_in_processes` writes."""

import dataclasses
import functools
import gzip
import json
import os
import random
from pathlib import Path

import pytest

# A sentence splitter for workers, which waits at a certain word until a file exists.
GATED = """
import os, pathlib, time

GATE = pathlib.Path(os.environ["ALBERT_TF_TEST_GATE"])

def split(paragraph):
    if "zebra" in paragraph:
        (GATE / f"waiting-{os.getpid()}").touch()
        while not (GATE / "open").exists():
            time.sleep(0.05)
    return [sentence + "." for sentence in paragraph.split(".")]
"""


@pytest.fixture(scope="session")
def gate(tmp_path_factory):
    """Returns a folder. A waiting process writes `waiting-PID` there, and continues at `open`."""
    folder = tmp_path_factory.mktemp("gate")
    (folder / "gated.py").write_text(GATED)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ALBERT_TF_TEST_GATE", str(folder))
        patch.setenv("PYTHONPATH", str(folder), prepend=os.pathsep)
        patch.syspath_prepend(folder)
        patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        (folder / "open").touch()
        yield folder


@pytest.fixture(scope="session")
def corpus(tmp_path_factory):
    """Returns files of several kinds, one of which contains the gate's word in the middle."""
    folder = tmp_path_factory.mktemp("corpus")
    generator = random.Random(7)
    words = ["the", "quiet", "film", "and", "a", "warm", "boat", "with", "coffee", "music", "kind"]

    def document():
        sentences = (generator.choices(words, k=generator.randint(3, 12)) for _ in range(9))
        return ". ".join(map(" ".join, sentences))

    documents = [document() for _ in range(160)]
    documents[50] += ". zebra"
    (folder / "plain.txt").write_text("\n\n".join(documents[:100]))
    (folder / "deeper").mkdir()
    (folder / "deeper" / "lines.jsonl").write_text(
        "".join(json.dumps({"text": each}) + "\n" for each in documents[100:130]) + "no JSON\n"
    )
    (folder / "empty.txt").touch()
    with gzip.open(folder / "packed.txt.gz", "wt") as file:
        file.write("\n \n".join(documents[130:]))
    return folder


@pytest.fixture(scope="session")
def job(corpus, gate, tiny_vocabulary, tmp_path_factory):
    """Returns a job on 160 documents and one bad line, whose output doesn't exist yet."""
    from albert_tf.data.jobs.job import make_job
    from albert_tf.data.pretraining.options import BuildDataOptions

    vocabulary = tmp_path_factory.mktemp("vocabulary") / "spiece.model"
    vocabulary.write_bytes(tiny_vocabulary)
    options = BuildDataOptions(
        input=str(corpus),
        output=str(tmp_path_factory.mktemp("output") / "nowhere"),
        vocab=str(vocabulary),
        max_seq_length=43,
        bad_lines="skip",
        sentence_splitter="gated:split",
        shard_bytes=8000,
    )
    return make_job(options)


@pytest.fixture(scope="session")
def read():
    """Returns a function from a folder without subfolders to its files' content, keyed by name."""
    return lambda folder: {path.name: path.read_bytes() for path in Path(folder).iterdir()}


@pytest.fixture(scope="session")
def expected(job, read, tmp_path_factory):
    """Returns the files of a run in processes, keyed by name."""
    from albert_tf.data.jobs.local import map_in_processes
    from albert_tf.data.jobs.run import run_job

    output = tmp_path_factory.mktemp("local") / "examples"
    engine = functools.partial(map_in_processes, workers=1)
    manifest = run_job(dataclasses.replace(job, output=str(output)), engine).manifest
    assert manifest.totals["documents"] == 160
    assert manifest.totals["bad_lines"] == 1
    assert len({shard.part for shard in manifest.shards}) > 5
    return read(output)


@pytest.fixture
def fresh(job, tmp_path):
    """Returns the job with a new output folder."""
    return dataclasses.replace(job, output=str(tmp_path / "examples"))


@pytest.fixture(scope="session")
def spark_settings():
    """Returns the settings of a small Spark on the loopback interface."""
    return {
        "spark.master": "local[2]",
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "512m",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
        "spark.executor.memory": "512m",
        "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    }
