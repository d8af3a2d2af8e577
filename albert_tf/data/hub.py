"""Rows of Parquet files, and of datasets on the Hugging Face Hub."""

import contextlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from albert_tf.errors import UserError, listed, short_repr

PREFIX: Final = "hub:"
PARQUET: Final = ".parquet"
INSTALL: Final = "pip install 'albert_tf[datasets]'"


def is_hub(data: Path) -> bool:
    """Returns whether a path names a dataset on the Hub: `hub:owner/name/config@revision`."""
    return data.parts[:1] != () and data.parts[0].startswith(PREFIX)


def split(data: Path, name: str) -> Path:
    """Returns the path of a split: `hub:owner/name/config@revision/train`."""
    return data / {"dev": "validation"}.get(name, name)


def rows(path: Path, encoding: str | None = None) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yields the 1-based number and values of each row in a Parquet file or a split on the Hub.

    Raises:
        UserError: an encoding was passed (only text files have one); `pyarrow` or `datasets` isn't
            installed; the file is damaged or repeats a column name; or the split can't be loaded.
    """
    if encoding is not None:
        raise UserError(
            f"--encoding applies only to text files. Received: {encoding} with {path}. Omit it."
        )
    if is_hub(path):
        return _split_rows(path)
    return _parquet_rows(path)


def _split_rows(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yields the number and the values of each row of a split.

    No code from the dataset's repository is run. Class ids in a `ClassLabel` column become class
    names, and -1 (no label) becomes None.
    """
    try:
        import datasets
    except ImportError as error:
        raise UserError(f"{path} requires the datasets package. Run {INSTALL}.") from error
    name, _, revision = str(path.parent).removeprefix(PREFIX).partition("@")
    dataset = _load(datasets, name, revision or None, path)
    return _name_classes(path, dataset, _class_names(dataset.features.to_dict()))


def _load(datasets: Any, name: str, revision: str | None, path: Path) -> Any:
    """Loads a split. `a/b` is dataset `a/b` or, if that doesn't exist, configuration `b` of `a`."""
    owner, *rest = name.split("/")
    ways: list[tuple[str, str | None]] = [
        ("/".join([owner, *rest[:1]]), "/".join(rest[1:]) or None)
    ]
    if len(rest) == 1:
        ways.append((owner, rest[0]))
    errors = []
    for repository, config in ways:
        try:
            return datasets.load_dataset(repository, config, split=path.name, revision=revision)
        except (datasets.exceptions.DatasetNotFoundError, ConnectionError) as error:
            errors.append(error)
        except Exception as error:  # `datasets` raises many exception classes
            errors = [error]
            break
    reason = next(iter(str(errors[0]).splitlines()), type(errors[0]).__name__)
    raise UserError(
        f"Can't load the split {path.name} of {path.parent}: {reason} Check the network and the "
        "name (hub:owner/name/config@revision, where /config and @revision are optional), or "
        "download the files and pass their folder."
    ) from errors[0]


def _parquet_rows(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yields the number and values of each row, with class names as in `_split_rows`.

    Text may be stored as bytes. A value that Python can't represent, such as a year beyond 9999 or
    text that isn't UTF-8, becomes an exception object. The row is rejected only if this value is
    used.
    """
    require_pyarrow(path)
    import pyarrow
    from pyarrow import parquet

    try:
        with parquet.ParquetFile(path) as file:
            names = file.schema_arrow.names
            if repeated := [name for name in dict.fromkeys(names) if names.count(name) > 1]:
                raise UserError(
                    f"Column names must be unique. Received: {path}, with "
                    f"{listed(map(repr, repeated))} more than once. Rename one."
                )
            features = _features(file.schema_arrow.metadata or {})
            rows = (
                dict(zip(names, values, strict=True))
                for batch in file.iter_batches()
                for values in zip(*map(_values, batch.columns), strict=True)
            )
            yield from _name_classes(path, rows, _class_names(features))
    except (pyarrow.ArrowException, OSError) as error:
        raise UserError(
            f"{path} is not a valid .parquet file: {error}. Copy it again from its source."
        ) from error


def require_pyarrow(path: Path) -> None:
    """Raises a `UserError` if Parquet files can't be read or written."""
    try:
        import pyarrow.parquet  # noqa: F401
    except ImportError as error:
        raise UserError(f"{path} requires the pyarrow package. Run {INSTALL}.") from error


def _values(column: Any) -> list[Any]:
    """Converts a column to Python objects. A value that fails is replaced by its exception."""
    import pyarrow

    kinds = pyarrow.types
    is_bytes = kinds.is_binary(column.type) or kinds.is_large_binary(column.type)
    try:
        return list((column.cast(pyarrow.large_string()) if is_bytes else column).to_pylist())
    except (ValueError, OverflowError, pyarrow.ArrowException) as error:
        if len(column) == 1:
            return [error]
        return [value for row in range(len(column)) for value in _values(column.slice(row, 1))]


def _features(metadata: Mapping[bytes, bytes]) -> Mapping[str, Any]:
    """Returns the column descriptions that `datasets` stores in a Parquet schema."""
    with contextlib.suppress(ValueError, KeyError, TypeError):
        return dict(json.loads(metadata[b"huggingface"])["info"]["features"])
    return {}


def _class_names(features: Mapping[str, Any]) -> dict[str, Sequence[str]]:
    """Returns the class names of each column that contains class ids or lists of class ids."""
    items = {
        column: feature.get("feature", feature)
        for column, feature in features.items()
        if isinstance(feature, dict)
    }
    return {
        column: item["names"]
        for column, item in items.items()
        if isinstance(item, dict)
        and item.get("_type") == "ClassLabel"
        and isinstance(item.get("names"), list)
    }


def _name_classes(
    path: Path, rows: Iterable[dict[str, Any]], names: Mapping[str, Sequence[str]]
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yields each row with its number, and replaces class ids with class names."""
    for number, row in enumerate(rows, start=1):
        for column, known in names.items():
            if column not in row:  # renamed or dropped after `datasets` wrote its description
                continue
            value = row[column]
            several = isinstance(value, list)
            values = value if several else [value]
            labels = [_class_name(item, known, f"{path}, row {number}") for item in values]
            row[column] = labels if several else labels[0]
        yield number, row


def _class_name(value: Any, names: Sequence[str], location: str) -> str | None:
    if value is None or value == -1:
        return None
    if isinstance(value, str):  # a class name; the file was saved again with names
        return value
    if not isinstance(value, int | float) or value not in range(len(names)):
        raise UserError(
            f"A class id must be a 0-based index into {listed(names)}. "
            f"Received: {short_repr(value)} ({location})."
        )
    return names[int(value)]
