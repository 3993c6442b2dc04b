"""Commands for what is set up once: scopes, models and what they cost."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any, NamedTuple

from memsheaf.cli.call import Call, here, plural
from memsheaf.cli.command import Argument, takes
from memsheaf.cli.output import Note, Part, Styled, Table
from memsheaf.config import Chat, Settings
from memsheaf.errors import MemsheafError
from memsheaf.hub.replica_state import settings_of
from memsheaf.limits import Caps
from memsheaf.llm.providers import Way, way, ways
from memsheaf.llm.spend import Ledger, Spent
from memsheaf.scope import KnownScope, has_hub, list_scopes
from memsheaf.sheaf import list_notices
from memsheaf.worktree import count_memories, find_tree

_ORDER = ("project", "user", "agent", "team", "task", "session", "")


class ScopeFolder(NamedTuple):
    """A scope and the folder it lives in. A project that is not the present one has no scope to call it by."""

    scope: str
    root: str
    memories: int
    key: str
    title: str
    hub: str


@takes()
def scopes(call: Call) -> int:
    """List which scopes there are, where each lives, how many memories it has, and its hub.

    Projects other than the present one are in brackets; `--project DIR` with their folder reaches them.

    examples:
      memsheaf scopes
      memsheaf scopes --json
    """
    settings = call.settings()
    with call.memory() as memory:
        notices = list_notices(memory)
    found = []
    for scope in list_scopes(settings.places(here()), find_tree):
        name = "" if scope.key.startswith("project~") else scope.name
        count = count_memories(scope.root)
        found.append(ScopeFolder(name, scope.root, count, scope.key, scope.title, _hub_of(scope, settings)))
    found.sort(key=lambda folder: _ORDER.index(folder.scope.partition("/")[0]))
    value = {
        "home": settings.home,
        "scope": call.scope(),
        "scopes": found,
        **({"notices": notices} if notices else {}),
    }
    rows = [
        (each.scope or f"({each.title})", plural(each.memories, "memory", "memories"), each.root, each.hub)
        for each in found
    ]
    return call.answer(value, Table(rows, ("bold",)), [Note(notice, "yellow") for notice in notices])


def _hub_of(scope: KnownScope, settings: Settings) -> str:
    """The address of a scope's hub, "" when it has none."""
    with suppress(MemsheafError, OSError):
        found = settings_of(scope.root) if has_hub(scope.root, settings.home) else None
        return found.shown if found else ""
    return ""


@takes(Argument("--days", "how many days to show, today included", "N", default=30))
def cost(call: Call) -> int:
    """Show what models were asked and what it cost, by day, purpose and model.

    Tokens are those that a model reports, or what the bytes of question and answer come to, if that is more. A
    request that never came back counts at the most it may have cost. What is left of today's caps is shown below; the
    caps are in the settings, under [spend], and under [chat] for `memsheaf chat`. The ledger goes 400 days back.

    examples:
      memsheaf cost
      memsheaf cost --days 7 --json
    """
    settings = call.settings()
    ledger, caps, chat = Ledger.of(settings.state), settings.spend, settings.chat
    rows, chatted = ledger.summary(call.options.days), ledger.spent(chat=True)
    left, said = _left(ledger.spent(chat=False), caps)
    left_to_chat, said_to_chat = _left(chatted, chat)
    head = ("DAY", "PURPOSE", "MODEL", "REQUESTS", "FAILED", "OPEN", "TOKENS IN", "OUT", "SECONDS")
    return call.answer(
        {
            "spent": rows,
            "by_day": ledger.by_day(call.options.days),
            "left": dict(left, until=ledger.ends(), chat=left_to_chat),
            "caps": caps,
        },
        Table(map(_cost_row, rows), ("dim", "bold"), head),
        None if rows else f"no model requests in the last {plural(call.options.days, 'day')}",
        f"left today: {said}, until {ledger.ends()}",
        f"left to chats: {said_to_chat}" if chatted.requests else None,
    )


def _left(spent: Spent, caps: Caps | Chat) -> tuple[dict[str, Any], str]:
    """What is left of a day's caps, for programs and for people."""
    requests, tokens = max(caps.requests_per_day - spent.requests, 0), max(caps.tokens_per_day - spent.tokens, 0)
    said = f"{plural(requests, 'request')} of {caps.requests_per_day:,}"
    said += f", {plural(tokens, 'token')} of {caps.tokens_per_day:,}"
    return {"requests": requests, "tokens": tokens}, said


def _cost_row(row: Spent) -> tuple[str, ...]:
    numbers = (row.requests, row.failures, row.open, row.input, row.output)
    return row.day, row.purpose, row.model, *(f"{number:,}" for number in numbers), f"{row.seconds:.1f}"


@takes(Argument("model", "show only this one, instead of the one in the settings and all others", "NAME"))
def models(call: Call) -> int:
    """Show which model is used, which could be, and what the others lack.

    Nothing is sent to anybody. A name is provider:model, or a command: claude, codex. The exit code is 1 when the
    model in the settings, or the one that is named, cannot be used.

    examples:
      memsheaf models
      memsheaf models ollama:qwen3
    """
    settings, named = call.settings(), call.options.model
    name = named or settings.model
    address = {"url": settings.model_url, "key": settings.model_key} if name == settings.model else {}
    chosen = way(name, **address, environment=call.environment) if name else None
    found = [] if named else ways(call.environment)
    return call.answer(
        {"model": chosen, "ways": found}, _models_parts(chosen, found), code=1 if chosen and chosen.problem else 0
    )


def _models_parts(chosen: Way | None, found: list[Way]) -> Iterator[Part]:
    if not chosen:
        yield "no model is chosen, plain rules are used; `memsheaf config set model.name NAME` chooses one"
    else:
        yield Styled(chosen.problem or f"{chosen.name} can be used", "bold")
        yield chosen.hint or None
    if found:
        yield ""
        rows = [(one.name, one.kind, one.problem or "can be used") for one in found]
        yield Table(rows, ("bold", "dim"), ("NAME", "KIND", "STATE"))
