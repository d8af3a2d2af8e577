"""Options, declared once: a dataclass field contains the default, help, range, and flags.

The dataclass converts and checks its values. It also defines the signature of a public function,
the parser of a command, and the keys of the command's `--config` file (`albert_tf.cli.parsing`).
"""

import dataclasses
import functools
import inspect
import math
import operator
import os
from collections.abc import Callable, Mapping, Sequence, Set
from numbers import Integral, Real
from pathlib import Path
from types import MappingProxyType, NoneType
from typing import (
    Any,
    Final,
    Literal,
    NamedTuple,
    NoReturn,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
)

from albert_tf.errors import UserError, short_repr
from albert_tf.files import user_path, written_atomically

Options = TypeVar("Options")
Result = TypeVar("Result")
Class = TypeVar("Class")
FILE: Final = "options.yaml"
DecayForm = Literal["original", "usual"]  # see `WarmupPolynomialDecay`
# Upper bounds for open ranges, because values become int32 and float32.
LARGEST_VALUES: Final = {int: 2**31 - 1, float: 3e38}
_TRUTHS: Final = {"true": True, "t": True, "1": True, "false": False, "f": False, "0": False}
_NAMES: Final = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "text",
    Path: "a path",
}


class Range(NamedTuple):
    """Finite numbers between bounds; `above` and `below` are exclusive."""

    minimum: float = -math.inf
    maximum: float = math.inf
    above: float = -math.inf
    below: float = math.inf

    def allows(self, value: float) -> bool:
        """Returns whether the value is finite and lies within all bounds."""
        inside = self.minimum <= value <= self.maximum and self.above < value < self.below
        return inside and abs(value) != math.inf

    @property
    def is_open(self) -> bool:
        """Returns whether there is no upper bound."""
        return min(self.maximum, self.below) == math.inf

    def __str__(self) -> str:
        if math.isfinite(self.minimum) and math.isfinite(self.maximum):
            return f"between {self.minimum} and {self.maximum}"
        words = ("{} or more", "{} or less", "above {}", "below {}")
        pairs = [pair for pair in zip(words, self, strict=True) if math.isfinite(pair[1])]
        return " and ".join(word.format(bound) for word, bound in pairs) or "finite"


POSITIVE: Final = Range(above=0)
COUNT: Final = Range(minimum=1)
NOT_NEGATIVE: Final = Range(minimum=0)
RATE: Final = Range(minimum=0, below=1)
SHARE: Final = Range(minimum=0, maximum=1)
SEED: Final = Range(minimum=0, below=2**32)
VOCABULARY: Final = Range(minimum=1, maximum=1_000_000)  # number of candidate pieces in training
CHARACTER_COVERAGE: Final = 0.99995  # as in the published vocabularies
THREADS: Final = 16  # SentencePiece's default; fixed because it affects how sums are rounded


