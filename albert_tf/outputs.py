"""File patterns for each kind of output folder. A folder with other files isn't replaced.

A pattern is a path within the folder, in which `*` matches any characters except `/`. Every
complete folder contains a file that matches the first pattern of its kind.
"""

from typing import Final

_TOKENIZER: Final = (
    "spiece.model",
    "vocab.txt",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
)
_SENTENCE_TRANSFORMERS: Final = (
    "modules.json",
    "sentence_bert_config.json",
    "config_sentence_transformers.json",
    "[0-9]_*/config.json",
)
MODEL: Final = ("config.json", "model.safetensors", *_TOKENIZER, *_SENTENCE_TRANSFORMERS)
GOOGLE_CHECKPOINT: Final = (
    "model.ckpt.index",
    "model.ckpt.data-*-of-*",
    "checkpoint",
    "albert_config.json",
    "30k-clean.model",
    *_TOKENIZER,
)
CHECKPOINTS: Final = "checkpoints"  # folder in the output of an unfinished run
BEST: Final = "best"  # folder in CHECKPOINTS for the best version
LOGS: Final = "logs"
STEP: Final = "step-" + 8 * "[0-9]"  # folder in CHECKPOINTS for one checkpoint
_REPORTS: Final = ("README.md", "report.json", "mistakes.md", "curves.png", "confusion.png")
VERSION: Final = (*MODEL, *_REPORTS, "state.safetensors")  # a checkpoint, or the best version
RUN: Final = (  # the output of finetune or pretrain
    "options.yaml",
    *MODEL,
    *_REPORTS,
    f"{LOGS}/events.out.tfevents.*",
    *(f"{CHECKPOINTS}/{folder}/{name}" for folder in (BEST, STEP) for name in VERSION),
)
SAVED_MODEL: Final = (
    "saved_model.pb",
    "fingerprint.pb",
    "variables/variables.index",
    "variables/variables.data-*-of-*",
    "assets.extra/tf_serving_warmup_requests",
)
WEB_PAGE: Final = (
    "index.html",
    "style.css",
    *(f"{name}.js" for name in ("app", "files", "model", "tasks", "tokenizer")),
    "model/model.tflite",
    "model/model.tflite.export.json",
    "model/model.tflite.labels.txt",
    "model/settings.json",
    "model/spiece.model",
    "vendor/LICENSE",
    "vendor/README.md",
    "vendor/sentencepiece.js",
    "vendor/litert/index.js",
    "vendor/litert/wasm-utils.js",
    "vendor/litert/wasm/litert_wasm*_internal.js",
    "vendor/litert/wasm/litert_wasm*_internal.wasm",
)
