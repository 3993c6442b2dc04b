"""Share a memory in a team, through a PostgreSQL database.

Each member has a login of their own, and the database checks who may read and write. What a member wrote is shown
under the name of their login. Every machine keeps a copy in its scope team/NAME; -s team/NAME says which team is
meant where this machine has several.
"""

import getpass
import re
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import TYPE_CHECKING, Annotated

from memsheaf.adapters import missing
from memsheaf.cli.call import Call, Result, here, pick, plural
from memsheaf.cli.hub import sync_value, tell_sync
from memsheaf.cli.output import Note, Part, Table
from memsheaf.cli.parser import Days, Positive, Usage, Words
from memsheaf.errors import HubRefused, MemsheafError, NotFound, Refused
from memsheaf.hub import HubSettings
from memsheaf.hub import scopes as hub_scopes
from memsheaf.hub.replica_state import Synced, settings_of
from memsheaf.scope import Scope, resolve

if TYPE_CHECKING:
    from memsheaf.hub.postgres import PostgresHub
    from memsheaf.hub.postgres_admin import Invitation

Role = Annotated[str, ("reader", "writer", "admin")]
MAX_CHANGES = 20


def create(call: Call, name: str, url: str, *, as_: str = "") -> Result:
    """Create a team in a database, with you as its admin.

    The login of the address needs CREATEROLE and CREATE on the database, no superuser, and is not kept: you get a
    login of your own. A database can have many teams; none sees another.

    arguments:
      NAME: the name of the team: letters, digits and hyphens
      URL: postgresql://LOGIN:PASSWORD@HOST/DATABASE
      --as MEMBER: your name in the team, instead of your user name

    examples:
      memsheaf team create platform postgresql://dba:secret@db.example.com/memory --as ana
    """
    member = as_ or re.sub("[^a-z0-9]+", "-", getpass.getuser().lower()).strip("-")
    invitation = _admin().create_team(url, name, member)
    try:
        _, synced = _attach(call, invitation)
    except MemsheafError as error:
        error.hint = f"The team was created; join it: memsheaf team join '{invitation.url}'"
        raise error from None
    team, member, _ = invitation
    value = {"team": team, "member": member, "role": "admin", "scope": f"team/{team}", **sync_value(synced)}
    said = f"Created the team {team}; its scope is team/{team}, and you are its admin, {member}."
    return Result(value, said, list(_told(team, synced)), Note("`memsheaf team invite MEMBER` adds others.", ""))


def invite(call: Call, member: str, *, role: Role = "writer") -> Result:
    """Add a member to the team, and print the line to send them. For admins.

    The line holds their password: send it where only they read it. To invite a member again sets a new role and
    a new password.

    arguments:
      MEMBER: the member: letters, digits and hyphens
      --role ROLE: what they may do: read, also write, or also invite

    examples:
      memsheaf team invite ana
      memsheaf team invite auditor --role reader
    """
    team, member, url = _admin().invite(_settings(call), member, role)
    line = f"memsheaf team join '{url}'"
    call.console.note(f"{member} joins {team} as {role} with this line; it is a secret:")
    return Result({"team": team, "member": member, "role": role, "line": line}, line)


def join(call: Call, line: Words) -> Result:
    """Join a team with the line that an admin sent.

    arguments:
      LINE: the line or the address that an admin sent

    examples:
      memsheaf team join 'postgresql://platform.ana:PASSWORD@db.example.com/memory'
    """
    invitation = _admin().read_invitation(" ".join(line))
    count, synced = _attach(call, invitation)
    team, member, _ = invitation
    value = {"team": team, "member": member, "scope": f"team/{team}", "memories": count, **sync_value(synced)}
    said = f"Joined {team} as {member}: {plural(count, 'memory', 'memories')} in team/{team}"
    return Result(value, said, list(_told(team, synced)))


def members(call: Call, *, remove: str = "") -> Result:
    """Show who is in the team, their machines, and who made the last changes, as the database knows it.

    arguments:
      --remove MEMBER: drop the login of a member; what they wrote stays, and the copies on their machines

    examples:
      memsheaf team members
      memsheaf team members --remove ana
    """
    with _opened(call) as hub:
        if remove:
            if not hub.administer("remove", remove):
                error = NotFound(remove, f"{remove!r} is no member of the team")
                error.hint = "`memsheaf team members` lists them."
                raise error
            return Result({"removed": remove}, f"Removed {remove}; what they wrote stays.")
        (found, machines), me, changes = hub.users(), hub.me, hub.log(MAX_CHANGES)
    rows, values, log, commits = [], [], [], []
    for one in found:
        theirs = [machine for machine in machines if machine.member == one.name]
        shown = ", ".join(f"{machine.name} ({machine.seen[:10]})" for machine in theirs)
        rows.append((f"{one.name}{' (you)' if one.name == me else ''}", one.role, f"since {one.since}", shown))
        values.append({**one._asdict(), "machines": theirs})
    for change in changes:
        commit, paths = change.commit, [step.path for step in change.commit.revisions]
        more = f" and {len(paths) - 3} more" if len(paths) > 3 else ""
        at = commit.at[:16].replace("T", " ") + "Z"
        log.append((commit.id, at, change.member, ", ".join(paths[:3]) + more, commit.why))
        about = {**pick(commit, ("at", "by", "why", "undoes")), **pick(change, ("member", "machine"))}
        commits.append({"commit": commit.id, "paths": paths, **about})
    return Result({"members": values, "commits": commits}, Table(rows), Table(log) if log else None)


