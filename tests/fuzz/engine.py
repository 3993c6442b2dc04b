"""Feeds a check with inputs that nobody thought of, and says how many there were.

The inputs follow the code they reach, with atheris; `-runs=N` says how many there are.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import tempfile
import types
from collections.abc import Callable, Sequence

Check = Callable[[bytes], None]
RUNS = 100_000


def fuzz(check: Check, words: Sequence[bytes], modules: Sequence[types.ModuleType], corpus: str = "") -> None:
    """Run a check until `-runs=N` inputs passed; an input that does not pass is printed and ends it.

    `words` are pieces that matter to the code in `modules`; `corpus` names a file of tests/corpora to begin with.
    """
    seeds = [*words, b"".join(words), *(_seeds(corpus) if corpus else ())]
    runs = next((int(word[6:]) for word in sys.argv[1:] if word.startswith("-runs=")), RUNS)
    atheris = importlib.import_module("atheris")
    _instrument(atheris, modules)
    return _guided(atheris, check, words, seeds, runs)


def _seeds(corpus: str) -> list[bytes]:
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    with open(os.path.join(here, "corpora", corpus), encoding="utf-8") as file:
        cases = json.load(file)["cases"]
    texts = [case.get("content", case.get("input", "")) for case in cases]
    return [text.encode("utf-8", "surrogatepass") for text in texts if isinstance(text, str)]


def _instrument(atheris: types.ModuleType, modules: Sequence[types.ModuleType]) -> None:
    for module in modules:
        for value in vars(module).values():
            if isinstance(value, types.FunctionType) and value.__module__ == module.__name__:
                atheris.instrument_func(value)


def _guided(
    atheris: types.ModuleType, check: Check, words: Sequence[bytes], seeds: Sequence[bytes], runs: int
) -> None:
    place = tempfile.mkdtemp(prefix="memsheaf-fuzz-")
    corpus, dictionary = os.path.join(place, "corpus"), os.path.join(place, "words")
    os.mkdir(corpus)
    for number, seed in enumerate(seeds):
        with open(os.path.join(corpus, str(number)), "wb") as file:
            file.write(seed)
    with open(dictionary, "w", encoding="ascii") as file:
        file.writelines('"' + "".join(f"\\x{byte:02x}" for byte in word) + '"\n' for word in words)
    known = [word for word in sys.argv[1:] if not word.startswith("-runs=")]
    options = [f"-runs={runs}", f"-dict={dictionary}", "-max_len=4096", "-verbosity=0", f"-artifact_prefix={place}/"]
    print(f"up to {runs} inputs, from {len(seeds)} seeds", flush=True)
    atheris.Setup([sys.argv[0], *options, *known, corpus], Counted(check, runs))
    atheris.Fuzz()


class Counted:
    """A check that says how often it was asked, when it was asked for the last time."""

    def __init__(self, check: Check, runs: int) -> None:
        self._check = check
        self._runs = runs
        self._count = 0

    def __call__(self, data: bytes) -> None:
        self._check(data)
        self._count += 1
        if self._count == self._runs:
            print(f"{self._count} inputs passed", flush=True)
