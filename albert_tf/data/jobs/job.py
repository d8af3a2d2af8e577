"""A `build_data` job: its output, the parts of its corpus, and `make_part`.

A job contains every option that affects the bytes of the examples. `make_part` writes a part's
shards, in a local process or on Spark. The shards depend only on the job and the part.
"""

import contextlib
import errno
import functools
import hashlib
import json
import os
import re
import tempfile
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Final, NamedTuple

from albert_tf import files
from albert_tf.data.corpus.documents import Document, Split, documents, splits
from albert_tf.data.corpus.files import InputFile, file_system, is_remote, text_bytes
from albert_tf.data.corpus.options import CorpusOptions
from albert_tf.data.corpus.sentences import sentence_splitter
from albert_tf.data.pretraining.examples import ExampleMaker
from albert_tf.data.pretraining.masking import WordTable, word_table
from albert_tf.data.pretraining.options import BuildDataOptions, ExampleOptions
from albert_tf.data.pretraining.records import WORDS, frame
from albert_tf.errors import UserError
from albert_tf.files import LOCK, locked
from albert_tf.text.tokenizer import AlbertTokenizer
from albert_tf.text.tokenizer_files import TOKENIZER_CONFIG

_AT_ONCE: Final = 16
_NO_SPACE: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class Output:
    """A job's output files, in a local folder or in an object store that fsspec supports.

    Each file is either complete or absent.

    Args:
        location: path or URL.
    """

    WORK: Final = ".build-data"  # folder for the settings and reports of an unfinished run
    SETTINGS: Final = f"{WORK}/settings.json"
    ERROR: Final = f"{WORK}/error.json"
    REPORTS: Final = f"{WORK}/reports"
    SHARD: Final = re.compile(r"examples-\d{6,}-\d{5,}\.tfrecord")  # the names of shards

    def __init__(self, location: str):
        self.location = location
        self._files, self._root = file_system(location)
        self.is_local = "file" in self._files.protocol

    def write(self, name: str, content: bytes) -> None:
        """Writes a file, replacing any existing one.

        Raises:
            UserError: no space is left, or the store rejects the write.
        """
        path = Path(self._path(name))
        temporary = Path(self._root, self.WORK, f"{path.name}.{uuid.uuid4().hex}")
        try:
            if not self.is_local:
                self._files.pipe_file(self._path(name), content)
                return
            for folder in (temporary.parent, path.parent):
                folder.mkdir(exist_ok=True)
            temporary.write_bytes(content)
            temporary.replace(path)
        except Exception as error:  # each protocol raises its own errors
            if self.is_local and getattr(error, "errno", None) not in _NO_SPACE:
                raise
            raise UserError(
                f"Writing to {self.location} failed: {type(error).__name__}: "
                f"{str(error).rstrip('.')}. Run the same command again to resume."
            ) from error
        finally:
            if self.is_local:
                temporary.unlink(missing_ok=True)

    def read(self, name: str) -> bytes:
        """Returns the content of a file."""
        path = self._path(name)
        return files.read_bytes(path) if self.is_local else bytes(self._files.cat_file(path))

    def write_json(self, name: str, content: Mapping[str, Any]) -> None:
        """Writes a JSON file. The same content results in the same bytes."""
        self.write(name, (json.dumps(content, indent=1) + "\n").encode())

    def read_json(self, name: str) -> dict[str, Any] | None:
        """Reads a JSON object. Returns None if the file is missing, truncated, or not an object."""
        try:
            content = json.loads(self.read(name))
        except (FileNotFoundError, ValueError):
            return None
        return content if isinstance(content, dict) else None

    def sizes(self, folder: str = "") -> dict[str, int]:
        """Returns the size of each file in a folder, except the lock. Subfolders have size 0."""
        self._files.invalidate_cache()
        try:
            entries = self._files.ls(self._path(folder), detail=True)
        except FileNotFoundError:
            return {}
        sizes = {
            entry["name"].rstrip("/").rpartition("/")[2]: entry["size"] or 0 for entry in entries
        }
        sizes.pop(LOCK, None)
        return sizes

    def has_digest(self, name: str, sha256: str) -> bool:
        """Returns whether a file has this digest. True for object stores, which verify uploads."""
        return not self.is_local or files.sha256(Path(self._path(name))) == sha256

    def remove(self, *names: str) -> None:
        """Removes files, if they exist."""
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                self._files.rm_file(self._path(name))

    def remove_work(self) -> None:
        """Removes the files that only an unfinished run needs."""
        with contextlib.suppress(FileNotFoundError):
            self._files.rm(self._path(self.WORK), recursive=True)

    def locked(self) -> contextlib.AbstractContextManager[None]:
        """Creates the folder and returns a lock on it; see `files.locked`.

        Object stores have no locks, but two runs with the same settings write the same bytes.
        """
        return locked(self._root, self.location) if self.is_local else contextlib.nullcontext()

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}".rstrip("/")