def cores() -> int:
    """Returns the number of cores that this process may use, the default number of workers."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Option(NamedTuple):
    """A declared option. `kind` is the type of the value, or of its items if `is_tuple` is True."""

    name: str
    kind: Any
    default: Any
    help: str
    is_tuple: bool = False
    is_optional: bool = False
    choices: tuple[str, ...] = ()
    range: Range | None = None
    is_path: bool = False
    original: tuple[str, ...] = ()
    group: str | None = None
    metavar: str | None = None
    positional: bool = False
    repeated: bool = False
    may_be_empty: bool = False
    only: Mapping[str, Sequence[Any] | Range] = MappingProxyType({})
    needs: str | None = None
    excludes: Sequence[str] = ()
    instead_of: str | None = None
    multiple_of: str | None = None
    below: str | None = None
    none: str | None = None
    decisive: bool = True

    @property
    def is_required(self) -> bool:
        """Returns whether there is no default."""
        return self.default is dataclasses.MISSING

    def applies(self, values: Mapping[str, Any]) -> bool:
        """Returns whether `only` allows the option with these (possibly incomplete) values."""
        return all(
            name not in values or _is_among(values[name], allowed)
            for name, allowed in self.only.items()
        )

    def converted(self, value: Any) -> Any:
        """Converts a value that comes from a caller, a flag, or a file."""
        if self.is_optional and (value is None or value == self.none):
            return None
        if self.is_tuple:
            items = value if isinstance(value, list | tuple) else [value]
            if self.kind is int:  # for example, 16,64,128
                items = [
                    part
                    for item in items
                    for part in (item.split(",") if isinstance(item, str) else [item])
                ]
            return tuple(self._one(item) for item in items)
        return self._one(value)

    def _one(self, value: Any) -> Any:
        try:
            result = _convert(self.kind, value)
            if self.is_path and result.startswith("~"):
                result = str(user_path(result))
        except UserError:
            raise
        except (TypeError, ValueError, KeyError, OverflowError):
            words = " or ".join(filter(None, (_NAMES[self.kind], self.none)))
            raise self._error(words, value) from None
        text = str(value) if self.kind in (str, Path) else "0"
        if "\0" in text or not (text or self.may_be_empty):
            raise self._error("non-empty text without zero bytes", value)
        if self.choices and result not in self.choices:
            raise self._error(rule(self.choices), value)
        if self.range is not None and not self.range.allows(result):
            raise self._error(str(self.range), result)
        largest = LARGEST_VALUES.get(self.kind, math.inf)
        if self.range and self.range.is_open and result > largest:
            raise self._error(f"{largest:,} or less", result)
        return result

    def _error(self, words: str, value: Any) -> UserError:
        return UserError(f"{self.name} must be {words}. Received: {short_repr(value)}.")


def option(default: Any = dataclasses.MISSING, *, help: str, **details: Any) -> Any:
    """Declares a field of a dataclass as an option.

    The type is bool, int, float, str, Path, a `Literal` of strings, or a tuple of such values.

    Args:
        default: default value, or None if computed later. An option without a default is required.
        help: a verb phrase for a switch, a noun phrase for a value; the default is appended.
        **details: any of the following:
            - `range` and `choices` (unless a `Literal` lists them): the valid values.
            - `original`: additional flags, not shown in the help.
            - `is_path`: whether text can be a path, in which case `~` is expanded.
            - `group`: heading in the help.
            - `metavar`: name of the value in the help; makes the flag of a boolean take a value.
            - `positional`: whether the argument is positional.
            - `repeated`: whether the flag can be repeated, each time with one value.
            - `may_be_empty`: whether empty text is valid.
            - `none`: the word for None on the command line.
            - `decisive`: False if the option can change when a run resumes, such as an interval or
              a device. Paths can change too, because file contents are compared instead.
            - `only`: the required values of other options, as in `{"engine": ("spark",)}`.
            - `needs`: an option that must also be set.
            - `excludes`: options that must not be set.
            - `instead_of`: an alternative option; exactly one of the two must be set.
            - `multiple_of`: the option whose value must divide the number.
            - `below`: the option whose value must exceed the number.
    """
    return dataclasses.field(default=default, metadata={"help": help, **details})


def declared(cls: type[Any]) -> dict[str, Option]:
    """Returns the options of a dataclass by name."""
    hints = get_type_hints(cls)
    return {
        field.name: Option(
            name=field.name,
            default=field.default,
            **{**_kind(hints[field.name]), **field.metadata},
        )
        for field in dataclasses.fields(cls)
        if field.metadata
    }


class Checked:
    """Base class of frozen option dataclasses. It converts and checks the values.

    Raises:
        UserError: if a value has the wrong type, is not one of the choices, or is out of range; or
            if the combination of options is invalid.
    """

    def __post_init__(self) -> None:
        fields = declared(type(self))
        for name, option in fields.items():
            object.__setattr__(self, name, option.converted(getattr(self, name)))
        given = {name for name in fields if getattr(self, name) != fields[name].default}
        for option in fields.values():
            _check_relations(option, vars(self), given)


def _check_relations(option: Option, values: Mapping[str, Any], given: Set[str]) -> None:
    """Raises UserError if the values violate a constraint between options.

    Args:
        given: names of the options whose values differ from their defaults.
    """
    name, value, is_given = option.name, values[option.name], option.name in given
    if (other := option.instead_of) and is_given == (other in given):
        both = f"{flag(name)} can't be used with {flag(other)}."
        raise UserError(both if is_given else f"Pass {flag(other)} or {flag(name)}.")
    for other, fits, words in (
        (option.multiple_of, lambda number, other: number % other == 0, "a multiple of"),
        (option.below, operator.lt, "below"),
    ):
        if other and value is not None and not fits(value, values[other]):
            received = f"{name}={value}, {other}={values[other]}"
            raise UserError(f"{name} must be {words} {other}. Received: {received}.")
    if not is_given:
        return
    if option.needs and option.needs not in given:
        raise UserError(f"{flag(name)} requires {flag(option.needs)}.")
    for other in option.excludes:
        if other in given:
            raise UserError(f"{flag(name)} can't be used with {flag(other)}.")
    for other, allowed in option.only.items():
        if not _is_among(values[other], allowed):
            raise UserError(
                f"{flag(name)} requires {flag(other)} {rule(allowed)}. "
                f"Received: {flag(other)} {values[other]}."
            )


def flag(name: str) -> str:
    """Returns the flag of an option."""
    return f"--{name.replace('_', '-')}"


def rule(allowed: Sequence[Any] | Range) -> str:
    """Returns allowed values as text, such as "1 or more" or "a, b or c"."""
    if isinstance(allowed, Range):
        return str(allowed)
    *others, last = map(str, allowed)
    return f"{', '.join(others)} or {last}" if others else last


def _is_among(value: Any, allowed: Sequence[Any] | Range) -> bool:
    return allowed.allows(value) if isinstance(allowed, Range) else value in allowed


def part(cls: type[Options], options: Any, **changes: Any) -> Options:
    """Returns the subset of `options` that `cls` declares, as an instance of `cls`."""
    names = cls.__dataclass_fields__  # type: ignore[attr-defined]
    return cls(**{name: getattr(options, name) for name in names if name not in changes}, **changes)


def decisive(options: Any) -> dict[str, Any]:
    """Returns the options that affect what a run computes, as JSON values.

    Omits options that don't apply, such as those for other tasks.
    """
    return {
        name: _plain(getattr(options, name))
        for name, option in declared(type(options)).items()
        if option.decisive and option.applies(vars(options))
    }


def save_options(options: Any, folder: Path) -> None:
    """Writes `options.yaml`, which `--config` reads."""
    import yaml

    names = (name for name in declared(type(options)) if name != "force")  # applies to one run
    values = ((name, getattr(options, name)) for name in names)
    plain = {name: _plain(value) for name, value in values if value is not None}
    text = yaml.safe_dump(plain, sort_keys=False, allow_unicode=True)
    with written_atomically(folder / FILE, force=True) as path:
        path.write_text(text, encoding="utf-8", newline="\n")


def accepts_keywords(
    cls: type[Any],
) -> Callable[[Callable[..., Result]], Callable[..., Result]]:
    """Lets callers pass the fields of a function's last argument, a `cls`, as keywords."""

    def decorate(function: Callable[..., Result]) -> Callable[..., Result]:
        signature, fields = inspect.signature(function), inspect.signature(cls).parameters
        *leading, _ = signature.parameters.values()
        signature = signature.replace(parameters=[*leading, *fields.values()])

        @functools.wraps(function)
        def call(*arguments: Any, **values: Any) -> Result:
            if arguments and isinstance(arguments[-1], cls) and not values:
                return function(*arguments)
            try:
                given = signature.bind(*arguments, **values).arguments
            except TypeError as error:
                raise TypeError(f"{function.__name__}() {error}") from None
            first = [given.pop(parameter.name) for parameter in leading]
            return function(*first, cls(**given))

        call.__signature__ = signature  # type: ignore[attr-defined]
        lines = [f"    {name}: {option.help}." for name, option in declared(cls).items()]
        call.__doc__ = "\n".join([inspect.getdoc(function) or "", "", "Options:", *lines])
        return call

    return decorate


