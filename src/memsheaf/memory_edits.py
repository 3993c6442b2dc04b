"""Edits of memories: remember, change, replace, forget, restore and undo, as a commit each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date

from memsheaf.errors import BadHeader, Changed, CreateOnly, Exists, NotFound
from memsheaf.frontmatter import edited
from memsheaf.guard.paths import CATALOG, check_path, file_name, is_fact
from memsheaf.memory import STRICT, Allow, Memory, check, clean_field, compose, parse
from memsheaf.store import ABSENT, Change, Commit, Version
from memsheaf.store.commit_queries import find_version, trail
from memsheaf.store.tombstones import DOUBTED
from memsheaf.text.requests import without_request
from memsheaf.text_edits import (
    checked,
    dated,
    inserted,
    merged,
    placed,
    redated,
    refuse_secrets,
    revised,
    vouched,
    with_description,
)
from memsheaf.timeouts import retry
from memsheaf.writer import Writer


def remember(
    writer: Writer,
    name: str,
    description: str = "",
    kind: str = "",
    content: str | None = None,
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
) -> Memory:
    """Save one fact: `remember("I prefer pnpm")`, or `remember(name, description, kind, content)`.

    Without `content`, the first argument is the fact, and what is left out is derived from it. With `replace`, an
    existing memory of that path or name takes the new text. Days such as "tomorrow" get their date beside them.

    Raises:
        Exists: there is one already, and `replace` was not given.
        TextRefused, PathRefused: it may not be stored; the message says why.
        SecretFound: it holds a secret, and `allow` does not say that it may.
        Duplicate, NotWorth: it is there already, or for the moment only; `allow` stores it all the same.
        Changed: `expect` is not the version that is there.
    """
    today = writer.today()
    if content is None:
        name, description, kind, content = draft_fields(name, description, kind, today)
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
            return _store_new(writer, fresh, expect or ABSENT, allow)
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

    return _retry(writer, store, expect)


def draft_fields(text: str, description: str, kind: str, today: str) -> tuple[str, str, str, str]:
    """Return name, description, type and text of a fact as somebody says it; what is given stays.

    A request to remember in front of the fact is left out, as the command line does it.
    """
    from memsheaf.learn.sentences import draft_fact

    drafted = draft_fact(without_request(text), date.fromisoformat(today), kind)
    return drafted.name, description or drafted.description, drafted.kind, drafted.content


def _store_new(writer: Writer, fresh: Memory, expect: Version, allow: Allow) -> Memory:
    """Store a memory under a file name that is free; the index knows which are, the store has the last word.

    Raises Changed when somebody has just made that file, or one that bears this very name.
    """

    def taken(path: str) -> bool:
        others = writer.index.same_file(path)
        for other in others:
            found = writer.find(other)
            if found and (found.name, found.kind) == (fresh.name, fresh.kind):
                raise Changed(other)  # since the name was asked for
        return bool(others)

    memory = placed(fresh, file_name(fresh.kind, fresh.name, taken))
    return writer.store_one(memory, expect, f"remember {fresh.name}", alone=True, allow=allow)


def _retry(writer: Writer, work: Callable[[], Memory], expect: Version | None) -> Memory:
    """Run a read-modify-write; retry when the file changed meanwhile, unless a version was expected."""
    if expect is not None:
        return work()
    busy = f"the memories of {writer.scope} change faster than they can be read"
    return retry(work, busy=busy, meanwhile=lambda: writer.index.look(thorough=True))


def _for_change(writer: Writer, path: str, expect: Version | None) -> Memory:
    """One memory that is to be changed. Raises NotFound, BadHeader, Changed."""
    writer.require_writable()
    memory = writer.read(path)
    if memory.state not in ("ok", "free"):
        raise BadHeader(memory.path, memory.problem)
    if expect is not None and expect != memory.version:
        raise Changed(memory.path)
    return memory


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
        NotFound, NoMatch, BadHeader, Changed, TextRefused, SecretFound, NotWorth.
    """

    def change(memory: Memory, today: str) -> str:
        return revised(memory, old, dated(new, today, piece=True), count=count)

    return _edit(writer, path, change, "update", expect, allow)


