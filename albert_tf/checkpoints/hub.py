"""Downloads models from the Hugging Face Hub, uploads them, and writes model cards.

Downloads are cached by huggingface_hub. A card contains Hub metadata, the model's sizes, and code
that loads the model.
"""

import re
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path, PurePosixPath
from typing import Any, Final

from albert_tf.config import AlbertConfig
from albert_tf.errors import UserError, escaped
from albert_tf.tasks import BY_MODEL

OPTIONS: Final = (
    "revision",
    "token",
    "cache_dir",
    "local_files_only",
    "force_download",
    "subfolder",
)
CACHED: Final = "models--"  # followed by "owner--name" in the names of the cache's folders
_WITHOUT_OWNER: Final = re.compile(r"albert-(base|large|xlarge|xxlarge)-v[12]")


def repository(name: str) -> str | None:
    """Returns the name of a model's repository, or None if `name` can't be a Hub model ID.

    Adds the owner to the old names of published models, such as "albert-base-v2".
    """
    if _WITHOUT_OWNER.fullmatch(name):
        return f"albert/{name}"
    path = PurePosixPath(name)
    is_name = len(path.parts) == 2 and not path.is_absolute() and name[0] not in ".~"
    return name if is_name else None


def upload(
    write: Callable[[Path], Any],
    repo_id: str,
    *,
    card: Callable[[str], str] | None = None,
    token: str | bool | None = None,
    private: bool | None = None,
    commit_message: str = "Upload with albert_tf",
    commit_description: str | None = None,
    revision: str | None = None,
    create_pr: bool = False,
) -> str:
    """Writes files and uploads them to a Hub repository, which is created if necessary.

    Args:
        write: function that writes the files into a folder.
        repo_id: owner/name, or just a name for your own account.
        card: function that takes the repository's name and returns the content of `README.md`. An
            existing `README.md` is kept.
        token, private, commit_message, commit_description, revision, create_pr: as in
            huggingface_hub.
    Returns:
        The commit's URL.
    Raises:
        UserError: if there is no access token, write permission, or network connection.
    """
    import huggingface_hub

    api = huggingface_hub.HfApi(token=token)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write(folder)
        try:
            repo_id = api.create_repo(repo_id, private=private, exist_ok=True).repo_id
            if card and not api.file_exists(repo_id, "README.md", revision=revision):
                (folder / "README.md").write_text(card(repo_id), encoding="utf-8", newline="\n")
            return str(
                api.upload_folder(
                    repo_id=repo_id,
                    folder_path=folder,
                    commit_message=commit_message,
                    commit_description=commit_description,
                    revision=revision,
                    create_pr=create_pr,
                )
            )
        except Exception as error:  # The client raises its HTTP library's errors.
            reason = str(error).strip().split("\n")[0]
            raise UserError(
                f"Uploading to {repo_id} failed with {type(error).__name__}: "
                f"{reason.rstrip('.')}. Log in with `hf auth login`, pass a token= with write "
                "permission, or upload a saved directory later with `hf upload`."
            ) from error


