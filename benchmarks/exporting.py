"""Measures where the time of an export goes: `small`, with its check and without.

    python -m benchmarks.exporting [--model DIR] [--rounds 3]

Each row is a process of its own, and the rows take turns. Processor seconds are those of
TensorFlow's import, of loading the model and of the export in that process, and of the fresh
processes that the check starts. Wall-clock seconds are those of everything.
"""

import os
import tempfile
import time
from functools import partial
from pathlib import Path

from benchmarks import harness

PACKAGES = ("tensorflow", "keras", "ai-edge-litert")
FORMATS = ("saved-model", "tflite")
PHASES = ("import", "load", "export", "processes of the check", "wall-clock")


def measure(model, format, check):
    """Exports once; returns seconds by phase."""
    seconds, start = {}, time.monotonic()

    def end(phase):
        seconds[phase] = time.process_time() - sum(seconds.values())

    from albert_tf_export import export_saved_model, export_tflite

    from albert_tf.models import load_pretrained
    from albert_tf.text.tokenizer import AlbertTokenizer

    end("import")
    loaded = load_pretrained(model), AlbertTokenizer.from_pretrained(model)
    end("load")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "export"
        if format == "saved-model":
            export_saved_model(*loaded, path, check=check)
        else:
            export_tflite(*loaded, path, quantize="dynamic", check=check)
    end("export")
    times = os.times()
    seconds["processes of the check"] = times.children_user + times.children_system
    return {**seconds, "wall-clock": time.monotonic() - start}


def main():
    parser = harness.parser(__doc__)
    parser.add_argument("--model", default="small", help="directory of a model")
    options = parser.parse_args()
    cases = {
        (format, "checked" if check else "not checked"): partial(
            harness.fresh, measure, options.model, format, check
        )
        for format in FORMATS
        for check in (True, False)
    }
    rounds = harness.take_turns(cases, options.rounds)
    rows = harness.rows(rounds, lambda found: [f"{found[phase]:.1f}" for phase in PHASES])
    table = harness.table(["", "", *PHASES], rows, names=2)
    harness.report(options, PACKAGES, [table], rounds)


if __name__ == "__main__":
    main()
