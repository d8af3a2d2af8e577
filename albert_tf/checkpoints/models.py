"""Creates models from checkpoints, writes models as Hugging Face directories, and uploads them."""

from pathlib import Path
from typing import Any

from albert_tf.checkpoints import hub, hugging_face, names, sentence_transformers, weights
from albert_tf.checkpoints.hub import CARD, model_card
from albert_tf.errors import UserError
from albert_tf.files import read_text
from albert_tf.huggingface import IGNORED_BY_MODELS, MODEL_LOADING, own_options


def load(
    model_class: Any,
    checkpoint: weights.Checkpoint,
    dtype: Any = None,
    ignore_mismatched_sizes: bool = False,
    **fields: Any,
) -> Any:
    """Creates a model of `model_class` from a checkpoint in memory; see `from_pretrained`."""
    fields = own_options(fields, MODEL_LOADING, IGNORED_BY_MODELS)
    form = {name: fields.pop(name) for name in model_class.form_options if name in fields}
    layers = fields.get("num_hidden_layers", checkpoint.config.num_hidden_layers)
    if layers != checkpoint.config.num_hidden_layers and checkpoint.config.stored_groups > 1:
        raise UserError(
            "Only a model with one group of shared layers can be loaded with a different "
            f"depth. Received: num_hidden_layers={layers} for "
            f"{checkpoint.config.stored_groups} groups. Load it without num_hidden_layers, "
            "then call with_depth."
        )
    checkpoint = checkpoint._replace(config=checkpoint.config.replace(**fields))
    weights.check_backbone(checkpoint)
    model = model_class(checkpoint.config, dtype=dtype, **form)
    model.newly_initialized = weights.assign(
        model, checkpoint.tensors, checkpoint.origin, ignore_mismatched_sizes
    )
    has_new_head = bool({*model.newly_initialized} - {names.POOLER})
    if has_new_head and "thresholds" not in fields:  # the stored ones belong to the old head
        model.config = model.config.replace(thresholds=None)
    model.newly_initialized += model.build_added()
    model._folder = model._module_folder = checkpoint.folder
    return model


def save(model: Any, folder: Path, tokenizer: Any) -> None:
    """Writes a model, its tokenizer (if any), and its sentence-transformers modules (if any)."""
    tensors = weights.extract(model)
    hugging_face.write(folder, model.config, tensors, model.saved_class)
    if tokenizer is not None:
        tokenizer.save_pretrained(folder)
    embedding = sentence_transformers.read_to_copy(model.sentence_embedding)
    if embedding is not None:
        sentence_transformers.write(folder, embedding, model.config.hidden_size)


def upload(model: Any, repo_id: str, folder: Path | None = None, /, **options: Any) -> str:
    """Uploads a model with the model card in `folder` or a new one, and returns the commit's URL.

    Raises:
        UserError: see `hub.upload`.
    """
    card = None
    if folder is not None and (folder / CARD).is_file():
        card = read_text(folder / CARD)
    facts = type(model).__name__, model.config, model.num_parameters()
    return hub.upload(
        model.save_pretrained,
        repo_id,
        card=lambda name: card or model_card(name, *facts),
        **options,
    )
