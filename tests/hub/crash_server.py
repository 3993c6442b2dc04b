"""A PostgreSQL of its own, with fsync on, that is there to be killed, filled and set back to an older day."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator

import psycopg

from hub.postgres_server import Server

PATIENCE = 60.0


class CrashServer(Server):
    """A cluster that members reach by TCP: at `port`, or through a proxy at `through`."""

    def __init__(self, folder: str) -> None:
        super().__init__(folder, quick=False)
        with socket.create_server(("127.0.0.1", 0)) as probe:
            self.port = int(probe.getsockname()[1])
        self.through = 0
        self.create()
        self.begin()
        self.create_hub()

    def url(self, login: str = "postgres", password: str = "", database: str = "postgres") -> str:
        url = super().url(login, password, database)
        return url.replace(f":{self.port}/", f":{self.through}/") if password and self.through else url

    def begin(self) -> None:
        """Start it, and wait until it has recovered."""
        deadline = time.monotonic() + PATIENCE
        while True:  # what is left of one that was killed may still hold its memory
            try:
                return self.start(self.port)
            except RuntimeError:
                assert time.monotonic() < deadline
                time.sleep(0.02)

    def begin_if_down(self) -> None:
        """Start it if it has ended by itself."""
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                return psycopg.connect(self.url(), connect_timeout=5).close()
            except psycopg.OperationalError:  # down, or recovering
                assert time.monotonic() < deadline
                with contextlib.suppress(RuntimeError):
                    self.start(self.port)

    @property
    def postmaster(self) -> int:
        """The first process of the server."""
        with open(os.path.join(self.data, "postmaster.pid"), encoding="ascii") as file:
            return int(file.readline())

    def strike(self, how: str) -> None:
        """Take it down and bring it up again: stopped `immediate`ly, its `postmaster` or `all` its processes killed,
        one `backend` killed, which takes the others down with it, or `terminated`, which does not."""
        if how == "immediate":
            self.stop("immediate")
        elif how == "postmaster":
            self._kill(self.postmaster)
        elif how == "all":
            first = self.postmaster
            os.kill(first, signal.SIGSTOP)  # so that it cannot start others
            self._kill(*_children(first), first)
        elif backends := self._backends():
            os.kill(backends[0], signal.SIGKILL if how == "backend" else signal.SIGTERM)
        if how in ("immediate", "postmaster", "all"):
            self.begin()

    def _kill(self, *processes: int) -> None:
        for one in processes:
            with contextlib.suppress(ProcessLookupError):
                os.kill(one, signal.SIGKILL)
        while any(os.path.exists(f"/proc/{one}") for one in processes):
            time.sleep(0.005)

    def _backends(self) -> list[int]:
        """The processes that serve clients, but the one that answers this; whoever writes comes first."""
        try:
            with psycopg.connect(self.url()) as connection:
                rows = connection.execute(
                    "SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' "
                    "AND pid <> pg_backend_pid() ORDER BY state <> 'active', random()"
                ).fetchall()
        except psycopg.OperationalError:
            return []
        return [int(pid) for (pid,) in rows]

    def back_up(self, name: str) -> None:
        """Keep a copy of the files of the stopped server."""
        self.stop()
        subprocess.run(["cp", "-a", self.data, os.path.join(self.socket, name)], check=True)
        self.begin()

    def restore(self, name: str) -> None:
        """Go back to a copy."""
        self.stop()
        shutil.rmtree(self.data)
        subprocess.run(["cp", "-a", os.path.join(self.socket, name), self.data], check=True)
        self.begin()

    def __enter__(self) -> CrashServer:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(RuntimeError):
            self.stop("immediate")
        shutil.rmtree(self.socket, ignore_errors=True)


def _children(process: int) -> Iterator[int]:
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{name}/stat", encoding="ascii", errors="replace") as file:
            if int(file.read().rpartition(")")[2].split()[1]) == process:
                yield int(name)
