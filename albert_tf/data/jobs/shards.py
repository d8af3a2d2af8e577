"""The second phase: the documents of a bucket become one file of examples for each copy."""

import functools
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final, NamedTuple

from albert_tf.data.corpus.documents import Document
from albert_tf.data.corpus.sentences import sentence_splitter, sentences
from albert_tf.data.jobs.job import Job
from albert_tf.data.jobs.reports import FileReport, is_right, measure, read_json, write_json
from albert_tf.data.pretraining.examples import ExampleMaker
from albert_tf.data.pretraining.pairs import Passages
from albert_tf.data.pretraining.records import frame
from albert_tf.files import written_atomically

FILES: Final = "examples-*.tfrecord"
REPORTS: Final = "work/reports"  # in the output


class ShardReport(NamedTuple):
    """A finished file of examples.

    Attributes:
        file: its name.
        records, bytes, sha256: its content.
        counts: what was counted while it was made: tokens, sentences that were cut, …
    """

    file: str
    records: int
    bytes: int
    sha256: str
    counts: dict[str, int]

    @property
    def content(self) -> FileReport:
        """The part of the report that can be measured."""
        return FileReport(self.file, self.bytes, self.sha256)


def file_name(job: Job, copy: int, bucket: int) -> str:
    """The name of the file of a bucket's copy."""
    return f"examples-{copy * job.buckets + bucket:05d}-of-{job.files:05d}.tfrecord"


def write_bucket(
    job: Job,
    bucket: int,
    documents: Iterable[Document],
    done: Callable[[ShardReport], None] = lambda report: None,
) -> list[ShardReport]:
    """Writes the files of a bucket; the ones that are there and whole are kept.

    What is written is a pure function of the job and the bucket's documents, in whatever order
    these come. Two processes may do the same bucket at once.

    Args:
        done: hears of each file that was written.
    Raises:
        OSError: no space left, …
    """
    names = [file_name(job, copy, bucket) for copy in range(job.examples.copies)]
    found = [kept(job, name) for name in names]
    if all(found):
        return [report for report in found if report]
    read: Counter[str] = Counter()
    passages = _maker(job).read(sorted(documents), read)
    reports = []
    for copy, (name, report) in enumerate(zip(names, found, strict=True)):
        if report is None:
            # What is counted once for all copies is in the report of the first.
            report = _write(job, name, passages, copy, Counter() if copy else read)
            done(report)
        reports.append(report)
    return reports


def kept(job: Job, file: str) -> ShardReport | None:
    """The report of a file that is there as reported."""
    report = read_report(job, file)
    return report if report and is_right(job.folder / file, report.content) else None


def read_report(job: Job, file: str) -> ShardReport | None:
    """What is reported of a file, whether it is right or not."""
    found = read_json(_report_path(job, file))
    return None if found is None else ShardReport(**found)


def write_report(job: Job, report: ShardReport) -> None:
    """Notes that a file is finished."""
    write_json(_report_path(job, report.file), report._asdict())


def _write(job: Job, file: str, passages: Passages, copy: int, counts: Counter[str]) -> ShardReport:
    records = sorted(_maker(job).records(passages, copy, counts))
    # Made in `work`, which is removed at the end with whatever a killed process left there.
    finished = job.folder / "work" / "files" / file
    with written_atomically(finished, force=True) as place:
        with place.open("wb") as stream:
            stream.writelines(frame(record) for _, record in records)
        content = measure(place)
    finished.replace(job.folder / file)
    counted = {name: count for name, count in sorted(counts.items()) if count}
    report = ShardReport(file, len(records), content.bytes, content.sha256, counted)
    write_report(job, report)
    return report


def _report_path(job: Job, file: str) -> Path:
    return job.folder / REPORTS / f"{file}.json"


@functools.lru_cache(maxsize=1)
def _maker(job: Job) -> ExampleMaker:
    """One for each process: it holds the vocabulary."""
    split = sentence_splitter(job.splitter, job.corpus.language)
    return ExampleMaker(
        job.load_tokenizer(),
        job.examples,
        functools.partial(sentences, options=job.corpus, split=split),
    )
