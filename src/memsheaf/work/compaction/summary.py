"""The summary of messages that are taken out whole: the session notes, or a model's bullets, or neither.

Notes that somebody wrote need no model. A model is asked once, in a schema, with a time limit; it sees the messages
as data, without secrets, and the last ones where there are too many. Without notes and model, the bullets that
compaction makes itself have to do.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from memsheaf.errors import ModelFailed
from memsheaf.guard.secrets import without_secrets
from memsheaf.llm import Model, Question, answer
from memsheaf.prompts import read_prompt
from memsheaf.recall.turns import TranscriptEntry
from memsheaf.text.neutralize import cut_bytes, for_prompt, one_line
from memsheaf.values import NamedTuple
from memsheaf.work.compaction.messages import is_text, size, tokens

# Notes serve instead of a model when what they stand for has so many tokens, and so many messages with text.
RICH_TOKENS, RICH_TEXTS = 10_000, 5
NOTES_MOST = 40_000  # tokens of notes that are taken in at most
WAIT = 15.0  # seconds that a model has
LEAST = 500  # with less room than so many tokens a model is not asked
BULLETS, BULLET = 20, 300  # how many a model may give, and how many characters of each are taken
SHOWN, SHOWN_EACH, SHOWN_TOOL = 160_000, 4_000, 300  # bytes that a model is shown: of all, of a message, of a tool

_SCHEMA = {
    "type": "object",
    "properties": {"bullets": {"type": "array", "maxItems": BULLETS, "items": {"type": "string"}}},
    "required": ["bullets"],
    "additionalProperties": False,
}


class Summary(NamedTuple):
    """A summary: its text, where it is from (`notes`, `model` or ""), and what went wrong with a model."""

    text: str = ""
    source: str = ""
    problem: str = ""


NO_SUMMARY = Summary()


def summarize(
    entries: Sequence[TranscriptEntry], room: int, *, notes: str, model: Model | None, wait: float = WAIT
) -> Summary:
    """What stands for these messages, in at most `room` tokens."""
    has_notes = bool(re.search(r"\w", re.sub(r"(?s)<!--.*?-->", "", notes)))
    rich = sum(tokens(one.text) for one in entries) >= RICH_TOKENS and sum(map(is_text, entries)) >= RICH_TEXTS
    problem = ""
    if model is not None and room >= LEAST and not (has_notes and rich):
        try:
            return Summary(_enveloped("summary", "\n".join(_asked(entries, model, wait)), room), "model")
        except ModelFailed as error:
            problem = f"{model.name}: {error}"
    text = _enveloped("session-notes", notes, room) if has_notes else ""
    return Summary(text, "notes" if text else "", problem)


def _enveloped(name: str, text: str, room: int) -> str:
    """The text between marks it cannot close, cut to what there is room for; "" when that is too little."""
    shown = for_prompt(without_secrets(text).strip())
    most = 4 * min(room, NOTES_MOST) - size(name) * 2 - 16
    if size(shown) > most:
        kept = cut_bytes(shown, most - 40).rpartition("\n")[0] or cut_bytes(shown, most - 40)
        shown = f"{kept}\n({size(shown):,} bytes, cut here)" if most >= LEAST else ""
    return f"<{name}>\n{shown}\n</{name}>\n" if shown else ""


def _asked(entries: Sequence[TranscriptEntry], model: Model, wait: float) -> list[str]:
    """The bullets of a model. Raises ModelFailed."""
    system = read_prompt("compact").replace("{most}", str(BULLETS))
    said = answer(model, Question(system, _dialogue(entries), _SCHEMA, max_tokens=2_000), wait)
    bullets = said.get("bullets") if isinstance(said, dict) else None
    if not isinstance(bullets, list) or not all(isinstance(one, str) for one in bullets):
        raise ModelFailed("its answer is not a list of bullets")
    lines = [line for one in bullets[:BULLETS] if (line := one_line(one.lstrip("-*• "), BULLET))]
    if not lines:
        raise ModelFailed("its answer says nothing")
    return [f"- {line}" for line in lines]


def _dialogue(entries: Sequence[TranscriptEntry]) -> str:
    """What a model is shown: the messages between marks that no text can know, the last ones if need be."""
    nonce = os.urandom(8).hex()
    shown: list[str] = []
    room = SHOWN
    for number, entry in reversed(list(enumerate(entries, 1))):
        most = SHOWN_TOOL if entry.role == "tool" else SHOWN_EACH
        text = cut_bytes(for_prompt(without_secrets(cut_bytes(entry.text, 16 * most))), most)
        part = f"<message-{nonce} number={number} from={entry.role}>\n{text}\n</message-{nonce}>"
        room -= size(part)
        if room < 0:
            shown.append(f"({number} earlier messages are not shown)")
            break
        shown.append(part)
    return "\n".join(reversed(shown))
