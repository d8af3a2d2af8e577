"""Teaches `small` the hidden states of a BERT encoder, in one run.

    python -m benchmarks.sentences --books books --packages packages --output sentences.txt
    python -m benchmarks.distill_small --sentences sentences.txt --teacher all-MiniLM-L6-v2

The student has the teacher's hidden size and number of layers, but the vocabulary of `small`, a
factorized word embedding matrix, and fewer groups. It is initialized from the teacher: words are
the means of their wordpieces, projected on the main directions of the teacher's matrix, and each
group is one of the teacher's layers. It minimizes a weighted sum of these losses:

- states: after the embedding and after each `EVERY`-th layer, a token's state should be the mean of
  the teacher's states of the same word; errors are divided by the layer's variance;
- sentence: the mean of the last states should have the direction of the teacher's;
- similarity: the cosines between these means in a batch should be the teacher's;
- pooled: the projected pooler output should have the same direction and cosines;
- pretraining: masked LM and sentence order.

Rows cycle through `WIDTHS`: the short ones are single sentences and clauses, the long ones two runs
of sentences from one document. A batch is a pure function of the seed and the step, so the same
command resumes an interrupted run. `--steps` sets the schedule's length, and `--stop` ends the
process earlier. The last hundredth of the documents is held out, and its losses are printed at the
end. The output folder caches the tokens of the text, after which torch or JAX is enough.
"""

import argparse
import json
import math
import multiprocessing
from collections import deque
from itertools import chain, count, islice
from pathlib import Path

import keras
import numpy as np
from keras import ops

from albert_tf import (
    AlbertConfig,
    AlbertForPreTraining,
    AlbertModel,
    AlbertTokenizer,
    WarmupPolynomialDecay,
)
from albert_tf.data.pretraining import rng
from albert_tf.data.pretraining.masking import as_rows, mask, word_table
from albert_tf.data.pretraining.options import ExampleOptions
from albert_tf.data.pretraining.pairs import Pairs, swapped
from albert_tf.files import written_atomically
from albert_tf.layers.embedding import trusted

SEED = 7
WIDTHS = (32, 64, 32, 128, 32, 64, 32, 256)  # tokens per row, used in turn
CROPPED = 0.3  # share of short rows that contain only a clause
HELD_OUT = 0.01  # share of the documents
LONGEST = 0.25  # share of sentences in which masked rows begin: those with the most text after them
EVERY = 2  # layers between the states that are learned
WEIGHTS = {"states": 1.0, "sentence": 1.0, "similarity": 5.0, "pooled": 0.5, "pretraining": 0.5}
# Used instead of a word index. The padding of the two models differs, so that it never matches.
CLASSIFY, SEPARATE, END, STUDENT_PADDING, TEACHER_PADDING = -1, -2, -3, -4, -5


