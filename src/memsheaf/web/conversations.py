"""Conversations that were kept: a list, search, one as a dialogue, and what it taught."""

from __future__ import annotations

from urllib.parse import quote

from starlette.responses import Response

from memsheaf.chat.all_conversations import TURNS, find_conversation, is_kept, list_all, list_lessons, read_turns
from memsheaf.recall.turns import split_label
from memsheaf.web.page import PageRequest, get
from memsheaf.work.all_scopes import AllScopes

LISTED = 50


def conversation_link(scopes: AllScopes, label: str) -> str:
    """The address of the turn that a header names; "" when that conversation is not kept."""
    id, turn = split_label(label)
    at = f"&turn={turn}#turn-{turn}" if turn else ""
    return f"/conversations/one?id={quote(id, safe='')}{at}" if is_kept(scopes, id) else ""


@get("/conversations")
def conversations(page: PageRequest) -> Response:
    """Those that were gone on with last, or that have some words."""
    limit = LISTED * page.number("page", most=20)
    found = list_all(page.scopes, query=page.query["q"], limit=limit + 1)
    return page.show("conversations.html", found=found[:limit], more=len(found) > limit)


@get("/conversations/one")
def conversation(page: PageRequest) -> Response:
    """One conversation, the part around a turn."""
    one = find_conversation(page.scopes, page.query["id"])
    turns = read_turns(page.scopes, one, around=page.number("turn"))
    lessons = list_lessons(page.scopes, one)
    return page.show("conversation.html", one=one, turns=turns, lessons=lessons, most=TURNS)
