"""Trains the later positions of a model that has read short rows alone, and nothing else.

    python -m benchmarks.positions --model MODEL --books books --first 64 --output longer

The vectors of the positions from `--first` to the model's last learn masked words and sentence
order on records as long as the model reads. All other weights stay, so that shorter texts have the
answers that they had. Prints the accuracies on held-out chapters before and after.
"""

import argparse
from itertools import count
from pathlib import Path

import keras
from keras import ops

from albert_tf import AlbertAdamW, AlbertForPreTraining, AlbertTokenizer, WarmupPolynomialDecay
from benchmarks import small_model
from benchmarks.distill_small import Records

ROWS = 16
WARMUP = 0.05  # share of the steps
SEED = 7


def train(model, records, first, steps, peak):
    """Trains the vectors of positions from `first` on."""
    positions = model.albert.embedding.position_embeddings
    for variable in model.weights:
        variable.trainable = variable is positions
    is_later = ops.expand_dims(ops.arange(positions.shape[0]) >= first, -1)
    before = ops.copy(positions)
    positions.constraint = lambda values: ops.where(is_later, values, before)
    schedule = WarmupPolynomialDecay(peak, WARMUP, steps, form="usual")
    model.compile(AlbertAdamW(schedule, bias_correction=True, beta_2=0.98))
    batches = ((records.batch(number, ROWS),) for number in count())
    model.fit(batches, steps_per_epoch=steps, epochs=1, shuffle=False, verbose=2)
    for variable in model.weights:
        variable.trainable = True


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="small", help="default: %(default)s")
    parser.add_argument("--books", type=Path, required=True)
    parser.add_argument("--output", type=Path, default=Path("build/positions"))
    parser.add_argument("--first", type=int, default=64, help="default: %(default)s")
    parser.add_argument("--steps", type=int, default=2_000, help="default: %(default)s")
    parser.add_argument("--learning-rate", type=float, default=2e-3, help="default: %(default)s")
    options = parser.parse_args()
    keras.utils.set_random_seed(SEED)
    folder = options.output
    model = AlbertForPreTraining.from_pretrained(options.model)
    length = model.config.max_position_embeddings
    small_model.split(options.books, folder)
    small_model.build(folder, options.model, (options.first, length))
    records = Records(folder / f"books-{length}")
    train(model, records, options.first, options.steps, options.learning_rate)
    model.save_pretrained(folder / "model")
    AlbertTokenizer.from_pretrained(options.model).save_pretrained(folder / "model")
    for checkpoint in (options.model, folder / "model"):
        for held_out in (options.first, length):
            found = small_model.scores(checkpoint, folder / f"held-out-{held_out}")
            print(checkpoint, held_out, found, flush=True)


if __name__ == "__main__":
    main()
