"""A corpus as one test: run it for each case, and report every case that fails. And a clock."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn, TypeVar

import pytest

T = TypeVar("T")
NOON = 1_773_489_600.0  # 2026-03-14


class Clock:
    """A clock that stands still until a test moves it."""

    def __init__(self) -> None:
        self.now = NOON

    def __call__(self) -> float:
        return self.now


def crossed(names: Sequence[str], cases: Sequence[Any]) -> list[Any]:
    """Every case with the first name, and the first case with the other names: enough where they share the code.

    >>> crossed(["a", "b"], [1, 2])
    [('a', 1), ('a', 2), ('b', 1)]
    """
    given = [case if isinstance(case, tuple) else (case,) for case in cases]
    return [*((names[0], *case) for case in given), *((name, *given[0]) for name in names[1:])]


def sample(cases: Sequence[T], every: int = 8) -> Sequence[T]:
    """Every so many-th case of a corpus that a layer below goes through whole; all of them in the long run."""
    return cases if os.environ.get("MEMSHEAF_LONG") else cases[::every]


def give_up(lacking: str) -> NoReturn:
    """Skip a test that lacks a program or a registry; fail in CI, which has them."""
    if os.environ.get("CI"):
        pytest.fail(lacking)
    pytest.skip(lacking)


def each_case(names: str, cases: Iterable[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Like `pytest.mark.parametrize`, but in one test. All cases share the fixtures: each must tolerate the others.

    >>> @each_case("one, other", [(1, 1), (2, 3)])
    ... def check(one, other): assert one == other
    >>> check()
    Traceback (most recent call last):
    AssertionError: 1 of 2 cases failed:
    {'one': 2, 'other': 3}: AssertionError()
    """
    keys = [name.strip() for name in names.split(",")]
    given = [case if len(keys) > 1 else (case,) for case in cases]

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(test)
        def run(**fixtures: Any) -> None:
            failed = []
            for values in given:
                case = dict(zip(keys, values, strict=True))
                try:
                    test(**fixtures, **case)
                except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001 - reported below, with the case
                    failed.append(f"{repr(case)[:300]}: {repr(error)[:1000]}")
            if failed:
                raise AssertionError("\n".join([f"{len(failed)} of {len(given)} cases failed:", *failed[:20]]))

        signature = inspect.signature(test)
        kept = [each for each in signature.parameters.values() if each.name not in keys]
        run.__signature__ = signature.replace(parameters=kept)  # type: ignore[attr-defined]
        return run

    return decorate
