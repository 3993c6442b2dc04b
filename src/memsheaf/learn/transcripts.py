"""Transcripts of conversations: those of hosts are read, and those of `memsheaf chat` are written and read.

A host's transcript becomes turns to learn from. Four formats are recognized: the JSON lines of Claude Code and of
Codex; messages as model APIs have them, one a line or all in one list; and plain text with `User:` and `Assistant:`
labels. Nothing in them is an error: what cannot be understood is left out and counted.

Our own are `conversation-<id>.jsonl` in the state directory, with a line for each message, for facts about the
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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from typing import Any, NamedTuple

from memsheaf.errors import PathRefused, StoreFailed
from memsheaf.guard.secrets import without_secrets
from memsheaf.index.catalog import target
from memsheaf.learn.erasure_filter import make_erasure_filter
from memsheaf.llm.model import Said, ToolCall, Touched
from memsheaf.recall.turns import Message, Turn
from memsheaf.scope import parse_json, parse_object
from memsheaf.store import version_of
from memsheaf.store.safe_dir import READ, Folder
from memsheaf.store.state import State
from memsheaf.text.requests import asks_not_to_store, is_silent
from memsheaf.text.spoken import unwrapped

WRITING = frozenset({"memory_write", "memory_update", "memory_insert", "memory_delete"})
READING = frozenset({"memory_view", "memory_read", "memory_list", "memory_search", "memory_recall", "memory_brief"})
"""Our tools. With the first an agent saves by itself; what the others answer was not said by anybody."""

MAX_JSON_CHARS = 64 * 1024 * 1024

_ROLES = {
    "user": "user",
    "human": "user",
    "assistant": "assistant",
    "ai": "assistant",
    "claude": "assistant",
    "chatgpt": "assistant",
    "model": "assistant",
    "tool": "tool",
    "function": "tool",
}
_ASIDE = ("isSidechain", "isMeta", "isCompactSummary", "isVisibleInTranscriptOnly", "isApiErrorMessage")
_EDITORS = frozenset({"write", "edit", "multiedit", "create_file", "str_replace_based_edit_tool", "memory"})
_ARGUMENTS = r"(?s)<command-args>(.*?)</command-args>"
_MEMORY_FILE = r"(?i)(?:^|/)(?:\.memsheaf|memories|memory)/.*\.md$|(?:^|/)MEMORY\.md$"
_COMMAND = r"\bmemsheaf\s+(?:remember|add|update|insert|edit|forget)\b"
_SPEAKERS = f"({'|'.join(_ROLES)}|system)"
_LABEL = rf"(?i)(?:#+[ \t]+|\*\*)?{_SPEAKERS}(?:[:：]\**|\*\*[:：])(.*)|#+[ \t]+{_SPEAKERS}[ \t]*"


class Transcript:
    """The turns of a conversation, in order. `format` is `claude-code`, `codex`, `messages` or `text`.

    `skipped` counts the lines and messages that were of no use because they are broken.
    """

    def __init__(self, format: str, turns: Sequence[Turn], skipped: int = 0) -> None:
        self.format = format
        self.turns = tuple(turns)
        self.skipped = skipped

    def __iter__(self) -> Iterator[Turn]:
        return iter(self.turns)


def read_transcript(
    source: str | Iterable[str], *, conversation: str = "", folders: Sequence[str] = ()
) -> Transcript:
    """Read a conversation, given as one text or as lines.

    `conversation` is its name where it does not say one itself. Files that the agent wrote below one of `folders`
    are memories that it saved by itself.

    >>> list(read_transcript("User: hello\\nAssistant: Good day."))[0].messages
    (Message(role='user', text='hello', id=''), Message(role='assistant', text='Good day.', id=''))
    """
    text = source if isinstance(source, str) else "\n".join(line.removesuffix("\n") for line in source)
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    records = _parse_records(text)
    builder = _TurnBuilder(conversation, folders)
    if records is None:
        for role, words in _split_dialogue(text):
            builder.add(role, words)
        return Transcript("text", builder.finish())
    format = "messages"
    for record in records:
        match record:
            case {"type": "user" | "assistant", "message": dict(message)}:
                format = "claude-code"
                if "toolUseResult" in record and isinstance(message.get("content"), str):
                    message = {**message, "role": "tool"}
                if not any(record.get(mark) is True for mark in _ASIDE):
                    builder.read(message, record)
            case {"type": "response_item", "payload": dict(item)}:
                format = "codex"
                builder.read_item(item, record)
            case {"role": str()}:
                builder.read(record, record)
            case {"type": str()}:  # a host's bookkeeping
                pass
            case _:
                builder.skipped += 1
    return Transcript(format, builder.finish(), builder.skipped)


class _TurnBuilder:
    """Makes turns of messages."""

    def __init__(self, conversation: str, folders: Sequence[str]) -> None:
        self.skipped = 0
        self._default_name = conversation
        self._folders = tuple(folder.replace("\\", "/").rstrip("/") + "/" for folder in folders if folder)
        self._turns: list[Turn] = []
        self._own_calls: set[str] = set()  # of our tools
        self._conversation = conversation
        self._time = ""  # of the message that is read
        self._at = ""
        self._messages: list[Message] = []
        self._saves: set[str] = set()  # ids of calls that save to memory
        self._is_answered = False

    def read(self, message: Mapping[str, object], record: Mapping[str, object]) -> None:
        """Add a message as an API has it; its record has its time, conversation and id."""
        role = _ROLES.get(_text(message, "role").lower(), "")
        if not role:  # the words of a system or a developer; or nothing that makes sense
            self.skipped += not isinstance(message.get("role"), str)
            return
        conversation = _text(record, "conversation", "sessionId", "session_id", "conversation_id")
        if (conversation or self._default_name) != self._conversation:
            self.finish()
        self._conversation = conversation or self._default_name
        self._time = _text(record, "timestamp", "at", "created_at")
        name = _text(record, "uuid", "id")
        content = message.get("content", message.get("text"))
        blocks = content if isinstance(content, list) else [content]
        for number, block in enumerate(blocks):
            match block:
                case {"type": "tool_use"}:
                    self._add_call(_text(block, "id"), _text(block, "name"), block.get("input"))
                case {"type": "tool_result"}:
                    answered = _text(block, "tool_use_id")
                    if block.get("is_error") is True:
                        self._saves.discard(answered)
                    self._add_result(answered, _text_of(block.get("content")), f"{name}#{number}" if name else "")
        for call in _list(message.get("tool_calls")):
            match call:
                case {"function": dict(function)}:
                    self._add_call(_text(call, "id"), _text(function, "name"), function.get("arguments"))
        if role == "tool":
            self._add_result(_text(message, "tool_call_id"), _text_of(blocks), name)
        else:
            self.add(role, _text_of(blocks), name)

    def read_item(self, item: Mapping[str, object], record: Mapping[str, object]) -> None:
        """Add an item of Codex's log: a message, a call of a tool, or what it answered."""
        match item.get("type"):
            case "message":
                self.read(item, {**record, "id": item.get("id")})
            case "function_call":
                self._add_call(_text(item, "call_id"), _text(item, "name"), item.get("arguments"))
            case "function_call_output":
                self._add_result(_text(item, "call_id"), _text(item, "output"), "")

    def add(self, role: str, text: str, name: str = "") -> None:
        """Add a message. After an answer, the user begins a new turn.

        The arguments of a slash command are text for the command to work on, so they become a quotation.
        """
        if role == "user":
            text = re.sub(_ARGUMENTS, _quote_arguments, text)
        text = unwrapped(text)
        if role == "user" and text and self._is_answered:
            self.finish()
        self._is_answered |= role != "user"
        if text:
            self._at = self._at or self._time
            self._messages.append(Message(role, text, name))

    def finish(self) -> list[Turn]:
        """End the current turn, and return all."""
        if self._messages:
            self._turns.append(Turn(self._conversation, tuple(self._messages), self._at, bool(self._saves)))
        self._at = ""
        self._messages = []
        self._saves = set()
        self._is_answered = False
        return self._turns

    def _add_call(self, call: str, name: str, arguments: object) -> None:
        self._is_answered = True
        tool = name.rpartition("__")[2].lower()
        if tool in WRITING | READING:
            self._own_calls.add(call)
        if tool in WRITING or self._saves_by_hand(tool, arguments):
            self._saves.add(call)

    def _add_result(self, call: str, text: str, name: str) -> None:
        self._is_answered = True
        if not call or call not in self._own_calls:
            self.add("tool", text, name)

    def _saves_by_hand(self, tool: str, arguments: object) -> bool:
        """Return True if a call writes a memory as a file, or with our command."""
        given = _parse(arguments) if isinstance(arguments, str) else arguments
        if not isinstance(given, dict):
            return False
        if tool in ("bash", "shell"):
            return bool(re.search(_COMMAND, _text(given, "command")[:10_000]))
        path = _text(given, "file_path", "path").replace("\\", "/")[:4_000]
        is_edit = tool in _EDITORS and given.get("command") != "view"
        return is_edit and (path.startswith(self._folders) or bool(re.search(_MEMORY_FILE, path)))


