"""The user's own `claude` or `codex` command as a model.

It gets the question on its standard input, in an empty folder, without tools, hooks or a session that is kept. The
variable MEMSHEAF_INSIDE tells whatever of us it may start that it was us who started it.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Mapping
from shutil import which
from tempfile import TemporaryDirectory
from typing import NamedTuple

from memsheaf.errors import BadSettings, ModelFailed
from memsheaf.llm.json_answer import ANSWER_BYTES, read
from memsheaf.llm.model import Answer, Question
from memsheaf.llm.process_group import listen
from memsheaf.scope import parse_object
from memsheaf.text.neutralize import one_line

INSIDE = "MEMSHEAF_INSIDE"
_MAX_MESSAGE_CHARS = 200
_CODEX_WITHOUT = (
    *("shell_tool", "unified_exec", "multi_agent", "view_image", "image_generation", "goals", "hooks"),
    *("apps", "plugins", "memories", "browser_use", "computer_use"),
)
"""What could act, read or reach further, if a conversation talked it into that. Unknown names do no harm."""
_SCHEMA_BYTES = 100_000  # one argument of a command line holds 128 KiB


class Tool(NamedTuple):
    """A command as a model: its line, how its answer is read, its environment `variables`, how to `install` it."""

    line: Callable[[Question, str, str], list[str]]
    answer: Callable[[bytes, Question], Answer]
    variables: Callable[[Question], Mapping[str, str]]
    install: str
    default_model: str  # a cheap one: questions are short
    model_pattern: str


class SubprocessModel:
    """The command of that name on the user's PATH, asked once a question."""

    def __init__(
        self, tool: str, model: str = "", *, url: str = "", key: str = "", environment: Mapping[str, str] = os.environ
    ) -> None:
        if url or key:
            raise BadSettings(
                f"the command {tool} has its own address and key: model.url and model.key are not for it"
            )
        self._model = model or TOOLS[tool].default_model
        if not re.fullmatch(TOOLS[tool].model_pattern, self._model):
            example = f"{tool}:{TOOLS[tool].default_model}"
            raise BadSettings(f"the command {tool} knows no model {model!r}; did you mean {example!r}?")
        self.name = f"{tool}:{model}" if model else tool
        self._tool = tool
        self._environment = environment
        if os.name != "posix":
            raise ModelFailed(f"the command {tool} can be a model on Linux and macOS only, so far")
        self._program()

    def ask(self, question: Question, *, deadline: float) -> Answer:
        """Return the answer, in at most `deadline` seconds. Raises ModelFailed."""
        if self._environment.get(INSIDE):
            raise ModelFailed(f"{self.name} is not asked from within itself")
        tool, end = TOOLS[self._tool], time.monotonic() + deadline
        out, errors = bytearray(), bytearray()

        def hear(part: bytes, into: bytearray = out) -> None:
            into += part
            if len(out) + len(errors) > ANSWER_BYTES:
                raise ModelFailed(f"{self.name} printed more than {ANSWER_BYTES // 1_000_000} MB")

        with TemporaryDirectory(prefix="memsheaf-") as place:
            folder = os.path.join(place, "empty")
            os.mkdir(folder)
            try:
                code = listen(
                    [self._program(), *tool.line(question, place, self._model)],
                    hear,
                    hear_errors=lambda part: hear(part, errors),
                    text=_prompt(self._tool, question).encode("utf-8", "replace"),
                    folder=folder,
                    environment=_environment(self._environment, tool.variables(question)),
                    deadline=max(end - time.monotonic(), 0),
                )
            except TimeoutError:
                raise ModelFailed(f"{self.name} gave no answer within {deadline:g} seconds") from None
            except OSError as error:
                raise ModelFailed(f"{self.name} cannot be run: {error.strerror}") from None
        try:
            return tool.answer(bytes(out), question)
        except ValueError as error:
            said = one_line(errors.decode("utf-8", "replace").strip().rpartition("\n")[2], _MAX_MESSAGE_CHARS)
            why = f"ended with {code}{': ' + said if said else ''}" if code else f"gave no answer: {error}"
            hint = f"Try it by hand: does `{self._tool}` work, and is it signed in?"
            raise ModelFailed(f"{self.name} {why}", hint=hint) from None

    def _program(self) -> str:
        program = which(self._tool, path=self._environment.get("PATH"))
        if not program:
            raise ModelFailed(f"the command {self._tool} is not on the PATH", hint=TOOLS[self._tool].install)
        return os.path.abspath(program)


def _environment(given: Mapping[str, str], variables: Mapping[str, str]) -> dict[str, str]:
    """Return the user's environment, less what would make the command think that it runs inside of itself."""
    others = {name: value for name, value in given.items() if name not in ("CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT")}
    return {**others, **variables, INSIDE: "1"}


def _prompt(tool: str, question: Question) -> str:
    return question.text if tool == "claude" else f"{question.system}\n\n{question.text}"


