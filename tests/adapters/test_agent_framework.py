"""The framework's own agent and session, with a chat client that says what it was told to, over our provider."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from collections.abc import AsyncIterable, Awaitable, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from agent_framework import (
    Agent,
    BaseChatClient,
    ChatMiddlewareLayer,
    ChatResponse,
    ChatResponseUpdate,
    Content,
    FunctionInvocationLayer,
    InMemoryHistoryProvider,
    Message,
    ResponseStream,
)

from memsheaf.adapters.agent_framework import MemoryProvider
from memsheaf.config import Settings
from memsheaf.sheaf import Sheaf
from memsheaf.tools import READING, TOOLS

FRIDAYS = "Remember that our releases go out on Fridays."
WHEN = "When do our releases go out?"


class Asked(NamedTuple):
    """One request as the client got it."""

    messages: list[Message]
    instructions: str
    tools: list[str]

    @property
    def texts(self) -> list[str]:
        return [message.text for message in self.messages]


class Client(FunctionInvocationLayer[Any], ChatMiddlewareLayer[Any], BaseChatClient[Any]):
    """Gives these contents, one a request, or the last for ever, and keeps what it was asked."""

    def __init__(self, *answers: Content | str) -> None:
        super().__init__()
        self.answers = list(answers)
        self.asked: list[Asked] = []
        self.meanwhile: Callable[[], Awaitable[object]] | None = None  # goes on while the first request is answered

    def _inner_get_response(
        self, *, messages: Sequence[Message], stream: bool, options: Mapping[str, Any], **kwargs: Any
    ) -> Any:
        names = [tool.name for tool in options.get("tools") or ()]
        self.asked.append(Asked(list(messages), options.get("instructions") or "", names))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]

        async def whole() -> ChatResponse[Any]:
            meanwhile, self.meanwhile = self.meanwhile, None
            if meanwhile:
                await meanwhile()
            return ChatResponse(messages=[Message("assistant", [answer])])

        async def pieces() -> AsyncIterable[ChatResponseUpdate]:
            for word in str(answer).split(" "):
                yield ChatResponseUpdate(role="assistant", contents=[Content.from_text(word + " ")])

        return ResponseStream(pieces(), finalizer=ChatResponse.from_updates) if stream else whole()


def call(tool: str, /, **arguments: object) -> Content:
    return Content.from_function_call(f"call-{tool}", tool, arguments=json.dumps(arguments))


def settings_in(folder: str | Path) -> Settings:
    return Settings(f"{folder}/home", f"{folder}/cache", state=f"{folder}/state", embedder="none")


@pytest.fixture
def memory(settings: Settings) -> Iterator[MemoryProvider]:
    with MemoryProvider("user", settings=settings) as provider:
        yield provider


def agent_of(client: Client, *providers: Any) -> Agent[Any]:
    return Agent(client, instructions="Be kind.", context_providers=list(providers))


def run(client: Client, memory: MemoryProvider, *said: str) -> None:
    """One conversation of several runs."""

    async def converse() -> None:
        agent = agent_of(client, memory)
        session = agent.create_session()
        for text in said:
            await agent.run(text, session=session)

    asyncio.run(converse())


def remember(settings: Settings, *facts: str) -> None:
    with Sheaf.open("user", settings=settings) as sheaf:
        for fact in facts:
            sheaf.remember(fact.rstrip("."), fact, "project", fact)


def waiting(settings: Settings) -> list[Any]:
    with Sheaf.open("user", settings=settings) as sheaf:
        return sheaf.learning.inbox.turns()


# a conversation


def test_what_one_conversation_was_told_and_wrote_another_one_knows(tmp_path: Path) -> None:
    fact = {"name": "Style guide", "description": "Where it is", "type": "reference", "content": "In the wiki."}
    with MemoryProvider("user", settings=settings_in(tmp_path)) as memory:
        run(Client("Noted.", call("memory_write", **fact), "Noted."), memory, FRIDAYS, "The style guide has moved.")

    client = Client("On Fridays.")
    with MemoryProvider("user", settings=settings_in(tmp_path)) as memory:
        run(client, memory, WHEN)

    (asked,) = client.asked
    assert asked.instructions.startswith("Be kind.\n# Memory\n")
    assert "reference_style-guide.md" in asked.instructions
    assert "our releases go out on Fridays.\n</memory-" in asked.texts[0]
    assert asked.texts[1:] == [WHEN]
    assert asked.messages[0].role == "user"
    assert asked.tools == [tool.__name__ for tool in TOOLS]


@pytest.mark.parametrize("history", ["none", "before", "after"])
def test_what_is_recalled_stands_before_the_message_and_never_in_the_history(
    history: str, settings: Settings, memory: MemoryProvider
) -> None:
    remember(settings, "Our releases go out on Fridays.")
    kept = InMemoryHistoryProvider()
    placed: dict[str, list[Any]] = {"none": [memory], "before": [kept, memory], "after": [memory, kept]}
    client = Client("First.", call("memory_list"), "Second.", "Third.")

    async def converse() -> str:
        agent = agent_of(client, *placed[history])
        session = agent.create_session()
        for text in ("Hello to you.", WHEN, f"Once more: {WHEN}"):
            await agent.run(text, session=session)
        return json.dumps(session.to_dict())

    session = asyncio.run(converse())
    hello, first, after_tool, again = client.asked
    assert hello.texts == ["Hello to you."]
    assert first.texts[:2] == ["Hello to you.", "First."]
    assert [text[:10] for text in first.texts[2:]] == ["<memories-", WHEN[:10]]
    assert after_tool.texts[2:4] == first.texts[2:]
    assert [text[:10] for text in again.texts[-2:]] == ["<memories-", "Once more:"]  # it was not in what came before
    assert sum("<memories-" in text for text in again.texts) == 1
    assert "<memories-" not in session


def test_a_stream_is_the_same(settings: Settings, memory: MemoryProvider) -> None:
    client = Client("On Fridays.")

    async def converse() -> list[str]:
        agent = agent_of(client, memory)
        return [update.text async for update in agent.run(FRIDAYS, stream=True)]

    assert "".join(asyncio.run(converse())).strip() == "On Fridays."
    memory.close()
    with Sheaf.open("user", settings=settings) as sheaf:
        assert [row.path for row in sheaf.list()] == ["project_releases-fridays.md"]


def test_the_instructions_stay_the_same_bytes_while_no_memory_changes(
    settings: Settings, memory: MemoryProvider
) -> None:
    remember(settings, "Our releases go out on Fridays.")
    client = Client("Yes.")
    run(client, memory, WHEN, "And what is the weather like?")
    assert client.asked[0].instructions == client.asked[1].instructions


def test_the_first_scope_has_the_tools_and_all_are_recalled_from(settings: Settings) -> None:
    remember(settings, "Our releases go out on Fridays.")
    fact = {"name": "Style guide", "description": "Where it is", "type": "reference", "content": "In the wiki."}
    client = Client(call("memory_write", **fact), "On Fridays.")
    with Sheaf.open("agent/helper", settings=settings) as own:
        with MemoryProvider(own, "user", settings=settings) as memory:
            run(client, memory, WHEN)
        assert [row.path for row in own.list()] == ["reference_style-guide.md"]  # its owner closes it
    assert "Our releases go out on Fridays." in client.asked[0].texts[0]


# what is learned


def test_a_turn_holds_what_was_said_and_read_and_nothing_that_memory_answered(settings: Settings) -> None:
    remember(settings, "Our releases go out on Fridays.")

    def fetch(page: str) -> str:
        """Fetch a page."""
        return f"The page {page} says nothing."

    client = Client(call("memory_search", query="releases"), call("fetch", page="wiki"), "On Fridays.")

    async def converse(memory: MemoryProvider) -> None:
        await Agent(client, tools=[fetch], context_providers=[memory]).run(WHEN)

    with MemoryProvider("user", settings=settings, distil=False) as memory:
        asyncio.run(converse(memory))
    (turn,) = waiting(settings)
    assert [(message.role, message.text) for message in turn.messages] == [
        ("user", WHEN),
        ("tool", "The page wiki says nothing."),
        ("assistant", "On Fridays."),
    ]
    assert not turn.saved


@pytest.mark.parametrize(("content", "saved"), [("In the wiki.", True), ("Token ghp_" + "A1b2C3d4" * 5, False)])
def test_a_turn_in_which_the_agent_saved_something_says_so(content: str, saved: bool, settings: Settings) -> None:
    fact = {"name": "Style guide", "description": "Where it is", "type": "reference", "content": content}
    client = Client(call("memory_write", **fact), "Done.")
    with MemoryProvider("user", settings=settings, distil=False) as memory:
        run(client, memory, "Where is the style guide?")
    (turn,) = waiting(settings)
    assert turn.saved is saved


def test_in_a_turn_that_ignores_memory_there_is_none(settings: Settings) -> None:
    remember(settings, "Our releases go out on Fridays.")
    client = Client("I do not know.")
    with MemoryProvider("user", settings=settings, distil=False) as memory:
        run(client, memory, f"Ignore your memory for this one. {WHEN}", WHEN)
    ignoring, after = client.asked
    assert (ignoring.instructions, ignoring.tools, len(ignoring.texts)) == ("Be kind.", [], 1)
    assert after.tools
    assert "<memories-" in after.texts[-2]
    (turn,) = waiting(settings)
    assert turn.messages[0].text == WHEN


def test_a_memory_that_is_read_only_offers_what_reads_and_learns_nothing(
    settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    client = Client("Noted.")
    with MemoryProvider("user", settings=settings, read_only=True, distil=False) as memory:
        run(client, memory, FRIDAYS)
    assert set(client.asked[0].tools) == READING
    assert waiting(settings) == []
    assert "memsheaf" not in {record.name for record in caplog.records}  # it did not even try


def test_a_sheaf_is_not_made_read_only_afterwards(settings: Settings) -> None:
    with (
        Sheaf.open("user", settings=settings) as sheaf,
        pytest.raises(ValueError, match="read-only when it is opened"),
    ):
        MemoryProvider(sheaf, read_only=True)


# what goes wrong


def test_when_memory_fails_the_agent_goes_on_without_and_the_log_says_so(
    settings: Settings, memory: MemoryProvider, caplog: pytest.LogCaptureFixture
) -> None:
    remember(settings, "Our releases go out on Fridays.")
    for folder in (settings.home, settings.state):
        shutil.rmtree(folder, ignore_errors=True)
        Path(folder).write_text("a file stands where the folder was")
    client = Client("I do not know.")
    run(client, memory, WHEN)
    assert client.asked[0].texts == [WHEN]
    assert "nothing is learned from this turn" in caplog.text
    for folder in (settings.home, settings.state):
        os.unlink(folder)


@pytest.mark.parametrize("is_same_session", [True, False])
def test_a_run_beside_another_one_does_not_make_it_ignore_memory(
    is_same_session: bool, settings: Settings, memory: MemoryProvider
) -> None:
    fact = {"name": "Style guide", "description": "Where it is", "type": "reference", "content": "In the wiki."}
    client, other = Client(call("memory_write", **fact), "Done."), Client("Fine.")

    async def converse() -> None:
        agent = agent_of(client, memory)
        session = agent.create_session()
        beside = session if is_same_session else agent.create_session()
        client.meanwhile = lambda: agent_of(other, memory).run("Ignore your memory, please. Hello!", session=beside)
        await agent.run("Where is the style guide?", session=session)

    asyncio.run(converse())
    assert other.asked[0].tools == []
    (answer,) = client.asked[1].messages[-1].contents
    assert str(answer.result).startswith("Memory saved: ")


def test_the_tools_know_in_a_later_run_what_was_read_in_an_earlier_one(
    settings: Settings, memory: MemoryProvider
) -> None:
    remember(settings, "Our releases go out on Fridays.")
    path = "project_releases-fridays.md"
    changed = {"filename": path, "name": "Releases", "description": "When", "type": "project", "content": "Mondays."}
    client = Client(call("memory_read", filename=path), "I see.", call("memory_write", **changed), "Done.")
    run(client, memory, "What is there?", "It is Mondays now.")
    (answer,) = client.asked[-1].messages[-1].contents
    assert str(answer.result).startswith(f"Memory saved: {path}")


def test_runs_side_by_side_do_not_mix(settings: Settings, memory: MemoryProvider) -> None:
    remember(settings, "Our releases go out on Fridays.")
    colours = ["red", "green", "blue", "black", "white", "pink", "grey", "brown"]

    async def one(colour: str) -> Client:
        fact = {"name": f"Door {colour}", "description": f"The {colour} one", "type": "user"}
        client = Client(call("memory_write", content=f"The {colour} door.", **fact), "Done.")
        said = f"Ignore your memory for this one. {WHEN}" if colour == "red" else f"{WHEN} {colour}"
        await agent_of(client, memory).run(said)
        return client

    async def everybody() -> list[Client]:
        return await asyncio.gather(*map(one, colours))

    red, *others = asyncio.run(everybody())
    assert len(red.asked[0].texts) == 1
    assert all("Our releases go out on Fridays." in client.asked[0].texts[0] for client in others)
    with Sheaf.open("user", settings=settings) as sheaf:
        doors = {row.name for row in sheaf.list() if row.kind == "user"}
    assert doors == {f"Door {colour}" for colour in colours[1:]}
