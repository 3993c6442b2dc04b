"""Attach scopes to hubs, detach them, and report their status."""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Iterator
from contextlib import AbstractContextManager, suppress
from typing import NamedTuple

from memsheaf.config import Settings
from memsheaf.errors import HubRestored, HubUnreachable, MemsheafError, ScopeRefused
from memsheaf.hub import COPY, HubMember, HubSettings, Machine, deadline
from memsheaf.hub.opening import SILENT_SECONDS
from memsheaf.hub.replica_state import (
    ReplicaState,
    Synced,
    read_state,
    remove_hub,
    settings_of,
    write_settings,
    write_state,
)
from memsheaf.scope import Scope, checkout_of, has_hub, named_folders, resolve
from memsheaf.sheaf import Sheaf
from memsheaf.state import State
from memsheaf.store.folder import FolderStore
from memsheaf.store.safe_dir import Folder
from memsheaf.transfer import synchronize
from memsheaf.work.checks import ERROR, INFO, WARNING, Finding

MACHINE_FILE = "machine"  # in the state directory; holds the id of this machine


class HubStatus(NamedTuple):
    """The status of a scope and its hub; `problem` is why the last sync failed, or the hub could not be asked.

    `waiting_since` is the time of the oldest change that waits here.
    """

    scope: str
    root: str
    hub: HubSettings
    state: ReplicaState
    waiting_since: str = ""
    problem: str = ""
    notice: str = ""
    members: tuple[HubMember, ...] = ()
    machines: tuple[Machine, ...] = ()

    @property
    def open_erasures(self) -> dict[str, tuple[Machine, ...]]:
        """Return the erasures that some machine reported, by id, each with the machines that still have to."""
        reported = {id for machine in self.machines for id, _ in machine.erased}
        waiting = {}
        for id in sorted(reported):
            late = tuple(each for each in self.machines if not each.is_lost and id not in dict(each.erased))
            if late:
                waiting[id] = late
        return waiting


def attach(
    scope: Scope, url: str, settings: Settings, cwd: str, *, namespace: str = "", name: str = "", offline: str = ""
) -> Synced:
    """Attach a scope to a hub and merge both: the same text is kept once, different texts both. All or nothing.

    Again with another password or token, or another address of the same hub, it uses that from now on.

    Raises:
        ScopeRefused: it cannot have one, or has another.
        HubUnreachable, HubRefused: nothing was changed.
    """
    root = resolve(scope, settings.places(cwd))
    _require_shareable(scope, root, settings)
    old = settings_of(root)
    if old and old.unreadable:
        old = None
    if ":" not in url.partition("/")[0] and not url.startswith("-"):  # a folder, which the next command finds, too
        url = os.path.normpath(os.path.join(cwd, os.path.expanduser(url)))
    if scope.layer == "project":  # the same on all machines, wherever it lies
        namespace = namespace or f"memsheaf/project/{name or os.path.basename(root).rpartition('-')[0]}"
    if old:
        offline = offline or old.offline
    hub = HubSettings(url, namespace or f"memsheaf/{scope}", *_this_machine(settings.state), offline)
    has_other = ScopeRefused(
        f"{scope} has a hub already: {old.shown if old else ''}",
        hint=f"`memsheaf hub remove -s {scope}` takes it away; the memories stay.",
    )
    if old and (old.member_login, old.namespace) != (hub.member_login, hub.namespace):
        raise has_other
    try:
        with _history(root) as history:
            if not old:
                remove_hub(history)  # what a process may have written that was still at work with an earlier one
            write_settings(history, hub)
        with open_shared(scope, settings, cwd) as sheaf:
            return synchronize(sheaf.own)
    except BaseException as error:  # Ctrl-C, too
        if isinstance(error, HubRestored) and old and hub.is_postgres:  # the same member: both sides are merged
            with open_shared(scope, settings, cwd) as sheaf:
                return synchronize(sheaf.own, again=True)  # where it was moved, `team restored` needs the new address
        with _history(root) as history:
            if old:  # that another address fails says nothing about this one, which the next change asks
                write_settings(history, old)
                write_state(history, read_state(history)._replace(down_at=0.0, failed=""))
            else:
                remove_hub(history)
        if isinstance(error, HubRestored) and old and old.shown != hub.shown:
            raise has_other from None  # the same hub would have what was pulled
        if isinstance(error, HubUnreachable):
            error.hint = "Nothing was changed. Check the address, and that this machine reaches it."
            raise
        raise


def _require_shareable(scope: Scope, root: str, settings: Settings) -> None:
    """Raise ScopeRefused if a scope can have no hub."""
    if scope.layer not in ("user", "agent", "team", "project"):
        hint = "A hub can have user, project, agent/NAME and team/NAME; promote what is worth it."
        raise ScopeRefused(f"a {scope.layer} is the work of one machine and has no hub", hint=hint)
    if checkout_of(root, settings.home):
        hint = "Commit and push .memory with the code; `memsheaf init --undo` moves it out."
        raise ScopeRefused(f"{scope} is kept in its repository, which git shares already", hint=hint)