def _parse_records(text: str) -> list[Any] | None:
    """Return the messages in JSON or in lines of it; None if it is neither."""
    match _parse(text) if text.lstrip()[:1] in ("[", "{") else None:
        case {"messages": list(messages)}:
            return messages
        case [*messages] if any(isinstance(message, dict) for message in messages):
            return messages
    lines = [line for line in text.split("\n") if line.strip()]
    objects = [isinstance(_parse(line), dict) for line in lines[:50]]
    if any(objects[:1]) or (objects and 2 * sum(objects) >= len(objects)):  # a log may have lost its beginning
        return [_parse(line) for line in lines]
    return None


def _split_dialogue(text: str) -> Iterator[tuple[str, str]]:
    """Yield who says what in a plain text. Unless it has a user and an assistant, or begins with "User:", all is the
    user's. What stands before the first label counts as something the agent looked at.
    """
    parts: list[tuple[str, list[str]]] = [("tool", [])]
    is_code = False
    for line in text.split("\n"):
        label = None if is_code else re.fullmatch(_LABEL, line.strip())
        if label:
            speaker, words = label[1] or label[3], label[2] or ""
            parts.append((_ROLES.get(speaker.lower(), ""), [words]))
        else:
            parts[-1][1].append(line)
        is_code ^= line.lstrip().startswith("```")
    if not text.lstrip().startswith("User:") and not {"user", "assistant"} <= {role for role, _ in parts}:
        parts = [("user", [text])]
    yield from ((role, "\n".join(lines).strip()) for role, lines in parts if role)


