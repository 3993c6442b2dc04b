"""Text edits: replace, insert, merge; and the checks of a changed text, secrets refused among them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import date

from memsheaf.errors import NoMatch, TextRefused
from memsheaf.frontmatter import edit_text
from memsheaf.memory import KINDS, Memory, check, is_blank, is_conflict_copy, parse, refuse_large
from memsheaf.store import Change
from memsheaf.text.sentences import is_made_from, make_description, make_name


def revised(memory: Memory, old: str, new: str, *, count: int) -> str:
    """Return the text with a piece replaced that occurs exactly `count` times.

    It is looked for below the header, and in the whole text if it does not occur there: name and description often
    repeat the fact, and follow it.

    Raises:
        TextRefused: the piece is empty.
        NoMatch: it does not occur so often.
    """
    if not old:
        raise TextRefused("the text to replace is empty; give the exact text that is to change")
    if "\r\n" in memory.text and "\r" not in old and old not in memory.text:  # nobody types half of a line end
        old, new = old.replace("\n", "\r\n"), new.replace("\n", "\r\n")
    start = len(memory.page.head) if old in memory.page.body else 0
    lines = _places(memory.text, old, start)
    if not lines or len(lines) != count:
        raise NoMatch(memory.ref, lines)
    return memory.text[:start] + memory.text[start:].replace(old, new)


def inserted(memory: Memory, line: int, text: str) -> str:
    """Return the text with more put in after a line of the body; 0 is its start. Raises TextRefused."""
    lines = re.findall(r"[^\n]*\n|[^\n]+", memory.body)
    if not 0 <= line <= len(lines):
        raise TextRefused(f"Line {line} is beyond end of file ({len(lines)} lines)")
    end = "\r\n" if "\r\n" in memory.text else "\n"
    added = text.removesuffix("\n")
    if end == "\r\n":
        added = added.removesuffix("\r").replace("\r\n", "\n").replace("\n", end)
    if line and line == len(lines) and not lines[-1].endswith("\n"):  # a file that ends without a line end still does
        lines.append(end + added)
    else:
        lines.insert(line, added + end)
    return memory.page.head + "".join(lines)


def merged(found: Memory, fresh: Memory) -> str:
    """The text of `found` with the fields and the body of `fresh`.

    When it was made, whether it is pinned, and unknown keys stay; the evidence for the old fact does not.
    """
    values: dict[str, str | Sequence[str] | None] = dict.fromkeys(_OF_THE_FACT)
    for field in fresh.page.fields:
        if field.key != "created":
            listed = isinstance(field.value, tuple)
            values[field.key] = fresh.page.items(field.key) if listed else fresh.page.get(field.key)
    return edit_text(found.text, fields=values, body=fresh.body)


_OF_THE_FACT = ("citations", "conversation", "expires", "reason", "supersedes")


def placed(fresh: Memory, path: str) -> Memory:
    """A new memory at its path. Raises TextRefused when the name is that of a conflict copy."""
    return check(path, fresh.text) if is_conflict_copy(path) else Memory(path, *fresh[1:])


def relinked(change: Change, others: Iterable[Memory]) -> Iterator[Change]:
    """The memories that name a file which moves, with its new name."""
    old, new = (path.removesuffix(".md") for path in (change.moves, change.path))
    for one in others:
        text = one.text.replace(f"{old}.md", f"{new}.md").replace(f"[[{old}]]", f"[[{new}]]")
        if text != one.text and one.path not in (change.moves, "CONTEXT.md"):  # that a person edits
            yield Change(one.path, text.encode(), one.version)


def redated(was: Memory, text: str, today: str) -> Memory:
    """The memory a changed text makes, with today's date in its header. Raises TextRefused."""
    changed = with_description(was, checked(was.path, text, was, free=was.state == "free"))
    if changed.state == "free" or changed.updated == today:
        return changed
    return checked(was.path, edit_text(changed.text, fields={"updated": today}), was, free=False)


