"""One turn with a model: pydantic-ai's agent loop with our instructions, tools and permissions.

Imported with the first turn that asks a model.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import pydantic_ai
from pydantic_ai import Agent as PydanticAgent
from pydantic_ai import ModelSettings, RunContext, ToolDefinition
from pydantic_ai.agent import AgentRunEvents
from pydantic_ai.exceptions import AgentRunError, UsageLimitExceeded
from pydantic_ai.messages import (
    BaseToolReturnPart,
    ModelMessage,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    PartDeltaEvent,
    PartStartEvent,
    RetryPromptPart,
    TextPart,
    TextPartDelta,
    ThinkingPart,
    ThinkingPartDelta,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.toolsets import AbstractToolset, ToolsetTool
from pydantic_ai.usage import RunUsage, UsageLimits
from pydantic_core import SchemaValidator, core_schema

from memsheaf.chat.events import Called, Calling, Cost, Notice, Text, TurnLimits
from memsheaf.chat.workbench import Workbench
from memsheaf.guard.secrets import without_secrets
from memsheaf.llm.model import Said, ToolCall
from memsheaf.llm.served import ChatModel
from memsheaf.text.neutralize import one_line
from memsheaf.tools import READING, ToolAnswer

pydantic_ai.BANNER_ENABLED = False  # it would stand in the middle of an answer
_ANY_ARGUMENTS = SchemaValidator(core_schema.any_schema())  # the tools themselves say what is wrong with them
MAX_DELEGATED_REQUESTS = 30
MAX_TOOL_RETRIES = 10  # with arguments that are no JSON, or a tool that does not exist
NOT_RUN = "Error: not run: the turn was stopped."
BROKEN_OFF = "Error: the user stopped this while it ran, or was asked about. Look how far it got before you go on."
STOPPED = "(stopped here)"
DELEGATE = "agent"
_DELEGATE_SCHEMA: dict[str, Any] = {
    "name": DELEGATE,
    "description": "Hand a task to a second agent with a context of its own, such as a search through many files. It "
    "cannot ask back. You get its last message.",
    "input_schema": {
        "type": "object",
        "properties": {"task": {"type": "string", "description": "All it needs to know, and what to report"}},
        "required": ["task"],
    },
}


class ModelTurn:
    """The requests of one turn. Each whole message is added to the conversation as soon as it is there."""

    def __init__(
        self,
        bench: Workbench,
        model: ChatModel,
        conversation: Sequence[Said],
        add: Callable[[Said], None],
        limits: TurnLimits,
    ) -> None:
        self.bench = bench
        self.answer = ""
        self.is_interrupted = False
        self._model = model
        self._before = list(conversation)
        self._new: list[Said] = []
        self._keep = add
        self._limits = limits
        self._events: AgentRunEvents[str] | None = None
        self._count_taken = 1  # of the run's messages: the first is the user's
        self._partial = ""
        self._running = ""  # the call that runs
        self._answers: dict[str, ToolAnswer] = {}
        self._late: set[str] = set()

    def run(self) -> None:
        """Answer the last message of the conversation, until the model is done or Ctrl-C stops it.

        Raises:
            ModelFailed, CapReached.
        """
        loop = asyncio.new_event_loop()
        work = loop.create_task(self._run())
        try:
            loop.run_until_complete(work)
        except KeyboardInterrupt:
            self.is_interrupted = True
        finally:
            work.cancel()
            with suppress(KeyboardInterrupt):
                loop.run_until_complete(asyncio.gather(work, return_exceptions=True))
            self._leave()
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.close()

    async def _run(self) -> None:
        *history, message = self._before
        limits = UsageLimits(request_limit=self._limits.requests)
        prompt = [text for text in (message.text, message.beside) if text]
        try:
            async with self._model.open() as model:
                loop = self._make_agent(model, self.bench.system_prompt(), Toolset(self))
                async with loop.run_stream_events(
                    prompt, message_history=to_messages(history), usage_limits=limits
                ) as events:
                    self._events = events
                    async for event in events:
                        self._draw_text(event)
            self._take()
        except UsageLimitExceeded:
            line = f"stopped after {self._limits.requests} requests in one turn"
            self.bench.draw(Notice(line, "Say `go on` to let it continue."))
        except Exception as error:  # noqa: BLE001 - a guest among other people's clients, which raise what they like
            raise self._model.explain(error) from None

    def _make_agent(self, model: Any, system: str, toolset: Toolset) -> PydanticAgent[None, str]:
        settings = ModelSettings(**self._model.settings(model, self._limits.answer_tokens))  # type: ignore[typeddict-item]
        return PydanticAgent(
            model, instructions=system, toolsets=[toolset], model_settings=settings, retries=MAX_TOOL_RETRIES
        )

    def _draw_text(self, event: object) -> None:
        text = ""
        is_aside = False
        if isinstance(event, PartStartEvent) and isinstance(event.part, TextPart | ThinkingPart):
            text = event.part.content
            is_aside = isinstance(event.part, ThinkingPart)
        elif isinstance(event, PartDeltaEvent) and isinstance(event.delta, TextPartDelta | ThinkingPartDelta):
            text = event.delta.content_delta or ""
            is_aside = isinstance(event.delta, ThinkingPartDelta)
        if not text:
            return
        if not is_aside:
            self._partial += text
        self.bench.draw(Text(text, is_aside))

    def _take(self) -> None:
        """Add the run's new messages to the conversation."""
        messages = self._events.new_messages() if self._events else []
        for message in messages[self._count_taken :]:
            for said in to_said(message, self._late, self._answers):
                self._add(said)
                if said.role == "assistant":
                    self.answer += said.text + ("\n" if said.text and said.calls else "")
                    self._partial = ""
            if isinstance(message, ModelResponse) and message.finish_reason == "length":
                self.bench.draw(Notice("the answer was cut: it was too long", "Say `go on` to hear the rest."))
        self._count_taken = max(self._count_taken, len(messages))

    def _add(self, said: Said) -> None:
        self._new.append(said)
        self._keep(said)

    def _leave(self) -> None:
        """Bring the conversation in order after an interruption: calls are answered, half an answer is kept."""
        with suppress(Exception):  # the run has not begun
            self._take()
        if self._partial:
            self.answer += self._partial
            self._add(Said("assistant", f"{self._partial}\n\n{STOPPED}"))
        answered: set[str] = set()
        calls: tuple[ToolCall, ...] = ()
        for said in reversed(self._new):
            answered.add(said.answers)
            if said.role == "assistant":
                calls = said.calls
                break
        for call in calls:
            if call.id not in answered:
                why = BROKEN_OFF if call.id == self._running else NOT_RUN
                answer = self._answers.get(call.id, ToolAnswer(why))
                self._add(Said("tool", answer.text, answers=call.id, tool=call.tool, touched=answer.touched))

    async def call_tool(self, id: str, name: str, arguments: Any, ctx: RunContext[None], reading: bool) -> str:
        """Run a tool, draw it, and return its answer."""
        if not reading:
            self._take()
            self._running = id
        given = arguments if isinstance(arguments, Mapping) else {}
        shown = {key: without_secrets(value) if isinstance(value, str) else value for key, value in given.items()}
        self.bench.draw(Calling(id, name, self.bench.describe_call(name, shown), shown))
        began = time.monotonic()
        if not isinstance(arguments, Mapping):
            answer = ToolAnswer(f"Error: the arguments of {one_line(name, 60)} must be a JSON object.", failed=True)
        elif name == DELEGATE:
            answer = await self._delegate(id, given.get("task"), ctx)
        else:
            answer = self.bench.run_tool(name, given)
        self.bench.draw(Called(id, name, answer.text, answer.failed, round(time.monotonic() - began, 3)))
        if not reading:
            self._answers[id] = answer
            if late := self.bench.collect_recall():
                self._late.add(late)
                ctx.enqueue(late)
        return answer.text or "(nothing)"

    async def _delegate(self, id: str, task: object, ctx: RunContext[None]) -> ToolAnswer:
        """Have a second agent do a task: it reads memory, and asks for the same permissions."""
        if not isinstance(task, str) or not task.strip():
            return ToolAnswer("Error: agent needs task, a text.", failed=True)
        left = min(MAX_DELEGATED_REQUESTS, self._limits.requests - ctx.usage.requests)
        limits = UsageLimits(request_limit=ctx.usage.requests + left)
        second = self._make_agent(ctx.model, self.bench.system_prompt(delegated=True), Toolset(self, inside=id))
        try:
            result = await second.run(task, usage=ctx.usage, usage_limits=limits, event_stream_handler=_hear)
        except AgentRunError as error:
            return ToolAnswer(f"Error: the second agent failed: {self._model.explain(error)}", failed=True)
        return ToolAnswer(result.output)

    def cost(self) -> Cost:
        """Return what the turn cost so far."""
        usage = RunUsage()
        with suppress(Exception):  # the run has not begun
            usage = self._events.usage if self._events else usage
        dollars = None if usage.cost is None and usage.requests else float(usage.cost or 0)
        return Cost(usage.requests, usage.input_tokens, usage.output_tokens, usage.cache_read_tokens, dollars)


