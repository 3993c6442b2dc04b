"""Parser for transcripts of conversations, which become turns.

Four formats are recognized: the JSON lines of Claude Code and of Codex; messages as model APIs have them, one a line
or all in one list; and plain text with `User:` and `Assistant:` labels. Nothing in them is an error: what cannot be
understood is left out and counted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from memsheaf.recall.ignore import asks_not_to_store
from memsheaf.recall.turns import Message, Turn
from memsheaf.scope import parse_json
from memsheaf.text.spoken import unwrapped

WRITING = frozenset({"memory_write", "memory_update", "memory_insert", "memory_delete"})
READING = frozenset({"memory_view", "memory_read", "memory_list", "memory_search", "memory_recall", "memory_brief"})
"""Our tools. With the first an agent saves by itself; what the others answer was not said by anybody."""

LONGEST = 64 * 1024 * 1024  # what has more characters is not read as JSON

_ROLES = {
    "user": "user", "human": "user", "assistant": "assistant", "ai": "assistant", "model": "assistant",
    "tool": "tool", "function": "tool",
}  # fmt: skip
_ASIDE = ("isSidechain", "isMeta", "isCompactSummary", "isVisibleInTranscriptOnly", "isApiErrorMessage")
_EDITORS = frozenset({"write", "edit", "multiedit", "create_file", "str_replace_based_edit_tool", "memory"})
_ARGUMENTS = r"(?s)<command-args>(.*?)</command-args>"
_MEMORY_FILE = r"(?i)(?:^|/)(?:\.memsheaf|memories|memory)/.*\.md$|(?:^|/)MEMORY\.md$"
_COMMAND = r"\bmemsheaf\s+(?:remember|add|update|insert|edit|forget)\b"
_LABELS = {
    "user": ("user", "human", "me", "you said", "用户", "用戶", "ユーザー", "benutzer", "usuario", "utilisateur"),
    "assistant": (
        "assistant", "ai", "agent", "claude", "chatgpt said", "chatgpt", "助手", "アシスタント", "assistent",
        "asistente",
    ),
    "tool": ("tool output", "tool", "function"),
    "system": ("system",),
}  # fmt: skip
_WHO = {label: role for role, labels in _LABELS.items() for label in labels}
_LABEL = (
    rf"(?i)(?P<mark>\#{{1,6}}[ \t]+|\*\*)?(?:\*\*)?(?P<who>{'|'.join(_WHO)})[ \t]*"
    r"(?P<colon>[:：])?(?:\*\*)?(?P<behind>[:：])?(?P<rest>.*)"
)


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
    records, name = _records(text)
    builder = _TurnBuilder(name or conversation, folders)
    if records is None:
        for role, said in _dialogue(text):
            builder.add(role, said)
        return Transcript("text", builder.finished())
    format = "messages"
    for record in records:
        if not isinstance(record, dict):
            builder.skipped += 1
        elif isinstance(record.get("message"), dict) and record.get("type") in ("user", "assistant"):
            format = "claude-code"
            if not any(record.get(mark) is True for mark in _ASIDE):
                builder.read(_mark_result(record["message"], record), record)
        elif record.get("type") == "response_item" and isinstance(item := record.get("payload"), dict):
            format = "codex"
            builder.read_item(item, record)
        elif "role" in record:
            builder.read(record, record)
        elif not isinstance(record.get("type"), str):  # with a type it is a host's bookkeeping
            builder.skipped += 1
    return Transcript(format, builder.finished(), builder.skipped)


class _TurnBuilder:
    """Makes turns of messages."""

    def __init__(self, conversation: str, folders: Sequence[str]) -> None:
        self.skipped = 0
        self._usual = conversation
        self._folders = tuple(folder.replace("\\", "/").rstrip("/") + "/" for folder in folders if folder)
        self._turns: list[Turn] = []
        self._ours: set[str] = set()  # calls of our tools, by id
        self._conversation, self._now = conversation, ""
        self._at = ""
        self._messages: list[Message] = []
        self._saves: list[str] = []  # calls in this turn that save to memory, by id
        self._is_answered = False

    def read(self, message: dict[str, object], record: dict[str, object]) -> None:
        """Add a message as an API has it; its record has its time, conversation and id."""
        role = _ROLES.get(_text(message.get("role")).lower(), "")
        if not role:  # the words of a system or a developer; or nothing that makes sense
            self.skipped += not isinstance(message.get("role"), str)
            return
        conversation = _first(record, "conversation", "sessionId", "session_id", "conversation_id") or self._usual
        if conversation != self._conversation:
            self._begin()
        self._conversation, self._now = conversation, _first(record, "timestamp", "at", "created_at")
        name = _first(record, "uuid", "id")
        content = message.get("content", message.get("text"))
        blocks = content if isinstance(content, list) else [content]
        for number, block in enumerate(blocks):
            if isinstance(block, dict):
                self._add_tool_block(block, f"{name}#{number}" if name else "")
        for call in _list(message.get("tool_calls")):
            if isinstance(call, dict) and isinstance(function := call.get("function"), dict):
                self._add_call(_text(call.get("id")), function.get("name"), function.get("arguments"))
        text = _text_of(blocks)
        if role == "tool":
            self._add_result(_text(message.get("tool_call_id")), text, name)
        else:
            self.add(role, text, name)

    def read_item(self, item: dict[str, object], record: dict[str, object]) -> None:
        """Add an item of Codex's log: a message, a call of a tool, or what it answered."""
        if item.get("type") == "message":
            self.read(item, {**record, "id": item.get("id")})
        elif item.get("type") == "function_call":
            self._add_call(_text(item.get("call_id")), item.get("name"), item.get("arguments"))
        elif item.get("type") == "function_call_output":
            self._add_result(_text(item.get("call_id")), _text(item.get("output")), "")

    def add(self, role: str, text: str, name: str = "") -> None:
        """Add a message. After an answer, the user begins a new turn.

        The arguments of a slash command are text for the command to work on, so they become a quotation.
        """
        if role == "user":
            text = re.sub(_ARGUMENTS, _quote_arguments, text)
        text = unwrapped(text)
        if role == "user" and text and self._is_answered:
            self._begin()
        self._is_answered |= role != "user"
        if text:
            self._at = self._at or self._now
            self._messages.append(Message(role, text, name))

    def finished(self) -> list[Turn]:
        """All turns."""
        self._begin()
        return self._turns

    def _begin(self) -> None:
        """End the current turn, and begin another."""
        if self._messages:
            self._turns.append(Turn(self._conversation, tuple(self._messages), self._at, bool(self._saves)))
        self._at, self._messages, self._saves, self._is_answered = "", [], [], False

    def _add_tool_block(self, block: dict[str, object], name: str) -> None:
        """Add a block in which a tool is called, or answers."""
        if block.get("type") == "tool_use":
            self._add_call(_text(block.get("id")), block.get("name"), block.get("input"))
        elif block.get("type") == "tool_result":
            content = block.get("content")
            call = _text(block.get("tool_use_id"))
            if block.get("is_error") is True and call in self._saves:
                self._saves.remove(call)
            self._add_result(call, _text_of(content if isinstance(content, list) else [content]), name)

    def _add_call(self, call: str, name: object, arguments: object) -> None:
        self._is_answered = True
        tool = _text(name).rpartition("__")[2].lower()
        if tool in WRITING | READING:
            self._ours.add(call)
        if tool in WRITING or self._saves_by_hand(tool, arguments):
            self._saves.append(call)

    def _add_result(self, call: str, text: str, name: str) -> None:
        if call and call in self._ours:
            self._is_answered = True
        else:
            self.add("tool", text, name)

    def _saves_by_hand(self, tool: str, arguments: object) -> bool:
        """Whether a call writes a memory as a file, or with our command."""
        given = _json(arguments) if isinstance(arguments, str) else arguments
        if not isinstance(given, dict):
            return False
        if tool in ("bash", "shell"):
            return bool(re.search(_COMMAND, _text(given.get("command"))[:10_000]))
        path = _first(given, "file_path", "path").replace("\\", "/")[:4_000]
        if tool not in _EDITORS or given.get("command") == "view":
            return False
        return path.startswith(self._folders) or bool(re.search(_MEMORY_FILE, path))


