"""What a cluster's workers run: both phases as functions, whose errors reach the driver as text."""

import contextlib
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from itertools import groupby
from operator import itemgetter
from typing import Any, Final
from urllib.parse import quote, unquote

from albert_tf.data.jobs.job import Job, bucket_of
from albert_tf.data.jobs.scratch import Part, documents_of
from albert_tf.data.jobs.shards import ShardReport, write_bucket
from albert_tf.errors import UserError

# Engines hand an error on within a text of theirs, its quotes and line ends perhaps escaped.
_MARKED: Final = "<albert_tf error: {}>"
_MARK: Final = re.compile(_MARKED.format("([^<>]*)"))
_PLAIN: Final = " /:,.;()"


def deal(part: Part, job: Job, wanted: Collection[int]) -> Iterator[tuple[int, Any]]:
    """The documents of a part, each with its bucket, and what was counted in it.

    Counts travel as data, since an engine may run a task twice and still takes its output once.

    Args:
        wanted: the buckets whose documents are wanted.
    Yields:
        A bucket and a `Document`; in the end `job.buckets`, one more than the last bucket, and the
        part's counts.
    """
    counts: Counter[str] = Counter()
    with _told():
        for document in documents_of(part, job, counts):
            bucket = bucket_of(job, document)
            if bucket in wanted:
                yield bucket, document
    yield job.buckets, dict(counts)


def write(bucket: int, dealt: Iterable[Any], job: Job) -> list[ShardReport]:
    """Writes the files of a bucket from its documents."""
    with _told():
        return write_bucket(job, bucket, dealt)


def write_all(dealt: Iterable[tuple[int, Any]], job: Job) -> Iterator[list[ShardReport]]:
    """Writes the files of several buckets, one after another, from what is sorted by bucket."""
    for bucket, pairs in groupby(dealt, itemgetter(0)):
        yield write(bucket, map(itemgetter(1), pairs), job)


def total(counts: Iterable[dict[str, int]]) -> Counter[str]:
    """The counts of all parts together."""
    result: Counter[str] = Counter()
    for each in counts:
        result.update(each)
    return result


def told(error: BaseException) -> UserError | None:
    """The mistake of the user's that a worker met, found in the text of an engine's error."""
    found = _MARK.search(str(error))
    return UserError(unquote(found[1])) if found else None


@contextlib.contextmanager
def _told() -> Iterator[None]:
    """Marks errors whose message is enough, so that `told` finds them."""
    try:
        yield
    except (UserError, OSError) as error:
        raise RuntimeError(_MARKED.format(quote(str(error), safe=_PLAIN))) from None
