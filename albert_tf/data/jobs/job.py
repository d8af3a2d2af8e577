"""What to build: a corpus, its parts, and every option that the bytes of the examples depend on."""

import dataclasses
import hashlib
import json
import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from albert_tf.data.corpus.documents import Split, splits
from albert_tf.data.corpus.files import InputFile, find_inputs, is_remote, text_bytes
from albert_tf.data.corpus.options import CorpusOptions
from albert_tf.data.corpus.sentences import sentence_splitter
from albert_tf.data.jobs.options import BuildDataOptions
from albert_tf.data.pretraining.options import ExampleOptions
from albert_tf.data.pretraining.records import WORDS
from albert_tf.data.pretraining.words import word_table
from albert_tf.errors import UserError
from albert_tf.text.base_tokenizer import BaseTokenizer
from albert_tf.text.tokenizer import AlbertTokenizer
from albert_tf.text.tokenizer_files import TOKENIZER_CONFIG

FORMAT: Final = 4  # increases whenever the same job would write other bytes
SHARD_BYTES: Final = 8 << 20  # a process needs about 10 times as much memory
# A small corpus gets smaller shards: enough of them for the reader to mix, and for all workers.
FEW_SHARDS: Final = 48
LEAST_SHARD_BYTES: Final = 64 << 10
FILE_BYTES: Final = 1 << 10  # added to the size of each file, so that a part has a bounded number


class Part(NamedTuple):
    """Neighbouring pieces of the corpus that one process reads in order.

    Attributes:
        number: its place in the corpus.
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
        """The parts of the corpus; they depend on the corpus and on `shard_bytes` alone."""
        return [
            Part(number, tuple(group), sum(map(_split_bytes, group)))
            for number, group in enumerate(_grouped(splits(self.inputs, self.shard_bytes), self))
        ]

    def settings(self) -> dict[str, Any]:
        """Everything that the bytes of the examples depend on, as JSON without paths and times."""
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
        """The job without what a worker gets from its part or from the output: a few kilobytes."""
        digests = tuple((name, hashlib.sha256(each).digest()) for name, each in self.tokenizer)
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
    """Bytes of text in a shard of this corpus."""
    total = sum(map(text_bytes, inputs))
    return min(SHARD_BYTES, max(LEAST_SHARD_BYTES, total // FEW_SHARDS))


def _grouped(found: Sequence[Split], job: Job) -> Iterator[list[Split]]:
    group: list[Split] = []
    size = 0
    for split in found:
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
