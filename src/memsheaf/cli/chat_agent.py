"""Build an agent: its memory, its model, its tools and its conversation store."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack

from memsheaf.chat.agent import Agent
from memsheaf.chat.conversations import Conversations
from memsheaf.chat.memory import ChatMemory
from memsheaf.chat.permissions import Permission
from memsheaf.chat.tools import FolderTools
from memsheaf.chat.tools.files import is_within
from memsheaf.config import Settings
from memsheaf.limits import ChatCaps
from memsheaf.llm import load_model
from memsheaf.llm.served import ChatModel, ServedChat
from memsheaf.llm.spend import Ledger
from memsheaf.llm.subprocess_model import TOOLS

OFFLINE = ("", "none", "offline")  # names that mean no model


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

    def load(name: str) -> ChatModel | None:
        if name in OFFLINE:
            return None
        own = name == settings.model  # address and key in the settings are for it and for no other
        return ServedChat(
            name,
            Ledger.of(settings.state or os.path.join(settings.home, "state")),
            ChatCaps(settings.chat.requests_per_day, settings.chat.tokens_per_day),
            url=settings.model_url if own else "",
            key=settings.model_key if own else "",
            environment=environment,
        )

    is_askable = settings.model.partition(":")[0] not in TOOLS  # `claude` and `codex` only answer questions
    name = model or (settings.model if is_askable else "offline")
    is_offline = name in OFFLINE
    selector = None
    if settings.chat.selector and not is_offline:
        selector = load_model(settings.model, url=settings.model_url, key=settings.model_key, environment=environment)
    by = "user" if is_offline else "agent"
    memory = ChatMemory.open(settings, cwd=cwd, scopes=scopes, by=by, selector=selector)
    # only memory tools may touch memories, what is kept about them, and the settings
    ours = [place for place in (settings.home, settings.state, settings.cache) if place]
    apart = [place for place in ours if not is_within(os.path.realpath(cwd), os.path.realpath(place))]
    keys = (settings.model_key, settings.embedder_key)  # variables that commands do not get, whatever they are called
    with ExitStack() as opened:
        opened.callback(memory.close)
        tools = FolderTools(
            cwd,
            permission,
            environment={name: value for name, value in environment.items() if name not in keys},
            keep_out=[*(scope.root for scope in memory.layers.open_scopes()), *apart],
        )
        agent = Agent(
            load(name),
            memory,
            tools,
            permission,
            chats=Conversations(memory.layers.own.state),
            load=load,
            context_tokens=settings.chat.context_tokens,
            answer_tokens=settings.chat.answer_tokens,
            max_requests=settings.chat.requests_per_turn,
        )
        if resume is not None:
            agent.resume(resume)
        opened.pop_all()  # from here on the agent closes it
    return agent
