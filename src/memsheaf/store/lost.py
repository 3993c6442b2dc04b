"""Files that went with their whole folder (`git clean`, `git stash -u`, `rm -r`), so that they can be restored.

`lost` in the history's folder has the path and the last version of each such file. It is written before anything else
is done in the emptied folder. A file that somebody removes alone was deleted, and is not listed. A file that is back
is taken off the list, so that it is not restored when somebody removes it later.

Several files that are all gone went with their folder. A single one went with it if the ignore file of the folder is
gone, too. Whoever makes that file anew leaves a mark before. The list stays, even if it is empty, as long as tasks,
sessions or logs in the folder may have gone with it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Mapping
from contextlib import suppress

from memsheaf.errors import PathRefused
from memsheaf.guard.paths import CATALOG
from memsheaf.store import HISTORY, Version
from memsheaf.store.history import History
from memsheaf.store.safe_dir import Folder, read_file, replace

NAME = "lost"
MARK = "emptied"  # the file that tells that the ignore file of the root was missing
LIMIT_BYTES = 32 << 20


def read(history: Folder) -> dict[str, Version]:
    """Return the files that are listed, with their last versions."""
    with suppress(FileNotFoundError, PathRefused, ValueError):
        return {
            str(path): str(version) for path, version in json.loads(read_file(history, NAME, LIMIT_BYTES)).items()
        }
    return {}


def find(history: History, *, is_emptied: bool) -> dict[str, Version]:
    """Return the files that went with the folder, provided that none of those the history left in place is there."""
    known = {path: version for path, version in history.heads().items() if path != CATALOG}
    return known if is_emptied or len(known) > 1 else {}


def is_outer_emptied(root: str, journals: str) -> bool:
    """Return True for the folder of a task or session in a project's folder that was emptied.

    `git stash -u` leaves the ignore files of tasks in place.
    """
    outer, layer = os.path.split(os.path.dirname(root))
    if layer not in ("tasks", "sessions"):
        return False
    return is_suspect(outer, os.path.normpath(os.path.join(journals, "..", "..")))


def is_suspect(root: str, journals: str) -> bool:
    """Return True for a folder that lacks its ignore file or did so before, perhaps together with inner folders."""
    if root != journals and not os.path.lexists(os.path.join(root, ".gitignore")):
        return True
    return any(os.path.lexists(os.path.join(journals, HISTORY, name)) for name in (NAME, MARK))


def add(history: Folder, files: Mapping[str, Version]) -> None:
    """List files. The caller holds the lock of the folder."""
    listed = {**read(history), **files}
    replace(history, NAME, json.dumps(listed, ensure_ascii=False).encode("utf-8", "surrogatepass"))


def take_away(history: Folder, paths: Collection[str], *, keep_empty: bool = True) -> None:
    """Take these files off the list. The caller holds the lock of the folder."""
    listed = read(history)
    left = {path: version for path, version in listed.items() if path not in paths}
    if not left and (listed or not keep_empty):
        with suppress(FileNotFoundError):
            history.unlink(NAME)
    elif left != listed:
        replace(history, NAME, json.dumps(left, ensure_ascii=False).encode("utf-8", "surrogatepass"))
