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

BINARIES = "/usr/lib/postgresql/15/bin"
PATIENCE = 60.0


class CrashServer:
    """One cluster in a folder. Its processes end with `close`."""

    def __init__(self, place: str) -> None:
        self.place = place
        self.data = os.path.join(place, "data")
        self.user = "postgres" if os.getuid() == 0 else None
        with socket.create_server(("127.0.0.1", 0)) as probe:
            self.port = int(probe.getsockname()[1])
        os.makedirs(place, exist_ok=True)
        if self.user:
            shutil.chown(place, self.user)
        self._run("initdb", "-D", self.data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
        self.start()

    def _run(self, program: str, *words: str) -> None:
        done = subprocess.run(
            [os.path.join(BINARIES, program), *words],
            user=self.user,
            cwd="/",
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr

    def start(self) -> None:
        """Start it, and wait until it has recovered."""
        deadline = time.monotonic() + PATIENCE
        while True:
            with open(os.path.join(self.place, "log"), "ab") as log:
                command = [
                    os.path.join(BINARIES, "postgres"), "-D", self.data, "-p", str(self.port), "-k", self.place,
                    "-c", "listen_addresses=127.0.0.1", "-c", "fsync=on", "-c", "shared_buffers=16MB",
                    "-c", "max_connections=60",
                ]  # fmt: skip
                self.process = subprocess.Popen(
                    command, user=self.user, cwd="/", stdin=subprocess.DEVNULL, stdout=log, stderr=log
                )
            while self.process.poll() is None:
                with contextlib.suppress(psycopg.OperationalError):
                    psycopg.connect(self.url(), connect_timeout=5).close()
                    return
                assert time.monotonic() < deadline, "the server does not start"
                time.sleep(0.02)
            # what is left of one that was killed may still hold its memory
            assert time.monotonic() < deadline, "the server does not start"
            time.sleep(0.05)

    def url(self, *, port: int = 0, login: str = "postgres", database: str = "postgres") -> str:
        """Where it is; with a port, through a proxy there."""
        return f"postgresql://{login}@127.0.0.1:{port or self.port}/{database}"

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """Stop it: SIGINT is `fast`, SIGQUIT `immediate`."""
        self.process.send_signal(how)
        self.process.wait(PATIENCE)

    def kill(self) -> None:
        """Kill every process of it at once, as a machine does that loses its power but for the disk's cache."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.process.pid, signal.SIGSTOP)
        for child in self._children():
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        self.process.kill()
        self.process.wait(PATIENCE)

    def kill_postmaster(self) -> None:
        """Kill the first process; the others notice and end."""
        self.process.kill()
        self.process.wait(PATIENCE)

    def backends(self) -> list[int]:
        """The processes that serve clients, but the one that answers this."""
        with psycopg.connect(self.url()) as connection:
            rows = connection.execute(
                "SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
            ).fetchall()
        return [int(pid) for (pid,) in rows]

    def _children(self) -> Iterator[int]:
        for name in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError), open(f"/proc/{name}/stat", encoding="ascii", errors="replace") as file:
                if int(file.read().rpartition(")")[2].split()[1]) == self.process.pid:
                    yield int(name)

    def copy(self, name: str) -> None:
        """Keep a backup: a copy of the files of a stopped server."""
        self.stop()
        shutil.rmtree(os.path.join(self.place, name), ignore_errors=True)
        subprocess.run(["cp", "-a", self.data, os.path.join(self.place, name)], check=True)
        self.start()

    def restore(self, name: str) -> None:
        """Go back to a backup."""
        self.stop()
        shutil.rmtree(self.data)
        subprocess.run(["cp", "-a", os.path.join(self.place, name), self.data], check=True)
        self.start()

    def close(self) -> None:
        """End it."""
        if self.process.poll() is None:
            self.kill()
