"""Searches by words, by models' vectors, and by both for the sentence that answers a question.

    python -m benchmarks.search --squad xquad.en.json --model small --model my-sentence-model
    python -m benchmarks.search --squad xquad.de.json --language de --model multilingual-e5-small

The candidates are the sentences with an answer in a file in SQuAD's format, without duplicates.
Words are compared by the cosine of their TF-IDF vectors, and "both" adds the two cosines. A model's
vectors are the means of its states, unless a sentence-transformers folder defines another pooling.
Prints a Markdown row for each way: the share of questions whose sentence ranks first, the mean of
1 / rank, and the seconds of processor time to load the model and compute the vectors.
"""

import argparse
import json
import time
from functools import partial
from pathlib import Path

import numpy as np
import sentencex
from sklearn.feature_extraction.text import TfidfVectorizer

# What models expect before a question and before a sentence, keyed by the name of their folder.
PREFIXES = {"multilingual-e5-small": ("query: ", "passage: ")}


def pairs(path, language="en"):
    """Returns the questions, the sentences, and the index of each question's sentence."""
    questions, numbers, of = [], {}, []
    articles = json.loads(path.read_text("utf-8"))["data"]
    for paragraph in (each for article in articles for each in article["paragraphs"]):
        context = paragraph["context"]
        for asked in paragraph["qas"]:
            start = asked["answers"][0]["answer_start"]
            questions.append(asked["question"])
            of.append(numbers.setdefault(sentence_at(context, start, language), len(numbers)))
    return questions, list(numbers), np.array(of)


def sentence_at(text, position, language="en"):
    """Returns the sentence that contains a character."""
    start = 0
    for sentence in sentencex.segment(language, text):
        start = text.index(sentence, start)
        if position < start + len(sentence):
            break
        start += len(sentence)
    return sentence


def scores(similarities, of):
    """Returns the accuracy and the mean reciprocal rank.

    Args:
        similarities: float `[questions, sentences]`.
        of: int `[questions]`, index of each question's sentence.
    """
    own = similarities[np.arange(len(of)), of][:, None]
    ranks = 1 + (similarities > own).sum(axis=1)
    return float(np.mean(ranks == 1)), float(np.mean(1 / ranks))


def by_words(questions, sentences):
    vectorizer = TfidfVectorizer(sublinear_tf=True).fit(sentences)
    return (vectorizer.transform(questions) @ vectorizer.transform(sentences).T).toarray()


def vectors(model, texts):
    """Returns a model's vectors, normalized to length 1: float32 `[N, D]`."""
    from albert_tf.pipelines import pipeline

    embed = pipeline("feature-extraction", model, return_tensors=True, batch_size=64)
    choices = {} if embed.embedding(embed.options) else {"pooling": "mean"}
    return np.stack(embed(texts, truncation=True, normalize=True, **choices))


def encoder_vectors(folder, texts):
    """Returns a transformers encoder's vectors: normalized means of its last hidden states."""
    import torch
    from transformers import AutoModel, AutoTokenizer

    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder)
    found = np.empty((len(texts), model.config.hidden_size), np.float32)
    by_length = np.argsort([len(text) for text in texts], kind="stable")
    for rows in np.array_split(by_length, len(texts) // 64 + 1):
        batch = tokenizer(
            [texts[row] for row in rows], padding=True, truncation=True, return_tensors="pt"
        )
        with torch.inference_mode():
            states = model(**batch).last_hidden_state
        sums = (states * batch["attention_mask"][..., None]).sum(1)
        found[rows] = torch.nn.functional.normalize(sums, dim=-1).numpy()
    return found


def parsed(parser):
    """Parses the command line, including the options that name models."""
    parser.add_argument("--model", action="append", default=[], help="can be repeated")
    parser.add_argument(
        "--encoder",
        action="append",
        default=[],
        help="folder of a transformers encoder; requires torch",
    )
    return parser.parse_args()


def encoders(options):
    """Returns the functions from texts to vectors, keyed by name."""
    return {name: partial(vectors, name) for name in options.model} | {
        Path(folder).name: partial(encoder_vectors, folder) for folder in options.encoder
    }


def by_vectors(make, questions, sentences):
    found = make([*questions, *sentences])
    return found[: len(questions)] @ found[len(questions) :].T


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--squad", type=Path, required=True, help="a file in SQuAD's format")
    parser.add_argument("--language", default="en", help="language code for splitting sentences")
    options = parsed(parser)
    questions, sentences, of = pairs(options.squad, options.language)
    print(f"{len(questions):,} questions, {len(sentences):,} sentences\n")
    print("| ways | accuracy | mean of 1 / rank | processor s |\n|---|---:|---:|---:|")

    def show(name, similarities, seconds=""):
        accuracy, rank = scores(similarities, of)
        print(f"| {name} | {accuracy:.3f} | {rank:.3f} | {seconds} |", flush=True)

    words = by_words(questions, sentences)
    show("TF-IDF", words)
    for name, make in encoders(options).items():
        start = time.process_time()
        first, second = PREFIXES.get(Path(name).name, ("", ""))
        asked = [first + question for question in questions]
        meaning = by_vectors(make, asked, [second + sentence for sentence in sentences])
        show(name, meaning, f"{time.process_time() - start:.0f}")
        show(f"TF-IDF + {name}", words + meaning)


if __name__ == "__main__":
    main()
