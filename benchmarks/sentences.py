"""Collects English sentences from books and from Debian's documentation packages.

    mkdir packages && cd packages && apt-get download dict-foldoc …   # the packages in SOURCES
    python -m benchmarks.sentences --books books --packages packages --output sentences.txt

Writes one sentence per line, without duplicates, and an empty line between documents, which are
chapters of books and paragraphs of everything else. Omits the last chapter of each book, like
`small_model`. Packages are `.deb` files; `apt-get -o Acquire::Languages=en update` fetches the
descriptions of all packages. Documents are shuffled with a seed. albert_tf/assets/small/README.md
lists the licenses of the sources.
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
WORDS = (3, 60)  # minimum and maximum number of words in a sentence
LENGTHS = (12, 400)  # minimum and maximum number of characters in a sentence
LETTERS = 0.85  # smallest share of ASCII letters and spaces in a paragraph of prose
SENTENCE_END = re.compile(r"(?<=[.!?])[\"'”’)]*\s+(?=[\"'“‘(]?[A-Z])")


class Prose(html.parser.HTMLParser):
    """Collects the paragraphs of an HTML or Mallard page, without code and tables."""

    BLOCKS = frozenset(
        "p li dd dt h1 h2 h3 h4 title div section summary note item".split()  # noqa: SIM905
    )
    SKIPPED = frozenset("script style pre head screen nav footer table".split())  # noqa: SIM905

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


def plain(path):
    """Returns the paragraphs between empty lines, without lines of code or markup."""
    text = re.sub(r"\[\[\w+ (\w+)\]\]|[A-Z]<+([^<>]*)>+", r"\1\2", read(path))
    paragraphs = re.split(r"\n\s*\n|\n(?=[%=:]|[A-Z_0-9]+\n)", text)
    return [part for part in paragraphs if not re.search(r"^(    |\t)|[{}<>|]", part)]


def quoted(path):
    """Returns the longer strings of a game's scripts."""
    found = re.findall(r'"([^"]{20,})"|`([^`]{20,})`|\[\[(.{20,}?)\]\]', read(path), re.DOTALL)
    return [re.sub(r"<[^>]*>|\$\w+|%\w", "it", "".join(strings)) for strings in found]


def wordnet(path):
    """Yields definitions, with and without the words they define, and examples."""
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
    """Yields the senses in a dictionary for dictd."""
    notes = r"\[1913 Webster[^\]]*\]|\[Webster 1913[^\]]*\]|\[PJC\]|\[WordNet[^\]]*\]"
    text = re.sub(rf"{notes}|--[A-Z][\w. ]+|[{{}}]", "", read(path))
    for paragraph in re.split(r"\n\s*\n", text):
        for sense in re.split(r"\n\s*(?=\d+\. |\([a-z]\) )", paragraph):
            sense = re.sub(r"^\s*(\d+\.|\([a-z]\))\s*", "", sense)
            yield re.sub(r"^.*\\.*?\\,?.*\n", "", sense)


def fortunes(path):
    for entry in read(path).split("\n%\n"):
        yield re.sub(r"\n\s+-- .*", "", entry, flags=re.DOTALL)  # without the author


def manual(path):
    text = re.sub(r"\\-", "-", read(path))
    text = re.sub(r"\\f.|\\&|\\\(..|\\\[[^\]]*\]", "", text)
    return [part for part in re.split(r"\n(?=[.'])[^\n]*", text) if "\\" not in part]


def descriptions(path):
    """Yields the paragraphs of the package descriptions."""
    text = subprocess.run(["lz4", "-dc", path], capture_output=True, check=True).stdout.decode()
    for summary, more in re.findall(r"Description-en: (.*)\n((?: .*\n)*)", text):
        yield summary
        yield from (
            part for part in more.split("\n .\n") if not re.search("^  ", part, re.MULTILINE)
        )


def book(path):
    """Returns all chapters except the last one, each as one paragraph."""
    return read(path).strip().split("\n\n")[:-1]


class Source(NamedTuple):
    """A source of sentences.

    Attributes:
        files: glob pattern below the extracted package, the books, or the root folder.
        paragraphs: function that reads a file's paragraphs.
        count: maximum number of sentences to take.
    """

    files: str
    paragraphs: object
    count: int


