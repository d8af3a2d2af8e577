"""Teaches `small` the vectors of a sentence encoder, in one run.

    python -m benchmarks.sentences --books books --packages packages --output sentences.txt
    export KERAS_BACKEND=torch
    python -m benchmarks.distill_small --sentences sentences.txt --books books \
        --teacher all-MiniLM-L6-v2

The teacher is the directory of an encoder for transformers whose sentence vectors are the means of
its last hidden states. It reads the first `--count` sentences once (this needs transformers and
torch); its vectors of sentences and words stay in the output's folder. The student begins with the
weights of `--init-checkpoint` and learns five things at once, by a weighted sum of losses:

- sentence: the mean of its hidden states, projected, has the direction of the teacher's vector;
- pooled: so has the pooler's output, which the heads of classification read;
- similarity: in a batch the cosines of means, and of pooled outputs, are those of the teacher;
- words: a word's mean hidden state, projected, is the teacher's;
- pretraining: masked words and sentence order, on the books without their last chapters; rows of
  64 tokens and of 128 take turns, so that the later positions learn, too.

The projections are thrown away. The same command resumes an interrupted run. At the end it prints
the cosines' rank correlation with the teacher's on the first 4,096 sentences, which are held out;
`python -m benchmarks.small_model --score` prints the accuracies on held-out chapters. TensorFlow
makes the records of the books; where their folder is already in the output's, nothing needs it.
"""

import argparse
import json
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from itertools import chain, count, islice
from pathlib import Path

import keras
import numpy as np
from keras import ops

from albert_tf import (
    AlbertAdamW,
    AlbertConfig,
    AlbertForPreTraining,
    AlbertTokenizer,
    WarmupPolynomialDecay,
)
from albert_tf.data.pretraining import rng
from albert_tf.data.pretraining.examples import masked_features
from albert_tf.data.pretraining.masking import WordTable
from albert_tf.data.pretraining.options import NO_LABEL, ExampleOptions
from albert_tf.data.pretraining.pairs import Pairs, swapped
from albert_tf.data.pretraining.records import MANIFEST, WORDS, decode, read_records
from albert_tf.files import written_atomically
from benchmarks import small_model

HELD_OUT = 4096  # sentences
MOST_TOKENS = 1.75  # a word, of a sentence to learn; rare words take long and teach little
WIDTHS = (12, 16, 20, 24, 28, 32, 40, 48, 64)  # tokens of a batch's rows; longer sentences are cut
TEACHER_TOKENS = 2 * WIDTHS[-1]
AT_ONCE = 65_536  # sentences between two saves of the teacher's vectors
WINDOW = 32  # batches of sentences that are sorted by length together
WARMUP = 0.02  # share of the steps
SAVE = 100  # steps between two saves
SEED = 7
NO_WORD = -1
WEIGHTS = {"sentence": 1.0, "pooled": 1.0, "similarity": 5.0, "words": 1.0, "pretraining": 1.0}


class Words:
    """Sentences as lists of words, split at spaces.

    Attributes:
        unique: the words.
        numbers: int32 `[W]`, the words of all sentences.
        bounds: int64 `[N + 1]`, where in `numbers` each sentence begins, and W.
    """

    def __init__(self, sentences):
        known = {}
        split = [sentence.split(" ") for sentence in sentences]
        words = chain.from_iterable(split)
        self.numbers = np.array([known.setdefault(word, len(known)) for word in words], np.int32)
        self.bounds = np.cumsum([0, *map(len, split)])
        self.unique = list(known)


