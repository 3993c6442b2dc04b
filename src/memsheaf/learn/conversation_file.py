"""The files of kept conversations: what is written of a message, and what is taken out again when a memory is erased.

`conversation-<id>.jsonl` in the state directory has a line for each message, for facts about the conversation, and
for what it was made shorter to:

    {"role": "user", "text": "…", "calls": [], "answers": "", "tool": "", "at": "2026-11-15T22:41:03.512Z"}
    {"role": "tool", …, "tool": "memory_write", "touched": [["saved", "user", "user:user_tabs.md"]], "at": "…"}
    {"facts": {"model": "…"}, "at": "…"}
    {"compacted": [{"role": "user", "text": "…", …}, …], "at": "…"}

Secrets are taken out before a line is written, what memory put beside a message is left out, and so is a turn that
the user wants off the record. `history` beside them has the lines that were typed, for a prompt to offer them again.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress

from memsheaf.errors import PathRefused, StoreFailed
from memsheaf.guard.secrets import without_secrets
from memsheaf.index.catalog import target
from memsheaf.learn.forgetting import keeping
from memsheaf.llm.talker import Call, Said, Touched
from memsheaf.store import version_of
from memsheaf.store.safe_dir import READ, Folder
from memsheaf.store.state import State
from memsheaf.values import NamedTuple

PREFIX, SUFFIX = "conversation-", ".jsonl"
HISTORY, STAMP = "history", "erased"
ERASED = "(erased)"
UNRECORDED = "(off the record)"
LONGEST = 1_000_000  # characters of a message, or of a call's arguments
PATIENCE = 10.0  # seconds for the lock; it is held while lines are written

_MINE = (PREFIX, f"draft-{PREFIX}", f"draft-{HISTORY}-")
_ROLES = ("user", "assistant", "tool")
_END = 4_096  # bytes, longer than what stands behind the text of most lines
# where a line ends, and nowhere else: inside a text the quotes would be escaped
_AT = re.compile(rb'"at": "([0-9TZ:.-]{20,30})"\}')
_LONE = re.compile(r"[^\W_]+\.\w+")  # a file name of one word is in many projects


class ConversationLine(NamedTuple):
    """One line of a conversation's file: a message, facts, or what stands for all that was said before."""

    at: str
    said: Said | None = None
    facts: Mapping[str, object] | None = None
    compacted: tuple[Said, ...] | None = None


def locked(state: State) -> AbstractContextManager[None]:
    """Be the only one who writes to conversations here. Raises Busy, StoreFailed."""
    return state.lock("conversations", wait=PATIENCE)


def recordable(said: Said, *, silent: bool = False) -> Said:
    """A message as it may be written: without secrets, and without a word of it when the turn is off the record."""
    if silent:
        calls = tuple(call._replace(arguments="{}") for call in said.calls)
        return said._replace(text=UNRECORDED, calls=calls, beside="", touched=())
    calls = tuple(call._replace(arguments=_arguments(call.arguments)) for call in said.calls)
    return said._replace(text=_text(said.text), calls=calls, beside="")


def masked(value: object) -> object:
    """Facts without the secrets in them."""
    if isinstance(value, str):
        return without_secrets(value)
    if isinstance(value, Mapping):
        return {str(key): masked(one) for key, one in value.items()}
    return [masked(one) for one in value] if isinstance(value, list | tuple) else value


def encoded(line: ConversationLine) -> bytes:
    """A line as it stands in the file. The time comes last, so that the end of a file tells it."""
    told: dict[str, object]
    if line.said is not None:
        told = record(line.said)
    elif line.compacted is not None:
        told = {"compacted": [record(one) for one in line.compacted]}
    else:
        told = {"facts": line.facts}
    whole = json.dumps({**told, "at": line.at}, ensure_ascii=False)
    return whole.encode("utf-8", "surrogatepass") + b"\n"


