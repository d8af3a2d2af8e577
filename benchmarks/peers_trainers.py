"""Fine-tuning steps on one batch, for `peers.py`: each gives its loss.

A trainer returns the process' memory before it loads the model, in MB, and the function of a step.
"""

from memory import memory
from runtime_runners import KERAS_HUB

LEARNING_RATE = 2e-5


def keras_trainer(folder, options, rows, labels):
    import keras

    optimizer = keras.optimizers.AdamW(LEARNING_RATE, weight_decay=0.01, global_clipnorm=1.0)
    if options.runner == "albert_tf":
        from albert_tf import AlbertForSequenceClassification

        empty = memory("VmRSS")
        model = AlbertForSequenceClassification.from_pretrained(folder / "model")
        model.compile(optimizer)
    else:
        import keras_hub

        empty = memory("VmRSS")
        model = keras_hub.models.AlbertTextClassifier.from_preset(
            str(folder / "keras-hub"), preprocessor=None
        )
        model.compile(optimizer, keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        rows = {name: rows[ours] for ours, name in KERAS_HUB.items()}

    def step():
        model.reset_metrics()  # the loss is a mean since the last reset
        return model.train_on_batch(rows, labels, return_dict=True)["loss"]

    return empty, step


def command_trainer(folder, options, rows, labels):
    """The step of `albert-tf finetune`: two halves of the batch side by side."""
    import keras

    from albert_tf import AlbertForSequenceClassification
    from albert_tf.training.distribution import share_threads
    from albert_tf.training.loss import finetuning_means
    from albert_tf.training.optimizers import AlbertAdamW
    from albert_tf.training.runtime import strategy_for
    from albert_tf.training.steps import TrainingStep

    share_threads()
    empty = memory("VmRSS")
    model = AlbertForSequenceClassification.from_pretrained(folder / "model")
    model.compile(AlbertAdamW(LEARNING_RATE, bias_correction=True))
    update = TrainingStep(model, strategy_for("none"))
    batch = keras.tree.map_structure(keras.ops.convert_to_tensor, (rows, {"labels": labels}))

    def step():
        return finetuning_means(update(batch), has_accuracy=True)["loss"]

    return empty, step


def torch_trainer(folder, options, rows, labels):
    import torch
    import transformers

    empty = memory("VmRSS")
    model = transformers.AlbertForSequenceClassification.from_pretrained(
        folder / "model", dtype=torch.float32, attn_implementation="sdpa"
    ).train()
    optimizer = torch.optim.AdamW(model.parameters(), LEARNING_RATE, weight_decay=0.01)
    given = {name: torch.from_numpy(value).long() for name, value in rows.items()}
    given["labels"] = torch.from_numpy(labels).long()

    def step():
        loss = model(**given).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    return empty, step