def _records(text: str) -> tuple[list[object] | None, str]:
    """The messages in JSON or in lines of it, and what it calls the conversation; None when it is neither."""
    whole = _json(text) if text.lstrip()[:1] in ("[", "{") else None
    if isinstance(whole, dict) and isinstance(whole.get("messages"), list):
        return whole["messages"], _first(whole, "conversation", "conversation_id", "session_id", "id")
    if isinstance(whole, list) and any(isinstance(one, dict) for one in whole):
        return whole, ""
    lines = [line for line in text.split("\n") if line.strip()]
    objects = [line.lstrip()[:1] == "{" and isinstance(_json(line), dict) for line in lines[:50]]
    if any(objects[:1]) or (objects and 2 * sum(objects) >= len(objects)):  # a log may have lost its beginning
        return [_json(line) for line in lines], ""
    return None, ""


def _dialogue(text: str) -> Iterator[tuple[str, str]]:
    """Who says what in a plain text. Where it has no user and assistant, nor begins with a user, all is the user's.

    What stands before the first label was said by nobody we know, so it counts as something the agent looked at.
    """
    parts: list[tuple[str, list[str]]] = [("tool", [])]
    is_code = False
    for line in text.split("\n"):
        found = None if is_code else re.fullmatch(_LABEL, line.strip())
        if found and (found["colon"] or found["behind"] or (found["mark"] and not found["rest"].strip("* "))):
            parts.append((_WHO[found["who"].lower()], [found["rest"]]))
        else:
            parts[-1][1].append(line)
        is_code ^= line.lstrip().startswith("```")
    first = parts[1] if len(parts) > 1 and not "".join(parts[0][1]).strip() else ("", [""])
    begins = first[0] == "user" and len(first[1][0].split()) > 2  # a setting named "user" has a shorter value
    if not begins and not {"user", "assistant"} <= {role for role, _ in parts}:
        yield "user", text
        return
    for role, lines in parts:
        if role != "system":
            yield role, "\n".join(lines).strip()


def _quote_arguments(arguments: re.Match[str]) -> str:
    """Return the arguments of a slash command as quoted lines; what asks not to be stored stays as it is."""
    return arguments[1] if asks_not_to_store(arguments[1]) else re.sub(r"(?m)^(?=.)", "> ", arguments[1])


def _mark_result(message: dict[str, object], record: dict[str, object]) -> dict[str, object]:
    """Return a message of Claude Code, as a tool's where its text is the result of a tool."""
    is_result = "toolUseResult" in record and isinstance(message.get("content"), str)
    return {**message, "role": "tool"} if is_result else message


def _text_of(blocks: list[object]) -> str:
    """The text in the blocks of a message, without thoughts, pictures and calls."""
    texts = (
        _text(block.get("text")) if isinstance(block, dict) and _text(block.get("type")).endswith("text") else block
        for block in blocks
    )
    return "\n\n".join(text for text in texts if isinstance(text, str) and text)


def _json(text: str) -> object:
    return parse_json(text) if len(text) <= LONGEST else None


def _first(record: dict[str, object], *names: str) -> str:
    """The first of these fields that holds a text."""
    return next((value for name in names if isinstance(value := record.get(name), str) and value), "")


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []
