"""The first phase: documents are dealt to buckets on disk, as a sort-merge shuffle's map side does.

A part of the corpus becomes a run: a file with its documents in the order of their buckets, and
behind them uint64 `[buckets + 1]`, the byte that each bucket begins with. All documents of a bucket
are then read from all runs. Memory is bounded by `HELD_BYTES`: a part with more text, as a .gz file
may be, becomes several runs.
"""

import os
import struct
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from albert_tf.data.corpus.documents import Document, Split, documents, splits
from albert_tf.data.jobs.job import Job, bucket_of, text_bytes
from albert_tf.data.jobs.reports import FileReport, is_right, measure, read_json, write_json
from albert_tf.data.pretraining import draws
from albert_tf.files import written_atomically

FOLDER: Final = "work/scratch"  # in the output
HELD_BYTES: Final = 40 << 20  # above the default `split_bytes`: one run a part
OVERHEAD_BYTES: Final = 64  # of a document in memory, beside its text
NEWS_BYTES: Final = 1 << 20  # of text between two words to the progress bar
_HEADER: Final = struct.Struct("<IQI")  # number of the input file, offset, bytes of text
_INDEX: Final = struct.Struct("<2Q")

Tell = Callable[[Mapping[str, int]], None]


class Part(NamedTuple):
    """Neighbouring splits that are dealt together: small files would make as many small runs."""

    name: str
    splits: tuple[Split, ...]

    @property
    def text_bytes(self) -> int:
        """Bytes of text in it, about."""
        return sum(_split_bytes(split) for split in self.splits)


class PartReport(NamedTuple):
    """A part that is dealt.

    Attributes:
        name: the part's.
        runs: its files.
        counts: what was counted in it: documents, bytes, bad lines, …
        buckets: the ones whose documents were kept; None for all.
    """

    name: str
    runs: tuple[FileReport, ...]
    counts: dict[str, int]
    buckets: tuple[int, ...] | None


def parts(job: Job) -> list[Part]:
    """The splits of the corpus, each part about `split_bytes` of text."""
    gathered: list[list[Split]] = []
    size = 0
    for split in splits(list(job.inputs), job.corpus):
        if not gathered or size + _split_bytes(split) > job.corpus.split_bytes:
            gathered.append([])
            size = 0
        gathered[-1].append(split)
        size += _split_bytes(split)
    return [_part(number, tuple(each)) for number, each in enumerate(gathered)]


def deal(job: Job, part: Part, buckets: Collection[int] | None, tell: Tell) -> PartReport:
    """Writes the runs of a part, and its report beside them.

    Args:
        buckets: whose documents are wanted; None for all.
        tell: hears of `advance` in bytes of text, and of `documents`.
    Raises:
        UserError: a bad line, unless these are skipped.
    """
    counts: Counter[str] = Counter()
    runs: list[FileReport] = []
    dealt = documents_of(part, job, counts)
    for number, held in enumerate(_held(job, _told(dealt, part, tell), buckets)):
        runs.append(_write_run(job, job.folder / FOLDER / f"{part.name}-{number:03d}.run", held))
    report = PartReport(
        part.name,
        tuple(runs),
        {name: count for name, count in sorted(counts.items()) if count},
        None if buckets is None else tuple(sorted(buckets)),
    )
    write_json(job.folder / FOLDER / f"{part.name}.json", _as_json(report))
    return report


def documents_of(part: Part, job: Job, counts: Counter[str]) -> Iterator[Document]:
    """The documents of a part, in order."""
    for split in part.splits:
        yield from documents(split, job.corpus, counts)


def kept(job: Job, part: Part, buckets: Collection[int] | None) -> PartReport | None:
    """The report of a part that is dealt already, with these buckets and whole."""
    found = read_json(job.folder / FOLDER / f"{part.name}.json")
    if found is None:
        return None
    report = _from_json(found)
    if report.buckets is not None and (buckets is None or not {*buckets} <= {*report.buckets}):
        return None
    whole = all(is_right(job.folder / FOLDER / run.file, run) for run in report.runs)
    return report if whole else None


