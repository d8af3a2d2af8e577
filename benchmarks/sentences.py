"""Collects English sentences and clauses from books and from Debian's packages of documents.

    mkdir packages && cd packages && apt-get download dict-foldoc …   # the packages of SOURCES
    python -m benchmarks.sentences --books books --packages packages --output sentences.txt

The books are those of `small_model`: the last chapter of each is left out. Packages are `.deb`
files; `apt-get -o Acquire::Languages=en update` fetches the descriptions of all packages. A long
sentence is replaced by up to two of its clauses half of the time, so that short texts are learned
too. The output has each once, in an order that a seed decides, from each source up to its number.
"""

import argparse
import gzip
import html.parser
import random
import re
import subprocess
import tempfile
from pathlib import Path
from typing import NamedTuple

SEED = 7
WORDS, CLAUSE_WORDS, LONG = (3, 45), (3, 25), 12
LETTERS = 0.85  # smallest share of letters and spaces in a paragraph of prose
SENTENCE_END = re.compile(r"(?<=[.!?])[\"'”’)]*\s+(?=[\"'“‘(]?[A-Z])")
CLAUSE_END = re.compile(
    r"(?<=[,;:—])\s*|\s+(?=and |but |because |which |that |if |when |while )|--+|—"
)


class Prose(html.parser.HTMLParser):
    """The paragraphs of a page of HTML or Mallard, without code and tables."""

    BLOCKS = frozenset(
        [
            "p",
            "li",
            "dd",
            "dt",
            "h1",
            "h2",
            "h3",
            "h4",
            "title",
            "div",
            "section",
            "summary",
            "note",
            "item",
        ]
    )
    SKIPPED = frozenset(["script", "style", "pre", "head", "screen", "nav", "footer", "table"])

    def __init__(self):
        super().__init__()
        self.paragraphs, self.depth = [""], 0

    def handle_starttag(self, tag, attributes):
        self.depth += tag in self.SKIPPED
        if tag in self.BLOCKS:
            self.paragraphs.append("")

    def handle_endtag(self, tag):
        self.depth = max(0, self.depth - (tag in self.SKIPPED))
        if tag in self.BLOCKS:
            self.paragraphs.append("")

    def handle_data(self, data):
        if not self.depth:
            self.paragraphs[-1] += data


def read(path):
    opened = gzip.open if path.suffix in (".gz", ".dz") else open
    with opened(path, "rb") as file:
        return file.read().decode("utf-8", "replace")


def pages(path):
    parser = Prose()
    parser.feed(read(path))
    return [paragraph.rstrip("¶") for paragraph in parser.paragraphs if len(paragraph) > 30]


def wordnet(path):
    """Yields definitions, with and without their words, and examples."""
    for line in read(path).splitlines():
        data, bar, gloss = line.partition("|")
        if line.startswith(" ") or not bar:
            continue
        fields = data.split()
        words = [re.sub(r"\(.*\)", "", word) for word in fields[4 : 4 + 2 * int(fields[3], 16) : 2]]
        definition = re.split(r';\s*"', gloss.strip())[0]
        yield f"{', '.join(words).replace('_', ' ')}: {definition}"
        yield definition
        yield from re.findall(r'"([^"]{15,})"', gloss)


def dictionary(path):
    """Yields the senses of a dictionary for dictd."""
    notes = r"\[1913 Webster[^\]]*\]|\[Webster 1913[^\]]*\]|\[PJC\]|\[WordNet[^\]]*\]"
    text = re.sub(rf"{notes}|--[A-Z][\w. ]+|[{{}}]", "", read(path))
    for paragraph in re.split(r"\n\s*\n", text):
        for sense in re.split(r"\n\s*(?=\d+\. |\([a-z]\) )", paragraph):
            sense = re.sub(r"^\s*(\d+\.|\([a-z]\))\s*", "", sense)
            yield re.sub(r"^.*\\.*?\\,?.*\n", "", sense)


def fortunes(path):
    for entry in read(path).split("\n%\n"):
        yield re.sub(r"\n\s+-- .*", "", entry, flags=re.DOTALL)  # whose words they are


def game(path):
    for spoken, described in re.findall(r'`([^`]{20,})`|description "([^"]{20,})"', read(path)):
        yield re.sub(r"<[^>]*>", "it", spoken or described)


def manual(path):
    text = re.sub(r"\\-", "-", read(path))
    text = re.sub(r"\\f.|\\&|\\\(..|\\\[[^\]]*\]", "", text)
    return [part for part in re.split(r"\n(?=[.'])[^\n]*", text) if "\\" not in part]


def descriptions(path):
    """Yields the paragraphs of the descriptions of packages."""
    text = subprocess.run(["lz4", "-dc", path], capture_output=True, check=True).stdout.decode()
    for summary, more in re.findall(r"Description-en: (.*)\n((?: .*\n)*)", text):
        yield summary
        yield from (
            part for part in more.split("\n .\n") if not re.search("^  ", part, re.MULTILINE)
        )


