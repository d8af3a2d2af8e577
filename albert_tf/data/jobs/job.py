"""A job of `build_data`: a corpus in parts, and `make_part`, from a part to its shards.

A job holds every option that the bytes of the examples depend on. `make_part` is one pure function
of the job and the part, which every engine maps.
"""

import dataclasses
import functools
import hashlib
import json
import os
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Final, NamedTuple

from albert_tf.data.corpus.documents import CorpusOptions, Document, Split, documents, splits
from albert_tf.data.corpus.files import InputFile, find_inputs, is_remote, text_bytes
from albert_tf.data.corpus.sentences import sentence_splitter, sentences
from albert_tf.data.jobs.output import WORK, Output, output_of
from albert_tf.data.pretraining.examples import ExampleMaker
from albert_tf.data.pretraining.masking import word_table
from albert_tf.data.pretraining.options import BuildDataOptions, ExampleOptions
from albert_tf.data.pretraining.records import WORDS, frame
from albert_tf.errors import UserError
from albert_tf.text.base_tokenizer import BaseTokenizer
from albert_tf.text.tokenizer import AlbertTokenizer
from albert_tf.text.tokenizer_files import TOKENIZER_CONFIG

FORMAT: Final = 5  # increases whenever the same job would write other bytes
SHARD_BYTES: Final = 8 << 20  # a process needs about 10 times as much memory
# A small corpus gets smaller shards: enough of them for the reader to mix, and for all workers.
FEW_SHARDS: Final = 48
LEAST_SHARD_BYTES: Final = 64 << 10
FILE_BYTES: Final = 1 << 10  # added to the size of each file, so that a part has a bounded number
DOCUMENT_BYTES: Final = 256  # of memory for each document, beside its text
SETTINGS: Final = f"{WORK}/settings.json"
REPORTS: Final = f"{WORK}/reports"
ERROR: Final = f"{WORK}/error.json"


class Part(NamedTuple):
    """Neighbouring ranges of the corpus, which a process reads in order.

    Attributes:
        number: number of the part in the order of the corpus, from 0.
        splits: a range of a large file, a whole `.gz`, or several small files.
        text_bytes: estimated bytes of text.
    """

    number: int
    splits: tuple[Split, ...]
    text_bytes: int


@dataclass(frozen=True)
class Job:
    """A corpus, a vocabulary, the options, and the output.

    Attributes:
        inputs: files of the corpus.
        output: folder, or its URL.
        tokenizer: name and content of each file that `save_pretrained` writes, and of `WORDS`.
        examples, corpus: options.
        splitter: name of the sentence splitter.
        shard_bytes: bytes of text in a shard, about.
        options: content of the `options.yaml` to write, if any.
    """

    inputs: tuple[InputFile, ...]
    output: str
    tokenizer: tuple[tuple[str, bytes], ...]
    examples: ExampleOptions
    corpus: CorpusOptions
    splitter: str
    shard_bytes: int
    options: bytes = b""

    def parts(self) -> list[Part]:
        """Divides the corpus; the parts depend on the corpus and on `shard_bytes` alone."""
        return [
            Part(number, tuple(group), sum(map(_split_bytes, group)))
            for number, group in enumerate(_grouped(splits(self.inputs, self.shard_bytes), self))
        ]

    def settings(self) -> dict[str, Any]:
        """Returns all that the examples' bytes depend on, as JSON without paths and times."""
        files = dict(self.tokenizer)
        config = json.loads(files.pop(TOKENIZER_CONFIG))
        digests = {name: hashlib.sha256(files[name]).hexdigest() for name in sorted(files)}
        rule = json.loads(files[WORDS])["rule"]
        return {
            "format": FORMAT,
            "inputs": {file.name: file.size for file in self.inputs},
            "tokenizer": {**config, **digests},
            "words": rule,
            "examples": asdict(self.examples),
            "corpus": {**asdict(self.corpus), "sentence_splitter": self.splitter},
            "shard_bytes": self.shard_bytes,
        }

    def for_workers(self) -> "Job":
        """Returns the job without content that a worker reads elsewhere: a few kilobytes."""
        digests = tuple(
            (name, hashlib.sha256(content).digest()) for name, content in self.tokenizer
        )
        return dataclasses.replace(self, inputs=(), tokenizer=digests)


def make_job(options: BuildDataOptions) -> Job:
    """Finds the files of a corpus, and reads the vocabulary.

    Raises:
        UserError: no such files, no vocabulary, no such splitter, or an output inside the input.
    """
    files, output = find_inputs(options.input), options.output
    _check_output(output, [*options.input, *(file.path for file in files)])
    sentence_splitter(options.sentence_splitter, options.language)  # raises if there is none
    case = options.do_lower_case
    lower_case = {} if case is None else {"do_lower_case": case}
    tokenizer = AlbertTokenizer.from_pretrained(options.vocab, **lower_case)
    return Job(
        inputs=tuple(files),
        output=output if is_remote(output) else os.path.abspath(output),
        tokenizer=_files_of(tokenizer),
        examples=options.examples,
        corpus=options.corpus,
        splitter=options.sentence_splitter,
        shard_bytes=options.shard_bytes or default_shard_bytes(files),
    )


