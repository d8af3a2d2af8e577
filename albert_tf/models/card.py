"""The model card: metadata for the hub, sizes, and how to load the model."""

import re
from typing import Any, Final

from albert_tf.config import AlbertConfig
from albert_tf.tasks import BY_MODEL

CARD: Final = "README.md"
_NO_ABOUT: Final = "## Training data and results\n\nNot described yet.\n"


def model_card(
    name: str,
    class_name: str,
    config: AlbertConfig,
    parameters: int,
    about: str = _NO_ABOUT,
    **metadata: Any,
) -> str:
    """Returns the content of `README.md`.

    Args:
        name: directory or name on the hub, as `from_pretrained` takes it.
        about: the card's last sections.
        **metadata: further fields for the hub, as `huggingface_hub.ModelCardData` takes them.
    """
    from huggingface_hub import ModelCardData

    data = ModelCardData(
        library_name="albert_tf",
        pipeline_tag=BY_MODEL[class_name].pipeline_tag,
        tags=["albert", "keras"],
        **metadata,
    )
    sizes = config.num_hidden_layers, config.hidden_size, config.num_attention_heads
    return f"""---
{data.to_yaml()}
---

# {name.rpartition("/")[2]}

`{class_name}` from albert_tf; transformers can load it too.

```python
from albert_tf import {class_name}, AlbertTokenizer

model = {class_name}.from_pretrained("{name}")
tokenizer = AlbertTokenizer.from_pretrained("{name}")
```

| | |
|---|---|
| parameters | {parameters:,} |
| layers, hidden size, heads | {", ".join(map(str, sizes))} |
| vocabulary | {config.vocab_size:,} tokens |
| labels | {", ".join(map(in_cell, config.labels))} |

{about}"""


def in_cell(text: str) -> str:
    """Returns text for a cell of a Markdown table: on one line, with nothing but text in it."""
    line = "".join(letter if letter.isprintable() else " " for letter in text)
    return re.sub(r"([\\`*_\[\]<>|~$&])", r"\\\1", line)
