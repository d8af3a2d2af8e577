import dataclasses
import inspect
import re
from pathlib import Path
from typing import Literal

import pytest

from albert_tf.errors import UserError
from albert_tf.options import COUNT, RATE, Checked, Range, accepts_keywords, option, part


@dataclasses.dataclass(frozen=True)
class Baking(Checked):
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
    tip: bool | None = option(None, help="point the tip up", only={"form": ("heart", "square")})
    dark: bool = option(False, help="bake it dark", only={"minutes": Range(minimum=50)})
    leaven: str | None = option(None, help="leaven of the dough")
    rise: int | None = option(None, help="hours of rest", needs="leaven")
    powder: int | None = option(None, help="spoons of baking powder", excludes=("leaven", "vegan"))
    minutes: int = option(40, help="minutes in the oven")
    cover: int = option(20, help="minutes under a cover", below="minutes")
    pieces: int = option(12, help="pieces to cut", multiple_of="eggs_each")
    eggs_each: int = option(4, help="pieces that take an egg")


@dataclasses.dataclass(frozen=True)
class Filling(Checked):
    jam: str | None = option(None, help="jam to fill in")
    cream: str | None = option(None, help="cream to fill in", instead_of="jam")


@dataclasses.dataclass(frozen=True)
class Sweetness:
    sugar: float = option(0.1, help="share of sugar")


def test_values_are_converted():
    baking = Baking("plum", "kiln", eggs="4", sugar=0, vegan="true", layers=["jam", "cream"])
    assert baking == Baking("plum", Path("kiln"), 4, 0.0, True, "round", ("jam", "cream"))
    assert isinstance(baking.sugar, float)
    assert Baking("plum", layers="jam").layers == ("jam",)
    assert Baking("plum", eggs=None).eggs is None
    assert Baking("plum", sizes=["16,24", 32]).sizes == (16, 24, 32)
    assert part(Sweetness, baking) == Sweetness(0.0)


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
        ("eggs", 2**31, "eggs must be 2,147,483,647 or less. Received: 2147483648."),
    ],
)
def test_wrong_values(name, value, message):
    with pytest.raises(UserError, match=f"^{message}$"):
        Baking(**{"cake": "plum", name: value})


@pytest.mark.parametrize("name", ["eggs", "sugar", "cake", "vegan", "form"])
def test_a_number_too_long_to_print(name):
    message = rf"^{name} must be .* Received: a number with 20,001 bits\.$"
    with pytest.raises(UserError, match=message):
        Baking(**{"cake": "plum", name: 16**5_000})


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"form": "heart", "tip": False}, None),
        ({"form": "round", "tip": None}, None),
        ({"tip": True}, "--tip requires --form heart or square. Received: --form round."),
        ({"tip": False}, "--tip requires --form heart or square. Received: --form round."),
        ({"dark": True, "minutes": 50}, None),
        ({"dark": True}, "--dark requires --minutes 50 or more. Received: --minutes 40."),
        ({"rise": 3, "leaven": "yeast"}, None),
        ({"rise": 3}, "--rise requires --leaven."),
        ({"powder": 2}, None),
        ({"powder": 2, "leaven": "yeast"}, "--powder can't be used with --leaven."),
        ({"powder": 2, "vegan": True}, "--powder can't be used with --vegan."),
        ({"minutes": 20}, "cover must be below minutes. Received: cover=20, minutes=20."),
        ({"pieces": 8}, None),
        (
            {"eggs_each": 5},
            "pieces must be a multiple of eggs_each. Received: pieces=12, eggs_each=5.",
        ),
    ],
)
def test_relations_between_options(values, message):
    """Hold for false values too, while the default always fits."""
    if message is None:
        assert vars(Baking("plum", **values)).items() >= values.items()
        return
    with pytest.raises(UserError, match=f"^{re.escape(message)}$"):
        Baking("plum", **values)


def test_one_of_two_options():
    assert Filling(jam="plum").cream is None
    assert Filling(cream="sour").jam is None
    with pytest.raises(UserError, match="^Pass --jam or --cream.$"):
        Filling()
    with pytest.raises(UserError, match="^--cream can't be used with --jam.$"):
        Filling("plum", "sour")


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
    with pytest.raises(TypeError, match=r"bake\(\) .*'salt'"):
        bake("plum", salt=1)
    with pytest.raises(TypeError, match=r"bake\(\) .*'cake'"):
        bake()
    parameters = inspect.signature(bake).parameters
    assert parameters["eggs"].default == 3
    assert "note" in parameters
    assert bake.__doc__.startswith("Bakes a cake.")
    assert "\n    sugar: share of sugar." in bake.__doc__
