"""Regular expression search in a child process, which can be killed when an expression takes for ever.

This file is run by a bare interpreter and imports nothing of memsheaf. It reads one line of JSON with the expression
and the sizes of the texts, then the texts, and prints one line of JSON: which lines of which text match, and where.
"""

from __future__ import annotations

import json
import re
import sys


def search(expression: str, sizes: list[int], most: int) -> dict[str, object]:
    """The lines of the texts that match: `[text, line, column]` of the first, and how many there are in how many."""
    try:
        pattern = re.compile(expression)
    except (re.error, OverflowError, RecursionError) as error:
        return {"wrong": str(error) or "it is too deep"}
    found: list[tuple[int, int, int]] = []
    for number, size in enumerate(sizes):
        text = sys.stdin.buffer.read(size).decode("utf-8", "replace").removeprefix("\ufeff")
        for at, line in enumerate(text.removesuffix("\n").split("\n") if text else ()):
            if match := pattern.search(line.removesuffix("\r")):
                found.append((number, at, match.start()))
    return {"found": found[:most], "lines": len(found), "files": len({number for number, _, _ in found})}


if __name__ == "__main__":
    print(json.dumps(search(**json.loads(sys.stdin.buffer.readline()))))
