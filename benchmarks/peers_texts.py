"""Measures text classification, question answering and tokenization for `peers.py`."""

import json
import time

import numpy as np
from memory import memory

BATCH = 32  # rows of a pipeline's batch
LENGTH, SHARED = 384, 128  # pieces of a window, and of those that neighbours share
LONGEST = 15  # pieces of an answer
QUESTIONS = 300
MEGABYTES = 1  # of text to tokenize


def rated(call, items):
    """Returns what a call finds in all items, and its rate and memory, warmed up by one batch."""
    empty = memory("VmRSS")
    call(items[:BATCH])
    start = time.perf_counter()
    found = call(items)
    rate = len(items) / (time.perf_counter() - start)
    peak = memory("VmHWM")
    return found, {"rate": rate, "peak": peak, "added": peak - empty}


def answers(folder, options):
    """Returns texts per second, memory and answers of a pipeline."""
    texts, path = json.loads((folder / "texts.json").read_text("utf-8")), str(folder / "model")
    task = "text-classification"
    if options.runner == "albert_tf":
        import albert_tf

        pipeline = albert_tf.pipeline(task, model=path, batch_size=BATCH)
        options = {"truncation": True}
    else:
        import transformers

        pipeline = transformers.pipeline(task, model=path, batch_size=BATCH, device="cpu")
        options = {"truncation": True, "max_length": 512}
    found, figures = rated(lambda texts: pipeline(texts, **options), texts)
    positive = [
        each["score"] if each["label"] == "positive" else 1 - each["score"] for each in found
    ]
    return {**figures, "positive": positive}


def keep_same_ids(folder, tokenizer):
    """Keeps `QUESTIONS` questions whose ids are the same in transformers, from all over the file.

    Others would have other answers: the weights are random.
    """
    try:
        import transformers
    except ImportError:
        return
    path = folder / "questions.json"
    theirs = transformers.AutoTokenizer.from_pretrained(folder / "questions")
    first, second = map(list, zip(*json.loads(path.read_text("utf-8")), strict=True))
    found = [each(first, second)["input_ids"] for each in (tokenizer, theirs)]
    pairs = zip(*found, strict=True)
    same = [row for row, (ids, others) in enumerate(pairs) if list(ids) == list(others)]
    kept = [(first[row], second[row]) for row in same[:: max(1, len(same) // QUESTIONS)]]
    path.write_text(json.dumps(kept[:QUESTIONS]), "utf-8")


def questions(folder, options):
    """Returns questions per second, memory and scores of the answers.

    transformers 5 has no pipeline for questions.
    """
    pairs = json.loads((folder / "questions.json").read_text("utf-8"))
    path = str(folder / "questions")
    answer = {"albert_tf": our_answers, "transformers": torch_answers}[options.runner](path)
    scores, figures = rated(answer, pairs)
    return {**figures, "answers": scores}


def our_answers(path):
    import albert_tf

    ask = albert_tf.pipeline("question-answering", model=path, batch_size=BATCH)
    options = {"max_seq_len": LENGTH, "doc_stride": SHARED, "max_answer_len": LONGEST}

    def answer(pairs):
        asked, contexts = map(list, zip(*pairs, strict=True))
        found = ask(question=asked, context=contexts, align_to_words=False, **options)
        return [each["score"] for each in found]

    return answer


def torch_answers(path):
    """Windows as in transformers' guide, in batches of the order given; our scores of spans."""
    import torch
    import transformers

    from albert_tf.text.answers import best_spans

    tokenizer = transformers.AutoTokenizer.from_pretrained(path)
    model = transformers.AlbertForQuestionAnswering.from_pretrained(path).eval()

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
            given = tokenizer.pad(rows, return_tensors="pt")
            with torch.inference_mode():
                found = model(**given)
            logits = zip(found.start_logits.numpy(), found.end_logits.numpy(), strict=True)
            for place, (starts, ends) in enumerate(logits, start=first):
                context = np.array([part == 1 for part in windows.sequence_ids(place)])
                length = len(context)
                (span,), _ = best_spans(starts[:length], ends[:length], context, 1, LONGEST)
                best[samples[place]] = max(best[samples[place]], span.score)
        return best

    return answer


def tokenizing(folder, options):
    """Returns megabytes per second of processor time, and the ids of the first texts."""
    texts, path = json.loads((folder / "texts.json").read_text("utf-8")), folder / "model"
    if options.runner == "albert_tf":
        from albert_tf import AlbertTokenizer

        tokenizer = AlbertTokenizer.from_pretrained(path)
    elif options.runner == "transformers":
        import transformers

        tokenizer = transformers.AutoTokenizer.from_pretrained(path)
    else:
        import sentencepiece

        processor = sentencepiece.SentencePieceProcessor(model_file=str(path / "spiece.model"))

        def tokenizer(texts):
            encoded = processor.encode(texts, num_threads=1)
            first, last = processor.piece_to_id(["[CLS]", "[SEP]"])
            return {"input_ids": [[first, *ids, last] for ids in encoded]}

    ids = [list(map(int, each)) for each in tokenizer(texts)["input_ids"]]
    size = sum(len(text.encode()) for text in texts) / 1e6
    again = texts * (int(MEGABYTES / size) + 1)
    start = time.process_time()
    tokenizer(again)
    return {"rate": size * len(again) / len(texts) / (time.process_time() - start), "ids": ids}
