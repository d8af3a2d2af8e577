"""manifest.json: what a directory of examples is made of. The same bytes for the same job."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from albert_tf.data.jobs.job import Job
from albert_tf.data.jobs.reports import read_json, write_json
from albert_tf.data.jobs.shards import ShardReport
from albert_tf.data.pretraining.records import MANIFEST
from albert_tf.errors import UserError

KIND: Final = "albert_tf pretraining examples"
_SHOWN: Final = 5  # differences in a message


class Manifest(NamedTuple):
    """A finished directory.

    Attributes:
        settings: the job's.
        totals: of all files: documents, bytes of text, tokens, records, …
        shards: the files, by name; without counts.
    """

    settings: dict[str, Any]
    totals: dict[str, int]
    shards: tuple[ShardReport, ...]


def make_manifest(job: Job, corpus: Mapping[str, int], shards: Iterable[ShardReport]) -> Manifest:
    """The manifest of a job that is done.

    Args:
        corpus: what was counted while the documents were read, all parts together.
        shards: the reports of all files.
    """
    in_order = sorted(shards)
    counts: Counter[str] = Counter(corpus)
    for shard in in_order:
        counts.update(shard.counts)
    totals = {name: count for name, count in sorted(counts.items()) if count}
    return Manifest(
        json.loads(json.dumps(job.settings())),
        totals,
        tuple(shard._replace(counts={}) for shard in in_order),
    )


def write_manifest(folder: Path, manifest: Manifest, work: Path) -> None:
    """Writes it; replaces what is there.

    Args:
        work: a folder beside, where it is made.
    """
    shards = [shard._asdict() for shard in manifest.shards]
    for shard in shards:
        del shard["counts"]
    write_json(work / MANIFEST, {"kind": KIND, **manifest._asdict(), "shards": shards})
    (work / MANIFEST).replace(folder / MANIFEST)


def read_manifest(folder: Path) -> Manifest | None:
    """The manifest of a folder; None if it has none of ours."""
    found = read_json(folder / MANIFEST)
    if found is None or found.get("kind") != KIND:
        return None
    shards = tuple(ShardReport(**shard, counts={}) for shard in found["shards"])
    return Manifest(found["settings"], found["totals"], shards)


def require_same(folder: Path, then: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Refuses to go on in a folder with other settings.

    Raises:
        UserError: each setting that differs, with both values.
    """
    different = differences(then, json.loads(json.dumps(now)))
    if different:
        more = f" and {len(different) - _SHOWN} more" * (len(different) > _SHOWN)
        raise UserError(
            "A directory of examples goes on with the settings it began with. "
            f"Received for {folder}: {'; '.join(different[:_SHOWN])}{more}. "
            "Give the same settings, choose another directory, or start anew with --force."
        )


def differences(then: Mapping[str, Any], now: Mapping[str, Any], within: str = "") -> list[str]:
    """Settings that differ, in words."""
    found = []
    for name in sorted({*then, *now}):
        old, new = then.get(name), now.get(name)
        if isinstance(old, dict) and isinstance(new, dict):
            found += differences(old, new, f"{name} " if name != "examples" else "")
        elif old != new or (name in then) != (name in now):
            values = (repr(each[name]) if name in each else "nothing" for each in (then, now))
            found.append(f"{within}{name}: {next(values)} then, {next(values)} now")
    return found
