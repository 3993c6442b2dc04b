"""The command `team`: a memory that several people share, on PostgreSQL."""

from __future__ import annotations

import getpass
import re
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import TYPE_CHECKING

from memsheaf.adapters import missing
from memsheaf.cli.call import Call, here, plural
from memsheaf.cli.command import Argument, Usage, group, positive, whole
from memsheaf.cli.hub import sync_value, tell_sync
from memsheaf.cli.output import Note, Part, Table
from memsheaf.errors import HubRefused, MemsheafError, NotFound, Refused
from memsheaf.hub import HubSettings
from memsheaf.hub import scopes as hub_scopes
from memsheaf.hub.replica_state import Synced, settings_of
from memsheaf.scope import Scope, resolve

if TYPE_CHECKING:
    from memsheaf.hub.postgres import PostgresHub
    from memsheaf.hub.postgres_admin import Invitation

_NAME = Argument("name", "the name of the team: letters, digits and hyphens", "NAME", required=True)
_MEMBER = Argument("member", "the member: letters, digits and hyphens", "MEMBER", required=True)
_URL = Argument("url", "postgresql://LOGIN:PASSWORD@HOST/DATABASE", "URL", required=True)
_MAY = "what they may do: read, also write, or also invite"
_ROLE = Argument("--role", _MAY, "ROLE", choices=("reader", "writer", "admin"), default="writer")
_TEAM = Argument("--team", "which team, where this machine has several", "NAME")

team = group(
    """Share a memory in a team, through a PostgreSQL database.

    Each member has a login of their own, and the database checks who may read and write. What a member wrote is shown
    under the name of their login. Every machine keeps a copy in its scope team/NAME.

    examples:
      memsheaf team create platform postgresql://dba:secret@db.example.com/memory
      memsheaf team invite ana
      memsheaf team join 'postgresql://platform.ana:PASSWORD@db.example.com/memory'
      memsheaf team members
      memsheaf team log
    """,
    default="members",
    scoped=False,
)


@team.action(_NAME, _URL, Argument("--as", "your name in the team, instead of your user name", "MEMBER"))
def create(call: Call) -> int:
    """Create a team in a database, with you as its admin.

    The login of the address needs CREATEROLE and CREATE on the database, no superuser, and is not kept: you get a
    login of your own. A database can have many teams; none sees another.

    examples:
      memsheaf team create platform postgresql://dba:secret@db.example.com/memory --as ana
    """
    options = call.options
    member = getattr(options, "as") or re.sub("[^a-z0-9]+", "-", getpass.getuser().lower()).strip("-")
    invitation = _admin().create_team(options.url, options.name, member)
    try:
        _, synced = _attach(call, invitation)
    except MemsheafError as error:
        error.hint = f"The team was created; join it: memsheaf team join '{invitation.url}'"
        raise
    team, member, _ = invitation
    value = {"team": team, "member": member, "role": "admin", "scope": f"team/{team}", **sync_value(synced)}
    said = f"Created the team {team}; its scope is team/{team}, and you are its admin, {member}."
    return call.answer(value, said, *_told(team, synced), Note("`memsheaf team invite MEMBER` adds others.", ""))


@team.action(_MEMBER, _ROLE, _TEAM)
def invite_member(call: Call) -> int:
    """Add a member to the team, and print the line to send them.

    The line holds their password: send it where only they read it. To invite a member again sets a new role and
    a new password. For admins.

    examples:
      memsheaf team invite ana
      memsheaf team invite auditor --role reader
    """
    role = call.options.role
    team, member, url = _admin().invite(_settings(call), call.options.member, role)
    line = f"memsheaf team join '{url}'"
    call.console.note(f"{member} joins {team} as {role} with this line; it is a secret:")
    return call.answer({"team": team, "member": member, "role": role, "line": line}, line)


@team.action(Argument("line", "the line or the address that an admin sent", "LINE", required=True, repeated=True))
def join(call: Call) -> int:
    """Join a team with the line that an admin sent.

    examples:
      memsheaf team join 'postgresql://platform.ana:PASSWORD@db.example.com/memory'
    """
    invitation = _admin().read_invitation(" ".join(call.options.line))
    count, synced = _attach(call, invitation)
    team, member, _ = invitation
    value = {"team": team, "member": member, "scope": f"team/{team}", "memories": count, **sync_value(synced)}
    said = f"Joined {team} as {member}: {plural(count, 'memory', 'memories')} in team/{team}"
    return call.answer(value, said, *_told(team, synced))


