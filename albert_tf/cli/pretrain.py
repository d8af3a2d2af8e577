"""`albert-tf pretrain`"""

from pathlib import Path
from typing import Any

from albert_tf.cli.text_options import check_model
from albert_tf.config import SIZES
from albert_tf.errors import UserError
from albert_tf.training.options import PretrainingOptions, check_output

SUMMARY = "pretrain on the output of build-data"
EXAMPLES = """examples:
  albert-tf pretrain --data examples --size base --output my-model --dtype-policy mixed_bfloat16 \\
      --micro-batches 64 --eval-data held-out --eval-steps 5000
  albert-tf pretrain --data mails --init-checkpoint albert/albert-base-v2 --output my-model \\
      --batch-size 256 --learning-rate 1e-4 --steps 10000 --warmup-steps 500

Writes a model directory in the Hugging Face layout, with report.json, curves.png, and TensorBoard
logs. To resume exactly from the newest checkpoint after Ctrl-C or a crash, run the same command
again. Also accepts the flags of the original run_pretraining.py, such as --train_batch_size,
--num_train_steps, and --poly_power.
"""

OPTIONS = PretrainingOptions


def check(options: PretrainingOptions) -> None:
    """Checks the output, and that the records, the model, and the vocabulary exist."""
    from albert_tf.config import AlbertConfig
    from albert_tf.data.corpus.files import find_inputs, is_remote
    from albert_tf.text.tokenizer import AlbertTokenizer

    check_output(options.output, options.force)
    for records in filter(None, (*options.data, options.eval_data)):
        if not is_remote(records):
            find_inputs([records])
    if options.init_checkpoint is not None:
        check_model(options.init_checkpoint)
    elif options.size not in SIZES:
        AlbertConfig.from_json_file(options.size or "")
    if options.vocab is not None and not is_remote(options.vocab):
        AlbertTokenizer.from_pretrained(options.vocab)


def run(options: PretrainingOptions) -> int:
    """Trains the model and prints the final scores."""
    from albert_tf.training.distribution import share_threads
    from albert_tf.training.pretrain import pretrain

    share_threads()
    try:
        report = pretrain(options)
    except Exception as error:
        # Detects the error by its text, to avoid importing TensorFlow, JAX, or torch.
        is_known = type(error).__name__ in ("ResourceExhaustedError", "OutOfMemoryError")
        if not is_known and "RESOURCE_EXHAUSTED" not in str(error):
            raise
        raise UserError(
            f"The device ran out of memory with --batch-size {options.batch_size} and "
            f"--micro-batches {options.micro_batches}. Double --micro-batches, which "
            "doesn't change the result, or add --gradient-checkpointing."
        ) from error
    _print_summary(report, options.output)
    return 0


def _print_summary(report: dict[str, Any], output: Path) -> None:
    from albert_tf.progress import in_words

    for part, name in (("history", "In training"), ("evaluation", "Held out")):
        if report[part]:
            last = report[part][-1]
            print(f"{name}, at step {last['step']:,}: {in_words(last)}.")
    print(
        f"{report['parameters']:,} parameters, {report['steps']:,} steps, "
        f"{report['tokens']:,} tokens, {report['seconds']:.0f} s: {output}"
    )
