"""A teacher's probabilities, from which a smaller model learns by `fit`.

Source: Hinton, Vinyals and Dean, "Distilling the Knowledge in a Neural Network", arXiv 1503.02531.
"""

import os
from collections.abc import Sequence

import numpy as np
from scipy.special import expit, softmax

from albert_tf import models
from albert_tf.data.tasks.classification import encode_texts
from albert_tf.errors import UserError
from albert_tf.text.tokenizer import AlbertTokenizer
from albert_tf.training.evaluate import model_outputs


def soft_labels(
    teacher: str | os.PathLike[str],
    texts: Sequence[str],
    text_pairs: Sequence[str] | None = None,
    *,
    temperature: float = 1.0,
    batch_size: int = 32,
) -> np.ndarray:
    """Returns a teacher's probabilities of its labels, for `fit`.

    Args:
        teacher: directory or hub name of a model fine-tuned for classification.
        texts: as the teacher was fine-tuned on.
        text_pairs: second texts of pairs.
        temperature: divides logits before they become probabilities.
        batch_size: texts predicted at once.
    Returns:
        float32 `[N, C]` in the order of the teacher's `config.labels`; the numbers of a model for
        regression.
    Raises:
        UserError: there is no such teacher, or it isn't for classification.

    Example:
        >>> import albert_tf
        >>> from albert_tf import AlbertForSequenceClassification
        >>> texts = ["A quiet delight.", "Broken on arrival."]
        >>> soft = albert_tf.soft_labels("small", texts, temperature=2.0)  # not fine-tuned
        >>> student = AlbertForSequenceClassification.from_pretrained("small", num_labels=2)
        >>> student.compile()
        >>> history = student.fit(texts, soft, verbose=0)
    """
    if not (isinstance(temperature, int | float) and 0 < temperature < float("inf")):
        raise UserError(f"temperature must be a number above 0. Received: {temperature!r}.")
    model = models.AlbertForSequenceClassification.from_pretrained(teacher)
    tokenizer = AlbertTokenizer.from_pretrained(teacher)
    longest = min(tokenizer.model_max_length, model.config.max_position_embeddings)
    rows = encode_texts(list(texts), text_pairs, None, tokenizer, longest)
    rows.warn_of_cut(longest)
    logits = np.stack([row["logits"] for row in model_outputs(rows, model, batch_size)])
    kind = model.config.problem_type
    if kind == "regression":
        return logits
    if kind == "multi_label_classification":
        return expit(logits / temperature)
    return softmax(logits / temperature, axis=-1)