class Text:
    """Documents as words, and words as the tokens of two vocabularies.

    Attributes:
        sentences: int64 `[S + 1]`, index of the word that each sentence begins with, then W, the
            number of words.
        ends: int64 `[S]`, index of the word that ends the document of each sentence.
        ids: the tokens of all words, int32 `[N]` for the student and for the teacher.
        bounds: index of the token that each word begins with, then N, the number of tokens; int64
            `[W + 1]` for both.
        longest: int64 indices of the training sentences and of the held-out ones, sorted by the
            number of tokens that follow in their document, in descending order.
    """

    def __init__(self, numbers, sentences, documents, student, teacher):
        self.sentences = sentences
        self.ends = np.repeat(sentences[documents[1:]], np.diff(documents))
        self.held_out = int(documents[int(len(documents) * (1 - HELD_OUT)) - 1])  # sentence
        self.ids, self.bounds = [], []
        for flat, sizes in (student, teacher):
            starts = np.cumsum(sizes, dtype=np.int64) - sizes
            repeats = sizes[numbers].astype(np.int64)
            ends = np.cumsum(repeats)
            within = np.arange(ends[-1]) - np.repeat(ends - repeats, repeats)
            self.ids.append(flat[np.repeat(starts[numbers], repeats) + within].astype(np.int32))
            self.bounds.append(np.concatenate([[0], ends]))
        after = self.bounds[0][self.ends] - self.bounds[0][sentences[:-1]]
        parts = np.split(np.arange(len(after)), [self.held_out])
        self.longest = [part[np.argsort(-after[part], kind="stable")] for part in parts]

    @classmethod
    def read(cls, path, sentences, tokenizers):
        """Reads the words and tokens from `path`, which is created from `sentences` if missing."""
        if not path.exists():
            known, numbers, bounds, documents = {}, [], [0], [0]
            with open(sentences, encoding="utf-8") as file:
                for line in chain(file, "\n"):
                    if line.strip():
                        numbers += (known.setdefault(word, len(known)) for word in line.split())
                        bounds.append(len(numbers))
                    elif documents[-1] < len(bounds) - 1:
                        documents.append(len(bounds) - 1)
            tokens = []
            for tokenizer in tokenizers():
                of_words = tokenizer.encode_plain(list(known))
                tokens.append(np.concatenate(of_words).astype(np.uint16))
                tokens.append(np.array([len(ids) for ids in of_words], np.uint8))
            with written_atomically(path, force=True) as new, open(new, "wb") as file:
                np.savez(file, np.array(numbers, np.uint32), bounds, documents, *tokens)
        with np.load(path) as content:
            numbers, bounds, documents, *tokens = (content[name] for name in content.files)
        return cls(numbers, bounds, documents, tokens[:2], tokens[2:])

    def spans(self, generator, size, width, held_out=False, longest=1.0):
        """Draws spans of words that fit into a row in both vocabularies.

        Args:
            longest: share of the sentences in which a span may begin: those with the most text
                after them.
        Returns:
            Begin, middle, and end of each span: int64 `[B]`. Short rows contain one sentence or a
            part of it. Long rows contain as many as fit; the middle is the end of a sentence if
            there is one.
        """
        candidates = self.longest[held_out]
        count = math.ceil(len(candidates) * longest)
        sentence = candidates[generator.integers(count, size=size)]
        begin, end = self.sentences[sentence], self.sentences[sentence + 1]
        draws = generator.random((4, size))
        if width <= min(WIDTHS):
            spare = np.where(draws[0] < CROPPED, np.maximum(end - begin - 2, 0), 0)
            begin = begin + (draws[1] * (spare + 1)).astype(int)
            end = end - (draws[2] * (spare + 1 - (begin - self.sentences[sentence]))).astype(int)
        else:
            end = self.ends[sentence]
        for bounds in self.bounds:
            fitting = np.searchsorted(bounds, bounds[begin] + width - 3, side="right") - 1
            end = np.maximum(np.minimum(end, fitting), begin + 1)
        last = np.searchsorted(self.sentences, end, side="right") - 1  # sentences that are whole
        end = np.where((last > sentence) & (width > min(WIDTHS)), self.sentences[last], end)
        middle = self.sentences[sentence + 1 + (draws[3] * (last - sentence - 1)).astype(int)]
        inside = begin + 1 + (draws[3] * (end - begin - 1)).astype(int)
        return begin, np.where((middle > begin) & (middle < end), middle, inside), end

    def rows(self, side, special, spans, is_pair, width):
        """Returns the ids, mask, types, and word indices of rows, int32 `[B, T]` each.

        Args:
            side: 0 for the student, 1 for the teacher.
            special: ids of `[CLS]`, `[SEP]` and padding.
        """
        classify, separate, pad = special
        begin, middle, end = (bound[:, None] for bound in spans)
        bounds, ids = self.bounds[side], self.ids[side]
        is_pair = is_pair[:, None]
        at = np.arange(width)
        first = bounds[middle] - bounds[begin]
        last = np.minimum(bounds[end] - bounds[begin] + 1 + is_pair, width - 1)  # of [SEP]
        source = bounds[begin] + at - 1 - (is_pair & (at > first))
        source = np.clip(source, 0, len(ids) - 1)
        words = np.searchsorted(bounds, source, side="right") - 1 - begin
        found = ids[source]
        for where, token, word in (
            (at == 0, classify, CLASSIFY),
            (is_pair & (at == first + 1), separate, SEPARATE),
            (at == last, separate, END),
            (at > last, pad, (STUDENT_PADDING, TEACHER_PADDING)[side]),
        ):
            found, words = np.where(where, token, found), np.where(where, word, words)
        types = is_pair & (at > first + 1) & (at <= last)
        return [part.astype(np.int32) for part in (found, at <= last, types, words)]


