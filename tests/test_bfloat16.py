"""The hint that a processor supports bfloat16."""

import pytest

from albert_tf import bfloat16


@pytest.mark.parametrize(
    ("flags", "option", "expected"),
    [
        ("fpu avx512f avx512_bf16 fsrm", bfloat16.STEP, "avx512_bf16"),
        ("fpu avx512_bf16 amx_bf16 amx_tile", bfloat16.SAVED_MODEL, "amx_bf16"),
    ],
)
def test_a_processor_with_bfloat16(tmp_path, monkeypatch, capsys, flags, option, expected):
    monkeypatch.setattr(bfloat16, "CPUINFO", tmp_path / "cpuinfo")
    bfloat16.CPUINFO.write_text(f"processor\t: 0\nflags\t\t: {flags}\n", "utf-8")
    bfloat16.suggest(option, "float32")
    output, errors = capsys.readouterr()
    assert output == ""
    (line,) = errors.splitlines()
    assert f"({expected})" in line
    assert f"{option}," in line
    assert f" {bfloat16.TIMES[expected][option]:.2f} " in line


@pytest.mark.parametrize(
    ("flags", "precision"),
    [
        ("fpu avx512f avx512_vnni", "float32"),
        ("fpu avx512_bf16", "mixed_bfloat16"),
        (None, "float32"),  # not Linux
    ],
)
def test_no_line(tmp_path, monkeypatch, capsys, flags, precision):
    monkeypatch.setattr(bfloat16, "CPUINFO", tmp_path / "cpuinfo")
    if flags is not None:
        bfloat16.CPUINFO.write_text(f"flags\t\t: {flags}\n", "utf-8")
    bfloat16.suggest(bfloat16.STEP, precision)
    assert capsys.readouterr() == ("", "")
