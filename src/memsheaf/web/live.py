"""Live updates: what others change is noticed, and told to open pages by server-sent events."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator
from contextlib import suppress

import anyio
import anyio.to_thread
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from memsheaf.errors import MemsheafError
from memsheaf.open_scope import OpenScope
from memsheaf.web.page import Site

SECONDS = 1.0  # between two looks at the files, while a page is open
VERIFY_SECONDS = 600.0  # between two checks of what a scope cites
QUIET_SECONDS = 25.0  # after which a comment keeps a connection open
MOST = 300  # open pages that are told


class Live:
    """Watches the open scopes while a page listens, and counts the changes."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._listening = 0
        self._seen: dict[str, object] = {}
        self._changed = anyio.Event()
        self._woken = anyio.Event()
        self._ending = False
        self._looking = threading.Lock()
        self._verified: dict[str, float] = {}
        self._child: asyncio.subprocess.Process | None = None

    async def watch(self) -> None:
        """Check once a second while a page listens, and immediately after our own changes."""
        while not self._ending:
            with anyio.move_on_after(SECONDS if self._listening else None):
                await self._woken.wait()
            self._woken = anyio.Event()
            if await anyio.to_thread.run_sync(self.look):
                self._tell()

    async def work_apart(self) -> None:
        """Embed what is new in the open scopes and check what they cite, in processes of their own: no page waits."""
        while not self._ending:
            changed = self._changed
            opened = () if self._site.read_only else tuple(self._site.scopes.by_root.values())
            for sheaf in opened:
                if time.monotonic() - self._verified.get(sheaf.root, -VERIFY_SECONDS) >= VERIFY_SECONDS:
                    self._verified[sheaf.root] = time.monotonic()
                    await self._verify(sheaf)
            for sheaf in opened:
                made = None
                with suppress(MemsheafError, OSError):
                    made = await anyio.to_thread.run_sync(sheaf.index.embedding)
                if made and made.done < made.total and not (made.running or made.problem):
                    await self._run(sheaf, "doctor", "--fix")
            with anyio.move_on_after(VERIFY_SECONDS):
                await changed.wait()

    async def _verify(self, sheaf: OpenScope) -> None:
        tree = await anyio.to_thread.run_sync(self._tree_of, sheaf)
        if tree and sheaf.scope.layer not in ("user", "agent", "team"):
            await self._run(sheaf, "audit", cwd=tree)
            self._tell()

    def _tree_of(self, sheaf: OpenScope) -> str:
        with suppress(MemsheafError, OSError):  # it may have been removed
            for known in self._site.known():
                if known.root == sheaf.root:
                    return self._site.scopes.tree(known)
        return ""

    async def _run(self, sheaf: OpenScope, *command: str, cwd: str = ".") -> None:
        """Run a memsheaf command on a scope, with low priority. With -P no module of a working tree is imported."""
        line = [sys.executable, "-P", "-m", "memsheaf", *command, "--json", "--scope", str(sheaf.scope)]
        line += ["--project", sheaf.settings.project] if sheaf.settings.project else []
        nothing = subprocess.DEVNULL
        try:
            if not self._ending:
                self._child = await asyncio.create_subprocess_exec(
                    *line, stdin=nothing, stdout=nothing, stderr=nothing, cwd=cwd
                )
        except OSError:
            return
        if self._child:
            with suppress(OSError, AttributeError):  # Windows has no such priority
                os.setpriority(os.PRIO_PROCESS, self._child.pid, 10)
            await self._child.wait()

    def look(self) -> bool:
        """Notice what changed in the scopes that are open; whether anything did."""
        with self._looking:
            found: dict[str, object] = {}
            for sheaf in tuple(self._site.scopes.by_root.values()):
                with suppress(MemsheafError, OSError):
                    sheaf.index.look()
                    found[sheaf.root] = sheaf.store.last_id(), sheaf.state.stamp()
            # a scope seen for the first time may have changed since a page showed it
            is_new = any(self._seen.get(root) != value for root, value in found.items())
            self._seen.update(found)
            return is_new

    def wake(self) -> None:
        """Look now: something was changed here."""
        self._woken.set()

    def end(self) -> None:
        """End all streams."""
        self._ending = True
        if self._child and self._child.returncode is None:
            self._child.terminate()
        self._woken.set()
        self._tell()

    def _tell(self) -> None:
        self._site.number += 1
        self._changed.set()
        self._changed = anyio.Event()

    async def stream(self, request: Request) -> Response:
        """The number of the last change, and each that follows."""
        if self._listening >= MOST:
            return Response(status_code=503, headers={"retry-after": "30"})
        return StreamingResponse(self._numbers(), media_type="text/event-stream")

    async def _numbers(self) -> AsyncIterator[str]:
        self._listening += 1
        try:
            self._woken.set()
            told = -1
            while not self._ending:
                if told != self._site.number:
                    told = self._site.number
                    yield f"data: {told}\n\n"
                    continue
                changed = self._changed
                with anyio.move_on_after(QUIET_SECONDS) as quiet:
                    await changed.wait()
                if quiet.cancelled_caught:
                    yield ": still here\n\n"
        finally:
            self._listening -= 1
