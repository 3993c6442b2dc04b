"""Conversation files: what is stored of a message, and what is taken out when a memory is erased.

`conversation-<id>.jsonl` in the state directory has a line for each message, for facts about the conversation, and
for what it was compacted to:

    {"role": "user", "text": "…", "calls": [], "answers": "", "tool": "", "at": "2026-11-15T22:41:03.512Z"}
    {"role": "tool", …, "tool": "memory_write", "touched": [["saved", "user", "user:user_tabs.md"]], "at": "…"}
    {"facts": {"model": "…"}, "at": "…"}
    {"compacted": [{"role": "user", "text": "…", …}, …], "at": "…"}

Secrets are taken out before a line is written; what memory put beside a message and turns off the record are left
out. `history` beside them has the lines that were typed, for a prompt to offer them again.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from typing import NamedTuple

from memsheaf.errors import PathRefused, StoreFailed
from memsheaf.guard.secrets import without_secrets
from memsheaf.index.catalog import target
from memsheaf.learn.erasure_filter import make_erasure_filter
from memsheaf.llm.model import Said, ToolCall, Touched
from memsheaf.recall.ignore import is_silent
from memsheaf.scope import parse_json, parse_object
from memsheaf.store import version_of
from memsheaf.store.safe_dir import READ, Folder
from memsheaf.store.state import State

PREFIX, SUFFIX = "conversation-", ".jsonl"
HISTORY, STAMP = "history", "erased"
ERASED = "(erased)"
UNRECORDED = "(off the record)"
UNRECORDED_REACH = {"rest": "(off the record in this conversation)", "next": "(the next message is off the record)"}
"""What stands for a message of the user by how far its wish reaches. `follow_privacy` reads the same in it."""
LONGEST = 1_000_000  # characters of a message, or of a call's arguments
LOCK_SECONDS = 10.0

_FILES = (PREFIX, f"draft-{PREFIX}", f"draft-{HISTORY}-")
_ROLES = ("user", "assistant", "tool")
_TAIL = 4_096  # bytes, longer than what stands behind the text of most lines
# where a line ends, and nowhere else: inside a text the quotes would be escaped
_AT = rb'"at": "([0-9TZ:.-]{20,30})"\}'
_COMMON_NAME = r"[^\W_]+\.\w+"  # a file name of one word is in many projects


class ConversationLine(NamedTuple):
    """One line of a conversation's file: a message, facts, or a summary of all before it."""

    at: str
    said: Said | None = None
    facts: Mapping[str, object] | None = None
    compacted: tuple[Said, ...] | None = None


def lock_conversations(state: State) -> AbstractContextManager[None]:
    """The lock of those who write to conversations here. Raises Busy, StoreFailed."""
    return state.lock("conversations", wait=LOCK_SECONDS)


def clean_message(said: Said, *, privacy: str = "") -> Said:
    """A message as it may be written: without secrets, and without any text when the turn is off the record."""
    if is_silent(privacy):
        calls = tuple(call._replace(arguments="{}") for call in said.calls)
        text = UNRECORDED_REACH.get(privacy, UNRECORDED) if said.role == "user" else UNRECORDED
        return said._replace(text=text, calls=calls, beside="", touched=())
    text = without_secrets(said.text[: 2 * LONGEST])
    if len(said.text) > LONGEST:
        text = f"{text[:LONGEST]}\n({len(said.text) - LONGEST:,} characters more were not kept)"
    calls = tuple(call._replace(arguments=_clean_arguments(call.arguments)) for call in said.calls)
    return said._replace(text=text, calls=calls, beside="")


def mask_secrets(value: object) -> object:
    """A JSON value without the secrets in it."""
    if isinstance(value, str):
        return without_secrets(value)
    if isinstance(value, Mapping):
        return {str(key): mask_secrets(one) for key, one in value.items()}
    return [mask_secrets(one) for one in value] if isinstance(value, list | tuple) else value


def _clean_arguments(text: str) -> str:
    """The arguments of a call without secrets; what was JSON still is."""
    if len(text) > LONGEST:
        return json.dumps({"not kept": "it was too long"})
    value = parse_json(text)
    if value is None:
        return without_secrets(text)
    # each text by itself, as it is read: in JSON, a line break before a secret looks like a letter of it
    clean = mask_secrets(value)
    whole = text if clean == value else json.dumps(clean, ensure_ascii=False)
    found = without_secrets(whole)
    if found == whole or parse_json(found) is not None:
        return found
    return json.dumps({"not kept": "it held a secret"})  # its name gave it away, as in {"password": "…"}


