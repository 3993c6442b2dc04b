"""Limit numpy to one thread, so that embedding in the background leaves cores free."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from threading import Lock
from typing import NamedTuple

import numpy

# one thread: numpy cannot be told so, but OpenBLAS can, for the whole process; so the number is put back at once

_TURN = Lock()  # two that set the number at once would put back each other's


def _renew() -> None:
    global _TURN
    _TURN = Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)  # whoever had it in the parent is not in the child


class ThreadSwitch(NamedTuple):
    """How many threads there are, and how to change it."""

    read: Callable[[], int]
    turn: Callable[[int], object]


@contextmanager
def one_thread() -> Iterator[None]:
    """Let numpy use this thread alone, one caller after the other. Without OpenBLAS it uses what it likes."""
    found = thread_switch()
    with _TURN:
        before = found.read()
        found.turn(1)
        try:
            yield
        finally:
            found.turn(before)


@cache
def thread_switch() -> ThreadSwitch:
    """The switch of numpy's OpenBLAS, or one that does nothing."""
    folder = os.path.join(os.path.dirname(os.path.dirname(numpy.__file__)), "numpy.libs")
    for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else ():
        if "openblas" in name:
            library = ctypes.CDLL(os.path.join(folder, name))  # it is loaded already, and only named here
            for prefix in ("scipy_openblas", "openblas"):
                read, turn = (getattr(library, f"{prefix}_{verb}_num_threads64_", None) for verb in ("get", "set"))
                if read is not None and turn is not None:
                    return ThreadSwitch(read, turn)
    return ThreadSwitch(lambda: 1, lambda count: None)
