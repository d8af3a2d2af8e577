"""Derives a command's parser and its `--config` file from the dataclass of its options.

For dataclasses, jsonargparse 4.53 doesn't support dashes, aliases, or groups. tyro 1.0 doesn't read
YAML and prints errors in boxes. Importing them takes 0.09 and 0.07 s; argparse takes 0.01 s.
"""

import argparse
import difflib
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from albert_tf.errors import UserError, short_repr
from albert_tf.files import read_text, user_path
from albert_tf.options import FILE, Option, Options, Range, declared, flag, rule

_METAVARS: Final = {int: "N", float: "NUMBER", Path: "PATH", str: "TEXT"}
_FEW: Final = 5  # maximum number of values that the help lists
_SILENT: Final = {"help": argparse.SUPPRESS, "default": argparse.SUPPRESS}


class Help(argparse.Action):
    """Prints the help, limited to the options that apply to the choices before `--help`.

    For example, `finetune --task tag --help` shows the options for tagging.

    Args:
        options: the options and actions returned by `add_options`.
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
    """Adds the options of a dataclass to a parser.

    Args:
        config: whether to add `--config`, for commands that save their options.
    Returns:
        Each option and the argparse action of its flag, keyed by the option's name.
    """
    options = declared(cls).values()
    groups: dict[str | None, Any] = {None: parser}
    actions = {}
    for option in options:
        if option.group not in groups:
            groups[option.group] = parser.add_argument_group(option.group)
        actions[option.name] = option, _add(groups[option.group], option)
    if config:
        about = f"YAML file with options, such as the {FILE} of an earlier run"
        parser.add_argument("--config", metavar="FILE", help=about)
    needed = [_usage(option) for option in options if option.is_required or option.positional]
    parser.usage = " ".join([parser.prog, *needed, "[options]"])
    return actions


def parsed_options(
    parser: argparse.ArgumentParser, cls: type[Options], given: argparse.Namespace
) -> Options:
    """Returns the options of a command line, which override those in its `--config` file."""
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
    """Reads options from a YAML file, keyed by field names or flags."""
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
            raise UserError(f"{path} contains {name}, which is not an option here.{hint}")
        if names[spelled] in values:
            raise _repeated(path, name)
        values[names[spelled]] = value
    return values


def read_yaml(path: Path) -> Mapping[Any, Any]:
    """Reads a YAML mapping from an untrusted file. Values may be invalid (2001-99-99)."""
    import yaml

    class Loader(yaml.SafeLoader):
        """A loader that rejects repeated keys.

        It also rejects the merge key `<<`, because nested merges could exhaust memory.
        """

        def flatten_mapping(self, node: Any) -> None:
            pass

        def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
            mapping = super().construct_mapping(node, deep)
            if len(mapping) < len(node.value):
                names = Counter(key.value for key, _ in node.value if isinstance(key.value, str))
                raise _repeated(path, names.most_common(1)[0][0])
            return mapping

    try:
        found = yaml.load(read_text(path, pipes=True), Loader)
    except (OSError, UserError):
        raise
    except Exception as error:  # YAML's constructors raise whatever Python's types raise
        reason = " ".join(str(error).split())
        raise UserError(f"{path} is not valid YAML: {reason}.") from error
    if not isinstance(found, Mapping):
        raise UserError(
            f"{path} must consist of `option: value` lines. Received: {short_repr(found)}."
        )
    return found


def _repeated(path: Path, name: str) -> UserError:
    return UserError(f"{path} contains {name} more than once. Keep one of these lines.")


def _add(group: Any, option: Option) -> Any:
    """Adds an option with every spelling of its flag and returns the action shown in the help."""
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
    """Returns the flag that the help shows, followed by the hidden ones."""
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
    """Returns an option's help and default, and the options that it requires if these are few."""
    parts, default = [option.help], option.default if option.is_tuple else (option.default,)
    if not (option.is_required or default in ((), (None,), (False,), ("",))):
        shown = " ".join("true" if each is True else str(each) for each in default)
        parts.append(f"default: {shown}")
    for name, allowed in option.only.items():
        if isinstance(allowed, Range) or len(allowed) <= _FEW:
            parts.append(f"requires {flag(name)} {rule(allowed)}")
    return "; ".join(parts).replace("%", "%%")