@team.action(_TEAM)
def members(call: Call) -> int:
    """Show who is in the team, and their machines."""
    with _opened(call) as hub:
        (found, machines), me = hub.users(), hub.me
    rows = []
    for one in found:
        theirs = ", ".join(f"{m.name} ({m.seen[:10]})" for m in machines if m.member == one.name)
        rows.append((f"{one.name}{' (you)' if one.name == me else ''}", one.role, f"since {one.since}", theirs))
    values = [{**one._asdict(), "machines": [m._asdict() for m in machines if m.member == one.name]} for one in found]
    return call.answer({"members": values}, Table(rows))


@team.action(_MEMBER, _TEAM)
def remove(call: Call) -> int:
    """Remove a member: their login is dropped, what they wrote stays.

    The copies on their machines are not removed. For admins.
    """
    with _opened(call) as hub:
        if not hub.administer("remove", call.options.member):
            raise NotFound(
                call.options.member,
                f"{call.options.member!r} is no member of the team",
                hint="`memsheaf team members` lists them.",
            )
    return call.answer({"removed": call.options.member}, f"Removed {call.options.member}; what they wrote stays.")


@team.action(Argument("--limit", "how many", "N", default=20, convert=positive), _TEAM)
def log(call: Call) -> int:
    """Show the last changes of the team, with who made them, as the database knows it."""
    with _opened(call) as hub:
        found = hub.log(call.options.limit)
    rows, values = [], []
    for one in found:
        commit, paths = one.commit, [step.path for step in one.commit.revisions]
        shown = ", ".join(paths[:3]) + (f" and {len(paths) - 3} more" if len(paths) > 3 else "")
        rows.append((commit.id, commit.at[:16].replace("T", " ") + "Z", one.member, shown, commit.why))
        about = {"commit": commit.id, "at": commit.at, "by": commit.by, "why": commit.why, "undoes": commit.undoes}
        values.append({**about, "member": one.member, "machine": one.machine, "paths": paths})
    return call.answer({"commits": values}, Table(rows))


@team.action(Argument("--days", "keep older texts for so many days from now on", "N", convert=whole), _TEAM)
def prune(call: Call) -> int:
    """Drop older texts from the hub that are past retention; the log stays.

    The present text of a memory is never dropped. The default is 90 days. For admins.

    examples:
      memsheaf team prune --days 30
    """
    with _opened(call) as hub:
        gone = hub.administer("prune", call.options.days)
    return call.answer({"texts": gone}, f"Dropped {plural(int(str(gone)), 'text')}.")


@team.action(_MEMBER, Argument("--days", "valid for so many days", "N", default=90), _TEAM)
def token(call: Call) -> int:
    """Make a token with which a member's agents use the team's servers.

    It is shown once. Agents send it as `Authorization: Bearer TOKEN`. Members make their own, admins anybody's.

    examples:
      memsheaf team token ana
      memsheaf team token ana --days 7
    """
    name = _settings(call).namespace.partition(":")[0]
    made = _admin().new_token(name)
    with _opened(call) as hub:
        hub.administer("add_token", call.options.member, _admin().digest_of(made), call.options.days)
    call.console.note(f"{call.options.member} of {name}, for {plural(call.options.days, 'day')}; shown this once:")
    return call.answer({"team": name, "member": call.options.member, "token": made}, made)


@team.action(_TEAM)
def tokens(call: Call) -> int:
    """List your tokens, or as an admin all, and until when they are valid.

    examples:
      memsheaf team tokens
    """
    with _opened(call) as hub:
        found = hub.tokens()
    ends = [f"revoked {one['revoked']}" if one["revoked"] else f"until {one['expires']}" for one in found]
    rows = [(one["id"], one["member"], end) for one, end in zip(found, ends, strict=True)]
    return call.answer({"tokens": found}, Table(rows))


