"""The state directory of a root: inbox, review queue, schedules and locks, outside the root.

It lives in the state directory of the platform, in a folder for each root, for this user alone. Losing it costs what
has not been learned yet, never a memory.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from hashlib import sha256

from memsheaf.errors import PathRefused, StoreFailed
from memsheaf.scope import parse_json
from memsheaf.store.safe_dir import Folder, append, kernel_lock, read_file, replace

LIMIT = 64 * 1024 * 1024
_NAME = 24  # digits of the hash that names a root's folder
_NUMBERED = r"(.*-)([0-9]{12})(\.json)"


class State:
    """One folder of small files: JSON that is replaced whole, and lines that are only ever added.

    Nothing is created before something is written. What cannot be read is None, never an error: a state that was
    lost or damaged is begun again.
    """

    def __init__(self, folder: str) -> None:
        self.folder = folder

    @classmethod
    def of(cls, root: str, state: str) -> State:
        """The state of a root, in the state directory."""
        name = sha256(os.fsencode(os.path.realpath(root))).hexdigest()[:_NAME]
        return cls(os.path.join(state, name))

    def beside(self) -> list[State]:
        """The states of all roots that are kept in the same directory, this one among them."""
        directory = os.path.dirname(self.folder)
        try:
            with os.scandir(directory) as entries:
                names = [one.name for one in entries if one.is_dir(follow_symlinks=False) and len(one.name) == _NAME]
        except OSError:
            names = []
        return [State(os.path.join(directory, name)) for name in sorted(names)]

    def read(self, name: str) -> bytes | None:
        """The bytes of a file, None when it is not there or cannot be read."""
        try:
            with Folder.open(self.folder) as folder:
                return read_file(folder, name, LIMIT)
        except (OSError, PathRefused):
            return None

    def load(self, name: str) -> object:
        """The JSON in a file; None when there is none that can be understood."""
        return parse_json(self.read(name) or b"")

    def write(self, name: str, data: bytes) -> None:
        """Put a whole file in place, durably: a reader sees the old or the new one. Raises StoreFailed."""
        with _told(f"{name} in {self.folder!r} cannot be written"), Folder.open(self.folder, create=True) as folder:
            replace(folder, name, data)

    def save(self, name: str, value: object) -> None:
        """Put JSON in place, durably. Raises StoreFailed."""
        self.write(name, line(value))

    def append(self, name: str, value: object) -> None:
        """Add one line of JSON, durably, in one write. Raises StoreFailed.

        A line that a crash cut short is ended by the next one, so it never spoils another.
        """
        self.add(name, b"\n" + line(value))

    def add(self, name: str, data: bytes, *, durably: bool = True) -> int:
        """Add bytes to a file, in one write; gives its size. A later durable one vouches for all before it.

        Raises StoreFailed.
        """
        with _told(f"{name} in {self.folder!r} cannot be written"), Folder.open(self.folder, create=True) as folder:
            if not (size := append(folder, name, data, durable=durably)):
                folder.sync()
        return size + len(data)

    def lines(self, name: str) -> Iterator[object]:
        """What was added to a file, oldest first; lines that cannot be understood are left out."""
        for line in (self.read(name) or b"").split(b"\n"):
            with suppress(ValueError, RecursionError):
                yield json.loads(line)

    def remove(self, name: str) -> None:
        """Remove a file, if it is there. Raises StoreFailed."""
        with (
            _told(f"{name} in {self.folder!r} cannot be removed"),
            suppress(FileNotFoundError),
            Folder.open(self.folder) as folder,
        ):
            folder.unlink(name)

    def names(self, *, drafts: bool = False) -> list[str]:
        """The files that are there, in the order of their names, without locks, and with drafts if asked for."""
        try:
            with Folder.open(self.folder) as folder:
                found = sorted(entry.name for entry in folder.scan() if not entry.is_dir(follow_symlinks=False))
        except OSError:
            return []
        found = [name for name in found if not name.endswith(".lock")]
        return found if drafts else [name for name in found if not name.startswith("draft-")]

    def tidy(self, now: float, *, of: str = "") -> None:
        """Remove drafts that a crash left behind a day ago or earlier.

        Those of files whose names begin with `of` go at once: the caller holds the lock that their writers take.
        """
        with suppress(OSError), Folder.open(self.folder) as folder:
            for entry in [entry for entry in folder.scan() if entry.name.startswith("draft-")]:
                with suppress(FileNotFoundError):
                    dead = bool(of) and entry.name.startswith(f"draft-{of}")
                    if dead or now - entry.stat(follow_symlinks=False).st_mtime > 86_400:
                        folder.unlink(entry.name)

    def absorb(self, other: State) -> None:
        """Take over all that another state holds, which is then gone. Raises StoreFailed.

        Where both have a file: numbered ones get the next number, lists and lines are joined, and of an object this
        state's values stand. Doing it again after a crash completes it.
        """
        from shutil import rmtree

        with (
            _told(f"the state in {self.folder!r} cannot be moved"),
            suppress(FileNotFoundError),
            Folder.open(other.folder) as theirs,
        ):
            with Folder.open(self.folder, create=True) as ours:
                for name in other.names():
                    taken = self.names()
                    if (number := re.fullmatch(_NUMBERED, name)) and name in taken:
                        last = max(one for one in taken if one.startswith(number[1]) and re.fullmatch(_NUMBERED, one))
                        digits = last[len(number[1]) : len(last) - len(number[3])]
                        theirs.rename(name, ours, f"{number[1]}{int(digits) + 1:0{len(digits)}}{number[3]}")
                    elif name not in taken:
                        theirs.rename(name, ours, name)
                    else:
                        self._join(name, other)
                        theirs.unlink(name)
                ours.sync()
            rmtree(other.folder, ignore_errors=True)  # locks, drafts, and the copy of a hub, which is fetched again

    def _join(self, name: str, other: State) -> None:
        """Put what another state has in a file to what this one has in it."""
        ours, theirs = self.load(name), other.load(name)
        if isinstance(ours, list) and isinstance(theirs, list):
            self.save(name, ours + [one for one in theirs if one not in ours])
        elif isinstance(ours, dict) and isinstance(theirs, dict):
            self.save(name, theirs | ours)
        elif (data := other.read(name)) and data != self.read(name):
            self.add(name, b"\n" + data)

    @contextmanager
    def lock(self, name: str, *, wait: float = 0.0) -> Iterator[None]:
        """Be the only process that does this; the kernel frees it when its holder dies. Raises Busy, StoreFailed."""
        with ExitStack() as held:
            with _told(f"the state directory {self.folder!r} cannot be used"):
                folder = held.enter_context(Folder.open(self.folder, create=True))
                held.enter_context(kernel_lock(folder, f"{name}.lock", wait=wait))
            yield


def line(value: object) -> bytes:
    """One line of JSON. Half characters, which a host's text may hold, come back as they were."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True).encode("utf-8", "surrogatepass") + b"\n"


@contextmanager
def _told(trouble: str) -> Iterator[None]:
    """Say in our own words what the disk refused."""
    try:
        yield
    except OSError as error:
        raise StoreFailed(f"{trouble}: {error.strerror or error}") from error
    except PathRefused as error:
        raise StoreFailed(f"{trouble}: {error.why}") from error
