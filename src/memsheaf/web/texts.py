"""The texts of the page, from `texts.toml`: by section and name, with places to fill in."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib.resources import files
from typing import Any


class PageTexts:
    """A section of texts: `texts.browse.empty`. A name that is not there raises AttributeError."""

    def __init__(self, values: dict[str, Any], name: str = "texts") -> None:
        self._name = name
        for key, value in values.items():
            setattr(self, key, PageTexts(value, key) if isinstance(value, dict) else value)

    def __getattr__(self, key: str) -> Any:
        raise AttributeError(f"texts.toml has no {key!r} in [{self._name}]")

    def __getitem__(self, key: str) -> Any:
        return getattr(self, key)

    def get(self, key: str, default: str = "") -> str:
        """The text of that name, or a default: for names that come from data, such as a type."""
        found = self.__dict__.get(key, default)
        return found if isinstance(found, str) else default


@cache
def load_texts() -> PageTexts:
    """The texts in English."""
    return PageTexts(tomllib.loads(files(__package__).joinpath("texts.toml").read_text(encoding="utf-8")))


def fill(text: str, /, n: int | None = None, **values: object) -> str:
    """Fill in a text. Of "one|many" the number decides.

    >>> fill("{n} memory|{n} memories", 1), fill("{n} memory|{n} memories", 1200), fill("of {name}", name="x")
    ('1 memory', '1,200 memories', 'of x')
    """
    if n is None:
        return text.format_map(values)
    one, _, many = text.partition("|")
    return (one if n == 1 or not many else many).format_map({"n": f"{n:,}", **values})
