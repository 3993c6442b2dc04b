"""Match JSON values against a filter: equality, or `$eq`, `$ne`, `$gt`, `$gte`, `$lt`, `$lte`.

>>> passes({"color": "red", "score": 4.5}, {"color": "red", "score": {"$gt": 4}})
True
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import ge, gt, le, lt
from typing import Any

_ORDERED: dict[str, Callable[[Any, Any], bool]] = {"$gt": gt, "$gte": ge, "$lt": lt, "$lte": le}


def passes(value: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Whether a value has all that a filter asks for; `a.b` is b in a, unless a key is called so.

    Raises:
        ValueError: the filter has an operator that nobody knows.
    """
    return all(_is_as(_at(value, key), asked) for key, asked in wanted.items())


def _at(value: Any, key: str) -> Any:
    """What stands at `a.b`, None when nothing does."""
    if not isinstance(value, Mapping):
        return None
    if key in value:
        return value[key]
    first, dot, rest = key.partition(".")
    return _at(value.get(first), rest) if dot else None


def _is_as(found: Any, asked: Any) -> bool:
    if isinstance(asked, Mapping):
        if any(str(key).startswith("$") for key in asked):
            return all(_holds(found, operator, other) for operator, other in asked.items())
        return isinstance(found, Mapping) and all(_is_as(found.get(key), one) for key, one in asked.items())
    if isinstance(asked, list | tuple):
        return isinstance(found, list) and len(found) == len(asked) and all(map(_is_as, found, asked))
    return _equal(found, asked)


def _equal(found: Any, asked: Any) -> bool:
    """Whether two values are the same in JSON, where true is not 1."""
    return bool(found == asked) and isinstance(found, bool) == isinstance(asked, bool)


def _holds(found: Any, operator: str, other: Any) -> bool:
    if operator in ("$eq", "$ne"):
        return _is_as(found, other) == (operator == "$eq")
    if operator not in _ORDERED:
        raise ValueError(f"a filter has $eq, $ne, {', '.join(_ORDERED)}, and not {operator!r}")
    numbers = isinstance(found, int | float) and isinstance(other, int | float)
    texts = isinstance(found, str) and isinstance(other, str)
    return (numbers or texts) and _ORDERED[operator](found, other)  # others have no order