def token(call: Call, member: str = "", *, days: Positive = 90, revoke: str = "") -> Result:
    """Make a token with which a member's agents use the team's servers; or list tokens, or revoke them.

    It is shown once. Agents send it as `Authorization: Bearer TOKEN`. Members make their own, admins anybody's.
    Servers refuse a revoked token at once.

    arguments:
      MEMBER: whose agents; without it your tokens are listed, for an admin all
      --days N: valid for so many days (90)
      --revoke ID: revoke the token with this id, or all of a member

    examples:
      memsheaf team token ana --days 7
      memsheaf team token
      memsheaf team token --revoke ana
    """
    with _opened(call) as hub:
        if revoke:
            count = int(str(hub.administer("revoke_token", revoke)))
            if not count:
                error = NotFound(revoke, "no valid token has that id or member")
                error.hint = "`memsheaf team token` lists them."
                raise error
            return Result({"revoked": count}, f"Revoked {plural(count, 'token')}.")
        if not member:
            found = hub.tokens()
            ends = [f"revoked {one['revoked']}" if one["revoked"] else f"until {one['expires']}" for one in found]
            rows = [(one["id"], one["member"], end) for one, end in zip(found, ends, strict=True)]
            return Result({"tokens": found}, Table(rows, empty="there are no tokens"))
        name = _settings(call).namespace.partition(":")[0]
        made = _admin().new_token(name)
        hub.administer("add_token", member, _admin().digest_of(made), days)
    call.console.note(f"{member} of {name}, for {plural(days, 'day')}; shown this once:")
    return Result({"team": name, "member": member, "token": made}, made)


def admin(call: Call, url: str = "", *, days: Days = None, restored: bool = False) -> Result:
    """Look after the database: its schema, a login for servers, old texts, a move to another server.

    With a URL, which takes pip install 'memsheaf[server]', it brings the schema to this version of memsheaf, with the
    login that installed it, and makes a login for servers and workers, whose address it prints. That serves all teams
    of the database, and has the rights of the member that a token names. Running it again sets a new password.

    --days drops older texts that are past retention from the hub, and keeps them for so many days from now on; the
    log and the present text of a memory are never dropped. --restored declares that the database was moved to another
    server by dump and restore: each machine then runs `memsheaf hub sync --again`, which merges both sides: the same
    text is kept once, different texts both. For a backup that was restored in place, that is enough. Both are for
    admins.

    arguments:
      URL: postgresql://LOGIN:PASSWORD@HOST/DATABASE
      --days N: keep older texts for so many days
      --restored: the database was moved by dump and restore

    examples:
      memsheaf team admin postgresql://dba:secret@db.example.com/memory
      memsheaf team admin --days 30
    """
    if url:
        before, after = _admin().migrate_database(url)
        try:
            address = _admin().create_service(url, "service")
        except ImportError as error:
            raise Refused(str(missing("server", error))) from None
        was = f"; it was at {before}" if before != after else ""
        call.console.note(f"The schema is at version {after}{was}.")
        call.console.note("Servers and workers use this address; it is a secret:")
        return Result({"before": before, "after": after, "url": address}, address)
    if days is None and not restored:
        raise Usage("give a URL, --days or --restored")
    with _opened(call) as hub:
        if restored:
            hub.administer("restored")
            scope = f"team/{_settings(call).namespace.partition(':')[0]}"
            return Result({"scope": scope}, f"Each machine now runs `memsheaf hub sync --again -s {scope}`.")
        gone = int(str(hub.administer("prune", days)))
    return Result({"texts": gone}, f"Dropped {plural(gone, 'text')}.")


def _told(team: str, synced: Synced) -> Iterator[Part]:
    """What joining did: what was in the folder is the team's now, too."""
    if sent := {step.path for one in synced.pushed for step in one.revisions}:
        yield Note(f"  pushed to the team, as it was in team/{team} here: {', '.join(sorted(sent))}", "yellow")
    yield from tell_sync(f"team/{team}", synced)


def _attach(call: Call, invitation: "Invitation") -> tuple[int, Synced]:
    """Join this machine, or update its password; returns the number of memories, and what was synced."""
    scope, settings = Scope("team", invitation.team), call.settings()
    synced = hub_scopes.attach(scope, invitation.url, settings, here(), namespace=invitation.namespace)
    with hub_scopes.open_shared(scope, settings, here()) as sheaf:
        return len(sheaf.list()), synced


def _settings(call: Call) -> HubSettings:
    """The hub of the team that is meant. Raises Usage when that is not clear."""
    places = call.settings().places(here())
    scopes = [Scope.parse(scope) for scope in call.named] or hub_scopes.shared_scopes(call.settings(), here())
    found = {str(scope): settings_of(resolve(scope, places)) for scope in scopes if scope.layer == "team"}
    if len(found) > 1:
        raise Usage(f"this machine is in several teams; say which with -s: {', '.join(found)}")
    for settings in found.values():
        if settings and settings.is_postgres:
            return settings
    raise HubRefused(
        f"this machine is not in {' or '.join(call.named) or 'a team'}",
        hint="`memsheaf team join LINE` with the line of an admin, or `memsheaf team create NAME URL`.",
    )


@contextmanager
def _opened(call: Call) -> "Iterator[PostgresHub]":
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
        needed = HubRefused("a hub on PostgreSQL needs psycopg")
        needed.hint = "`pip install 'memsheaf[team]'` brings it."
        raise needed from None
    return postgres_admin
