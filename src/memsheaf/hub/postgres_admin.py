"""Install and migrate the schema of a hub on PostgreSQL, and its teams and members."""

from __future__ import annotations

import os
from collections.abc import Iterator

import psycopg

SCHEMA = os.path.join(os.path.dirname(__file__), "schema")


def migrations(after: int = 0) -> Iterator[tuple[int, str]]:
    """The numbered steps of the schema after a version, in order, each as SQL."""
    for name in sorted(os.listdir(SCHEMA)):
        if name.endswith(".sql") and int(name[:4]) > after:
            with open(os.path.join(SCHEMA, name), encoding="utf-8") as file:
                yield int(name[:4]), file.read()


def migrate(connection: psycopg.Connection) -> int:
    """Bring the schema of a database to this version of memsheaf, as one transaction; gives its version.

    Every step after the first runs as memsheaf_owner. Raises psycopg.Error.
    """
    with connection.transaction():
        there = connection.execute("SELECT to_regclass('memsheaf.about') IS NOT NULL").fetchone()
        version = 0
        if there and there[0]:
            connection.execute("SET LOCAL ROLE memsheaf_owner")
            row = connection.execute("SELECT version FROM memsheaf.about FOR UPDATE").fetchone()
            version = row[0] if row else 0
        for number, statements in migrations(version):
            connection.execute(statements.encode())
            connection.execute("SET LOCAL ROLE memsheaf_owner")
            connection.execute("UPDATE memsheaf.about SET version = %s", [number])
            version = number
        connection.execute("RESET ROLE")
    return version
