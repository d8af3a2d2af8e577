"""Creates two tasks from books: multiple choice, and multi-label classification.

    python -m benchmarks.tasks_from_books --books books --output tasks

Each book is a `.txt` or `.txt.gz` file with one paragraph per line and a blank line between
chapters. Examples for dev come from the last chapter of each, those for training from the others.

choices: which of four beginnings continues a paragraph: that of the book's next paragraph, or one
    of three from other books.
labels: the country, century, and kind of a paragraph's book, according to the table in this file.
    Every text has three of twelve labels.
"""

import argparse
import gzip
import json
import random
from pathlib import Path

# Prefixes of the file names, with the labels of the books. America is the continent.
LABELS = {
    "adam-smith": "Britain 18th nonfiction",
    "agatha-christie": "Britain 20th mystery",
    "alexandre-dumas": "France 19th novel",
    "anthony-trollope": "Britain 19th novel",
    "arthur-conan-doyle": "Britain 19th mystery",
    "bram-stoker": "Britain 19th horror",
    "charles-darwin": "Britain 19th nonfiction",
    "charles-dickens": "Britain 19th novel",
    "charlotte-bronte": "Britain 19th novel",
    "d-h-lawrence": "Britain 20th novel",
    "edward-gibbon": "Britain 18th nonfiction",
    "f-scott-fitzgerald": "America 20th novel",
    "fyodor-dostoevsky": "Russia 19th novel",
    "g-k-chesterton": "Britain 20th mystery",
    "george-eliot": "Britain 19th novel",
    "henry-david-thoreau": "America 19th nonfiction",
    "herman-melville": "America 19th novel",
    "jack-london": "America 20th novel",
    "jane-austen": "Britain 19th novel",
    "l-m-montgomery": "America 20th novel",
    "leo-tolstoy": "Russia 19th novel",
    "louisa-may-alcott": "America 19th novel",
    "mark-twain": "America 19th novel",
    "mary-shelley": "Britain 19th horror",
    "robert-louis-stevenson": "Britain 19th novel",
    "rudyard-kipling": "Britain 20th novel",
    "samuel-pepys": "Britain 17th nonfiction",
    "sinclair-lewis": "America 20th novel",
    "upton-sinclair": "America 20th novel",
    "victor-hugo": "France 19th novel",
    "wilkie-collins": "Britain 19th mystery",
    "william-james": "America 20th nonfiction",
    "william-makepeace-thackeray": "Britain 19th novel",
}
CHOICES = 4
# Limits in characters, so low that truncation doesn't reveal the right choice.
CONTEXT, CHOICE, TEXT = 150, 80, 300


def chapters(book):
    """Returns lists of paragraphs with at least `CHOICE` characters."""
    opened = gzip.open if book.suffix == ".gz" else open
    with opened(book, "rt", encoding="utf-8") as file:
        parts = file.read().split("\n\n")
    found = ([line for line in part.splitlines() if len(line) >= CHOICE] for part in parts)
    return [chapter for chapter in found if len(chapter) > 1]


def choices(chapter, others, generator):
    """Returns a multiple-choice example, with one wrong choice from each of `others`."""
    place = generator.randrange(len(chapter) - 1)
    right = chapter[place + 1][:CHOICE]
    shown = [right, *(generator.choice(other)[:CHOICE] for other in others)]
    generator.shuffle(shown)
    return {
        "context": chapter[place][-CONTEXT:],
        "choices": shown,
        "label": shown.index(right),
    }


def labels(chapter, generator, names):
    """Returns a paragraph with the labels of its book."""
    return {"text": generator.choice(chapter)[:TEXT], "label": names}


def write(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), "utf-8")
    print(path, len(rows))


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--books", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--train", type=int, default=800, help="number of examples per task")
    parser.add_argument("--dev", type=int, default=400)
    options = parser.parse_args()
    generator = random.Random(1)
    named = {
        book: LABELS[name]
        for book in sorted(options.books.glob("*.txt*"))
        for name in LABELS
        if book.name.startswith(name)
    }
    read = {book: chapters(book) for book in named}
    parts = {
        "train": (options.train, {book: found[:-1] for book, found in read.items()}),
        "dev": (options.dev, {book: found[-1:] for book, found in read.items()}),
    }
    for part, (count, books) in parts.items():
        rows = {"choices": [], "labels": []}
        for book, found in books.items():
            drawn = generator.choices(found, k=round(count / len(books)))
            for chapter in drawn:
                others = generator.sample([each for each in books if each != book], CHOICES - 1)
                wrong = [generator.choice(books[each]) for each in others]
                rows["choices"].append(choices(chapter, wrong, generator))
                rows["labels"].append(labels(chapter, generator, named[book].split()))
        for task, examples in rows.items():
            generator.shuffle(examples)
            write(options.output / task / f"{part}.jsonl", examples)


if __name__ == "__main__":
    main()