class Toolset(AbstractToolset[None]):
    """The chat's tools as pydantic-ai calls them, one after the other. A failure is an answer.

    One that stands `inside` a call of `agent` only reads memory, and cannot delegate further.
    """

    def __init__(self, turn: ModelTurn, *, inside: str = "") -> None:
        self._turn = turn
        self._inside = inside

    @property
    def id(self) -> str:
        """Return a name among toolsets."""
        return "chat"

    async def get_tools(self, ctx: RunContext[None]) -> dict[str, ToolsetTool[None]]:
        """Return each tool with its schema."""
        schemas = self._turn.bench.tool_schemas()
        if self._inside:
            schemas = [each for each in schemas if not each["name"].startswith("memory_") or each["name"] in READING]
        else:
            schemas = [*schemas, _DELEGATE_SCHEMA]
        return {schema["name"]: self._make_tool(schema) for schema in schemas}

    def _make_tool(self, schema: Mapping[str, Any]) -> ToolsetTool[None]:
        definition = ToolDefinition(
            name=schema["name"],
            description=schema["description"],
            parameters_json_schema=schema["input_schema"],
            sequential=True,
            strict=False,
        )
        return ToolsetTool(
            toolset=self, tool_def=definition, max_retries=MAX_TOOL_RETRIES, args_validator=_ANY_ARGUMENTS
        )

    async def call_tool(self, name: str, tool_args: Any, ctx: RunContext[None], tool: ToolsetTool[None]) -> str:
        """Return the answer of a tool."""
        id = ctx.tool_call_id or ""
        if self._inside:
            id = f"{self._inside}/{id}"
        return await self._turn.call_tool(id, name, tool_args, ctx, bool(self._inside))


