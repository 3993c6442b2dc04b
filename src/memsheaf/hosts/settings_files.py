"""Settings files of other programs on disk: planned, written atomically, and put back as they were.

What was put in is recorded in the state directory before the file changes, so that it can be taken out exactly; the
person's own text is never copied there. A file that changes while it is edited is read again; one that is read-only
or cannot be understood is left as it is.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from difflib import unified_diff
from typing import Any, NamedTuple

from memsheaf.errors import PathRefused
from memsheaf.hosts.own_commands import NAME
from memsheaf.hosts.settings_edit import (
    Insertion,
    NotEditable,
    Wanted,
    find_foreign_entry,
    insert,
    is_installed,
    keep_choices,
    remove,
)
from memsheaf.state import State
from memsheaf.store.safe_dir import Folder, read_file, stage, walk

RECORD = "edits"
_ONLY_VERSION = '{"version":1}'  # what is left of Cursor's hooks.json without our hooks
_LIMIT = 64 << 20  # bytes
_ATTEMPTS = 20
_CONTEXT = 2  # lines around a change that a diff shows
_PATIENCE = 10.0  # seconds to wait for another installation


class SettingsTarget(NamedTuple):
    """One settings file and what is wanted in it, None for nothing; `ours` is all that may be ours there.

    `strict_reader` is the title of a host that rejects a file with comments or trailing commas, else "".
    """

    host: str
    path: str
    format: str
    ours: Wanted
    wanted: Wanted | None
    project: str = ""
    strict_reader: str = ""

    def find_objection(self, text: str) -> str:
        """Return why the host would reject this text, "" if it would not."""
        if self.strict_reader and self.format == "json" and text.strip("\ufeff \t\r\n"):
            try:
                json.loads(text.removeprefix("\ufeff"))
            except (ValueError, RecursionError) as error:
                return f"{self.strict_reader} reads only strict JSON: take out comments and trailing commas ({error})"
        return ""


class FileChange(NamedTuple):
    """A file's text before and after, None where there is no file, or the reason why nothing can be done."""

    target: SettingsTarget
    before: str | None
    after: str | None
    insertion: Insertion | None = None
    problem: str = ""

    @property
    def warning(self) -> str:
        """Return that somebody else's entry has our name, "" unless ours is wanted in its place."""
        target = self.target
        if target.wanted is None or not find_foreign_entry(self.before or "", target.format, target.ours):
            return ""
        return f"the entry {NAME} in {target.path} is not ours and stays; our server is not there until you rename it"

    @property
    def is_change(self) -> bool:
        """Return True if anything is to be done."""
        return self.before != self.after and not self.problem

    def diff(self) -> list[str]:
        """Return the change as a unified diff."""
        old, new = ((text or "").splitlines() for text in (self.before, self.after))
        was, now = ("/dev/null" if text is None else self.target.path for text in (self.before, self.after))
        return list(unified_diff(old, new, was, now, n=_CONTEXT, lineterm=""))


class SettingsFiles:
    """The settings files that are edited, and the record of what was put into them."""

    def __init__(self, state: str) -> None:
        self._state = State(os.path.join(state, "install"))

    def recorded(self, host: str, project: str) -> list[tuple[str, str]]:
        """The files that were edited for a host, at the user's or a project's level, with their formats."""
        entries = self._load()[0].items()
        return [(path, one["format"]) for path, one in entries if (one["host"], one["project"]) == (host, project)]

    def apply(self, target: SettingsTarget) -> FileChange:
        """Do it, and tell what was done. Raises Busy, StoreFailed."""
        real = resolve_target(target)
        with self._state.lock("install", wait=_PATIENCE):
            for _ in range(_ATTEMPTS):
                change = self.plan(target)
                if not change.is_change:
                    return change
                try:
                    if self._write(change, real):
                        return change
                except OSError as error:
                    return change._replace(problem=f"it cannot be written: {error.strerror or error}")
        return change._replace(problem="it was changed again and again while it was edited; try once more")

    def plan(self, target: SettingsTarget) -> FileChange:
        """Return what would become of a file."""
        real = resolve_target(target)
        entry = self._load()[0].get(real, {})
        known = [Insertion(edit["after"], edit["pieces"]) for edit in entry.get("edits", ())]
        before: str | None = None
        try:
            before = read_settings(real, target.project)
            bare = remove(before or "", target.format, target.ours, known)
            after: str | None = bare
            insertion = None
            if target.wanted is not None:
                if objection := target.find_objection(before or ""):
                    raise NotEditable(objection)
                wanted = keep_choices(before or "", target.format, target.wanted)
                if before is not None and is_installed(before, target.format, wanted, target.ours):
                    return FileChange(target, before, before)
                after, insertion = insert(bare, target.format, wanted)
            elif before is None:
                after = None
            elif not bare.strip("\ufeff{} \t\r\n") or "".join(bare.split()) == _ONLY_VERSION:
                is_own_file = _is_ours(entry, before) if entry else bare != before
                after = None if is_own_file else bare
            if after != before:
                _require_writable(real)
        except NotEditable as error:
            return FileChange(target, before, before, None, str(error))
        return FileChange(target, before, after, insertion)

    def _write(self, change: FileChange, real: str) -> bool:
        """Write the new text unless the file changed meanwhile; False when it did."""
        folder = os.path.dirname(real)
        target = change.target
        files, folders = self._load()
        old = files.pop(real, {})
        entry: dict[str, Any] = {"host": target.host, "project": target.project, "format": target.format}
        entry |= {"is_ours": change.before is None or _is_ours(old, change.before)}
        edits = [change.insertion._asdict()] if change.insertion else []
        own_folder = {folder} if os.path.basename(folder) == NAME else set()  # ours even if the record was lost
        if change.after is None and not old and target.format == "text":  # the record was lost
            own_folder |= {folder, os.path.dirname(folder) if own_folder else folder}
        folders = sorted({*folders, *_missing_folders(folder), *own_folder})
        self._save({**files, real: {**entry, "edits": [*edits, *old.get("edits", [])]}}, folders)
        if change.after is not None:
            os.makedirs(folder, exist_ok=True)
        with _open_folder(real, target.project) as (opened, name):
            if not _place(opened, name, change):
                return False
        for made in reversed(folders):
            with suppress(OSError):  # something is in it
                os.rmdir(made)
        folders = [made for made in folders if os.path.isdir(made)]
        self._save({**files, real: {**entry, "edits": edits, "is_done": True}} if edits else files, folders)
        return True

    def _load(self) -> tuple[dict[str, Any], list[str]]:
        """Return the files that were edited, by their paths, and the folders that were made."""
        record = self._state.load(RECORD)
        record = record if isinstance(record, dict) else {}
        files, folders = record.get("files"), record.get("folders")
        edited = files if isinstance(files, dict) else {}
        return (
            {path: entry for path, entry in edited.items() if isinstance(entry, dict)},
            [path for path in folders if isinstance(path, str)] if isinstance(folders, list) else [],
        )

    def _save(self, files: dict[str, Any], folders: list[str]) -> None:
        self._state.save(RECORD, {"files": files, "folders": folders})


