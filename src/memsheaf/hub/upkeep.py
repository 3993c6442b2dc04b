"""Keep the scopes that have a hub in step while a process runs: bring what others pushed, push what waits here.

Each scope has a thread, with a `Sheaf` and a connection of its own: whoever reads or saves meanwhile is not made to
wait, and sees what came as if another process had written it. A hub that does not answer is tried again, more and
more seldom; nothing that goes wrong here reaches the host, `memsheaf hub status` tells it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from contextlib import suppress

from memsheaf.config import Settings, load
from memsheaf.errors import MemsheafError, ScopeRefused
from memsheaf.hub.replica_state import has_pending
from memsheaf.scope import Scope, resolve, with_hub
from memsheaf.sheaf import Sheaf
from memsheaf.transfer import synchronize

LISTEN_SECONDS = 1.0  # after which a thread that listens looks whether it is wanted
FIRST_RETRY_SECONDS, LAST_RETRY_SECONDS = 2.0, 60.0  # before a hub that failed is tried again
FRESH_SECONDS = 2.0  # for which the news of a listening thread counts as now


def start_upkeep(settings: Settings, cwd: str, scopes: Sequence[str] = ()) -> HubUpkeep | None:
    """Start to keep these scopes in step, or those around a folder; return None when none of them has a hub."""
    shared = with_hub(list(scopes) or settings.layers(cwd), settings.places(cwd))
    return HubUpkeep(settings, cwd, shared) if shared else None


def sync_scopes(cwd: str, *scopes: str) -> int:
    """Sync these scopes in a process of its own, which hooks start: it goes on when they have answered."""
    sync_once(load(warn=lambda problem: None), cwd, scopes)
    return 0


def sync_once(settings: Settings, cwd: str, scopes: Sequence[str]) -> None:
    """Sync these scopes, all at once. What fails is left for the next time."""

    def sync(scope: str) -> None:
        with suppress(MemsheafError, OSError), _Keeper(settings, cwd, scope).open() as sheaf:
            synchronize(sheaf.own)

    threads = [threading.Thread(target=sync, args=(scope,), daemon=True) for scope in scopes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


class HubUpkeep:
    """The threads that keep scopes in step. Close it."""

    def __init__(self, settings: Settings, cwd: str, scopes: Sequence[str]) -> None:
        self._seconds = settings.hub.start_seconds
        self._keepers = [_Keeper(settings, cwd, scope) for scope in scopes]
        for keeper in self._keepers:
            threading.Thread(target=keeper.run, name=f"memsheaf-hub-{keeper.scope}", daemon=True).start()

    def wait(self, most: float = float("inf")) -> bool:
        """Sync all scopes, and wait as long as the settings say; return True if all were tried by then."""
        self.wake()
        ends = time.monotonic() + min(most, self._seconds)
        return all(keeper.wait(ends) for keeper in self._keepers)

    def wake(self) -> None:
        """Sync soon: something may wait to be pushed."""
        for keeper in self._keepers:
            keeper.ask()

    def close(self) -> None:
        """End the threads; what waits is pushed before, if the hub answers in time."""
        if any(keeper.has_pending() for keeper in self._keepers):
            self.wait()
        for keeper in self._keepers:
            keeper.end()


class _Keeper:
    """One scope and its hub."""

    def __init__(self, settings: Settings, cwd: str, scope: str) -> None:
        self.scope = scope
        self._settings = settings._replace(embedder="none")
        self._cwd = cwd
        self._poll = settings.hub.poll_seconds
        self._changed = threading.Condition()
        self._asked = time.monotonic()  # when a sync was asked for last
        self._tried = 0.0  # when the last one began that ended
        self._fresh = 0.0  # until when what is known counts as now
        self._ended = False

    def ask(self) -> None:
        """Ask for a sync from now on, unless the first has not ended, or what is known is new and nothing waits."""
        with self._changed:
            if self._tried and (time.monotonic() > self._fresh or self.has_pending()):
                self._asked = time.monotonic()
                self._changed.notify_all()

    def wait(self, ends: float) -> bool:
        """Wait until the sync that was asked for has ended."""
        with self._changed:
            left = max(0.0, ends - time.monotonic())
            return self._changed.wait_for(lambda: self._ended or self._asked <= self._tried, left)

    def has_pending(self) -> bool:
        """Return True if something waits for the hub."""
        with suppress(MemsheafError, OSError):
            return has_pending(resolve(Scope.parse(self.scope), self._settings.places(self._cwd)))
        return False

    def end(self) -> None:
        """Let the thread end."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def run(self) -> None:
        """Sync whenever the hub tells that there is something new, when asked to, and now and then."""
        pause = FIRST_RETRY_SECONDS
        while not self._ended:
            try:
                with self.open() as sheaf:
                    self._keep(sheaf)
                pause = FIRST_RETRY_SECONDS
            except ScopeRefused:  # it has no hub any more
                self.end()
            except Exception:  # noqa: BLE001  a guest: `memsheaf hub status` tells what is wrong
                self._note(time.monotonic())
                self._rest(pause)
                pause = min(2 * pause, LAST_RETRY_SECONDS)

    def open(self) -> Sheaf:
        """Open the scope, without an embedder."""
        return Sheaf.open(self.scope, settings=self._settings, cwd=self._cwd, by="user")

    def _keep(self, sheaf: Sheaf) -> None:
        """Sync repeatedly, until it fails or is stopped."""
        while not self._ended:
            began = time.monotonic()
            synchronize(sheaf.own)
            replica = sheaf.own.replica
            assert replica is not None
            is_telling = replica.settings.is_postgres
            self._note(began, FRESH_SECONDS if is_telling else 0.0)
            if not is_telling:
                self._rest(self._poll)
            while is_telling and not self._is_wanted() and time.monotonic() < began + self._poll:
                if replica.hub.wait(LISTEN_SECONDS):
                    break
                self._note(self._tried, FRESH_SECONDS)

    def _is_wanted(self) -> bool:
        return self._ended or self._asked > self._tried

    def _note(self, began: float, fresh: float = 0.0) -> None:
        """Record that what was asked for until `began` is done, and for how many seconds it counts as new."""
        with self._changed:
            self._tried = began
            self._fresh = time.monotonic() + fresh if fresh else 0.0
            self._changed.notify_all()

    def _rest(self, seconds: float) -> None:
        with self._changed:
            self._changed.wait_for(self._is_wanted, seconds)
