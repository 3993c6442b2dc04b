"""Memories into a prompt: the stable part, which stays byte for byte the same while no memory changes."""

from __future__ import annotations

import os
from functools import cache

from memsheaf.guard.text import cut_bytes, for_prompt

CONTEXT = "CONTEXT.md"
CONTEXT_BYTES = 16_384

_PROMPTS = os.path.join(os.path.dirname(os.path.dirname(__file__)), "prompts")


@cache
def words(name: str) -> str:
    """One of the texts in `prompts/`."""
    with open(os.path.join(_PROMPTS, f"{name}.md"), encoding="utf-8") as file:
        return file.read()


def stable(*, scope: str, catalog: str, context: str, offer: str) -> str:
    """The section for a system prompt: how to use memory, the catalog, and CONTEXT.md in full.

    `offer` says which tools the agent has: `all`, only those for `reading`, or `none`.
    """
    protocol = words({"all": "protocol", "reading": "reading", "none": "passive"}[offer])
    shown = catalog.removeprefix("# Memory\n").strip("\n")  # its lines are neutral already
    text = protocol.replace("{scope}", scope).replace("{catalog}", shown)
    return text + _persistent(context) if context.strip() else text


def _persistent(context: str) -> str:
    shown = for_prompt(context.strip("\n"))
    size = len(shown.encode())
    if size > CONTEXT_BYTES:
        shown = cut_bytes(shown, CONTEXT_BYTES)
        shown += (
            f"\n\n({CONTEXT} is cut here: {CONTEXT_BYTES:,} of {size:,} bytes are shown. Read the file for the rest.)"
        )
    return f"\n# Persistent Memory\n\n{shown}\n"
