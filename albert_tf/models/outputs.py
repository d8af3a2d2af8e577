"""The form in which models answer: a dict whose keys are attributes too."""

from typing import Any

import keras
import optree


class ModelOutput(dict):
    """Named outputs, read as `outputs["logits"]`, `outputs.logits` or `outputs[0]`.

    Keras, TensorFlow and JAX take it apart and put it together like any other nested structure.
    """

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(
                f"There is no output {name!r}. Received outputs: {', '.join(self)}."
            ) from None

    def __getitem__(self, key: Any) -> Any:
        return super().__getitem__(list(self)[key] if isinstance(key, int) else key)

    def to_tuple(self) -> tuple[Any, ...]:
        """The values, in order."""
        return tuple(self.values())


def _flatten(output: ModelOutput) -> tuple[tuple[Any, ...], tuple[str, ...]]:
    return output.to_tuple(), tuple(output)


def _unflatten(names: tuple[str, ...], values: Any) -> ModelOutput:
    return ModelOutput(zip(names, values, strict=True))


optree.register_pytree_node(ModelOutput, _flatten, _unflatten, namespace="keras")
if keras.backend.backend() == "jax":
    import jax

    jax.tree_util.register_pytree_node(ModelOutput, _flatten, _unflatten)