@team.action(Argument("which", "the id of a token, or a member, whose tokens all go", "ID", required=True), _TEAM)
def revoke(call: Call) -> int:
    """Revoke a token, or all of a member: servers refuse it at once.

    examples:
      memsheaf team revoke ana
    """
    with _opened(call) as hub:
        count = int(str(hub.administer("revoke_token", call.options.which)))
    if not count:
        raise NotFound(
            call.options.which, "no valid token has that id or member", hint="`memsheaf team tokens` lists them."
        )
    return call.answer({"revoked": count}, f"Revoked {plural(count, 'token')}.")


@team.action(_URL, Argument("--login", "the name of the login: memsheaf-NAME", "NAME", default="service"))
def service(call: Call) -> int:
    """Make a login for servers and workers, and print its address.

    It takes pip install 'memsheaf[server]'. The login serves all teams of the database, and has the
    rights of the member that a token names. Running it again sets a new password.

    examples:
      memsheaf team service postgresql://dba:secret@db.example.com/memory
    """
    try:
        address = _admin().create_service(call.options.url, call.options.login)
    except ImportError as error:
        raise Refused(str(missing("server", error))) from None
    call.console.note("Servers and workers use this address; it is a secret:")
    return call.answer({"url": address}, address)


@team.action(_URL)
def migrate(call: Call) -> int:
    """Bring the schema to this version of memsheaf, with the login that installed it.

    examples:
      memsheaf team migrate postgresql://dba:secret@db.example.com/memory
    """
    before, after = _admin().migrate_database(call.options.url)
    said = f"The schema is at version {after}" + (f"; it was at {before}." if before != after else " already.")
    return call.answer({"before": before, "after": after}, said)


@team.action(_TEAM)
def restored(call: Call) -> int:
    """Declare that the database was moved to another server by dump and restore. For admins.

    Each machine then runs `memsheaf hub rejoin team/NAME`, which merges both sides: the same text is kept once,
    different texts both. For a backup that was restored in place, that is enough.
    """
    settings = _settings(call)
    with _opened(call) as hub:
        hub.administer("restored")
    name = settings.namespace.partition(":")[0]
    return call.answer({"team": name}, f"Each machine now runs `memsheaf hub rejoin team/{name}`.")


def _told(team: str, synced: Synced) -> Iterator[Part]:
    """What joining did: what was in the folder is the team's now, too."""
    if sent := {step.path for one in synced.pushed for step in one.revisions}:
        yield Note(f"  pushed to the team, as it was in team/{team} here: {', '.join(sorted(sent))}", "yellow")
    yield from tell_sync(f"team/{team}", synced)


def _attach(call: Call, invitation: Invitation) -> tuple[int, Synced]:
    """Join this machine, or update its password; returns the number of memories, and what was synced."""
    scope, settings = Scope("team", invitation.team), call.settings()
    synced = hub_scopes.attach(scope, invitation.url, settings, here(), namespace=invitation.namespace)
    with hub_scopes.open_shared(scope, settings, here()) as sheaf:
        return len(sheaf.list()), synced


def _settings(call: Call) -> HubSettings:
    """The hub of the team that is meant. Raises Usage when that is not clear."""
    places = call.settings().places(here())
    if name := call.options.team:
        found = {name: settings_of(resolve(Scope("team", name), places))}
    else:
        scopes = hub_scopes.shared_scopes(call.settings(), here())
        found = {scope.name: settings_of(resolve(scope, places)) for scope in scopes if scope.layer == "team"}
    if len(found) > 1:
        raise Usage(f"this machine is in several teams; say which with --team: {', '.join(found)}")
    for settings in found.values():
        if settings and settings.is_postgres:
            return settings
    raise HubRefused(
        f"this machine is not in the team {name!r}" if name else "this machine is in no team",
        hint="`memsheaf team join LINE` with the line of an admin, or `memsheaf team create NAME URL`.",
    )


@contextmanager
def _opened(call: Call) -> Iterator[PostgresHub]:
    """The hub of the team that is meant."""
    hub = _admin().PostgresHub(_settings(call))
    try:
        yield hub
    finally:
        hub.close()


def _admin() -> ModuleType:
    """What talks to the database. Raises HubRefused where psycopg is not installed."""
    try:
        from memsheaf.hub import postgres_admin
    except ImportError:
        raise HubRefused(
            "a hub on PostgreSQL needs psycopg", hint="`pip install 'memsheaf[team]'` brings it."
        ) from None
    return postgres_admin
