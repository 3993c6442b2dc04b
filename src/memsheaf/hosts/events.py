"""The events of each host: what they mean to us, and how the host takes an answer."""

from __future__ import annotations

import json
import os
from typing import NamedTuple

from memsheaf.hosts.failure_log import note_failure
from memsheaf.scope import parse_object

START, PROMPT, TURN, COMPACT, END = "start", "prompt", "turn", "compact", "end"
TOOL, SUB_AGENT = "tool", "sub-agent"  # a tool is about to be used, a sub-agent begins

_NAMES = {
    START: "SessionStart sessionStart",
    PROMPT: "UserPromptSubmit BeforeAgent beforeSubmitPrompt userPromptSubmitted pre_user_prompt",
    TURN: "Stop AfterAgent stop agentStop afterAgentResponse post_cascade_response",
    COMPACT: "PreCompact PreCompress preCompact",
    END: "SessionEnd sessionEnd",
    TOOL: "PreToolUse",
    SUB_AGENT: "SubagentStart",
}
KINDS = {name: kind for kind, names in _NAMES.items() for name in (kind, *names.split())}
"""What an event of a host means. No two hosts use one name for different things."""

READABLE = ("claude-code", "codex")  # hosts whose transcripts are read; of the others, what their events say is kept
WITHOUT_END = ("cursor", "windsurf", "opencode", "qwen", "vscode")  # hosts that may not tell when a conversation ends
_CONTEXT, _CONTEXT_END = "<hook_context>", "</hook_context>"


class HookReply(NamedTuple):
    """Our answer to a host: a text for the model, and a line for the person."""

    context: str = ""
    line: str = ""


class HookEvent(NamedTuple):
    """An event of a host: its own name for it, and the JSON that came with it.

    One that is not `is_from_host` came through a channel that others can use as well: nothing in it is the user's
    word, and no file that it names is looked at.
    """

    host: str
    event: str
    payload: dict[str, object]
    is_from_host: bool = True

    @property
    def kind(self) -> str:
        """Return what it means; "" for an event that we do not know."""
        return KINDS.get(self.event or self.text("hook_event_name"), "")

    def text(self, *names: str) -> str:
        """The first of these fields that holds a text."""
        return next((value for name in names if isinstance(value := self.payload.get(name), str) and value), "")

    @property
    def conversation(self) -> str:
        """The host's id of the conversation, and of the sub-agent in it."""
        agent = self.text("agent_id")
        name = self.text("session_id", "conversation_id", "sessionId", "trajectory_id") or "unnamed"
        return f"{name}/{agent}" if agent else name

    @property
    def prompt(self) -> str:
        """The message that is answered, without the context that the host put before it."""
        found = self.text("prompt", "user_prompt") or _inner(self.payload, "tool_info", "user_prompt")
        while found.startswith(_CONTEXT):  # Gemini CLI without a terminal
            found = found.partition(_CONTEXT_END)[2].lstrip()
        return found

    @property
    def typed(self) -> str:
        """Return the typed text. Qwen Code also sends the results of tools as messages, and marks what was typed."""
        if not self.is_from_host:
            return ""
        return self.text("submitted_prompt") if self.host == "qwen" else self.prompt

    @property
    def folder(self) -> str:
        """The folder that the host works in, "" where it does not say."""
        roots = self.payload.get("workspace_roots")
        if isinstance(roots, list) and roots and isinstance(roots[0], str):
            return roots[0]
        found = os.environ.get("CLAUDE_PROJECT_DIR", "") if self.host == "claude-code" else ""
        return next((path for path in (found, self.text("cwd")) if path and os.path.isdir(path)), "")

    @property
    def response(self) -> str:
        """Return what the agent said last."""
        found = self.text("last_assistant_message", "prompt_response", "response", "text")
        return found or _inner(self.payload, "tool_info", "response")

    @property
    def transcript(self) -> str:
        """The file of the conversation, "" where we cannot read it."""
        is_readable = self.is_from_host and self.host in READABLE
        return self.text("transcript_path", "transcriptPath") if is_readable else ""


def _inner(payload: dict[str, object], table: str, name: str) -> str:
    found = payload.get(table)
    value = found.get(name) if isinstance(found, dict) else ""
    return value if isinstance(value, str) else ""


def parse_event(host: str, event: str, data: bytes) -> HookEvent:
    """The event in what a host sent; what is no JSON object is logged, and an event without fields."""
    payload = parse_object(data) if data.strip() else {}
    if payload is None:
        note_failure(host, event, f"its input of {len(data):,} bytes is no JSON object")
        payload = {}
    return HookEvent(host, event, payload)


def render_reply(event: HookEvent, reply: HookReply) -> bytes:
    """The answer in the shape that the host reads; nothing at all when there is nothing to say."""
    context, line = reply
    host = event.host
    answer: dict[str, object] = {}
    if host == "cursor":
        answer = {"additional_context": context} if context and event.kind == START else {}
    elif host == "copilot":
        answer = {"additionalContext": context} if context else {}
    elif host == "opencode":
        answer = {"context": context, "line": line} if context or line else {}
    elif host != "windsurf":  # those that took over the shape of Claude Code
        if context:
            name = event.event or event.text("hook_event_name")
            answer["hookSpecificOutput"] = {"hookEventName": name, "additionalContext": context}
        if line:
            answer["systemMessage"] = line
    return json.dumps(answer, ensure_ascii=False).encode("utf-8", "replace") if answer else b""
