"""Rows of Parquet files, and of data sets on Hugging Face's hub by name."""

import contextlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from albert_tf.errors import UserError, listed, short_repr

PREFIX: Final = "hub:"
PARQUET: Final = ".parquet"
INSTALL: Final = "pip install 'albert_tf[hub]'"


def is_hub(data: Path) -> bool:
    """Whether a path names a data set on the hub: `hub:owner/name/config@revision`."""
    return data.parts[:1] != () and data.parts[0].startswith(PREFIX)


def split(data: Path, name: str) -> Path:
    """Returns the location of a split: `hub:owner/name/config@revision/train`.

    Args:
        name: "train", "dev", "test" or another of the data set's.
    """
    return data / {"dev": "validation"}.get(name, name)


def rows(path: Path, encoding: str | None = None) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields the place and the values of each row of a Parquet file, or of a split on the hub.

    Raises:
        UserError: an encoding is given, which these don't have.
    """
    if encoding is not None:
        raise UserError(
            f"--encoding is for files of text. Received: {encoding} with {path}. Leave it out."
        )
    if is_hub(path):
        return _split_rows(path)
    return _parquet_rows(path)


def _split_rows(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields the place and the values of each row of a split.

    No code of a data set's repository is run. The numbers of a `ClassLabel` become its names, -1
    (no label) None.

    Raises:
        UserError: `datasets` isn't installed, there is no such data set, configuration or split,
            or the hub can't be reached.
    """
    try:
        import datasets
    except ImportError as error:
        raise UserError(
            f"Data on the hub needs the package datasets. Received: {path}. Do {INSTALL}."
        ) from error
    name, _, revision = str(path.parent).removeprefix(PREFIX).partition("@")
    dataset = _load(datasets, name, revision or None, path)
    return _named(path, dataset, _class_names(dataset.features.to_dict()))


def _load(datasets: Any, name: str, revision: str | None, path: Path) -> Any:
    """Loads a split; `a/b` is the data set b of a, or else the configuration b of a."""
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
        except Exception as error:  # of the hub, of files and of the arguments: each has its own
            errors = [error]
            break
    reason = next(iter(str(errors[0]).splitlines()), type(errors[0]).__name__)
    raise UserError(
        "Data on the hub must be hub:owner/name, /config and @revision where there are several, "
        f"with the split {path.name}. Received: {path.parent}: {reason} Check the name and the "
        "network, or download the files and name their folder."
    ) from errors[0]


def _parquet_rows(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields the place and the values of each row, with the names of classes as `_split_rows` does.

    Text may be stored as bytes. A value that Python can't hold, such as a year beyond 9999 or
    text that isn't UTF-8, is the error that says so: a row is refused where it is used.

    Raises:
        UserError: `pyarrow` isn't installed, two columns have one name, or the file is damaged.
    """
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise UserError(
            f"A .parquet file needs the package pyarrow. Received: {path}. Do {INSTALL}."
        ) from error
    try:
        with parquet.ParquetFile(path) as file:
            names = file.schema_arrow.names
            if twice := [name for name in dict.fromkeys(names) if names.count(name) > 1]:
                raise UserError(
                    f"A column must have a name of its own. Received: {path}, with "
                    f"{listed(map(repr, twice))} more than once. Rename one."
                )
            features = _features(file.schema_arrow.metadata or {})
            rows = (
                dict(zip(names, values, strict=True))
                for batch in file.iter_batches()
                for values in zip(*map(_values, batch.columns), strict=True)
            )
            yield from _named(path, rows, _class_names(features))
    except (pyarrow.ArrowException, OSError) as error:
        raise UserError(
            f"A .parquet file must be whole. Received: {path}: {error}. Copy it again from its "
            "source."
        ) from error


def _values(column: Any) -> list[Any]:
    """Returns the values of a column, or of one row of it, as Python's."""
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
    """Returns the description of the columns that `datasets` writes into a schema."""
    with contextlib.suppress(ValueError, KeyError, TypeError):
        return dict(json.loads(metadata[b"huggingface"])["info"]["features"])
    return {}


def _class_names(features: Mapping[str, Any]) -> dict[str, Sequence[str]]:
    """Returns the names of classes by column, also of columns with lists of classes."""
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


def _named(
    path: Path, rows: Iterable[dict[str, Any]], names: Mapping[str, Sequence[str]]
) -> Iterator[tuple[str, dict[str, Any]]]:
    for number, row in enumerate(rows, start=1):
        location = f"{path}, row {number}"
        for column, known in names.items():
            if column not in row:  # was renamed or dropped after `datasets` wrote its description
                continue
            value = row[column]
            several = isinstance(value, list)
            named = [_name(item, known, location) for item in (value if several else [value])]
            row[column] = named if several else named[0]
        yield location, row


def _name(value: Any, names: Sequence[str], location: str) -> str | None:
    if value is None or value == -1:
        return None
    if isinstance(value, str):  # a name already, in a file that was written again
        return value
    if not isinstance(value, int | float) or value not in range(len(names)):
        raise UserError(
            f"A class must be a number of {listed(names)}. "
            f"Received: {short_repr(value)}, {location}."
        )
    return names[int(value)]