def insert(
    writer: Writer, path: str, line: int, text: str, *, expect: Version | None = None, allow: Allow = STRICT
) -> Memory:
    """Insert text after a line of the body; 0 puts it first.

    Raises:
        NotFound, BadHeader, Changed, TextRefused, SecretFound, NotWorth.
    """

    def change(memory: Memory, today: str) -> str:
        return inserted(memory, line, dated(text, today, piece=True))

    return _edit(writer, path, change, "insert", expect, allow)


def _edit(
    writer: Writer, path: str, change: Callable[[Memory, str], str], why: str, expect: Version | None, allow: Allow
) -> Memory:
    """Store the text that `change` makes of a memory and the day; again when another writer was faster."""

    def store() -> Memory:
        memory, today = _for_change(writer, path, expect), writer.today()
        if is_fact(memory.path):  # before it is looked for a piece that may not be there
            raise CreateOnly(memory.path)
        changed = redated(memory, change(memory, today), today)
        return writer.store_one(changed, memory.version, why, was=memory, allow=allow)

    return _retry(writer, store, expect)


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


def rename(
    writer: Writer,
    path: str,
    name: str,
    *,
    text: str = "",
    file: str = "",
    expect: Version | None = None,
    allow: Allow = STRICT,
) -> Memory:
    """Give a memory another name, and its file the name that follows from it, or `file`. Links follow.

    With `text`, that takes the place of its whole text by the same commit.

    Its history goes on: `log`, `diff` and `restore` know it under its older names.

    Raises:
        NotFound, BadHeader, Changed, TextRefused, SecretFound, PathRefused, Exists.
        CreateOnly: it is a fact, whose name stays.
    """

    def store() -> Memory:
        was = _with_header(writer, path, expect)
        if is_fact(was.path):
            raise CreateOnly(was.path)
        title = clean_field("name", name)
        folder = was.path[: was.path.rfind("/") + 1]

        def taken(one: str) -> bool:
            return bool(set(writer.index.same_file(folder + one)) - {was.path})

        writer.index.ready()
        target = check_path(file) if file else folder + file_name(was.kind, title, taken)
        if others := set(writer.index.same_file(target)) - {was.path}:
            raise Exists(others.pop())
        named = edited(text or was.text, fields={"name": title, "updated": writer.today()})
        new = placed(checked(was.path, named, was, free=False), target)
        sure = Allow(allow.secrets, anyway=True)
        return writer.store_one(new, was.version, f"rename {was.name} to {title}", was=was, allow=sure)

    return _retry(writer, store, expect)


def pin(writer: Writer, path: str, on: bool = True, *, expect: Version | None = None) -> Memory:
    """Keep a memory in the catalog however many there are, or no longer. Raises NotFound, BadHeader, Changed."""
    pin_many(writer, [(path, expect or "")], on)
    return writer.read(path)


def pin_many(
    writer: Writer, wanted: Iterable[tuple[str, Version]], on: bool = True, *, also: str = ""
) -> Commit | None:
    """As `pin`, for several as one commit, all or none; None without changes. `also` is added to the reason."""
    found = [_with_header(writer, path, version or None) for path, version in wanted]
    changing = [one for one in found if one.pinned != on]
    verb = "pin" if on else "unpin"
    return _set_fields(writer, changing, {"pinned": "true" if on else None}, verb, writer.by, also)


def confirm(writer: Writer, path: str) -> Memory:
    """Mark a memory as confirmed: a person has read it, whoever wrote it. Raises NotFound, BadHeader."""
    confirm_many(writer, [(path, "")])
    return writer.read(path)


def confirm_many(writer: Writer, wanted: Iterable[tuple[str, Version]], *, also: str = "") -> Commit | None:
    """As `confirm`, for several as one commit, all or none; None when nothing was to be written. Raises Changed."""
    found = [_for_change(writer, path, version or None) for path, version in wanted]
    if shared := [(one.path, one.version) for one in found if one.shared]:
        if writer.ledger:
            writer.ledger.add(shared, "user")
        found = [one._replace(shared=False) for one in found]
    doubted = [one for one in found if one.trust != "confirmed" or one.changed_by]
    return _set_fields(writer, doubted, {"trust": "confirmed", "changed_by": None}, "confirm", "user", also)


