"""Transcripts of conversations with coding agents, read as turns to learn from.

Four formats are recognized: the JSON lines of Claude Code and of Codex; messages as model APIs have them, one a line
or all in one list; and plain text with `User:` and `Assistant:` labels. Nothing in them is an error: what cannot be
understood is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from memsheaf.recall.turns import Message, Turn
from memsheaf.scope import parse_json
from memsheaf.text.requests import asks_not_to_store
from memsheaf.text.spoken import FENCED_CODE, unwrapped

WRITING = frozenset({"memory_write", "memory_update", "memory_insert", "memory_delete"})
READING = frozenset({"memory_view", "memory_read", "memory_list", "memory_search", "memory_recall", "memory_brief"})
"""Our tools. With the first an agent saves by itself; what the others answer was not said by anybody."""

_ROLE_OF_SPEAKER = {
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
_ASIDE_MARKS = ("isSidechain", "isMeta", "isCompactSummary", "isVisibleInTranscriptOnly", "isApiErrorMessage")
_EDITING_TOOLS = frozenset({"write", "edit", "multiedit", "create_file", "str_replace_based_edit_tool", "memory"})
_COMMAND_ARGUMENTS = r"(?s)<command-args>(.*?)</command-args>"
_MEMORY_FILE = r"(?i)(?:^|/)(?:\.memsheaf|memories|memory)/.*\.md$|(?:^|/)MEMORY\.md$"
_SAVING_COMMAND = r"\bmemsheaf\s+(?:remember|add|update|insert|edit|forget)\b"
_SPEAKER = rf"({'|'.join(_ROLE_OF_SPEAKER)}|system)"
_SPEAKER_LABEL = rf"(?im)^[ \t]*(?:(?:#+[ \t]+|\*\*)?{_SPEAKER}(?:[:：]\**|\*\*[:：])|#+[ \t]+{_SPEAKER}[ \t]*$)"


def read_transcript(
    source: str | Iterable[str], *, conversation: str = "", folders: Sequence[str] = ()
) -> list[Turn]:
    """Return the turns of a conversation, given as one text or as lines, in order.

    `conversation` is its name where it does not say one itself. Files that the agent wrote below one of `folders`
    are memories that it saved by itself.

    >>> read_transcript("User: hello\\nAssistant: Good day.")[0].messages
    (Message(role='user', text='hello', id=''), Message(role='assistant', text='Good day.', id=''))
    """
    text = source if isinstance(source, str) else "\n".join(line.removesuffix("\n") for line in source)
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    records = _parse_records(text)
    reader = _TurnReader(conversation, folders)
    if records is None:
        for role, words in _split_dialogue(text):
            reader.add_message(role, words.strip())
    for record in records or ():
        match record:
            case {"type": "user" | "assistant", "message": dict(message)}:
                if "toolUseResult" in record and isinstance(message.get("content"), str):
                    message = {**message, "role": "tool"}
                if not any(record.get(mark) is True for mark in _ASIDE_MARKS):
                    reader.read_message(message, record)
            case {"type": "response_item", "payload": dict(item)}:
                reader.read_item(item, record)
            case {"role": str()}:
                reader.read_message(record, record)
    return reader.finish()


class _TurnReader:
    """Collects messages into turns."""

    def __init__(self, conversation: str, folders: Sequence[str]) -> None:
        self._default_name = conversation
        self._folders = tuple(folder.replace("\\", "/").rstrip("/") + "/" for folder in folders if folder)
        self._turns: list[Turn] = []
        self._own_calls: set[str] = set()  # of our tools
        # of the turn that is read
        self._conversation = conversation
        self._at = ""
        self._messages: list[Message] = []
        self._saves: set[str] = set()  # ids of calls that save to memory
        self._is_answered = False

    def read_message(self, message: Mapping[str, object], record: Mapping[str, object]) -> None:
        """Add a message as an API has it; its record has its time, conversation and id."""
        role = _ROLE_OF_SPEAKER.get(get_text(message, "role").lower(), "")
        if not role:  # the words of a system or a developer; or nothing that makes sense
            return
        names = "conversation", "sessionId", "session_id", "conversation_id"
        conversation = get_text(record, *names) or self._default_name
        if conversation != self._conversation:
            self.finish()
            self._conversation = conversation
        at = get_text(record, "timestamp", "at", "created_at")
        id = get_text(record, "uuid", "id")
        content = message.get("content", message.get("text"))
        blocks = content if isinstance(content, list) else [content]
        for number, block in enumerate(blocks):
            match block:
                case {"type": "tool_use"}:
                    self._add_call(get_text(block, "id"), get_text(block, "name"), block.get("input"))
                case {"type": "tool_result"}:
                    call = get_text(block, "tool_use_id")
                    if block.get("is_error") is True:
                        self._saves.discard(call)
                    self._add_result(call, _join_texts(block.get("content")), f"{id}#{number}" if id else "", at)
        for call in get_list(message, "tool_calls"):
            match call:
                case {"function": dict(function)}:
                    self._add_call(get_text(call, "id"), get_text(function, "name"), function.get("arguments"))
        if role == "tool":
            self._add_result(get_text(message, "tool_call_id"), _join_texts(blocks), id, at)
        else:
            self.add_message(role, _join_texts(blocks), id, at)

    def read_item(self, item: Mapping[str, object], record: Mapping[str, object]) -> None:
        """Add an item of Codex's log: a message, a call of a tool, or its result."""
        call = get_text(item, "call_id")
        match item.get("type"):
            case "message":
                self.read_message(item, {**record, "id": item.get("id")})
            case "function_call":
                self._add_call(call, get_text(item, "name"), item.get("arguments"))
            case "function_call_output":
                self._add_result(call, get_text(item, "output"), "", get_text(record, "timestamp"))

    def add_message(self, role: str, text: str, id: str = "", at: str = "") -> None:
        """Add a message. After an answer, the user begins a new turn.

        The arguments of a slash command are text for the command to work on, so they become a quotation; what asks
        not to be stored stays as it is.
        """
        if role == "user":
            text = re.sub(
                _COMMAND_ARGUMENTS,
                lambda given: given[1] if asks_not_to_store(given[1]) else re.sub(r"(?m)^(?=.)", "> ", given[1]),
                text,
            )
        text = unwrapped(text)
        if role == "user" and text and self._is_answered:
            self.finish()
        self._is_answered |= role != "user"
        if text:
            self._at = self._at or at
            self._messages.append(Message(role, text, id))

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

    def _add_result(self, call: str, text: str, id: str, at: str) -> None:
        self._is_answered = True
        if not call or call not in self._own_calls:
            self.add_message("tool", text, id, at)

    def _saves_by_hand(self, tool: str, arguments: object) -> bool:
        """Return True if a call writes a memory as a file, or with our command."""
        if isinstance(arguments, str):
            arguments = parse_json(arguments)
        if not isinstance(arguments, dict):
            return False
        if tool in ("bash", "shell"):
            return bool(re.search(_SAVING_COMMAND, get_text(arguments, "command")[:10_000]))
        if tool not in _EDITING_TOOLS or arguments.get("command") == "view":
            return False
        path = get_text(arguments, "file_path", "path").replace("\\", "/")[:4_000]
        return path.startswith(self._folders) or bool(re.search(_MEMORY_FILE, path))


