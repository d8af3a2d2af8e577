"""A run resumes, repairs, or rejects an existing output."""

import dataclasses
import os
import shutil

import pytest

from albert_tf.data.jobs.job import Output
from albert_tf.data.jobs.run import read_manifest, run_job
from albert_tf.errors import UserError
from tests.data.jobs.conftest import interrupted, run_local

SHARDS = 8  # six parts, with three groups of b.txt.gz


@pytest.fixture
def copied(finished, tmp_path):
    """Returns a copy of a finished output, which a test may damage."""
    return shutil.copytree(finished, tmp_path / "examples")


def unused(job, parts, progress):
    raise AssertionError("nothing is left to do")


def test_an_interrupted_run_resumes_with_the_parts_that_are_missing(
    make, finished, content, tmp_path
):
    folder = tmp_path / "examples"
    with pytest.raises(KeyboardInterrupt):
        run_job(make(folder), interrupted(4))
    min(folder.glob("*.tfrecord")).write_bytes(b"")  # part 0 is made again
    made = run_local(make(folder)).made
    assert {name.split("-")[1] for name in made} == {"000000", "000004", "000005"}
    assert content(folder) == content(finished)


def test_a_finished_folder_is_checked_and_mended(make, finished, content, copied):
    job = make(copied)
    assert run_job(job, unused).made == ()
    names = sorted(path.name for path in copied.glob("*.tfrecord"))
    assert len(names) == SHARDS
    (copied / names[2]).write_bytes((copied / names[2]).read_bytes()[:-1])
    (last,) = (name for name in names if name.endswith("-00002.tfrecord"))
    third = [name for name in names if name[:15] == last[:15]]
    (copied / third[1]).write_bytes(b"x" + (copied / third[1]).read_bytes()[1:])
    (copied / "tokenizer_config.json").unlink()
    assert run_local(job).made == tuple(sorted({names[2], *third}))
    assert content(copied) == content(finished)


def test_parts_within_a_long_document_have_no_shards(make, tmp_path):
    text = tmp_path / "line.txt"
    text.write_text("One film. " * 4000)
    job = make(tmp_path / "examples", inputs=[text], max_document_bytes=5000)
    manifest = run_local(job).manifest
    assert len(job.parts()) == 5
    assert {shard.part for shard in manifest.shards} == {0}
    assert run_job(job, unused) == (manifest, ())


def test_mending_from_another_text_is_refused(make, finished, corpus, content, copied, tmp_path):
    moved = shutil.copytree(corpus, tmp_path / "corpus")
    (moved / "a.txt").write_text((corpus / "a.txt").read_text().replace("film", "book"))
    for path in copied.glob("examples-*"):
        path.unlink()
    job = make(copied, inputs=[moved])
    for _ in range(2):
        with pytest.raises(UserError, match=r"examples-.*tfrecord no longer matches. .*force=True"):
            run_local(job)
    shutil.copy(corpus / "a.txt", moved)
    run_local(job)
    assert content(copied) == content(finished)


@pytest.mark.parametrize("is_finished", [False, True])
def test_other_settings_are_refused_and_force_starts_anew(
    make, corpus, content, tmp_path, finished, is_finished
):
    folder = tmp_path / "examples"
    if is_finished:
        shutil.copytree(finished, folder)
    else:
        with pytest.raises(KeyboardInterrupt):
            run_job(make(folder), interrupted(1))
    before = content(folder)
    others = [
        (make(folder, random_seed=6), r"random_seed was 12345, is 6"),
        (make(folder, inputs=[corpus / "a.txt"]), r"inputs b.txt.gz was \d+, is nothing"),
        (make(folder, shard_bytes=5000), "shard_bytes was 9000, is 5000"),
    ]
    for job, message in others:
        with pytest.raises(UserError, match=message):
            run_local(job)
        assert content(folder) == before
    job = others[-1][0]
    run_local(job, force=True)
    run_local(make(tmp_path / "new", shard_bytes=5000))
    assert content(folder) == content(tmp_path / "new")


def test_force_removes_a_vocabulary_of_another_kind(make, copied):
    job = make(copied)
    files = dict(job.tokenizer)
    files["vocab.txt"] = files.pop("spiece.model")
    (copied / "mine.tfrecord").touch()
    with pytest.raises(KeyboardInterrupt):
        run_job(dataclasses.replace(job, tokenizer=(*files.items(),)), interrupted(0), force=True)
    assert (copied / "mine.tfrecord").exists()
    assert (copied / "vocab.txt").exists() and not (copied / "spiece.model").exists()


def test_only_force_replaces_the_remains_of_a_run(make, finished, content, copied):
    (copied / "spiece.model").unlink()
    os.truncate(copied / "manifest.json", 9)  # a power failure
    with pytest.raises(UserError, match=r"contains .* but no valid manifest.json.*with force=True"):
        run_local(make(copied))
    run_local(make(copied), force=True)
    assert content(copied) == content(finished)


def test_an_output_with_other_files_is_refused(make, content, tmp_path):
    folder = tmp_path / "examples"
    folder.mkdir()
    (folder / "letter.txt").write_text("Dear all")
    before = content(folder)
    for force in (False, True):
        with pytest.raises(UserError, match=r"contains letter.txt but .*another folder"):
            run_local(make(folder), force=force)
    assert content(folder) == before
    with pytest.raises(UserError, match=r"must be a folder. Received: .*letter.txt"):
        run_local(make(folder / "letter.txt"))


def test_a_bad_line_stops_a_run_which_resumes_when_it_skips(make, corpus, tmp_path):
    bad, folder = tmp_path / "z.jsonl", tmp_path / "examples"
    bad.write_text('{"text": "One. Two."}\nnonsense\n')
    inputs = [corpus / "d" / "a.txt", bad]
    with pytest.raises(UserError, match=r"z.jsonl, line 2"):
        run_local(make(folder, inputs=inputs), workers=2)
    manifest = run_local(make(folder, inputs=inputs, bad_lines="skip")).manifest
    assert manifest.totals["bad_lines"] == 1
    assert manifest.settings["corpus"]["bad_lines"] == "skip"


def test_a_corpus_without_a_document_is_refused(make, tmp_path):
    path = tmp_path / "a.txt"
    for text, received in (("", "0 documents and 0"), ("Word\n", "1 documents and 4")):
        path.write_text(text)
        with pytest.raises(UserError, match=f"at least two words. .*a.txt, with {received} bytes"):
            run_local(make(tmp_path / "examples", inputs=[path]))
        assert not (tmp_path / "examples").exists()


@pytest.mark.parametrize("text", ["[]", '{"kind": "another"}'])
def test_a_manifest_of_another_format_is_none(tmp_path, text):
    (tmp_path / "manifest.json").write_text(text)
    assert read_manifest(Output(str(tmp_path))) is None


def test_a_kill_while_the_run_begins_leaves_a_folder_to_resume(make, finished, content, tmp_path):
    (tmp_path / "examples" / Output.WORK).mkdir(parents=True)
    (tmp_path / "examples" / Output.WORK / "settings.json.0").touch()
    run_local(make(tmp_path / "examples"))
    assert content(tmp_path / "examples") == content(finished)
