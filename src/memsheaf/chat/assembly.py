"""Build an agent: its memory, its model, its tools and its conversation store."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack

from memsheaf.caps import ChatCaps
from memsheaf.chat.agent import Agent, speaks_for_user
from memsheaf.chat.conversations import Conversations
from memsheaf.chat.memory import ChatMemory
from memsheaf.chat.offline import Offline
from memsheaf.chat.permissions import Permission
from memsheaf.chat.tools import FolderTools
from memsheaf.chat.tools.files import is_within
from memsheaf.config import Settings
from memsheaf.errors import Refused
from memsheaf.llm import Model, load_model
from memsheaf.llm.model import Talker
from memsheaf.llm.served_talker import load_talker
from memsheaf.llm.spend import Ledger, MeteredTalker
from memsheaf.llm.subprocess_model import TOOLS

OFFLINE = ("", "none", "offline")
"""How one says that there is to be no model."""


def open_agent(
    settings: Settings,
    *,
    cwd: str,
    scopes: Sequence[str] = (),
    model: str = "",
    url: str = "",
    resume: str | None = None,
    permission: Permission,
    environment: Mapping[str, str] = os.environ,
    clock: Callable[[], float] = time.time,
) -> Agent:
    """An agent in a folder, with the model of that name, the one of the settings, or none.

    `url` is where the model answers, if not at its provider's own address. With `resume`, a kept conversation goes
    on: the one whose id begins so, or the newest for "".

    Raises:
        BadSettings, ModelFailed: the model cannot be used.
        ScopeRefused, NotFound, StoreFailed.
    """
    if model and model not in OFFLINE and (model != settings.model or url):
        settings = settings._replace(model=model, model_url=url, model_key="")
    minds: list[ChatMemory] = []

    def load(name: str) -> Talker:
        return _talker(name, settings, environment, lambda: _undone(minds[0], permission))

    talker = load(model or _spoken(settings.model))
    selector = _selector(settings, environment) if settings.chat.selector and not speaks_for_user(talker) else None
    by = "user" if speaks_for_user(talker) else "agent"
    mind = ChatMemory.open(settings, cwd=cwd, scopes=scopes, by=by, selector=selector, clock=clock)
    minds.append(mind)
    with ExitStack() as opened:
        opened.callback(mind.close)
        agent = Agent(
            talker,
            mind,
            FolderTools(
                cwd,
                permission,
                environment=_without_keys(settings, environment),
                keep_out=_kept_out(settings, mind, cwd),
            ),
            permission,
            chats=Conversations(mind.home.state, clock=clock),
            load=load,
            folder=cwd,
            context=settings.chat.context_tokens,
            answer_tokens=settings.chat.answer_tokens,
            steps=settings.chat.requests_per_turn,
            clock=clock,
        )
        if resume is not None:
            agent.resume(resume)
        opened.pop_all()  # from here on the agent closes it
    return agent


def _spoken(model: str) -> str:
    """The model of the settings, if one can talk to it: the commands `claude` and `codex` only answer questions."""
    return "offline" if model.partition(":")[0] in TOOLS else model


def _talker(name: str, settings: Settings, environment: Mapping[str, str], undo: Callable[[], str]) -> Talker:
    if name in OFFLINE:
        return Offline(undo=undo)
    own = name == settings.model  # address and key in the settings are for it and for no other
    url, key = (settings.model_url, settings.model_key) if own else ("", "")
    talker = load_talker(name, url=url, key=key, environment=environment)
    talker.prepare()  # what it takes seconds to import is there when the first message is
    ledger = Ledger.of(settings.state or os.path.join(settings.home, "state"))
    return MeteredTalker(talker, ledger, ChatCaps(settings.chat.requests_per_day, settings.chat.tokens_per_day))


def _without_keys(settings: Settings, environment: Mapping[str, str]) -> dict[str, str]:
    """The environment without the variables that the settings name for keys, whatever they are called."""
    keys = (settings.model_key, settings.embedder_key)
    return {name: value for name, value in environment.items() if name not in keys}


def _selector(settings: Settings, environment: Mapping[str, str]) -> Model:
    return load_model(settings.model, url=settings.model_url, key=settings.model_key, environment=environment)


def _undone(mind: ChatMemory, permission: Permission) -> str:
    """Take the last change of memory back; says which it was. Raises MemsheafError."""
    if permission.planning:
        raise Refused("plan mode: nothing is written, memory included")
    return mind.undo()


def _kept_out(settings: Settings, mind: ChatMemory, cwd: str) -> list[str]:
    """The folders that only memory tools may touch: memories, what is kept about them, and the settings."""
    ours = [settings.home, settings.state, settings.cache]
    apart = [place for place in ours if place and not is_within(os.path.realpath(cwd), os.path.realpath(place))]
    return [*(sheaf.root for sheaf in mind.sheaves), *apart]