FORMAT: Final = 5  # incremented whenever the same job would write different bytes
SHARD_BYTES: Final = 8 << 20  # a process needs about 10 times as much memory
# A small corpus has smaller shards, so that there are enough for interleaving and for all workers.
FEW_SHARDS: Final = 48
LEAST_SHARD_BYTES: Final = 64 << 10
FILE_BYTES: Final = 1 << 10  # added to each file's size, to limit the number of files in a part
DOCUMENT_BYTES: Final = 256  # memory for each document, in addition to its text


class Part(NamedTuple):
    """Consecutive ranges of the corpus, which one process reads in order.

    Attributes:
        number: 0-based index of the part in the corpus.
        splits: a range of a large file, a whole `.gz` file, or several small files.
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
        output: folder or URL.
        tokenizer: name and content of each file that `save_pretrained` writes, and of `WORDS`.
        examples, corpus: options for examples, and for reading the corpus.
        splitter: name of the sentence splitter.
        shard_bytes: approximate bytes of text in a shard.
    """

    inputs: tuple[InputFile, ...]
    output: str
    tokenizer: tuple[tuple[str, bytes], ...]
    examples: ExampleOptions
    corpus: CorpusOptions
    splitter: str
    shard_bytes: int

    def parts(self) -> list[Part]:
        """Divides the corpus into parts, which depend only on the corpus and on `shard_bytes`."""
        groups: list[list[Split]] = []
        room = 0
        for split in splits(self.inputs, self.shard_bytes):
            size = _split_bytes(split) + FILE_BYTES
            if size > room:
                groups.append([])
                room = self.shard_bytes
            groups[-1].append(split)
            room -= size
        return [
            Part(number, tuple(group), sum(map(_split_bytes, group)))
            for number, group in enumerate(groups)
        ]

    def settings(self) -> dict[str, Any]:
        """Returns the settings that affect the bytes of the examples, without paths and times."""
        files = dict(self.tokenizer)
        config = json.loads(files.pop(TOKENIZER_CONFIG))
        digests = {name: hashlib.sha256(files[name]).hexdigest() for name in sorted(files)}
        return {
            "format": FORMAT,
            "inputs": {file.name: file.size for file in self.inputs},
            "tokenizer": {**config, **digests},
            "words": json.loads(files[WORDS])["rule"],
            "examples": asdict(self.examples),
            "corpus": {**asdict(self.corpus), "sentence_splitter": self.splitter},
            "shard_bytes": self.shard_bytes,
        }


def make_job(options: BuildDataOptions) -> Job:
    """Finds the files of a corpus, reads the vocabulary, and returns the job.

    Raises:
        UserError: the files, the vocabulary, or the splitter can't be found; or the output folder
            is inside the input or contains it.
    """
    inputs, output = options.files(), options.output
    _check_output(output, [*options.input, *(file.path for file in inputs)])
    sentence_splitter(options.sentence_splitter, options.corpus)  # raises if it doesn't exist
    tokenizer = AlbertTokenizer.from_pretrained(options.vocab)
    files = tokenizer.files()
    files[WORDS] = json.dumps(word_table(tokenizer).as_json()).encode()
    return Job(
        inputs=tuple(inputs),
        output=output if is_remote(output) else os.path.abspath(output),
        tokenizer=tuple(sorted(files.items())),
        examples=options.examples,
        corpus=options.corpus,
        splitter=options.sentence_splitter,
        shard_bytes=options.shard_bytes or default_shard_bytes(inputs),
    )


