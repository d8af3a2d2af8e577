"""What is to be made: all that the bytes of a directory of examples depend on."""

import hashlib
import json
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from albert_tf.data.corpus.documents import Document
from albert_tf.data.corpus.files import InputFile, find_inputs, is_gzip
from albert_tf.data.corpus.options import CorpusOptions
from albert_tf.data.corpus.sentences import DEFAULT, sentence_splitter
from albert_tf.data.pretraining import draws
from albert_tf.data.pretraining.options import ExampleOptions
from albert_tf.errors import UserError
from albert_tf.text.base_tokenizer import BaseTokenizer
from albert_tf.text.tokenizer import AlbertTokenizer
from albert_tf.text.tokenizer_files import TOKENIZER_CONFIG

FORMAT: Final = 2  # of what a job writes; counts up whenever the same job would give other bytes
# A process holds one bucket at a time: its text, pieces and records, about 10 times its bytes.
BUCKET_BYTES: Final = 8 << 20
# A small corpus has as many as give several processes work up to the end, …
FEW_BUCKETS: Final = 32
LEAST_BUCKET_BYTES: Final = 256 << 10  # … but none so small that starting on it costs more.
GZIP_RATIO: Final = 3  # bytes of text for a byte of .gz, about


@dataclass(frozen=True)
class Job:
    """A corpus, a vocabulary, the options, and where the examples go.

    Attributes:
        inputs: the files of the corpus.
        output: a local folder, or one that all machines of a cluster see under this path.
        tokenizer: name and content of each file that `save_pretrained` writes.
        examples, corpus: the options.
        splitter: name of the sentence splitter.
        buckets: how many parts the documents are dealt to; each makes one file a copy.
    """

    inputs: tuple[InputFile, ...]
    output: str
    tokenizer: tuple[tuple[str, bytes], ...]
    examples: ExampleOptions
    corpus: CorpusOptions
    splitter: str
    buckets: int

    @property
    def folder(self) -> Path:
        """`output` as a path."""
        return Path(self.output)

    @property
    def files(self) -> int:
        """How many files of examples the job makes."""
        return self.examples.copies * self.buckets

    @cached_property
    def numbers(self) -> dict[str, int]:
        """The place in `inputs` of each file, by its name."""
        return {file.name: number for number, file in enumerate(self.inputs)}

    def settings(self) -> dict[str, Any]:
        """What must be the same to go on in a directory; JSON, without paths and times."""
        corpus = asdict(self.corpus)
        del corpus["split_bytes"]  # how the work is cut; the documents are the same
        files = dict(self.tokenizer)
        config = json.loads(files.pop(TOKENIZER_CONFIG))
        digests = {name: hashlib.sha256(files[name]).hexdigest() for name in sorted(files)}
        return {
            "format": FORMAT,
            "inputs": {file.name: file.size for file in self.inputs},
            "tokenizer": {**config, **digests},
            "examples": asdict(self.examples),
            "corpus": {**corpus, "sentence_splitter": self.splitter},
            "buckets": self.buckets,
        }

    def load_tokenizer(self) -> BaseTokenizer:
        """The tokenizer from its files."""
        with tempfile.TemporaryDirectory() as folder:
            for name, content in self.tokenizer:
                Path(folder, name).write_bytes(content)
            return AlbertTokenizer.from_pretrained(folder)


def bucket_of(job: Job, document: Document) -> int:
    """The bucket that a document belongs to."""
    seed = job.examples.random_seed
    return draws.key(seed, "bucket", document.source, document.offset) % job.buckets


def text_bytes(file: InputFile) -> int:
    """Bytes of text in a file: its size, or a guess at it."""
    return file.size * (GZIP_RATIO if is_gzip(file.path) else 1)


def default_buckets(inputs: Sequence[InputFile]) -> int:
    """How many buckets a corpus is dealt to."""
    total = sum(text_bytes(file) for file in inputs)
    return max(1, -(-total // BUCKET_BYTES), min(FEW_BUCKETS, total // LEAST_BUCKET_BYTES))


def make_job(
    inputs: Sequence[str],
    output: str,
    vocabulary: str,
    examples: ExampleOptions,
    corpus: CorpusOptions,
    splitter: str = DEFAULT,
    buckets: int | None = None,
    do_lower_case: bool | None = None,
) -> Job:
    """Finds the files of a corpus, and reads the vocabulary.

    Args:
        inputs: files, folders and globs.
        output: the folder to write.
        vocabulary: a vocabulary file, a model folder, or a name on the hub.
        splitter: "sentencex", or "module:function".
        buckets: as many as suit the corpus by default.
        do_lower_case: as the vocabulary says by default.
    Raises:
        UserError: no such files, no vocabulary, an output that can't be one, no bucket.
    """
    if buckets is not None and buckets < 1:
        raise UserError(f"buckets must be 1 or more. Received: {buckets}.")
    files = find_inputs(inputs)
    _check_output(output, [*inputs, *(file.path for file in files)])
    sentence_splitter(splitter, corpus.language)  # raises if there is no such splitter
    lower_case = {} if do_lower_case is None else {"do_lower_case": do_lower_case}
    tokenizer = AlbertTokenizer.from_pretrained(vocabulary, **lower_case)
    return Job(
        inputs=tuple(files),
        output=output,
        tokenizer=_files_of(tokenizer),
        examples=examples,
        corpus=corpus,
        splitter=splitter,
        buckets=buckets or default_buckets(files),
    )


def _files_of(tokenizer: BaseTokenizer) -> tuple[tuple[str, bytes], ...]:
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(path) for path in tokenizer.save_pretrained(folder)]
        return tuple(sorted((path.name, path.read_bytes()) for path in paths))


def _check_output(output: str, inputs: Sequence[str]) -> None:
    if "://" in output:
        raise UserError(
            "The output must be a folder of a file system, where a finished file is renamed into "
            f"its place. Received: {output}. Write to a folder, then copy it there."
        )
    folder = Path(output).resolve()
    for path in inputs:
        read = Path(path).resolve()
        if "://" not in path and (folder in read.parents or read in (folder, *folder.parents)):
            raise UserError(
                "The output must not be in the input, nor around it: what is written would be "
                f"read. Received: {path} and {output}. Choose another folder."
            )
