"""Sync a memory between several machines, through a hub.

A hub is a git repository of your own (nothing to install but git) or a PostgreSQL database; `memsheaf team` makes one
for several people. Each machine keeps its folder, so reading works offline and at local speed. When two machines
changed the same memory, both texts are kept and reported. -s says which memory is meant.
"""

from collections.abc import Iterator, Sequence
from typing import Annotated

from memsheaf.cli.call import Call, Result, here, pick, plural
from memsheaf.cli.output import Note, Part, Table
from memsheaf.cli.parser import Usage
from memsheaf.errors import MemsheafError
from memsheaf.hub import scopes as hub_scopes
from memsheaf.hub.merge import LOST, NOT_TAKEN
from memsheaf.hub.replica_state import Synced
from memsheaf.hub.scopes import HubStatus
from memsheaf.scope import Scope
from memsheaf.transfer import synchronize

Offline = Annotated[str, ("refuse", "queue")]


def add(call: Call, url: str = "", *, offline: Offline = "", name: str = "") -> Result:
    """Connect a memory to a hub, or to the new address of its hub: copies, pushes and pulls all.

    The same line joins it on another machine. Without a URL it sets what happens to changes while the hub does not
    answer.

    arguments:
      URL: a git remote, such as git@HOST:me/memory.git, or postgresql://…
      --offline WHAT: what happens to changes while the hub does not answer
      --name NAME: the name of the project on the hub, instead of that of its folder

    examples:
      memsheaf hub add git@example.com:me/memory.git -s user
      memsheaf hub add -s user --offline refuse
    """
    scope = _named_scope(call)
    settings = call.settings()
    if not url:
        if not offline:
            raise Usage("give the URL of the hub, or --offline alone")
        queues = hub_scopes.configure(scope, settings, here(), offline=offline).queues
        said = f"{scope}: while its hub does not answer, changes are {'queued here' if queues else 'refused'}"
        return Result({"scope": str(scope), "offline": offline}, said)
    with call.console.waiting(f"joining {scope}"):
        synced = hub_scopes.attach(scope, url, settings, here(), name=name, offline=offline)
    with hub_scopes.open_shared(scope, settings, here()) as sheaf:
        count, hub = len(sheaf.list()), sheaf.own.replica.settings if sheaf.own.replica else None
    shown = hub.shown if hub else ""
    value = {"scope": str(scope), "hub": shown, "memories": count, **sync_value(synced)}
    told = list(tell_sync(str(scope), synced))
    if is_refused(synced):
        refusal = f"{shown} refuses changes of {scope}: they stay on this machine, and are not shared"
        away = Note(f"  `memsheaf hub remove -s {scope}` disconnects it; the memories stay", "yellow")
        return Result(value, refusal, told, away, code=1)
    which = f" as {hub.namespace.rpartition('/')[2]}" if hub and scope.layer == "project" else ""
    return Result(value, f"{scope} is shared through {shown}{which}: {plural(count, 'memory', 'memories')}", told)


def sync(call: Call, *, again: bool = False) -> Result:
    """Push pending changes and pull those of other machines, of all memories that have a hub or of one.

    With --again both sides are merged as at the first time, after the hub was restored from a backup. Changes that
    the hub refuses, as from a reader of a team, are replaced by the texts of the hub; yours stay in `memsheaf log`.
    Memories that the hub never had stay.

    arguments:
      --again: merge both sides again, of the memory that -s names

    examples:
      memsheaf hub sync
      memsheaf hub sync --again -s user
    """
    if again:
        _named_scope(call)
    values: list[dict[str, object]] = []
    parts: list[Part] = []
    has_failed = False
    for scope in _scopes(call):
        try:
            opened = hub_scopes.open_shared(scope, call.settings(), here())
            with call.console.waiting(f"syncing {scope}"), opened as sheaf:
                synced = synchronize(sheaf.own, again=again)
                machine = sheaf.own.replica.settings.machine if sheaf.own.replica else ""
        except MemsheafError as error:
            error.hint = error.hint.replace(" SCOPE", f" {scope}")
            if call.named:
                raise
            values.append({"scope": str(scope), "problem": str(error), "hint": error.hint})
            parts += [Note(f"{scope}: {error}", "red"), Note(f"  {error.hint}")]
            has_failed = True
            continue
        synced = synced._replace(pulled=tuple(one for one in synced.pulled if one.machine != machine))
        values.append({"scope": str(scope), **sync_value(synced)})
        has_failed |= is_refused(synced)
        said = f"{scope}: pulled {plural(len(synced.pulled), 'change')}, pushed {len(synced.pushed)}"
        parts += [said, *tell_sync(str(scope), synced)]
    return Result({"scopes": values}, parts, code=1 if has_failed else 0)


def status(call: Call) -> Result:
    """Show for each memory with a hub the last pull, pending changes, members and machines.

    examples:
      memsheaf hub status
      memsheaf hub status -s user --json
    """
    with call.console.waiting("asking the hubs"):
        found = [hub_scopes.status(scope, call.settings(), here()) for scope in _scopes(call)]
    return Result({"scopes": [_status_value(one) for one in found]}, [part for one in found for part in _status(one)])