def append_lines(state: State, name: str, lines: Sequence[ConversationLine]) -> None:
    """Add lines to a file, durably, all or none. Raises StoreFailed, Busy."""
    place = os.path.join(state.folder, name)
    data = b"".join(map(encode_line, lines))
    with lock_conversations(state):
        size = _size(place)
        try:
            state.add(name, data if _ends_with_line(place) else b"\n" + data)  # a line that was cut short ends here
        except StoreFailed:
            if 0 <= size < _size(place):
                with suppress(OSError):
                    os.truncate(place, size)
            raise


def _ends_with_line(place: str) -> bool:
    """Whether a file ends with a whole line, or is not there."""
    try:
        with open(place, "rb") as file:
            file.seek(-1, os.SEEK_END)
            return file.read(1) == b"\n"
    except OSError:  # there is none, or nothing in it
        return True


def _size(place: str) -> int:
    """The size of a plain file, 0 when it is not there; -1 for what is no plain file."""
    try:
        found = os.lstat(place)
    except OSError:
        return 0
    return found.st_size if stat.S_ISREG(found.st_mode) else -1


def encode_line(line: ConversationLine) -> bytes:
    """A line as it stands in the file. The time comes last, so that the end of a file tells it."""
    fields: dict[str, object]
    if line.said is not None:
        fields = message_record(line.said)
    elif line.compacted is not None:
        fields = {"compacted": [message_record(one) for one in line.compacted]}
    else:
        fields = {"facts": line.facts}
    return json.dumps({**fields, "at": line.at}, ensure_ascii=False).encode("utf-8", "surrogatepass") + b"\n"


def message_record(said: Said) -> dict[str, object]:
    """A message as JSON has it."""
    touched = {"touched": [list(one) for one in said.touched]} if said.touched else {}
    calls = [call._asdict() for call in said.calls]
    return {
        "role": said.role, "text": said.text, "calls": calls, "answers": said.answers, "tool": said.tool, **touched
    }  # fmt: skip


def read_lines(state: State, name: str) -> Iterator[ConversationLine]:
    """The lines of a file that can be understood, oldest first, however long it is."""
    return (line for data in _lines(state, name) if (line := decode_line(data)))


def read_last_time(state: State, name: str) -> str:
    """When the last line of a file was written, "" when it does not say; most of the file is not read."""
    data = b""
    with (
        suppress(OSError, PathRefused),
        Folder.open(state.folder) as folder,
        open(folder.open_file(name, READ), "rb") as file,
    ):
        file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL))
        data = file.read(_TAIL)
    if found := re.findall(_AT, data):
        return bytes(found[-1]).decode()
    return max((line.at for line in read_lines(state, name)), default="")


def read_history(state: State) -> list[str]:
    """The lines that were typed, oldest first."""
    return [line for line in state.lines(HISTORY) if isinstance(line, str)]


def encode_history(texts: Sequence[str]) -> bytes:
    """Typed lines as they stand in their file."""
    return b"".join(json.dumps(text, ensure_ascii=False).encode("utf-8", "surrogatepass") + b"\n" for text in texts)


def _lines(state: State, name: str) -> Iterator[bytes]:
    """The bytes of a file, line by line; nothing when it cannot be read."""
    with suppress(OSError, PathRefused):
        with Folder.open(state.folder) as folder:
            fd = folder.open_file(name, READ)
        with open(fd, "rb") as file:
            yield from file


def decode_line(data: bytes) -> ConversationLine | None:
    """The line in some bytes of a file; None when it is damaged."""
    found = parse_object(data)
    if found is None:
        return None
    at = _text_of(found, "at")
    match found:
        case {"facts": dict(facts)}:
            return ConversationLine(at, facts=facts)
        case {"compacted": list(compacted)}:
            return ConversationLine(at, compacted=tuple(said for one in compacted if (said := _read_message(one))))
    said = _read_message(found)
    return ConversationLine(at, said) if said else None


