"""The processes of the comparison: one writes every peer's files, the others measure a case."""

import json
import time
from pathlib import Path

import numpy as np

from benchmarks import harness, products, runners

BATCH = 32  # rows in a pipeline's batch
LENGTH, SHARED = 384, 128  # tokens in a window, and tokens that neighboring windows share
LONGEST = 15  # maximum number of tokens in an answer
QUESTIONS = 300
MEGABYTES = 1  # of text to tokenize
LEARNING_RATE = 2e-5
DROPOUTS = ("hidden_dropout_prob", "attention_probs_dropout_prob", "classifier_dropout_prob")


def prepare(folder, size, shapes):
    """Draws weights; writes every peer's files, and a batch of each shape with Keras' logits.

    Returns the `config`, the `spread` of all logits, and the number of `questions`.
    """
    import keras
    from albert_tf_export import graphs
    from albert_tf_export import onnx as onnx_export
    from albert_tf_export.signatures import ids_signature

    import albert_tf

    folder = Path(folder)
    keras.utils.set_random_seed(1)
    tokenizer = albert_tf.AlbertTokenizer.from_pretrained("small", model_max_length=512)
    config = albert_tf.AlbertConfig.from_size(
        size,
        vocab_size=tokenizer.vocab_size,
        id2label={0: "negative", 1: "positive"},
        **dict.fromkeys(DROPOUTS, 0.0),
    )
    model = albert_tf.AlbertForSequenceClassification(config)
    for weight in model.weights:  # biases and gains that differ, and logits far from 0
        weight.assign_add(keras.random.normal(weight.shape, stddev=0.02))
    asked = albert_tf.AlbertForQuestionAnswering(config)
    for each, name in ((model, "model"), (tokenizer, "model"), (asked, "asked")):
        each.save_pretrained(folder / name)
    tokenizer.save_pretrained(folder / "asked")
    signature = ids_signature(model, unroll="last", strings=False)
    graphs.write([signature], folder / "saved")
    loop = ids_signature(model, unroll=False, strings=False)
    for precision in ("none", "dynamic"):
        (folder / f"{precision}.tflite").write_bytes(graphs.convert([loop], precision))
        path = folder / f"{precision}.onnx"
        try:
            path.write_bytes(onnx_export.convert(signature, ("batch", "length"), precision, {}))
        except ImportError as error:  # the tables omit this library
            print(error)
    generator, spreads = np.random.default_rng(1), []
    for count, length in shapes:
        ids = generator.integers(5, config.vocab_size, (count, length), np.int32)
        rows = dict(zip(runners.NAMES, (ids, np.ones_like(ids), np.zeros_like(ids)), strict=True))
        if count > 1:
            rows["attention_mask"][-1, length // 2 :] = 0
        rows["token_type_ids"][:, length // 2 :] = 1
        spreads.append(runners.write_batch(folder / f"{count}x{length}.npz", rows, model))
    spread = float(np.ptp(np.concatenate(spreads), axis=0).max())
    questions = keep_same_ids(folder, tokenizer)
    return {"config": config.to_dict(), "spread": spread, "questions": questions}


def keep_same_ids(folder, tokenizer):
    """Keeps `QUESTIONS` questions from the whole file whose ids are the same in transformers.

    With different ids, the answers would differ, because the weights are random.
    """
    path = folder / "questions.json"
    pairs = json.loads(path.read_text("utf-8"))
    try:
        import transformers
    except ImportError:
        return len(pairs)
    theirs = transformers.AutoTokenizer.from_pretrained(folder / "asked")
    encoded = [
        each(*map(list, zip(*pairs, strict=True)))["input_ids"] for each in (tokenizer, theirs)
    ]
    same = [
        pair
        for pair, ours, others in zip(pairs, *encoded, strict=True)
        if list(ours) == list(others)
    ]
    kept = same[:: max(1, len(same) // QUESTIONS)][:QUESTIONS]
    path.write_text(json.dumps(kept), "utf-8")
    return len(kept)


def products_alone(library, config, shapes, seconds):
    """Returns the milliseconds of all layers' matmuls and biases at each shape."""
    layers, generator = products.of_layers(library, config), np.random.default_rng(1)
    times = []
    for count, length in shapes:
        rows = generator.standard_normal((count * length, config["hidden_size"]), "float32")
        times.append(harness.timed(lambda rows=rows: layers(rows), seconds=seconds))
    return times


def rated(call, items):
    """Returns the results of all items, and their rate and memory, warmed up by one batch."""
    empty = harness.memory("VmRSS")
    call(items[:BATCH])
    start = time.perf_counter()
    results = call(items)
    rate = len(items) / (time.perf_counter() - start)
    peak = harness.memory("VmHWM")
    return results, {"rate": rate, "MB": peak, "added": peak - empty}


def answers(name, folder):
    """Returns a pipeline's texts per second, memory, and probabilities."""
    texts, path = json.loads(Path(folder, "texts.json").read_text("utf-8")), f"{folder}/model"
    given = {"model": path, "batch_size": BATCH}
    if name == "albert_tf":
        import albert_tf

        pipeline, options = albert_tf.pipeline("text-classification", **given), {}
    else:
        import transformers

        pipeline = transformers.pipeline("text-classification", **given, device="cpu")
        options = {"max_length": 512}
    results, figures = rated(lambda texts: pipeline(texts, truncation=True, **options), texts)
    positive = [
        each["score"] if each["label"] == "positive" else 1 - each["score"] for each in results
    ]
    return {**figures, "answers": positive}


def questions(name, folder):
    """Returns questions per second, memory, and scores of the answers.

    transformers 5 has no pipeline for questions.
    """
    pairs = json.loads(Path(folder, "questions.json").read_text("utf-8"))
    answer = {"albert_tf": our_answers, "transformers": torch_answers}[name](f"{folder}/asked")
    scores, figures = rated(answer, pairs)
    return {**figures, "answers": scores}


def our_answers(path):
    import albert_tf

    ask = albert_tf.pipeline("question-answering", model=path, batch_size=BATCH)
    options = {"max_seq_len": LENGTH, "doc_stride": SHARED, "max_answer_len": LONGEST}

    def answer(pairs):
        asked, contexts = map(list, zip(*pairs, strict=True))
        results = ask(question=asked, context=contexts, align_to_words=False, **options)
        return [result["score"] for result in results]

    return answer


def torch_answers(path):
    """Follows transformers' guide: windows, batched in their given order, with our span scores."""
    import torch
    import transformers

    from albert_tf.text.answers import best_spans

    tokenizer = transformers.AutoTokenizer.from_pretrained(path)
    model = transformers.AlbertForQuestionAnswering.from_pretrained(path).eval()

    @torch.inference_mode()
    def answer(pairs):
        windows = tokenizer(
            *map(list, zip(*pairs, strict=True)),
            truncation="only_second",
            max_length=LENGTH,
            stride=SHARED,
            return_overflowing_tokens=True,
        )
        samples = windows.pop("overflow_to_sample_mapping")
        best = [0.0] * len(pairs)
        for first in range(0, len(samples), BATCH):
            rows = {name: each[first : first + BATCH] for name, each in windows.items()}
            outputs = model(**tokenizer.pad(rows, return_tensors="pt"))
            logits = zip(outputs.start_logits.numpy(), outputs.end_logits.numpy(), strict=True)
            for number, (starts, ends) in enumerate(logits, start=first):
                context = np.array([part == 1 for part in windows.sequence_ids(number)])
                outputs = {"start_logits": starts, "end_logits": ends}
                (span,) = best_spans(outputs, context, 1, LONGEST).spans
                best[samples[number]] = max(best[samples[number]], span.score)
        return best

    return answer


def tokenizing(name, folder):
    """Returns megabytes per second of processor time, and the ids of the first texts."""
    texts, path = json.loads(Path(folder, "texts.json").read_text("utf-8")), f"{folder}/model"
    if name == "albert_tf":
        from albert_tf import AlbertTokenizer

        tokenizer = AlbertTokenizer.from_pretrained(path)
    elif name == "transformers":
        import transformers

        tokenizer = transformers.AutoTokenizer.from_pretrained(path)
    else:
        import sentencepiece

        processor = sentencepiece.SentencePieceProcessor(model_file=f"{path}/spiece.model")

        def tokenizer(texts):
            encoded = processor.encode(texts, num_threads=1)
            first, last = processor.piece_to_id(["[CLS]", "[SEP]"])
            return {"input_ids": [[first, *ids, last] for ids in encoded]}

    ids = [list(map(int, each)) for each in tokenizer(texts)["input_ids"]]
    size = sum(len(text.encode()) for text in texts) / 1e6
    copies = int(MEGABYTES / size) + 1
    start = time.process_time()
    tokenizer(texts * copies)
    return {"rate": size * copies / (time.process_time() - start), "ids": ids}


def training(name, folder, shape, seconds):
    """Returns milliseconds and memory of a fine-tuning step, and the losses of the first two."""
    rows = dict(np.load(f"{folder}/{shape[0]}x{shape[1]}.npz"))
    del rows["expected"], rows["texts"]
    labels = np.arange(shape[0], dtype="int32") % 2
    trainers = {"transformers": torch_step, "albert_tf, finetune": command_step}
    empty, step = trainers.get(name, keras_step)(name, Path(folder), rows, labels)
    losses = [float(step()) for _ in range(2)]
    taken = harness.timed(step, seconds=seconds)
    peak = harness.memory("VmHWM")
    return {"ms": taken, "MB": peak, "added": peak - empty, "losses": losses}


def keras_step(name, folder, rows, labels):
    """Returns the memory before the model, and a function that trains one step."""
    import keras

    optimizer = keras.optimizers.AdamW(LEARNING_RATE, weight_decay=0.01, global_clipnorm=1.0)
    if name == "albert_tf":
        from albert_tf import AlbertForSequenceClassification

        empty = harness.memory("VmRSS")
        model = AlbertForSequenceClassification.from_pretrained(folder / "model")
        model.compile(optimizer)
    else:
        import keras_hub  # noqa: F401 (before the memory is read)

        empty = harness.memory("VmRSS")
        model = runners.keras_hub_classifier(folder / "model")
        model.compile(optimizer, keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        rows = {name: rows[ours] for ours, name in runners.KERAS_HUB.items()}

    def step():
        model.reset_metrics()  # the loss is a mean since the last reset
        return model.train_on_batch(rows, labels, return_dict=True)["loss"]

    return empty, step


def command_step(name, folder, rows, labels):
    """Runs the step of `albert-tf finetune`, which computes the batch's halves in parallel."""
    from albert_tf import AlbertForSequenceClassification
    from albert_tf.optimizers import AlbertAdamW
    from albert_tf.training.distribution import share_threads

    share_threads()
    empty = harness.memory("VmRSS")
    model = AlbertForSequenceClassification.from_pretrained(folder / "model")
    model.compile(AlbertAdamW(LEARNING_RATE, bias_correction=True), weighted_metrics=["accuracy"])

    def step():
        model.reset_metrics()
        return model.train_on_batch(rows, labels, return_dict=True)["loss"]

    return empty, step


def torch_step(name, folder, rows, labels):
    import torch
    import transformers

    empty = harness.memory("VmRSS")
    model = transformers.AlbertForSequenceClassification.from_pretrained(
        folder / "model", dtype=torch.float32, attn_implementation="sdpa"
    ).train()
    optimizer = torch.optim.AdamW(model.parameters(), LEARNING_RATE, weight_decay=0.01)
    batch = {name: torch.from_numpy(each).long() for name, each in rows.items()}
    batch["labels"] = torch.from_numpy(labels).long()

    def step():
        loss = model(**batch).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    return empty, step
