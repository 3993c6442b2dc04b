"""Replicas that a server makes on demand: the memories of the member that a request is for, in a bounded cache.

What is here can be made again from the hub at any time. Each member, project and agent has a folder of its own; the
least recently used is dropped, with its index and its state.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from hashlib import sha256
from typing import NamedTuple

from memsheaf.config import Settings
from memsheaf.errors import Busy, HubRestored, ScopeRefused
from memsheaf.hub import HubSettings
from memsheaf.hub.opening import lend_hub
from memsheaf.hub.replica_state import Synced, write_settings
from memsheaf.hub.scopes import open_shared
from memsheaf.hub.service import HubService, TokenMember
from memsheaf.scope import Scope, resolve
from memsheaf.sheaf import Sheaf
from memsheaf.store import HISTORY
from memsheaf.store.safe_dir import Folder, kernel_lock
from memsheaf.transfer import synchronize

MEASURE_SECONDS = 30.0  # between two measurements of the size of a view
MAX_REPLICAS, MAX_BYTES = 300, 4 << 30
_FOLDER_PREFIX = "hub-server-"
_LOCK_FILE = "lock"


class Caller(NamedTuple):
    """The member that a request is for, and the scopes it sees, the nearest first, each with its namespace."""

    member: TokenMember
    spaces: tuple[tuple[str, str], ...]

    @classmethod
    def asking(cls, member: TokenMember, project: str = "", agent: str = "") -> Caller:
        """Return a member who asks, perhaps in a project and as an agent; their own and the team's are seen, too."""
        team, name = member.team, member.name
        spaces = []
        if agent:
            spaces.append((f"agent/{agent}", f"{team}:agent/{agent}"))
        if project:
            spaces.append(("project", f"{team}:project/{project}"))
        return cls(member, (*spaces, ("user", f"{team}:user/{name}"), (f"team/{team}", f"{team}:team")))

    @classmethod
    def learning(cls, member: TokenMember, namespace: str) -> Caller:
        """Return a member for whom a namespace learns, with their own memories; a team learns alone."""
        layer, _, name = namespace.partition(":")[2].partition("/")
        asked = cls.asking(member, *((name,) if layer == "project" else ("", name) if layer == "agent" else ()))
        wanted = asked.spaces[-1:] if layer == "team" else asked.spaces[:-1]
        return asked._replace(spaces=wanted)

    def space_of(self, scope: str) -> str:
        """Return the namespace of a scope, of the nearest for "". Raises ScopeRefused."""
        known, name = dict(self.spaces), str(Scope.parse(scope)) if scope else self.spaces[0][0]
        if name not in known:
            raise ScopeRefused(f"{name!r} is none of {', '.join(known)}")
        return known[name]


class CallerView:
    """The replicas of one caller in one folder, opened at the first use; `kept` is the server's, closed with them."""

    def __init__(self, folder: str, count: int) -> None:
        self.folder = folder
        self.count = count
        self.lock = threading.Lock()
        self.layers: Sheaf
        self.is_open = False
        self.kept: dict[str, object] = {}
        self.users = 0
        self.size = 0
        self.pulled = self.measured = float("-inf")

    def close(self) -> None:
        """Drop it."""
        if self.is_open:
            self.layers.close()
            self.is_open, self.kept = False, {}
        shutil.rmtree(self.folder, ignore_errors=True)


