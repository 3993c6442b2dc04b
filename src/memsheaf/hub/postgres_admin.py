"""Install and migrate the schema of a hub on PostgreSQL; create teams and logins.

A login is `TEAM.MEMBER`, so that the address of a member names the team and the member.
"""

from __future__ import annotations

import os
import re
import secrets
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import pbkdf2_hmac, sha256
from hmac import digest
from pathlib import Path
from typing import NamedTuple
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit, urlunsplit

import psycopg
from psycopg.rows import TupleRow

from memsheaf.errors import HubRefused, ScopeRefused
from memsheaf.hub import HubSettings
from memsheaf.hub.postgres import PostgresHub, explain_connection, options_for
from memsheaf.scope import check_label
from memsheaf.text.neutralize import one_line

OLDEST = 150000  # PostgreSQL 15
SCHEMA = os.path.join(os.path.dirname(__file__), "schema")
JOBS = "memsheaf_jobs"
"""The schema of Procrastinate's tables, which servers and workers alone use."""
JOBS_ARE_AT = f"obj_description(to_regnamespace('{JOBS}'), 'pg_namespace')"
_GRANTS = f"""
GRANT USAGE ON SCHEMA {JOBS} TO memsheaf_service;
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {JOBS} TO memsheaf_service;
GRANT USAGE ON ALL SEQUENCES IN SCHEMA {JOBS} TO memsheaf_service;
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA {JOBS} TO memsheaf_service;
"""


class Invitation(NamedTuple):
    """All that a member needs to join: one address, with their login and password in it."""

    team: str
    member: str
    url: str

    @property
    def namespace(self) -> str:
        """The namespace of the team."""
        return f"{self.team}:team"


def migrations(after: int = 0) -> Iterator[tuple[int, str]]:
    """The numbered steps of the schema after a version, in order, each as SQL."""
    return ((int(name[:4]), text) for name, text in _read_sql(SCHEMA) if int(name[:4]) > after)


def job_migrations(last: str | None) -> list[tuple[str, str]]:
    """Return the SQL that brings Procrastinate's tables from its migration `last`, or from nothing, to this version:
    names and SQL."""
    from procrastinate.schema import SchemaManager

    steps = _read_sql(SchemaManager.get_migrations_path())
    whole = [(steps[-1][0], SchemaManager.get_schema())]
    return whole if last is None else [(name, text) for name, text in steps if name > last]


def _read_sql(folder: str) -> list[tuple[str, str]]:
    return [(path.name, path.read_text(encoding="utf-8")) for path in sorted(Path(folder).glob("*.sql"))]


def migrate(connection: psycopg.Connection[TupleRow]) -> tuple[int, int]:
    """Bring the schema of a database to this version of memsheaf, all or nothing; gives its version before and after.

    Every step after the first runs as memsheaf_owner. Raises psycopg.Error.
    """
    with connection.transaction():
        version = before = _version(connection)
        for number, statements in migrations(version):
            if version:
                connection.execute("SET LOCAL ROLE memsheaf_owner")
            connection.execute(statements.encode())
            connection.execute("SET LOCAL ROLE memsheaf_owner")
            connection.execute("UPDATE memsheaf.about SET version = %s", [number])
            version = number
        connection.execute("RESET ROLE")
    return before, version


def _version(connection: psycopg.Connection[TupleRow]) -> int:
    """The version of the schema, 0 when there is none; locks out concurrent migrations."""
    connection.execute("SELECT pg_advisory_xact_lock(hashtext('memsheaf.migrate'))")
    if connection.execute("SELECT to_regclass('memsheaf.about')").fetchall() == [(None,)]:
        return 0
    connection.execute("SET LOCAL ROLE memsheaf_owner")
    [(version,)] = connection.execute("SELECT version FROM memsheaf.about").fetchall()
    connection.execute("RESET ROLE")
    return int(version)


