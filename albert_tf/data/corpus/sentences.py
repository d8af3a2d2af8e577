"""Splits documents into sentences.

The default sentence splitter is the Wikimedia Foundation's sentencex. It supports the languages of
Wikipedia, is maintained, and has no dependencies. It was the fastest splitter in our test on two
English novels (in MB/s on one core of a 2-core server: sentencex 50, ICU 20, blingfire 7, nupunkt
5, syntok 0.5).
"""

import functools
import importlib
from collections.abc import Callable

from albert_tf.data.corpus.documents import Document
from albert_tf.data.corpus.options import SENTENCEX, CorpusOptions
from albert_tf.errors import UserError

SplitSentences = Callable[[str], list[str]]


def sentence_splitter(name: str, options: CorpusOptions) -> Callable[[Document], list[str]]:
    """Returns a function that splits a document into sentences, stripped of whitespace.

    For an unknown language, sentencex falls back to a related one, and finally to English.

    Args:
        name: "sentencex", or "module:function" for a function that splits a paragraph.
        options: `lines` and `language` are used; the language is for sentencex.
    Raises:
        UserError: the function can't be imported, or fails.
    """
    if name == SENTENCEX:
        import sentencex

        split: SplitSentences = functools.partial(sentencex.segment, options.language)
    else:
        split = _check_results(name, _import_splitter(name))

    def sentences(document: Document) -> list[str]:
        found = document.text.decode().split("\n")
        if options.lines == "paragraphs":
            found = [sentence for paragraph in found for sentence in split(paragraph)]
        return [stripped for sentence in found if (stripped := sentence.strip())]

    return sentences


def _import_splitter(name: str) -> SplitSentences:
    module, _, function = name.partition(":")
    try:
        split = functools.reduce(getattr, function.split("."), importlib.import_module(module))
        if not callable(split):
            raise TypeError(f"it is a {type(split).__name__}, not a function")
    except Exception as error:  # importing the module may raise anything
        raise UserError(
            f"sentence_splitter must be {SENTENCEX!r} or an importable 'module:function'. "
            f"Received: {name!r}: {error}."
        ) from error
    return split


def _check_results(name: str, split: SplitSentences) -> SplitSentences:
    """Wraps a splitter so that a failure or an invalid result raises a `UserError`.

    Calls the splitter once, to reveal most mistakes before the corpus is read.
    """

    def checked_split(paragraph: str) -> list[str]:
        try:
            result = split(paragraph)
            if isinstance(result, str):
                raise TypeError("it returned a string")
            sentences = list(result)
            if not all(isinstance(sentence, str) for sentence in sentences):
                raise TypeError("it returned items that are not strings")
        except Exception as error:
            raise UserError(
                "The sentence splitter must be a function that takes a string and returns a list "
                f"of strings. Received: {name!r}, which failed: {type(error).__name__}: {error}."
            ) from error
        return sentences

    checked_split("A boat left. It was calm.")
    return checked_split
