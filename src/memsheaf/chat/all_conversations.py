"""Every kept conversation of a person, over all projects: those of the chat, and of coding agents.

What a coding agent said is read from its own transcript, as long as that is there; what was off the record, or said
while memory was off, is left out, and so are secrets.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import NamedTuple

from memsheaf.chat.conversations import (
    TITLE,
    Conversation,
    Conversations,
    ConversationSummary,
)
from memsheaf.errors import MemsheafError, NotFound, hinted
from memsheaf.guard.secrets import without_secrets
from memsheaf.hosts.clients import CLIENTS
from memsheaf.hosts.conversation import HostConversation, conversations, load, path_of, size_of
from memsheaf.learn.conversation_file import PREFIX, SUFFIX, UNRECORDED
from memsheaf.learn.transcripts import read_transcript
from memsheaf.llm.model import Said
from memsheaf.memory import parse
from memsheaf.recall.turns import split_label
from memsheaf.sheaf import Sheaf
from memsheaf.store import Commit
from memsheaf.store.state import State
from memsheaf.text.neutralize import one_line
from memsheaf.values import open_plain, utc_time
from memsheaf.work.all_scopes import AllScopes, KnownScope
from memsheaf.work.scopes import SCRATCH

TURNS = 50  # of a conversation that are read at once
LONGEST = 20_000  # characters of a message that are shown
COMMITS = 2_000  # the last ones of a scope, among which those that brought something are looked for
SECONDS = len("2026-11-15T22:41:03")
HEAD = 256 << 10  # bytes of a transcript that are read for its title
MOST = 16 << 20  # and for all that was said; of a longer one the end


class KnownConversation(NamedTuple):
    """A conversation: `id` as headers name it, `key` the scope that it is kept for, `host` the coding agent or ""."""

    id: str
    key: str
    scope: str
    host: str
    title: str
    began: str
    last: str
    turns: int
    model: str = ""
    lines: tuple[str, ...] = ()


class SpokenTurn(NamedTuple):
    """What the user said, and all that was said and done until the next time; `number` counts from 1."""

    number: int
    at: str
    said: tuple[Said, ...]


class Lesson(NamedTuple):
    """A memory that came of a conversation: `action` is `learned`, or what a tool did: `saved`, `updated`, `deleted`.

    `turn` is 0 where it is not known. `path` is the one in the scope of `key`; there may be no such file any more.
    `commit` brought it, at the time `at`; both are "" when that is not among the last commits of the scope.
    """

    key: str
    path: str
    name: str
    kind: str
    action: str
    turn: int
    exists: bool
    at: str = ""
    commit: str = ""


def list_all(scopes: AllScopes, *, query: str = "", limit: int = 50) -> list[KnownConversation]:
    """Return the conversations that were gone on with last; with a query, those of the chat with all its words."""
    found: list[KnownConversation] = []
    for known in _lasting(scopes):
        kept = Conversations(_state(scopes, known))
        hits = kept.search(query, limit=limit) if query.strip() else [(one, []) for one in kept.list(limit=limit)]
        found += [_known(one, known)._replace(lines=tuple(lines)) for one, lines in hits]
    if not query.strip():
        hosts = sorted(_hosted(scopes), key=lambda one: -one.number("at"))
        found += [_summarize(scopes, host) for host in hosts[:limit]]
    return sorted(found, key=lambda one: (one.last, one.id), reverse=True)[:limit]


def find_conversation(scopes: AllScopes, id: str) -> KnownConversation:
    """One conversation by its whole id. Raises NotFound."""
    for known in _lasting(scopes):
        if conversation := _kept(scopes, known, id):
            return _known(conversation.summarize(), known)
    if host := _hosted_as(scopes, id):
        return _summarize(scopes, host)
    raise hinted(
        NotFound(id, f"no conversation {one_line(id, 60)!r} is kept"), "`memsheaf conversations` lists them."
    )


def is_kept(scopes: AllScopes, id: str) -> bool:
    """Whether there is a conversation of this id."""
    return any(_kept(scopes, known, id) for known in _lasting(scopes)) or _hosted_as(scopes, id) is not None


def read_turns(scopes: AllScopes, one: KnownConversation, *, around: int = 1) -> list[SpokenTurn]:
    """The turns of the page that a turn is on: 1 to 50, 51 to 100 and so on."""
    first = (max(around, 1) - 1) // TURNS * TURNS + 1
    host = _hosted_as(scopes, one.id) if one.host else None
    source = _host_turns(host) if host else () if one.host else _kept_turns(scopes, one)
    return [_shown(turn) for turn in islice(source, first - 1, first - 1 + TURNS)]


def list_lessons(scopes: AllScopes, one: KnownConversation) -> list[Lesson]:
    """What a conversation taught: memories whose header names it, and what its tools did to memories."""
    layers = scopes.layers(one.key)
    keys = {known.root: known.key for known in scopes.list()}
    found: dict[tuple[str, str], Lesson] = {}
    for sheaf in layers.lasting().sheaves():
        for row in sheaf.reader.learned_in(one.id):
            with suppress(MemsheafError):
                number = split_label(sheaf.read(row.path).conversation)[1]
                key = keys.get(sheaf.root, one.key)
                found[sheaf.root, row.path] = Lesson(key, row.path, row.name, row.kind, "learned", number, True)
    for turn in _kept_turns(scopes, one) if not one.host else ():
        for touched in (touched for said in turn.said for touched in said.touched):
            if touched.action in ("saved", "updated", "deleted"):
                with suppress(MemsheafError):
                    sheaf, path = layers.place(touched.path)
                    memory = sheaf.reader.find(path)
                    name, kind = (memory.name, memory.kind) if memory else (path, "")
                    key = keys.get(sheaf.root, one.key)
                    lesson = Lesson(key, path, name, kind, touched.action, turn.number, memory is not None, turn.at)
                    found[sheaf.root, path] = lesson
    for sheaf in layers.lasting().sheaves():
        wanted = {path: lesson for (root, path), lesson in found.items() if root == sheaf.root}
        found |= {(sheaf.root, path): lesson for path, lesson in _with_commits(sheaf, wanted, one.id)}
    return sorted(found.values(), key=lambda lesson: (lesson.turn, lesson.path))


def _with_commits(sheaf: Sheaf, lessons: Mapping[str, Lesson], id: str) -> Iterator[tuple[str, Lesson]]:
    """Lessons, by path, each with the oldest commit that has it: by the header, or by the time of the turn."""
    brought: dict[str, Commit] = {}
    for commit in sheaf.log(limit=COMMITS) if lessons else ():
        for step in commit.revisions:
            if (lesson := lessons.get(step.path)) and not commit.undoes:
                named = step.new and split_label(parse(step.path, step.new).conversation)[0] == id
                if named or (lesson.at and commit.at[:SECONDS] >= lesson.at[:SECONDS]):
                    brought[step.path] = commit
    for path, lesson in lessons.items():
        is_known = path in brought
        yield path, lesson._replace(at=brought[path].at, commit=brought[path].id) if is_known else lesson


def _known(one: ConversationSummary, scope: KnownScope) -> KnownConversation:
    return KnownConversation(one.id, scope.key, scope.title, "", one.title, one.began, one.last, one.turns, one.model)


def _lasting(scopes: AllScopes) -> list[KnownScope]:
    return [known for known in scopes.list() if known.layer not in SCRATCH]


def _state(scopes: AllScopes, known: KnownScope) -> State:
    return State.of(known.root, scopes.settings.state)


def _kept(scopes: AllScopes, known: KnownScope, id: str) -> Conversation | None:
    state = _state(scopes, known)
    if os.path.basename(id) != id or not os.path.isfile(os.path.join(state.folder, f"{PREFIX}{id}{SUFFIX}")):
        return None
    try:
        return Conversations(state).open(id, reading=True)
    except MemsheafError:  # no id of ours
        return None


def _kept_turns(scopes: AllScopes, one: KnownConversation) -> Iterator[SpokenTurn]:
    known = next((known for known in _lasting(scopes) if known.key == one.key), None)
    conversation = _kept(scopes, known, one.id) if known else None
    if conversation is None:
        raise NotFound(one.id, f"the conversation {one.id!r} is gone")
    number, at, said = 0, "", list[Said]()
    for line in conversation.lines():
        if line.said is None:
            continue
        if line.said.role == "user":
            if number:
                yield SpokenTurn(number, at, tuple(said))
            number, at, said = number + 1, line.at, []
        said.append(line.said)
    if number:
        yield SpokenTurn(number, at, tuple(said))


def _shown(turn: SpokenTurn) -> SpokenTurn:
    return turn._replace(said=tuple(one._replace(text=_cut(without_secrets(one.text))) for one in turn.said))


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}\n(… {len(text) - LONGEST:,} characters more)"


def _hosted(scopes: AllScopes) -> list[HostConversation]:
    """The conversations of coding agents that have a transcript."""
    state = scopes.settings.state
    found = (HostConversation(path, load(path)) for path in conversations(state))
    return [one for one in found if one.text("id") and size_of(one.text("transcript"))]


def _hosted_as(scopes: AllScopes, id: str) -> HostConversation | None:
    """The conversation of a coding agent under this id, if its transcript is there."""
    for host in CLIENTS if id else ():
        path = path_of(scopes.settings.state, host, id)
        one = HostConversation(path, load(path))
        if one.text("id") == id and size_of(one.text("transcript")):
            return one
    return None


def _summarize(scopes: AllScopes, host: HostConversation) -> KnownConversation:
    known = next((one for one in scopes.list() if one.root == host.text("root")), None)
    began = title = ""
    turns = 0
    for turn in _host_turns(host, HEAD):
        began, turns = began or turn.at, turns + 1
        title = title or one_line(turn.said[0].text, TITLE)
    last = utc_time(host.number("at"))
    name = CLIENTS.get(host.text("host"), {}).get("title", host.text("host"))
    whole = turns if size_of(host.text("transcript")) <= HEAD else 0
    key, scope = (known.key, known.title) if known else ("user", os.path.basename(host.text("cwd")))
    return KnownConversation(
        host.text("id"), key, scope, str(name), without_secrets(title), began or last, last, whole
    )


def _host_turns(host: HostConversation, most: int = MOST) -> Iterator[SpokenTurn]:
    """The turns of a transcript, without what was said off the record or while memory was off."""
    number, reach = 0, ""
    for turn in read_transcript(_read_lines(host, most), conversation=host.text("id")):
        said = tuple(Said(one.role, one.text) for one in turn.messages if one.text.strip())
        if not any(one.role == "user" for one in said):
            continue
        number += 1
        is_silent, reach = turn.follow_privacy(reach)
        said = (Said("user", UNRECORDED),) if is_silent else said
        yield SpokenTurn(number, turn.at, said)


def _read_lines(host: HostConversation, most: int) -> Sequence[str]:
    """Whole lines of a transcript that are JSON."""
    begin, end = host.number("off_from"), host.number("off_to")
    try:
        with open_plain(host.text("transcript")) as file:
            skip = max(0, size_of(host.text("transcript")) - most) if most == MOST else 0
            file.seek(skip)
            if skip:
                skip += len(file.readline())
            found, at = [], skip
            for line in file:
                if at - skip + len(line) > most:
                    break
                if line.startswith(b"{") and not begin <= at < end:
                    found.append(line.decode("utf-8", "replace"))
                at += len(line)
            return found
    except OSError:
        return []