class Batches:
    """A function that returns the batch of a step: rows for both models, and masked rows.

    Args:
        special: ids of `[CLS]`, `[SEP]`, and padding in both vocabularies.
        table: the student's `WordTable`.
        tokens: number of tokens in a batch, for both models and for masked rows.
    """

    def __init__(self, text, special, table, tokens):
        self.text, self.special, self.table, self.tokens = text, special, table, tokens

    def __call__(self, step, held_out=False):
        generator = np.random.default_rng([SEED, held_out, step])
        width = WIDTHS[step % len(WIDTHS)]
        size = self.tokens[0] // width
        spans = self.text.spans(generator, size, width, held_out)
        is_pair = (generator.random(size) < 0.5) & (width > min(WIDTHS))
        lesson = {}
        for side, name in enumerate(("student", "teacher")):
            parts = self.text.rows(side, self.special[side], spans, is_pair, width)
            keys = ("input_ids", "attention_mask", "token_type_ids", "words")
            lesson |= {f"{name}_{key}": part for key, part in zip(keys, parts, strict=True)}
        width = max(width, 64)
        size = self.tokens[1] // width
        begin, middle, end = (
            self.text.bounds[0][bound]
            for bound in self.text.spans(generator, size, width, held_out, LONGEST)
        )
        keys = rng.fold_in(rng.key(SEED + held_out, step), np.arange(size))
        first, second = np.stack([begin, middle], 1), np.stack([middle, end], 1)
        pairs = swapped(Pairs(keys, first, second, np.zeros(size, np.int32)))
        options = ExampleOptions(max_seq_length=width, masked_lm_prob=0.2)
        rows = as_rows(pairs, self.text.ids[0], self.table, width)
        masked = mask(rows, keys, self.table, options)
        at = np.arange(width)
        inside = at < rows.lengths[:, None]
        pretraining = {
            "input_ids": masked.ids,
            "attention_mask": inside.astype(np.int32),
            "token_type_ids": (inside & (at >= rows.first[:, None])).astype(np.int32),
            "masked_lm_positions": masked.positions,
            "labels": masked.labels,
            "sentence_order_label": pairs.labels,
        }
        return {"lesson": lesson, "pretraining": pretraining}


_batches = None  # inherited by worker processes


def _batch(step):
    return _batches(step)


def stream(batches, start, workers):
    """Yields the batches from step `start` on, which worker processes build in advance."""
    global _batches
    _batches = batches
    steps = count(start)
    if not workers:
        yield from ((batches(step),) for step in steps)
    with multiprocessing.get_context("fork").Pool(workers) as pool:
        coming = deque(pool.apply_async(_batch, (step,)) for step in islice(steps, 3 * workers))
        while True:
            coming.append(pool.apply_async(_batch, (next(steps),)))
            yield (coming.popleft().get(),)


def wordpiece_ids(piece, vocab):
    """Splits a student's piece into the teacher's ids, by longest match."""
    text, ids = piece.removeprefix("\u2581"), []
    prefix = "" if piece.startswith("\u2581") else "##"
    while text:
        for end in range(len(text), 0, -1):
            if prefix + text[:end] in vocab:
                ids.append(vocab[prefix + text[:end]])
                break
        else:
            return []
        text, prefix = text[end:], "##"
    return ids


