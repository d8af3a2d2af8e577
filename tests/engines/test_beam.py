"""Beam makes the files that one machine makes."""

import functools
from pathlib import Path

import pytest

from albert_tf.data.jobs.beam import map_on_beam
from albert_tf.data.jobs.run import run_job
from albert_tf.errors import UserError

pytest.importorskip("apache_beam")
pytestmark = pytest.mark.engines

TWO_WORKERS = ["--direct_running_mode=multi_processing", "--direct_num_workers=2"]


def run_beam(job, runner=None, arguments=()):
    return run_job(job, functools.partial(map_on_beam, runner=runner, arguments=arguments))


def test_the_same_files_as_on_one_machine(fresh, expected, read):
    outcome = run_beam(fresh, "DirectRunner", TWO_WORKERS)
    assert read(fresh.output) == expected
    assert outcome.made == tuple(sorted(name for name in expected if name.startswith("examples")))


def test_repairs_a_finished_folder(fresh, expected, read):
    folder = Path(fresh.output)
    folder.mkdir()
    for name, content in expected.items():
        (folder / name).write_bytes(content)
    lost = sorted(name for name in expected if name.startswith("examples"))[4]
    (folder / lost).unlink()
    assert lost in run_beam(fresh).made
    assert read(folder) == expected
    assert run_beam(fresh, "DataflowRunner").made == ()


@pytest.mark.parametrize("options", [[], TWO_WORKERS])
def test_a_bad_line_is_one_clean_error(bad, options):
    with pytest.raises(UserError, match=bad.message):
        run_beam(bad.job, "DirectRunner", options)


def test_an_unknown_runner(fresh):
    with pytest.raises(UserError, match="know the runner .* Received: .*Nonsense.* DirectRunner"):
        run_beam(fresh, "Nonsense")
