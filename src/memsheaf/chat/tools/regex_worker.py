"""Lines that match an expression, found by a process of its own, which can be given up.

Some expressions take for ever, and Python cannot stop to look for them. This file is run by a bare interpreter and
imports nothing of memsheaf. It reads one line of JSON with the expression and the sizes of the texts, then the texts,
and prints one line of JSON: which lines of which text match, and at which column.
"""

from __future__ import annotations

import json
import os
import re
import sys

# Known to type checkers under this name: a start does not import `typing`.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, BinaryIO


def main() -> None:
    """Answer one question, and end in any case when its time is up, even if nobody is there any more to see to it."""
    from faulthandler import dump_traceback_later

    asked = json.loads(sys.stdin.buffer.readline())
    with open(os.devnull, "w") as nowhere:
        dump_traceback_later(asked["seconds"], exit=True, file=nowhere)
        print(json.dumps(sifted(asked, sys.stdin.buffer)))


def sifted(asked: dict[str, Any], texts: BinaryIO) -> dict[str, Any]:
    """The lines of the texts that match: `[text, line, column]` of the first, and how many there are in how many."""
    try:
        expression = re.compile(asked["expression"])
    except (re.error, OverflowError, RecursionError) as error:
        return {"wrong": str(error) or "it is too deep"}
    found: list[tuple[int, int, int]] = []
    lines = files = 0
    for number, size in enumerate(asked["sizes"]):
        before = lines
        text = texts.read(size).decode("utf-8", "replace").removeprefix("\ufeff")
        for at, line in enumerate(text.removesuffix("\n").split("\n") if text else ()):
            if match := expression.search(line.removesuffix("\r")):
                lines += 1
                if lines <= asked["most"]:
                    found.append((number, at, match.start()))
        files += lines > before
    return {"found": found, "lines": lines, "files": files}


if __name__ == "__main__":
    main()
