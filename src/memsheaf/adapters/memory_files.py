"""The commands of Anthropic's memory tool: view, create, replace, insert, delete and rename files of a sheaf."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Sequence
from threading import Lock

from memsheaf.adapters.memory_texts import (
    ROOT,
    asked,
    cut,
    folder_of,
    inside,
    listing,
    located,
    numbered,
    shown,
    snippet,
    stored,
)
from memsheaf.errors import (
    BadHeader,
    Changed,
    CreateOnly,
    Exists,
    MemsheafError,
    NoMatch,
    NotFound,
    NotWorth,
    PathRefused,
    Refused,
    TextRefused,
)
from memsheaf.guard.paths import CATALOG, check_path, fold, is_fact
from memsheaf.index.database import Row
from memsheaf.memory import STRICT, Allow, Memory
from memsheaf.recall.inject import NOTES, text_for_model
from memsheaf.recall.recall import LAYER_FILES
from memsheaf.recall.session import Session
from memsheaf.sheaf import Sheaf
from memsheaf.store import ABSENT, Change
from memsheaf.text.neutralize import for_prompt, one_line
from memsheaf.text_edits import checked, redated, refuse_secrets, revised
from memsheaf.timeouts import retry
from memsheaf.work.notes_text import problems

PLACES = 50  # lines that an error names


class MemoryFiles:
    """The memory of one scope as a model sees it through the memory tool.

    Whatever a command cannot do is a MemsheafError, and `explained` says it in words for a model. With its `session`,
    no command does anything in a turn in which the user asked to ignore memory.
    """

    def __init__(self, sheaf: Sheaf, *, session: Session | None = None) -> None:
        self.sheaf = sheaf
        self._session = session
        self._turn = Lock()  # a model may call several at once
        self._refused: object = None  # the last command refused as not worth keeping; a repeat is accepted
        self._allow = STRICT

    def call(self, given: object) -> str:
        """Carry out a command as the model gave it, and give the answer. Raises MemsheafError."""
        command, values = asked(given)
        if not self.sheaf.tools:
            raise Refused("Memory tools are switched off in the settings; answer without memory.")
        if self._session and (reason := self._session.refusal(command == "view")):
            raise Refused(reason.capitalize())
        with self._turn:
            self._allow = Allow(anyway=self._refused == (command, values))
            try:
                answer: str = getattr(self, command)(*values)
            except NotWorth:
                self._refused = command, values
                raise
        return answer

    def view(self, path: str, view_range: Sequence[int] = ()) -> str:
        """A file with the numbers of its lines, or what is in a folder."""
        name = located(path)
        if name == CATALOG:
            return numbered(path, self.sheaf.catalog().text, view_range)
        memory = self._find(name) if name else None
        if memory is None:
            rows = self._below(name)
            if name and not rows:
                raise _absent(name, f"The path {path} does not exist. Please provide a valid path.")
            return listing(path, name, rows, view_range)
        if memory.state == "held":
            raise Refused(f"{path} cannot be shown: {memory.problem}.")
        self.sheaf.used(memory.path)
        notes = [*self.sheaf.caveats(memory), *(self._session.verdicts(memory) if self._session else ())]
        notes = [f"{path}: {memory.problem}"] if memory.problem else notes
        said = "".join(f"({one_line(for_prompt(note), 300)})\n" for note in notes)
        return said + numbered(path, text_for_model(memory), view_range)

    def create(self, path: str, file_text: str) -> str:
        """Make a new file: a typed memory when its text has a header, a free file otherwise."""
        target = self._new(path)
        if self._find(name := located(path)) or self._below(name):
            raise Refused(f"File {path} already exists")
        self._refuse_kept(target, file_text)
        try:
            self.sheaf.put(target, file_text, free=True, allow=self._allow)
        except (Exists, Changed) as error:  # somebody was quicker
            raise Refused(f"File {path} already exists") from error
        return f"File created successfully at: {path}"

    def str_replace(self, path: str, old_str: str, new_str: str) -> str:
        """Replace a piece of a file's text, header included, that occurs once."""
        said = f"old_str `{cut(old_str)}`"

        def replaced(memory: Memory) -> str:
            try:
                return revised(memory, old_str, new_str, count=1)
            except NoMatch as error:
                where = ", ".join(map(str, error.lines[:PLACES])) + ", …" * (len(error.lines) > PLACES)
                many = f". Multiple occurrences of {said} in lines: {where}. Please ensure it is unique"
                none = f", {said} did not appear verbatim in {path}."
                raise Refused(f"No replacement was performed{many if where else none}") from None

        before, after = self._edit(path, replaced)
        at = before.text.find(old_str)
        line = before.text.count("\n", 0, at if at >= 0 else before.text.find(old_str.replace("\n", "\r\n")))
        done = "The memory file has been edited. Here is the snippet showing the change (with line numbers):"
        return f"{done}\n{snippet(text_for_model(after._replace(shared=before.shared)), line)}"

    def insert(self, path: str, insert_line: int, insert_text: str) -> str:
        """Put text after a line of a file, header included; 0 is the start."""

        def inserted(memory: Memory) -> str:
            lines = memory.text.removesuffix("\n").split("\n")
            if not 0 <= insert_line <= len(lines):
                within = f"It should be within the range [0, {len(lines)}]."
                raise Refused(f"Invalid `insert_line` parameter: {insert_line}. {within}")
            lines.insert(insert_line, insert_text.rstrip("\n"))
            return "\n".join(lines) + "\n"

        self._edit(path, inserted)
        return f"The file {path} has been edited."

    def delete(self, path: str) -> str:
        """Forget a file, or all that is in a folder, as one commit."""
        name = located(path)
        if not name:
            raise Refused("Cannot delete the /memories directory itself")
        memory = self._find(name)
        memories = [memory] if memory else [self.sheaf.read(row.path) for row in self._below(name)]
        if not memories:
            raise _absent(name, f"The path {path} does not exist")
        self._forget(memories, f"forget {name}", by=self.sheaf.by)
        return f"Successfully deleted {path}"

    def rename(self, old_path: str, new_path: str) -> str:
        """Give a file or a folder another name, as one commit."""
        old, new = located(old_path), located(new_path)
        if not old:
            raise Refused("Cannot rename the /memories directory itself")
        if not new or self._find(new) or self._below(new):
            raise Refused(f"The destination {new_path} already exists")
        if memory := self._find(old):
            moved = [(memory, self._new(new_path))]
        else:
            moved = [(self.sheaf.read(row.path), f"{new}/{inside(row.path, old)}") for row in self._below(old)]
        if not moved:
            raise _absent(old, f"The path {old_path} does not exist")
        if fold(f"{new}/").startswith(fold(f"{old}/")):
            raise Refused(f"{new_path} is inside of {old_path}; a folder cannot be moved into itself")
        if not memory:
            self._refuse_folder(new)
        try:
            changes = [change for one, path in moved for change in self._moved(one, check_path(path))]
            why = f"rename {old} to {new}"
            # each was looked at, and what it says was kept already
            self.sheaf.change_many(changes, why, by=self.sheaf.by, allow=Allow(secrets=True, anyway=True))
        except Exists as error:
            raise Refused(f"The destination {new_path} already exists as {ROOT}/{shown(error.path)}") from error
        return f"Successfully renamed {old_path} to {new_path}"

    def clear(self) -> str:
        """Forget everything, as one commit of the user. For programs; no tool of a model calls it."""
        rows = [row for row in self._below("") if not self._is_kept(row.path)]
        if rows:
            self._forget([self.sheaf.read(row.path) for row in rows], "clear all memory", by="user")
        return "All memory cleared"

    def _find(self, name: str) -> Memory | None:
        """The file of a name; None when there is none, or can be none. Raises Refused for a link."""
        try:
            return self.sheaf.read(stored(name))
        except NotFound:
            return None
        except PathRefused as error:
            if "link" in error.why:
                raise Refused(f"Path {ROOT}/{name} would escape {ROOT} directory: {error.why}") from None
            return None

    def _below(self, name: str) -> Sequence[Row]:
        """All files in a folder, however deep; "" is the root. Another spelling of its name will do."""
        self.sheaf.reader.look(thorough=not name)
        return self.sheaf.reader.under(name, any_case=True)

    def _new(self, path: str) -> str:
        """The file for a name that is not taken. Raises PathRefused, Refused."""
        name = located(path)
        if not name or path.endswith("/"):
            raise Refused(f"{path} is a folder; name a file in it")
        if name.endswith(" "):  # which some systems drop, and our ending would hide
            raise PathRefused(path, "it ends in a space")
        target = check_path(stored(name))
        if shown(target) != name:
            raise Refused(f"{path} cannot be told from {ROOT}/{shown(target)}; use that name, or another")
        self._refuse_folder(posixpath.dirname(name))
        return target

    def _refuse_folder(self, name: str) -> None:
        """Raise Refused when this, or a folder that it is in, is a file, looks like one, or is spelled otherwise."""
        while name:
            if name.endswith(".md") or self._find(name):
                raise Refused(f"{ROOT}/{name} is a file's name, so nothing can be in it; choose another")
            rows = self._below(name)
            if rows and (there := folder_of(rows[0].path, name)) != name:
                raise Refused(f"The folder {ROOT}/{there} is there already; spell it like that")
            name = posixpath.dirname(name)

    def _edit(self, path: str, change: Callable[[Memory], str]) -> tuple[Memory, Memory]:
        """Apply a change to a file, again after a concurrent write; gives the memory before and after."""
        name = located(path)

        def edit() -> tuple[Memory, Memory]:
            memory = self._find(name) if name else None
            if memory is None:
                if not name or self._below(name):
                    raise Refused(f"The path {path} is not a file.")
                raise _absent(name, f"The path {path} does not exist. Please provide a valid path.")
            if memory.state not in ("ok", "free"):
                raise BadHeader(memory.path, memory.problem)
            text = change(memory)
            self._refuse_kept(memory.path, text)
            if memory.updated:
                text = redated(memory, text, self.sheaf.today).text
            free = memory.state == "free"
            return memory, self.sheaf.put(memory.path, text, expect=memory.version, free=free, allow=self._allow)

        return retry(edit, busy=f"{path} changes faster than it can be read")

    def _moved(self, memory: Memory, path: str) -> tuple[Change, Change]:
        """The changes that give a memory another path, provided that it may be there. Raises Refused, BadHeader."""
        self._refuse_removal(memory, self.sheaf.by)
        self._refuse_kept(path, memory.text)
        there = checked(path, memory.text, memory, free=memory.state == "free")
        refuse_secrets(there, memory)
        return Change(memory.path, None, memory.version), Change(path, memory.data, ABSENT)

    def _forget(self, memories: Sequence[Memory], why: str, *, by: str) -> None:
        """Forget all of these, or none."""
        for memory in memories:
            self._refuse_removal(memory, by)
        if not self.sheaf.read_only:
            self.sheaf.bury(memories)
        self.sheaf.change_many([Change(memory.path, None, memory.version) for memory in memories], why, by=by)

    def _refuse_removal(self, memory: Memory, by: str) -> None:
        if by == "user":
            return
        self._refuse_kept(memory.path, None)
        if is_fact(memory.path):
            raise CreateOnly(memory.path)
        if memory.state in ("bad", "held"):
            raise BadHeader(memory.path, memory.problem)

    def _is_kept(self, path: str) -> bool:
        return self.sheaf.scope.layer in ("task", "session") and fold(path) in map(fold, LAYER_FILES)

    def _refuse_kept(self, path: str, text: str | None) -> None:
        """Raise TextRefused for what a layer keeps itself, and for notes that would be gone or out of order."""
        if self._is_kept(path):
            raise TextRefused(f"{path!r} is kept by `memsheaf {self.sheaf.scope.layer}`, step by step")
        if fold(path) == fold(NOTES) and text is None:
            raise TextRefused(f"{path!r} stands in every prompt, and is not removed; change its text")
        if fold(path) == fold(NOTES) and (found := problems(text or "", self.sheaf.today)):
            raise TextRefused(f"{path!r} would be out of order: {found[0].what}; {found[0].advice}")


def _absent(name: str, text: str) -> MemsheafError:
    """What to raise for a name that nothing has: why nothing can have it, if so."""
    try:
        check_path(stored(name))
    except PathRefused as error:
        return error
    return Refused(text)