def checks_numbers(
    **ranges: Range,
) -> Callable[[Callable[..., Result]], Callable[..., Result]]:
    """Declares the ranges of a function's numeric arguments and checks them in every call.

    An argument must be an integer unless it is annotated as a float. None is valid if the
    annotation allows it.

    Raises:
        UserError: if an argument has the wrong type or is out of range.
    """

    def decorate(function: Callable[..., Result]) -> Callable[..., Result]:
        signature = inspect.signature(function)
        kinds = {
            name: Real if "float" in str(signature.parameters[name].annotation) else Integral
            for name in ranges
        }
        optional = {name for name in ranges if "None" in str(signature.parameters[name].annotation)}

        @functools.wraps(function)
        def call(*arguments: Any, **values: Any) -> Result:
            given = signature.bind(*arguments, **values).arguments
            for name in ranges.keys() & given.keys():
                if given[name] is not None or name not in optional:
                    check_number(name, given[name], ranges[name], kinds[name])
            return function(*arguments, **values)

        call.__signature__ = signature  # type: ignore[attr-defined]  # Keras reads it
        return call

    return decorate


def check_number(name: str, value: Any, allowed: Range, kind: Any = Integral) -> None:
    """Raises UserError unless the value is a number of this kind (not bool) within the range."""
    is_number = isinstance(value, kind) and not isinstance(value, bool)
    if not is_number or not allowed.allows(value):
        number = "a whole number" if kind in (int, Integral) else "a number"
        raise UserError(f"{name} must be {number}, {allowed}. Received: {short_repr(value)}.")


