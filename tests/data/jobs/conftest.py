"""A corpus with files of each kind, and jobs on it that take one second."""

import functools
import gzip
import hashlib
import json
import random

import pytest

from tests.conftest import SENTENCES

SHARD_BYTES = 9000


def run_local(job, workers=1, force=False):
    """Runs a job in processes on this machine."""
    from albert_tf.data.jobs.local import map_in_processes
    from albert_tf.data.jobs.run import run_job

    return run_job(job, functools.partial(map_in_processes, workers=workers), force)


def interrupted(count):
    """Returns an engine that is interrupted after `count` parts."""
    from albert_tf.data.jobs.job import make_part

    def engine(job, parts, progress):
        for part in parts[:count]:
            yield make_part(job, part)
        raise KeyboardInterrupt

    return engine


@pytest.fixture(scope="session")
def corpus(tmp_path_factory):
    """Returns a folder with 96 documents in text, .gz, and JSONL files, and an empty file."""
    folder = tmp_path_factory.mktemp("corpus")
    generator = random.Random(7)
    texts = [" ".join(generator.choices(SENTENCES, k=generator.randint(2, 12))) for _ in range(96)]
    texts[20] += " A zebra."  # at which tests/engines stops a worker
    (folder / "a.txt").write_text("\n\n".join(texts[:40]))
    (folder / "b.txt.gz").write_bytes(gzip.compress("\n\n".join(texts[40:70]).encode(), mtime=0))
    (folder / "c.jsonl").write_text("".join(json.dumps({"text": t}) + "\n" for t in texts[70:93]))
    (folder / "d" / "e").mkdir(parents=True)
    (folder / "d" / "a.txt").write_text("\n\n".join(texts[93:]))
    (folder / "d" / "e" / "empty.txt").touch()
    return folder


@pytest.fixture(scope="session")
def vocabulary(tiny_vocabulary, tmp_path_factory):
    path = tmp_path_factory.mktemp("vocabulary") / "spiece.model"
    path.write_bytes(tiny_vocabulary)
    return str(path)


@pytest.fixture(scope="session")
def make(corpus, vocabulary):
    """Returns a function that creates a job."""
    from albert_tf.data.jobs.job import make_job
    from albert_tf.data.pretraining.options import BuildDataOptions

    def job(output, inputs=(corpus,), **options):
        given = {"max_seq_length": 40, "shard_bytes": SHARD_BYTES, "vocab": vocabulary, **options}
        inputs = [str(path) for path in inputs]
        return make_job(BuildDataOptions(input=inputs, output=str(output), **given))

    return job


@pytest.fixture(scope="session")
def finished(make, tmp_path_factory):
    """Returns the output of an uninterrupted job."""
    folder = tmp_path_factory.mktemp("finished") / "examples"
    run_local(make(folder))
    return folder


@pytest.fixture(scope="session")
def content():
    """Returns a function from a folder to the digests of its files, keyed by relative path."""

    def content(folder):
        return {
            str(path.relative_to(folder)): path.is_file()
            and hashlib.sha256(path.read_bytes()).hexdigest()
            for path in folder.rglob("*")
        }

    return content
