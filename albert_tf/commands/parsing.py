"""A command's parser and its `--config` file, made from its dataclass of options.

jsonargparse 4.53 has neither dashes, aliases nor groups for a dataclass, and tyro 1.0 reads no YAML
and prints errors in boxes of several lines. They import in 0.09 and 0.07 s, argparse in 0.01 s.
"""

import argparse
import difflib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from albert_tf.errors import UserError, short_repr
from albert_tf.files import read_text, user_path
from albert_tf.options import FILE, Option, Options, Range, declared, flag, rule

_METAVARS: Final = {int: "N", float: "NUMBER", Path: "PATH", str: "TEXT"}
_FEW: Final = 5  # values that the help lists
_SILENT: Final = {"help": argparse.SUPPRESS, "default": argparse.SUPPRESS}


class Help(argparse.Action):
    """Prints the help, without the options that don't go with the choices before `--help`.

    `finetune --task tag --help` shows the options of tags.

    Args:
        options: the options and the actions that `add_options` declared.
    """

    def __init__(
        self, option_strings: Sequence[str], dest: str, options: Mapping[str, tuple[Option, Any]]
    ):
        about = "show this help and exit"
        super().__init__(option_strings, argparse.SUPPRESS, nargs=0, help=about)
        self.options = options

    def __call__(self, parser: Any, namespace: Any, *unused: Any) -> None:
        chosen = {
            name: value
            for name, value in vars(namespace).items()
            if name in self.options and value in self.options[name][0].choices
        }
        for option, action in self.options.values():
            if not option.applies(chosen):
                action.help = argparse.SUPPRESS
        parser.print_help()
        parser.exit()


def add_options(
    parser: argparse.ArgumentParser, cls: type[Any], config: bool = False
) -> dict[str, tuple[Option, Any]]:
    """Declares the options of a dataclass; an option with a single choice has no flag.

    Args:
        config: whether a run writes its options to a file, which `--config` reads.
    Returns:
        each option with argparse's action of its flag.
    """
    options = [each for each in declared(cls).values() if each.choices != (each.default,)]
    groups: dict[str | None, Any] = {None: parser}
    actions = {}
    for option in options:
        if option.group not in groups:
            groups[option.group] = parser.add_argument_group(option.group)
        actions[option.name] = option, _add(groups[option.group], option)
    if config:
        about = f"options as YAML, such as an earlier run's {FILE}"
        parser.add_argument("--config", metavar="FILE", help=about)
    needed = [_usage(option) for option in options if option.is_required or option.positional]
    parser.usage = " ".join([parser.prog, *needed, "[options]"])
    return actions


def parsed_options(
    parser: argparse.ArgumentParser, cls: type[Options], given: argparse.Namespace
) -> Options:
    """Returns the options of a command line, which override those of its `--config` file."""
    options = declared(cls)
    config = getattr(given, "config", None)
    values = {} if config is None else read_options(cls, user_path(config))
    values |= {name: value for name, value in vars(given).items() if name in options}
    missing = [each for name, each in options.items() if each.is_required and name not in values]
    if missing:
        names = ", ".join(_usage(each).split()[0] for each in missing)
        parser.error(f"the following arguments are required: {names}")
    return cls(**values)


def read_options(cls: type[Any], path: Path) -> dict[str, Any]:
    """Reads options as YAML; their names are fields or flags.

    Raises:
        UserError: not a mapping in YAML, or a name that isn't an option.
    """
    names = {
        spelling.lstrip("-").replace("-", "_"): name
        for name, option in declared(cls).items()
        for spelling in (name, *_flags(option))
    }
    values = {}
    for key, value in read_yaml(path).items():
        name = key if isinstance(key, str) else short_repr(key)
        spelled = name.replace("-", "_")
        if spelled not in names:
            near = difflib.get_close_matches(spelled, names, n=1)
            hint = f" Did you mean {names[near[0]]}?" if near else ""
            raise UserError(f"{path} must have this command's options. Received: {name}.{hint}")
        values[names[spelled]] = value
    return values


def read_yaml(path: Path) -> Mapping[Any, Any]:
    """Reads a mapping in YAML from a file of anyone's.

    Raises:
        UserError: another type, not YAML, or a value that its type refuses, such as the date
            2001-99-99.
    """
    import yaml

    class Loader(yaml.SafeLoader):
        """A loader without merges (`<<`): copies of copies would fill the memory."""

        def flatten_mapping(self, node: Any) -> None:
            pass

    try:
        found = yaml.load(read_text(path, pipes=True), Loader)
    except (OSError, UserError):
        raise
    except Exception as error:  # YAML's constructors raise whatever Python's types do.
        reason = " ".join(str(error).split())
        raise UserError(f"{path} must be YAML. Received: {reason}.") from error
    if not isinstance(found, Mapping):
        raise UserError(
            f"{path} must have a line `option: value` each. Received: {short_repr(found)}."
        )
    return found


def _add(group: Any, option: Option) -> Any:
    """Declares an option with all spellings of its flag; a boolean with a metavar takes a value.

    Returns:
        argparse's action of the flag that the help shows.
    """
    settings: dict[str, Any] = {"default": argparse.SUPPRESS}
    if option.is_tuple and not option.positional:
        settings["action"] = "append" if option.repeated else "extend"
    if option.is_tuple and not option.repeated:
        settings["nargs"] = "*" if option.positional else "+"
    elif option.positional:
        settings["nargs"] = "?"
    if option.kind is bool:
        settings["const"] = True
        settings |= {"nargs": "?"} if option.metavar else {"action": "store_const"}
    if option.kind is not bool or option.metavar:
        settings["metavar"] = _metavar(option)
    if option.positional:
        return group.add_argument(option.name, help=_help(option), **settings)
    shown, *hidden = _flags(option)
    action = group.add_argument(shown, dest=option.name, help=_help(option), **settings)
    for spelling in hidden:
        group.add_argument(spelling, dest=option.name, **{**settings, **_SILENT})
    if option.kind is bool:
        flags = f"--no-{shown[2:]}", f"--no{option.name}"
        group.add_argument(*flags, dest=option.name, action="store_const", const=False, **_SILENT)
    return action


def _flags(option: Option) -> list[str]:
    """Returns the flag that the help shows, then those that it leaves out."""
    names = (option.name, *option.original)
    spelled = [spelling for name in names for spelling in (name.replace("_", "-"), name)]
    return [f"--{name}" for name in dict.fromkeys(spelled)]


def _usage(option: Option) -> str:
    if not option.positional:
        return f"{_flags(option)[0]} {_metavar(option)}"
    return _metavar(option) if option.is_required else f"[{_metavar(option)} ...]"


def _metavar(option: Option) -> str:
    if option.choices and option.metavar is None:
        return f"{{{','.join(option.choices)}}}"
    return option.metavar or _METAVARS[option.kind]


def _help(option: Option) -> str:
    """Returns the help with the default, and the few values that the option goes with."""
    parts, default = [option.help], option.default if option.is_tuple else (option.default,)
    if not (option.is_required or default in ((), (None,), (False,), ("",))):
        shown = " ".join("true" if each is True else str(each) for each in default)
        parts.append(f"default: {shown}")
    for name, allowed in option.only.items():
        if isinstance(allowed, Range) or len(allowed) <= _FEW:
            parts.append(f"needs {flag(name)} {rule(allowed)}")
    return "; ".join(parts).replace("%", "%%")
