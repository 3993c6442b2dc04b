"""Google ADK with memsheaf as its memory service: what one session was told, the next one knows.

No key and no network: a script answers in the place of Gemini. All else is ADK's own.
Needs: pip install 'memsheaf[google-adk]'
"""

from __future__ import annotations

import asyncio
import logging
import sys
import tempfile
from collections.abc import AsyncGenerator

try:
    from google.adk.agents import Agent
    from google.adk.models.base_llm import BaseLlm
    from google.adk.models.llm_request import LlmRequest
    from google.adk.models.llm_response import LlmResponse
    from google.adk.runners import Runner
    from google.adk.sessions import InMemorySessionService
    from google.adk.tools import load_memory, preload_memory
    from google.genai import types
except ImportError as error:
    sys.exit(f"this example needs Google ADK: pip install 'memsheaf[google-adk]' ({error})")

from memsheaf import Settings
from memsheaf.adapters.google_adk import MemoryService


class Scripted(BaseLlm):
    """Says one line a request, and shows what it was given to read."""

    lines: list[str]

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        """The next line."""
        for content in llm_request.contents:
            for part in content.parts or ():
                print(f"  the model reads: {(part.text or '').strip()!r}")
        yield LlmResponse(content=types.Content(role="model", parts=[types.Part(text=self.lines.pop(0))]))


async def converse(settings: Settings) -> None:
    """Two sessions of one user, and a look for another user's."""
    memory, sessions = MemoryService(settings), InMemorySessionService()
    model = Scripted(model="scripted", lines=["Noted.", "On Fridays."])
    agent = Agent(name="helper", model=model, tools=[preload_memory, load_memory])
    runner = Runner(app_name="shop", agent=agent, session_service=sessions, memory_service=memory)
    for number, said in enumerate(("Remember that our releases go out on Fridays.", "When do releases go out?"), 1):
        print(f"\nSession {number}\n> {said}")
        session = await sessions.create_session(app_name="shop", user_id="ana")
        message = types.Content(role="user", parts=[types.Part(text=said)])
        async for event in runner.run_async(user_id="ana", session_id=session.id, new_message=message):
            for part in (event.content and event.content.parts) or ():
                print(part.text)
        ended = await sessions.get_session(app_name="shop", user_id="ana", session_id=session.id)
        if ended:
            await memory.add_session_to_memory(ended)  # now it can be learned from
    found = await memory.search_memory(app_name="shop", user_id="bob", query="releases")
    print(f"\nBob, who told it nothing, finds {len(found.memories)} memories.")
    await runner.close()


def main() -> None:
    """Run it on a memory that is thrown away."""
    logging.disable(logging.WARNING)  # ADK misses the token counts that a script does not have
    with tempfile.TemporaryDirectory(prefix="memsheaf-example-") as folder:
        settings = Settings(f"{folder}/home", f"{folder}/cache", state=f"{folder}/state")  # yours, when left out
        asyncio.run(converse(settings))


if __name__ == "__main__":
    main()
