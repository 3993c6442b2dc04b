"""Files that went with their whole folder (`git clean`, `git stash -u`, `rm -r`), so that they can be restored.

`lost` in the journal's folder has a line for each such file: its path and its last version. It is written before
anything else is done in the emptied folder. A file that somebody removes alone was deleted, and is not listed.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from contextlib import suppress

from memsheaf.errors import PathRefused
from memsheaf.guard.paths import CATALOG
from memsheaf.store import HISTORY, Version
from memsheaf.store.journal import Journal
from memsheaf.store.safe_dir import Folder, read_file, replace
from memsheaf.values import json

NAME = "lost"
MARK = "emptied"  # the ignore file of the root was missing: whatever else is missing went with it
LIMIT_BYTES = 32 << 20


def read(history: Folder) -> dict[str, Version]:
    """Return the files that are listed, with their last versions."""
    with suppress(FileNotFoundError, PathRefused, ValueError):
        return {
            str(path): str(version) for path, version in json.loads(read_file(history, NAME, LIMIT_BYTES)).items()
        }
    return {}


def known_to(journal: Journal) -> dict[str, Version]:
    """Return the files that the journal left in place, with their versions."""
    return {path: head.version for path, head in journal.heads().items() if path != CATALOG}


def is_outer_lost(root: str, journals: str) -> bool:
    """Return True for the folder of a task or session in a project's folder that was emptied."""
    outer, layer = os.path.split(os.path.dirname(root))
    above = os.path.join(os.path.dirname(os.path.dirname(journals)), HISTORY, NAME)
    is_inner = layer in ("tasks", "sessions")
    return is_inner and (os.path.lexists(above) or not os.path.lexists(os.path.join(outer, ".gitignore")))


def add(history: Folder, files: dict[str, Version]) -> None:
    """List files. The caller holds the lock of the folder."""
    _write(history, read(history) | files)


def take_away(history: Folder, paths: Collection[str]) -> None:
    """Take these files off the list. The caller holds the lock of the folder."""
    listed = read(history)
    left = {path: version for path, version in listed.items() if path not in paths}
    if left != listed:
        _write(history, left)


def _write(history: Folder, files: Mapping[str, Version]) -> None:
    if files:
        replace(history, NAME, json.dumps(files, ensure_ascii=False).encode("utf-8", "surrogatepass"))
    else:
        history.unlink(NAME)
