"""Teaches `small` the vectors of a sentence encoder, in one run.

    python -m benchmarks.sentences --books books --packages packages --output sentences.txt
    python -m benchmarks.distill_small --sentences sentences.txt --books books \
        --teacher all-MiniLM-L6-v2

The teacher is the directory of an encoder for transformers whose sentence vectors are the means of
its last hidden states. It reads the first `--count` sentences once (this needs the packages of the
extra `peers`); its vectors of sentences and words stay in the output's folder. The student begins
with the weights of `--init-checkpoint` and learns five things at once, by a weighted sum of losses:

- sentence: the mean of its hidden states, projected, has the direction of the teacher's vector;
- pooled: so has the pooler's output, which the heads of classification read;
- similarity: in a batch the cosines of means, and of pooled outputs, are those of the teacher;
- words: a word's mean hidden state, projected, is the teacher's;
- pretraining: masked words and sentence order, on the books without their last chapters.

The projections are thrown away. The same command resumes an interrupted run; `--steps` may change
until the learning rate falls. At the end it prints the cosines' rank correlation with the teacher's
on the first 4,096 sentences, which are held out, and the accuracies on held-out chapters.
"""

import argparse
import json
import time
from functools import partial
from pathlib import Path

import numpy as np

from albert_tf.files import written_atomically
from benchmarks import small_model

SHARD = 4096  # sentences of a file of vectors; the first shard is held out
MOST_TOKENS = 1.75  # a word, of a sentence to learn; rare words take long and teach little
LONGEST = 64  # tokens of a sentence; longer ones are cut, and their words not compared
BATCH = 64  # sentences of a step
WINDOW = 32 * BATCH  # sentences that are sorted by length together
WARMUP, FALL = 50, 0.4  # steps; share of the steps before the learning rate falls to 0
SAVE = 100  # steps between two saves
SEED = 7
NO_WORD = -1
WEIGHTS = {"sentence": 1.0, "pooled": 1.0, "similarity": 5.0, "words": 1.0, "pretraining": 1.0}