def migrate_database(url: str) -> tuple[int, int]:
    """As `migrate`, with the login that installed the hub. Raises HubRefused, HubUnreachable."""
    with _administering(url) as connection, connection.transaction():
        found = migrate(connection)
        with suppress(ImportError):
            _migrate_jobs(connection)
        return found


def _migrate_jobs(connection: psycopg.Connection[TupleRow], *, create: bool = False) -> None:
    """Bring the tables of jobs to the installed version of Procrastinate; after `migrate`, which holds a lock."""
    [(last,)] = connection.execute(f"SELECT {JOBS_ARE_AT}").fetchall()
    if (steps := job_migrations(last)) and (last or create):
        connection.execute(f"CREATE SCHEMA IF NOT EXISTS {JOBS} AUTHORIZATION memsheaf_owner")
        connection.execute(f"SET LOCAL ROLE memsheaf_owner; SET LOCAL search_path = {JOBS}")
        for _, statements in steps:
            connection.execute(statements.encode())
        connection.execute(f"{_GRANTS} COMMENT ON SCHEMA {JOBS} IS '{steps[-1][0]}'; RESET ROLE".encode())


def create_team(url: str, team: str, member: str) -> Invitation:
    """Create a team, and the schema where there is none; its first member is an admin.

    `url` has a login with CREATEROLE and CREATE on the database; a superuser is not needed.

    Raises:
        HubRefused: it may not, the team exists, or the server is too old; nothing was changed.
        HubUnreachable: no answer.
    """
    invitation, verifier = new_login(url, team, member)
    with _administering(url) as connection, connection.transaction():
        migrate(connection)
        member, login = invitation.member, f"{invitation.team}.{invitation.member}"
        connection.execute("SET LOCAL ROLE memsheaf_owner")
        create = "SELECT memsheaf.create_space(%s, %s, %s)"
        [(created,)] = connection.execute(create, [invitation.namespace, login, member]).fetchall()
        if not created:
            raise HubRefused(
                f"the team {invitation.team!r} exists already",
                hint="An admin of the team invites others: `memsheaf team invite MEMBER`.",
            )
        connection.execute("SELECT memsheaf.create_login(%s, %s)", [login, verifier])
        connection.execute("RESET ROLE")
    return invitation


def invite(settings: HubSettings, member: str, role: str) -> Invitation:
    """Let somebody into the team whose admin these settings are of; again for another role or password.

    Raises HubRefused, HubUnreachable.
    """
    team = settings.namespace.partition(":")[0]
    invitation, verifier = new_login(settings.url, team, member)
    hub = PostgresHub(settings)
    try:
        hub.administer("invite", invitation.member, role, verifier)
    finally:
        hub.close()
    return invitation


def create_service(url: str, name: str) -> str:
    """Make a login for servers and workers, and the tables of their jobs; gives the address with its password.

    Raises HubRefused, HubUnreachable.
    """
    login = f"memsheaf-{_label(name, 'service')}"  # without a dot, as no member's
    address, verifier = _with_password(url, login)
    with _administering(url) as connection, connection.transaction():
        migrate(connection)
        _migrate_jobs(connection, create=True)
        connection.execute("SET LOCAL ROLE memsheaf_owner")
        connection.execute("SELECT memsheaf.create_service(%s, %s)", [login, verifier])
        connection.execute("RESET ROLE")
    return address


def new_token(team: str) -> str:
    """A token of a team, which its first part names.

    >>> team_of(new_token("acme"))
    'acme'
    """
    return f"{team}.{secrets.token_urlsafe(32)}"


def team_of(token: str) -> str:
    """The team that a token names, "" when it is none."""
    found = re.fullmatch(r"([a-z0-9-]{1,64})\.[\w-]{32,200}", token, re.ASCII)
    return found[1] if found else ""


def digest_of(token: str) -> bytes:
    """The SHA-256 of a token, as the database stores it."""
    return sha256(token.encode()).digest()


