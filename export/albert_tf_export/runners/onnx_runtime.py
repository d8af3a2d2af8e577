"""Runs an exported ONNX file on ids that were made elsewhere.

Needs onnxruntime alone.

    python onnx_runtime.py FILE < ids

Inputs and answers are lines: see --help, or `INPUTS` in `_rows.py`.
"""

import sys
from collections.abc import Iterator

import onnxruntime
from _rows import (  # type: ignore[import-not-found]  # beside this script
    Row,
    batch_of_ids,
    check,
    memory,
    parser,
    run,
    serve,
)


def main() -> None:
    options_parser = parser(__doc__, "the .onnx file")
    options_parser.add_argument(
        "--signature", default="ids", choices=("ids", "masked"), help="what the file was made for"
    )
    options_parser.add_argument("--batch", type=int, default=8, help="number of inputs in a batch")
    options_parser.add_argument("--threads", type=int, default=1, help="number of threads")
    options = options_parser.parse_args()

    empty = memory("VmRSS")
    open(options.model, "rb").close()  # its error is clearer than the session's
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = options.threads
    settings.log_severity_level = 4  # errors are raised too
    try:
        session = onnxruntime.InferenceSession(options.model, settings)
    except Exception as error:  # its classes have no common base but this
        sys.exit(f"{options.model} must be an ONNX file. Received: {str(error)[:200]}")
    depths = {each.name: len(each.shape) - 1 for each in session.get_inputs()}
    names = [each.name for each in session.get_outputs()]

    def answer(rows: list[Row]) -> Iterator[Row]:
        for row in rows:
            check(row, options.signature, depths)
        try:
            outputs = session.run(names, batch_of_ids(rows, depths))
        except Exception as error:
            sys.exit(
                "Inputs must fit the export: ids of its vocabulary, no more of them than its "
                "positions, as many types as ids, and as many choices in all of a batch. "
                f"Received: {str(error)[:200]!r}"
            )
        for index in range(len(rows)):
            yield {name: value[index] for name, value in zip(names, outputs, strict=True)}

    serve(options, answer, options.batch, empty)


if __name__ == "__main__":
    run(main)
