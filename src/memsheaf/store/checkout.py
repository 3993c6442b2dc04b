"""A git checkout around a root, known by its files alone: nothing is run, and no link is followed."""

from __future__ import annotations

import os
from contextlib import suppress

from memsheaf.errors import PathRefused
from memsheaf.scope import around
from memsheaf.store.confined import Folder, read_file, walk

_LARGEST = 16 << 20  # of packed refs


def checkout_of(root: str, home: str) -> str:
    """The working tree of git that a root lies in; "" for one in our own home, or in none."""
    real, own = os.path.realpath(root), os.path.realpath(home)
    if real.startswith(os.path.join(own, "")):
        return ""
    found = around(real)
    return found if os.path.lexists(os.path.join(found, ".git")) else ""


def head_of(checkout: str) -> str:
    """Which branch and commit a checkout is at; "" when that cannot be told, or git is at work there."""
    git = os.path.join(checkout, ".git")
    if os.path.isfile(git):
        target = _read(checkout, ".git").partition("gitdir:")[2].strip()
        git = os.path.join(checkout, target) if target else ""
    if not git or os.path.lexists(os.path.join(git, "index.lock")):
        return ""
    head = _read(git, "HEAD").strip()
    name = head.partition("ref: ")[2]
    if not name:
        return head
    common = os.path.join(git, _read(git, "commondir").strip() or ".")
    if not name.startswith("refs/") or ".." in name:
        return ""
    loose = _read(git, name) or _read(common, name)
    packed = (line for line in _read(common, "packed-refs").split("\n") if line.endswith(f" {name}"))
    return f"{name} {loose.strip() or next(packed, '') or _read(common, 'reftable/tables.list')}"


def _read(folder: str, path: str) -> str:
    with (
        suppress(OSError, PathRefused, ValueError),
        Folder.open(folder) as opened,
        walk(opened, path) as (inner, name),
    ):
        return os.fsdecode(read_file(inner, name, _LARGEST))
    return ""
