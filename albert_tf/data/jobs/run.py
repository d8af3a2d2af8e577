"""`build_data`: turns text into a directory of pretraining examples, in processes or on Spark.

Checks the output of an earlier run, builds the missing shards, and finally writes the manifest.
"""

import functools
import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, NamedTuple

from albert_tf.checkpoints.finder import SENTENCEPIECE, WORDPIECE
from albert_tf.data.jobs.job import Job, Output, Part, PartReport, ShardReport, make_job
from albert_tf.data.jobs.local import check_main, map_in_processes
from albert_tf.data.pretraining.options import BuildDataOptions
from albert_tf.data.pretraining.records import MANIFEST
from albert_tf.errors import UserError, listed
from albert_tf.files import require_same
from albert_tf.options import accepts_keywords
from albert_tf.progress import Progress

KIND: Final = "albert_tf pretraining examples"

Engine = Callable[[Job, Sequence[Part], Progress], Iterable[PartReport]]


@dataclass(frozen=True)
class Manifest:
    """The content of `manifest.json`. The same job results in the same bytes.

    Attributes:
        settings: settings of the job.
        totals: sums of the parts' counts: documents, bytes of text, tokens, examples, …
        shards: reports of all shards, sorted by file name.
    """

    settings: dict[str, Any]
    totals: dict[str, int]
    shards: tuple[ShardReport, ...]


class Outcome(NamedTuple):
    """A finished job: the manifest, and the names of the shards that this run built."""

    manifest: Manifest
    made: tuple[str, ...]


@accepts_keywords(BuildDataOptions)
def build_data(options: BuildDataOptions) -> Outcome:
    """Builds pretraining examples from text. Resumes interrupted runs and repairs damaged shards.

    Worker processes import the script that calls this function, so a script must call it under
    `if __name__ == "__main__":`, unless `workers` is 1.

    Raises:
        UserError: the settings differ from the interrupted run's, a line is bad, no space is left,
            and so on.
    """
    check_main()
    job = make_job(options)
    engine: Engine
    if options.engine == "spark":
        from albert_tf.data.jobs.spark import map_on_spark

        settings = dict(setting.split("=", 1) for setting in options.engine_option)
        engine = functools.partial(map_on_spark, settings=settings)
    else:
        engine = functools.partial(map_in_processes, workers=options.workers)
    return run_job(job, engine, options.force)


def run_job(job: Job, engine: Engine, force: bool = False) -> Outcome:
    """Builds a job's missing or damaged shards.

    Args:
        engine: function that builds parts and yields their reports in any order. The choice of
            engine doesn't affect the shards.
        force: whether to replace the existing output.
    Raises:
        UserError: see `build_data`.
    """
    output = Output(job.output)
    with output.locked(), Progress() as progress:
        manifest = _begin(job, output, force)
        reports = _earlier_reports(output, manifest)
        damaged = _damaged_parts(output, reports, progress)
        whole = {report.part: report for report in reports if report.part not in damaged}
        # In a finished output, a part without shards has no documents.
        todo = [
            part
            for part in job.parts()
            if (part.number in damaged if manifest else part.number not in whole)
        ]
        made = list(engine(job, todo, progress)) if todo else []
        if manifest is None:
            manifest = _finish(job, output, [*whole.values(), *made])
        else:
            _require_equal(job, manifest, made)
        output.remove_work()
        names = sorted(shard.file for report in made for shard in report.shards)
        return Outcome(manifest, tuple(names))


def read_manifest(output: Output) -> Manifest | None:
    """Returns the manifest of a finished output, or None if build-data hasn't written one."""
    content = output.read_json(MANIFEST)
    if content is None or content.get("kind") != KIND:
        return None
    shards = tuple(ShardReport(**shard) for shard in content["shards"])
    return Manifest(content["settings"], content["totals"], shards)