def with_description(was: Memory | None, changed: Memory) -> Memory:
    """Return the changed memory with a name and a description that follow its text, unless somebody wrote them."""
    if was is None or not was.state == changed.state == "ok" or was.body == changed.body:
        return changed
    fields: dict[str, str | Sequence[str] | None] = {}
    if was.description == changed.description and is_made_from(was.body, was.description):
        fields["description"] = make_description(changed.body)
    if was.name == changed.name == make_name(was.body):
        fields["name"] = make_name(changed.body)
    return checked(was.path, edit_text(changed.text, fields=fields), was, free=False) if fields else changed


def vouched(memory: Memory, was: Memory | None, by: str) -> Memory:
    """The memory with the source, the trust and the last author that its channel gives it.

    What a given header says does not count: only a person lifts a doubt, and nobody writes as somebody else. To
    doubt is free to all.

    Raises:
        TextRefused: an unconfirmed memory would become a file without a header.
    """
    if memory.state != "ok":
        if by != "user" and was is not None and was.trust == "unconfirmed":
            raise TextRefused(f"{memory.path!r} is unconfirmed: a person has to confirm or forget it first")
        return memory
    if was is not None and memory.data == was.data:
        return memory
    given = memory.page.get
    trust, source = given("trust"), given("source")
    if by != "user":
        if memory.trust != "unconfirmed":
            trust = was.page.get("trust") if was else ""
        if source != by and (source or was is not None):
            source = was.source if was else by
    is_own = was is None or source == by or (by == "user" and not source)
    changed = "" if is_own else by
    wanted = {"trust": trust or None, "source": source or None, "changed_by": changed or None}
    if all((value or "") == given(key) for key, value in wanted.items()):
        return memory
    text = edit_text(memory.text, fields=wanted)
    return memory if text == memory.text else _checked(memory.path, text, was or memory)


def dated(text: str, today: str, *, piece: bool = False) -> str:
    """The text with the date beside days such as "tomorrow"; a piece of one only where it cannot be code.

    Raises:
        TextRefused: it is too large to be stored, so nothing else is done with it.
    """
    refuse_large(text)
    if piece and re.search(r"[`=(){}\[\];<>]", text):
        return text

    from memsheaf.text.dates import absolute

    return absolute(text, date.fromisoformat(today))


def checked(path: str, text: str, was: Memory | None, *, free: bool) -> Memory:
    """The memory that a text makes, or with `free` a file without a header; a type it had already may stay.

    Raises:
        TextRefused: it may not be stored.
    """
    refuse_large(text, path)
    try:
        memory = parse(path, text.encode())
    except UnicodeEncodeError:
        raise TextRefused(f"{path!r} would hold half of a surrogate pair") from None
    if memory.state == "copy":
        raise TextRefused(f"{path!r} is the name of a conflict copy")
    refuse_large(memory.data, path)
    if not free or memory.state != "free":
        return _checked(path, text, was, memory) if was else check(path, text, parsed=memory)
    if "\0" in text or is_blank(text):
        raise TextRefused(f"{path!r} would hold no text, or zero bytes")
    return memory


def _checked(path: str, text: str, was: Memory, parsed: Memory | None = None) -> Memory:
    """The memory that an edit makes: what a file that others wrote lacked already, it may go on lacking."""
    required = [key for key in ("name", "description") if was.page.get(key).strip()]
    return check(path, text, kinds=(*KINDS, was.type), required=required, parsed=parsed)


def checked_import(path: str, data: bytes, found: Memory | None) -> Memory:
    """The memory a file makes; one without a header comes in as a free file. Raises TextRefused."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise TextRefused(f"{path!r} is not UTF-8") from None
    return checked(path, text, found, free=True)


def _places(text: str, piece: str, start: int) -> list[int]:
    """Return the lines at which a piece of text begins, from a place on."""
    lines, line, done, at = [], 1, 0, text.find(piece, start)
    while at >= 0:
        line, done = line + text.count("\n", done, at), at
        lines.append(line)
        at = text.find(piece, at + len(piece))
    return lines