def read_invitation(line: str) -> Invitation:
    """The address that `team invite` printed, or the whole line. Raises HubRefused."""
    url = next((word.strip("'\"") for word in line.split() if "://" in word), "")
    login = unquote(urlsplit(url).netloc.rpartition("@")[0].partition(":")[0])
    team, dot, member = login.partition(".")
    if not url.startswith(("postgresql://", "postgres://")) or not dot or not team or not member:
        said = "that is no invitation: it has no address such as postgresql://TEAM.YOU:PASSWORD@HOST/DATABASE"
        raise HubRefused(said, hint="An admin of the team makes one: `memsheaf team invite MEMBER`.")
    return Invitation(_label(team, "team"), _label(member, "member"), url)


def new_login(url: str, team: str, member: str) -> tuple[Invitation, str]:
    """An invitation with a new password, and what the database keeps of that."""
    team, member = _label(team, "team"), _label(member, "member")
    if len(login := f"{team}.{member}") > 63:
        raise HubRefused(f"the login {login!r} is longer than the 63 bytes that PostgreSQL takes")
    address, verifier = _with_password(url, login)
    return Invitation(team, member, address), verifier


def _with_password(url: str, login: str) -> tuple[str, str]:
    """The address with a login and a new password, and what the database keeps of that."""
    HubSettings(url, "", "", "").check_address()
    password = secrets.token_urlsafe(18)
    parts = urlsplit(url)
    place = parts.netloc.rpartition("@")[2]
    kept = [(key, value) for key, value in parse_qsl(parts.query) if key not in ("user", "password", "passfile")]
    address = urlunsplit(parts._replace(netloc=f"{login}:{password}@{place}", query=urlencode(kept, safe="/")))
    if "://" not in address:  # without a host there is nothing before the path for it to see
        raise HubRefused("give the address as postgresql://LOGIN@HOST/DATABASE")
    return address, scram_verifier(password)


def _label(name: str, what: str) -> str:
    most = {"team": 40, "service": 50}.get(what, 64)  # as the schema has it
    with suppress(ScopeRefused):
        if (label := check_label(name, what)).isascii() and len(label) <= most:
            return label
    hint = f"Use up to {most} letters of a to z, digits and hyphens."
    raise HubRefused(f"the {what} name {one_line(name, 80)!r} is not allowed", hint=hint)


def scram_verifier(password: str, rounds: int = 4096) -> str:
    """The SCRAM verifier of a password: neither the server nor its log gets the password itself."""
    salt = os.urandom(16)
    salted = pbkdf2_hmac("sha256", password.encode(), salt, rounds)
    stored = sha256(digest(salted, b"Client Key", "sha256")).digest()
    server = digest(salted, b"Server Key", "sha256")
    one, two, three = (b64encode(part).decode() for part in (salt, stored, server))
    return f"SCRAM-SHA-256${rounds}:{one}${two}:{three}"


@contextmanager
def _administering(url: str) -> Iterator[psycopg.Connection[TupleRow]]:
    """A connection with the login that installs the hub. Raises HubRefused, HubUnreachable."""
    shown = HubSettings(url, "", "", "").check_address()
    try:
        with psycopg.connect(url, application_name="memsheaf", **options_for(url, 10.0, 10.0)) as connection:
            if connection.info.server_version < OLDEST:
                raise HubRefused(f"{shown} is PostgreSQL {connection.info.server_version // 10000}; 15 is the oldest")
            if (encoding := connection.info.parameter_status("server_encoding")) != "UTF8":
                hint = "CREATE DATABASE memory ENCODING 'UTF8' TEMPLATE template0 makes one."
                raise HubRefused(f"the encoding of {shown} is {encoding}; it has to be UTF8", hint=hint)
            yield connection
    except psycopg.errors.InsufficientPrivilege as error:
        raise HubRefused(
            f"{shown} refused: {error.diag.message_primary}",
            hint="The login needs CREATEROLE and CREATE on the database, and to be the one that installed the hub: "
            "ALTER ROLE login CREATEROLE; GRANT CREATE ON DATABASE name TO login.",
        ) from error
    except psycopg.Error as error:
        raise explain_connection(error, shown) from error