class Repository:
    """A model's Hub repository at one revision.

    Args:
        name: owner/name.
        **options: passed to `huggingface_hub.hf_hub_download`; see `OPTIONS`.
    """

    def __init__(self, name: str, **options: Any):
        self.name = name
        self.options = options
        self._error: Exception | None = None

    def file(self, filename: str) -> Path | None:
        """Downloads a file unless it is cached. Returns its path, or None if it doesn't exist.

        If the network fails, this call and all later ones search only the cache.
        """
        import huggingface_hub
        import huggingface_hub.errors as errors

        try:
            path = Path(huggingface_hub.hf_hub_download(self.name, filename, **self.options))
        except errors.LocalEntryNotFoundError as error:  # also an EntryNotFoundError
            self._error = error
            self.options["local_files_only"] = True
            self.options.pop("force_download", None)
            return None
        except errors.EntryNotFoundError:
            return None
        except Exception as error:  # The client raises its HTTP library's errors.
            self._error = error
            raise self.failure() from error
        for folder in path.parents:  # All files must come from this commit.
            if folder.parent.name == "snapshots":
                self.options["revision"] = folder.name
                break
        return path

    def first(self, filenames: Iterable[str]) -> Path | None:
        """Returns the path of the first of these files that exists, or None."""
        return next((path for name in filenames if (path := self.file(name))), None)

    def failure(self, what: str = "it") -> UserError:
        """Returns the error to raise for a file that can't be downloaded."""
        import huggingface_hub.constants as constants
        import huggingface_hub.errors as errors

        error = self._error
        cache = self.options.get("cache_dir") or constants.HF_HUB_CACHE
        reason = "not found there" if error is None else type(error).__name__
        if constants.HF_HUB_OFFLINE:
            reason += ", HF_HUB_OFFLINE is set"
        way_out = "Download it on a machine with network access, or pass a directory."
        if isinstance(error, errors.RepositoryNotFoundError | errors.GatedRepoError):
            way_out = "Check the name, and pass a token= if it is private or gated."
        elif isinstance(error, errors.RevisionNotFoundError):
            way_out = "Check revision=."
        elif isinstance(error, errors.HfHubHTTPError) and error.response.status_code == 401:
            way_out = "The Hub rejected the token. Pass a valid token=, or log in again."
        return UserError(
            f"{self.name} isn't a local directory, and {what} couldn't be downloaded from the Hub "
            f"({reason}) or found in the cache {cache}. {way_out}"
        )


CARD: Final = "README.md"
_NO_ABOUT: Final = "## Training data and results\n\nNot described yet.\n"
_EXAMPLES: Final = {  # arguments of a pipeline's call, by pipeline tag
    "feature-extraction": '"A quiet delight."',
    "fill-mask": '"A quiet [MASK]."',
    "question-answering": 'question="Where is the book?", context="The book is on the table."',
    "text-classification": '"A quiet delight."',
    "token-classification": '"Ada Lovelace was born in London."',
}


def model_card(
    name: str,
    class_name: str,
    config: AlbertConfig,
    parameters: int,
    about: str = _NO_ABOUT,
    **metadata: Any,
) -> str:
    """Returns the content of `README.md`, with control characters escaped.

    Args:
        name: directory or Hub model ID to pass to `from_pretrained`.
        about: the card's last sections.
        **metadata: additional arguments of `huggingface_hub.ModelCardData`.
    """
    from huggingface_hub import ModelCardData

    tag = BY_MODEL[class_name].pipeline_tag
    data = ModelCardData(
        library_name="albert_tf",
        pipeline_tag=tag,
        tags=["albert", "keras"],
        **metadata,
    )
    sizes = config.num_hidden_layers, config.hidden_size, config.num_attention_heads
    load, example = f'{class_name}.from_pretrained("{name}")', _EXAMPLES.get(tag)
    use = f"""from albert_tf import pipeline

predict = pipeline("{tag}", "{name}")
print(predict({example}))
```

`{load}` loads the model for training."""
    if example is None:  # multiple choice has no pipeline
        use = f"from albert_tf import {class_name}\n\nmodel = {load}\n```"
    card = f"""---
{data.to_yaml()}
---

# {name.rpartition("/")[2]}

`{class_name}` from albert_tf; transformers can load it too.

```python
{use}

| | |
|---|---|
| parameters | {parameters:,} |
| layers, hidden size, heads | {", ".join(map(str, sizes))} |
| vocabulary | {config.vocab_size:,} tokens |
| labels | {", ".join(map(in_cell, config.labels))} |

{about}"""
    return "\n".join(map(escaped, card.split("\n")))


def in_cell(text: str) -> str:
    """Escapes plain text for a Markdown table cell, on one line."""
    line = escaped(re.sub(r"\s", " ", text))
    return re.sub(r"([\\`*_\[\]<>|~$&])", r"\\\1", line)