def _quote_arguments(arguments: re.Match[str]) -> str:
    """Return the arguments of a slash command as quoted lines; what asks not to be stored stays as it is."""
    return arguments[1] if asks_not_to_store(arguments[1]) else re.sub(r"(?m)^(?=.)", "> ", arguments[1])


def _text_of(content: object) -> str:
    """Return the text in the content of a message, without thoughts, pictures and calls."""
    texts = []
    for block in content if isinstance(content, list) else [content]:
        match block:
            case str():
                texts.append(block)
            case {"type": "text" | "input_text" | "output_text", "text": str(text)}:
                texts.append(text)
    return "\n\n".join(text for text in texts if text)


def _parse(text: str) -> Any:
    return parse_json(text) if len(text) <= MAX_JSON_CHARS else None


def _text(record: Mapping[str, object], *names: str) -> str:
    """Return the first of these fields that holds a text."""
    return next((value for name in names if isinstance(value := record.get(name), str) and value), "")


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


# our own conversations

PREFIX, SUFFIX = "conversation-", ".jsonl"
HISTORY, STAMP = "history", "erased"
ERASED = "(erased)"
UNRECORDED = "(off the record)"
UNRECORDED_REACH = {"rest": "(off the record in this conversation)", "next": "(the next message is off the record)"}
"""What stands for a message of the user by how far its wish reaches. `follow_privacy` reads the same in it."""
MAX_CHARS = 1_000_000  # of a message, or of a call's arguments
LOCK_SECONDS = 10.0

