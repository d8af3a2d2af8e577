"""Speed of a pretraining step, here and with transformers on torch: interleaved medians.

    python benchmarks/pretraining_step.py [--size base] [--batch-size 8] [--max-length 128]
    KERAS_BACKEND=jax python benchmarks/pretraining_step.py --dtype bfloat16 --max-length 512 \\
        --batch-size 64 --steps 10 --matrix 8192 [--size xxlarge --only albert torch]

All contenders train on the same batch from the same weights, so the first losses agree, with AdamW
and gradients clipped to norm 1: forward, backward, update. Each has its own process, and they take
turns. "albert" computes logits at the masked positions only, as the original does; transformers'
model computes them at every position, as "albert-all" does here. "-xla" compiles with XLA, which
JAX always does; "-lamb" updates with LAMB. torch uses `scaled_dot_product_attention`;
"torch-compiled" is `torch.compile` of the same model. With --forward a step is the forward pass
and its losses alone.

"of peak" is the rate of the matrix products, relative to one product of two square matrices in the
same library and dtype. Memory is the process' on CPU and the device's on a GPU: the peak, and the
part that the model and its training added. benchmarks/RESULTS.md has results.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from importlib import metadata

from pretraining_trainers import BACKEND, PREDICTED, everywhere, work

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # processes share a GPU

OURS = ["albert", "albert-all", "albert-lamb"]
CONTENDERS = {
    "tensorflow": [*OURS, "albert-xla", "albert-all-xla", "torch"],
    "jax": [*OURS, "torch"],
    "torch": [*OURS, "torch"],
}
PACKAGES = ("tensorflow", "jax", "jaxlib", "keras", "torch", "transformers", "numpy")


def prepare(options):
    """Draws the weights that everyone starts from, of v2's dropout: none, which compares losses."""
    import keras

    from albert_tf.config import AlbertConfig
    from albert_tf.models import AlbertForPreTraining

    keras.utils.set_random_seed(options.seed)
    none = ("hidden_dropout_prob", "attention_probs_dropout_prob", "classifier_dropout_prob")
    config = AlbertConfig.from_size(options.size, **dict.fromkeys(none, 0.0))
    AlbertForPreTraining(config).save_pretrained(options.weights)
    print(json.dumps({**config.to_dict(), "device": device()}))


def device():
    """The GPU's name, or the number of cores."""
    if BACKEND == "jax":
        import jax

        if jax.devices()[0].platform != "cpu":
            return jax.devices()[0].device_kind
    return f"{os.cpu_count()} cores"


def products(config, rows, length, predicted):
    """FLOP of the matrix products of a step; the backward pass takes twice the forward one's."""
    pieces, hidden = rows * length, config["hidden_size"]
    layers = config["num_hidden_layers"] * config["inner_group_num"]
    block = 4 * hidden**2 + 2 * hidden * config["intermediate_size"] + 2 * length * hidden
    embedding, words = config["embedding_size"] * hidden, config["embedding_size"]
    head = embedding + words * config["vocab_size"]
    forward = pieces * (embedding + layers * block) + predicted * head + rows * hidden**2
    return 3 * 2 * forward


class Contender:
    """A process that trains on demand."""

    def __init__(self, name, arguments):
        self.name, self.answers = name, []
        self.log = tempfile.TemporaryFile("w+")  # noqa: SIM115 as long as the process
        self.process = subprocess.Popen(
            [*arguments, "--contender", name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
            text=True,
        )

    def train(self, steps):
        self.process.stdin.write(f"{steps}\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            self.log.seek(0)
            sys.exit(f"{self.name} ended.\n{self.log.read()[-4000:]}")
        self.answers.append(json.loads(line))

    def row(self, options, config, base):
        """Of the table; `base` are the seconds of a step that speeds are compared with."""
        timed = [answer["seconds"] for answer in self.answers[2:]]
        seconds, last = statistics.median(timed), self.answers[-1]
        rows, length = options.batch_size, options.max_length
        predicted = rows * (length if everywhere(self.name) else round(PREDICTED * length))
        flops = products(config, rows, length, predicted) / (3 if options.forward else 1)
        share = flops / seconds / last["ceiling"]
        return (
            f"{self.name:16}"
            + "".join(f"{1000 * each:10.1f}" for each in (seconds, min(timed), max(timed)))
            + f"{rows * length / seconds:11,.0f}{base / seconds:8.2f}x{share:9.1%}"
            f"{last['peak'] / 1e6:10,.0f}{last['added'] / 1e6:10,.0f}"
            f"{self.answers[0]['loss']:10.4f}{last['loss']:10.4f}"
        )


HEADER = (
    f"{'':16}{'ms/step':>10}{'least':>10}{'most':>10}{'tokens/s':>11}{'speed':>9}{'of peak':>9}"
    f"{'MB peak':>10}{'MB added':>10}{'loss 1':>10}{'loss end':>10}"
)


def compare(options):
    with tempfile.TemporaryDirectory() as folder:
        arguments = [sys.executable, *sys.argv, "--weights", folder]
        made = subprocess.run([*arguments, "--contender", "none"], check=True, stdout=-1)
        config = json.loads(made.stdout.splitlines()[-1])
        names = options.only or CONTENDERS[BACKEND]
        print_setting(options, config["device"])
        contenders = []
        for name in names:  # one at a time: what it sets up, measures and compiles; then once more
            contenders.append(Contender(name, arguments))
            contenders[-1].train(1)
            contenders[-1].train(options.steps)
        for number in range(options.rounds):
            for each in contenders[number % len(names) :] + contenders[: number % len(names)]:
                each.train(options.steps)
    base = next((each for each in contenders if each.name == "torch"), contenders[0])
    base_seconds = statistics.median(answer["seconds"] for answer in base.answers[2:])
    print(HEADER)
    for each in contenders:
        print(each.row(options, config, base_seconds))
        each.process.stdin.close()
        each.process.wait()
    print(f"speed: times {base.name}'s tokens/s.")


def print_setting(options, device):
    installed = {each.metadata["Name"].lower(): each.version for each in metadata.distributions()}
    found = [f"{name} {installed[name]}" for name in PACKAGES if name in installed]
    print(f"{', '.join(found)}, Python {platform.python_version()}; {device}")
    predicted = round(PREDICTED * options.max_length)
    print(
        f"{options.size} on {BACKEND}, {options.dtype}: {options.batch_size} rows of "
        f"{options.max_length}; {options.rounds} turns of {options.steps} steps\n"
        f"logits of albert: {predicted} masked positions a row; of torch and albert-all: all "
        f"{options.max_length}"
    )


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--size", default="base", help="default: %(default)s")
    parser.add_argument("--batch-size", type=int, default=8, help="default: %(default)s")
    parser.add_argument("--max-length", type=int, default=128, help="default: %(default)s")
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), default="float32")
    parser.add_argument("--forward", action="store_true", help="no backward pass, no update")
    parser.add_argument("--rounds", type=int, default=9, help="turns; default: %(default)s")
    parser.add_argument("--steps", type=int, default=1, help="of a turn; default: %(default)s")
    parser.add_argument("--matrix", type=int, default=2048, help="side; default: %(default)s")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="as in the table")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--contender", help=argparse.SUPPRESS)
    parser.add_argument("--weights", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.contender == "none":
        prepare(options)
    elif options.contender:
        work(options)
    else:
        compare(options)


if __name__ == "__main__":
    main()
