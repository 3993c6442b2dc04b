"""A context provider for Microsoft's Agent Framework: instructions, recall, tools and learning.

    agent = Agent(client, context_providers=[MemoryProvider("project", "user")])

The catalog stands in the instructions. What is recalled for a message stands before it, for the model alone: the
history stays as it was said. A finished run is kept, and learned from beside the agent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from memsheaf.adapters import missing
from memsheaf.adapters.background import ScopedMemory, going_on
from memsheaf.config import Settings
from memsheaf.recall import turns
from memsheaf.recall.session import Session
from memsheaf.scope import Scope
from memsheaf.sheaf import Sheaf
from memsheaf.tools import READING, Tools

try:
    from agent_framework import (
        AgentSession,
        ChatContext,
        ChatMiddleware,
        ContextProvider,
        FunctionTool,
        Message,
        SessionContext,
        SupportsAgentRun,
    )
except ImportError as error:
    raise missing("agent-framework", error) from None


class ProviderSession(NamedTuple):
    """The memory side of one conversation: what the user said lately, and tools that know what was read."""

    session: Session
    tools: Tools


class TurnContext(NamedTuple):
    """What memory has for one run; nothing, when it fails or the user asks to do without."""

    prompt: str = ""
    recalled: str = ""
    tools: tuple[FunctionTool, ...] = ()


class MemoryProvider(ContextProvider):
    """The memory of one scope or several, the nearest first: tools and learning are for the first.

    A scope is named, or is an open `Sheaf`, which its owner closes. `tree` is the folder of the work: the project
    that is meant, and where citations are looked up. A `read_only` memory offers the tools that read, and learns
    nothing. With `distil` what was said becomes memories in a thread beside the agent, by the model of the settings
    or by rules; else the turns wait for `memsheaf extract`.
    """

    def __init__(
        self,
        *scopes: Scope | str | Sheaf,
        settings: Settings | None = None,
        tree: str = "",
        read_only: bool = False,
        distil: bool = True,
        source_id: str = "memsheaf",
    ) -> None:
        super().__init__(source_id)
        self._memory = ScopedMemory(scopes, settings=settings, tree=tree, read_only=read_only, distil=distil)
        self._known: WeakKeyDictionary[AgentSession, ProviderSession] = WeakKeyDictionary()

    def close(self) -> None:
        """Wait until what was said is learned, and close what was opened here. Nothing is lost without."""
        self._memory.close()

    def __enter__(self) -> MemoryProvider:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def before_run(
        self, *, agent: SupportsAgentRun, session: AgentSession, context: SessionContext, state: dict[str, Any]
    ) -> None:
        """Put the catalog into the instructions, what is recalled before the message, and the tools beside."""
        conversation = self._known.pop(session, None) or self._begun()  # for this run alone, until it ends
        context.metadata[self.source_id] = conversation
        said = "\n".join(message.text for message in context.input_messages if message.role == "user")
        found = await asyncio.to_thread(_prepare_turn, conversation, said)
        if found.prompt:
            context.extend_instructions(self.source_id, found.prompt)
        if found.recalled:
            context.extend_middleware(self.source_id, RecalledMiddleware(found.recalled))
        context.extend_tools(self.source_id, found.tools)

    async def after_run(
        self, *, agent: SupportsAgentRun, session: AgentSession, context: SessionContext, state: dict[str, Any]
    ) -> None:
        """Keep what was said, so that it can be learned from."""
        conversation = context.metadata.pop(self.source_id, None)
        if not isinstance(conversation, ProviderSession):
            return
        self._known[session] = conversation
        replies = context.response.messages if context.response else []
        if replies and self._memory.learns:
            turn = _turn(
                context.session_id or session.session_id, context.input_messages, replies, conversation.tools
            )
            await asyncio.to_thread(self._memory.learn, conversation.session, turn)

    def _begun(self) -> ProviderSession:
        session = self._memory.session()
        return ProviderSession(session, Tools(self._memory.nearest, session=session))


class RecalledMiddleware(ChatMiddleware):
    """Puts what was recalled before the last message of the user, in what the model is sent and nowhere else.

    As a message of the context it would stand before the history, wherever that is loaded later.
    """

    def __init__(self, recalled: str) -> None:
        self._recalled = recalled

    async def process(self, context: ChatContext, call_next: Callable[[], Awaitable[None]]) -> None:
        """Add it to one request."""
        messages = list(context.messages)
        spoken = [place for place, message in enumerate(messages) if message.role == "user"]
        if spoken:  # else the service has it already, and is told what tools answered
            messages.insert(spoken[-1], Message("user", [self._recalled]))
            context.messages = messages
        await call_next()


def _prepare_turn(conversation: ProviderSession, said: str) -> TurnContext:
    """What memory has for what the user said."""
    with going_on("the agent goes on without memory"):
        session = conversation.session
        session.resume({})  # what an earlier run was shown is not in the history, and may be shown again
        recalled = session.recall(said).text  # before the rest: it sees whether memory is to be ignored
        if not session.ignoring:
            return TurnContext(session.prompt(), recalled, tuple(_functions(conversation.tools)))
    return TurnContext()


def _functions(tools: Tools) -> Iterator[FunctionTool]:
    """Our tools as the framework calls them. What goes wrong is an answer."""

    async def call(name: str, /, **arguments: object) -> str:
        return await asyncio.to_thread(tools.call, name, arguments)

    for one in tools.schemas():
        yield FunctionTool(
            name=one["name"],
            description=one["description"],
            func=partial(call, one["name"]),
            input_model=one["input_schema"],
        )


def _turn(conversation: str, asked: Sequence[Message], replies: Sequence[Message], tools: Tools) -> turns.Turn:
    """What was said and read in a run, but for what our own tools answered."""
    messages = [turns.Message("user", one.text, one.message_id or "") for one in asked if one.role == "user"]
    called: dict[str | None, str | None] = {}
    saved = False
    for reply in replies:
        name = reply.message_id or ""
        for content in reply.contents:
            if content.type == "function_call":
                called[content.call_id] = content.name
            elif content.type == "function_result":
                tool, answer = called.get(content.call_id), str(content.result)
                if tool not in tools.names:
                    messages.append(turns.Message("tool", answer, name))
                saved |= tool in tools.names and tool not in READING and not answer.startswith("Error:")
        if reply.role == "assistant" and reply.text:
            messages.append(turns.Message("assistant", reply.text, name))
    return turns.Turn(conversation, tuple(messages), saved=saved)
