"""A chat put together for a test: real files, real tools, and a talker that says what it was told to say."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from memsheaf.chat.agent import Agent
from memsheaf.chat.conversations import Conversations
from memsheaf.chat.events import Event, TurnEnded
from memsheaf.chat.memory import ChatMemory
from memsheaf.chat.permissions import Permission, PermissionRequest
from memsheaf.chat.tools import FolderTools
from memsheaf.config import Settings
from memsheaf.llm import Model
from memsheaf.llm.model import Said, ToolCall
from memsheaf.sheaf import Sheaf
from scripted_chat import ScriptedChat

Script = Iterable[Any]


def settings_in(folder: Path, **more: Any) -> Settings:
    """Settings that touch nothing outside of a folder."""
    return Settings(
        home=str(folder / "home"),
        cache=str(folder / "cache"),
        state=str(folder / "state"),
        embedder="none",
        **more,
    )


class Scene:
    """A working directory, a memory beside it, and one chat after the other in them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.work = folder / "work"
        self.work.mkdir(exist_ok=True)
        self.settings = settings_in(folder)
        self.wishes: list[PermissionRequest] = []

    @contextmanager
    def memory(self, scope: str = "project") -> Iterator[Sheaf]:
        with Sheaf.open(scope, settings=self.settings, cwd=str(self.work), by="user") as sheaf:
            yield sheaf

    @contextmanager
    def chat(
        self,
        script: Script | None,
        *,
        answer: str | Callable[[PermissionRequest], str] = "no",
        planning: bool = False,
        selector: Model | None = None,
        scopes: tuple[str, ...] = (),
        keep: bool = True,
        **more: Any,
    ) -> Iterator[Agent]:
        """An agent with that script, or offline with None; `answer` is what the user says to questions."""

        def ask(wish: PermissionRequest) -> str:
            self.wishes.append(wish)
            return answer(wish) if callable(answer) else answer

        permission = Permission(ask, planning=planning)
        mind = ChatMemory.open(self.settings, cwd=str(self.work), scopes=scopes, selector=selector)
        model = None if script is None else ScriptedChat(script)
        workshop = FolderTools(str(self.work), permission, keep_out=[each.root for each in mind.layers.open_scopes()])
        chats = Conversations(mind.layers.own.state) if keep else None
        if model is None:
            mind.layers.by = "user"
        agent = Agent(model, mind, workshop, permission, chats=chats, **more)
        try:
            yield agent
        finally:
            agent.close(wait=60.0)


def calling(tool: str, arguments: str = "{}", *, id: str = "c1", text: str = "") -> Said:
    """A message of a model that calls one tool."""
    return Said("assistant", text, (ToolCall(id, tool, arguments),))


def run(agent: Agent, message: str) -> tuple[list[Event], TurnEnded]:
    """One turn to its end: all events, and how it ended."""
    events: list[Event] = []
    ended = agent.turn(message, events.append)
    assert events[-1] == ended
    return events, ended
