"""Both phases as functions of an engine's workers."""

import subprocess
import sys

import pytest

from albert_tf.data.corpus.documents import Document
from albert_tf.data.jobs import scratch, tasks
from albert_tf.data.jobs.job import bucket_of
from albert_tf.errors import UserError


@pytest.fixture
def job(make, tmp_path):
    return make(tmp_path / "examples")


def test_deal_gives_the_wanted_documents_and_then_the_counts_of_all(job):
    part, *_ = scratch.parts(job)
    *dealt, (last, counts) = tasks.deal(part, job, {1, 3})
    everything = [*tasks.deal(part, job, range(job.buckets))][:-1]
    assert dealt == [(bucket, document) for bucket, document in everything if bucket in (1, 3)]
    assert all(bucket == bucket_of(job, document) for bucket, document in everything)
    assert last == job.buckets
    assert counts["documents"] == len(everything) > len(dealt) > 0


def test_write_all_makes_the_files_of_each_bucket(job):
    dealt = [
        (bucket, Document("a.txt", offset, b"One film. One boat."))
        for bucket, offset in ((1, 40), (1, 0), (4, 80))
    ]
    reports = [*tasks.write_all(dealt, job)]
    assert [len(each) for each in reports] == [job.examples.copies] * 2
    assert [[report.file[9:14] for report in each] for each in reports] == [
        ["00001", "00006", "00011"],
        ["00004", "00009", "00014"],
    ]


def test_total_adds_up():
    assert tasks.total([{"documents": 3}, {}, {"documents": 4, "bad_lines": 1}]) == {
        "documents": 7,
        "bad_lines": 1,
    }


@pytest.mark.parametrize(
    "error",
    [
        UserError(
            'A line must be UTF-8. Received: it\'s "no" <b>text</b> in Größe\\x.txt,\nline 31.'
        ),
        OSError(28, "No space left on device", "/somewhere/examples-00001.tfrecord"),
    ],
)
def test_an_error_is_found_again_in_what_an_engine_makes_of_it(error):
    with pytest.raises(RuntimeError, match="<albert_tf error: ") as raised, tasks._told():
        raise error
    found = tasks.told(Exception(f"Task failed {[str(raised.value)]!r}\n\tat java.lang.Thread.run"))
    assert isinstance(found, UserError)
    assert str(found) == str(error)


def test_other_errors_stay_theirs():
    with pytest.raises(ZeroDivisionError), tasks._told():
        _ = 1 / 0
    assert tasks.told(RuntimeError("Executor lost")) is None


def test_workers_import_no_tensorflow():
    code = "import sys, albert_tf.data.jobs.tasks; print({'tensorflow', 'keras'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "set()\n", done.stderr
