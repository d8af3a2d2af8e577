"""Questions look for the sentence with their answer, by vectors of models and by TF-IDF.

    python -m benchmarks.search --squad xquad.en.json --model small --model my-sentence-model

The candidates are the sentences of all answers in a file of SQuAD's format. A model's vectors are
the means of its states, or what its folder of sentence-transformers says. Prints a row of Markdown
for each: the share of questions whose sentence is first, and the mean of 1 / rank. Sentences that
hold the answers of several questions are candidates once.
"""

import argparse
import json
from pathlib import Path

import numpy as np
import sentencex
from sklearn.feature_extraction.text import TfidfVectorizer


def pairs(path):
    """Returns the questions, the sentences and the number of each question's sentence."""
    questions, numbers, of = [], {}, []
    articles = json.loads(path.read_text("utf-8"))["data"]
    for paragraph in (each for article in articles for each in article["paragraphs"]):
        context = paragraph["context"]
        for asked in paragraph["qas"]:
            start = asked["answers"][0]["answer_start"]
            questions.append(asked["question"])
            of.append(numbers.setdefault(sentence_at(context, start), len(numbers)))
    return questions, list(numbers), np.array(of)


def sentence_at(text, position):
    """Returns the sentence in which a character is."""
    start = 0
    for sentence in sentencex.segment("en", text):
        start = text.index(sentence, start)
        if position < start + len(sentence):
            break
        start += len(sentence)
    return sentence


def scores(similarities, of):
    """Returns the accuracy and the mean reciprocal rank.

    Args:
        similarities: float `[questions, sentences]`.
        of: int `[questions]`, each one's sentence.
    """
    own = similarities[np.arange(len(of)), of][:, None]
    ranks = 1 + (similarities > own).sum(axis=1)
    return float(np.mean(ranks == 1)), float(np.mean(1 / ranks))


def by_words(questions, sentences):
    vectorizer = TfidfVectorizer(sublinear_tf=True).fit(sentences)
    return (vectorizer.transform(questions) @ vectorizer.transform(sentences).T).toarray()


def by_vectors(model, questions, sentences):
    from albert_tf.pipelines import pipeline

    embed = pipeline("feature-extraction", model, return_tensors=True, batch_size=64)
    choices = {} if embed.embedding(embed.options) else {"pooling": "mean"}
    texts = [*questions, *sentences]
    vectors = np.stack(embed(texts, truncation=True, normalize=True, **choices))
    return vectors[: len(questions)] @ vectors[len(questions) :].T


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--squad", type=Path, required=True, help="a file in SQuAD's format")
    parser.add_argument("--model", action="append", default=[], help="may be given several times")
    options = parser.parse_args()
    questions, sentences, of = pairs(options.squad)
    print(f"{len(questions):,} questions, {len(sentences):,} sentences\n")
    print("| vectors | accuracy | mean of 1 / rank |\n|---|---:|---:|")
    for name in ("TF-IDF", *options.model):
        found = (
            by_words(questions, sentences)
            if name == "TF-IDF"
            else by_vectors(name, questions, sentences)
        )
        accuracy, rank = scores(found, of)
        print(f"| {name} | {accuracy:.3f} | {rank:.3f} |", flush=True)


if __name__ == "__main__":
    main()
