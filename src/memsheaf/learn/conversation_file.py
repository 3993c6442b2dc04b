"""The files that `memsheaf chat` writes: conversations, and the history of what was typed.

A conversation is `conversation-<id>.jsonl` in the state directory, with a line for each message, for facts about the
conversation, and for what it was compacted to:

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
from typing import Any, BinaryIO, NamedTuple

from memsheaf.errors import PathRefused, StoreFailed
from memsheaf.guard.secrets import without_secrets
from memsheaf.index.catalog import target
from memsheaf.learn.erasure_filter import make_erasure_filter
from memsheaf.learn.transcripts import get_list, get_text
from memsheaf.llm.model import Said, ToolCall, Touched
from memsheaf.scope import parse_object
from memsheaf.state import State
from memsheaf.store import version_of
from memsheaf.store.safe_dir import READ, Folder
from memsheaf.text.requests import is_silent

FILE_PREFIX, FILE_SUFFIX = "conversation-", ".jsonl"
HISTORY_FILE, STAMP_FILE = "history", "erased"
ERASED_TEXT = "(erased)"
UNRECORDED_TEXT = "(off the record)"
UNRECORDED_REACH = {"rest": "(off the record in this conversation)", "next": "(the next message is off the record)"}
"""The text in place of a user's message, by how far its wish reaches. `follow_privacy` reads the same in it."""
MAX_MESSAGE_CHARS = 1_000_000  # of a message, or of a call's arguments
LOCK_SECONDS = 10.0

_FILE_PREFIXES = (FILE_PREFIX, f"draft-{FILE_PREFIX}", f"draft-{HISTORY_FILE}-")
# where a line ends, and nowhere else: inside a text the quotes would be escaped
_TIME_AT_END = rb'"at": "([0-9TZ:.-]{20,30})"\}'
_COMMON_NAME = r"[^\W_]+\.\w+"  # a file name of one word is in many projects


class ConversationLine(NamedTuple):
    """One line of a conversation's file: a message, facts, or a summary of all before it."""

    at: str
    said: Said | None = None
    facts: Mapping[str, object] | None = None
    compacted: tuple[Said, ...] | None = None


def lock_conversations(state: State) -> AbstractContextManager[None]:
    """Return the lock of those who write to conversations here. Raises Busy, StoreFailed."""
    return state.lock("conversations", wait=LOCK_SECONDS)


def clean_message(said: Said, *, privacy: str = "") -> Said:
    """Return a message as it may be written: without secrets, and without any text if it is off the record."""
    if is_silent(privacy):
        calls = tuple(call._replace(arguments="{}") for call in said.calls)
        text = UNRECORDED_REACH.get(privacy, UNRECORDED_TEXT) if said.role == "user" else UNRECORDED_TEXT
        return said._replace(text=text, calls=calls, beside="", touched=())
    text = without_secrets(said.text[: 2 * MAX_MESSAGE_CHARS])
    if len(said.text) > MAX_MESSAGE_CHARS:
        text = f"{text[:MAX_MESSAGE_CHARS]}\n({len(said.text) - MAX_MESSAGE_CHARS:,} characters more were not kept)"
    kept = list(said.calls)
    for place, call in enumerate(kept):
        is_long = len(call.arguments) > MAX_MESSAGE_CHARS
        if is_long or any(without_secrets(text) != text for text in _find_texts(call.arguments)):
            kept[place] = call._replace(arguments='{"not kept": "it was too long, or held a secret"}')
    return said._replace(text=text, calls=tuple(kept), beside="")


def append_lines(state: State, name: str, lines: Sequence[ConversationLine]) -> None:
    """Add lines to a file, durably, all or none. Raises StoreFailed, Busy."""
    path = os.path.join(state.folder, name)
    with lock_conversations(state):
        size = _size(path)
        separator = b"\n" if size else b""  # behind a line that was cut short begins a new one
        try:
            state.add(name, separator + b"".join(map(encode_line, lines)))
        except StoreFailed:
            if 0 <= size < _size(path):
                with suppress(OSError):
                    os.truncate(path, size)
            raise


def _size(path: str) -> int:
    """Return the size of a plain file, 0 if it is not there; -1 for what is no plain file."""
    try:
        status = os.lstat(path)
    except OSError:
        return 0
    return status.st_size if stat.S_ISREG(status.st_mode) else -1


def encode_line(line: ConversationLine) -> bytes:
    """Return a line as it stands in the file. The time comes last, so that the end of a file tells it."""
    fields: dict[str, object] = {"facts": line.facts}
    if line.said is not None:
        fields = message_record(line.said)
    elif line.compacted is not None:
        fields = {"compacted": list(map(message_record, line.compacted))}
    return _encode({**fields, "at": line.at})


