"""Read which repositories a person accepted on this machine: `repositories.json` in MEMSHEAF_HOME.

A repository's `.memory/` counts as the project's memory only when its checkout is listed here (`memsheaf init`,
`memsheaf trust`). A `.git` or `.memory` that another user owns counts only when it was accepted with that owner. This
module reads the file, `store/trust.py` writes it.
"""

from __future__ import annotations

import json
import os

NAME = "repositories.json"
_PARTS = (".git", ".memory")


def is_accepted(home: str, checkout: str) -> bool:
    """Whether a person accepted the memory of this checkout, and it belongs to whom it did then."""
    entry = (read(home) or {}).get(key(checkout))
    owners = entry.get("owners") if isinstance(entry, dict) else None
    return isinstance(owners, list) and foreign_owners(checkout) <= set(owners)


def foreign_owners(checkout: str) -> set[int]:
    """The users, other than this one, who own the checkout's `.git` or `.memory`."""
    return {owner for name in _PARTS if (owner := foreign_owner(os.path.join(checkout, name))) is not None}


def foreign_owner(path: str) -> int | None:
    """The owner of this path, when that is another user; None when it is missing or unknown."""
    if not hasattr(os, "geteuid"):
        return None
    try:
        owner = os.lstat(path).st_uid
    except OSError:
        return None
    return None if owner == os.geteuid() else owner


def key(checkout: str) -> str:
    """What a checkout is recorded under."""
    return os.path.normcase(os.path.realpath(checkout)).encode("utf-8", "backslashreplace").decode()


def read(home: str) -> dict[str, object] | None:
    """What is recorded; None when it cannot be understood, which accepts nothing."""
    try:
        with open(os.path.join(home, NAME), encoding="utf-8") as file:
            found = json.load(file)
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
