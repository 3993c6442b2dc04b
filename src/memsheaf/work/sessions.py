"""Session notes: sections of one conversation's file, which outlives compaction.

A session is the file `session.md` in the scope `session/ID`. Its headings come from a template and stay as they are;
what is noted stands below one of them. When it ends, the file moves to `archive/`. It is open as long as `session.md`
is there.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from contextlib import suppress
from secrets import token_hex
from typing import NamedTuple

from memsheaf.config import Settings
from memsheaf.errors import (
    Exists,
    NotFound,
    ScopeRefused,
    SecretFound,
    TextRefused,
)
from memsheaf.frontmatter import edit_text, split
from memsheaf.gates import WrittenFile, add_dates
from memsheaf.guard.secrets import find_secrets
from memsheaf.memory import Allow, Memory, compose, parse, utc_time
from memsheaf.open_scope import Look, retry
from memsheaf.prompts import read_prompt
from memsheaf.scope import check_label, open_plain
from memsheaf.sheaf import Sheaf
from memsheaf.text.sections import (
    BYTES_PER_TOKEN,
    SESSION_FILE,
    append_bullet,
    count_tokens,
    digest,
    find_section,
    fold_title,
    is_blank,
    replace_lines,
    sections,
    untitled,
)

ARCHIVE_FOLDER = "archive/"
DEFAULT_SECTION = "Worklog"  # where a note goes that names none; there it gets the time
MAX_SECTION_TOKENS = 2_000
MAX_TOTAL_TOKENS = 12_000
PROMOTABLE = ("Key Results", "Errors & Corrections", "Learnings")  # sections that may matter beyond it


class SessionState(NamedTuple):
    """The state of a session. `started` and `changed` are times in UTC, `tokens` is the size of its notes."""

    id: str
    title: str
    started: str
    changed: str
    tokens: int
    is_blank: bool
    is_open: bool


class SessionNotes:
    """The notes of one session, open or ended."""

    def __init__(self, sheaf: Sheaf) -> None:
        self.sheaf = sheaf
        self.id = sheaf.scope.name

    @property
    def memory(self) -> Memory:
        """The file as it is now; the one in the archive when the session has ended.

        Raises NotFound when there is no such session, or it ended before anything was noted.
        """
        for path in (SESSION_FILE, ARCHIVE_FOLDER + SESSION_FILE):
            with suppress(NotFound):  # from the store: who looks at hundreds of sessions opens no index for each
                return parse(path, self.sheaf.own.store.read(path).data)
        raise self._missing()

    @property
    def body(self) -> str:
        """The notes, without the header of the file."""
        return self.memory.body

    @property
    def is_blank(self) -> bool:
        """True while the text is still that of the template."""
        return is_blank(self.memory)

    def state(self) -> SessionState:
        """Return how it stands."""
        memory = self.memory
        changed = self.sheaf.own.modified([memory.path])[memory.path]
        return SessionState(
            id=self.id,
            title=memory.name,
            started=memory.page.get("started") or memory.created,
            changed=utc_time(changed) if changed else "",
            tokens=count_tokens(memory.body),
            is_blank=is_blank(memory),
            is_open=memory.path == SESSION_FILE,
        )

    def note(self, text: str, *, section: str = "", replace: bool = False) -> str:
        """Add a bullet below a heading, or `replace` what stands there, and return the heading.

        The heading is named by its words, or by how it begins. Without a name it is the worklog, where a bullet
        begins with the time. Days such as "tomorrow" get their date beside them.

        Raises:
            TextRefused: there is no such heading, no room is left, or the text would change the headings.
            SecretFound: a password, a key or a token is in it.
            NotFound: the session has ended, or never began.
        """
        text = text.replace("\r\n", "\n").replace("\r", "\n").strip()
        if not text:
            raise _refusal("there is nothing to note", "Say it in one line.")
        text = add_dates(text, self.sheaf.today, piece=True)
        title = ""

        def plan(look: Look) -> Mapping[str, str]:
            nonlocal title
            old = look(SESSION_FILE)
            if old is None:
                raise self._missing()
            page = split(old)
            title = _choose_title(page.body, section or DEFAULT_SECTION)
            if replace:
                body = _replace_notes(page.body, title, text)
            elif fold_title(title) == fold_title(DEFAULT_SECTION):
                apart = "\n" if text.startswith(("```", "~~~")) else " "
                now = time.strftime("%Y-%m-%d %H:%M", time.localtime(self.sheaf.clock()))
                body = append_bullet(page.body, title, now + apart + text)
            else:
                body = append_bullet(page.body, title, text)
            _refuse_changed_headings(page.body, body)
            _refuse_overfull(page.body, body, title)
            return {
                SESSION_FILE: edit_text(old, fields={"updated": self.sheaf.today}, body=body) if page.head else body
            }

        try:
            self.sheaf.own.change_files(plan, "replace a section" if replace else "note")
        except SecretFound as error:  # the rest of the file was there before
            raise SecretFound(error.kind, "the note") from None
        return title

    def end(self) -> str:
        """Move the notes to the archive, or drop them while they are blank, and return the id of the commit.

        Raises:
            NotFound: it has ended already, or never began.
            Busy: others are always faster.
        """

        def move() -> str:
            memory = self.memory
            if memory.path != SESSION_FILE:
                raise self._missing()
            files = [WrittenFile(SESSION_FILE, None, memory)]
            if not is_blank(memory):  # at no moment neither of them is there
                archived = ARCHIVE_FOLDER + SESSION_FILE
                files.insert(0, WrittenFile(archived, memory._replace(path=archived)))
            # as it is, whatever is in it: it was here before
            allow = Allow(secrets=True, anyway=True)
            return self.sheaf.own.change_many(files, "end the session", by=self.sheaf.by, allow=allow).id

        return retry(move, busy=f"the files of {self.sheaf.scope} change faster than they can be read")

    def _missing(self) -> NotFound:
        undo = f"`memsheaf undo --scope {self.sheaf.scope}` opens one that has ended"
        hint = f"`memsheaf session show --all` shows which there are; {undo}."
        return NotFound(str(self.sheaf.scope), f"there is no open session {self.id!r}", hint=hint)


def start_session(layers: Sheaf, title: str = "", *, id: str = "", template: str = "") -> SessionNotes:
    """Begin a session. Its id is the day and a random number unless one is given; `template` is a text.

    Raises:
        Exists: there is, or was, a session of this id.
        ScopeRefused: the id is not allowed.
        TextRefused, SecretFound: the title or the template is not.
    """
    body = check_template(template or read_template(layers.settings))
    for secret in find_secrets(id):
        raise SecretFound(secret.kind, "the id")
    try:
        name = check_label(id or f"{layers.today}-{token_hex(2)}", "session")
    except ScopeRefused as error:
        error.hint = "Choose another --id, or leave it out to have one made."
        raise
    notes = SessionNotes(layers.only(f"session/{name}"))
    title = title.strip() or untitled(layers.today)
    memory = compose(
        name=title,
        description=title,
        kind="project",
        body=body,
        created=layers.today,
        updated=layers.today,
        source=notes.sheaf.by,
        pinned=True,
    )
    text = edit_text(memory.text, fields={"started": utc_time(layers.clock()), "blank": digest(memory.body)})

    def plan(look: Look) -> Mapping[str, str]:
        scope = notes.sheaf.scope
        if look(SESSION_FILE) is not None:
            shown = f"`memsheaf session show -s session/{name}` shows it; -s names a new one otherwise."
            raise Exists(str(scope), "it is open", hint=shown)
        if look(ARCHIVE_FOLDER + SESSION_FILE) is not None:
            undo = f"Undo with `memsheaf undo --scope {scope}`; -s names a new one otherwise."
            raise Exists(str(scope), "it has ended", hint=undo)
        return {SESSION_FILE: text}

    notes.sheaf.own.change_files(plan, "begin a session")
    return notes


def open_session(layers: Sheaf, id: str = "") -> SessionNotes:
    """Return the session that is meant: the one named, the one chosen at the start, or the only one that is open.

    Raises:
        NotFound: there is none.
        ScopeRefused: several are open, or the name is not allowed.
    """
    try:
        notes = SessionNotes(layers.only(f"session/{layers.work.choose('session', id)}"))
    except NotFound as error:
        raise NotFound(error.ref.path, "no session is open", hint="`memsheaf session start` begins one.") from None
    except ScopeRefused as error:
        hint = "`memsheaf session show` shows them; -s session/ID names one, and MEMSHEAF_SESSION for every command."
        error.hint = hint
        raise error from None
    _ = notes.memory  # raises when there are none
    return notes


def list_ended(layers: Sheaf) -> list[str]:
    """Return the ids of the sessions that have ended and left notes, in order."""
    still_open = layers.work.going("session")
    return [id for id in layers.work.sessions_with(ARCHIVE_FOLDER + SESSION_FILE) if id not in still_open]


def read_template(settings: Settings, *, long: bool = False) -> str:
    """Return our long template, or the user's own, or our short one. Raises TextRefused."""
    place = os.path.join(settings.home, SESSION_FILE)
    if long or not os.path.lexists(place):
        return read_prompt("session-long" if long else "session")
    try:
        with open_plain(place) as file:
            return check_template(file.read(MAX_TOTAL_TOKENS * BYTES_PER_TOKEN + 1).decode("utf-8-sig"))
    except (OSError, ValueError, TextRefused) as error:
        why = f"{place!r} is no template: {error}"
        raise _refusal(why, "A template is Markdown with headings below the first level, such as '## Log'.") from None


