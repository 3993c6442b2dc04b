"""Memory for a pydantic-ai agent in one line: instructions, recall, tools and learning.

    agent = Agent("anthropic:claude-sonnet-4-5", capabilities=[Memory("project", "user")])

The catalog stands in the instructions. What is recalled for a prompt stands beside it, for the model alone: the
message history stays as it was said. A finished turn is kept, and learned from beside the agent.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from memsheaf.adapters import missing
from memsheaf.adapters.background import Distiller, going_on
from memsheaf.config import Settings
from memsheaf.llm import Model
from memsheaf.recall.session import Session
from memsheaf.recall.turns import Message, Turn
from memsheaf.scope import Scope
from memsheaf.sheaf import Sheaf
from memsheaf.tools import READING, Tools

try:
    import anyio.to_thread
    from pydantic_ai import DeferredToolRequests, RunContext, ToolDefinition
    from pydantic_ai.agent import AgentRunResult
    from pydantic_ai.capabilities import AbstractCapability, WrapRunHandler
    from pydantic_ai.messages import (
        BaseToolReturnPart,
        ModelMessage,
        ModelRequest,
        TextContent,
        TextPart,
        UserContent,
        UserPromptPart,
    )
    from pydantic_ai.models import ModelRequestContext
    from pydantic_ai.tools import AgentDepsT
    from pydantic_ai.toolsets import AbstractToolset, ToolsetTool
    from pydantic_core import SchemaValidator, core_schema
except ImportError as error:
    raise missing("pydantic-ai", error) from None

_ANY_ARGUMENTS = SchemaValidator(core_schema.any_schema())  # the tools themselves say what is wrong with them
MAX_RETRIES = 10  # of a call whose arguments are no JSON
MAX_CONVERSATIONS = 256  # an older one starts over, and may repeat a memory


class Memory(AbstractCapability[AgentDepsT]):
    """The memory of one scope or several, the home scope first; or of an open `Sheaf`, which its owner closes.

    `tree` is the folder of the work: the project that is meant, and where citations are looked up. A `read_only`
    memory, or one of a sheaf that was opened so, is for sub-agents: it offers the tools that read, and learns
    nothing. The first request of a run waits `patience` seconds for what is recalled; with a `selector`, a model that
    chooses, it may come later, and is there at the next step. Without `distil`, turns wait for `sheaf.distil()` or
    `memsheaf learn`.
    """

    def __init__(
        self,
        *scopes: Scope | str | Sheaf,
        settings: Settings | None = None,
        tree: str = "",
        read_only: bool = False,
        selector: Model | None = None,
        patience: float = 1.0,
        distil: bool = True,
        id: str | None = None,
    ) -> None:
        given = [scope for scope in scopes if isinstance(scope, Sheaf)]
        if given and len(scopes) > 1:
            raise ValueError("one sheaf covers several scopes: Sheaf.open(scopes=[...])")
        if given and read_only and not given[0].read_only:
            raise ValueError("a sheaf is made read-only when it is opened: Sheaf.open(scope, read_only=True)")
        self.id = id
        self.patience = patience
        self._is_owner = not given
        if given:
            self._sheaf = given[0]
        else:
            names = [str(scope) for scope in scopes or ("project",)]
            self._sheaf = Sheaf.open(scopes=names, settings=settings, cwd=tree, read_only=read_only)
            self._sheaf.open_scopes()  # a scope that cannot be opened fails here, not during a run
        self._distiller = Distiller(self._sheaf) if distil else None
        self._tree = tree
        self._selector = selector
        self._guard = threading.Lock()
        self._conversations: dict[str, RunConversation] = {}

    async def for_run(self, ctx: RunContext[AgentDepsT]) -> AbstractCapability[AgentDepsT]:
        """Return the capability for one run, with nothing that another run sees."""
        return MemoryRun(self)

    def close(self) -> None:
        """Wait until what was said is learned, and close what was opened here. Nothing is lost without."""
        if self._distiller:
            self._distiller.wait()
        if self._is_owner:
            self._sheaf.close()

    def __enter__(self) -> Memory[AgentDepsT]:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def take(self, conversation: str) -> RunConversation:
        """Return a conversation for one run alone; the run gives it back when it ends.

        A second run of the same conversation at the same time gets a fresh one.
        """
        with self._guard:
            known = self._conversations.pop(conversation, None)
        if known:
            return known
        return RunConversation(self._sheaf, self._sheaf.session(model=self._selector, tree=self._tree))

    def give_back(self, name: str, conversation: RunConversation) -> None:
        """Know a conversation again; of many, those that went on last."""
        with self._guard:
            self._conversations[name] = conversation
            while len(self._conversations) > MAX_CONVERSATIONS:
                del self._conversations[next(iter(self._conversations))]

    def learn(self, session: Session, turn: Turn) -> None:
        """Keep a turn, and learn from it in the background. A read-only memory learns nothing."""
        if not self._sheaf.read_only and session.learn(turn) and self._distiller:
            self._distiller.start()


class RunConversation:
    """The session and tools of one conversation, and what was recalled for each prompt, by the id of its run."""

    def __init__(self, sheaf: Sheaf, session: Session) -> None:
        self.session = session
        self.tools = Tools(sheaf, session=session)
        self.recalled: dict[str, str] = {}
        self.has_saved = False
        self.own_calls: set[str] = set()

    def begin_turn(self) -> None:
        """Forget the tool calls of the turn before; the user said something new."""
        self.has_saved = False
        self.own_calls.clear()


class MemoryRun(AbstractCapability[AgentDepsT]):
    """One run of an agent with a memory. Its turn is named by the run that began with what the user said."""

    def __init__(self, memory: Memory[AgentDepsT]) -> None:
        self.id = memory.id
        self.conversation: RunConversation
        self._memory = memory
        self._patience = memory.patience
        self._is_waiting = False
        self._turn = self._prompt = ""

    async def wrap_run(self, ctx: RunContext[AgentDepsT], *, handler: WrapRunHandler) -> AgentRunResult[Any]:
        """Have the conversation for oneself until the run ends, however it ends."""
        name = ctx.conversation_id or ""
        self.conversation = await anyio.to_thread.run_sync(self._memory.take, name)
        try:
            await anyio.to_thread.run_sync(self._begin, ctx)
            return await handler()
        finally:
            self.conversation.session.cancel()
            self._memory.give_back(name, self.conversation)

    def _begin(self, ctx: RunContext[AgentDepsT]) -> None:
        """Recall for what the user said. A run without a prompt, as after an approval, goes on with a turn."""
        text: str | Sequence[UserContent] = ""
        if ctx.prompt is not None:
            self._turn, text = ctx.run_id or "", ctx.prompt
            self.conversation.begin_turn()
        else:
            for message in reversed(ctx.messages):
                if prompt := _find_prompt(message):
                    self._turn, text = message.run_id or "", prompt.content
                    break
        with going_on("the agent goes on without memory"):
            if ctx.prompt is not None or self._turn not in self.conversation.recalled:
                self.conversation.session.prefetch(_join_words(text))
                self._is_waiting = bool(self._turn)
            self._prompt = self.conversation.session.prompt()

    def get_instructions(self) -> Callable[[], Any]:
        """Return the catalog and how to use it: the same bytes in all requests until a memory changes."""

        async def instructions() -> str:
            return self._prompt

        return instructions

    def get_toolset(self) -> AbstractToolset[AgentDepsT]:
        """Return the memory tools, as far as they are switched on."""
        return MemoryToolset(self)

    async def before_model_request(
        self, ctx: RunContext[AgentDepsT], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """Put what was recalled beside the prompts it was recalled for, in this request and not in the history."""
        if self._is_waiting:
            await anyio.to_thread.run_sync(self._collect, self._patience)
            self._patience = 0.0
        if self.conversation.session.ignoring or not self.conversation.recalled:
            return request_context
        return replace(request_context, messages=_add_recalled(request_context.messages, self.conversation.recalled))

    def _collect(self, wait: float) -> None:
        with going_on("nothing is recalled"):
            recall = self.conversation.session.collect(wait=wait)
            if recall is not None:
                self._is_waiting = False
                if recall.text:
                    self.conversation.recalled[self._turn] = recall.text

    async def after_run(self, ctx: RunContext[AgentDepsT], *, result: AgentRunResult[Any]) -> AgentRunResult[Any]:
        """Keep the turn, unless it waits for an approval and is not over."""
        if not isinstance(result.output, DeferredToolRequests):
            await anyio.to_thread.run_sync(self._learn, ctx.conversation_id or "", result.all_messages())
        return result

    def _learn(self, conversation: str, messages: Sequence[ModelMessage]) -> None:
        with going_on("nothing is learned from this turn"):
            own = self.conversation.own_calls
            turn = Turn(conversation, tuple(_read_turn(messages, self._turn, own)), saved=self.conversation.has_saved)
            self._memory.learn(self.conversation.session, turn)


class MemoryToolset(AbstractToolset[AgentDepsT]):
    """Our tools as pydantic-ai calls them. What goes wrong in a tool is an answer, and is not raised."""

    def __init__(self, run: MemoryRun[AgentDepsT]) -> None:
        self._run = run

    @property
    def id(self) -> str | None:
        """The name that the user gave to the capability."""
        return self._run.id

    async def get_tools(self, ctx: RunContext[AgentDepsT]) -> dict[str, ToolsetTool[AgentDepsT]]:
        """Each tool with its schema; those that change something run one after the other."""
        tools = {}
        for schema in self._run.conversation.tools.schemas():
            name = schema["name"]
            definition = ToolDefinition(
                name=name,
                description=schema["description"],
                parameters_json_schema=schema["input_schema"],
                sequential=name not in READING,
            )
            tools[name] = ToolsetTool(
                toolset=self, tool_def=definition, max_retries=MAX_RETRIES, args_validator=_ANY_ARGUMENTS
            )
        return tools

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[AgentDepsT], tool: ToolsetTool[AgentDepsT]
    ) -> str:
        """Return the answer of a tool."""
        conversation = self._run.conversation
        answer = await anyio.to_thread.run_sync(conversation.tools.call, name, tool_args)
        conversation.own_calls.add(ctx.tool_call_id or "")
        conversation.has_saved |= name not in READING and not answer.startswith("Error:")
        return answer


def _join_words(content: str | Sequence[UserContent]) -> str:
    """Return the words of a prompt, without pictures and files."""
    if isinstance(content, str):
        return content
    texts = (part.content if isinstance(part, TextContent) else part for part in content)
    return "\n".join(text for text in texts if isinstance(text, str))


def _find_prompt(message: ModelMessage) -> UserPromptPart | None:
    return next((part for part in message.parts if isinstance(part, UserPromptPart)), None)


def _add_recalled(messages: Sequence[ModelMessage], recalled: Mapping[str, str]) -> list[ModelMessage]:
    """Return the messages with the recalled text behind its prompt. Those given stay as they are."""
    texts, result = dict(recalled), []
    for message in messages:
        prompt = _find_prompt(message)
        if prompt and isinstance(message, ModelRequest) and (text := texts.pop(message.run_id or "", "")):
            content = prompt.content
            both = f"{content}\n\n{text}" if isinstance(content, str) else [*content, text]
            parts = [replace(part, content=both) if part is prompt else part for part in message.parts]
            message = replace(message, parts=parts)
        result.append(message)
    return result


def _read_turn(messages: Sequence[ModelMessage], turn: str, own_calls: set[str]) -> Iterator[Message]:
    """Yield a turn, from the message that began it to the last, without what our own tools answered.

    Only that prompt is known to be the user's words. Others put messages in their name into a conversation, too:
    such a message counts as something the agent looked at.
    """
    begin = next((place for place, message in enumerate(messages) if turn and message.run_id == turn), len(messages))
    role = "user"
    for number, part in enumerate(part for message in messages[begin:] for part in message.parts):
        name = f"{turn}/{number}"
        if isinstance(part, UserPromptPart):
            yield Message(role, _join_words(part.content), name)
            role = "tool"
        elif isinstance(part, TextPart):
            yield Message("assistant", part.content, name)
        elif isinstance(part, BaseToolReturnPart) and part.tool_call_id not in own_calls:
            yield Message("tool", part.model_response_str(), name)