class Tokens:
    """The words of sentences in the tokens of a vocabulary, in which words are apart.

    Args:
        of_word: the ids of each unique word.
        special: ids of `[CLS]`, `[SEP]` and padding.
    Attributes:
        bounds: int64 `[N + 1]`, where in all tokens those of each sentence begin.
    """

    def __init__(self, words, of_word, special):
        sizes = np.array([len(ids) for ids in of_word])
        starts = np.cumsum(sizes) - sizes
        repeats = sizes[words.numbers]
        ends = np.cumsum(repeats)
        within = np.arange(ends[-1]) - np.repeat(ends - repeats, repeats)
        flat = np.fromiter(chain.from_iterable(of_word), np.int32)
        self.ids = flat[np.repeat(starts[words.numbers], repeats) + within]
        number = np.arange(len(repeats)) - np.repeat(words.bounds[:-1], np.diff(words.bounds))
        self.words_of = np.repeat(number.astype(np.int16), repeats)
        self.bounds = np.concatenate([[0], ends])[words.bounds]
        self.special = special

    def rows(self, rows, width):
        """Returns ids, mask and the number of each token's word, or `NO_WORD`: int32 `[B, T]`."""
        classify, separate, pad = self.special
        at = np.arange(width)
        lengths = np.minimum(np.diff(self.bounds)[rows], width - 2)[:, None]
        source = np.minimum(self.bounds[rows][:, None] + at - 1, len(self.ids) - 1)
        is_token = (at > 0) & (at <= lengths)
        ids = np.where(is_token, self.ids[source], np.where(at <= lengths + 1, separate, pad))
        ids[:, 0] = classify
        words_of = np.where(is_token, self.words_of[source], NO_WORD)
        return ids.astype(np.int32), (at <= lengths + 1).astype(np.int32), words_of.astype(np.int32)