def check_template(text: str) -> str:
    """Return the headings and guides that notes begin with, provided that each heading can be named.

    Raises TextRefused.
    """
    body = split(text.replace("\r\n", "\n")).body.strip("\n") + "\n"
    titles = [fold_title(part.title) for part in sections(body) if part.level > 1]
    if not all(titles) or len(set(titles)) < max(len(titles), 1):
        raise TextRefused("each heading below the first level of a template needs words of its own")
    if count_tokens(body) > MAX_TOTAL_TOKENS:
        raise TextRefused(f"a template has at most {MAX_TOTAL_TOKENS:,} tokens")
    return body


def _choose_title(body: str, name: str) -> str:
    """Return the heading of this name, or the only one that begins so. Raises TextRefused."""
    titles = {fold_title(part.title): part.title for part in sections(body) if part.level > 1}
    wanted = fold_title(name)
    if wanted in titles:
        return titles[wanted]
    fitting = [title for folded, title in titles.items() if wanted and folded.startswith(wanted)]
    if len(fitting) == 1:
        return fitting[0]
    why = "several sections could be" if fitting else "there is no section"
    names = ", ".join(titles.values()) or "none"
    hint = "Name one of them. A heading that was removed can be put back with `memsheaf edit`."
    raise _refusal(f"{why} {name!r}; there are: {names}", hint)


