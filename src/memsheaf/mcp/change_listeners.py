"""What a client of the stdio server wants to be told: subscriptions of the handshake, streams of later versions."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from memsheaf.mcp.protocol import LISTEN_KEY, LISTENED

if TYPE_CHECKING:
    from memsheaf.mcp.offer import ResourceChange

    Message = dict[str, Any]

UPDATED, LIST_CHANGED = "notifications/resources/updated", "notifications/resources/list_changed"


class ChangeListeners:
    """Who is told what changed: `subscribed` addresses, and `streams` by the id of the request that opened them."""

    def __init__(self, notify: Callable[[str, Message], None]) -> None:
        self.subscribed: set[str] = set()
        self.streams: dict[object, Message] = {}
        self._notify = notify

    def open_stream(self, number: object, wanted: Message) -> None:
        """Acknowledge what a client of the modern era wants to be told, and tell it from now on."""
        uris = wanted.get("resourceSubscriptions")
        honoured: Message = {key: True for key in LISTENED if wanted.get(key) is True}
        if isinstance(uris, list) and uris:
            honoured["resourceSubscriptions"] = [uri for uri in uris if isinstance(uri, str)]
        told = {"notifications": honoured, "_meta": {LISTEN_KEY: number}}
        self._notify("notifications/subscriptions/acknowledged", told)
        self.streams[number] = honoured

    def announce(self, change: ResourceChange, *, has_listed: bool) -> None:
        """Tell what changed.

        A client of the handshake hears of the list once it `has_listed` resources, or subscribed to one: the Python
        client up to 1.5.0 blocks on notifications that nobody reads.
        """
        for uri in self.subscribed.intersection(change.uris):
            self._notify(UPDATED, {"uri": uri})
        if change.listed and (self.subscribed or has_listed):
            self._notify(LIST_CHANGED, {})
        for number, wanted in list(self.streams.items()):
            meta = {"_meta": {LISTEN_KEY: number}}
            for uri in set(change.uris).intersection(wanted.get("resourceSubscriptions", ())):
                self._notify(UPDATED, {"uri": uri} | meta)
            if change.listed and wanted.get("resourcesListChanged"):
                self._notify(LIST_CHANGED, meta)
