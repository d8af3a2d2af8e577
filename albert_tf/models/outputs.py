"""`ModelOutput`, the outputs of a model."""

from typing import Any, Final

import keras
import optree

ON_REQUEST: Final = ("hidden_states", "attentions")


class ModelOutput(dict[str, Any]):
    """The outputs of a model, accessed as `outputs["logits"]`, `outputs.logits`, or `outputs[0]`.

    The attributes `loss`, `hidden_states`, and `attentions` are None if they weren't computed.
    Keras, TensorFlow, JAX, and torch treat a `ModelOutput` as a nested structure, like a dict.

    Example:
        >>> from albert_tf import ModelOutput
        >>> outputs = ModelOutput(loss=0.5, logits=[1.0, 2.0])
        >>> outputs.logits == outputs["logits"] == outputs[1]
        True
    """

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            if name in ("loss", *ON_REQUEST):
                return None
            raise AttributeError(
                f"Unknown output {name!r}. The outputs are {', '.join(self)}."
            ) from None

    def __getitem__(self, key: Any) -> Any:
        return self.to_tuple()[key] if isinstance(key, int | slice) else super().__getitem__(key)

    def to_tuple(self) -> tuple[Any, ...]:
        """Returns the outputs in order."""
        return tuple(self.values())


def _flatten(output: ModelOutput) -> tuple[tuple[Any, ...], tuple[str, ...]]:
    return output.to_tuple(), tuple(output)


def _unflatten(names: tuple[str, ...], values: Any) -> ModelOutput:
    return ModelOutput(zip(names, values, strict=True))


optree.register_pytree_node(ModelOutput, _flatten, _unflatten, namespace="keras")
if keras.backend.backend() == "jax":
    import jax

    jax.tree_util.register_pytree_node(ModelOutput, _flatten, _unflatten)
elif keras.backend.backend() == "torch":
    from torch.utils import _pytree

    # torch expects the list of values first.
    _pytree.register_pytree_node(
        ModelOutput,
        lambda output: (list(output.values()), tuple(output)),
        lambda values, names: _unflatten(names, values),
    )