def book(path):
    for chapter in read(path).strip().split("\n\n")[:-1]:
        yield from chapter.split("\n")


class Source(NamedTuple):
    """A kind of text that sentences are taken from.

    Attributes:
        files: glob below the extracted package, the books or the root folder.
        paragraphs: reads those of a file.
        count: of sentences and clauses that are taken at most.
        licence: of the text.
    """

    files: str
    paragraphs: object
    count: int
    licence: str


BOOKS, LISTS = "books", "var/lib/apt/lists"
SOURCES = {
    BOOKS: Source("*.txt*", book, 150_000, "public domain, editions CC0 1.0"),
    "wordnet-base": Source("**/data.*", wordnet, 90_000, "WordNet 3.0's"),
    LISTS: Source("*_main_*Translation-en.lz4", descriptions, 35_000, "each package's own, free"),
    "dict-gcide": Source("**/*.dz", dictionary, 35_000, "GPL 2"),
    "fortunes": Source("**/*.u8", fortunes, 25_000, "quotations; collection BSD"),
    "endless-sky-data": Source("**/data/**/*.txt", game, 12_000, "GPL 3"),
    "dict-foldoc": Source("**/*.dz", dictionary, 10_000, "GFDL 1.2"),
    "python3.11-doc": Source("**/*.html", pages, 9_000, "PSF 2"),
    "debian-handbook": Source("**/en-US/*.html", pages, 9_000, "GPL 2, CC BY-SA 3.0"),
    "dict-jargon": Source("**/*.dz", dictionary, 8_000, "public domain"),
    "manpages": Source("**/man?/*.gz", manual, 4_000, "each page's own, free"),
    "manpages-dev": Source("**/man?/*.gz", manual, 4_000, "each page's own, free"),
    "libreoffice-help-en-us": Source("**/*.html", pages, 6_000, "MPL 2.0"),
    "gimp-help-en": Source("**/*.html", pages, 5_000, "GFDL 1.2"),
    "gnome-user-docs": Source("**/C/**/*.page", pages, 3_000, "CC BY-SA 3.0"),
    "git-doc": Source("**/*.html", pages, 3_000, "GPL 2"),
    "sqlite3-doc": Source("**/*.html", pages, 3_000, "public domain"),
    "linux-doc-6.12": Source("**/admin-guide/**/*.html", pages, 3_000, "GPL 2"),
}
LEFT_OUT = {"ethnic", "men-women", "drugs", "ascii-art", "translate-me"}  # of the fortunes


def units(paragraph, rng):
    """Yields the sentences of a paragraph, or clauses of them."""
    for sentence in SENTENCE_END.split(paragraph):
        count = len(sentence.split())
        if count > LONG and rng.random() < 0.5:
            clauses = [part for part in CLAUSE_END.split(sentence) if part]
            fitting = [
                part for part in clauses if CLAUSE_WORDS[0] <= len(part.split()) <= CLAUSE_WORDS[1]
            ]
            if fitting:
                for part in rng.sample(fitting, min(2, len(fitting))):
                    yield part.strip(" ,;:—-")
                continue
        if WORDS[0] <= count <= WORDS[1]:
            yield sentence


def is_prose(paragraph):
    letters = sum(letter.isalpha() or letter == " " for letter in paragraph)
    return len(paragraph) >= 15 and letters >= LETTERS * len(paragraph)


def collect(folders, rng):
    """Returns the units of all sources.

    Args:
        folders: yields each source's name and the folder of its files.
    """
    found = {}  # lower case, as the tokenizer reads it
    for name, folder in folders:
        files, paragraphs, count, _ = SOURCES[name]
        paths = [path for path in sorted(folder.glob(files)) if path.is_file()]
        texts = {
            " ".join(text.split())
            for path in paths
            if path.stem not in LEFT_OUT
            for text in paragraphs(path)
        }
        texts = sorted(text for text in texts if is_prose(text))
        rng.shuffle(texts)
        before = len(found)
        for text in texts:
            if len(found) - before >= count:
                break
            for unit in units(text, rng):
                if 12 <= len(unit) <= 300:
                    found.setdefault(unit.lower(), unit)
        print(name, len(found) - before, flush=True)
    return list(found.values())


def folders(books, packages):
    """Yields the name and folder of each source; packages are extracted while they are read."""
    for name in SOURCES:
        if name in (BOOKS, LISTS):
            yield name, books if name == BOOKS else Path("/", LISTS)
            continue
        with tempfile.TemporaryDirectory() as folder:
            (package,) = packages.glob(f"{name}_*.deb")
            subprocess.run(["dpkg", "-x", package, folder], check=True)
            yield name, Path(folder)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--books", type=Path, required=True)
    parser.add_argument("--packages", type=Path, required=True)
    parser.add_argument("--output", type=Path, default=Path("sentences.txt"))
    options = parser.parse_args()
    rng = random.Random(SEED)
    sentences = collect(folders(options.books, options.packages), rng)
    rng.shuffle(sentences)
    options.output.write_text("\n".join(sentences) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
