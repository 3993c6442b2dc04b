"""Regular expression search in a child process, which can be killed when an expression takes for ever.

This file is run by a bare interpreter and imports nothing of memsheaf. It reads paths, each behind a NUL character,
and prints the places of matching lines as `rg --null` does.
"""

from __future__ import annotations

import os
import re
import stat
import sys


def search(expression: str, paths: list[bytes]) -> None:
    """Print the path and number of each line that matches, and end with 2 if the expression is none."""
    try:
        pattern = re.compile(expression)
    except (re.error, OverflowError, RecursionError) as error:
        print(error, file=sys.stderr)
        sys.exit(2)
    for path in paths:
        try:
            if not stat.S_ISREG(os.lstat(path).st_mode):
                continue
            with open(path, encoding="utf-8-sig", errors="replace", newline="\n") as file:
                for number, line in enumerate(file, 1):
                    if pattern.search(line.rstrip("\r\n")):
                        sys.stdout.buffer.write(path + b"\0%d:\n" % number)
        except OSError:
            continue


if __name__ == "__main__":
    search(sys.argv[1], sys.stdin.buffer.read().split(b"\0"))
