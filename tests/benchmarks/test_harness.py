"""Fresh processes, turns, medians, reports, and the scripts that documents name."""

import json
import math
import os
import re
import statistics
import sys
from functools import partial
from pathlib import Path

import pytest

from benchmarks import harness

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "Makefile", *(ROOT / "docs").glob("*.md"), *(ROOT / "benchmarks").glob("*.md")]


def test_a_case_runs_in_a_new_process(capfd):
    assert harness.fresh(os.getppid) == os.getpid()
    assert harness.fresh(os.getenv, "X", environment={"X": "5"}) == "5"
    with pytest.raises(harness.Failure, match="JSONDecodeError: Expecting property name"):
        harness.fresh(json.loads, "{")
    assert "Traceback" in capfd.readouterr().err


def test_cases_take_turns_and_a_failed_one_is_not_repeated():
    ran = []

    def run(name):
        ran.append(name)
        if name == "c":
            raise harness.Failure("no memory")
        return {"ms": len(ran), "form": name}

    cases = {name: partial(run, name) for name in "abc"}
    rounds = harness.take_turns(cases, 3)
    assert ran == list("abcabab")
    assert rounds["b"] == [{"ms": number, "form": "b"} for number in (2, 5, 7)]
    rows = harness.rows(rounds, lambda found: [str(found["ms"]), found["form"]])
    assert rows == [["a", "4", "a"], ["b", "5", "b"], ["c", "no memory"]]


@pytest.mark.parametrize(("seconds", "calls"), [(math.inf, 5), (0, 2)])
def test_the_first_call_is_not_counted(seconds, calls):
    ticks = iter([0, 5, 10, 11, 20, 22, 30, 33, 40, 44])  # seconds: 5, 1, 2, 3, 4
    counted = []
    taken = harness.timed(lambda: counted.append(0), 5, seconds, lambda: next(ticks))
    assert len(counted) == 1 + calls
    assert taken == 1000 * statistics.median([5, 1, 2, 3, 4][:calls])


def test_a_report_has_the_versions_and_every_figure(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["benchmarks/some.py"])
    options = harness.parser("").parse_args(["--report", str(tmp_path), "--rounds", "2"])
    rounds = {("a", 8): [{"ms": 5}, {"ms": 7}]}
    harness.report(options, ["numpy", "not-installed"], ["TABLE\n"], rounds)
    shown = capsys.readouterr().out
    assert re.match(r"numpy \d\S+, Python 3\.\d+\.\d+  \n.*cores", shown)
    assert (tmp_path / "some.md").read_text("utf-8") == shown.rstrip("\n") + "\n"
    content = json.loads((tmp_path / "some.json").read_text("utf-8"))
    assert content["figures"] == [["a, 8", [{"ms": 5}, {"ms": 7}]]]
    assert content["options"] == {"rounds": 2}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_scripts_that_a_document_names_exist(page):
    text = page.read_text("utf-8")
    for name in re.findall(r"-m (benchmarks[\w.]*\w)", text):
        path = ROOT / name.replace(".", "/")
        assert path.with_suffix(".py").is_file() or (path / "__main__.py").is_file(), name
