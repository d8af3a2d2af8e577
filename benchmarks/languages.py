"""Runs build-vocab on other languages, with LibreOffice's help pages (MPL 2.0).

    for language in de el en-us fr hi ja km ko ru tr vi zh-cn; do
      apt-get download libreoffice-help-$language && dpkg -x libreoffice-help-${language}_*.deb help
    done
    python -m benchmarks.languages help/usr/share/libreoffice/help --output build/languages

Writes the text of each language to a file, runs the command on it with only the language set, and
shows how many words dropping accents would merge, whether the command dropped them, and the share
of tokens in scripts without spaces. Takes a few minutes on two cores.
"""

import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

from albert_tf.text.scripts import is_unspaced
from albert_tf.text.tokenizer import AlbertTokenizer
from benchmarks import harness

ACCENTS = re.compile("accents  (kept|dropped).*? changes (.*%) of the words and merges (.*%.*)")
TEXT = {"p", "h1", "h2", "h3", "h4"}


class Paragraphs(HTMLParser):
    """Collects the paragraphs of a page."""

    def __init__(self):
        super().__init__()
        self.found, self.depth = [], 0

    def handle_starttag(self, tag, attributes):
        if tag in TEXT:
            self.depth += 1
            self.found.append("")

    def handle_endtag(self, tag):
        self.depth -= tag in TEXT

    def handle_data(self, data):
        if self.depth:
            self.found[-1] += data


def corpus(folder, path):
    """Writes the paragraphs of a language's pages, without duplicates."""
    seen = {}
    for page in sorted(folder.rglob("*.html")):
        parser = Paragraphs()
        parser.feed(page.read_text("utf-8"))
        seen |= dict.fromkeys(" ".join(each.split()) for each in parser.found)
    path.write_text("\n\n".join(each for each in seen if len(each) > 40), "utf-8")


def albert_tf(*arguments):
    command = [sys.executable, "-m", "albert_tf.cli", *map(str, arguments)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def row(language, output, vocab_size):
    text, vocab = output / f"{language}.txt", output / f"{language}.model"
    given = ("--input", text, "--language", language.lower(), "--force")
    made = albert_tf("build-vocab", *given, "--vocab-size", vocab_size, "--output", vocab)
    accents, changes, merges = ACCENTS.search(made).groups()
    tokenizer = AlbertTokenizer(vocab)
    tokens = tokenizer.convert_ids_to_tokens(range(tokenizer.vocab_size))
    unspaced = sum(is_unspaced((token.lstrip("▁") or "_")[0]) for token in tokens) / len(tokens)
    size = f"{text.stat().st_size / 1e6:.1f}"
    return [language, size, changes, merges, accents, f"{unspaced:.0%}"]


def main():
    parser = harness.parser(__doc__, rounds=1)
    parser.add_argument("help", type=Path, help="folder with a subfolder per language")
    parser.add_argument("--output", type=Path, default=Path("build/languages"))
    parser.add_argument("--vocab-size", type=int, default=8000)
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    heads = ["language", "MB", "words with an accent", "merged without", "accents by default"]
    heads += ["tokens of scripts without spaces"]
    rows = []
    for folder in sorted(path for path in options.help.iterdir() if (path / "text").is_dir()):
        corpus(folder, options.output / f"{folder.name}.txt")
        rows.append(row(folder.name, options.output, options.vocab_size))
        print(*rows[-1], file=sys.stderr, flush=True)
    table = harness.table(heads, rows, len(heads))
    harness.report(options, ("sentencepiece",), [table], rows)


if __name__ == "__main__":
    main()
