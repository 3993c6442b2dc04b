"""A memory service for Google ADK: learns from sessions, searches what was learned.

    runner = Runner(app_name="shop", agent=agent, session_service=sessions, memory_service=MemoryService())

Every user of every app has a folder of their own, and nobody sees another's. Each call opens it for itself, in a
thread, so that one service serves any number of users, and an event loop never waits for a disk.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from itertools import islice

from memsheaf import config
from memsheaf.adapters import missing
from memsheaf.adapters.background import distil
from memsheaf.errors import Duplicate, Exists, NotFound
from memsheaf.recall.ignore import asks_to_ignore
from memsheaf.recall.inject import Shown
from memsheaf.recall.turns import Message, Turn
from memsheaf.scope import Scope
from memsheaf.sheaf import Sheaf
from memsheaf.text.neutralize import for_prompt, one_line
from memsheaf.tools import READING, TOOLS

try:
    from google.adk.events.event import Event
    from google.adk.memory.base_memory_service import BaseMemoryService, SearchMemoryResponse
    from google.adk.memory.memory_entry import MemoryEntry
    from google.adk.sessions.session import Session
    from google.genai import types
except ImportError as error:
    raise missing("google-adk", error) from None

MOST = 10  # memories that a search gives, as many as ADK's own service does
WRITING = frozenset(tool.__name__ for tool in TOOLS) - READING
OURS = READING | {"load_memory"}  # what these answered is remembered already

ScopeOf = Callable[[str, str], Scope | str]


def scope_of(app_name: str, user_id: str) -> str:
    """The scope of one user of one app: readable in part, and never that of another, whatever the ids are.

    >>> scope_of("shop", "Ana Pérez")
    'agent/shop-ana-p-rez-14091ee28572a910516ff39c5989888d'
    """
    name, user = (text.encode("utf-8", "surrogatepass") for text in (app_name, user_id))
    digest = sha256(b"%d:%s%s" % (len(name), name, user)).hexdigest()[:32]
    readable = (re.sub(r"[^a-z0-9]+", "-", text.lower())[:15].strip("-") for text in (app_name, user_id))
    return "agent/" + "-".join([*filter(None, readable), digest])


class MemoryService(BaseMemoryService):
    """The memories of the users of an app, as Markdown files.

    `scope` says whose memory belongs to an app and a user; by default each user of each app has one. With `distil`
    a session becomes memories as soon as it is added, by the model of the settings or by rules; else its turns wait
    for `memsheaf extract`. What goes wrong is raised as MemsheafError.
    """

    def __init__(
        self, settings: config.Settings | None = None, *, scope: ScopeOf = scope_of, distil: bool = True
    ) -> None:
        self._settings = settings or config.load()
        self._scope = scope
        self._distil = distil

    async def add_session_to_memory(self, session: Session) -> None:
        """Learn from a session. It may be added again: only what is new since then is learned."""
        await self.add_events_to_memory(
            app_name=session.app_name, user_id=session.user_id, events=session.events, session_id=session.id
        )

    async def add_events_to_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        events: Sequence[Event],
        session_id: str | None = None,
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Learn from some events of a session. Those that were added before are known by their ids."""
        await asyncio.to_thread(self._learn, app_name, user_id, list(events), session_id or "")

    async def add_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        memories: Sequence[MemoryEntry],
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Save facts as they are, one after the other; what is there already is left alone.

        An entry's `custom_metadata` may hold its `name`, `description` and `type` (user, feedback, project or
        reference). The first that is refused, for a secret in it for example, ends it.
        """
        await asyncio.to_thread(self._save, app_name, user_id, memories)

    async def search_memory(self, *, app_name: str, user_id: str, query: str) -> SearchMemoryResponse:
        """The memories of this user that share words with the query or mean the same, best first.

        None when the query, as `preload_memory` passes on what the user says, asks to do without memory.
        """
        return await asyncio.to_thread(self._search, app_name, user_id, query)

    async def delete_memory(self, *, app_name: str, user_id: str, memory_id: str | None = None) -> None:
        """Forget a memory by the id that a search gave. A person can bring it back with `memsheaf undo`."""
        if memory_id:
            await asyncio.to_thread(self._forget, app_name, user_id, memory_id)

    def _open(self, app_name: str, user_id: str) -> Sheaf:
        return Sheaf.open(self._scope(app_name, user_id), settings=self._settings, by="google-adk")

    def _learn(self, app_name: str, user_id: str, events: Sequence[Event], conversation: str) -> None:
        with self._open(app_name, user_id) as sheaf:
            kept = [sheaf.learn(turn) for turn in turns_of(events, conversation)]
            if any(kept) and self._distil:
                distil(sheaf)

    def _save(self, app_name: str, user_id: str, memories: Sequence[MemoryEntry]) -> None:
        with self._open(app_name, user_id) as sheaf:
            for entry in memories:
                text, said = _text(entry.content), entry.custom_metadata
                name, description = (str(said.get(key) or one_line(text, 80)) for key in ("name", "description"))
                try:
                    sheaf.remember(name, description, str(said.get("type") or "user"), text)
                except Duplicate:
                    continue
                except Exists as error:
                    if sheaf.read(error.path).body.strip() != text.strip():
                        raise

    def _search(self, app_name: str, user_id: str, query: str) -> SearchMemoryResponse:
        with self._open(app_name, user_id) as sheaf:
            if asks_to_ignore(query) or not os.path.isdir(sheaf.root):  # no index for who has nothing yet
                return SearchMemoryResponse()
            found = list(islice(_presentable(sheaf, query), MOST))
            sheaf.used(*(shown.memory.path for shown in found))
            return SearchMemoryResponse(memories=list(map(_entry, found)))

    def _forget(self, app_name: str, user_id: str, path: str) -> None:
        with self._open(app_name, user_id) as sheaf:
            sheaf.forget(path)


def turns_of(events: Sequence[Event], conversation: str) -> Iterator[Turn]:
    """The turns of a conversation; each begins where the user speaks."""
    turns: list[list[Event]] = []
    for event in events:
        if not turns or (event.author == "user" and _text(event.content)):
            turns.append([])
        turns[-1].append(event)
    for turn in turns:
        messages = tuple(message for event in turn for message in _messages(event))
        saved = any(call.name in WRITING for event in turn for call in event.get_function_calls())
        at = datetime.fromtimestamp(turn[0].timestamp, UTC).isoformat(timespec="seconds")
        if messages:
            yield Turn(conversation, messages, at, saved)


def _messages(event: Event) -> Iterator[Message]:
    """What an event tells: what tools answered, but for what they read in memory, and what was said."""
    for answer in event.get_function_responses():
        if answer.response and answer.name not in OURS:
            yield Message("tool", json.dumps(answer.response, ensure_ascii=False, default=str), event.id)
    if text := _text(event.content):
        yield Message("user" if event.author == "user" else "assistant", text, event.id)


def _text(content: types.Content | None) -> str:
    """What is said in a content; not what a model thought on the way."""
    parts = (content.parts if content else None) or ()
    return "\n".join(part.text for part in parts if part.text and not part.thought)


def _presentable(sheaf: Sheaf, query: str) -> Iterator[Shown]:
    """What a search finds and a model may see: nothing unconfirmed, expired or broken."""
    for match in sheaf.matches(query, limit=3 * MOST):
        try:
            memory = sheaf.read(match.row.path)
        except NotFound:  # somebody has just removed it
            continue
        if memory.holds(sheaf.today):
            yield Shown(str(sheaf.scope), memory, sheaf.today, saved=match.row.updated, rest="")


def _entry(shown: Shown) -> MemoryEntry:
    """A memory as ADK has it, its text harmless inside a prompt."""
    memory, name = shown.memory, one_line(for_prompt(shown.memory.name), 200)
    text = shown.text if shown.text.startswith(name) else f"{name}\n\n{shown.text}"
    return MemoryEntry(
        id=memory.path,
        author="memory",
        timestamp=memory.updated or memory.created or shown.saved,
        content=types.Content(role="user", parts=[types.Part(text=text)]),
        custom_metadata={"type": one_line(memory.kind, 20)},
    )