def without_foreign(
    arguments: Mapping[str, Any], foreign: Mapping[str, tuple[Any, str]]
) -> dict[str, Any]:
    """Drops transformers arguments that have no effect here and rejects unsupported values.

    Args:
        arguments: arguments by name. Those that aren't in `foreign` are returned.
        foreign: for each argument, the only accepted value, and what to do instead of passing a
            different one.
    """
    for name, (same, way_out) in foreign.items():
        value = arguments.get(name)
        is_same = isinstance(value, type(same)) and value == same
        if value is not None and not is_same:
            raise UserError(
                f"{name} must be {same} or left out. Received: "
                f"{name}={short_repr(value)}. {way_out}"
            )
    return {name: value for name, value in arguments.items() if name not in foreign}


def without_methods(ways_out: Mapping[str, str]) -> Callable[[type[Class]], type[Class]]:
    """Adds methods with other libraries' names; each raises an error that names its replacement.

    Keeps existing methods, because a Keras model on torch has `to` and `eval`.

    Args:
        ways_out: what to write instead, keyed by method name, or by "." plus an attribute name.
    """

    def decorate(cls: type[Class]) -> type[Class]:
        for name, way_out in ways_out.items():
            if name.startswith("."):
                setattr(cls, name[1:], _MissingAttribute(name[1:], way_out))
            elif not hasattr(cls, name):
                setattr(cls, name, _missing_method(name, way_out))
        return cls

    return decorate


class _MissingAttribute:
    """Raises AttributeError when it is read. Unlike a property, it can be set in a subclass."""

    def __init__(self, name: str, way_out: str):
        self.message = f"{name} doesn't exist. {way_out}"

    def __get__(self, instance: Any, owner: Any = None) -> NoReturn:
        raise AttributeError(self.message)


def _missing_method(name: str, way_out: str) -> Callable[..., NoReturn]:
    def method(*args: Any, **kwargs: Any) -> NoReturn:
        raise UserError(f"{name}() is not supported. {way_out}")

    method.__name__, method.__doc__ = name, f"Raises UserError. {way_out}"
    return method


def _kind(hint: Any) -> dict[str, Any]:
    """Returns the fields of `Option` that follow from a type annotation."""
    if NoneType in get_args(hint):
        (kept,) = (each for each in get_args(hint) if each is not NoneType)
        return {**_kind(kept), "is_optional": True}
    if get_origin(hint) is tuple:
        return {**_kind(get_args(hint)[0]), "is_tuple": True}
    if get_origin(hint) is Literal:
        return {"kind": str, "choices": get_args(hint)}
    return {"kind": hint}


def _convert(kind: Any, value: Any) -> Any:
    if kind is bool:
        if isinstance(value, list | tuple | dict):  # str(value) may never end
            raise TypeError
        return value if isinstance(value, bool) else _TRUTHS[str(value).lower()]
    if kind in (int, float) and isinstance(value, bool):
        raise TypeError
    if kind is int and not isinstance(value, str):
        return operator.index(value)
    if kind is str:
        return os.fspath(value)
    return user_path(value) if kind is Path else kind(value)


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return str(value) if isinstance(value, Path) else value
