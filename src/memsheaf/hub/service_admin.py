"""Prepare the database of a hub for servers and workers: their login, their jobs, and the tokens of members."""

from __future__ import annotations

import secrets

import psycopg
from procrastinate.schema import SchemaManager
from psycopg import sql

from memsheaf.hub.service import JOBS, digest_of, new_token

_GRANTS = """
GRANT USAGE ON SCHEMA {jobs} TO memsheaf_service;
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {jobs} TO memsheaf_service;
GRANT USAGE ON ALL SEQUENCES IN SCHEMA {jobs} TO memsheaf_service;
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA {jobs} TO memsheaf_service;
"""


def create_service(connection: psycopg.Connection, login: str) -> str:
    """Make a login for servers and workers, and the tables of their jobs; gives its password."""
    password = secrets.token_urlsafe(24)
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [JOBS])  # two admins at once
        found = connection.execute("SELECT to_regclass(%s)", [f"{JOBS}.procrastinate_jobs"]).fetchone()
        if not found or found[0] is None:
            names = {"jobs": sql.Identifier(JOBS)}
            connection.execute(sql.SQL("CREATE SCHEMA {jobs} AUTHORIZATION memsheaf_owner").format(**names))
            connection.execute(
                sql.SQL("SET LOCAL ROLE memsheaf_owner; SET LOCAL search_path = {jobs}").format(**names)
            )
            connection.execute(SchemaManager.get_schema())
            connection.execute(sql.SQL(_GRANTS).format(**names))
        connection.execute("SET LOCAL ROLE memsheaf_owner")
        made = "CREATE ROLE {login} LOGIN PASSWORD {password} IN ROLE memsheaf_service"
        kept = connection.pgconn.encrypt_password(password.encode(), login.encode(), b"scram-sha-256").decode()
        connection.execute(sql.SQL(made).format(login=sql.Identifier(login), password=sql.Literal(kept)))
    return password


def make_token(connection: psycopg.Connection, team: str, member: str, days: int) -> tuple[str, str]:
    """Make a token of a member: the token, which nobody can be told again, and the day it expires."""
    token = new_token(team)
    row = connection.execute(
        "SELECT to_char(memsheaf.add_token(%s, %s, %s, %s), 'YYYY-MM-DD')",
        [f"{team}:team", member, digest_of(token), days],
    ).fetchone()
    return token, row[0] if row else ""
