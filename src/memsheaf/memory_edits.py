"""Edits of memories: remember, change, replace, forget, restore and undo, as a commit each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from memsheaf.errors import BadHeader, Changed, CreateOnly, Exists, NotFound
from memsheaf.guard.paths import CATALOG, check_path, is_fact
from memsheaf.memory import STRICT, Allow, Memory, check, compose, parse
from memsheaf.store import ABSENT, Change, Commit, Version
from memsheaf.text_edits import checked, dated, fitted, inserted, merged, placed, redated, revised, with_description
from memsheaf.writer import Writer


def remember(
    writer: Writer,
    name: str,
    description: str,
    kind: str,
    content: str,
    *,
    path: str = "",
    replace: bool = False,
    expect: Version | None = None,
    trust: str = "",
    conversation: str = "",
    citations: Sequence[str] = (),
    pinned: bool = False,
    expires: str = "",
    supersedes: Sequence[str] = (),
    reason: str = "",
    allow: Allow = STRICT,
    rename: bool = False,
) -> Memory:
    """Save one fact. With `replace`, an existing memory of that path or name takes the new text.

    With `rename` its file gets another name where it has its old one from its old title.

    Days such as "tomorrow" get their date beside them.

    Raises:
        Exists: there is one already, and `replace` was not given.
        TextRefused, PathRefused: it may not be stored; the message says why.
        SecretFound: it holds a secret, and `allow` does not say that it may.
        Duplicate, NotWorth: it is there already, or for the moment only; `allow` stores it all the same.
        Changed: `expect` is not the version that is there.
    """
    today = writer.today()
    fresh = compose(
        name=name,
        description=dated(description, today),
        kind=kind,
        body=dated(content, today),
        created=today,
        updated=today,
        source=writer.by,
        trust=trust,
        conversation=conversation,
        citations=citations,
        pinned=pinned,
        expires=expires,
        supersedes=supersedes,
        reason=reason,
    )
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
        new = fitted(new, found, lambda one: bool(writer.index.same_file(one))) if rename else new
        return writer.store_one(new, found.version, f"replace {name}", was=found, allow=allow)

    return writer.again(store, expect)


def revise(
    writer: Writer,
    path: str,
    old: str,
    new: str,
    *,
    count: int = 1,
    expect: Version | None = None,
    allow: Allow = STRICT,
) -> Memory:
    """Replace a piece of text that occurs exactly `count` times; without `expect`, also when others are faster.

    Raises:
        NotFound, NoMatch, ManyMatches, BadHeader, Changed, TextRefused, SecretFound, NotWorth.
    """

    def change(memory: Memory, today: str) -> str:
        return revised(memory, old, dated(new, today, piece=True), count=count)

    return _edit(writer, path, change, "update", expect, allow)


def insert(
    writer: Writer, path: str, line: int, text: str, *, expect: Version | None = None, allow: Allow = STRICT
) -> Memory:
    """Insert text after a line of the body; 0 puts it first.

    Raises:
        NotFound, OutOfRange, BadHeader, Changed, TextRefused, SecretFound, NotWorth.
    """

    def change(memory: Memory, today: str) -> str:
        return inserted(memory, line, dated(text, today, piece=True))

    return _edit(writer, path, change, "insert", expect, allow)


def _edit(
    writer: Writer,
    path: str,
    change: Callable[[Memory, str], str],
    why: str,
    expect: Version | None,
    allow: Allow,
) -> Memory:
    """Store the text that `change` makes of a memory and the day; again when another writer was faster."""

    def store() -> Memory:
        memory, today = writer.for_change(path, expect), writer.today()
        changed = redated(memory, change(memory, today), today)
        return writer.store_one(changed, memory.version, why, was=memory, allow=allow)

    return writer.again(store, expect)


def put(
    writer: Writer,
    path: str,
    text: str,
    *,
    expect: Version = ABSENT,
    free: bool = False,
    why: str = "",
    allow: Allow = STRICT,
) -> Memory:
    """Store a whole file: a memory with its header, or with `free` any text, such as CONTEXT.md.

    Raises:
        Exists, Changed, TextRefused, SecretFound, Duplicate, NotWorth, PathRefused.
        BadHeader: it cannot be understood, and only a person (`by="user"`) may replace it.
    """
    found = writer.find(path)
    if found is not None:
        if expect == ABSENT:
            raise Exists(found.path)
        writer.refuse_other_spelling(path, found)
        _refuse_unreadable(writer, found)
    memory = with_description(found, checked(found.path if found else check_path(path), text, found, free=free))
    return writer.store_one(memory, expect, why or ("edit" if found else "add"), was=found, allow=allow)


def forget(writer: Writer, path: str, *, why: str = "", expect: Version | None = None) -> Commit:
    """Remove a memory. The journal keeps it until retention ends: `undo` brings it back.

    What was forgotten is not learned again from a conversation.

    Raises:
        NotFound, Changed.
        BadHeader: it cannot be understood, and only a person (`by="user"`) may remove it.
        CreateOnly: it is a fact, which another one supersedes.
    """
    return forget_many(writer, [(path, expect or "")], why=why)


def forget_many(writer: Writer, wanted: Iterable[tuple[str, Version]], *, why: str = "") -> Commit:
    """Remove memories as one commit, all or none: each by its path, at this version or with "" at any.

    Raises what `forget` does.
    """
    found: dict[str, Memory] = {}
    for path, version in wanted:
        memory = writer.find(path)
        if memory is None:
            raise NotFound(path)
        _refuse_unreadable(writer, memory)
        if is_fact(memory.path) and writer.by != "user":
            raise CreateOnly(memory.path)
        if version and version != memory.version:
            raise Changed(memory.path)
        found[memory.path] = memory
    writer.require_writable()
    memories = list(found.values())
    bury(writer, memories)  # first: what is there still is not learned twice
    changes = [Change(one.path, None, one.version) for one in memories]
    why = why or (f"forget {memories[0].name}" if len(memories) == 1 else f"forget {len(memories)} memories")
    return writer.commit(changes, why, was=found)


def bury(writer: Writer, memories: Sequence[Memory]) -> None:
    """Note that memories are about to be removed: they are not learned again from a conversation."""
    writer.index.ready()  # what is new to the journal is taken in first: that lifts the tombstone of such a text
    writer.index.notice(one.path for one in memories)
    writer.bury_removed(memories)


def undo(writer: Writer, commit: str = "") -> Commit:
    """Take back a commit: the one named, or the last of ours that stands. Undo an undo by its id.

    What a person did outside, and events of a task, are taken back only when they are named.

    Raises:
        NoSuchCommit, Changed, VersionGone.
    """
    writer.require_writable()
    writer.index.look(thorough=True)
    store = writer.store
    target = store.find(commit) if commit else store.last_standing(except_by="outside", events=False)
    writer.refuse_twins(step.path for step in target.revisions if step.before != ABSENT)
    return writer.follow(lambda: store.undo(target.id, by=writer.by), [CATALOG])


def restore(writer: Writer, path: str, version: Version) -> Commit:
    """Bring a memory back to an older version, whatever it is now.

    Raises:
        VersionGone: the journal no longer holds it.
    """
    path = writer.spelled(path)
    data = writer.store.version(path, version)
    found = writer.find(path)
    if found is None and is_fact(path):
        writer.fact_rules.refuse_superseded(parse(path, data), writer.fact_rules.present())
    change = Change(path, data, found.version if found else ABSENT)
    was_here = Allow(secrets=True, anyway=True)
    return writer.commit([change], f"restore {version[:12]}", allow=was_here, rewriting=True)


def _refuse_unreadable(writer: Writer, found: Memory) -> None:
    """Raise BadHeader when a machine would rewrite or remove a file that cannot be understood."""
    if found.state in ("bad", "held") and writer.by != "user":
        raise BadHeader(found.path, found.problem)