_FILES = (PREFIX, f"draft-{PREFIX}", f"draft-{HISTORY}-")
_TAIL_BYTES = 4_096  # longer than what stands behind the text of most lines
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
    """Return the lock of those who write to conversations here. Raises Busy, StoreFailed."""
    return state.lock("conversations", wait=LOCK_SECONDS)


def clean_message(said: Said, *, privacy: str = "") -> Said:
    """Return a message as it may be written: without secrets, and without any text if it is off the record."""
    if is_silent(privacy):
        calls = tuple(call._replace(arguments="{}") for call in said.calls)
        text = UNRECORDED_REACH.get(privacy, UNRECORDED) if said.role == "user" else UNRECORDED
        return said._replace(text=text, calls=calls, beside="", touched=())
    text = without_secrets(said.text[: 2 * MAX_CHARS])
    if len(said.text) > MAX_CHARS:
        text = f"{text[:MAX_CHARS]}\n({len(said.text) - MAX_CHARS:,} characters more were not kept)"
    calls = tuple(call._replace(arguments=_clean_arguments(call.arguments)) for call in said.calls)
    return said._replace(text=text, calls=calls, beside="")


def _clean_arguments(arguments: str) -> str:
    """Return the arguments of a call, or only a note if they are too long or hold a secret."""
    # each text by itself, too: in JSON, a line break before a secret looks like a letter of it
    texts = [arguments, *_find_texts(parse_json(arguments))] if len(arguments) <= MAX_CHARS else []
    if texts and all(without_secrets(text) == text for text in texts):
        return arguments
    return json.dumps({"not kept": "it was too long, or held a secret"})


def append_lines(state: State, name: str, lines: Sequence[ConversationLine]) -> None:
    """Add lines to a file, durably, all or none. Raises StoreFailed, Busy."""
    place = os.path.join(state.folder, name)
    with lock_conversations(state):
        size = _size(place)
        try:
            # behind a line that was cut short begins a new one
            state.add(name, (b"\n" if size else b"") + b"".join(map(encode_line, lines)))
        except StoreFailed:
            if 0 <= size < _size(place):
                with suppress(OSError):
                    os.truncate(place, size)
            raise


def _size(place: str) -> int:
    """Return the size of a plain file, 0 if it is not there; -1 for what is no plain file."""
    try:
        status = os.lstat(place)
    except OSError:
        return 0
    return status.st_size if stat.S_ISREG(status.st_mode) else -1


def encode_line(line: ConversationLine) -> bytes:
    """Return a line as it stands in the file. The time comes last, so that the end of a file tells it."""
    fields: dict[str, object] = {"facts": line.facts}
    if line.said is not None:
        fields = message_record(line.said)
    elif line.compacted is not None:
        fields = {"compacted": [message_record(said) for said in line.compacted]}
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
    return (line for data in _read_raw_lines(state, name) if (line := decode_line(data)))


def read_last_time(state: State, name: str) -> str:
    """Return when the last line of a file was written, "" if its end does not say; most of the file is not read."""
    with (
        suppress(OSError, PathRefused),
        Folder.open(state.folder) as folder,
        open(folder.open_file(name, READ), "rb") as file,
    ):
        file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL_BYTES))
        if times := re.findall(_AT, file.read(_TAIL_BYTES)):
            return bytes(times[-1]).decode()
    return max((line.at for line in read_lines(state, name)), default="")


def read_history(state: State) -> list[str]:
    """Return the lines that were typed, oldest first."""
    return [line for line in state.lines(HISTORY) if isinstance(line, str)]


def encode_history(texts: Sequence[str]) -> bytes:
    """Return typed lines as they stand in their file."""
    return b"".join(map(_encode, texts))


def _read_raw_lines(state: State, name: str) -> Iterator[bytes]:
    with suppress(OSError, PathRefused):
        with Folder.open(state.folder) as folder:
            fd = folder.open_file(name, READ)
        with open(fd, "rb") as file:
            yield from file


def decode_line(data: bytes) -> ConversationLine | None:
    """Return the line in some bytes of a file; None if it is damaged."""
    record = parse_object(data)
    at = _text(record or {}, "at")
    match record:
        case {"facts": dict(facts)}:
            return ConversationLine(at, facts=facts)
        case {"compacted": list(compacted)}:
            return ConversationLine(at, compacted=tuple(said for one in compacted if (said := _decode_message(one))))
    said = _decode_message(record)
    return ConversationLine(at, said) if said else None