async def _hear(ctx: RunContext[None], events: AsyncIterable[object]) -> None:
    """Let the answer of a second agent stream, so that one that is cut off is known as such."""
    async for _ in events:
        pass


def to_messages(conversation: Sequence[Said]) -> list[ModelMessage]:
    """Return a conversation as pydantic-ai has it: requests and responses in turn, and every call answered."""
    messages: list[ModelMessage] = []
    asked: list[ModelRequestPart] = []
    calls: dict[str, ToolCall] = {}  # that were not answered yet: a process may have been killed

    def end_request() -> None:
        returns = [ToolReturnPart(call.tool, NOT_RUN, id) for id, call in calls.items()]
        calls.clear()
        if returns or asked:
            messages.append(ModelRequest(parts=[*returns, *asked]))
            asked.clear()

    for said in conversation:
        text = _sendable(said.text)
        beside = _sendable(said.beside)
        if said.role == "assistant":
            end_request()
            calls |= {call.id: call for call in said.calls}
            parts = [TextPart(text)] if text else []
            called = [ToolCallPart(call.tool, _sendable(call.arguments), call.id) for call in said.calls]
            messages.append(ModelResponse(parts=[*parts, *called]))
        elif said.role == "user":
            asked.append(UserPromptPart([each for each in (text, beside) if each]))
        elif calls.pop(said.answers, None):
            asked.append(ToolReturnPart(said.tool, text, said.answers))
            asked += [UserPromptPart([beside])] if beside else []
    end_request()
    return messages


def to_said(message: ModelMessage, late: set[str], answers: Mapping[str, ToolAnswer]) -> list[Said]:
    """Return a message of a run as the conversation keeps it; `late` are the texts that memory put beside it."""
    if isinstance(message, ModelResponse):
        texts = [part.content for part in message.parts if isinstance(part, TextPart)]
        calls = tuple(ToolCall(part.tool_call_id, part.tool_name, _arguments_of(part)) for part in message.tool_calls)
        if message.state != "complete":
            calls = ()
            texts += [f"\n\n{STOPPED}"] if any(texts) else []
        return [Said("assistant", "".join(texts), calls)] if any(texts) or calls else []
    listed: list[Said] = []
    for part in message.parts:
        if isinstance(part, BaseToolReturnPart):
            touched = answers[part.tool_call_id].touched if part.tool_call_id in answers else ()
            text = part.model_response_str()
            listed.append(Said("tool", text, answers=part.tool_call_id, tool=part.tool_name, touched=touched))
        elif isinstance(part, RetryPromptPart) and part.tool_name:
            listed.append(Said("tool", part.model_response(), answers=part.tool_call_id, tool=part.tool_name))
        elif isinstance(part, UserPromptPart) and listed:
            contents = [part.content] if isinstance(part.content, str) else part.content
            beside = [content for content in contents if content in late]
            listed[-1] = listed[-1]._replace(beside="\n\n".join(map(str, beside)))
    return listed


def _arguments_of(call: ToolCallPart) -> str:
    """Return the JSON that a model wrote, which may be anything."""
    return call.args if isinstance(call.args, str) else call.args_as_json_str()


def _sendable(text: str) -> str:
    """Return a text without half characters, which no server takes."""
    return text.encode("utf-8", "replace").decode()
