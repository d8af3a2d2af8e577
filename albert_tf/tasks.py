"""The one list of tasks: a model class of each, its pipeline, and the form of inputs and outputs.

Before it, each feature's name, dtype and shape, for batches, models and signatures. Needs no
TensorFlow, so that checkpoints and the command line can read it. A model has its own entry as
`task`. A new task is an entry here, a model in `models/` and, if it has one, a pipeline.
"""

from typing import Final, NamedTuple


class Feature(NamedTuple):
    """A tensor of a batch. `None` in the shape is a size that differs between batches."""

    name: str
    dtype: str
    shape: tuple[int | None, ...]


INPUT_IDS: Final = Feature("input_ids", "int32", (None, None))
ATTENTION_MASK: Final = Feature("attention_mask", "int32", (None, None))
TOKEN_TYPE_IDS: Final = Feature("token_type_ids", "int32", (None, None))
INPUTS: Final = (INPUT_IDS, ATTENTION_MASK, TOKEN_TYPE_IDS)
MASKED_LM_POSITIONS: Final = Feature("masked_lm_positions", "int32", (None, None))
MASKED_LM_LABELS: Final = Feature("labels", "int32", (None, None))
SENTENCE_ORDER_LABEL: Final = Feature("sentence_order_label", "int32", (None,))


class Task(NamedTuple):
    """The facts of a task.

    Attributes:
        name: on the command line, and for `load_pretrained`.
        model: name of the class in `albert_tf.models`.
        pipeline_tag: name of the task on the hub. Checkpoints of one tag share their head.
        pipelines: names of the pipelines that load this model.
        outputs_by_token: whether outputs belong to tokens, so that a caller needs the tokens too.
        has_classes: whether labels are the classes that the configuration names.
        has_choices: whether an example is several sequences, `[B, C, T]`.
        takes_positions: whether the model can score the vocabulary at chosen positions alone.
        needs_pairs: whether an example is always a pair of texts.
    """

    name: str
    model: str
    pipeline_tag: str
    pipelines: tuple[str, ...] = ()
    outputs_by_token: bool = False
    has_classes: bool = False
    has_choices: bool = False
    takes_positions: bool = False
    needs_pairs: bool = False


ENCODER: Final = Task(
    "encoder", "AlbertModel", "feature-extraction", ("feature-extraction",), outputs_by_token=True
)
PRETRAINING: Final = Task(
    "pretraining",
    "AlbertForPreTraining",
    "fill-mask",
    ("sentence-order",),
    outputs_by_token=True,
    takes_positions=True,
)
MASKED_LM: Final = Task(
    "masked-lm",
    "AlbertForMaskedLM",
    "fill-mask",
    ("fill-mask",),
    outputs_by_token=True,
    takes_positions=True,
)
SEQUENCE_CLASSIFICATION: Final = Task(
    "sequence-classification",
    "AlbertForSequenceClassification",
    "text-classification",
    ("text-classification", "zero-shot-classification"),
    has_classes=True,
)
TOKEN_CLASSIFICATION: Final = Task(
    "token-classification",
    "AlbertForTokenClassification",
    "token-classification",
    ("token-classification",),
    outputs_by_token=True,
    has_classes=True,
)
QUESTION_ANSWERING: Final = Task(
    "question-answering",
    "AlbertForQuestionAnswering",
    "question-answering",
    ("question-answering",),
    outputs_by_token=True,
    needs_pairs=True,
)
MULTIPLE_CHOICE: Final = Task(
    "multiple-choice",
    "AlbertForMultipleChoice",
    "multiple-choice",
    has_choices=True,
    needs_pairs=True,
)
# A training wrapper of the encoder, for several texts at a time; saved, loaded and exported as a
# plain encoder.
SIMILARITY: Final = Task(
    "similarity", "AlbertForSimilarity", ENCODER.pipeline_tag, has_choices=True
)
TASKS: Final = {
    task.name: task
    for task in (
        ENCODER,
        PRETRAINING,
        MASKED_LM,
        SEQUENCE_CLASSIFICATION,
        TOKEN_CLASSIFICATION,
        QUESTION_ANSWERING,
        MULTIPLE_CHOICE,
    )
}
BY_MODEL: Final = {task.model: task for task in (*TASKS.values(), SIMILARITY)}
BY_PIPELINE: Final = {name: task for task in TASKS.values() for name in task.pipelines}
