"""What tests of servers and workers need of a database: a service login, and tokens of members."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import NamedTuple

import httpx2
import psycopg
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from forks import Program
from hub.postgres_server import Server, Team
from memsheaf.hub.postgres_admin import create_service, digest_of, new_token


def service_url(server: Server, database: str = "hub") -> str:
    """The address with a service login of its own."""
    return create_service(server.url("dba", "dba", database), os.urandom(4).hex())


def token(team: Team, member: str, *, role: str = "writer", days: int = 30) -> str:
    """A token of a member, who made it."""
    made = new_token(team.name)
    with psycopg.connect(team.url(member, role)) as connection:
        query = "SELECT memsheaf.add_token(%s, %s, %s, %s)"
        connection.execute(query, [team.namespace, member, digest_of(made), days])
    return made


def as_superuser(team: Team, query: str, *values: object) -> None:
    """Do what nobody else may, such as making time pass."""
    with psycopg.connect(team.server.url(database=team.database), autocommit=True) as connection:
        connection.execute(query.encode(), values)


class HubSite(NamedTuple):
    """A server process, where it is, and its cache."""

    process: Program
    url: str
    cache: Path

    @asynccontextmanager
    async def client(self, shown: str, *, mode: str = "auto", **headers: str) -> AsyncIterator[Client]:
        """The official client of whoever has a token."""
        given = {"Authorization": f"Bearer {shown}"} | {f"Memsheaf-{key}": value for key, value in headers.items()}
        async with (
            httpx2.AsyncClient(headers=given, timeout=60) as http,
            Client(streamable_http_client(self.url, http_client=http), mode=mode) as client,
        ):
            yield client

    def post(self, path: str, shown: str, value: object, **headers: str) -> httpx2.Response:
        """One plain request."""
        given = {"Authorization": f"Bearer {shown}"} | {f"Memsheaf-{key}": value for key, value in headers.items()}
        return httpx2.post(self.url.replace("/mcp", path), json=value, headers=given, timeout=60)

    def tell(self, shown: str, *texts: str, conversation: str = "c", scope: str = "") -> int:
        """Send what a user said, to be learned from; gives how many turns are new."""
        messages = [{"role": "user", "text": text} for text in texts]
        answer = self.post("/turns", shown, {"conversation": conversation, "messages": messages, "scope": scope})
        assert answer.status_code == 202, answer.text
        return int(answer.json()["added"])

    def folders(self) -> list[str]:
        """The folders of its replicas, one for each view."""
        return sorted(str(one) for one in self.cache.glob("hub-server-*/*") if one.is_dir())


@contextmanager
def serving(url: str, folder: Path, *options: str, embedder: str = "none") -> Iterator[HubSite]:
    """`memsheaf mcp --http --hub` as a process of its own; it is gone in the end."""
    words = [sys.executable, "-m", "memsheaf", "mcp", "--http", "--port", "0", "--json", "--hub", url, *options]
    environment = os.environ | {"MEMSHEAF_HOME": str(folder), "MEMSHEAF_EMBEDDER": embedder}
    process = Program(words, env=environment)
    try:
        yield HubSite(process, json.loads(process.stdout.readline())["url"], folder / "cache")
    finally:
        process.terminate()
        process.wait(60)
        process.stdout.close()


async def say(client: Client, tool: str, **arguments: object) -> str:
    """What a tool answers."""
    answer = await client.call_tool(tool, arguments)
    return str(getattr(answer.content[0], "text", ""))


async def save(client: Client, name: str, content: str, kind: str = "user", **more: object) -> str:
    """Save a memory, which must be done."""
    told = await say(
        client, "memory_write", name=name, description=f"About {name}", type=kind, content=content, **more
    )
    assert told.startswith("Memory saved: "), told
    return told.removeprefix("Memory saved: ").split()[0]


def documents(team: Team, space: str) -> dict[str, str]:
    """What is on the hub in a namespace of a team."""
    query = (
        "SELECT d.path, convert_from(t.data, 'UTF8') FROM memsheaf.documents d "
        "JOIN memsheaf.texts t USING (namespace, version) WHERE d.namespace = %s"
    )
    with psycopg.connect(team.server.url(database=team.database)) as connection:
        return dict(connection.execute(query, [f"{team.name}:{space}"]).fetchall())
