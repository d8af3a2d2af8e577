"""The model card of a repository on the hub."""

from typing import Final

from albert_tf.config import AlbertConfig

_PIPELINES: Final = {
    "AlbertForPreTraining": "fill-mask",
    "AlbertForMaskedLM": "fill-mask",
    "AlbertForSequenceClassification": "text-classification",
    "AlbertForTokenClassification": "token-classification",
    "AlbertForQuestionAnswering": "question-answering",
    "AlbertForMultipleChoice": "multiple-choice",
    "AlbertModel": "feature-extraction",
}


def model_card(repo_id: str, class_name: str, config: AlbertConfig, parameters: int) -> str:
    """Returns the content of `README.md`: metadata for the hub, sizes, and how to load it."""
    sizes = config.num_hidden_layers, config.hidden_size, config.num_attention_heads
    return f"""---
library_name: albert_tf
pipeline_tag: {_PIPELINES[class_name]}
tags:
- albert
- keras
---

# {repo_id.rpartition("/")[2]}

An `{class_name}`, uploaded with albert_tf; transformers reads its files too.

```python
from albert_tf import {class_name}

model = {class_name}.from_pretrained("{repo_id}")
```

| | |
|---|---|
| parameters | {parameters:,} |
| layers, hidden size, heads | {", ".join(map(str, sizes))} |
| vocabulary | {config.vocab_size:,} pieces |
| labels | {", ".join(config.labels)} |

## Training data and results

Not described yet.
"""
