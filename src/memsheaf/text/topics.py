"""Descriptions as earlier versions made them: "When it is about deploy, Fridays, standup", in six languages."""

from __future__ import annotations

import re

from memsheaf.memory import Memory
from memsheaf.text.summary import make_description

_TOPICS = (
    r"(?:When it is about |Wenn es um |Quand il s'agit de |Cuando se trata de |涉及)(.+?)(?: geht|时)?…?|(.+)のとき…?"
)


def lists_topics(memory: Memory) -> bool:
    """Return True if an earlier version described a memory by words of its text.

    An agent's description stands. One that was extracted or imported may be a model's: only the old rules took all
    their words from the text.
    """
    listed = re.fullmatch(_TOPICS, memory.page.get("description"))
    if not listed or memory.source == "agent":
        return False
    is_by_person = memory.source == "user" and not memory.changed_by
    said = f"{memory.name}\n{memory.body}"
    return is_by_person or all(topic in said for topic in (listed[1] or listed[2]).split(", "))


def shown_description(memory: Memory) -> str:
    """Return the description of a memory, or its first sentence where an earlier version listed topics instead."""
    return make_description(memory.body) if lists_topics(memory) else memory.description
