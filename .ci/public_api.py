"""Writes tests/public_api.txt: the public names with their signatures, and the commands' options.

    python .ci/public_api.py

Changes to what docs/stability.md promises can then be reviewed as one diff. Annotations are left
out, as are names that other packages define, so that the file is the same with every version of
Python and Keras. tests/test_public_api.py compares it with the code.
"""

import argparse
import inspect
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import albert_tf_export

import albert_tf
from albert_tf import assets, cli, data, layers, pipelines
from albert_tf.tasks import BY_MODEL, ENCODER

FILE = Path(__file__).resolve().parents[1] / "tests" / "public_api.txt"
CONSTANTS = (bool, int, float, str, tuple, type(None))
# Keras methods whose arguments we document. We override others too, as hooks that Keras calls.
KERAS = {"call", "compile", "evaluate", "export", "fit", "from_config", "get_config", "predict"}
KERAS |= {"predict_on_batch", "test_on_batch", "train_on_batch"}
# Not for users, but without a leading underscore, because other files of the package call them.
INTERNAL = set(
    """
    act activation_of add_variables at_depth before_save build_added check compute_outputs
    dropouts encode_examples encode_plain files found from_checkpoint group
    head_outputs in_graph in_parts is_due is_late kept_lengths known_inputs label_counts
    load load_assets loss_of loss_terms loss_weight metrics_of model_bytes of output_shape
    outputs_of parallel_batches passed read restore rows save save_assets saved_class
    settings stop_if_interrupted stored_groups surround tied_table tokens_of tokens_of_words
    trust_ratio untrained_parts with_seeds write
    """.split()  # noqa: SIM905
)


def public_api() -> str:
    """Returns the content of the file."""
    names = {name: getattr(albert_tf, name) for name in albert_tf.__all__ if name[0] != "_"}
    for module in (albert_tf_export, assets, data, layers):
        listed = getattr(module, "__all__", ("load_reviews", "reviews"))
        prefix = f"{module.__name__.removeprefix('albert_tf.')}."
        names |= {prefix + name: getattr(module, name) for name in listed if name not in names}
    methods = {name: {*members(names[name]).values()} for name in BY_MODEL}
    every = set.intersection(*methods.values())
    task = set.intersection(*(methods[name] for name in BY_MODEL if name != ENCODER.model))
    lines = section("every model", every) + section("every model with a task", task - every)
    for name, value in sorted(names.items()):
        own = {*members(value).values()} if inspect.isclass(value) else set()
        known = every if name == ENCODER.model else task if name in BY_MODEL else set()
        lines += section(f"{name}{signature(constructor(value))}", own - known)
    for task, pipeline in pipelines.PIPELINES.items():
        lines.append(f"pipeline({task!r}){signature(pipeline.Options)}")
        lines.append(f"  __call__{signature(pipeline.__call__)}")
    return "\n".join([*lines, *commands("albert-tf", cli._parser()), ""])


def section(title: str, lines: Iterable[str]) -> list[str]:
    return [title, *(f"  {line}" for line in sorted(lines))]


def constructor(value: Any) -> Any:
    """Returns the function that creates an instance of a class, if we define it."""
    if not inspect.isclass(value):
        return value
    found = (
        vars(each)[name]
        for each in ours(value)
        for name in ("__init__", "__new__")
        if name in vars(each)
    )
    return next(found, None)


def ours(cls: type) -> list[type]:
    """Returns the class and its bases, without those of other packages."""
    return [each for each in cls.__mro__ if each.__module__.startswith("albert_tf")]


def others(cls: type) -> list[type]:
    """Returns the bases from other packages."""
    return [each for each in cls.__mro__ if each not in ours(cls) and each is not object]


def members(cls: type) -> dict[str, str]:
    """Returns the public methods, with their signatures, and the properties of a class by name."""
    found: dict[str, str] = {}
    for name, value in ((name, value) for each in ours(cls) for name, value in vars(each).items()):
        function = getattr(value, "__func__", value)
        of_keras = name not in KERAS and any(name in vars(base) for base in others(cls))
        is_private = name.startswith("_") and name != "__call__"
        if is_private or name in found or name in INTERNAL or of_keras:
            continue
        if (inspect.getdoc(function) or "").startswith("Raises UserError."):
            continue  # a name from transformers, in the table of tests/test_documented_api.py
        if inspect.isfunction(function):
            found[name] = f"{name}{signature(function)}"
        elif isinstance(value, property):
            found[name] = name
    return found


def signature(function: Any) -> str:
    """Returns the arguments of a function without annotations; `…` is any other default."""
    if function is None:
        return ""
    found = inspect.signature(function)
    parameters = [
        each.replace(annotation=each.empty, default=plain(each.default))
        for each in found.parameters.values()
        if each.name not in ("self", "cls", "_cls")
    ]
    return str(found.replace(parameters=parameters, return_annotation=found.empty))


def plain(value: Any) -> Any:
    return value if value is inspect.Parameter.empty or isinstance(value, CONSTANTS) else Other()


class Other:
    def __repr__(self) -> str:
        return "…"


def commands(name: str, parser: argparse.ArgumentParser) -> Iterator[str]:
    """Yields each command, and the flags and choices of its options."""
    parts: Mapping[str, argparse.ArgumentParser] = {}
    yield name
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            parts = action.choices
            continue
        if action.help == argparse.SUPPRESS:  # another spelling
            continue
        choices = f" {{{','.join(map(str, action.choices))}}}" if action.choices else ""
        yield f"  {', '.join(action.option_strings) or action.dest}{choices}"
    for part, subparser in parts.items():
        yield from commands(f"{name} {part}", subparser)


if __name__ == "__main__":
    FILE.write_text(public_api(), encoding="utf-8", newline="\n")
