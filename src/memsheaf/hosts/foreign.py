"""What another tool remembers, before it is a memory of ours: the values that every reader of `importers` gives."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from memsheaf.archive import LINK, folder_files
from memsheaf.errors import PathRefused
from memsheaf.memory import LIMIT
from memsheaf.scope import repository_around
from memsheaf.store.safe_dir import Folder, read_file, walk


class ForeignMemory(NamedTuple):
    """One thing that another tool remembers; `where` says where it stood there.

    With `text` it is a whole file of the name `path`, whose header is kept; else `body` is all there is. `heading` is
    what it stood under, `day` when it was last changed. `scope` is where it belongs, where the source says so;
    `is_shared` says that it came with a repository.
    """

    where: str
    body: str = ""
    text: str = ""
    path: str = ""
    name: str = ""
    description: str = ""
    kind: str = ""
    heading: str = ""
    day: str = ""
    conversation: str = ""
    scope: str = ""
    is_shared: bool = False


class LeftOut(NamedTuple):
    """Something that is not taken over, and why."""

    where: str
    why: str


Foreign = Iterator[ForeignMemory | LeftOut]


class Surroundings(NamedTuple):
    """Where an import runs: the working directory and the environment."""

    cwd: str
    environment: Mapping[str, str]

    def at_home(self, *names: str, variable: str = "") -> str:
        """A place in the user's home, unless a variable names another for the first folder."""
        given = self.environment.get(variable) if variable else ""
        home = self.environment.get("HOME") or os.path.expanduser("~")
        return os.path.join(given, *names[1:]) if given else os.path.join(home, *names)

    @property
    def checkout(self) -> str:
        """The main working tree around the working directory, else that directory."""
        return repository_around(self.cwd)[0] or os.path.realpath(self.cwd)


def read_folder(folder: str) -> Foreign:
    """The text files of a folder, without hidden ones; what is none is left out. Raises ArchiveRefused."""
    for name, load in folder_files(folder):
        if not any(part.startswith(".") for part in name.split("/")):
            try:
                yield _to_text(folder, name, load(LIMIT + 1)) if load else LeftOut(name, LINK)
            except (OSError, PathRefused) as error:
                yield LeftOut(name, str(error))


def read_below(folder: str, path: str) -> ForeignMemory | LeftOut | None:
    """A text file below a folder that is trusted, reached without following a link; None when there is none."""
    try:
        with Folder.open(folder) as opened, walk(opened, path) as (inner, name):
            return _to_text(folder, path, read_file(inner, name, LIMIT + 1))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, PathRefused) as error:
        return LeftOut(path, LINK if isinstance(error, PathRefused) else str(error))


def _to_text(folder: str, name: str, data: bytes) -> ForeignMemory | LeftOut:
    if len(data) > LIMIT:
        return LeftOut(name, f"it is larger than {LIMIT >> 10} KiB")
    try:
        text = data.decode()
        day = time.strftime("%Y-%m-%d", time.localtime(os.lstat(os.path.join(folder, name)).st_mtime))
    except UnicodeDecodeError:
        return LeftOut(name, "it is not UTF-8 text")
    if not text.strip() or "\0" in text:
        return LeftOut(name, "it holds zero bytes" if text.strip() else "it is empty")
    return ForeignMemory(name, text=text, path=name, day=day)


def day_of(*values: object) -> str:
    """The day in the first of these that is a time stamp, "" when none is.

    >>> day_of(None, "2026-11-17T06:54:10.897439+00:00")
    '2026-11-17'
    """
    pattern = r"\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d)\b"
    found = (re.match(pattern, value) for value in values if isinstance(value, str))
    return next((day[0] for day in found if day), "")
