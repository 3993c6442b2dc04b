"""Settings: the values of `config.toml`, editable where that is safe; coding agents, hubs, models and spending."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress

from starlette.responses import Response

from memsheaf.errors import BadSettings, Changed, MemsheafError, Refused
from memsheaf.hosts.health import examine_hosts
from memsheaf.hosts.installing import Placement, program_words
from memsheaf.hub.scopes import HubStatus, examine_hub, shared_scopes, status
from memsheaf.hub.upkeep import sync_once
from memsheaf.llm.providers import way
from memsheaf.llm.spend import Ledger
from memsheaf.web.page import PageRequest
from memsheaf.work.checks import Finding
from memsheaf.work.settings_file import Setting, SettingsFile, to_toml

SPENDING_DAYS = 30
TITLES = {
    "general": "General",
    "embedder": "Search by meaning",
    "model": "Model",
    "learning": "Learning",
    "spend": "Spending limits",
    "dream": "Consolidation",
    "chat": "Chat",
    "hooks": "Hooks of coding agents",
    "projects": "Projects stored elsewhere",
    "teams": "Teams of projects",
    "hub": "Hubs",
}
DESCRIPTIONS = {
    "scope": "scope of commands that name none",
    "retention_days": "days that replaced texts stay in the history",
    "tools": "whether agents get tools for memory",
    "agent_context": "whether an agent may write CONTEXT.md of its own scope",
    "embedder.name": "model that finds memories by meaning",
    "embedder.url": "address of its provider; set on the command line",
    "embedder.key": "variable that holds its key; set on the command line",
    "model.name": "model that reads conversations; set on the command line, since it gets what you say",
    "model.url": "address of its provider; set on the command line",
    "model.key": "variable that holds its key; set on the command line",
    "learning.policy": "auto saves what is learned, suggest asks first, manual learns nothing, log keeps a daily log",
    "spend.requests_per_run": "at most so many requests in one run",
    "spend.tokens_per_run": "at most so many tokens in one run",
    "spend.seconds_per_run": "at most so many seconds in one run",
    "spend.requests_per_day": "at most so many requests a day",
    "spend.tokens_per_day": "at most so many tokens a day",
    "dream.enabled": "whether memories are consolidated automatically",
    "dream.files": "only if there are at least so many memories",
    "dream.hours": "hours between two consolidations, at least",
    "dream.scan_minutes": "minutes between two checks, at least",
    "dream.conversations": "only after at least so many conversations",
    "chat.context_tokens": "a longer conversation is compacted",
    "chat.answer_tokens": "at most so many tokens in one answer",
    "chat.requests_per_turn": "at most so many requests in one turn",
    "chat.requests_per_day": "at most so many requests of all chats a day",
    "chat.tokens_per_day": "at most so many tokens of all chats a day",
    "chat.selector": "whether the model chooses the memories that are recalled",
    "hooks.line": "show one line about recalled and learned memories",
    "hub.offline": "while a hub does not answer: refuse changes, or queue them here",
    "hub.start_seconds": "at most so many seconds that the start of a conversation waits for a hub",
    "hub.poll_seconds": "seconds between two checks of a hub that sends no notifications",
}


def save_settings(page: PageRequest) -> Response:
    """Save one group; on invalid values nothing is saved, and errors are shown beside the fields."""
    file = _open_file(page, [])
    settings = {setting.key: setting for setting in file.all() if setting.editable and setting.key in page.form}
    typed = {key: page.form[key].strip() for key in settings}
    changed = {key: text or None for key, text in typed.items() if text != _field_text(settings[key])}
    if not changed:
        return page.go("/settings", "Nothing was changed.")
    try:
        file.set_from_page(changed, expect=page.form["version"])
    except BadSettings as error:
        return show_settings(page, typed, {error.key: error.reason or str(error)}, code=422)
    except Changed:
        text = "The file was changed elsewhere. Your values are still in the fields; all others are up to date."
        return show_settings(page, typed, {"": text}, code=409)
    except Refused as error:
        return show_settings(page, typed, {"": str(error)}, code=422)
    return page.go("/settings", "Saved. Commands and agents use it from now on, this page after a restart.")


def test_agents(page: PageRequest) -> Response:
    """Start our server and hook as the user's coding agents would, and show how they answer."""
    return show_settings(page, try_hosts=True)


def sync_hubs(page: PageRequest) -> Response:
    """Sync every scope that has a hub, and show the state of each."""
    settings, cwd = page.scopes.settings, page.scopes.cwd
    sync_once(settings, cwd, [str(scope) for scope in shared_scopes(settings, cwd)])
    return show_settings(page, ask_hubs=True)


def _examine_hubs(page: PageRequest, ask_hubs: bool) -> Iterator[tuple[HubStatus, list[Finding]]]:
    settings, cwd = page.scopes.settings, page.scopes.cwd
    for scope in shared_scopes(settings, cwd):
        with suppress(MemsheafError, OSError):
            hub = status(scope, settings, cwd, ask=ask_hubs)
            yield hub, list(examine_hub(hub))


def show_settings(
    page: PageRequest,
    typed: Mapping[str, str] | None = None,
    errors: Mapping[str, str] | None = None,
    *,
    code: int = 200,
    try_hosts: bool = False,
    ask_hubs: bool = False,
) -> Response:
    """Show all settings, with what was typed in place of those values, and the errors beside the fields."""
    warnings: list[str] = []
    file, settings = _open_file(page, warnings), page.scopes.settings
    groups: dict[str, list[tuple[Setting, str]]] = {}
    for setting in file.all():
        table, dot, _ = setting.key.partition(".")
        text = (typed or {}).get(setting.key, _field_text(setting))
        groups.setdefault(table if dot else "general", []).append((setting, text))
    ledger = Ledger.of(settings.state)
    model = None
    if settings.model:
        model = way(settings.model, environment=os.environ, url=settings.model_url, key=settings.model_key)
    return page.show(
        "settings.html",
        code,
        file=file,
        path=file.path.replace(os.path.expanduser("~") + os.sep, "~" + os.sep),
        groups=groups,
        titles=TITLES,
        descriptions=DESCRIPTIONS,
        errors=errors or {},
        hubs=list(_examine_hubs(page, ask_hubs)),
        warnings=warnings,
        hosts=examine_hosts(
            Placement(program_words(), os.environ), settings.state, page.scopes.cwd, trying=try_hosts
        ),
        model=model,
        days=ledger.by_day(SPENDING_DAYS),
        limits=(
            ("Today, for learning and recall", ledger.spent(chat=False), settings.spend),
            ("Today, in chats", ledger.spent(chat=True), settings.chat),
        ),
        to_toml=to_toml,
    )


def _open_file(page: PageRequest, warnings: list[str]) -> SettingsFile:
    environment = {**os.environ, "MEMSHEAF_HOME": page.scopes.settings.home}
    return SettingsFile(environment, warn=warnings.append)


def _field_text(setting: Setting) -> str:
    """Return the text in the field of a setting: nothing for the default."""
    if setting.origin == "default":
        return ""
    return setting.value if isinstance(setting.value, str) else to_toml(setting.value)
