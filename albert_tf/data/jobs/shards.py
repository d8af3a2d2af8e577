"""From a part of the corpus to its shards: one pure function, which every engine maps."""

import functools
import hashlib
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from albert_tf.data.corpus.documents import Document, documents
from albert_tf.data.corpus.sentences import sentence_splitter, sentences
from albert_tf.data.jobs.job import Job, Part
from albert_tf.data.jobs.output import WORK, output_of
from albert_tf.data.pretraining.examples import ExampleMaker
from albert_tf.data.pretraining.records import frame
from albert_tf.errors import UserError
from albert_tf.text.tokenizer import AlbertTokenizer

SETTINGS: Final = f"{WORK}/settings.json"
REPORTS: Final = f"{WORK}/reports"
ERROR: Final = f"{WORK}/error.json"
DOCUMENT_BYTES: Final = 256  # of memory for each document, beside its text


class ShardReport(NamedTuple):
    """A finished shard: its name, its number of records, and its content."""

    file: str
    records: int
    bytes: int
    sha256: str

    @property
    def part(self) -> int:
        """The number of its part."""
        return int(self.file.split("-")[1])


class PartReport(NamedTuple):
    """A finished part.

    Attributes:
        part: its number.
        shards: the reports of its shards.
        counts: documents, bytes of text, tokens, examples, bad lines, …
    """

    part: int
    shards: tuple[ShardReport, ...]
    counts: dict[str, int]

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> "PartReport":
        """Reads a report that `make_part` wrote."""
        shards = tuple(ShardReport(**shard) for shard in content["shards"])
        return cls(content["part"], shards, content["counts"])


def report_file(part: Part) -> str:
    """The name of a part's report."""
    return f"{REPORTS}/{part.number:06d}.json"


def make_part(
    job: Job, part: Part, on_progress: Callable[[int], None] = lambda done: None
) -> PartReport:
    """Writes the shards of a part, and its report last.

    The result depends on the job and the part alone, so that two processes may do the same part,
    and an interrupted one is done again. At most one and a half times `shard_bytes` of text are in
    memory. A group of documents of about this size becomes a shard for each copy.

    Args:
        on_progress: called with the bytes of text that are done, up to `part.text_bytes`.
    Raises:
        UserError: a bad line, unless these are skipped; no space left.
    """
    output, maker, copies = output_of(job.output), _maker(job), job.examples.copies
    counts: Counter[str] = Counter()
    shards: list[ShardReport] = []
    done = 0.0
    read = (each for split in part.splits for each in documents(split, job.corpus, counts))
    for group in _groups(read, job.shard_bytes):
        passages = maker.read(group, counts)
        for copy in range(copies):
            records = [record for _, record in sorted(maker.records(passages, copy, counts))]
            if records:
                content = b"".join(map(frame, records))
                name = f"examples-{part.number:06d}-{len(shards):05d}.tfrecord"
                output.write(name, content)
                digest = hashlib.sha256(content).hexdigest()
                shards.append(ShardReport(name, len(records), len(content), digest))
            done += sum(len(document.text) for document in group) / copies
            on_progress(min(int(done), part.text_bytes))
    counted = {name: count for name, count in sorted(counts.items()) if count}
    report = PartReport(part.number, tuple(shards), counted)
    fields = {**report._asdict(), "shards": [shard._asdict() for shard in shards]}
    output.write_json(report_file(part), fields)
    on_progress(part.text_bytes)
    return report


def attempt_part(job: Job, part: Part) -> None:
    """Makes a part on a worker of an engine; does nothing once another part has failed.

    Engines bury the text of an exception in their own. An error of the user's is therefore written
    to a file, and the driver raises it.
    """
    output = output_of(job.output)
    if not output.read_json(SETTINGS) or output.read_json(ERROR):
        return  # the driver reports both
    try:
        make_part(job, part)
    except (UserError, OSError) as error:
        output.write_json(ERROR, {"error": str(error)})


def _groups(read: Iterable[Document], limit: int) -> Iterator[list[Document]]:
    """Neighbouring documents of about `limit` bytes together, and of half as many at least.

    A part has several groups if it is a `.gz`, whose text has no known size, or if a document
    begins in it and ends far behind it.
    """
    group: list[Document] = []
    rest: list[Document] = []  # becomes the next group unless the end of the part is near
    size = rest_size = 0
    for document in read:
        document_size = len(document.text) + DOCUMENT_BYTES
        if size < limit:
            group.append(document)
            size += document_size
            continue
        rest.append(document)
        rest_size += document_size
        if rest_size >= limit // 2:
            yield group
            group, size, rest, rest_size = rest, rest_size, [], 0
    if group:
        yield group + rest


@functools.lru_cache(maxsize=1)
def _maker(job: Job) -> ExampleMaker:
    """Makes one for each process, since it loads the vocabulary."""
    with tempfile.TemporaryDirectory() as folder:
        for name, _ in job.tokenizer:
            Path(folder, name).write_bytes(output_of(job.output).read(name))
        tokenizer = AlbertTokenizer.from_pretrained(folder)
    split = sentence_splitter(job.splitter, job.corpus.language)
    return ExampleMaker(
        tokenizer, job.examples, functools.partial(sentences, options=job.corpus, split=split)
    )