def _begin(job: Job, output: Output, force: bool) -> Manifest | None:
    """Prepares the output, and returns the manifest if the output is finished.

    If the run is killed at any point, the content of the output matches the stored settings.
    """
    names, now = output.sizes(), job.settings()
    manifest, begun = read_manifest(output), output.read_json(output.SETTINGS)
    shards = {name for name in names if output.SHARD.fullmatch(name)}
    known = {MANIFEST, *shards, *(name for name, _ in job.tokenizer)} if shards else set()
    others = sorted(names.keys() - known)
    if names and not manifest and output.WORK not in names and (others or not force):
        way_out = "Choose another folder" if others else "Start over with force=True"
        raise UserError(
            "The output folder must be new, empty, or an earlier output of build-data. Received: "
            f"{job.output}, which contains {[*others, *names][0]} but no valid {MANIFEST}. "
            f"{way_out}."
        )
    if force:
        output.remove(*(f"{output.REPORTS}/{name}" for name in output.sizes(output.REPORTS)))
    elif manifest or begun:
        then = manifest.settings if manifest else begun or {}
        if not manifest and then.get("corpus", {}).get("bad_lines") == "stop":
            # The finished parts contain no bad lines, so "skip" doesn't change them.
            then["corpus"]["bad_lines"] = now["corpus"]["bad_lines"]
        require_same(output.location, then, now)
    output.write_json(output.SETTINGS, now)
    output.remove(output.ERROR)
    if force:
        kept = {name for name, _ in job.tokenizer}
        output.remove(
            MANIFEST, *(name for name in (SENTENCEPIECE[0], WORDPIECE[0]) if name not in kept)
        )
        manifest = None
    for name, content in job.tokenizer:
        if names.get(name) != len(content) or output.read(name) != content:
            output.write(name, content)
    return manifest


def _earlier_reports(output: Output, manifest: Manifest | None) -> list[PartReport]:
    """Returns the reports of finished parts, and removes the shards of unfinished ones."""
    if manifest:
        shards = defaultdict(list)
        for shard in manifest.shards:
            shards[shard.part].append(shard)
        return [PartReport(part, tuple(reports), {}) for part, reports in shards.items()]
    reports = PartReport.read(output, sorted(output.sizes(output.REPORTS)))
    claimed = {shard.file for report in reports for shard in report.shards}
    names = [name for name in output.sizes() if output.SHARD.fullmatch(name)]
    output.remove(*(name for name in names if name not in claimed))
    return reports


def _damaged_parts(output: Output, reports: Iterable[PartReport], progress: Progress) -> set[int]:
    """Returns the indices of parts with a shard that is missing or differs from its report."""
    shards = [shard for report in reports for shard in report.shards]
    sizes, done, damaged = output.sizes(), 0, set()
    progress.start("checking", sum(shard.bytes for shard in shards))
    for shard in shards:
        right_size = sizes.get(shard.file) == shard.bytes
        if not right_size or not output.has_digest(shard.file, shard.sha256):
            damaged.add(shard.part)
        done += shard.bytes
        progress.update_to(done)
    return damaged


def _finish(job: Job, output: Output, reports: Iterable[PartReport]) -> Manifest:
    """Adds up the counts, and writes the manifest if there are examples."""
    counts: Counter[str] = Counter()
    for report in reports:
        counts.update(report.counts)
    if not counts["examples"]:
        output.remove(*(name for name, _ in job.tokenizer))
        output.remove_work()
        raise UserError(
            "The corpus must contain a document with at least two words. Received: "
            f"{listed([file.path for file in job.inputs])}, with {counts['documents']} documents "
            f"and {counts['bytes']:,} bytes of text."
        )
    shards = sorted(shard for report in reports for shard in report.shards)
    settings = json.loads(json.dumps(job.settings()))
    manifest = Manifest(settings, dict(sorted(counts.items())), tuple(shards))
    output.write_json(MANIFEST, {"kind": KIND, **asdict(manifest)})
    return manifest


def _require_equal(job: Job, manifest: Manifest, made: Iterable[PartReport]) -> None:
    parts = {report.part for report in made}
    then = {shard for shard in manifest.shards if shard.part in parts}
    different = sorted(then ^ {shard for report in made for shard in report.shards})
    if different:
        raise UserError(
            f"The corpus text has changed since {job.output} was built: {different[0].file} no "
            "longer matches. Start over with force=True."
        )