def default_shard_bytes(inputs: Sequence[InputFile]) -> int:
    """Returns the default shard size for a corpus, in bytes of text."""
    total = sum(map(text_bytes, inputs))
    return min(SHARD_BYTES, max(LEAST_SHARD_BYTES, total // FEW_SHARDS))


def _split_bytes(split: Split) -> int:
    return text_bytes(split.file) if split.end is None else split.end - split.start


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
                "The input and the output folder must not contain each other, because the next run "
                f"would read the output. Received: {path} and {output}. Choose another folder."
            )


@dataclass(frozen=True, order=True)
class ShardReport:
    """A finished shard: its file name, its number of records, its size, and its digest."""

    file: str
    records: int
    bytes: int
    sha256: str

    @property
    def part(self) -> int:
        """The index of the shard's part."""
        return int(self.file.split("-")[1])


@dataclass(frozen=True)
class PartReport:
    """A finished part.

    Attributes:
        part: index of the part.
        shards: a report for each shard.
        counts: documents, bytes of text, tokens, examples, bad lines, …
    """

    part: int
    shards: tuple[ShardReport, ...]
    counts: dict[str, int]

    @classmethod
    def read(cls, output: Output, names: Iterable[str]) -> "list[PartReport]":
        """Reads reports by name, skipping missing and incomplete ones."""
        paths = [f"{Output.REPORTS}/{name}" for name in names]
        with ThreadPoolExecutor(_AT_ONCE) as threads:  # because object stores respond slowly
            contents = list(threads.map(output.read_json, paths))
        return [
            cls(
                content["part"],
                tuple(ShardReport(**shard) for shard in content["shards"]),
                content["counts"],
            )
            for content in contents
            if content
        ]


def report_name(part: Part) -> str:
    """Returns the file name of a part's report in `Output.REPORTS`."""
    return f"{part.number:06d}.json"


def make_part(job: Job, part: Part) -> PartReport:
    """Writes the shards of a part, then the part's report.

    The result depends only on the job and the part, so it is safe to build a part twice, even at
    the same time. Each group of documents with about `shard_bytes` of text becomes a shard. At most
    1.5 times `shard_bytes` of text is in memory.

    Raises:
        UserError: a line is bad and `bad_lines` is "stop", or no space is left.
    """
    output = Output(job.output)
    maker = _maker(job.tokenizer, job.examples, job.corpus, job.splitter)
    counts: Counter[str] = Counter()
    shards: list[ShardReport] = []
    corpus = chain.from_iterable(documents(split, job.corpus, counts) for split in part.splits)
    for group in _groups(corpus, job.shard_bytes):
        records = [record for _, record in sorted(maker.records(maker.read(group, counts), counts))]
        if records:
            content = b"".join(map(frame, records))
            name = f"examples-{part.number:06d}-{len(shards):05d}.tfrecord"
            output.write(name, content)
            digest = hashlib.sha256(content).hexdigest()
            shards.append(ShardReport(name, len(records), len(content), digest))
    counted = {name: count for name, count in sorted(counts.items()) if count}
    report = PartReport(part.number, tuple(shards), counted)
    output.write_json(f"{Output.REPORTS}/{report_name(part)}", asdict(report))
    return report


def _groups(read: Iterable[Document], limit: int) -> Iterator[list[Document]]:
    """Yields groups of consecutive documents, each of about `limit` and at least `limit / 2` bytes.

    A part has several groups if it is a `.gz` file, whose text size is unknown, or if a document
    that begins in the part ends far beyond it.
    """
    group: list[Document] = []
    rest: list[Document] = []  # becomes the next group, or joins this one if the part ends soon
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
def _maker(
    files: tuple[tuple[str, bytes], ...],
    examples: ExampleOptions,
    corpus: CorpusOptions,
    splitter: str,
) -> ExampleMaker:
    """Returns an `ExampleMaker`, which is cached because it loads the vocabulary."""
    with tempfile.TemporaryDirectory() as folder:
        for name, content in files:
            Path(folder, name).write_bytes(content)
        tokenizer = AlbertTokenizer.from_pretrained(folder)
    table = WordTable.from_json(json.loads(dict(files)[WORDS]))
    return ExampleMaker(tokenizer, table, examples, sentence_splitter(splitter, corpus))
