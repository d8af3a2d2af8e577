import dataclasses
import inspect
from pathlib import Path
from typing import Literal

import pytest

from albert_tf.errors import UserError
from albert_tf.options import COUNT, RATE, Range, accepts_keywords, check_options, option, part


@dataclasses.dataclass(frozen=True)
class Baking:
    """Options of a cake."""

    cake: str = option(help="name of the cake")
    oven: Path = option(Path("oven"), help="place to bake it")
    eggs: int | None = option(3, help="eggs to beat", range=COUNT)
    sugar: float = option(0.5, help="share of sugar", range=RATE)
    vegan: bool = option(False, help="replacement of the eggs")
    form: Literal["round", "square", "heart"] = option("round", help="form of the cake")
    layers: tuple[str, ...] = option((), help="fillings")
    note: str = "not an option"
    sizes: tuple[int, ...] = option((), help="sizes to bake", range=COUNT)
    tip: bool | None = option(None, help="point the tip up", only={"form": ("heart",)})
    leaven: str | None = option(None, help="leaven of the dough")
    rise: int | None = option(None, help="hours of rest", needs="leaven")
    powder: int | None = option(None, help="spoons of baking powder", excludes="leaven")

    def __post_init__(self):
        check_options(self)


def test_values_are_converted():
    baking = Baking("plum", "kiln", eggs="4", sugar=0, vegan="true", layers=["jam", "cream"])
    assert baking == Baking("plum", Path("kiln"), 4, 0.0, True, "round", ("jam", "cream"))
    assert isinstance(baking.sugar, float)
    assert Baking("plum", layers="jam").layers == ("jam",)
    assert Baking("plum", eggs=None).eggs is None
    assert Baking("plum", sizes=["16,24", 32]).sizes == (16, 24, 32)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("eggs", "two", "eggs must be a whole number. Received: 'two'."),
        ("eggs", 1.5, "eggs must be a whole number. Received: 1.5."),
        ("eggs", True, "eggs must be a whole number. Received: True."),
        ("sugar", False, "sugar must be a number. Received: False."),
        ("eggs", 0, "eggs must be 1 or more. Received: 0."),
        ("sugar", "much", "sugar must be a number. Received: 'much'."),
        ("sugar", None, "sugar must be a number. Received: None."),
        ("sugar", float("nan"), "sugar must be 0 or more and below 1. Received: nan."),
        ("vegan", "maybe", "vegan must be true or false. Received: 'maybe'."),
        ("form", "oval", "form must be round, square or heart. Received: 'oval'."),
        ("cake", None, "cake must be text. Received: None."),
    ],
)
def test_wrong_values(name, value, message):
    with pytest.raises(UserError, match=f"^{message}$"):
        Baking(**{"cake": "plum", name: value})


@pytest.mark.parametrize("value", [True, False])
def test_an_option_that_another_one_excludes(value):
    """Is refused, also where its value is false; the default always fits."""
    assert Baking("plum", form="heart", tip=value).tip is value
    assert Baking("plum", form="square").tip is None
    message = f"^tip is an option of --form heart. Received: {value} with --form round. Leave it"
    with pytest.raises(UserError, match=message):
        Baking("plum", tip=str(value))


def test_an_option_that_needs_or_excludes_another_one():
    assert Baking("plum", rise=3, leaven="yeast").rise == 3
    assert Baking("plum", powder=2).powder == 2
    with pytest.raises(UserError, match=r"^--rise needs --leaven. Received: one without the other"):
        Baking("plum", rise=3)
    with pytest.raises(UserError, match=r"^--powder excludes --leaven. Received: both.$"):
        Baking("plum", powder=2, leaven="yeast")


@pytest.mark.parametrize("name", ["eggs", "sugar", "cake", "vegan", "form"])
def test_a_number_too_long_to_print(name):
    with pytest.raises(
        UserError, match=rf"^{name} must be .* Received: a number of 20,001 bits\.$"
    ):
        Baking(**{"cake": "plum", name: 16**5_000})


@pytest.mark.parametrize(
    ("range", "text", "inside", "outside"),
    [
        (Range(minimum=2, maximum=5), "between 2 and 5", (2, 5), (1, 6)),
        (Range(above=0, below=1), "above 0 and below 1", (0.5,), (0, 1)),
        (Range(above=0), "above 0", (1e9,), (0, float("inf"), float("nan"))),
        (Range(maximum=5), "5 or less", (-7,), (6, float("-inf"))),
    ],
)
def test_ranges(range, text, inside, outside):
    assert str(range) == text
    assert all(map(range.allows, inside))
    assert not any(map(range.allows, outside))


def test_a_function_takes_options_or_their_values():
    @accepts_keywords(Baking)
    def bake(options: Baking) -> str:
        """Bakes a cake."""
        return f"{options.cake} with {options.eggs} eggs"

    assert bake(Baking("plum")) == bake("plum") == bake(cake="plum") == "plum with 3 eggs"
    assert bake("plum", eggs=2) == "plum with 2 eggs"
    with pytest.raises(TypeError, match="salt"):
        bake("plum", salt=1)
    parameters = inspect.signature(bake).parameters
    assert parameters["eggs"].default == 3
    assert "note" in parameters
    assert bake.__doc__.startswith("Bakes a cake.")
    assert "\n    sugar: share of sugar." in bake.__doc__


def test_a_part():
    @dataclasses.dataclass(frozen=True)
    class Sweetness:
        sugar: float = option(0.1, help="share of sugar")

    assert part(Sweetness, Baking("plum", sugar=0.7)) == Sweetness(0.7)
