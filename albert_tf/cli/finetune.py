"""`albert-tf finetune`"""

from typing import TYPE_CHECKING

from albert_tf.cli.evaluate import print_scores
from albert_tf.cli.text_options import aligned, check_model
from albert_tf.errors import escaped
from albert_tf.training.options import FinetuningOptions, check_frozen, check_output

if TYPE_CHECKING:
    from albert_tf.data.tasks.registry import TrainingData

SUMMARY = "fine-tune a model on labeled data"
EXAMPLES = """examples:
  albert-tf finetune --task sst2 --data SST-2 --model albert/albert-base-v2 --output my-model
  albert-tf finetune --task classify --data mails.csv --text-column body --label-column folder \\
      --model mini --output my-model

Writes a model directory in the Hugging Face layout, with a model card (README.md), report.json,
learning curves, a confusion matrix, the worst mistakes (mistakes.md), and TensorBoard logs. To
resume exactly from the newest checkpoint after Ctrl-C or a crash, run the same command again.
"""

OPTIONS = FinetuningOptions


def check(options: FinetuningOptions) -> "TrainingData":
    """Checks the output and the model, and returns the examples."""
    from albert_tf.config import SIZES, AlbertConfig, is_size
    from albert_tf.text.tokenizer import AlbertTokenizer, check_length

    check_output(options.output, options.force)
    if options.vocab is not None:
        AlbertTokenizer.from_pretrained(options.vocab)
    if not is_size(options.model):
        config = check_model(options.model)
    elif options.model in SIZES:
        config = AlbertConfig.from_size(options.model)
    else:
        config = AlbertConfig.from_json_file(options.model)
    if config:
        check_length(config, options.max_length or config.max_position_embeddings)
        check_frozen(options.frozen_layers, config.num_hidden_layers)
    return options.read()


def run(options: FinetuningOptions, data: "TrainingData") -> int:
    """Trains the model and prints the best scores."""
    from albert_tf.training.distribution import share_threads
    from albert_tf.training.finetune import finetune_on
    from albert_tf.training.reports import CLASSES, TEST, class_table

    share_threads()
    report = finetune_on(options, data)
    best = report["best"]
    scores = ", ".join(f"{escaped(name)} {best[name]:.4f}" for name in report["metrics"])
    print(f"Best on dev, after epoch {best['epoch']}: {scores}.")
    if by_class := report.get(CLASSES):
        print(aligned(class_table(by_class), numbers=True))
    if baseline := report["data"].get("baseline"):
        scores = ", ".join(f"{escaped(name)} {value:.4f}" for name, value in baseline.items())
        print(f"TF-IDF with logistic regression: {scores}.")
    if test := report.get(TEST):
        print(f"On {options.test}:")
        print_scores(test)
    print(f"{report['parameters']:,} parameters, {report['seconds']:.0f} s: {options.output}")
    return 0
