"""Settings: what `config.toml` says, editable where it is safe; coding agents, models, and what was spent."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress

from starlette.responses import Response

from memsheaf.doctor import Finding, examine_hub
from memsheaf.errors import BadSettings, Changed, MemsheafError, Refused
from memsheaf.hosts.health import examine_hosts
from memsheaf.hosts.installing import Placement, program_words
from memsheaf.llm.providers import way
from memsheaf.llm.spend import Ledger
from memsheaf.settings_file import Setting, SettingsFile, to_toml
from memsheaf.web.page import PageRequest, get, post
from memsheaf.work.hub_scopes import HubStatus, shared_scopes, status
from memsheaf.work.hub_upkeep import sync_once

DAYS = 30  # of spending


@post("/settings")
def save_settings(page: PageRequest) -> Response:
    """Save one group; on invalid values nothing is saved, and errors are shown beside the fields."""
    file = _file(page, [])
    known = {one.key: one for one in file.all() if one.editable and one.key in page.form}
    typed = {key: page.form[key].strip() for key in known}
    changed = {key: words or None for key, words in typed.items() if words != _words(known[key])}
    try:
        if changed:
            file.set_from_page(changed, expect=page.form["version"])
    except BadSettings as error:
        return settings(page, typed, {error.key: error.reason or str(error)}, code=422)
    except Changed:
        return settings(page, typed, {"": page.t.settings.changed}, code=409)
    except Refused as error:
        return settings(page, typed, {"": str(error)}, code=422)
    return page.go("/settings", page.t.settings.saved if changed else page.t.settings.same)


@post("/settings/agents")
def test_agents(page: PageRequest) -> Response:
    """Start our server and hook as the user's coding agents would, and show how they answer."""
    return settings(page, trying=True)


@post("/settings/hubs")
def sync_hubs(page: PageRequest) -> Response:
    """Sync every scope that has a hub, and show how each stands with it."""
    now = page.scopes.settings
    sync_once(now, page.scopes.cwd, [str(scope) for scope in shared_scopes(now, page.scopes.cwd)])
    return settings(page, asking=True)


def _hubs(page: PageRequest, asking: bool) -> Iterator[tuple[HubStatus, list[Finding]]]:
    now, cwd = page.scopes.settings, page.scopes.cwd
    for scope in shared_scopes(now, cwd):
        with suppress(MemsheafError, OSError):
            found = status(scope, now, cwd, ask=asking)
            yield found, list(examine_hub(found, time.time()))


@get("/settings")
def settings(
    page: PageRequest,
    typed: Mapping[str, str] | None = None,
    errors: Mapping[str, str] | None = None,
    *,
    code: int = 200,
    trying: bool = False,
    asking: bool = False,
) -> Response:
    """Show all of it."""
    warnings: list[str] = []
    file, now = _file(page, warnings), page.scopes.settings
    groups: dict[str, list[tuple[Setting, str]]] = {}
    for one in file.all():
        table = one.key.partition(".")[0] if "." in one.key else "general"
        groups.setdefault(table, []).append((one, (typed or {}).get(one.key, _words(one))))
    ledger = Ledger.of(now.state)
    caps = [
        (name, ledger.spent(chat=name == "chat"), limits)
        for name, limits in (("spend", now.caps), ("chat", now.chat))
    ]
    address = {"url": now.model_url, "key": now.model_key}
    return page.show(
        "settings.html",
        code,
        file=file,
        groups=groups,
        errors=errors or {},
        hubs=list(_hubs(page, asking)),
        warnings=warnings,
        hosts=examine_hosts(Placement(program_words(), os.environ), now.state, page.scopes.cwd, trying=trying),
        model=way(now.model, environment=os.environ, **address) if now.model else None,
        days=ledger.by_day(DAYS),
        caps=caps,
        to_toml=to_toml,
    )


def _file(page: PageRequest, warnings: list[str]) -> SettingsFile:
    home = {"MEMSHEAF_HOME": page.scopes.settings.home}
    return SettingsFile({**os.environ, **home}, warn=warnings.append)


def _words(one: Setting) -> str:
    """What stands in the field of a setting: nothing for the default."""
    if one.origin == "default":
        return ""
    return one.value if isinstance(one.value, str) else to_toml(one.value)