def _claude_line(question: Question, place: str, model: str) -> list[str]:
    schema = json.dumps(question.schema)
    if len(schema) > _SCHEMA_BYTES:
        raise ModelFailed("the shape of the answer is too long for a command line")
    system = os.path.join(place, "system.md")
    with open(system, "w", encoding="utf-8", errors="replace") as file:
        file.write(question.system or "Answer the question.")
    line = ["-p", "--safe-mode", "--tools", "", "--no-session-persistence", "--output-format", "json"]
    line += ["--system-prompt-file", system, "--json-schema", schema]
    return [*line, "--model", model]


def _claude_variables(question: Question) -> dict[str, str]:
    return {
        "CLAUDE_CODE_MAX_OUTPUT_TOKENS": str(question.max_tokens),
        "CLAUDE_CODE_MAX_RETRIES": "0",
        "MAX_STRUCTURED_OUTPUT_RETRIES": "1",
        "MAX_THINKING_TOKENS": "0",
        "DISABLE_AUTOUPDATER": "1",
    }


def _claude_answer(out: bytes, question: Question) -> Answer:
    """Read the one JSON object that `claude -p --output-format json` prints."""
    try:
        result = json.loads(out)
    except (ValueError, RecursionError):
        raise ValueError("what it printed is no JSON") from None
    if not isinstance(result, dict):
        raise ValueError("what it printed is not a result")
    text = result.get("result")
    if result.get("is_error") or result.get("subtype") not in (None, "success"):
        message = text if isinstance(text, str) and text else str(result.get("subtype"))
        raise ValueError(f"it says {one_line(message, _MAX_MESSAGE_CHARS)!r}")
    usage = result.get("usage")
    counts = usage if isinstance(usage, dict) else {}
    kinds = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
    tokens = sum(_number(counts.get(kind)) for kind in kinds), _number(counts.get("output_tokens"))
    if result.get("structured_output") is not None:
        text = json.dumps(result["structured_output"])
    return Answer(read(text if isinstance(text, str) else "", question.schema), *tokens)


def _codex_line(question: Question, place: str, model: str) -> list[str]:
    schema = os.path.join(place, "schema.json")
    with open(schema, "w", encoding="utf-8") as file:
        json.dump(_strict(question.schema), file)
    line = ["exec", "--ephemeral", "--skip-git-repo-check", "--ignore-user-config", "--ignore-rules"]
    line += ["--sandbox", "read-only", "--config", 'web_search="disabled"']
    for feature in _CODEX_WITHOUT:
        line += ["--config", f"features.{feature}=false"]
    line += ["--color", "never", "--json", "--output-schema", schema]
    return [*line, "--model", model, "-"]


def _codex_answer(out: bytes, question: Question) -> Answer:
    """Read the events that `codex exec --json` prints: the last message, and what it took."""
    text, tokens, trouble = "", (0, 0), ""
    for event in filter(None, map(parse_object, out.splitlines())):
        item, usage, error = event.get("item"), event.get("usage"), event.get("error")
        if isinstance(item, dict) and item.get("type") == "agent_message" and isinstance(item.get("text"), str):
            text = item["text"]
        if isinstance(usage, dict):
            tokens = _number(usage.get("input_tokens")), _number(usage.get("output_tokens"))
        message = error.get("message") if isinstance(error, dict) else event.get("message")
        if isinstance(message, str) and event.get("type") in ("error", "turn.failed"):
            trouble = message
    if not text:
        raise ValueError(f"it says {one_line(trouble, _MAX_MESSAGE_CHARS)!r}" if trouble else "it printed no message")
    return Answer(read(text, question.schema), *tokens)


def _strict(schema: object) -> object:
    """Return a schema as OpenAI insists on it: each object has all of its keys, and no others."""
    if isinstance(schema, list | tuple):
        return [_strict(each) for each in schema]
    if not isinstance(schema, Mapping):
        return schema
    strict = {name: _strict(value) for name, value in schema.items()}
    properties = strict.get("properties")
    if strict.get("type") == "object" and isinstance(properties, dict):
        strict |= {"required": list(properties), "additionalProperties": False}
    return strict


def _number(value: object) -> int:
    return value if isinstance(value, int) and value > 0 else 0


TOOLS: Mapping[str, Tool] = {
    "claude": Tool(
        _claude_line,
        _claude_answer,
        _claude_variables,
        "`npm install -g @anthropic-ai/claude-code` brings it; `claude` signs you in.",
        "haiku",
        r"haiku|sonnet|opus|default|[\w.:/@\[\]-]*claude-[\w.:/@\[\]-]{1,150}",
    ),
    "codex": Tool(
        _codex_line,
        _codex_answer,
        lambda _: {},
        "`npm install -g @openai/codex` brings it; `codex` signs you in.",
        "gpt-5-mini",
        r"(?:gpt|o\d|codex)[\w.:/@\[\]-]{0,150}",
    ),
}
