"""Results in the shape of the MCP protocol, for any transport."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from memsheaf.errors import NotFound
from memsheaf.mcp.offer import MARKDOWN, PROMPTS, Confirmation, Offer, Progress, Reply, structured
from memsheaf.mcp.protocol import FORM, STRUCTURED, text

TYPE_CHECKING = False  # known to type checkers by this name; `typing` is slow to import
if TYPE_CHECKING:
    from typing import Any

    Params = Mapping[str, Any]
    Result = dict[str, Any]
else:
    Params = Result = dict


URI_CHARACTERS = 10_000  # no path has more, each byte of it written as %XX


def called(offer: Offer, params: Params, reply: Reply | None, progress: Progress) -> Result:
    """Run a tool; with `reply`, what a person said about it counts."""
    name = params["name"]
    answer = offer.call(name, params.get("arguments"), reply=reply, progress=progress)
    listing = structured(answer.rows) if answer.rows is not None and name in STRUCTURED else None
    return text(answer.text, failed=answer.failed, structured=listing)


def replied(params: Params) -> Reply | None:
    """What the person said, when this is the second time that a client of the modern era asks.

    The state that comes back is what the question was about. It is compared with the memory as it is now; whoever
    makes one up has said yes for the person, which a client could do anyway.
    """
    answered, state = params.get("inputResponses"), params.get("requestState")
    if not isinstance(answered, dict) or not isinstance(answered.get("confirm"), dict):
        return None
    return Reply(str(answered["confirm"].get("action")), state if isinstance(state, str) else "")


def form(question: Confirmation) -> Result:
    """What a client is to put before its user."""
    return {"mode": "form", "message": question.message, "requestedSchema": FORM}


def asking(question: Confirmation) -> Result:
    """An answer of the modern era that asks: the client calls again with what its user said."""
    wanted = {"confirm": {"method": "elicitation/create", "params": form(question)}}
    return {"resultType": "input_required", "inputRequests": wanted, "requestState": question.about}


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


def completion(offer: Offer, params: Params, progress: Progress) -> Result:
    """What may stand in an argument that was begun."""
    reference, argument = params["ref"], params["argument"]
    name = reference.get("name") or str(reference.get("uri")).partition("{")[0]
    values, total = offer.complete(name, argument["name"], argument["value"])
    return {"completion": {"values": values, "total": total, "hasMore": total > len(values)}}


ANSWERED: Mapping[str, Callable[[Offer, Params, Progress], Result]] = {
    "resources/list": resources,
    "resources/read": read,
    "prompts/get": prompt,
    "completion/complete": completion,
}
"""What needs the memories, and is no tool."""