def decoded(data: bytes) -> ConversationLine | None:
    """The line in some bytes of a file; None when they are not one, because a crash or somebody else cut into it."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict):
        return None
    at, facts, compacted = found.get("at"), found.get("facts"), found.get("compacted")
    at = at if isinstance(at, str) else ""
    if isinstance(facts, dict):
        return ConversationLine(at, facts=facts)
    if isinstance(compacted, list):
        return ConversationLine(at, compacted=tuple(said for one in compacted if (said := _said(one))))
    said = _said(found)
    return ConversationLine(at, said) if said else None


def read(state: State, name: str) -> Iterator[ConversationLine]:
    """The lines of a file that can be understood, oldest first, however long it is."""
    return (line for data in _lines(state, name) if (line := decoded(data)))


def last_at(state: State, name: str) -> str:
    """When the last line of a file was written, "" when it does not say; most of the file is not read."""
    data = b""
    with suppress(OSError, PathRefused), Folder.open(state.folder) as folder:
        fd = folder.open_file(name, READ)
        try:
            os.lseek(fd, max(0, os.fstat(fd).st_size - _END), os.SEEK_SET)
            data = os.read(fd, _END)
        finally:
            os.close(fd)
    if found := _AT.findall(data):
        return bytes(found[-1]).decode()
    return max((line.at for line in read(state, name)), default="")


def add(state: State, name: str, lines: Sequence[ConversationLine]) -> None:
    """Add lines to a file, durably, all or none. Raises StoreFailed, Busy."""
    place = os.path.join(state.folder, name)
    data = b"".join(map(encoded, lines))
    with locked(state):
        size = _size(place)
        try:
            state.add(name, data if _is_whole(place) else b"\n" + data)  # a line that was cut short ends here
        except StoreFailed:
            if 0 <= size < _size(place):
                with suppress(OSError):
                    os.truncate(place, size)
            raise


def _is_whole(place: str) -> bool:
    """Whether a file ends with a whole line, or is not there."""
    try:
        with open(place, "rb") as file:
            file.seek(-1, os.SEEK_END)
            return file.read(1) == b"\n"
    except OSError:  # there is none, or nothing in it
        return True


def forget(state: State, texts: Sequence[bytes], names: Sequence[str] = ()) -> None:
    """Take out of conversations and typed lines what erased memories said in any of their texts.

    The `names` of their files go, too. As little as possible goes: a line of a message, the whole message when it is
    not in a line. Raises StoreFailed, Busy.
    """
    mine = [name for name in state.names(drafts=True) if name == HISTORY or name.startswith(_MINE)]
    if not mine:
        return
    eraser = _Eraser(texts, names)
    with locked(state):
        state.write(STAMP, os.urandom(8))  # who has a conversation open sees that something is gone
        for name in mine:
            if name.startswith("draft-"):  # a crash left it
                state.remove(name)
            elif name == HISTORY:
                known = typed(state)
                if (kept := [line for line in known if eraser.text(line) == line]) != known:
                    state.write(HISTORY, as_lines(kept))
            else:
                _rewrite(state, name, eraser)


class _Eraser:
    """Takes what erased memories said out of a text."""

    def __init__(self, texts: Sequence[bytes], names: Sequence[str]) -> None:
        self._keep = keeping(texts)
        self._versions = {version_of(text) for text in texts}
        links = {f"]({target(name)})" for name in names}
        alone = {name for name in names if not _LONE.fullmatch(name)}
        spelt = [*map(re.escape, sorted(links)), *(rf"(?<![\w.-]){re.escape(name)}(?!\w)" for name in sorted(alone))]
        self._named = re.compile("|".join(spelt) or "(?!)")

    def text(self, text: str) -> str:
        """A text without what says the same, line by line, and without all of it when it is in no line."""
        if not self._named.search(text) and self._keep(text):
            return text
        lines = text.split("\n")
        kept = [self._named.sub(_in_its_place, line) if self._may_stay(line) else ERASED for line in lines]
        cut = "\n".join(kept)
        return cut if self._keep(cut) else ERASED

    def line(self, line: ConversationLine) -> ConversationLine:
        """A line of a conversation without it."""
        if line.said is not None:
            return line._replace(said=self._said(line.said))
        if line.compacted is not None:
            return line._replace(compacted=tuple(map(self._said, line.compacted)))
        facts = {key: self._value(value) for key, value in (line.facts or {}).items()}
        return line._replace(facts=facts)

    def _may_stay(self, line: str) -> bool:
        return self._keep(line) and self._keep(self._named.sub("", line))

    def _said(self, said: Said) -> Said:
        calls = tuple(call._replace(arguments=self._call(call.arguments)) for call in said.calls)
        touched = tuple(one for one in said.touched if not self._named.search(one.path))
        return said._replace(text=self.text(said.text), calls=calls, touched=touched)

    def _call(self, arguments: str) -> str:
        """The arguments of a call, value by value, so that they stay what a tool can read."""
        try:
            value = json.loads(arguments)
        except (ValueError, RecursionError):
            return self.text(arguments)
        clean = self._value(value)
        if not self._keep("\n".join(_strings(clean))):
            clean = _wiped(clean)
        return arguments if clean == value else json.dumps(clean, ensure_ascii=False)

    def _value(self, value: object) -> object:
        if isinstance(value, str):
            return ERASED if value in self._versions else self.text(value)
        if isinstance(value, dict):
            return {self.text(key): self._value(one) for key, one in value.items()}
        return [self._value(one) for one in value] if isinstance(value, list) else value


def _rewrite(state: State, name: str, eraser: _Eraser) -> None:
    """Write a conversation again, if something in it has to go. What is no line goes with it."""
    kept, is_same = [], True
    for data in _lines(state, name):
        line = decoded(data)
        if line is None:
            is_same &= not data.strip()
            continue
        clean = eraser.line(line)
        kept.append(data if clean == line else encoded(clean))
        is_same &= clean == line
    if not is_same:
        state.write(name, b"".join(kept))


def _lines(state: State, name: str) -> Iterator[bytes]:
    """The bytes of a file, line by line; nothing when it cannot be read."""
    with suppress(OSError, PathRefused):
        with Folder.open(state.folder) as folder:
            fd = folder.open_file(name, READ)
        with open(fd, "rb") as file:
            yield from file


def record(said: Said) -> dict[str, object]:
    """A message as JSON has it."""
    calls = [call._asdict() for call in said.calls]
    told: dict[str, object] = {"role": said.role, "text": said.text, "calls": calls, "answers": said.answers}
    touched = {"touched": [list(one) for one in said.touched]} if said.touched else {}
    return {**told, "tool": said.tool, **touched}


def _said(value: object) -> Said | None:
    """The message in some JSON; None when it is none."""
    if not isinstance(value, dict) or value.get("role") not in _ROLES or not isinstance(value.get("text"), str):
        return None
    found = value.get("calls")
    calls = tuple(call for one in found if (call := _call(one))) if isinstance(found, list) else ()
    answers, tool = (one if isinstance(one := value.get(key), str) else "" for key in ("answers", "tool"))
    return Said(value["role"], value["text"], calls, answers, tool, touched=_touched(value.get("touched")))


def _touched(value: object) -> tuple[Touched, ...]:
    """What a tool did, out of some JSON; what cannot be understood is left out."""
    found = [one for one in value if isinstance(one, list)] if isinstance(value, list) else []
    sound = [one for one in found if len(one) == len(Touched._fields) and all(isinstance(part, str) for part in one)]
    return tuple(Touched(*one) for one in sound)


def _call(value: object) -> Call | None:
    parts = [value.get(field) for field in Call._fields] if isinstance(value, dict) else []
    texts = [part for part in parts if isinstance(part, str)]
    return Call(*texts) if len(texts) == len(Call._fields) else None


def _text(text: str) -> str:
    """A text without secrets, and not longer than it may be."""
    clean = without_secrets(text[: 2 * LONGEST])
    if len(text) <= LONGEST:
        return clean
    return f"{clean[:LONGEST]}\n({len(text) - LONGEST:,} characters more were not kept)"


def _arguments(text: str) -> str:
    """The arguments of a call without secrets; what was JSON still is."""
    if len(text) > LONGEST:
        return json.dumps({"not kept": "it was too long"})
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return without_secrets(text)
    # each text by itself, as it is read: in JSON, a line break before a secret looks like a letter of it
    clean = masked(value)
    whole = text if clean == value else json.dumps(clean, ensure_ascii=False)
    if without_secrets(whole) != whole:  # its name gave it away, as in {"password": "…"}
        found = without_secrets(whole)
        return found if _is_json(found) else json.dumps({"not kept": "it held a secret"})
    return whole


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _strings(one)


def _wiped(value: object) -> object:
    if isinstance(value, dict):
        return {key: _wiped(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_wiped(one) for one in value]
    return ERASED if isinstance(value, str) else value


def _in_its_place(found: re.Match[str]) -> str:
    return f"]{ERASED}" if found[0].startswith("](") else ERASED


def typed(state: State) -> list[str]:
    """The lines that were typed, oldest first."""
    return [line for line in state.lines(HISTORY) if isinstance(line, str)]


def as_lines(texts: Sequence[str]) -> bytes:
    """Typed lines as they stand in their file."""
    return b"".join(json.dumps(text, ensure_ascii=False).encode("utf-8", "surrogatepass") + b"\n" for text in texts)


def _size(place: str) -> int:
    """How long a plain file is, 0 when it is not there; -1 for what is no plain file."""
    import stat

    try:
        found = os.lstat(place)
    except OSError:
        return 0
    return found.st_size if stat.S_ISREG(found.st_mode) else -1
