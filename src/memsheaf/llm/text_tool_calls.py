"""Tool calls that small local models write as text.

Let me look.
```json
{"name": "read", "arguments": {"path": "notes.txt"}}
```
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection

from memsheaf.llm.model import ToolCall

_BEGINNINGS = tuple(f'{fence}{{"name":' for fence in ("", "[", "```", "```json", "```json[", "<tool_call>"))
_LONGEST = max(map(len, _BEGINNINGS))
_BLANK = re.compile(r"\s+")
_CLOSING = re.compile(r"\s*(?:```|</tool_call>)?\s*$")
_AROUND = re.compile(r"```(?:json)?|</?tool_call>|[\s,\[\]]+")


def sendable(text: str) -> str:
    """The text without half characters, which no server takes."""
    return text.encode("utf-8", "replace").decode()


class Written:
    """Listens to an answer for calls of these `tools`, and holds back what may become one.

    The calls are numbered from `first`.

    >>> written = Written({"read"}, first=7)
    >>> written.hear('Let me look.\\n{"name": "read", "argu')
    'Let me look.\\n'
    >>> written.hear('ments": {}}'), written.end()
    ('', ('', (ToolCall(id='written_7', tool='read', arguments='{}'),)))
    """

    def __init__(self, tools: Collection[str], *, first: int = 0) -> None:
        self._tools = tools
        self._first = first
        self._held = ""
        self._begins = True  # whether what is held stands at the beginning of a line
        self._is_call = False

    def hear(self, text: str) -> str:
        """Take the next piece of an answer, and give what is surely no call."""
        self._held += text
        if self._is_call or not text:
            return ""
        if not self._tools:
            return self._give(len(self._held))
        at, begins = 0, self._begins
        while at < len(self._held):
            if begins and self._may_begin(at):
                self._begins = True
                return self._give(at)
            line = self._held.find("\n", at)
            if line < 0:
                break
            at, begins = line + 1, True
        self._begins = self._held.endswith("\n")
        return self._give(len(self._held))

    def end(self) -> tuple[str, tuple[ToolCall, ...]]:
        """The answer is over: what was held back and is no call, and the calls."""
        calls = _calls(self._held, self._tools, self._first) if self._is_call else ()
        return ("" if calls else self._held), calls

    def _may_begin(self, at: int) -> bool:
        """Whether a call begins here, as far as one can see."""
        seen = _BLANK.sub("", self._held[at : at + 4 * _LONGEST])
        self._is_call = seen.startswith(_BEGINNINGS)
        return self._is_call or any(one.startswith(seen) for one in _BEGINNINGS)

    def _give(self, end: int) -> str:
        given, self._held = self._held[:end], self._held[end:]
        return given


def _mended(text: str) -> object:
    """The last call of a text, with the braces that were forgotten at its end; None when that is not all."""
    body = _CLOSING.sub("", text)
    for braces in ("}", "}}"):
        try:
            return json.loads(body + braces, strict=False)
        except (ValueError, RecursionError):
            continue
    return None


def _calls(text: str, tools: Collection[str], first: int) -> tuple[ToolCall, ...]:
    """The calls that a text consists of; none when it is anything else."""
    decoder, found, at = json.JSONDecoder(strict=False), list[ToolCall](), 0  # line breaks in texts are forgiven
    while at < len(text):
        if around := _AROUND.match(text, at):
            at = around.end()
            continue
        try:
            read, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            read, at = _mended(text[at:]), len(text)
        name = read.get("name") if isinstance(read, dict) else None
        arguments = read.get("arguments", read.get("parameters", {})) if name else None
        if not isinstance(name, str) or name not in tools or not isinstance(arguments, dict):
            return ()
        found.append(ToolCall(f"written_{first + len(found)}", name, json.dumps(arguments, ensure_ascii=False)))
    return tuple(found)