BOOKS, LISTS = "books", "var/lib/apt/lists"
SOURCES = {
    BOOKS: Source("*.txt*", book, 1_000_000),
    "wordnet-base": Source("**/data.*", wordnet, 300_000),
    LISTS: Source("*_main_*Translation-en.lz4", descriptions, 150_000),
    "dict-gcide": Source("**/*.dz", dictionary, 120_000),
    "anarchism": Source("**/*.html", pages, 60_000),
    "wesnoth-1.16-data": Source("**/*.cfg", quoted, 60_000),
    "fortunes": Source("**/*.u8", fortunes, 60_000),
    "openjdk-17-doc": Source("**/java.base/**/*.html", pages, 40_000),
    "endless-sky-data": Source("**/data/**/*.txt", quoted, 40_000),
    "dict-foldoc": Source("**/*.dz", dictionary, 40_000),
    "perl-doc": Source("**/*.pod", plain, 40_000),
    "postgresql-doc-15": Source("**/*.html", pages, 40_000),
    "python3.11-doc": Source("**/*.html", pages, 30_000),
    "python-django-doc": Source("**/*.html", pages, 30_000),
    "naev-data": Source("**/*.lua", quoted, 30_000),
    "widelands-data": Source("**/*.lua", quoted, 30_000),
    "freedroidrpg-data": Source("**/*.lua", quoted, 30_000),
    "stellarium-data": Source("**/*.en.utf8", pages, 20_000),
    "erlang-doc": Source("**/*.html", pages, 20_000),
    "apache2-doc": Source("**/*.html.en", pages, 20_000),
    "linux-doc-6.12": Source("**/admin-guide/**/*.html", pages, 20_000),
    "gimp-help-en": Source("**/*.html", pages, 20_000),
    "debian-handbook": Source("**/en-US/*.html", pages, 20_000),
    "dict-jargon": Source("**/*.dz", dictionary, 20_000),
    "freeorion-data": Source("**/stringtables/en.txt", plain, 20_000),
    "crawl-common": Source("**/dat/d[ae]*/*.txt", plain, 20_000),
    "gnucash-docs": Source("**/C/**/*.xml", pages, 20_000),
    "libreoffice-help-en-us": Source("**/*.html", pages, 20_000),
    "manpages": Source("**/man?/*.gz", manual, 15_000),
    "manpages-dev": Source("**/man?/*.gz", manual, 15_000),
    "gnome-user-docs": Source("**/C/**/*.page", pages, 15_000),
    "octave-doc": Source("**/*.html", pages, 15_000),
    "r-doc-html": Source("**/*.html", pages, 15_000),
    "git-doc": Source("**/*.html", pages, 15_000),
    "sqlite3-doc": Source("**/*.html", pages, 15_000),
    "vim-doc": Source("**/*.html", pages, 15_000),
    "debian-policy": Source("**/*.html", pages, 10_000),
    "debian-reference-en": Source("**/*.html", pages, 10_000),
    "developers-reference": Source("**/*.html", pages, 10_000),
    "installation-guide-amd64": Source("**/en/*.html", pages, 10_000),
}
LEFT_OUT = {"ethnic", "men-women", "drugs", "ascii-art", "translate-me"}  # files of fortunes


def is_prose(paragraph):
    letters = sum((letter.isascii() and letter.isalpha()) or letter == " " for letter in paragraph)
    return len(paragraph) >= 15 and letters >= LETTERS * len(paragraph)


def sentences(paragraph):
    return [
        sentence
        for sentence in SENTENCE_END.split(paragraph)
        if WORDS[0] <= len(sentence.split()) <= WORDS[1]
        and LENGTHS[0] <= len(sentence) <= LENGTHS[1]
    ]


def collect(folders, rng):
    """Returns documents, which are lists of sentences, without duplicate sentences.

    Args:
        folders: iterable of each source's name and the folder with its files.
    """
    seen, documents = set(), []  # in lower case, as the tokenizer reads them
    for name, folder in folders:
        files, paragraphs, count = SOURCES[name]
        paths = [path for path in sorted(folder.glob(files)) if path.is_file()]
        texts = {
            " ".join(text.split())
            for path in paths
            if path.stem not in LEFT_OUT
            for text in paragraphs(path)
        }
        texts = sorted(text for text in texts if is_prose(text))
        rng.shuffle(texts)
        before = len(seen)
        for text in texts:
            if len(seen) - before >= count:
                break
            document = []
            for sentence in sentences(text):
                if sentence.lower() not in seen:
                    seen.add(sentence.lower())
                    document.append(sentence)
            if document:
                documents.append(document)
        print(name, len(seen) - before, flush=True)
    return documents


def folders(books, packages):
    """Yields each source's name and folder. A package is extracted only while it is read."""
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
    documents = collect(folders(options.books, options.packages), rng)
    rng.shuffle(documents)
    text = "\n\n".join("\n".join(document) for document in documents)
    options.output.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