def _encode(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass") + b"\n"


def message_record(said: Said) -> dict[str, object]:
    """Return a message as JSON has it."""
    record = {**said._asdict(), "calls": [call._asdict() for call in said.calls], "touched": said.touched}
    del record["beside"]
    if not said.touched:
        del record["touched"]
    return record


def read_lines(state: State, name: str) -> Iterator[ConversationLine]:
    """Yield the lines of a file that can be understood, oldest first, however long it is."""
    return filter(None, map(decode_line, _read_raw_lines(state, name)))


def read_last_time(state: State, name: str) -> str:
    """Return when the last line of a file was written, "" if no line says it. No line is decoded for that."""
    with suppress(OSError, PathRefused), _open(state, name) as file:
        if times := re.findall(_TIME_AT_END, file.read()):
            return bytes(times[-1]).decode()
    return ""


def read_history(state: State) -> list[str]:
    """Return the lines that were typed, oldest first."""
    return [line for line in state.lines(HISTORY_FILE) if isinstance(line, str)]


def encode_history(texts: Sequence[str]) -> bytes:
    """Return typed lines as they stand in their file."""
    return b"".join(map(_encode, texts))


def _read_raw_lines(state: State, name: str) -> Iterator[bytes]:
    with suppress(OSError, PathRefused), _open(state, name) as file:
        yield from file


def _open(state: State, name: str) -> BinaryIO:
    with Folder.open(state.folder) as folder:
        return open(folder.open_file(name, READ), "rb")


def decode_line(data: bytes) -> ConversationLine | None:
    """Return the line in some bytes of a file; None if it is damaged."""
    record = parse_object(data) or {}
    at = get_text(record, "at")
    match record:
        case {"facts": dict(facts)}:
            return ConversationLine(at, facts=facts)
        case {"compacted": list(records)}:
            return ConversationLine(at, compacted=tuple(filter(None, map(_decode_message, records))))
    said = _decode_message(record)
    return ConversationLine(at, said) if said else None


def _decode_message(record: Any) -> Said | None:
    """Return the message in a JSON value; None if it is none. What cannot be understood of it is left out."""
    match record:
        case {"role": "user" | "assistant" | "tool" as role, "text": str(text)}:
            calls, touched = [], []
            for call in get_list(record, "calls"):
                match call:
                    case {"id": str(id), "tool": str(name), "arguments": str(arguments)}:
                        calls.append(ToolCall(id, name, arguments))
            for change in get_list(record, "touched"):
                match change:
                    case [str(action), str(scope), str(path)]:
                        touched.append(Touched(action, scope, path))
            answers = get_text(record, "answers")
            tool = get_text(record, "tool")
            return Said(role, text, tuple(calls), answers, tool, touched=tuple(touched))
    return None


def forget(state: State, texts: Sequence[bytes], names: Sequence[str] = ()) -> None:
    """Take out of conversations and typed lines what erased memories said in any of their texts.

    The `names` of their files go, too. A message that says it goes as a whole, with the arguments of its calls.
    Raises StoreFailed, Busy.
    """
    files = [name for name in state.names(drafts=True) if name == HISTORY_FILE or name.startswith(_FILE_PREFIXES)]
    if not files:
        return
    eraser = _Eraser(texts, names)
    with lock_conversations(state):
        state.write(STAMP_FILE, os.urandom(8))  # who has a conversation open sees that something is gone
        for name in files:
            if name.startswith("draft-"):  # a crash left it
                state.remove(name)
            elif name == HISTORY_FILE:
                state.write(HISTORY_FILE, encode_history(list(filter(eraser.may_stay, read_history(state)))))
            else:
                before = list(_read_raw_lines(state, name))
                after = b"".join(map(eraser.clean_line, before))
                if after != b"".join(data for data in before if data.strip()):
                    state.write(name, after)


class _Eraser:
    """Takes what erased memories said out of a text."""

    def __init__(self, texts: Sequence[bytes], names: Sequence[str]) -> None:
        self._keep = make_erasure_filter(texts)
        self._versions = {version_of(text) for text in texts}
        patterns = {re.escape(f"]({target(name)})") for name in names}
        for name in names:
            if not re.fullmatch(_COMMON_NAME, name):
                patterns.add(rf"(?<![\w.-]){re.escape(name)}(?!\w)")
        self._names = re.compile("|".join(sorted(patterns)) or "(?!)")

    def may_stay(self, text: str) -> bool:
        """Return True if a text neither says what was erased nor names it."""
        return text not in self._versions and not self._names.search(text) and self._keep(text)

    def clean_line(self, data: bytes) -> bytes:
        """Return a line of a conversation without it; nothing of what is no line."""
        line = decode_line(data)
        if line is None:
            return b""
        clean = line
        if line.said is not None:
            clean = line._replace(said=self._clean_message(line.said))
        elif line.compacted is not None:
            clean = line._replace(compacted=tuple(map(self._clean_message, line.compacted)))
        elif line.facts is not None:
            clean = line._replace(facts={name: fact for name, fact in line.facts.items() if self._says_nothing(fact)})
        return data if clean == line else encode_line(clean)

    def _clean_message(self, said: Said) -> Said:
        if self._says_nothing([said.text, *(call.arguments for call in said.calls), said.touched]):
            return said
        calls = tuple(call._replace(arguments="{}") for call in said.calls)
        return said._replace(text=ERASED_TEXT, calls=calls, touched=())

    def _says_nothing(self, value: object) -> bool:
        """Return True if no text in a JSON value says what was erased, nor all of them together."""
        texts = list(_find_texts(value))
        return all(map(self.may_stay, texts)) and self._keep("\n".join(texts))


def _find_texts(value: object) -> Iterator[str]:
    """Yield the texts in a JSON value, and in a text that is JSON itself."""
    if isinstance(value, str):
        yield value
        # in JSON, a line break before a secret looks like a letter of it
        value = parse_object(value)
    if isinstance(value, Mapping):
        yield from _find_texts([*value, *value.values()])
    elif isinstance(value, list):
        for item in value:
            yield from _find_texts(item)
