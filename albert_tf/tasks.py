"""The single source of truth for tasks: the model class, pipelines, inputs, and outputs of each.

It also defines the name, dtype, and shape of each feature for batches, models, and signatures.
This file doesn't import TensorFlow, so that checkpoints and the command line can use it. The
`task` attribute of a model class is its entry in this list. To add a head, add an entry here, a
file in `models/`, and two lines in its `__init__.py`. A head with new layers also needs a class in
`layers/heads.py` and rows in `checkpoints/names.py`.
"""

from typing import Final, NamedTuple


class Feature(NamedTuple):
    """A tensor in a batch. `None` in the shape is a dimension that varies between batches."""

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
BEAM: Final = 5  # number of start positions, and of end positions for each, in the SQuAD 2.0 head
IGNORED: Final = -100  # label that losses and metrics ignore, as in transformers


class TaskFacts(NamedTuple):
    """The properties of a task.

    Attributes:
        name: name on the command line and in `load_pretrained`.
        model: name of the class in `albert_tf.models`.
        pipeline_tag: name of the task on the Hub. Checkpoints with the same tag have the same head.
        heads: names of the parts that identify the task of a checkpoint whose configuration names
            no class; see `checkpoints.names.part`.
        pipelines: names of the pipelines that load this model.
        outputs_by_token: whether outputs are per token. If so, callers also need the tokens.
        has_classes: whether labels are the classes in the configuration. Exported models return
            the names of all classes and of the highest-scoring one.
        probabilities: logit outputs that exported models also return as probabilities.
        has_choices: whether an example consists of several sequences, `[B, C, T]`.
        takes_positions: whether the model can compute vocabulary logits at selected positions only.
        needs_pairs: whether an example is always a text pair.
    """

    name: str
    model: str
    pipeline_tag: str
    heads: tuple[str, ...] = ()
    pipelines: tuple[str, ...] = ()
    outputs_by_token: bool = False
    has_classes: bool = False
    probabilities: tuple[str, ...] = ()
    has_choices: bool = False
    takes_positions: bool = False
    needs_pairs: bool = False


ENCODER: Final = TaskFacts(
    name="encoder",
    model="AlbertModel",
    pipeline_tag="feature-extraction",
    pipelines=("feature-extraction",),
    outputs_by_token=True,
)
PRETRAINING: Final = TaskFacts(
    name="pretraining",
    model="AlbertForPreTraining",
    pipeline_tag="fill-mask",
    heads=("predictions", "sop_classifier"),
    pipelines=("sentence-order",),
    outputs_by_token=True,
    probabilities=("sop_logits",),
    takes_positions=True,
)
MASKED_LM: Final = TaskFacts(
    name="masked-lm",
    model="AlbertForMaskedLM",
    pipeline_tag="fill-mask",
    heads=("predictions",),
    pipelines=("fill-mask",),
    outputs_by_token=True,
    takes_positions=True,
)
SEQUENCE_CLASSIFICATION: Final = TaskFacts(
    name="sequence-classification",
    model="AlbertForSequenceClassification",
    pipeline_tag="text-classification",
    heads=("pooler", "classifier"),
    pipelines=("text-classification", "zero-shot-classification"),
    has_classes=True,
    probabilities=("logits",),
)
TOKEN_CLASSIFICATION: Final = TaskFacts(
    name="token-classification",
    model="AlbertForTokenClassification",
    pipeline_tag="token-classification",
    heads=("classifier",),
    pipelines=("token-classification",),
    outputs_by_token=True,
    has_classes=True,
    probabilities=("logits",),
)
QUESTION_ANSWERING: Final = TaskFacts(
    name="question-answering",
    model="AlbertForQuestionAnswering",
    pipeline_tag="question-answering",
    heads=("qa_outputs",),
    pipelines=("question-answering",),
    outputs_by_token=True,
    needs_pairs=True,
)
MULTIPLE_CHOICE: Final = TaskFacts(
    name="multiple-choice",
    model="AlbertForMultipleChoice",
    pipeline_tag="multiple-choice",
    heads=("classifier",),
    has_choices=True,
    probabilities=("logits",),
    needs_pairs=True,
)
# A training wrapper around the encoder, for examples that consist of several texts. It is saved,
# loaded, and exported as a plain encoder.
SIMILARITY: Final = TaskFacts(
    name="similarity",
    model="AlbertForSimilarity",
    pipeline_tag=ENCODER.pipeline_tag,
    has_choices=True,
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
