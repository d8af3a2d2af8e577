"""Trains the later positions of a model that has read short rows alone, and nothing else.

    python -m benchmarks.positions --model small --first 64 --output build/positions \
        --books books --sentences sentences.txt --encoder all-MiniLM-L6-v2

The vectors of the positions from `--first` to the model's last learn masked words and sentence
order on records as long as the model reads, and the vectors of long texts: their cosines with
those of `ANCHORS` sentences are to be the cosines of the encoder's vectors (`distill_small` has the
same teacher). All other weights stay, so that shorter texts have the answers that they had. Long
texts are paragraphs of the books, and sentences in a row. The encoder needs torch and transformers.
Prints the accuracies on held-out chapters before and after.
"""

import argparse
from itertools import count, islice
from pathlib import Path

import keras
import numpy as np
from keras import ops

from albert_tf import AlbertAdamW, AlbertForPreTraining, AlbertTokenizer, WarmupPolynomialDecay
from benchmarks import search, small_model
from benchmarks.distill_small import Records

ANCHORS = 2_000
TEXTS = 6_000  # long ones
ROWS = 16
WARMUP = 0.05  # share of the steps
WEIGHT = 20.0  # of the cosines, beside the loss of masked words and sentence order
SEED = 7


def long_texts(books, sentences, tokenizer, first, last):
    """Returns texts of more than `first` and at most `last` tokens, half of them from books."""
    rng = np.random.default_rng(SEED)
    paragraphs = [
        line for book in sorted(books.glob("*.txt")) for line in book.open(encoding="utf-8")
    ]
    sentences = np.array(sentences, object)
    joined = [" ".join(rng.choice(sentences, rng.integers(3, 9))) for _ in range(2 * TEXTS)]
    found = []
    for texts in (rng.permutation(paragraphs)[: 10 * TEXTS].tolist(), joined):
        lengths = map(len, tokenizer.encode_plain(texts))
        fitting = [
            text
            for text, length in zip(texts, lengths, strict=True)
            if first < length <= last - 2  # [CLS] and [SEP]
        ]
        found += fitting[: TEXTS // 2]
    return found


def encoded(tokenizer, texts, length):
    """Returns the features of texts, padded to a length."""
    return dict(tokenizer(texts, padding="max_length", max_length=length, return_tensors="np"))


class Longer(keras.Model):
    """A model with the losses of `distill_small` that need no projection.

    Args:
        model: an `AlbertForPreTraining`.
        anchors: the encoder's vectors of the anchors `[N, D]`, and the model's own by mean and by
            pooler `[N, H]`, all of length 1.
    """

    def __init__(self, model, anchors):
        super().__init__()
        self.model, self.anchors, self.built = model, anchors, True

    def vectors(self, inputs, training=None):
        """Returns the means of hidden states, and the pooled outputs, of length 1: `[B, H]`."""
        found = self.model.albert(inputs, training=training)
        shares = ops.cast(inputs["attention_mask"], "float32")[..., None]
        mean = ops.sum(found["last_hidden_state"] * shares, 1)
        return [ops.normalize(each, axis=-1) for each in (mean, found["pooler_output"])]

    def call(self, batch, training=None):
        inputs = {name: batch["texts"][name] for name in ("input_ids", "attention_mask")}
        pretraining = self.model(batch["pretraining"], training=training)["loss"]
        return {"vectors": self.vectors(inputs, training), "pretraining": pretraining}

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        teacher, *own = self.anchors
        target = ops.matmul(x["texts"]["vectors"], ops.transpose(teacher))
        errors = sum(
            ops.mean(ops.square(ops.matmul(found, ops.transpose(anchors)) - target))
            for found, anchors in zip(y_pred["vectors"], own, strict=True)
        )
        return WEIGHT * errors + y_pred["pretraining"]


def train(longer, batches, first, steps, peak):
    """Trains the vectors of positions from `first` on."""
    weights = longer.model.weights
    positions = longer.model.albert.embedding.position_embeddings
    for variable in weights:
        variable.trainable = variable is positions
    is_later = ops.expand_dims(ops.arange(positions.shape[0]) >= first, -1)
    before = ops.copy(positions)
    positions.constraint = lambda values: ops.where(is_later, values, before)
    schedule = WarmupPolynomialDecay(peak, WARMUP, steps, form="usual")
    longer.compile(AlbertAdamW(schedule, bias_correction=True, beta_2=0.98))
    longer.fit(batches, steps_per_epoch=steps, epochs=1, shuffle=False, verbose=2)
    for variable in weights:
        variable.trainable = True


def batches_of(texts, records):
    """Yields batches without end."""
    for number in count():
        rows = np.random.default_rng([SEED, number]).integers(len(texts["vectors"]), size=ROWS)
        chosen = {name: values[rows] for name, values in texts.items()}
        yield ({"texts": chosen, "pretraining": records.batch(number, ROWS)},)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="small", help="default: %(default)s")
    parser.add_argument("--books", type=Path, required=True)
    parser.add_argument("--sentences", type=Path, required=True, help="a file, one a line")
    parser.add_argument("--encoder", type=Path, required=True)
    parser.add_argument("--output", type=Path, default=Path("build/positions"))
    parser.add_argument("--first", type=int, default=64, help="default: %(default)s")
    parser.add_argument("--steps", type=int, default=1_500, help="default: %(default)s")
    parser.add_argument("--learning-rate", type=float, default=4e-3, help="default: %(default)s")
    options = parser.parse_args()
    keras.utils.set_random_seed(SEED)
    folder, first = options.output, options.first
    model = AlbertForPreTraining.from_pretrained(options.model)
    tokenizer = AlbertTokenizer.from_pretrained(options.model)
    length = model.config.max_position_embeddings
    small_model.split(options.books, folder)
    small_model.build(folder, options.model, (first, length))
    records = Records(folder / f"books-{length}")
    with open(options.sentences, encoding="utf-8") as file:
        sentences = [line.rstrip("\n") for line in islice(file, 20 * ANCHORS)]
    short = [text for text in sentences if len(tokenizer.tokenize(text)) < first - 2][:ANCHORS]
    texts = long_texts(folder / "books", sentences, tokenizer, first, length)
    teacher = search.encoder_vectors(options.encoder, [*short, *texts])
    longer = Longer(model, [])
    parts = [
        longer.vectors(encoded(tokenizer, short[at : at + 100], first))
        for at in range(0, len(short), 100)
    ]
    longer.anchors = [teacher[: len(short)], *map(ops.concatenate, zip(*parts, strict=True))]
    features = {**encoded(tokenizer, texts, length), "vectors": teacher[len(short) :]}
    print(len(short), "anchors,", len(texts), "long texts", flush=True)
    train(longer, batches_of(features, records), first, options.steps, options.learning_rate)
    model.save_pretrained(folder / "model")
    tokenizer.save_pretrained(folder / "model")
    for checkpoint in (options.model, folder / "model"):
        for held_out in (first, length):
            found = small_model.scores(checkpoint, folder / f"held-out-{held_out}")
            print(checkpoint, held_out, found, flush=True)


if __name__ == "__main__":
    main()