def remove(call: Call) -> Result:
    """Disconnect a memory from its hub. The memories stay on both sides.

    examples:
      memsheaf hub remove -s user
    """
    scope = _named_scope(call)
    shown = hub_scopes.detach(scope, call.settings(), here()).shown
    said = f"{scope} is no longer shared through {shown}; the memories stay"
    return Result({"scope": str(scope), "hub": shown}, said)


def _named_scope(call: Call) -> Scope:
    """Return the one scope that -s names. Raises Usage without one."""
    if len(call.named) != 1:
        raise Usage("say which memory with -s: user, project, agent/NAME or team/NAME")
    return Scope.parse(call.named[0])


def _scopes(call: Call) -> Sequence[Scope]:
    if call.named:
        return [Scope.parse(scope) for scope in call.named]
    found = hub_scopes.shared_scopes(call.settings(), here())
    if not found:
        call.console.note("No memory here has a hub; `memsheaf hub add URL -s user` gives yours one.")
    return found


def is_refused(synced: Synced) -> bool:
    """Return True if the hub does not take a change that it was sent."""
    return bool(synced.refused) or any(why.startswith(NOT_TAKEN) for why in synced.held.values())


def sync_value(synced: Synced) -> dict[str, object]:
    """Return a sync as JSON."""
    counts = {"pulled": len(synced.pulled), "pushed": len(synced.pushed), "kept_both": synced.conflicts}
    return counts | pick(synced, ("pending", "erased", "held", "left", "refused"))


def tell_sync(scope: str, synced: Synced) -> Iterator[Part]:
    """What a person should know of a sync."""
    if synced.is_copy:
        yield Note("  this folder was copied from another machine: to the hub it is a machine of its own", "yellow")
    for conflict in synced.conflicts:
        if conflict.copy:
            yield Note(f"  both changed {conflict.path}: the hub's text is there, yours is {conflict.copy}", "yellow")
        else:
            yield Note(
                f"  {conflict.path} was changed on the hub after you removed it here: it was restored", "yellow"
            )
    for path in synced.erased:
        yield Note(f"  {path} was erased for all: here, too", "yellow")
    if synced.refused:
        yield Note(f"  {synced.refused}", "red")
    for path, why in synced.held.items():
        todo = f"; it stays here, and `memsheaf hub sync -s {scope}` tries again"
        if why == LOST:
            todo = ""
        elif not why.startswith(NOT_TAKEN):
            todo = f"; take the secret out, then `memsheaf hub sync -s {scope}`"
        yield Note(f"  {path} is not pushed: {why}{todo}", "yellow")
    for path, why in synced.left.items():
        yield Note(f"  {path} could not be placed here: {why}", "yellow")
    if synced.pending:
        waits = plural(synced.pending, "change")
        yield Note(f"  not pushed yet: {waits}; `memsheaf hub sync -s {scope}` tries again", "yellow")
    if synced.pending and synced.lacks_permission:
        way_out = f"  `memsheaf hub sync --again -s {scope}` puts the hub's texts back where you changed them"
        stay = "yours stay in `memsheaf log`, and memories that the hub never had stay"
        yield Note(f"{way_out}; {stay}", "yellow")


def _status_value(one: HubStatus) -> dict[str, object]:
    state = one.state
    return {
        **pick(one, ("scope", "problem", "notice", "members", "machines")),
        **pick(one.hub, ("namespace", "machine")),
        **pick(state, ("member", "pulled_at", "held", "left", "refused")),
        "hub": one.hub.shown,
        "offline": "queue" if one.hub.queues else "refuse",
        "pending": len(state.pending) - len(state.held),
        "kept_both": state.told,
        "open_erasures": {name: [machine.id for machine in left] for name, left in one.open_erasures.items()},
        "untold_erasures": len(state.erasing),
    }


def _status(one: HubStatus) -> Iterator[Part]:
    state = one.state
    role = "".join(f", {member.role}" for member in one.members if member.name == state.member)
    yield f"{one.scope}: {one.hub.shown}" + (f" as {state.member}{role}" if state.member else "")
    does = "queued" if one.hub.queues else "refused"
    yield f"  last change pulled {state.pulled_at or 'never'}; offline changes are {does}"
    for said, style in ((one.problem, "red"), (one.notice, "yellow")):
        if said:
            yield Note(f"  {said}", style)
    waits = len(state.pending) - len(state.held)
    why = state.refused
    yield from tell_sync(one.scope, Synced((), (), waits, (), state.held, state.left, (), False, why, bool(why)))
    for conflict in state.told[-5:]:
        if conflict.copy:
            yield f"  kept both on {conflict.at[:10]}: {conflict.path} is the hub's, {conflict.copy} was here"
    if state.erasing:
        yield Note(f"  not sent to the hub yet: {plural(len(state.erasing), 'erasure')}", "yellow")
    for name, left in one.open_erasures.items():
        about = ", ".join(path for erased in state.erased if erased.id == name for path in erased.names)
        yield from (f"  {about or 'a memory'} was erased for all; not yet on {machine.shown}" for machine in left)
    marks = ["this machine" if m.id == one.hub.machine else "not waited for" * m.is_lost for m in one.machines]
    rows = [(f"  {m.name}", m.member, m.last_seen, mark) for m, mark in zip(one.machines, marks, strict=True)]
    if rows:
        yield Table(rows)