def _read_message(value: object) -> Said | None:
    """The message in a JSON value; None when it is none. What cannot be understood of it is left out."""
    if not isinstance(value, dict) or value.get("role") not in _ROLES or not isinstance(value.get("text"), str):
        return None
    calls, touched = value.get("calls"), value.get("touched")
    given = [list(map(one.get, ToolCall._fields)) for one in _list(calls) if isinstance(one, dict)]
    return Said(
        value["role"],
        value["text"],
        tuple(ToolCall(*map(str, one)) for one in given if all(isinstance(part, str) for part in one)),
        _text_of(value, "answers"),
        _text_of(value, "tool"),
        touched=tuple(
            Touched(*one)
            for one in _list(touched)
            if isinstance(one, list)
            and len(one) == len(Touched._fields)
            and all(isinstance(part, str) for part in one)
        ),
    )


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _text_of(value: dict[str, object], key: str) -> str:
    return found if isinstance(found := value.get(key), str) else ""


def forget(state: State, texts: Sequence[bytes], names: Sequence[str] = ()) -> None:
    """Take out of conversations and typed lines what erased memories said in any of their texts.

    The `names` of their files go, too. As little as possible goes: a line of a message, the whole message when it is
    not in a line. Raises StoreFailed, Busy.
    """
    files = [name for name in state.names(drafts=True) if name == HISTORY or name.startswith(_FILES)]
    if not files:
        return
    eraser = _Eraser(texts, names)
    with lock_conversations(state):
        state.write(STAMP, os.urandom(8))  # who has a conversation open sees that something is gone
        for name in files:
            if name.startswith("draft-"):  # a crash left it
                state.remove(name)
            elif name == HISTORY:
                known = read_history(state)
                if (kept := [line for line in known if eraser.text(line) == line]) != known:
                    state.write(HISTORY, encode_history(kept))
            else:
                _rewrite(state, name, eraser)


def _rewrite(state: State, name: str, eraser: _Eraser) -> None:
    """Write a conversation again, if something in it has to go. What is no line goes with it."""
    kept, is_same = [], True
    for data in _lines(state, name):
        line = decode_line(data)
        if line is None:
            is_same &= not data.strip()
            continue
        clean = eraser.line(line)
        kept.append(data if clean == line else encode_line(clean))
        is_same &= clean == line
    if not is_same:
        state.write(name, b"".join(kept))


class _Eraser:
    """Takes what erased memories said out of a text."""

    def __init__(self, texts: Sequence[bytes], names: Sequence[str]) -> None:
        self._keep = make_erasure_filter(texts)
        self._versions = {version_of(text) for text in texts}
        links = [re.escape(f"]({target(name)})") for name in names]
        alone = [rf"(?<![\w.-]){re.escape(name)}(?!\w)" for name in names if not re.fullmatch(_COMMON_NAME, name)]
        self._named = re.compile("|".join(sorted({*links, *alone})) or "(?!)")

    def line(self, line: ConversationLine) -> ConversationLine:
        """A line of a conversation without it."""
        if line.said is not None:
            return line._replace(said=self._message(line.said))
        if line.compacted is not None:
            return line._replace(compacted=tuple(map(self._message, line.compacted)))
        return line._replace(facts={key: self._value(value) for key, value in (line.facts or {}).items()})

    def text(self, text: str) -> str:
        """A text without what says the same, line by line, and without all of it when it is in no line."""
        if not self._named.search(text) and self._keep(text):
            return text
        cut = []
        for line in text.split("\n"):
            may_stay = self._keep(line) and self._keep(self._named.sub("", line))
            named = self._named.sub(lambda found: "]" * found[0].startswith("](") + ERASED, line)
            cut.append(named if may_stay else ERASED)
        return "\n".join(cut) if self._keep("\n".join(cut)) else ERASED

    def _message(self, said: Said) -> Said:
        calls = tuple(call._replace(arguments=self._arguments(call.arguments)) for call in said.calls)
        touched = tuple(one for one in said.touched if not self._named.search(one.path))
        return said._replace(text=self.text(said.text), calls=calls, touched=touched)

    def _arguments(self, arguments: str) -> str:
        """The arguments of a call, value by value, so that they stay what a tool can read."""
        value = parse_json(arguments)
        if value is None:
            return self.text(arguments)
        clean = self._value(value)
        if not self._keep("\n".join(_strings(clean))):
            clean = _wipe(clean)
        return arguments if clean == value else json.dumps(clean, ensure_ascii=False)

    def _value(self, value: object) -> object:
        if isinstance(value, str):
            return ERASED if value in self._versions else self.text(value)
        if isinstance(value, dict):
            return {self.text(key): self._value(one) for key, one in value.items()}
        return [self._value(one) for one in value] if isinstance(value, list) else value


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _strings(one)


def _wipe(value: object) -> object:
    if isinstance(value, dict):
        return {key: _wipe(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_wipe(one) for one in value]
    return ERASED if isinstance(value, str) else value