def _set_fields(
    writer: Writer, memories: Sequence[Memory], fields: Mapping[str, str | None], verb: str, by: str, also: str
) -> Commit | None:
    """Set fields in the headers of memories, as one commit; their dates stay."""
    writer.require_writable()
    changes = []
    for memory in memories:
        changed = checked(memory.path, edited(memory.text, fields=fields), memory, free=False)
        sure = changed if by == "user" else vouched(changed, memory, by)
        changes.append(Change(memory.path, sure.data, memory.version))
    if not changes:
        return None
    said = memories[0].name if len(memories) == 1 else f"{len(memories)} memories"
    return writer.commit(changes, f"{verb} {said}{also}", by=by, was={one.path: one for one in memories})


def _with_header(writer: Writer, path: str, expect: Version | None) -> Memory:
    """A memory that is to be changed in its header. Raises NotFound, BadHeader, Changed."""
    memory = _for_change(writer, path, expect)
    if memory.state != "ok":
        raise BadHeader(memory.path, "there is none")
    return memory


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
    """Remove memories as one commit, all or none, each at this version ("" for any). Raises as `forget`."""
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
    writer.require_person()
    memories = list(found.values())
    bury(writer, memories)  # first: what is there still is not learned twice
    changes = [Change(one.path, None, one.version) for one in memories]
    why = why or (f"forget {memories[0].name}" if len(memories) == 1 else f"forget {len(memories)} memories")
    return writer.commit(changes, why, was=found)


def bury(writer: Writer, memories: Sequence[Memory]) -> None:
    """Note that memories are about to be removed: they are not learned again from a conversation."""
    writer.index.ready()  # what is new to the journal is taken in first: that lifts the tombstone of such a text
    writer.index.notice(one.path for one in memories)
    for is_sure, why in ((True, "forgotten"), (False, DOUBTED)):  # what was unconfirmed comes back no better
        if gone := [(one.path, one.data) for one in memories if (one.trust == "confirmed") == is_sure]:
            writer.store.bury(gone, why)


def undo(writer: Writer, commit: str = "") -> Commit:
    """Undo a commit: the one named, or the last of ours that is not undone. Undo an undo by its id.

    What a person did outside, and events of a task, are taken back only when they are named.

    Raises:
        NoSuchCommit, Changed, VersionGone.
    """
    writer.require_writable()
    writer.require_person()
    writer.index.look(thorough=True)
    store = writer.store
    target = store.find(commit) if commit else store.last_standing(except_by="outside", events=False)
    writer.refuse_twins(step.path for step in target.revisions if step.before != ABSENT)
    for step in target.revisions:
        _refuse_secrets_for_hub(writer, step.path, step.old)
    return writer.follow(lambda: store.undo(target.id, by=writer.by), [CATALOG])


def restore(writer: Writer, path: str, version: Version) -> Commit:
    """Bring a memory back to an older version, whatever it is now.

    Raises:
        VersionGone: the journal no longer holds it.
    """
    path = writer.spelled(path)
    data = find_version(trail(writer.store, path), path, version)
    found = writer.find(path)
    if found is None and is_fact(path):
        writer.fact_rules.refuse_superseded(parse(path, data), writer.fact_rules.present())
    _refuse_secrets_for_hub(writer, path, data)
    change = Change(path, data, found.version if found else ABSENT)
    was_here = Allow(secrets=True, anyway=True)
    return writer.commit([change], f"restore {version[:12]}", allow=was_here, rewriting=True)


def _refuse_secrets_for_hub(writer: Writer, path: str, data: bytes | None) -> None:
    """Raise SecretFound when an older text with a secret would go to a hub: it may never have been there."""
    if data and hasattr(writer.store, "hub"):
        refuse_secrets(parse(path, data), writer.find(path))


def _refuse_unreadable(writer: Writer, found: Memory) -> None:
    """Raise BadHeader when a machine would rewrite or remove a file that cannot be understood."""
    if found.state in ("bad", "held") and writer.by != "user":
        raise BadHeader(found.path, found.problem)