def initial_student(teacher, tokenizer, vocab, frequency, config, dtype):
    """Returns a student initialized from the teacher.

    Args:
        vocab: the teacher's ids, keyed by wordpiece.
        frequency: `[V]`, frequencies of the student's tokens.
    """
    student = AlbertForPreTraining(config, dtype=dtype)
    words, positions, types, gamma, beta, _, _ = teacher.embedding.get_weights()
    pieces = tokenizer.convert_ids_to_tokens(list(range(config.vocab_size)))
    named = {"[CLS]": "[CLS]", "[SEP]": "[SEP]", "[MASK]": "[MASK]", "<pad>": "[PAD]"}
    of_piece = [
        [vocab[named[piece]]] if piece in named else wordpiece_ids(piece, vocab) or [vocab["[UNK]"]]
        for piece in pieces
    ]
    table = np.stack([words[ids].mean(0) for ids in of_piece])
    weights = np.sqrt(frequency + 1.0)[:, None]
    center = np.average(table, 0, weights[:, 0] ** 2)
    directions = np.linalg.svd((table - center) * weights, full_matrices=False)[2]
    directions = directions[: config.embedding_size].T  # [H, E]
    # The projection has to map these to the teacher's normalized sums.
    context = positions[1:33].mean(0) + types[0]
    projected = (table - center) @ directions, (context + center) @ directions
    normalized = _normalized(projected[0] + projected[1])
    wanted = _normalized(table + context) * gamma + beta
    inputs = np.concatenate([normalized, np.ones((len(table), 1))], 1)
    solution = np.linalg.lstsq(inputs * weights, wanted * weights, rcond=None)[0]
    parts = [
        projected[0],
        (positions[: config.max_position_embeddings] + center) @ directions,
        types @ directions,
        np.ones(config.embedding_size),
        np.zeros(config.embedding_size),
        solution[:-1],
        solution[-1],
    ]
    student.albert.embedding.set_weights(parts)
    student.albert.pooler.set_weights(teacher.pooler.get_weights())
    layers = config.num_hidden_layers // config.num_hidden_groups
    for group, block in enumerate(student.albert.encoder.blocks):
        block.set_weights(teacher.encoder.blocks[group * layers].get_weights())
    return student


def _normalized(values):
    centered = values - values.mean(1, keepdims=True)
    return centered / centered.std(1, keepdims=True)


class Distillation(keras.Model):
    """The student, the teacher, and the losses.

    Args:
        weights: weights of the losses, keyed by name.
    """

    def __init__(self, student, teacher, weights):
        super().__init__()
        teacher.trainable = False
        self.student, self.teacher, self.weighting = student, teacher, weights
        self.projection = keras.layers.Dense(teacher.config.hidden_size, dtype="float32")
        self.projection.build((None, student.config.hidden_size))
        self.seen = {name: keras.metrics.Mean(name=name) for name in (*weights, "last")}
        self.built = True

    def call(self, batch, training=None):
        lesson = batch["lesson"]
        encoded = {}
        with trusted():  # Checking each step would wait for the GPU.
            for name, model in (("teacher", self.teacher), ("student", self.student.albert)):
                keys = ("input_ids", "attention_mask", "token_type_ids")
                encoded[name] = model(
                    {key: lesson[f"{name}_{key}"] for key in keys},
                    output_hidden_states=True,
                    training=training and name == "student",
                )
            pretraining = self.student(batch["pretraining"], training=training)["loss"]
        losses = self.losses_of(lesson, encoded["student"], encoded["teacher"])
        return losses | {"pretraining": pretraining}

    def losses_of(self, lesson, student, teacher):
        """Returns the losses keyed by name, and the error of the last state as "last"."""
        of_token = lesson["student_words"][:, :, None] == lesson["teacher_words"][:, None, :]
        of_token = ops.cast(of_token, "float32")  # [B, student's T, teacher's T]
        partners = ops.sum(of_token, -1, keepdims=True)
        means = of_token / ops.maximum(partners, 1.0)
        is_known = ops.cast(partners > 0, "float32")
        states, last = [], None
        for ours, theirs in zip(
            student["hidden_states"][::EVERY], teacher["hidden_states"][::EVERY], strict=True
        ):
            theirs = ops.cast(theirs, "float32")
            wanted = ops.matmul(means, theirs)
            center = ops.sum(wanted * is_known, (0, 1)) / ops.sum(is_known)
            spread = ops.sum(ops.square(wanted - center) * is_known)
            error = ops.sum(ops.square(ops.cast(ours, "float32") - wanted) * is_known)
            last = error / ops.stop_gradient(spread)
            states.append(last)
        ours, theirs = (
            _unit_mean(states["last_hidden_state"], lesson[f"{name}_attention_mask"])
            for name, states in (("student", student), ("teacher", teacher))
        )
        cosines = ops.matmul(theirs, ops.transpose(theirs))
        pooled = ops.cast(student["pooler_output"], "float32")
        return {
            "states": sum(states) / len(states),
            "sentence": 1 - ops.mean(ops.sum(ours * theirs, -1)),
            "similarity": _distance(ours, cosines),
            "pooled": 1
            - ops.mean(ops.sum(_unit(self.projection(pooled)) * theirs, -1))
            + 5 * _distance(_unit(pooled), cosines),
            "last": last,
        }

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        for name, value in y_pred.items():
            self.seen[name].update_state(value)
        return sum(weight * y_pred[name] for name, weight in self.weighting.items())


