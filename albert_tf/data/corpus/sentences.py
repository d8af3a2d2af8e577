"""Splits documents into sentences, by a splitter that can be replaced.

The default is sentencex of the Wikimedia Foundation: made for the languages of Wikipedia,
maintained, without dependencies, and the fastest of those tried on two English novels (MB/s on one
core of a 2-core server: sentencex 50, ICU 20, blingfire 7, nupunkt 5, syntok 0.5).
"""

import functools
import importlib
from collections.abc import Callable

from albert_tf.data.corpus.documents import SENTENCEX, CorpusOptions, Document
from albert_tf.errors import UserError

SplitSentences = Callable[[str], list[str]]


def sentence_splitter(splitter: str | SplitSentences, language: str) -> SplitSentences:
    """Returns the function that splits a paragraph into sentences.

    Args:
        splitter: "sentencex"; "module:function", which is imported and called with a paragraph;
            or such a function. Only a name can be sent to another process and recorded.
        language: for sentencex, which splits an unknown language as a related one, at last as
            English.
    Raises:
        UserError: no such name.
    """
    if callable(splitter):
        return splitter
    if splitter == SENTENCEX:
        import sentencex

        return functools.partial(sentencex.segment, language)
    return _checked(splitter, _imported(splitter))


def sentences(document: Document, options: CorpusOptions, split: SplitSentences) -> list[str]:
    """Returns the sentences of a document, stripped of white space, without empty ones."""
    lines = document.text.decode().split("\n")
    if options.lines == "sentences":
        unstripped = lines
    else:
        unstripped = [sentence for line in lines for sentence in split(line)]
    return [stripped for sentence in unstripped if (stripped := sentence.strip())]


def _imported(name: str) -> SplitSentences:
    module, _, function = name.partition(":")
    try:
        split = functools.reduce(getattr, function.split("."), importlib.import_module(module))
        if not callable(split):
            raise TypeError(f"it is of type {type(split).__name__}")
    except Exception as error:  # The module may fail in any way as it is imported.
        raise UserError(
            f"A sentence splitter is {SENTENCEX!r}, or 'module:function' of a module that Python "
            f"finds. Received: {name!r}: {error}."
        ) from error
    return split


def _checked(name: str, split: SplitSentences) -> SplitSentences:
    """Returns a splitter whose mistakes are errors; a first sentence shows most of them."""

    def checked(paragraph: str) -> list[str]:
        try:
            result = split(paragraph)
            if isinstance(result, str):
                raise TypeError("it returned a string")
            sentences = list(result)
            if not all(isinstance(sentence, str) for sentence in sentences):
                raise TypeError("it returned something else than strings")
        except Exception as error:
            raise UserError(
                "A sentence splitter must be a function from a string to a list of strings. "
                f"Received: {name!r}, which failed: {type(error).__name__}: {error}."
            ) from error
        return sentences

    checked("A boat left. It was calm.")
    return checked