def teach(sentences, teacher, folder):
    """Writes the vectors of the shards that have none: float16, sentences' of length 1.

    A word is what stands between spaces; its vector is the mean of its tokens' last hidden states.
    """
    numbers = range(-(-len(sentences) // SHARD))
    missing = [number for number in numbers if not (folder / f"{number:04}.npz").exists()]
    if not missing:
        return
    import torch
    from transformers import AutoModel, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(teacher)
    model = AutoModel.from_pretrained(teacher).eval().to(torch.bfloat16)
    folder.mkdir(parents=True, exist_ok=True)
    for number in missing:
        texts = sentences[number * SHARD : (number + 1) * SHARD]
        counts = np.array([len(text.split(" ")) for text in texts])
        first = np.cumsum(counts) - counts
        words = np.zeros((counts.sum(), model.config.hidden_size), np.float16)
        vectors = np.zeros((len(texts), model.config.hidden_size), np.float16)
        order = np.argsort([len(text) for text in texts], kind="stable")
        for rows in np.array_split(order, len(order) // 64 + 1):
            batch = tokenizer(
                [texts[row] for row in rows],
                padding=True,
                truncation=True,
                max_length=2 * LONGEST,
                return_tensors="pt",
            )
            with torch.inference_mode():
                hidden = model(**batch).last_hidden_state.float().numpy()
            mask = batch["attention_mask"].numpy()[..., None]
            mean = (hidden * mask).sum(1) / mask.sum(1)
            vectors[rows] = mean / np.linalg.norm(mean, axis=1, keepdims=True)
            for i, row in enumerate(rows):
                spaces = np.cumsum([letter == " " for letter in texts[row]])
                tokens = [
                    (token, spaces[begin])
                    for token, (begin, end) in enumerate(batch.encodings[i].offsets)
                    if end > begin
                ]
                at, of = np.array(tokens).T
                sums = np.zeros((counts[row], words.shape[1]), np.float32)
                np.add.at(sums, of, hidden[i, at])
                found = np.bincount(of, minlength=counts[row])
                words[first[row] :][: counts[row]] = sums / np.maximum(found, 1)[:, None]
        with written_atomically(folder / f"{number:04}.npz") as path, open(path, "wb") as file:
            np.savez(file, sentences=vectors, words=words, counts=counts)
        print(f"teacher: {number * SHARD + len(texts)} sentences", flush=True)


class Lessons:
    """Sentences in the student's tokens, with the teacher's vectors.

    Args:
        sentences: in the order of the shards.
        folder: has the shards.
        numbers: of the shards to read.
        tokenizer: the student's; like the teacher's words, its words end at spaces.
    Attributes:
        ids, words_of: int32 `[T]` of each sentence; the number of each token's word within the
            sentence, or `NO_WORD`.
        vectors, words: float16 `[N, D]` and `[W, D]`.
        first: number of each sentence's first word among all of them.
        rows: numbers of the sentences whose words are short enough, in tokens, to be learned.
    """

    def __init__(self, sentences, folder, numbers, tokenizer):
        tokens = tokenizer.convert_ids_to_tokens(list(range(tokenizer.vocab_size)))
        begins = np.array([token.startswith("▁") for token in tokens])
        shards = [np.load(folder / f"{number:04}.npz") for number in numbers]
        counts = np.concatenate([shard["counts"] for shard in shards])
        self.vectors = np.concatenate([shard["sentences"] for shard in shards])
        self.words = np.concatenate([shard["words"] for shard in shards])
        self.first = np.cumsum(counts) - counts
        self.counts, self.ids, self.words_of = counts, [], []
        start = numbers[0] * SHARD
        encoded = tokenizer(sentences[start : start + len(counts)], truncation=True)
        for ids, count in zip(encoded["input_ids"], counts, strict=True):
            ids = np.array(ids, np.int32)
            words = np.cumsum(begins[ids], dtype=np.int32) - 1
            words[[0, -1]] = NO_WORD
            if len(ids) > LONGEST or words.max() + 1 != count:
                words[:] = NO_WORD
            self.ids.append(ids[:LONGEST])
            self.words_of.append(words[:LONGEST])
        lengths = np.array([len(ids) for ids in encoded["input_ids"]])
        self.rows = np.flatnonzero(lengths <= MOST_TOKENS * counts + 2)

    def batches(self, start=0):
        """Yields batches without end from number `start` on, sentences of like length together."""
        number, epoch = 0, 0
        while True:
            rng = np.random.default_rng([SEED, epoch])
            order, batches = rng.permutation(self.rows), []
            for begin in range(0, len(order), WINDOW):
                rows = sorted(order[begin : begin + WINDOW], key=lambda row: len(self.ids[row]))
                batches += [rows[at : at + BATCH] for at in range(0, len(rows) - BATCH + 1, BATCH)]
            for chosen in rng.permutation(len(batches)):
                if number >= start:
                    yield self._batch(batches[chosen])
                number += 1
            epoch += 1

    def _batch(self, rows):
        width = -(-max(len(self.ids[row]) for row in rows) // 4) * 4
        ids, mask = np.zeros((2, len(rows), width), np.int32)
        words_of, known = np.full((len(rows), width), NO_WORD, np.int32), []
        count = 0
        for i, row in enumerate(rows):
            length = len(self.ids[row])
            ids[i, :length], mask[i, :length] = self.ids[row], 1
            of = self.words_of[row]
            if of.max() == NO_WORD:
                continue
            words_of[i, :length] = np.where(of == NO_WORD, NO_WORD, of + count)
            count += self.counts[row]
            known.append(np.arange(self.first[row], self.first[row] + self.counts[row]))
        words = self.words[np.concatenate(known)] if known else self.words[:1]
        return ids, mask, words_of, words, self.vectors[rows]


class Student:
    """The model with its projections and its optimizer.

    Args:
        checkpoint: of an ALBERT with both heads.
        lessons: its words' vectors are divided by the standard deviation of their entries.
        pretraining: batches of `pretraining_batches`, whose shapes count.
        weights: of the losses, by name; a loss whose weight is 0 isn't computed.
    """

    def __init__(self, checkpoint, lessons, pretraining, weights, dtype_policy):
        import keras
        import tensorflow as tf

        from albert_tf import AlbertAdamW, AlbertForPreTraining

        keras.utils.set_random_seed(SEED)
        self.model = AlbertForPreTraining.from_pretrained(checkpoint, dtype=dtype_policy)
        self.weights, self.deviation = weights, float(np.std(lessons.words[:100_000], dtype="f4"))
        hidden, size = self.model.config.hidden_size, lessons.words.shape[1]
        self.heads = {n: keras.layers.Dense(size, name=n) for n in ("words", "sentence", "pooled")}
        for head in self.heads.values():
            head.build((None, hidden))
        self.variables = list(self.model.trainable_variables)
        self.variables += [v for head in self.heads.values() for v in head.trainable_variables]
        # Few steps: a second moment that forgets sooner.
        self.optimizer = AlbertAdamW(1e-3, bias_correction=True, beta_2=0.98, global_clipnorm=1.0)
        self.optimizer.build(self.variables)
        lesson = [tf.TensorSpec((BATCH, None), tf.int32)] * 3
        lesson += [tf.TensorSpec((count, size), tf.float16) for count in (None, BATCH)]
        self.step = tf.function(
            self._step, input_signature=[*lesson, *pretraining.element_spec], autograph=False
        )

    def _losses(self, ids, mask, words_of, words, vectors, features, labels):
        import tensorflow as tf

        def unit(values):
            return tf.math.l2_normalize(tf.cast(values, tf.float32), axis=-1)

        def cosines(values):
            return tf.matmul(values, values, transpose_b=True)

        outputs = self.model.albert({"input_ids": ids, "attention_mask": mask})
        hidden = tf.cast(outputs["last_hidden_state"], tf.float32)
        pooled = tf.cast(outputs["pooler_output"], tf.float32)
        shares = tf.cast(mask, tf.float32)[..., None]
        mean = tf.reduce_sum(hidden * shares, 1) / tf.reduce_sum(shares, 1)
        vectors = unit(vectors)
        target = cosines(vectors)
        losses = {
            name: 1 - tf.reduce_mean(tf.reduce_sum(unit(self.heads[name](read)) * vectors, -1))
            for name, read in (("sentence", mean), ("pooled", pooled))
        }
        losses["similarity"] = sum(
            tf.reduce_mean(tf.square(cosines(unit(read)) - target)) for read in (mean, pooled)
        )
        if self.weights["words"]:
            flat = tf.reshape(hidden, [-1, hidden.shape[-1]])
            means = tf.math.unsorted_segment_mean(
                flat, tf.reshape(words_of, [-1]), tf.shape(words)[0]
            )
            wanted = tf.cast(words, tf.float32) / self.deviation
            losses["words"] = tf.reduce_mean(tf.square(self.heads["words"](means) - wanted))
        if self.weights["pretraining"]:
            losses["pretraining"] = self.model({**features, **labels}, training=True)["loss"]
        return losses

    def _step(self, *batch):
        import tensorflow as tf

        with tf.GradientTape() as tape:
            losses = self._losses(*batch)
            loss = sum(self.weights[name] * value for name, value in losses.items())
        gradients = tape.gradient(
            loss,
            [variable.value for variable in self.variables],
            unconnected_gradients=tf.UnconnectedGradients.ZERO,
        )
        self.optimizer.apply_gradients(zip(gradients, self.variables, strict=True))
        return losses

    def save(self, path):
        values = [variable.numpy() for variable in self.variables + self.optimizer.variables]
        with written_atomically(path, force=True) as partial, open(partial, "wb") as file:
            np.savez(file, *values)

    def restore(self, path):
        """Reads the state, if there is one; returns the number of steps behind it."""
        if path.exists():
            with np.load(path) as values:
                variables = self.variables + self.optimizer.variables
                for variable, name in zip(variables, values.files, strict=True):
                    variable.assign(values[name])
        return int(self.optimizer.iterations.numpy())


def rate(step, steps, peak):
    """Returns a learning rate that rises, stays, and falls to 0 from `FALL` of the steps on."""
    return peak * min(1, (step + 1) / WARMUP, (1 - step / steps) / (1 - FALL))


def train(student, lessons, pretraining, steps, peak, state):
    """Takes the steps that are missing; saves the state every `SAVE` steps.

    Args:
        pretraining: returns the batches of records from a step on.
    """
    start = student.restore(state)
    records = iter(pretraining(start))
    sums, began = {}, time.monotonic()
    for step, batch in zip(range(start, steps), lessons.batches(start), strict=False):
        student.optimizer.learning_rate.assign(rate(step, steps, peak))
        for name, value in student.step(*batch, *next(records)).items():
            sums[name] = sums.get(name, 0.0) + float(value)
        if (step + 1) % SAVE == 0 or step + 1 == steps:
            student.save(state)
            means = {
                name: round(value / ((step - start) % SAVE + 1), 4) for name, value in sums.items()
            }
            print(step + 1, f"{time.monotonic() - began:.0f} s", json.dumps(means), flush=True)
            sums = {}


def correlation(model, lessons):
    """Returns the rank correlation of cosines of mean hidden states with the teacher's."""
    import tensorflow as tf
    from scipy.stats import spearmanr

    means = np.zeros((len(lessons.ids), model.config.hidden_size), np.float32)
    order = np.argsort([len(ids) for ids in lessons.ids], kind="stable")
    forward = tf.function(model.albert, autograph=False, reduce_retracing=True)
    for rows in np.array_split(order, len(order) // 64):
        ids, mask, *_ = lessons._batch(rows)
        hidden = forward({"input_ids": ids, "attention_mask": mask})["last_hidden_state"]
        means[rows] = (hidden.numpy() * mask[..., None]).sum(1) / mask.sum(1, keepdims=True)
    means /= np.linalg.norm(means, axis=1, keepdims=True)
    vectors, pairs = lessons.vectors.astype(np.float32), np.triu_indices(len(means), 1)
    return float(spearmanr((means @ means.T)[pairs], (vectors @ vectors.T)[pairs]).statistic)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sentences", type=Path, required=True, help="a file, one a line")
    parser.add_argument("--teacher", type=Path, required=True)
    parser.add_argument("--books", type=Path, required=True)
    parser.add_argument("--output", type=Path, default=Path("build/distilled"))
    parser.add_argument("--count", type=int, default=400_000, help="default: %(default)s")
    parser.add_argument("--steps", type=int, default=22_000, help="default: %(default)s")
    parser.add_argument(
        "--pretraining-batch-size",
        type=int,
        default=16,
        help="records of masked words and sentence order of a step; default: %(default)s",
    )
    parser.add_argument("--learning-rate", type=float, default=8e-4, help="default: %(default)s")
    parser.add_argument("--init-checkpoint", default="small", help="default: %(default)s")
    parser.add_argument("--dtype-policy", default="float32", help="default: %(default)s")
    parser.add_argument(
        "--weights",
        type=json.loads,
        default={},
        help=f"of losses, where they aren't the defaults: {json.dumps(WEIGHTS)}",
    )
    options = parser.parse_args()
    folder, teacher = options.output, options.output / "teacher"
    with open(options.sentences, encoding="utf-8") as file:
        sentences = [line.rstrip("\n") for line, _ in zip(file, range(options.count), strict=False)]
    teach(sentences, options.teacher, teacher)
    if not (folder / "held-out").exists():
        small_model.split(options.books, folder)
    small_model.build(folder, (LONGEST,))

    from albert_tf import AlbertForPreTraining, AlbertTokenizer, pretraining_batches

    tokenizer = AlbertTokenizer.from_pretrained(options.init_checkpoint)
    numbers = range(-(-len(sentences) // SHARD))
    if not (folder / "model").exists():
        lessons = Lessons(sentences, teacher, numbers[1:], tokenizer)
        pretraining = partial(
            pretraining_batches, folder / f"books-{LONGEST}", options.pretraining_batch_size, SEED
        )
        student = Student(
            options.init_checkpoint,
            lessons,
            pretraining(),
            WEIGHTS | options.weights,
            options.dtype_policy,
        )
        state = folder / "state.npz"
        train(student, lessons, pretraining, options.steps, options.learning_rate, state)
        student.model.save_pretrained(folder / "model")
        tokenizer.save_pretrained(folder / "model")
    held_out = Lessons(sentences, teacher, numbers[:1], tokenizer)
    for checkpoint in (folder / "model", options.init_checkpoint):
        model = AlbertForPreTraining.from_pretrained(checkpoint)
        print(checkpoint, "rank correlation", correlation(model, held_out))
        found = small_model.scores(checkpoint, folder / f"held-out-{LONGEST}")
        print(checkpoint, json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