def _unit(vectors):
    return ops.normalize(vectors, axis=-1)


def _unit_mean(states, mask):
    shares = ops.cast(mask, "float32")[..., None]
    return _unit(ops.sum(ops.cast(states, "float32") * shares, 1))


def _distance(vectors, cosines):
    return ops.mean(ops.square(ops.matmul(vectors, ops.transpose(vectors)) - cosines))


class State(keras.callbacks.Callback):
    """Saves the trained variables, the number of saves so far, and the student.

    Args:
        folder: output folder for the state and the model.
    """

    def __init__(self, folder):
        super().__init__()
        self.folder, self.path = folder, folder / "state.npz"

    def restore(self, model):
        """Restores the state, if there is one, and returns the number of saves before it."""
        if not self.path.exists():
            return 0
        with np.load(self.path) as values:
            saves, *rest = values.files
            for variable, name in zip(self.variables(model), rest, strict=True):
                variable.assign(values[name])
            return int(values[saves])

    def variables(self, model):
        return [*model.trainable_variables, *model.optimizer.variables]

    def on_epoch_end(self, epoch, logs=None):
        values = map(ops.convert_to_numpy, self.variables(self.model))
        with written_atomically(self.path, force=True) as path, open(path, "wb") as file:
            np.savez(file, epoch + 1, *values)
        self.model.student.save_pretrained(self.folder / "model")


def train(model, batches, steps, stop, save, peak, folder, workers):
    """Runs the remaining steps. Prints a line and saves after every `save` steps."""
    # Because there are few steps, the second moment decays faster.
    optimizer = keras.optimizers.AdamW(
        WarmupPolynomialDecay(peak, 0.04, steps, form="usual"),
        weight_decay=0.01,
        beta_2=0.98,
        epsilon=1e-6,
        global_clipnorm=1.0,
    )
    optimizer.exclude_from_weight_decay(
        var_list=[variable for variable in model.trainable_variables if variable.ndim < 2]
    )
    model.compile(optimizer)
    optimizer.build(model.trainable_variables)
    state = State(folder)
    done = state.restore(model)
    if done * save < stop:
        model.fit(
            stream(batches, done * save, workers),
            steps_per_epoch=save,
            initial_epoch=done,
            epochs=stop // save,
            callbacks=[state],
            shuffle=False,  # The data defines the order of the batches.
            verbose=2,
        )


