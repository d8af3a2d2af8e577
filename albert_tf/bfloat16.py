"""Suggests bfloat16 to users whose processor supports it."""

import sys
from pathlib import Path
from typing import Final

CPUINFO: Final = Path("/proc/cpuinfo")  # on Linux only
STEP: Final = "--dtype-policy mixed_bfloat16"
SAVED_MODEL: Final = "--precision bfloat16"
# By processor flag: time relative to float32, base model, 8 × 128 tokens (benchmarks/RESULTS.md).
# Processors with AMX have both flags, so AMX comes first.
TIMES: Final = {
    "amx_bf16": {STEP: 0.48, SAVED_MODEL: 0.45},
    "avx512_bf16": {STEP: 0.59, SAVED_MODEL: 0.52},
}


def suggest(option: str, precision: str | None) -> None:
    """Prints a line if the processor supports bfloat16 matmuls but the run uses float32.

    Args:
        option: `STEP` or `SAVED_MODEL`, the option to suggest.
        precision: the current value of that option, or None if the command has no such option.
    """
    if precision != "float32" or not CPUINFO.exists():
        return
    flags = CPUINFO.read_text(encoding="utf-8", errors="replace").split()
    for flag, times in TIMES.items():
        if flag in flags:
            print(
                f"This processor supports bfloat16 ({flag}). With {option}, the base model takes "
                f"about {times[option]:.2f} of the float32 time.",
                file=sys.stderr,
                flush=True,
            )
            return
