"""Which repositories a person accepted on this machine: `repositories.json` in MEMSHEAF_HOME, never in a repository.

A repository's `.memory/` counts as the project's memory only when its checkout is listed here (`memsheaf init`,
`memsheaf trust`). A `.git` or `.memory` that another user owns counts only when it was accepted with that owner.
"""

from __future__ import annotations

import json
import os
import time
from contextlib import suppress

from memsheaf.errors import StoreFailed

NAME = "repositories.json"
_PARTS = (".git", ".memory")


def is_accepted(home: str, checkout: str) -> bool:
    """Whether a person accepted the memory of this checkout, and it belongs to whom it did then."""
    entry = _read(home).get(_key(checkout))
    owners = entry.get("owners") if isinstance(entry, dict) else None
    return isinstance(owners, list) and foreign_owners(checkout) <= set(owners)


def accept(home: str, checkout: str) -> None:
    """Record that a person accepts the memory of this checkout. Raises StoreFailed."""
    if is_accepted(home, checkout):
        return
    entry = {"since": time.strftime("%Y-%m-%d"), "owners": sorted(foreign_owners(checkout))}
    _write(home, {**_read(home), _key(checkout): entry})


def withdraw(home: str, checkout: str) -> None:
    """Take that back; the files stay as they are. Raises StoreFailed."""
    known = _read(home)
    if known.pop(_key(checkout), None) is not None:
        _write(home, known)


def foreign_owners(checkout: str) -> set[int]:
    """The users, other than this one, who own the checkout's `.git` or `.memory`."""
    return {owner for name in _PARTS if (owner := foreign_owner(os.path.join(checkout, name))) is not None}


def foreign_owner(path: str) -> int | None:
    """The user who owns this path, when that is somebody else; None when it is not there or nobody can tell."""
    if not hasattr(os, "geteuid"):
        return None
    try:
        owner = os.lstat(path).st_uid
    except OSError:
        return None
    return None if owner == os.geteuid() else owner


def _key(checkout: str) -> str:
    return os.path.normcase(os.path.realpath(checkout)).encode("utf-8", "backslashreplace").decode()


def _read(home: str) -> dict[str, object]:
    """What is recorded; a file that cannot be understood accepts nothing."""
    try:
        with open(os.path.join(home, NAME), encoding="utf-8") as file:
            found = json.load(file)
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _write(home: str, known: dict[str, object]) -> None:
    draft = os.path.join(home, f".{NAME}-{os.urandom(8).hex()}")
    try:
        os.makedirs(home, 0o700, exist_ok=True)
        with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            json.dump(known, file, indent=2, sort_keys=True)
            file.write("\n")
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, os.path.join(home, NAME))
    except OSError as error:
        with suppress(OSError):
            os.unlink(draft)
        raise StoreFailed(f"{NAME} cannot be written in {home!r}: {error.strerror or error}") from error
