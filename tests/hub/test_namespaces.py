"""No statement crosses a namespace, and none reads more of it than it needs: what lets a hub be divided."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from memsheaf.hub import postgres as postgres_hub
from memsheaf.hub.postgres_admin import migrations

_USE = re.compile(r"\b(FROM|JOIN|UPDATE|INTO|USING) memsheaf\.(\w+)\b(?! ?\()(?: AS)?(?: ([a-z]\w*)\b)?")


def statements(sql: str) -> Iterator[str]:
    for one in re.sub(r"--[^\n]*|'[^']*'", "''", sql).split(";"):
        yield " ".join(one.split())


def crossing(sql: str, tables: set[str]) -> list[str]:
    """The statements that use a table and do not say of which namespace."""
    found = []
    for one in statements(sql):
        for verb, table, alias in _USE.findall(one):
            if table not in tables:
                continue
            if verb == "INTO":
                is_named = re.search(
                    r"\((?:VALUES \()?namespace\b|VALUES \(ns\b|SELECT (?:DISTINCT ON \(\S+\) )?ns\b", one
                )
            else:
                is_named = re.search(rf"\b{alias}\.namespace = " if alias else r"\bnamespace = ", one)
            if not is_named:
                found.append(one)
    return found


def test_every_statement_on_a_table_of_namespaces_names_one() -> None:
    schema = "".join(sql for _, sql in migrations())
    sources = sorted(Path(postgres_hub.__file__).parent.glob("*.py"))
    client = re.sub(r'"\s*\n\s*f?"', "", "".join(one.read_text() for one in sources))
    tables = set(re.findall(r"CREATE TABLE memsheaf\.(\w+)", schema)) - {"about"}

    assert schema.count(") PARTITION BY HASH (namespace);") == len(tables) >= 14
    assert not re.search(r"(?:PRIMARY KEY|UNIQUE|ON memsheaf\.\w+) \((?!namespace\b)", schema)
    assert crossing(schema, tables) == crossing(client.replace('"', ";"), tables) == []
    assert crossing("DELETE FROM memsheaf.texts t WHERE t.version = 'x'", tables)
    assert crossing("SELECT FROM memsheaf.texts t, memsheaf.commits WHERE t.version = 'x'", tables)