def _is_ours(entry: dict[str, Any], text: str) -> bool:
    """Return True if a file was made by a recorded edit, which a process may have been killed before it made."""
    if not entry.get("is_ours") or entry.get("is_done"):
        return bool(entry.get("is_ours"))
    return any(all(piece in text for _, piece in edit["pieces"]) for edit in entry["edits"])


def resolve_target(target: SettingsTarget) -> str:
    """Return where a file is. Links in a home are followed, as dotfile managers use them, and none in a project."""
    if not target.project:
        return os.path.realpath(target.path)
    return os.path.join(os.path.realpath(target.project), os.path.relpath(target.path, target.project))


@contextmanager
def _open_folder(real: str, project: str) -> Iterator[tuple[Folder, str]]:
    """Open the folder of a file, and below a project no link on the way: a repository may have brought it.

    Raises PathRefused for such a link.
    """
    root = os.path.realpath(project) if project else os.path.dirname(real)
    with Folder.open(root) as opened, walk(opened, os.path.relpath(real, root)) as found:
        yield found


def read_target(target: SettingsTarget) -> str:
    """Return the text of a file, "" if there is none or it cannot be read."""
    try:
        return read_settings(resolve_target(target), target.project) or ""
    except NotEditable:
        return ""


def read_settings(real: str, project: str = "") -> str | None:
    """The text of a file, None when there is none. Raises NotEditable."""
    try:
        with _open_folder(real, project) as (folder, name):
            data = read_file(folder, name, _LIMIT + 1)
    except FileNotFoundError:
        return None
    except PathRefused as error:
        hint = ", and links in a project are not followed: remove it if it is not yours" if project else ""
        raise NotEditable(f"{error.why}{hint}") from None
    except OSError as error:
        raise NotEditable(f"it cannot be read: {error.strerror or error}") from None
    if len(data) > _LIMIT:
        raise NotEditable(f"it is larger than {_LIMIT >> 20} MiB")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise NotEditable("it is not UTF-8 text") from None


def _require_writable(real: str) -> None:
    there = [real, os.path.dirname(real)]
    while not os.path.exists(there[-1]):
        there.append(os.path.dirname(there[-1]))
    for path in filter(os.path.exists, there):
        if not os.access(path, os.W_OK) or not os.stat(path).st_mode & 0o222:
            raise NotEditable(f"{path} is read-only")


def _missing_folders(folder: str) -> list[str]:
    missing: list[str] = []
    while not os.path.isdir(folder):
        missing.insert(0, folder)
        folder = os.path.dirname(folder)
    return missing


def _place(folder: Folder, name: str, change: FileChange) -> bool:
    """Replace, make or remove a file in one step; False when it was not what was read, and is as it was."""
    for left in [one for one in folder.names() if one.startswith(f".{name}.memsheaf-")]:
        folder.unlink(left)  # by a process that was killed; the caller holds the lock
    draft = f".{name}.memsheaf-{os.urandom(8).hex()}"
    before = None if change.before is None else change.before.encode()
    try:
        if before is not None and read_file(folder, name, _LIMIT) != before:
            return False
        if change.after is None:
            folder.rename(name, folder, draft)
            if read_file(folder, draft, _LIMIT) != before:
                folder.rename_new(draft, folder, name)
                return False
        else:
            found = folder.stat(name) if before is not None else None
            usual = 0o644 if change.target.project else 0o600
            mode = stat.S_IMODE(found.st_mode) if found else usual
            stage(folder, draft, change.after.encode(), mode=mode, durable=True)
            if found and hasattr(os, "geteuid") and os.geteuid() != found.st_uid:
                os.chown(os.path.join(folder.path, draft), found.st_uid, found.st_gid)
            if before is None:
                folder.rename_new(draft, folder, name)
                folder.sync()
                return True
            if not folder.swap(draft, folder, name):
                folder.rename(draft, folder, name)
            elif read_file(folder, draft, _LIMIT) != before:  # somebody saved in this moment: theirs goes back
                folder.swap(draft, folder, name)
                return False
        return True
    except (FileNotFoundError, FileExistsError):
        return False
    finally:
        with suppress(FileNotFoundError):
            folder.unlink(draft)
        folder.sync()