def configure(scope: Scope, settings: Settings, cwd: str, **changes: str) -> HubSettings:
    """Change the settings of a scope's hub. Raises ScopeRefused."""
    root = resolve(scope, settings.places(cwd))
    hub = _settings(scope, root, settings)
    hub.check_address()
    hub = hub._replace(**changes)
    with _history(root) as history:
        write_settings(history, hub)
    return hub


def detach(scope: Scope, settings: Settings, cwd: str) -> HubSettings:
    """Detach a scope from its hub; the memories stay on both sides. Raises ScopeRefused."""
    root = resolve(scope, settings.places(cwd))
    hub = _settings(scope, root, settings)
    with _history(root) as history:
        remove_hub(history)
        shutil.rmtree(os.path.join(settings.state_of(root).folder, os.path.dirname(COPY)), ignore_errors=True)
    return hub


def shared_scopes(settings: Settings, cwd: str) -> list[Scope]:
    """Return the scopes that have a hub: user, the present project, agents and teams."""
    scopes = [Scope("user"), Scope("project")]
    for layer, folder in (("agent", "agents"), ("team", "team")):
        scopes += [Scope(layer, name) for name in named_folders(os.path.join(settings.home, folder))]
    shared = []
    for scope in scopes:
        with suppress(MemsheafError, OSError):
            if has_hub(resolve(scope, settings.places(cwd)), settings.home):
                shared.append(scope)
    return shared


def open_shared(scope: Scope, settings: Settings, cwd: str) -> Sheaf:
    """Open a scope that has a hub, without an embedder. Raises ScopeRefused when it has none."""
    _settings(scope, resolve(scope, settings.places(cwd)), settings)
    return Sheaf.open(scope, settings=settings._replace(embedder="none"), cwd=cwd, by="user")


def status(scope: Scope, settings: Settings, cwd: str, *, ask: bool = True) -> HubStatus:
    """Return the status of a scope; with `ask` also the members and machines, from the hub."""
    with open_shared(scope, settings, cwd) as sheaf:
        replica = sheaf.own.replica
        assert replica is not None
        state = replica.state()
        since = ""
        if state.pending:
            since = min((commit.at for commit in replica.waiting()), default="")
        problem = state.failed.replace(" SCOPE", f" {scope}")
        known = HubStatus(str(scope), sheaf.root, replica.settings, state, since, problem)
        if not ask:
            return known
        try:
            with deadline(SILENT_SECONDS):
                members, machines = replica.hub.users()
        except MemsheafError as error:
            return known._replace(problem=str(error))
        return known._replace(members=tuple(members), machines=tuple(machines), notice=replica.hub.notice)


def examine_hub(status: HubStatus) -> Iterator[Finding]:
    """Yield what a person should know about a scope that has a hub."""
    scope, state = status.scope, status.state
    sync = f"`memsheaf hub sync -s {scope}`"
    if status.problem:
        yield Finding(ERROR, scope, status.problem, "what is here can be read; it is tried again by itself")
    if status.notice:
        yield Finding(WARNING, scope, status.notice, "`memsheaf hub status` shows the hub")
    if waiting := len(state.pending) - len(state.held):
        since = status.waiting_since[:16].replace("T", " ")
        yield Finding(WARNING, scope, f"changes that wait for the hub since {since}: {waiting}", sync)
    for path, why in state.held.items():
        yield Finding(WARNING, f"{scope}:{path}", f"it is not pushed: {why}", f"mend that, then {sync}")
    for path, why in state.left.items():
        yield Finding(WARNING, f"{scope}:{path}", f"the hub's text cannot be placed: {why}", sync)
    if undone := len(state.erasing) + len(state.proofs):
        yield Finding(WARNING, scope, f"erasures not sent to the hub yet: {undone}", sync)
    for conflict in state.told:
        if conflict.copy and os.path.lexists(os.path.join(status.root, conflict.copy)):
            problem = f"two machines changed {conflict.path} on {conflict.at[:10]}; this is the text that was here"
            advice = "compare both, keep what is right in one, and `memsheaf forget` the other"
            yield Finding(INFO, f"{scope}:{conflict.copy}", problem, advice)


def _settings(scope: Scope, root: str, settings: Settings) -> HubSettings:
    """Return the hub of a scope; one that lies in a repository may have come with it, and counts as none."""
    hub = None if checkout_of(root, settings.home) else settings_of(root)
    if hub is None:
        raise ScopeRefused(f"{scope} has no hub", hint=f"`memsheaf hub add URL -s {scope}` gives it one.")
    return hub


def _history(root: str) -> AbstractContextManager[Folder]:
    """Open the folder of a scope's journal, with its lock held."""
    return FolderStore(root).locked("lock")


def _this_machine(folder: str) -> tuple[str, str]:
    """Return the id of this machine, made when it has none, and its name. Raises StoreFailed."""
    state = State(folder)
    id = state.read(MACHINE_FILE)
    if not id:
        id = os.urandom(8).hex().encode()
        state.write(MACHINE_FILE, id)
    return id.decode("ascii", "replace").strip(), socket.gethostname()[:64]