def default_shard_bytes(inputs: Sequence[InputFile]) -> int:
    """Returns the bytes of text in a shard of this corpus."""
    total = sum(map(text_bytes, inputs))
    return min(SHARD_BYTES, max(LEAST_SHARD_BYTES, total // FEW_SHARDS))


def _grouped(ranges: Sequence[Split], job: Job) -> Iterator[list[Split]]:
    group: list[Split] = []
    size = 0
    for split in ranges:
        split_size = _split_bytes(split) + FILE_BYTES
        if group and size + split_size > job.shard_bytes:
            yield group
            group, size = [], 0
        group.append(split)
        size += split_size
    if group:
        yield group


def _split_bytes(split: Split) -> int:
    return text_bytes(split.file) if split.end is None else split.end - split.start


def _files_of(tokenizer: BaseTokenizer) -> tuple[tuple[str, bytes], ...]:
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(path) for path in tokenizer.save_pretrained(folder)]
        files = {path.name: path.read_bytes() for path in paths}
    files[WORDS] = json.dumps(word_table(tokenizer).as_json()).encode()
    return tuple(sorted(files.items()))


def _check_output(output: str, inputs: Sequence[str]) -> None:
    def full(path: str) -> Path:
        return Path(path) if is_remote(path) else Path(path).resolve()

    folder = full(output)
    for path in inputs:
        read = full(path)
        if is_remote(path) == is_remote(output) and (
            folder in read.parents or read in (folder, *folder.parents)
        ):
            raise UserError(
                "The output must not be in the input, nor around it: the next run would read it "
                f"as text. Received: {path} and {output}. Choose another folder."
            )


class ShardReport(NamedTuple):
    """A finished shard: its name, its number of records, and its content."""

    file: str
    records: int
    bytes: int
    sha256: str

    @property
    def part(self) -> int:
        """The number of the shard's part."""
        return int(self.file.split("-")[1])


class PartReport(NamedTuple):
    """A finished part.

    Attributes:
        part: number of the part.
        shards: reports of the shards.
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
    """Returns the name of a part's report."""
    return f"{REPORTS}/{part.number:06d}.json"


def make_part(
    job: Job, part: Part, on_progress: Callable[[int], None] = lambda done: None
) -> PartReport:
    """Writes the shards of a part, and its report last.

    The result depends on the job and the part alone, so that two processes may do the same part,
    and an interrupted one is done again. At most one and a half times `shard_bytes` of text are in
    memory. A group of documents of about this size becomes a shard.

    Args:
        on_progress: called with the bytes of text that are done, up to `part.text_bytes`.
    Raises:
        UserError: a bad line, unless these are skipped; no space left.
    """
    output, maker = output_of(job.output), _maker(job)
    counts: Counter[str] = Counter()
    shards: list[ShardReport] = []
    done = 0
    corpus = chain.from_iterable(documents(split, job.corpus, counts) for split in part.splits)
    for group in _groups(corpus, job.shard_bytes):
        passages = maker.read(group, counts)
        records = [record for _, record in sorted(maker.records(passages, counts))]
        if records:
            content = b"".join(map(frame, records))
            name = f"examples-{part.number:06d}-{len(shards):05d}.tfrecord"
            output.write(name, content)
            digest = hashlib.sha256(content).hexdigest()
            shards.append(ShardReport(name, len(records), len(content), digest))
        done += sum(len(document.text) for document in group)
        on_progress(min(done, part.text_bytes))
    counted = {name: count for name, count in sorted(counts.items()) if count}
    report = PartReport(part.number, tuple(shards), counted)
    fields = {**report._asdict(), "shards": [shard._asdict() for shard in shards]}
    output.write_json(report_file(part), fields)
    on_progress(part.text_bytes)
    return report


def make_part_on_cluster(job: Job, part: Part) -> None:
    """Makes a part on a worker of Spark or Beam; does nothing once another part has failed.

    Engines bury the text of an exception in their own. An error of the user's is therefore written
    to a file, and `read_reports` raises it.
    """
    output = output_of(job.output)
    if not output.read_json(SETTINGS) or output.read_json(ERROR):
        return  # read_reports raises both
    try:
        make_part(job, part)
    except (UserError, OSError) as error:
        output.write_json(ERROR, {"error": str(error)})


def read_reports(job: Job, parts: Sequence[Part]) -> list[PartReport]:
    """Reads the reports that the workers of a cluster wrote.

    Raises:
        UserError: an error that a worker wrote, or workers that don't see the output.
    """
    output = Output(job.output)
    error = output.read_json(ERROR)
    if error:
        raise UserError(error["error"])
    contents = output.read_all_json(map(report_file, parts))
    if not all(contents):
        raise UserError(
            "All workers and this machine must see the output under the same path. Received: "
            f"{job.output}, where {contents.count(None)} of {len(contents)} parts are missing."
        )
    return [PartReport.from_json(content) for content in contents if content]


def _groups(read: Iterable[Document], limit: int) -> Iterator[list[Document]]:
    """Yields groups of neighbouring documents: about `limit` bytes, and half as many at least.

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
    """Returns the same maker for all calls of a process, since it loads the vocabulary."""
    with tempfile.TemporaryDirectory() as folder:
        for name, _ in job.tokenizer:
            Path(folder, name).write_bytes(output_of(job.output).read(name))
        tokenizer = AlbertTokenizer.from_pretrained(folder)
    split = sentence_splitter(job.splitter, job.corpus.language)
    return ExampleMaker(
        tokenizer, job.examples, functools.partial(sentences, options=job.corpus, split=split)
    )
