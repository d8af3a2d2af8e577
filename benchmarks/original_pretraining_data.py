"""The algorithm of google-research/albert's create_pretraining_data.py, in plain Python.

Reimplements it with its bugs, piece by piece in lists of strings and with all documents in memory,
to compare its statistics and speed with albert_tf's.
"""

import collections
import random
import string

import numpy


def begins_word(piece):
    """Returns whether a piece begins a word."""
    punctuation = set(string.punctuation) - set("'<=>")  # created in every call, as in the original
    letters = set(string.ascii_lowercase)
    if piece.startswith(("▁", "<")) or piece in punctuation:
        return True
    return not all(character.lower() in letters.union(punctuation) for character in piece)


def tokenized(lines, processor, normalization):
    """Tokenizes lines, with blank ones between documents, into documents of sentences."""
    documents = [[]]
    for line in lines:
        line = line.strip()
        if not line:
            documents.append([])
            continue
        pieces = processor.encode(normalization(line), out_type=str)
        again = []
        for piece in pieces:  # the digit-comma rule
            if len(piece) > 1 and piece[-1] == "," and piece[-2].isdigit():
                parts = processor.encode(piece[:-1].replace("▁", ""), out_type=str)
                if piece[0] != "▁" and parts[0][0] == "▁":
                    parts = parts[1:] if len(parts[0]) == 1 else [parts[0][1:], *parts[1:]]
                again.extend([*parts, ","])
            else:
                again.append(piece)
        if again:
            documents[-1].append(again)
    return [document for document in documents if document]


class Original:
    """Creates examples as the original does.

    Args:
        vocabulary: pieces from which random ones are drawn.
        flags: the original's flags, keyed by name.
    """

    def __init__(self, vocabulary, **flags):
        self.vocabulary = vocabulary
        self.flags = flags
        self.random = random.Random(flags["random_seed"])

    def examples(self, documents):
        """Returns the shuffled examples of `dupe_factor` passes."""
        made = []
        for _ in range(self.flags["dupe_factor"]):
            for number in range(len(documents)):
                made.extend(self.of_document(documents, number))
        self.random.shuffle(made)
        return made

    def of_document(self, documents, number):
        """Returns the examples of one document."""
        document, room = documents[number], self.flags["max_seq_length"] - 3
        target = room
        if self.random.random() < self.flags["short_seq_prob"]:
            target = self.random.randint(2, room)
        made, chunk, length, place = [], [], 0, 0
        while place < len(document):
            chunk.append(document[place])
            length += len(document[place])
            if place == len(document) - 1 or length >= target:
                first, second, label, unused = self.divided(chunk, documents, number, target)
                place -= unused
                self.cut(first, second, room)
                if first and second:
                    made.append(self.masked(first, second, label))
                chunk, length = [], 0
            place += 1
        return made

    def divided(self, chunk, documents, number, target):
        """Returns two segments of a chunk, the label, and the number of unused sentences."""
        end = self.random.randint(1, len(chunk) - 1) if len(chunk) > 1 else 1
        first = [piece for sentence in chunk[:end] for piece in sentence]
        next_sentence = self.flags.get("random_next_sentence", False)
        if len(chunk) == 1 or (next_sentence and self.random.random() < 0.5):
            second = []
            for _ in range(10):
                other = self.random.randint(0, len(documents) - 1)
                if other != number:
                    break
            start = self.random.randint(0, len(documents[other]) - 1)
            for sentence in documents[other][start:]:
                second.extend(sentence)
                if len(second) >= target - len(first):
                    break
            return first, second, True, len(chunk) - end
        second = [piece for sentence in chunk[end:] for piece in sentence]
        if not next_sentence and self.random.random() < 0.5:
            return second, first, True, 0
        return first, second, False, 0

    def cut(self, first, second, room):
        """Removes single pieces from the front or end of the longer segment."""
        while len(first) + len(second) > room:
            longer = first if len(first) > len(second) else second
            if self.random.random() < 0.5:
                del longer[0]
            else:
                longer.pop()

    def masked(self, first, second, label):
        """Returns an example as a dictionary."""
        pieces = ["[CLS]", *first, "[SEP]", *second, "[SEP]"]
        after, positions, labels = self.predictions(pieces)
        return {
            "pieces": after,
            "segments": [0] * (len(first) + 2) + [1] * (len(second) + 1),
            "label": label,
            "positions": positions,
            "labels": labels,
        }

    def predictions(self, pieces):
        """Returns the pieces after masking, the masked positions, and the original pieces there."""
        words = []
        for place, piece in enumerate(pieces):
            if piece in ("[CLS]", "[SEP]"):
                continue
            if self.flags["do_whole_word_mask"] and words and not begins_word(piece):
                words[-1].append(place)
            else:
                words.append([place])
        after, found = list(pieces), []
        if not self.flags["masked_lm_prob"]:
            return after, [], []
        most = self.flags["max_predictions_per_seq"]
        wanted = min(most, max(1, round(len(pieces) * self.flags["masked_lm_prob"])))
        longest = self.flags["ngram"]
        weights = [1 / n / sum(1 / m for m in range(1, longest + 1)) for n in range(1, longest + 1)]
        if not self.flags["favor_shorter_ngram"]:
            weights.reverse()
        candidates = [
            [words[place : place + n] for n in range(1, longest + 1)] for place in range(len(words))
        ]
        self.random.shuffle(candidates)
        covered = set()
        for candidate in candidates:
            if len(found) >= wanted:
                break
            n = numpy.random.choice(range(1, longest + 1), p=weights)
            places = [place for word in candidate[n - 1] for place in word]
            while n > 1 and len(found) + len(places) > wanted:
                n -= 1
                places = [place for word in candidate[n - 1] for place in word]
            if len(found) + len(places) > wanted or any(place in covered for place in places):
                continue
            for place in places:
                covered.add(place)
                after[place] = self.replacement(pieces[place])
                found.append((place, pieces[place]))
        found.sort()
        return after, [place for place, _ in found], [piece for _, piece in found]

    def replacement(self, piece):
        """Returns [MASK], the piece itself, or a random piece from the vocabulary."""
        if self.random.random() < 0.8:
            return "[MASK]"
        if self.random.random() < 0.5:
            return piece
        return self.vocabulary[self.random.randint(0, len(self.vocabulary) - 1)]


def features(example, ids, flags):
    """Returns the features of an example's record, padded."""
    length, most = flags["max_seq_length"], flags["max_predictions_per_seq"]
    pieces = [ids[piece] for piece in example["pieces"]]
    labels = [ids[piece] for piece in example["labels"]]
    padding, missing = [0] * (length - len(pieces)), [0] * (most - len(labels))
    return collections.OrderedDict(
        input_ids=pieces + padding,
        input_mask=[1] * len(pieces) + padding,
        segment_ids=example["segments"] + padding,
        masked_lm_positions=example["positions"] + missing,
        masked_lm_ids=labels + missing,
        masked_lm_weights=[1.0] * len(labels) + [0.0] * len(missing),
        next_sentence_labels=[int(example["label"])],
    )
