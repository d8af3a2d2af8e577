"""The one schema: every feature's name, dtype and shape, for batches, models and signatures."""

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