def teach(words, teacher, folder):
    """Writes the teacher's vectors: float16 `[N, D]` of length 1, and `[W, D]` of words.

    A word's is the mean of its tokens' last hidden states.
    """
    state = folder / "teacher.json"
    count = len(words.bounds) - 1
    sizes = {"sentences": count, "words": len(words.numbers)}
    done = json.loads(state.read_text()) if state.exists() else 0
    if done:
        there = {name: len(np.load(folder / f"{name}.npy", mmap_mode="r")) for name in sizes}
        if there != sizes:
            raise SystemExit(
                f"{folder} has the teacher's vectors of other sentences: {there}, not {sizes}. "
                "Give another --output, or remove that folder."
            )
    if done == count:
        return
    import torch
    from transformers import AutoModel, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(teacher)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = AutoModel.from_pretrained(teacher).eval().to(device, torch.bfloat16)
    of_word = tokenizer(words.unique, add_special_tokens=False)["input_ids"]
    special = tokenizer.cls_token_id, tokenizer.sep_token_id, tokenizer.pad_token_id
    tokens = Tokens(words, of_word, special)
    lengths, size = np.diff(tokens.bounds), model.config.hidden_size
    vectors, all_words = (
        np.lib.format.open_memmap(
            folder / f"{name}.npy", "r+" if done else "w+", np.float16, (number, size)
        )
        for name, number in sizes.items()
    )
    for begin in range(done, count, AT_ONCE):
        order = begin + np.argsort(lengths[begin : begin + AT_ONCE], kind="stable")
        for rows in np.array_split(order, len(order) // 512 + 1):
            width = min(lengths[rows].max() + 2, TEACHER_TOKENS)
            ids, mask, words_of = (
                torch.tensor(part).to(device) for part in tokens.rows(rows, width)
            )
            with torch.inference_mode():
                hidden = model(ids, attention_mask=mask).last_hidden_state.float()
                vectors[rows] = (
                    torch.nn.functional.normalize((hidden * mask[..., None]).sum(1), dim=-1)
                    .half()
                    .cpu()
                )
                counts = words.bounds[rows + 1] - words.bounds[rows]
                most = int(counts.max())
                slot = torch.arange(len(rows), device=device)[:, None] * (most + 1) + words_of + 1
                sums = torch.zeros(len(rows) * (most + 1), size, device=device)
                sums.index_add_(0, slot.flatten(), hidden.flatten(0, 1))
                found = torch.bincount(slot.flatten(), minlength=len(sums)).clamp(min=1)
                means = (sums / found[:, None]).reshape(len(rows), most + 1, size)[:, 1:].half()
                at = np.arange(most)
                is_word = at < counts[:, None]
                means = means[torch.tensor(is_word).to(device)].cpu().numpy()
            all_words[(words.bounds[rows][:, None] + at)[is_word]] = means
        done = begin + len(order)
        vectors.flush(), all_words.flush()
        with written_atomically(state, force=True) as path:
            path.write_text(json.dumps(done))
        print(f"teacher: {done} sentences", flush=True)


class Lessons:
    """Sentences in the student's tokens, with the teacher's vectors.

    Args:
        vectors, words_vectors: `teach`'s.
    """

    def __init__(self, words, tokens, vectors, words_vectors):
        self.tokens, self.vectors, self.words = tokens, vectors, words_vectors
        self.first, self.counts = words.bounds[:-1], np.diff(words.bounds)
        self.lengths = np.diff(tokens.bounds)

    def order(self, epoch, batch_size):
        """Returns the rows of an epoch's batches, of like length: int64 `[batches, B]`."""
        generator = np.random.default_rng([SEED, epoch])
        rows = np.flatnonzero(self.lengths <= MOST_TOKENS * self.counts)
        order = generator.permutation(rows[rows >= HELD_OUT])
        window = WINDOW * batch_size
        sorted_ones = [
            part[np.argsort(self.lengths[part], kind="stable")]
            for part in np.split(order, range(window, len(order), window))
        ]
        order = np.concatenate(sorted_ones)[: len(order) // batch_size * batch_size]
        return generator.permutation(order.reshape(-1, batch_size))

    def batch(self, rows):
        longest = self.lengths[rows].max() + 2
        width = next((width for width in WIDTHS if width >= longest), WIDTHS[-1])
        ids, mask, words_of = self.tokens.rows(rows, width)
        numbers = np.minimum(self.first[rows][:, None] + np.arange(width), len(self.words) - 1)
        return {
            "input_ids": ids,
            "attention_mask": mask,
            "words_of": words_of,
            "words": np.take(self.words, numbers, axis=0),
            "sentences": self.vectors[rows],
        }


class Records:
    """Pairs of segments of `build-data`, masked and swapped anew for each batch."""

    def __init__(self, folder):
        manifest = json.loads((folder / MANIFEST).read_text("utf-8"))
        self.options = ExampleOptions.from_dict(manifest["settings"]["examples"])
        self.table = WordTable.from_json(json.loads((folder / WORDS).read_text("utf-8")))
        segments = [
            features[name]
            for shard in manifest["shards"]
            for features in map(decode, read_records(folder / shard["file"]))
            for name in ("segment_a", "segment_b")
        ]
        self.ids = np.fromiter(chain.from_iterable(segments), np.int32)
        ends = np.cumsum([len(segment) for segment in segments])
        bounds = np.stack([np.concatenate([[0], ends[:-1]]), ends], axis=1)
        self.first, self.second = bounds[::2], bounds[1::2]

    def batch(self, number, size):
        rows = np.random.default_rng([SEED, number]).integers(len(self.first), size=size)
        keys = rng.fold_in(rng.key(SEED, number), np.arange(size))
        pairs = swapped(Pairs(keys, self.first[rows], self.second[rows], np.zeros(size, np.int32)))
        features = masked_features(pairs, self.ids, self.table, self.options)
        is_label = features["masked_lm_weights"] > 0
        return {
            "input_ids": features["input_ids"],
            "attention_mask": features["input_mask"].astype(np.int32),
            "token_type_ids": features["segment_ids"].astype(np.int32),
            "masked_lm_positions": features["masked_lm_positions"],
            "labels": np.where(is_label, features["masked_lm_ids"], NO_LABEL).astype(np.int32),
            "sentence_order_label": pairs.labels,
        }


def batches(lessons, records, sizes, start=0):
    """Yields batches without end from number `start` on; some threads make the next ones.

    Args:
        records: those of each length, which take turns.
        sizes: sentences and records of a batch.
    """

    def rows():
        for epoch in count():
            yield from lessons.order(epoch, sizes[0])

    def make(number, rows):
        pretraining = records[number % len(records)].batch(number, sizes[1])
        return {"lesson": lessons.batch(rows), "pretraining": pretraining}

    numbered = enumerate(rows())
    for _ in range(start):
        next(numbered)
    with ThreadPoolExecutor(4) as pool:
        coming = deque(pool.submit(make, *next(numbered)) for _ in range(8))
        while True:
            coming.append(pool.submit(make, *next(numbered)))
            yield (coming.popleft().result(),)


def grown(checkpoint, tokenizer, dtype_policy, **sizes):
    """Returns the checkpoint's model with another vocabulary, or numbers of layers and groups.

    A piece that its vocabulary doesn't have begins as the mean of those that spell it there, a
    group as a copy of the last one.
    """
    source = AlbertForPreTraining.from_pretrained(checkpoint)
    config = AlbertConfig.from_dict(
        {**source.config.to_dict(), **sizes, "vocab_size": tokenizer.vocab_size}
    )
    model = AlbertForPreTraining(config, dtype=dtype_policy)
    known = AlbertTokenizer.from_pretrained(checkpoint)
    vocab = known.get_vocab()
    of_piece = [
        [known.convert_tokens_to_ids(piece)]
        if piece in vocab
        else known.encode_plain([piece.replace("\u2581", " ")])[0]
        for piece in tokenizer.convert_ids_to_tokens(list(range(tokenizer.vocab_size)))
    ]
    blocks = source.albert.encoder.blocks
    pairs = [
        (model.albert.embedding, source.albert.embedding),
        (model.albert.pooler, source.albert.pooler),
        (model.predictions, source.predictions),
        (model.sop_classifier, source.sop_classifier),
        *(
            (block, blocks[min(number, len(blocks) - 1)])
            for number, block in enumerate(model.albert.encoder.blocks)
        ),
    ]
    for layer, other in pairs:
        for variable, value in zip(layer.weights, other.get_weights(), strict=True):
            if value.shape[0] == known.vocab_size:
                value = np.stack([value[ids].mean(0) for ids in of_piece])
            variable.assign(value)
    return model


class Student(keras.Model):
    """A model with projections of its states to the teacher's, and their losses.

    Args:
        model: an `AlbertForPreTraining`.
        size: D of the teacher.
        deviation: the standard deviation by which words' vectors are divided.
        weights: of the losses, by name.
    """

    def __init__(self, model, size, deviation, weights):
        super().__init__()
        self.model, self.deviation, self.weighting = model, deviation, weights
        self.heads = {
            name: keras.layers.Dense(size, name=name, dtype="float32")
            for name in ("words", "sentence", "pooled")
        }
        for head in self.heads.values():
            head.build((None, model.config.hidden_size))
        self.losses_seen = {name: keras.metrics.Mean(name=name) for name in weights}
        self.built = True

    def call(self, batch, training=None):
        lesson = batch["lesson"]
        inputs = {name: lesson[name] for name in ("input_ids", "attention_mask")}
        encoded = self.model.albert(inputs, training=training)
        hidden = ops.cast(encoded["last_hidden_state"], "float32")
        shares = ops.cast(lesson["attention_mask"], "float32")[..., None]
        mean = ops.sum(hidden * shares, 1) / ops.sum(shares, 1)
        width = ops.shape(lesson["input_ids"])[1]
        tokens = ops.one_hot(lesson["words_of"], width, axis=1, dtype="float32")  # [B, words, T]
        found = ops.sum(tokens, -1, keepdims=True)
        words = ops.matmul(tokens / ops.maximum(found, 1), hidden)
        pooled = ops.cast(encoded["pooler_output"], "float32")
        return {
            "mean": mean,
            "pooled": pooled,
            "sentence_vectors": [self.heads["sentence"](mean), self.heads["pooled"](pooled)],
            "words": self.heads["words"](words),
            "is_word": ops.cast(found > 0, "float32"),
            "pretraining": self.model(batch["pretraining"], training=training)["loss"],
        }

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        vectors = _unit(ops.cast(x["lesson"]["sentences"], "float32"))
        target = ops.matmul(vectors, ops.transpose(vectors))
        sentence, pooled = (
            1 - ops.mean(ops.sum(_unit(found) * vectors, -1))
            for found in y_pred["sentence_vectors"]
        )
        similarity = 0.0
        for name in ("mean", "pooled"):
            found = _unit(y_pred[name])
            cosines = ops.matmul(found, ops.transpose(found))
            similarity += ops.mean(ops.square(cosines - target))
        wanted = ops.cast(x["lesson"]["words"], "float32") / self.deviation
        errors = ops.mean(ops.square(y_pred["words"] - wanted), -1, keepdims=True)
        is_word = y_pred["is_word"]
        losses = {
            "sentence": sentence,
            "pooled": pooled,
            "similarity": similarity,
            "words": ops.sum(errors * is_word) / ops.sum(is_word),
            "pretraining": y_pred["pretraining"],
        }
        for name, value in losses.items():
            self.losses_seen[name].update_state(value)
        return sum(self.weighting[name] * value for name, value in losses.items())


def _unit(values):
    return ops.normalize(values, axis=-1)


class State(keras.callbacks.Callback):
    """Saves all variables, and the number of spans of `SAVE` steps behind them."""

    def __init__(self, path):
        super().__init__()
        self.path = path

    def restore(self, student):
        """Reads the state, if there is one; returns the number of spans."""
        if not self.path.exists():
            return 0
        with np.load(self.path) as values:
            spans, *rest = values.files
            variables = student.variables + student.optimizer.variables
            for variable, name in zip(variables, rest, strict=True):
                variable.assign(values[name])
            return int(values[spans])

    def on_epoch_end(self, epoch, logs=None):
        variables = self.model.variables + self.model.optimizer.variables
        values = map(ops.convert_to_numpy, variables)
        with written_atomically(self.path, force=True) as path, open(path, "wb") as file:
            np.savez(file, epoch + 1, *values)


def train(student, data, steps, peak, path):
    """Takes the steps that are missing, with a line and a save after each span of them.

    Args:
        data: returns the batches from a number on.
    """
    # Few steps: a second moment that forgets sooner.
    schedule = WarmupPolynomialDecay(peak, WARMUP, steps, form="usual")
    optimizer = AlbertAdamW(schedule, bias_correction=True, beta_2=0.98, global_clipnorm=1.0)
    student.compile(optimizer)
    optimizer.build(student.trainable_variables)
    state = State(path)
    done = state.restore(student)
    if done * SAVE < steps:
        with closing(data(done * SAVE)) as batches:
            student.fit(
                batches,
                steps_per_epoch=SAVE,
                initial_epoch=done,
                epochs=steps // SAVE,
                callbacks=[state],
                shuffle=False,  # the batches' order is the data's own
                verbose=2,
            )


def correlation(model, lessons):
    """Returns the rank correlation of cosines of mean hidden states with the teacher's."""
    from scipy.stats import spearmanr

    means = []
    held_out = np.arange(min(HELD_OUT, len(lessons.lengths)))
    for rows in np.array_split(held_out, -(-len(held_out) // 256)):
        ids, mask, _ = lessons.tokens.rows(rows, WIDTHS[-1])
        hidden = model.albert({"input_ids": ids, "attention_mask": mask})["last_hidden_state"]
        hidden = keras.ops.convert_to_numpy(ops.cast(hidden, "float32"))
        means.append((hidden * mask[..., None]).sum(1))
    found = np.concatenate(means)
    found /= np.linalg.norm(found, axis=1, keepdims=True)
    wanted = lessons.vectors[held_out].astype(np.float32)
    pairs = np.triu_indices(len(found), 1)
    return float(spearmanr((found @ found.T)[pairs], (wanted @ wanted.T)[pairs]).statistic)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sentences", type=Path, required=True, help="a file, one a line")
    parser.add_argument("--teacher", type=Path, required=True)
    parser.add_argument("--books", type=Path, required=True)
    parser.add_argument("--output", type=Path, default=Path("build/distilled"))
    parser.add_argument("--count", type=int, default=400_000, help="default: %(default)s")
    parser.add_argument(
        "--steps", type=int, default=22_000, help=f"a multiple of {SAVE}; default: %(default)s"
    )
    parser.add_argument(
        "--batch-sizes",
        type=int,
        nargs=2,
        default=(64, 16),
        help="sentences, and records, of a step; default: 64 16",
    )
    parser.add_argument("--learning-rate", type=float, default=8e-4, help="default: %(default)s")
    parser.add_argument("--init-checkpoint", default="small", help="default: %(default)s")
    parser.add_argument("--vocab", help="another vocabulary; default: the checkpoint's")
    parser.add_argument(
        "--sizes",
        type=json.loads,
        default={},
        help='those of config.json to change, such as {"num_hidden_layers": 6}',
    )
    parser.add_argument("--dtype-policy", default="float32", help="default: %(default)s")
    parser.add_argument(
        "--weights",
        type=json.loads,
        default={},
        help=f"of losses, where they aren't the defaults: {json.dumps(WEIGHTS)}",
    )
    options = parser.parse_args()
    if keras.backend.backend() == "tensorflow":
        parser.error("KERAS_BACKEND must be torch or jax: there Keras takes batches of any width.")
    if options.steps % SAVE:
        parser.error(f"--steps must be a multiple of {SAVE}. Received: {options.steps}.")
    folder = options.output
    folder.mkdir(parents=True, exist_ok=True)
    with open(options.sentences, encoding="utf-8") as file:
        words = Words(line.rstrip("\n") for line in islice(file, options.count))
    tokenizer = AlbertTokenizer.from_pretrained(options.vocab or options.init_checkpoint)
    special = tokenizer.cls_token_id, tokenizer.sep_token_id, tokenizer.pad_token_id
    tokens = Tokens(words, tokenizer.encode_plain(words.unique), special)
    teach(words, options.teacher, folder)
    vectors, words_vectors = (
        np.load(folder / f"{name}.npy", mmap_mode="r") for name in ("sentences", "words")
    )
    lessons = Lessons(words, tokens, vectors, words_vectors)
    if not (folder / "model").exists():
        keras.utils.set_random_seed(SEED)
        if not (folder / "held-out").exists():
            small_model.split(options.books, folder)
        small_model.build(folder, options.vocab or options.init_checkpoint)
        records = [Records(folder / f"books-{length}") for length in small_model.LENGTHS]
        model = grown(options.init_checkpoint, tokenizer, options.dtype_policy, **options.sizes)
        deviation = float(np.std(words_vectors[:100_000], dtype="f4"))
        student = Student(model, vectors.shape[1], deviation, WEIGHTS | options.weights)
        train(
            student,
            partial(batches, lessons, records, options.batch_sizes),
            options.steps,
            options.learning_rate,
            folder / "state.npz",
        )
        model.save_pretrained(folder / "model")
        tokenizer.save_pretrained(folder / "model")
    for checkpoint in (folder / "model", options.init_checkpoint):
        if checkpoint != options.init_checkpoint or not options.vocab:
            model = AlbertForPreTraining.from_pretrained(checkpoint)
            print(checkpoint, "rank correlation", correlation(model, lessons), flush=True)


if __name__ == "__main__":
    main()