class ServerReplicas:
    """The views of a server. Its folder is its own, whatever else runs on the machine, and goes with it."""

    def __init__(
        self,
        service: HubService,
        settings: Settings,
        *,
        most: int = MAX_REPLICAS,
        size: int = MAX_BYTES,
        by: str = "agent",
    ) -> None:
        self._service = service
        self._settings = settings
        self._most = most
        self._size = size
        self._by = by
        self._lock = threading.Lock()
        self._views: OrderedDict[Caller, CallerView] = OrderedDict()
        os.makedirs(settings.cache, mode=0o700, exist_ok=True)
        for name in os.listdir(settings.cache):
            if name.startswith(_FOLDER_PREFIX):  # of a server that was killed
                with suppress(OSError, Busy):
                    _hold(os.path.join(settings.cache, name)).close()
                    shutil.rmtree(os.path.join(settings.cache, name), ignore_errors=True)
        self.folder = tempfile.mkdtemp(prefix=_FOLDER_PREFIX, dir=settings.cache)
        self._held = _hold(self.folder)

    def close(self) -> None:
        """Drop everything."""
        for view in self._views.values():
            view.close()
        self._held.close()  # no file in it is open any more, as Windows demands
        shutil.rmtree(self.folder, ignore_errors=True)

    @contextmanager
    def use(self, caller: Caller) -> Iterator[CallerView]:
        """The open memories of a caller, synced at this call. Raises HubUnreachable, HubRefused, opening errors."""
        arrived = time.monotonic()
        with self._lock:
            view = self._views.get(caller)
            if view is None:
                name = sha256(repr(caller).encode()).hexdigest()[:32]
                folder = os.path.join(self.folder, f"{name}-{time.monotonic_ns():x}")
                view = self._views[caller] = CallerView(folder, len(caller.spaces))
            self._views.move_to_end(caller)
            view.users += 1
        try:
            self._refresh(view, caller, arrived)
            yield view
        finally:
            with self._lock:
                view.users -= 1
                dropped = self._too_many()
            for dropped_view in dropped:
                dropped_view.close()

    def _refresh(self, view: CallerView, caller: Caller, arrived: float) -> None:
        """Open what is not open yet, and pull what is new, unless that was done since."""
        with view.lock:
            if view.pulled >= arrived:
                return
            now = time.monotonic()
            try:
                self._pull(view, caller)
            except HubRestored:  # what is here came from the hub
                view.close()
                self._pull(view, caller)
            view.pulled = now
            if now - view.measured >= MEASURE_SECONDS:
                view.size, view.measured = _size(view.folder), now

    def _pull(self, view: CallerView, caller: Caller) -> None:
        if not view.is_open:
            view.layers, view.is_open = self._open(view, caller), True
        for sheaf in map(view.layers.only, view.layers.scopes()):
            if not _sync_quickly(sheaf):
                with open_shared(sheaf.scope, view.layers.settings, view.folder) as shared:
                    _record_own(shared, synchronize(shared.own))

    def _open(self, view: CallerView, caller: Caller) -> Sheaf:
        home, cache, state = (os.path.join(view.folder, name) for name in ("home", "cache", "state"))
        settings = self._settings._replace(
            home=home,
            cache=cache,
            state=state,
            project=os.path.join(home, "project"),
            projects=(),
        )
        hubs = []
        for scope, namespace in caller.spaces:
            self._service.join_space(caller.member.login, namespace)
            root = resolve(Scope.parse(scope), settings.places(home))
            hub = HubSettings(self._service.url, namespace, f"server-{caller.member.name}", "servers", "refuse")
            with Folder.open(root, create=True) as folder, folder.folder(HISTORY, create=True) as history:
                write_settings(history, hub._replace(url=hub.shown))
            hubs.append(self._service.open_hub(hub, caller.member.login))
            lend_hub(root, hubs[-1])
        layers = Sheaf.open(settings=settings, cwd=home, by=self._by, scopes=[scope for scope, _ in caller.spaces])
        layers.teams = {scope for scope, _ in caller.spaces[1:] if scope.startswith("team/")}
        layers.open_scopes()  # while the hubs are held
        return layers

    def _too_many(self) -> list[CallerView]:
        """Take the views out that are too many or too large, the least recently used first. The lock is held."""
        dropped, views = [], self._views
        for caller in [caller for caller, view in views.items() if not view.users]:
            count = sum(view.count for view in views.values())
            size = sum(view.size for view in views.values())
            if count <= self._most and size <= self._size:
                break
            dropped.append(views.pop(caller))
        return dropped


def _sync_quickly(sheaf: Sheaf) -> bool:
    """Pull new commits if nothing else is new, as these files are not edited. False when more is to do."""
    replica = sheaf.own.replica
    assert replica is not None
    state = replica.state()
    if not state.joined or state.pending or state.erasing or state.proofs or state.down_at:
        return False
    news = replica.hub.pull(state.cursor)
    if news.commits and not (news.erasures or news.whole):
        _record_own(sheaf, replica.sync())
    return not (news.erasures or news.whole)


def _record_own(sheaf: Sheaf, synced: Synced) -> None:
    """Record what the member saved through other servers and workers as their own; not what a machine may have made
    of texts of others, whose paths are asked for where a pull does not tell from which texts it came."""
    own = [pulled.commit for pulled in synced.pulled if pulled.own]
    replica = sheaf.own.replica
    if own and replica and replica.ledger:
        theirs = replica.hub.paths_of_others() if synced.whole else ()  # type: ignore[attr-defined]  # it is a database
        for commit in own:
            if not any(step.path in theirs for step in commit.revisions):
                sheaf.own.record_trust(commit)


def _size(folder: str) -> int:
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                total += os.lstat(os.path.join(place, name)).st_size
    return total


def _hold(folder: str) -> ExitStack:
    """Hold a folder as long as this process lives, or until it is let go. Raises Busy when another process does."""
    with ExitStack() as held:
        opened = held.enter_context(Folder.open(folder))
        held.enter_context(kernel_lock(opened, _LOCK_FILE, wait=0))
        return held.pop_all()