def tidy(job: Job, reports: Iterable[PartReport]) -> None:
    """Removes runs that belong to none of the reports: cut otherwise, damaged, or unfinished."""
    known = {run.file for report in reports for run in report.runs}
    for path in (job.folder / FOLDER).glob("*.run"):
        if path.name not in known:
            path.unlink()


def run_files(job: Job) -> list[Path]:
    """The runs, by name."""
    return sorted((job.folder / FOLDER).glob("*.run"))


def bucket_documents(job: Job, bucket: int, runs: Iterable[Path]) -> list[Document]:
    """The documents of a bucket in all runs."""
    found: list[Document] = []
    for path in runs:
        with path.open("rb", buffering=0) as file:
            number = file.fileno()
            index = os.fstat(number).st_size - 8 * (job.buckets + 1)
            start, end = _INDEX.unpack(os.pread(number, _INDEX.size, index + 8 * bucket))
            found += _decode(os.pread(number, end - start, start), job)
    return found


def _held(
    job: Job, dealt: Iterable[Document], buckets: Collection[int] | None
) -> Iterator[dict[int, list[bytes]]]:
    """Encoded documents by bucket, handed on whenever enough are held, and at the end."""
    held: dict[int, list[bytes]] = defaultdict(list)
    size = 0
    for document in dealt:
        bucket = bucket_of(job, document)
        if buckets is None or bucket in buckets:
            header = _HEADER.pack(job.numbers[document.source], document.offset, len(document.text))
            held[bucket].append(header + document.text)
            size += len(document.text) + OVERHEAD_BYTES
        if size >= HELD_BYTES:
            yield held
            held, size = defaultdict(list), 0
    if held:
        yield held


def _told(dealt: Iterable[Document], part: Part, tell: Tell) -> Iterator[Document]:
    """The same documents; at the end, as much was told as the part was thought to have."""
    rest, size, count = part.text_bytes, 0, 0
    for document in dealt:
        yield document
        size, count = size + len(document.text), count + 1
        if size >= NEWS_BYTES:
            tell({"advance": size, "documents": count})
            rest, size, count = rest - size, 0, 0
    tell({"advance": rest, "documents": count})


def _write_run(job: Job, path: Path, held: Mapping[int, list[bytes]]) -> FileReport:
    ends = np.zeros(job.buckets + 1, "<u8")
    with written_atomically(path, force=True) as place:
        with place.open("wb") as file:
            for bucket in sorted(held):
                file.writelines(held[bucket])
                ends[bucket + 1] = sum(map(len, held[bucket]))
            file.write(np.cumsum(ends, dtype="<u8").tobytes())
        return measure(place)


def _decode(data: bytes, job: Job) -> Iterator[Document]:
    place = 0
    while place < len(data):
        number, offset, length = _HEADER.unpack_from(data, place)
        place += _HEADER.size
        yield Document(job.inputs[number].name, offset, data[place : place + length])
        place += length


def _part(number: int, its: tuple[Split, ...]) -> Part:
    names = [str(value) for split in its for value in (split.file.name, split.start, split.end)]
    return Part(f"part-{number:06d}-{draws.key(*names):016x}", its)


def _split_bytes(split: Split) -> int:
    if split.end is None:
        return text_bytes(split.file)
    return min(split.end, split.file.size) - split.start


def _as_json(report: PartReport) -> dict[str, Any]:
    return {**report._asdict(), "runs": [run._asdict() for run in report.runs]}


def _from_json(content: Mapping[str, Any]) -> PartReport:
    buckets = content["buckets"]
    return PartReport(
        content["name"],
        tuple(FileReport(**run) for run in content["runs"]),
        content["counts"],
        None if buckets is None else tuple(buckets),
    )
