"""Session notes: sections of one conversation's file, which outlives compaction.

A session is the file `session.md` in the scope `session/ID`. Its headings come from a template and stay as they are;
what is noted stands below one of them. When it ends, all files of the scope move to `archive/`, as one commit. It is
open as long as `session.md` is there.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from memsheaf.config import Settings
from memsheaf.errors import (
    Blocked,
    Changed,
    Exists,
    MemsheafError,
    NotFound,
    PathRefused,
    ScopeRefused,
    SecretFound,
    StoreFailed,
    TextRefused,
    hinted,
)
from memsheaf.frontmatter import edited, split
from memsheaf.guard.paths import check_path, is_fact
from memsheaf.guard.secrets import find_secrets
from memsheaf.limits import retry
from memsheaf.memory import Allow, Memory, compose, parse, utc_time
from memsheaf.prompts import read_prompt
from memsheaf.scope import check_label, open_plain
from memsheaf.sheaf import Look, Sheaf
from memsheaf.store import ABSENT, Change
from memsheaf.text import sections
from memsheaf.text.sections import fold_title
from memsheaf.text_edits import dated

FILE = sections.SESSION_FILE  # the notes of a session; in the folder where memories live, the user's own template
ARCHIVE = "archive/"
LOG = "Worklog"  # where a note goes that names no section; there it gets the time
LARGEST = sections.TOTAL_TOKENS * sections.TOKEN  # bytes of a template
PROMOTABLE = ("Key Results", "Errors & Corrections", "Learnings")  # sections that may matter beyond it


class SessionState(NamedTuple):
    """How a session stands. `started` and `changed` are times in UTC, `tokens` is the size of its notes."""

    id: str
    title: str
    started: str
    changed: str
    tokens: int
    is_blank: bool
    is_open: bool


class SessionNote(NamedTuple):
    """Under which heading something was noted, and by which commit; "" when it stood there already."""

    section: str
    commit: str


class EndedSession(NamedTuple):
    """What the end of a session did: its commit, the files that it archived, and those it could not move."""

    commit: str
    archived: tuple[str, ...]
    left: tuple[str, ...]


class SessionNotes:
    """The notes of one session, open or ended."""

    def __init__(self, sheaf: Sheaf, *, clock: Callable[[], float] = time.time) -> None:
        self.sheaf = sheaf
        self.id = sheaf.scope.name
        self._clock = clock

    @property
    def memory(self) -> Memory:
        """The file as it is now; the one in the archive when the session has ended.

        Raises:
            NotFound: there is no such session.
            Blocked: it ended before anything was noted.
        """
        for path in (FILE, ARCHIVE + FILE):
            with suppress(NotFound):  # from the store: who looks at hundreds of sessions opens no index for each
                return parse(path, self.sheaf.own.store.read(path).data)
        raise self._gone()

    @property
    def text(self) -> str:
        """The whole file, with its header."""
        return self.memory.text

    @property
    def body(self) -> str:
        """The notes."""
        return self.memory.body

    @property
    def is_blank(self) -> bool:
        """Whether nothing was noted yet: the text is still that of the template."""
        return sections.is_blank(self.memory)

    def state(self) -> SessionState:
        """How it stands."""
        memory = self.memory
        changed = self.sheaf.own.modified([memory.path])[memory.path]
        return SessionState(
            id=self.id,
            title=memory.name,
            started=memory.page.get("started") or memory.created,
            changed=utc_time(changed) if changed else "",
            tokens=sections.count_tokens(memory.body),
            is_blank=sections.is_blank(memory),
            is_open=memory.path == FILE,
        )

    def note(self, text: str, *, section: str = "", replace: bool = False) -> SessionNote:
        """Add a bullet below a heading, or `replace` what stands there.

        The heading is named by its words, or by how it begins. Without a name it is the worklog, where a bullet
        begins with the time. Days such as "tomorrow" get their date beside them.

        Raises:
            TextRefused: there is no such heading, no room is left, or the text would change the headings.
            SecretFound: a password, a key or a token is in it.
            Blocked, NotFound: the session has ended, or never began.
        """
        text = text.replace("\r\n", "\n").replace("\r", "\n").strip()
        if not text:
            raise sections.refused("there is nothing to note", "Say it in one line.")
        text = dated(text, self.sheaf.today, piece=True)
        heading = ""

        def plan(look: Look) -> dict[str, str | None]:
            nonlocal heading
            was = look(FILE)
            if was is None:
                raise self._gone()
            page = split(was)
            found = sections.find_section(page.body, section or LOG)
            heading = found.title
            is_logged = fold_title(heading) == fold_title(LOG) and not replace
            entry = self._at_its_time(text, page.get("created")) if is_logged else text
            body = sections.add_note(page.body, found, entry, replace=replace)
            return {FILE: edited(was, fields={"updated": self.sheaf.today}, body=body) if page.head else body}

        try:
            done = self.sheaf.change_files(plan, "replace a section" if replace else "note")
        except SecretFound as error:  # the rest of the file was there before
            raise SecretFound(error.kind, "the note") from None
        return SessionNote(heading, done.id if done else "")

    def end(self) -> EndedSession:
        """Move all files to `archive/`, as one commit that `undo` takes back.

        Notes that are still blank are dropped. A fact, and a file that cannot be read or would be too deep there,
        stays where it is.

        Raises:
            Blocked, NotFound: it has ended already, or never began.
            Busy: others are always faster.
        """
        return retry(self._ended, busy=f"the files of {self.sheaf.scope} change faster than they can be read")

    def _ended(self) -> EndedSession:
        changes, left = self._moved(FILE), []
        for row in self.sheaf.list():
            if row.path != FILE and not row.path.startswith(ARCHIVE):
                try:
                    moved = [] if is_fact(row.path) else self._moved(row.path)
                except (PathRefused, StoreFailed):
                    moved = []
                changes += moved
                left += [] if moved else [row.path]
        # as they are, whatever is in them: it was here before
        allow = Allow(secrets=True, anyway=True)
        done = self.sheaf.change_many(changes, "end the session", by=self.sheaf.by, allow=allow)
        archived = tuple(change.path for change in changes if change.data is not None)
        return EndedSession(done.id, archived, tuple(left))

    def _moved(self, path: str) -> list[Change]:
        """The changes that move a file to the archive. Raises Blocked, NotFound when the notes are not there."""
        target, number = check_path(ARCHIVE + path), 1
        while self._is_there(target):
            number += 1
            target = check_path(f"{ARCHIVE}{path.removesuffix('.md')}-{number}.md")
        try:
            memory = self.sheaf.read(path)
        except NotFound:
            raise self._gone() if path == FILE else Changed(path) from None
        gone = Change(path, None, memory.version)
        if path == FILE and sections.is_blank(memory):
            return [gone]
        return [Change(target, memory.data, ABSENT), gone]  # at no moment neither of them is there

    def _is_there(self, path: str) -> bool:
        return self.sheaf.own.find(path) is not None

    def _at_its_time(self, text: str, created: str) -> str:
        """A note with the time before it, and the day when it is not the first."""
        form = "%H:%M" if created == self.sheaf.today else "%Y-%m-%d %H:%M"
        said = time.strftime(form, time.localtime(self._clock()))
        return f"{said}\n{text}" if text.startswith(("```", "~~~")) else f"{said} {text}"

    def _gone(self) -> MemsheafError:
        """Why there are no notes: the session has ended, or it never began."""
        begin = "`memsheaf session start` begins one."
        if self._is_there(ARCHIVE + FILE) or self.sheaf.own.has_history(FILE):
            undo = f"Undo with `memsheaf undo --scope {self.sheaf.scope}`"
            return hinted(Blocked(f"the session {self.id!r} has ended"), f"{undo}; {begin}")
        there = "`memsheaf session list --all` shows which there are"
        return hinted(NotFound(str(self.sheaf.scope), f"there is no session {self.id!r}"), f"{there}; {begin}")


def start(
    layers: Sheaf,
    title: str = "",
    *,
    id: str = "",
    template: str = "",
    random: Callable[[int], bytes] = os.urandom,
) -> SessionNotes:
    """Begin a session. Its id is the day and a random number unless one is given; `template` is a text.

    Raises:
        Exists: there is, or was, a session of this id.
        ScopeRefused: the id is not allowed.
        TextRefused, SecretFound: the title or the template is not.
    """
    body = sections.check_template(template or template_of(layers.settings))
    if id:
        try:
            id = check_label(id, "session")
        except ScopeRefused as error:
            raise hinted(error, "Choose another --id, or leave it out to have one made.") from None
        for secret in find_secrets(id):
            raise SecretFound(secret.kind, "the id")
        return _begun(layers, id, title, body)
    taken = layers.names("session")  # also by one that ended and left no notes

    def begin() -> SessionNotes:
        made = f"{layers.today}-{random(2).hex()}"
        if made in taken:
            raise Exists(made)
        return _begun(layers, made, title, body)

    return retry(begin, on=Exists, busy="no free id was found for a session")


def of(layers: Sheaf, id: str = "") -> SessionNotes:
    """The session that is meant: the one named, the one chosen at the start, or the only one that is open.

    Raises:
        NotFound: there is none.
        Blocked: it ended before anything was noted.
        ScopeRefused: several are open, or the name is not allowed.
    """
    try:
        chosen = layers.chosen("session", id)
    except NotFound as error:
        raise hinted(NotFound(error.path, "no session is open"), "`memsheaf session start` begins one.") from None
    except ScopeRefused as error:
        hint = "`memsheaf session list` shows them; MEMSHEAF_SESSION names one for every command."
        raise hinted(error, hint) from None
    notes = _notes(layers, chosen)
    _ = notes.memory  # raises when there are none
    return notes


def open_sessions(layers: Sheaf) -> list[str]:
    """The ids of the sessions that have begun and not ended, in order."""
    return layers.going("session")


def ended_sessions(layers: Sheaf) -> list[str]:
    """The ids of the sessions that have ended and left notes, in order."""
    still_open = set(open_sessions(layers))
    return [id for id in layers.sessions_with(ARCHIVE + FILE) if id not in still_open]


def template_of(settings: Settings, path: str = "", *, long: bool = False) -> str:
    """The template in a file, or our `long` one, the user's own, or our short one. Raises TextRefused."""
    if long and not path:
        return read_prompt("session-long")
    place = path or os.path.join(settings.home, FILE)
    try:
        with open_plain(place) as file:
            data = file.read(LARGEST + 1)
        return sections.check_template(data.decode("utf-8-sig"))
    except (OSError, ValueError) as error:
        if not path and isinstance(error, FileNotFoundError):
            return read_prompt("session")
        why = (isinstance(error, OSError) and error.strerror) or "it cannot be read as UTF-8"
        raise sections.refused(f"{place!r} is no template: {why}", "Give a Markdown file with headings.") from None
    except TextRefused as error:
        raise sections.refused(f"{place!r}: {error}", error.hint) from None


def _notes(layers: Sheaf, id: str) -> SessionNotes:
    return SessionNotes(layers.only(f"session/{id}"), clock=layers.clock)


def _begun(layers: Sheaf, id: str, title: str, body: str) -> SessionNotes:
    notes = _notes(layers, id)
    today = notes.sheaf.today
    about = title.strip() or sections.untitled(today)
    memory = compose(
        name=about,
        description=about,
        kind="project",
        body=body,
        created=today,
        updated=today,
        source=notes.sheaf.by,
        pinned=True,
    )
    text = edited(memory.text, fields={"started": utc_time(layers.clock()), "blank": sections.digest(memory.body)})

    def plan(look: Look) -> dict[str, str | None]:
        scope = notes.sheaf.scope
        for path, why, instead in (
            (FILE, "it is open", f"`memsheaf session show --session {id}` shows it"),
            (ARCHIVE + FILE, "it has ended", f"Undo with `memsheaf undo --scope {scope}`"),
        ):
            if look(path) is not None:
                raise hinted(Exists(str(scope), why), f"{instead}; choose another --id for a new one.")
        return {FILE: text}

    notes.sheaf.change_files(plan, "begin a session")
    return notes
