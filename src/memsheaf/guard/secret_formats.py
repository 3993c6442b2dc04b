"""Formats of keys and tokens as providers publish them, and places where only a secret stands.

Both are tables in `secret_formats.txt`: a new provider is one line there. A row is tried only where its needle stands
in the text, so most texts cost a few substring tests.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

LONG_WORD_CHARS = 55  # as many have the formats whose needle is a single character


class Format(NamedTuple):
    """A kind of secret, a needle that stands in every one, and how it looks; group 1 is the secret."""

    kind: str
    needle: str
    pattern: str


class SecretPlace(NamedTuple):
    """A place where only a secret stands: its kind, a needle in lower case, a judge of `secret_values`, its look.

    Group 1 of the pattern is a secret if the judge takes it for one.
    """

    kind: str
    needle: str
    judge: str
    pattern: str


def _read_tables() -> dict[str, list[list[str]]]:
    tables: dict[str, list[list[str]]] = {}
    with open(f"{__file__.removesuffix('.py')}.txt", encoding="utf-8") as file:
        lines = file.read().splitlines()
    for line in lines:
        if line.startswith("["):
            rows = tables.setdefault(line.strip("[]"), [])
        elif line and not line.startswith("#"):
            rows.append(line.split(" | "))
    return tables


_TABLES = _read_tables()
_NAMES = dict(_TABLES["names"])


def _expand(pattern: str) -> str:
    return re.sub(r"\(\?&(\w+)\)", lambda name: _expand(_NAMES[name[1]]), pattern)


def _beginnings() -> Iterator[Format]:
    for kind, starts, least, characters in _TABLES["beginnings"]:
        count = f"{{{least},}}+"
        end = ""
        if characters == "UPPER" and least == "16":
            count = "{16}"  # an access key has one length
        if characters in ("UPPER", "HEX"):
            end = "(?![A-Za-z0-9])"  # a longer run is something else
        for start in starts.split():
            # A short start must stand at the start of a word; what is long enough may be anywhere.
            edge = r"(?:(?<![A-Za-z0-9])|(?<=\\[nrt]))" if len(start) < 6 else ""
            following = _NAMES.get(characters, characters)
            yield Format(kind, start, f"{edge}({re.escape(start)}{following}{count}{end})")


FORMATS = (*_beginnings(), *(Format(*row) for row in _TABLES["shapes"]))
PLACES = tuple(SecretPlace(kind, needle, judge, _expand(look)) for kind, needle, judge, look in _TABLES["places"])


def formats_in(words: list[str]) -> list[Format]:
    """Return the formats whose needle stands in one of these words."""
    text = " ".join(words)
    has_long_word = any(len(word) >= LONG_WORD_CHARS for word in words)
    return [known for known in FORMATS if known.needle in text and (has_long_word or len(known.needle) > 1)]