def _decode_message(record: Any) -> Said | None:
    """Return the message in a JSON value; None if it is none. What cannot be understood of it is left out."""
    match record:
        case {"role": "user" | "assistant" | "tool" as role, "text": str(text)}:
            calls, touched = [], []
            for call in _list(record.get("calls")):
                match call:
                    case {"id": str(id), "tool": str(tool), "arguments": str(arguments)}:
                        calls.append(ToolCall(id, tool, arguments))
            for change in _list(record.get("touched")):
                match change:
                    case [str(action), str(scope), str(path)]:
                        touched.append(Touched(action, scope, path))
            answers, tool = _text(record, "answers"), _text(record, "tool")
            return Said(role, text, tuple(calls), answers, tool, touched=tuple(touched))
    return None


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
                state.write(HISTORY, encode_history(list(filter(eraser.may_stay, read_history(state)))))
            else:
                before = list(_read_raw_lines(state, name))
                lines = [(data, decode_line(data)) for data in before]
                after = [eraser.clean_line(data, line) for data, line in lines if line]  # the rest is no line
                if after != [data for data in before if data.strip()]:
                    state.write(name, b"".join(after))


class _Eraser:
    """Takes what erased memories said out of a text."""

    def __init__(self, texts: Sequence[bytes], names: Sequence[str]) -> None:
        self._keep = make_erasure_filter(texts)
        self._versions = {version_of(text) for text in texts}
        links = [re.escape(f"]({target(name)})") for name in names]
        alone = [rf"(?<![\w.-]){re.escape(name)}(?!\w)" for name in names if not re.fullmatch(_COMMON_NAME, name)]
        self._names = re.compile("|".join(sorted({*links, *alone})) or "(?!)")

    def may_stay(self, text: str) -> bool:
        """Return True if a text neither says what was erased nor names it."""
        return text not in self._versions and not self._names.search(text) and self._keep(text)

    def clean_line(self, data: bytes, line: ConversationLine) -> bytes:
        """Return a line of a conversation without it."""
        clean = line
        if line.said is not None:
            clean = line._replace(said=self._clean_message(line.said))
        elif line.compacted is not None:
            clean = line._replace(compacted=tuple(map(self._clean_message, line.compacted)))
        elif line.facts is not None:
            clean = line._replace(facts=self._clean_values(line.facts))
        return data if clean == line else encode_line(clean)

    def _clean_message(self, said: Said) -> Said:
        calls = tuple(call._replace(arguments=self._clean_arguments(call.arguments)) for call in said.calls)
        touched = tuple(change for change in said.touched if self.may_stay(change.path))
        return said._replace(text=self._clean_text(said.text), calls=calls, touched=touched)

    def _clean_text(self, text: str) -> str:
        """Return a text without the lines that say it, or ERASED if it is not in a line."""
        if self.may_stay(text):
            return text
        clean = "\n".join(line if self.may_stay(line) else ERASED for line in text.split("\n"))
        return clean if self.may_stay(clean) else ERASED

    def _clean_arguments(self, arguments: str) -> str:
        values = parse_object(arguments)
        if values is None:
            return self._clean_text(arguments)
        clean = self._clean_values(values)
        return arguments if clean == values else json.dumps(clean, ensure_ascii=False)

    def _clean_values(self, values: Mapping[str, object]) -> dict[str, object]:
        """Return the values of an object, with ERASED for each that says it, and for all if they say it together."""
        clean = {
            key: value if all(map(self.may_stay, _find_texts(value))) else ERASED
            for key, value in values.items()
            if self.may_stay(key)
        }
        return clean if self._keep("\n".join(_find_texts(clean))) else dict.fromkeys(clean, ERASED)


def _find_texts(value: object) -> Iterator[str]:
    """Yield the texts in a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        yield from _find_texts([*value, *value.values()])
    elif isinstance(value, list):
        for item in value:
            yield from _find_texts(item)
