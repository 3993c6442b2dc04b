"""Markdown of memories as HTML. A memory is hostile text: its HTML is shown as text, images become links, and what
comes out is cleaned once more."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping, Sequence
from functools import cache
from typing import Any
from urllib.parse import quote, unquote

import nh3
from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup

_TAGS = {
    *("p", "br", "hr", "h1", "h2", "h3", "h4", "h5", "h6", "ul", "ol", "li", "blockquote", "pre", "code", "em"),
    *("strong", "s", "del", "a", "table", "thead", "tbody", "tr", "th", "td"),
}
_BLOCKS = ("p", "li", "h1", "h2", "h3", "h4", "h5", "h6", "blockquote", "td", "th")
_ATTRIBUTES = {"a": {"href", "title"}, "ol": {"start"}, "code": {"class"}} | {tag: {"dir"} for tag in _BLOCKS}
_WEB = ("http://", "https://", "mailto:")
_MOST = 64 * 1024  # characters that are rendered; hostile ones take up to two seconds

Link = Callable[[str], str]  # the address of a memory, by its path; "" when it is none


@cache
def _parser() -> MarkdownIt:
    made = MarkdownIt("commonmark", {"html": False, "linkify": False}).enable(["table", "strikethrough"])
    made.core.ruler.push("memsheaf", lambda state: _prepare(state.tokens, state.env))
    return made


def render_markdown(text: str, link: Link = lambda path: "") -> Markup:
    """Render a text; `link` gives the address of another memory. A very long text is shown as it is."""
    if len(text) > _MOST:
        return Markup('<pre dir="auto" tabindex="0">{}</pre>').format(text)
    html = _parser().render(text, {"link": link})
    schemes = {"http", "https", "mailto"}
    return Markup(nh3.clean(html, tags=_TAGS, attributes=_ATTRIBUTES, url_schemes=schemes))


def _prepare(tokens: Sequence[Token], env: MutableMapping[str, Any]) -> None:
    """Let each block find its direction, shift headings below the page's own, and rewrite links and images."""
    for token in tokens:
        if token.type == "heading_open" or token.type == "heading_close":
            token.tag = f"h{min(6, int(token.tag[1]) + 2)}"
        if token.nesting == 1 and token.tag in _BLOCKS:
            token.attrSet("dir", "auto")
        for child in token.children or ():
            if child.type == "image":
                _as_link(child, env["link"])
            elif child.type == "link_open":
                child.attrSet("href", _address(str(child.attrGet("href") or ""), env["link"]))


def _as_link(image: Token, link: Link) -> None:
    """An image would be fetched: its text stays, with where it is."""
    address = str(image.attrGet("src") or "")
    image.type, image.tag, image.nesting = "text", "", 0
    image.content = f"{image.content} ({unquote(address)})" if address else image.content
    image.children = None


def _address(href: str, link: Link) -> str:
    """Return where a link may lead: to the web, or to another memory."""
    if href.lower().startswith(_WEB):
        return href
    path, _, _ = unquote(href).partition("#")
    return link(path) if path.endswith(".md") else "#"


def memory_link(key: str, path: str) -> str:
    """The address of a memory's page.

    >>> memory_link("user", "user_a b?.md")
    '/memory/user/user_a%20b%3F.md'
    """
    return f"/memory/{quote(key, safe='~')}/{quote(path, safe='/')}"