def held_out_losses(model, batches):
    """Returns the mean losses over two batches per width from held-out documents."""
    sums = dict.fromkeys(model.seen, 0.0)
    for step in range(2 * len(WIDTHS)):
        for name, value in model(batches(step, held_out=True), training=False).items():
            sums[name] += float(ops.convert_to_numpy(value)) / (2 * len(WIDTHS))
    return sums


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sentences", type=Path, help="output of benchmarks.sentences")
    parser.add_argument("--teacher", type=Path, required=True, help="folder of a BERT encoder")
    parser.add_argument(
        "--vocab", default="small", help="student's vocabulary; default: %(default)s"
    )
    parser.add_argument("--output", type=Path, default=Path("build/distilled"))
    parser.add_argument("--begin", help="model to start from; default: the teacher")
    parser.add_argument("--steps", type=int, default=20_000, help="default: %(default)s")
    parser.add_argument("--stop", type=int, help="step after which the process ends; default: last")
    parser.add_argument("--save-steps", type=int, default=100, help="default: %(default)s")
    parser.add_argument("--groups", type=int, default=3, help="default: %(default)s")
    parser.add_argument("--embedding-size", type=int, default=128, help="default: %(default)s")
    parser.add_argument(
        "--tokens",
        type=int,
        nargs=2,
        default=(2048, 1024),
        help="tokens per step, in rows for both models and in masked rows; default: 2048 1024",
    )
    parser.add_argument("--learning-rate", type=float, default=5e-4, help="default: %(default)s")
    parser.add_argument(
        "--dtype-policy", default="float32", help="float32 (default) or mixed_bfloat16"
    )
    parser.add_argument("--workers", type=int, default=1, help="processes that build batches")
    parser.add_argument(
        "--weights",
        type=json.loads,
        default={},
        help=f"weights of the losses that override the defaults: {json.dumps(WEIGHTS)}",
    )
    options = parser.parse_args()
    stop = options.stop or options.steps
    if options.steps % options.save_steps or stop % options.save_steps:
        parser.error("--steps and --stop must be multiples of --save-steps.")
    folder = options.output
    folder.mkdir(parents=True, exist_ok=True)
    keras.utils.set_random_seed(SEED)
    tokenizer = AlbertTokenizer.from_pretrained(options.vocab)
    teacher_vocab = {
        token: index
        for index, token in enumerate((options.teacher / "vocab.txt").read_text("utf-8").split())
    }
    text = Text.read(
        folder / "text.npz",
        options.sentences,
        lambda: (tokenizer, AlbertTokenizer.from_pretrained(options.teacher)),
    )
    special = (
        (tokenizer.cls_token_id, tokenizer.sep_token_id, tokenizer.pad_token_id),
        tuple(teacher_vocab[token] for token in ("[CLS]", "[SEP]", "[PAD]")),
    )
    batches = Batches(text, special, word_table(tokenizer), options.tokens)
    teacher = AlbertModel.from_pretrained(options.teacher, dtype=options.dtype_policy)
    config = AlbertConfig.from_dict(
        {
            **teacher.config.to_dict(),
            "vocab_size": tokenizer.vocab_size,
            "embedding_size": options.embedding_size,
            "num_hidden_groups": options.groups,
            "max_position_embeddings": max(WIDTHS),
            "hidden_act": "gelu_new",
            "hidden_dropout_prob": 0,
            "attention_probs_dropout_prob": 0,
            "bos_token_id": tokenizer.cls_token_id,
            "eos_token_id": tokenizer.sep_token_id,
        }
    )
    if options.begin:
        student = AlbertForPreTraining.from_pretrained(options.begin, dtype=options.dtype_policy)
        shape = student.config.num_hidden_groups, student.config.embedding_size
        if shape != (options.groups, options.embedding_size):
            parser.error(
                f"--groups and --embedding-size must be {shape} as in --begin. Received: "
                f"{options.groups} and {options.embedding_size}."
            )
    else:
        frequency = np.bincount(text.ids[0], minlength=tokenizer.vocab_size)
        student = initial_student(
            teacher, tokenizer, teacher_vocab, frequency, config, options.dtype_policy
        )
    model = Distillation(student, teacher, WEIGHTS | options.weights)
    train(
        model,
        batches,
        options.steps,
        stop,
        options.save_steps,
        options.learning_rate,
        folder,
        options.workers,
    )
    tokenizer.save_pretrained(folder / "model")
    print("held out:", json.dumps(held_out_losses(model, batches)), flush=True)


if __name__ == "__main__":
    main()