def _parse_records(text: str) -> list[Any] | None:
    """Return the messages in JSON or in lines of it; None if it is neither."""
    match parse_json(text) if text.lstrip()[:1] in ("[", "{") else None:
        case {"messages": list(messages)}:
            return messages
        case [*messages] if any(isinstance(message, dict) for message in messages):
            return messages
    records = [parse_json(line) for line in text.split("\n") if line.strip()]
    objects = [isinstance(record, dict) for record in records]
    if any(objects[:1]) or 2 * sum(objects) >= len(objects) > 0:  # a log may have lost its beginning
        return records
    return None


def _split_dialogue(text: str) -> Iterator[tuple[str, str]]:
    """Yield who says what in a plain text. Without labels of both, or "User:" in front, all is the user's.

    What stands before the first label, or below one of the system, counts as something the agent looked at.
    """
    without_code = re.sub(FENCED_CODE, lambda code: " " * len(code[0]), text)
    labels = list(re.finditer(_SPEAKER_LABEL, without_code))
    roles = [_ROLE_OF_SPEAKER.get((label[1] or label[2]).lower(), "tool") for label in labels]
    if not text.lstrip().startswith("User:") and not {"user", "assistant"} <= {*roles}:
        yield "user", text
        return
    yield "tool", text[: labels[0].start()]
    ends = [label.start() for label in labels[1:]] + [len(text)]
    for role, label, end in zip(roles, labels, ends, strict=True):
        yield role, text[label.end() : end]


def _join_texts(content: object) -> str:
    """Return the text in the content of a message, without thoughts, pictures and calls."""
    texts = []
    for block in content if isinstance(content, list) else [content]:
        match block:
            case str():
                texts.append(block)
            case {"type": "text" | "input_text" | "output_text", "text": str(text)}:
                texts.append(text)
    return "\n\n".join(text for text in texts if text)


def get_text(record: Mapping[str, object], *names: str) -> str:
    """Return the first of these fields that holds a text."""
    return next((value for name in names if isinstance(value := record.get(name), str) and value), "")


def get_list(record: Mapping[str, object], name: str) -> list[Any]:
    """Return the list in a field, an empty one where there is none."""
    value = record.get(name)
    return value if isinstance(value, list) else []
