"""Labels for the pieces of a text, and entities made of them."""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any, Final, NamedTuple

from scipy.special import softmax

from albert_tf.errors import UserError
from albert_tf.models import AlbertForTokenClassification
from albert_tf.pipelines.base import Outputs, Pipeline
from albert_tf.pipelines.batches import Row
from albert_tf.pipelines.entities import STRATEGIES, Piece, entities, tokens, without_overlaps
from albert_tf.pipelines.inputs import as_text
from albert_tf.pipelines.long_texts import LengthOptions, features, row_length, windows

STRIDE: Final = 64  # pieces that windows share if nothing is said, a quarter of a window at most
SPECIAL: Final = 2  # [CLS] and [SEP]


@dataclasses.dataclass(frozen=True)
class TokenClassificationOptions:
    """What is made of the pieces.

    Attributes:
        aggregation_strategy: "none" gives every piece; "simple" groups neighbours of one kind;
            "first", "average" and "max" do so after giving all pieces of a word one label.
        ignore_labels: what isn't given. None for none.
        stride: pieces that the windows of a long text share.
        max_length: pieces of a window, special tokens included.
        is_split_into_words: a text is a list of words.
        delimiter: between words, in the text that `start` and `end` count in.
    """

    aggregation_strategy: str = "none"
    ignore_labels: Sequence[str] | None = ("O",)
    stride: int | None = None
    max_length: int | None = None
    is_split_into_words: bool = False
    delimiter: str = " "

    def __post_init__(self) -> None:
        if self.ignore_labels is None:
            object.__setattr__(self, "ignore_labels", ())
        if self.stride is not None and self.stride < 0:
            raise UserError(f"stride must be 0 or more. Received: {self.stride}.")
        if self.aggregation_strategy not in STRATEGIES:
            raise UserError(
                f"aggregation_strategy must be one of {', '.join(STRATEGIES)}. "
                f"Received: {self.aggregation_strategy!r}."
            )


class _Text(NamedTuple):
    """A text, or words; `starts` are their places in the text that they make."""

    text: str
    words: list[str] | None = None
    starts: tuple[int, ...] = (0,)


class TokenClassificationPipeline(Pipeline[TokenClassificationOptions]):
    """Entities of a text, with `start` and `end` in its characters.

    Without aggregation: `{"entity", "score", "index", "word", "start", "end"}` for every piece;
    with it: `{"entity_group", "score", "word", "start", "end"}`, where `word` is
    `text[start:end]`. A long text is read in windows; of what several windows find at one place,
    the longest counts.

    Args: see `Pipeline`, and `TokenClassificationOptions` for the options.
    """

    task = "token-classification"
    models = (AlbertForTokenClassification,)
    options_type = TokenClassificationOptions

    def __call__(self, inputs: Any, *, batch_size: int | None = None, **options: Any) -> Any:
        is_words = self._chosen(options).is_split_into_words
        if is_words and isinstance(inputs, list) and inputs and isinstance(inputs[0], str):
            inputs = [inputs]
        return super().__call__(inputs, batch_size=batch_size, **options)

    def example(self, given: Any, options: TokenClassificationOptions) -> _Text:
        if not options.is_split_into_words:
            return _Text(as_text(given))
        if not isinstance(given, list | tuple):
            raise TypeError(
                "With is_split_into_words=True a text must be a list of words. "
                f"Received: {given!r}."
            )
        words = [as_text(word, "A word") for word in given]
        lengths = (len(word) + len(options.delimiter) for word in words)
        return _Text(options.delimiter.join(words), words, tuple(accumulate(lengths, initial=0)))

    def encode(
        self, examples: Sequence[_Text], options: TokenClassificationOptions
    ) -> Iterable[list[Row]]:
        length = row_length(LengthOptions(max_length=options.max_length), self.max_length)
        default = min(STRIDE, (length - SPECIAL) // 4)
        stride = default if options.stride is None else options.stride
        for example in examples:
            encoding = windows(
                self.tokenizer,
                example.text if example.words is None else example.words,
                is_split_into_words=example.words is not None,
                truncation=True,
                max_length=length,
                stride=stride,
                return_offsets_mapping=True,
            )
            first = range(0, len(encoding["input_ids"]) * length, length - SPECIAL - stride)
            yield [
                features(encoding, place, list(self._pieces(encoding, place, start, example)))
                for place, start in enumerate(first[: len(encoding["input_ids"])])
            ]

    def finish(
        self,
        example: _Text,
        rows: Sequence[Row],
        found: Sequence[Outputs],
        options: TokenClassificationOptions,
    ) -> list[dict[str, Any]]:
        labels, strategy = self.model.config.labels, options.aggregation_strategy
        results = []
        for row, each in zip(rows, found, strict=True):
            scores = softmax(each["logits"][1:], axis=-1)  # without [CLS]
            pieces = [
                piece._replace(scores=odds)
                for piece, odds in zip(row.details, scores, strict=False)
            ]
            results += (
                tokens(pieces, labels)
                if strategy == "none"
                else entities(pieces, labels, strategy, example.text)
            )
        name = "entity" if strategy == "none" else "entity_group"
        kept = [each for each in results if each[name] not in (options.ignore_labels or ())]
        return without_overlaps(kept) if len(rows) > 1 else kept

    def _chosen(self, options: Mapping[str, Any]) -> TokenClassificationOptions:
        chosen = super()._chosen(options)
        length = row_length(LengthOptions(max_length=chosen.max_length), self.max_length)
        if chosen.stride is not None and chosen.stride >= length - SPECIAL:
            raise UserError(
                "stride must be smaller than the pieces of a window. "
                f"Received: stride={chosen.stride}, {length - SPECIAL} pieces a window."
            )
        return chosen

    def _pieces(self, encoding: Any, row: int, first: int, example: _Text) -> Iterator[Piece]:
        """The pieces of a row, without scores; `first` is the row's place in the whole text."""
        ids, words = encoding["input_ids"][row], encoding.word_ids(row)
        for place in range(1, len(ids) - 1):
            start, end = encoding["offset_mapping"][row][place]
            shift = 0 if example.words is None else example.starts[words[place]]
            start, end = start + shift, end + shift
            is_unknown = ids[place] == self.tokenizer.unk_token_id
            yield Piece(
                token=(
                    example.text[start:end]
                    if is_unknown
                    else self.tokenizer.convert_ids_to_tokens(int(ids[place]))
                ),
                scores=(),  # type: ignore[arg-type]
                start=start,
                end=end,
                place=first + place,
                continues=words[place] == words[place - 1] and not is_unknown,
            )