def _replace_notes(body: str, title: str, text: str) -> str:
    section = find_section(body, title)
    if section is None:
        return body
    lines = [line.rstrip() for line in text.split("\n")]
    if section.guide:
        lines = [*section.guide, "", *lines]
    return replace_lines(body, section, lines)


def _refuse_changed_headings(body: str, changed: str) -> None:
    """Raise TextRefused when a text adds a heading, or leaves a fence open, which would swallow those behind it."""
    before, after = ([part.title for part in sections(f"{text}\n# end")] for text in (body, changed))
    if before != after:
        why = "headings stay as they are, and this text would change them"
        raise _refusal(why, "Close a code fence that it opens, and indent lines that begin with '#'.")


def _refuse_overfull(body: str, changed: str, title: str) -> None:
    """Raise TextRefused when a section, or all of them together, would grow past what they may hold."""
    if _count_below(body, title) < (size := _count_below(changed, title)) > MAX_SECTION_TOKENS:
        why = f"the section {title!r} would have {size:,} tokens; {MAX_SECTION_TOKENS:,} is the most"
    elif count_tokens(body) < (total := count_tokens(changed)) > MAX_TOTAL_TOKENS:
        why = f"the notes would have {total:,} tokens; {MAX_TOTAL_TOKENS:,} is the most"
        title = max(sections(changed), key=lambda part: count_tokens(part.text)).title
    else:
        return
    raise _refusal(why, f"Make room: `--section {title!r} --replace` with what still matters of it.")


def _count_below(body: str, title: str) -> int:
    section = find_section(body, title)
    return count_tokens(section.text) if section else 0


def _refusal(why: str, hint: str) -> TextRefused:
    return TextRefused(why, hint=hint)
