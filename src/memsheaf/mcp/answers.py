"""Results in the shape of the MCP protocol, for any transport."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from memsheaf.errors import NotFound
from memsheaf.mcp.offer import MARKDOWN, PROMPTS, Offer, Progress
from memsheaf.mcp.protocol import text

Params = Mapping[str, Any]
Result = dict[str, Any]

URI_CHARACTERS = 10_000  # no path has more, each byte of it written as %XX


def called(offer: Offer, params: Params, progress: Progress) -> Result:
    """Run a tool."""
    answer = offer.call(params["name"], params.get("arguments"), progress=progress)
    return text(answer.text, failed=answer.failed)


def resources(offer: Offer, params: Params, progress: Progress) -> Result:
    """A page of what can be read."""
    found, following = offer.resources(params.get("cursor") or "")
    shown = [one._asdict() | {"mimeType": MARKDOWN} for one in found]
    return {"resources": shown} | ({"nextCursor": following} if following else {})


def read(offer: Offer, params: Params, progress: Progress) -> Result:
    """The text of a resource."""
    uri = params["uri"]
    if len(uri) > URI_CHARACTERS:  # before anything reads it
        raise NotFound(uri[:100] + "…")
    return {"contents": [{"uri": uri, "mimeType": MARKDOWN, "text": offer.read(uri)}]}


def prompt(offer: Offer, params: Params, progress: Progress) -> Result:
    """What a prompt says, on the user's side."""
    said = offer.prompt(params["name"], params.get("arguments") or {}, progress=progress)
    message = {"role": "user", "content": {"type": "text", "text": said}}
    return {"description": PROMPTS[params["name"]][0], "messages": [message]}


ANSWERED: Mapping[str, Callable[[Offer, Params, Progress], Result]] = {
    "resources/list": resources,
    "resources/read": read,
    "prompts/get": prompt,
}
"""What needs the memories, and is no tool."""
