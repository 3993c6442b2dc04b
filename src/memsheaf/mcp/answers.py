"""Results in the shape of the MCP protocol, for any transport."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

from memsheaf.errors import NotFound, Refused, hinted
from memsheaf.mcp.offer import FILE, MARKDOWN, PROMPTS, Confirmation, Offer, Progress, Reply
from memsheaf.mcp.protocol import FORM, text
from memsheaf.text.neutralize import one_line

TYPE_CHECKING = False  # known to type checkers by this name; `typing` is slow to import
if TYPE_CHECKING:
    from typing import Any

    Params = Mapping[str, Any]
    Result = dict[str, Any]
else:
    Params = Result = dict


URI_CHARACTERS = 10_000  # no path has more, each byte of it written as %XX
_keys = [os.urandom(32)]  # of this process: a question that another one asked has to be asked again


def share_key(key: bytes) -> None:
    """Answer questions that others asked who know this key."""
    _keys[0] = key


def called(offer: Offer, params: Params, reply: Reply | None, progress: Progress) -> Result:
    """Run a tool; with `reply`, what a person said about it counts."""
    answer = offer.call(params["name"], params.get("arguments"), reply=reply, progress=progress)
    return text(answer.text, failed=answer.failed)


def replied(params: Params) -> Reply | None:
    """What the person said, when this is the second time that a client of the modern era asks.

    Raises Refused when the state that comes with it is not the one that came with the question.
    """
    answered, state = params.get("inputResponses"), params.get("requestState")
    confirmed = answered.get("confirm") if isinstance(answered, dict) else None
    if confirmed is None and state is None:
        return None
    about = str(state).partition(" ")[2]
    if state != _request_state(params["name"], about):
        raise hinted(Refused("requestState is not the one that came with the question"), "Call without it.")
    return Reply(str(confirmed.get("action")), about) if isinstance(confirmed, dict) else None


def _request_state(tool: str, about: str) -> str:
    """What a question is about, with a mark that only this process can make."""
    import hmac

    return f"{hmac.digest(_keys[0], f'{tool} {about}'.encode('utf-8', 'replace'), 'sha256').hex()} {about}"


def form(question: Confirmation) -> Result:
    """What a client is to put before its user."""
    return {"mode": "form", "message": question.message, "requestedSchema": FORM}


def asking(tool: str, question: Confirmation) -> Result:
    """An answer of the modern era that asks: the client calls again with what its user said."""
    wanted = {"confirm": {"method": "elicitation/create", "params": form(question)}}
    state = _request_state(tool, question.about)
    return {"resultType": "input_required", "inputRequests": wanted, "requestState": state}


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
    of = reference["name"] if reference["type"] == "ref/prompt" else FILE
    if of == FILE and not reference["uri"].startswith(FILE):
        raise Refused(f"there is no template {one_line(reference['uri'], 60)!r}")
    values, total = offer.complete(of, argument["name"], argument["value"])
    return {"completion": {"values": values, "total": total, "hasMore": total > len(values)}}


ANSWERED: Mapping[str, Callable[[Offer, Params, Progress], Result]] = {
    "resources/list": resources,
    "resources/read": read,
    "prompts/get": prompt,
    "completion/complete": completion,
}
"""What needs the memories, and is no tool."""
