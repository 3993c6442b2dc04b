"""Microsoft's Agent Framework with memsheaf as a context provider: what one session was told, the next one knows.

No key and no network: a script answers in the place of a model. All else is the framework's own.
Needs: pip install 'memsheaf[agent-framework]'
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

try:
    from agent_framework import (
        Agent,
        BaseChatClient,
        ChatMiddlewareLayer,
        ChatResponse,
        FunctionInvocationLayer,
        Message,
    )
except ImportError as error:
    sys.exit(f"this example needs Microsoft's Agent Framework: pip install 'memsheaf[agent-framework]' ({error})")

from memsheaf import Settings
from memsheaf.adapters.agent_framework import MemoryProvider


class Scripted(FunctionInvocationLayer, ChatMiddlewareLayer, BaseChatClient):
    """Says one line a request, and shows what it was given to read."""

    def __init__(self, *script: str) -> None:
        super().__init__()
        self._script = list(script)

    async def _inner_get_response(
        self, *, messages: Sequence[Message], stream: bool, options: Mapping[str, Any], **_: Any
    ) -> ChatResponse:
        for message in messages:
            print(f"  the model reads: {message.text!r}")
        print(f"  and has {len(options['tools'])} tools")
        return ChatResponse(messages=[Message("assistant", [self._script.pop(0)])])


async def converse(settings: Settings) -> None:
    """Two sessions, with nothing in common but the memory."""
    client = Scripted("Noted.", "On Fridays.")
    for number, said in enumerate(("Remember that our releases go out on Fridays.", "When do releases go out?"), 1):
        print(f"\nSession {number}\n> {said}")
        with MemoryProvider("user", settings=settings) as memory:
            agent = Agent(client, instructions="You are a helpful release manager.", context_providers=[memory])
            print(await agent.run(said, session=agent.create_session()))


def main() -> None:
    """Run it on a memory that is thrown away."""
    with tempfile.TemporaryDirectory(prefix="memsheaf-example-") as folder:
        settings = Settings(f"{folder}/home", f"{folder}/cache", state=f"{folder}/state")  # yours, when left out
        asyncio.run(converse(settings))


if __name__ == "__main__":
    main()
