"""Edits of single memories: remember, change, replace, forget and restore one, as a commit each."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from memsheaf.editing import checked, merged, placed, redated
from memsheaf.errors import BadHeader, Changed, CreateOnly, Exists, NotFound
from memsheaf.guard.paths import check_path, is_fact
from memsheaf.memory import Allow, Memory, check, parse
from memsheaf.store import ABSENT, Change, Commit, Version
from memsheaf.writer import Writer


def store_fresh(
    writer: Writer, fresh: Memory, *, path: str, replace: bool, expect: Version | None, allow: Allow
) -> Memory:
    """Store a new memory at a path, or where its name belongs; with `replace`, in the place of what is there.

    Raises:
        Exists: there is one already, and `replace` was not given.
        BadHeader: what it would replace cannot be understood.
    """
    kind, name = fresh.kind, fresh.name
    writer.index.ready()

    def store() -> Memory:
        found = writer.find(path) if path else writer.same_name(kind, name)
        if found is None and not path:
            return writer.store_new(fresh, kind, name, expect or ABSENT, allow=allow)
        if found is None:
            new = placed(fresh, check_path(path))
            return writer.store_one(new, expect or ABSENT, f"remember {name}", allow=allow)
        if not replace:
            raise Exists(found.path)
        writer.refuse_other_spelling(path or found.path, found)
        if found.state not in ("ok", "free"):
            raise BadHeader(found.path, found.problem)
        if expect is not None and expect != found.version:
            raise Changed(found.path)
        new = check(found.path, merged(found, fresh) if found.state == "ok" else fresh.text)
        return writer.store_one(new, found.version, f"replace {name}", was=found, allow=allow)

    return writer.again(store, expect)


def edit(
    writer: Writer,
    path: str,
    change: Callable[[Memory, str], str],
    *,
    why: str,
    expect: Version | None,
    allow: Allow,
) -> Memory:
    """Store the text that `change` makes of a memory and the day; again when somebody was faster."""

    def store() -> Memory:
        memory, today = writer.for_change(path, expect), writer.today()
        changed = redated(memory, change(memory, today), today)
        return writer.store_one(changed, memory.version, why, was=memory, allow=allow)

    return writer.again(store, expect)


def put(writer: Writer, path: str, text: str, *, expect: Version, free: bool, why: str, allow: Allow) -> Memory:
    """Store a whole file, as `Sheaf.put` says."""
    found = writer.find(path)
    if found is not None:
        if expect == ABSENT:
            raise Exists(found.path)
        writer.refuse_other_spelling(path, found)
        _refuse_unreadable(writer, found)
    memory = checked(found.path if found else check_path(path), text, found, free=free)
    return writer.store_one(memory, expect, why or ("edit" if found else "add"), was=found, allow=allow)


def forget(writer: Writer, path: str, *, why: str, expect: Version | None) -> Commit:
    """Remove a memory, as `Sheaf.forget` says."""
    found = writer.find(path)
    if found is None:
        raise NotFound(path)
    _refuse_unreadable(writer, found)
    if is_fact(found.path) and writer.by != "user":
        raise CreateOnly(found.path)
    if expect and expect != found.version:
        raise Changed(found.path)
    writer.require_writable()
    bury(writer, [found])  # first: what is there still is not learned twice
    change = Change(found.path, None, found.version)
    return writer.commit([change], why or f"forget {found.name}", was={found.path: found})


def bury(writer: Writer, memories: Sequence[Memory]) -> None:
    """Note that memories are about to be removed: they are not learned again from a conversation."""
    writer.index.ready()  # what is new to the journal is taken in first: that lifts the tombstone of such a text
    writer.index.notice(one.path for one in memories)
    writer.bury_removed(memories)


def restore(writer: Writer, path: str, version: Version) -> Commit:
    """Bring a memory back to an older version, whatever it is now. Raises VersionGone."""
    path = writer.spelled(path)
    data = writer.store.version(path, version)
    found = writer.find(path)
    if found is None and is_fact(path):
        writer.refuse_superseded(parse(path, data), writer.facts())
    change = Change(path, data, found.version if found else ABSENT)
    was_here = Allow(secrets=True, anyway=True)
    return writer.commit([change], f"restore {version[:12]}", allow=was_here, rewriting=True)


def _refuse_unreadable(writer: Writer, found: Memory) -> None:
    """Raise BadHeader when a machine would rewrite or remove a file that cannot be understood."""
    if found.state in ("bad", "held") and writer.by != "user":
        raise BadHeader(found.path, found.problem)
