"""A conversation as the offline talker hears it: turns with what was said and answered, and a talk taken up again.

A talk is a generator: it yields calls of tools, is sent their answers, and returns what is to be said. Nothing is
kept between two steps: a talk begins anew each time, and is sent the answers that the conversation holds.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Sequence

from memsheaf.chat.offline.requests import Wanted
from memsheaf.llm.talker import Said
from memsheaf.values import NamedTuple

OURS = "offline-"
"""How the calls are known that were made here."""

_NOT_RUN = Said("tool", "Error: it was not run.")

Ask = tuple[str, dict[str, object]]
"""A tool and its arguments."""


class Pending(NamedTuple):
    """A question that was left to the user: which of these files is to be forgotten, or is corrected by `wanted`."""

    wanted: Wanted
    files: tuple[str, ...]


class Outcome(NamedTuple):
    """What is said at the end of a turn, and the question that it leaves."""

    text: str
    pending: Pending | None = None


Talk = Generator[list[Ask], Sequence[Said], Outcome]


class Heard(NamedTuple):
    """One turn: what the user said, what stood beside it, and the answers of each round of calls that were made here.

    `saved` are the files that were written in it, and `seen` those that were written or read. What comes beside later
    messages of a turn is left out: it must not change what was done before it came.
    """

    text: str
    beside: str
    rounds: tuple[tuple[Said, ...], ...]
    saved: tuple[str, ...]
    seen: frozenset[str]


def heard(conversation: Sequence[Said]) -> list[Heard]:
    """A conversation as turns."""
    turns: list[list[Said]] = []
    for said in conversation:
        if said.role == "user":
            turns.append([said])
        elif turns:
            turns[-1].append(said)
    return [_heard(turn) for turn in turns]


def _heard(turn: list[Said]) -> Heard:
    answers = {said.answers: said for said in turn if said.role == "tool"}
    asking = [said.calls for said in turn if said.role == "assistant" and said.calls]
    ours = [calls for calls in asking if all(call.id.startswith(OURS) for call in calls)]
    rounds = tuple(tuple(answers.get(call.id, _NOT_RUN) for call in calls) for calls in ours)
    written = (said for said in turn if said.tool == "memory_write")
    saved = tuple(path for said in written if (path := touched(said, "saved")))
    read = [_file(call.arguments) for calls in asking for call in calls if call.tool == "memory_read"]
    return Heard(turn[0].text, turn[0].beside, rounds, saved, frozenset([*saved, *filter(None, read)]))


def touched(answer: Said, action: str) -> str:
    """The file that a tool did this to, or found in its way; "" for none."""
    return next((one.path for one in answer.touched if one.action == action), "")


def _file(arguments: str) -> str:
    """The file that a call names."""
    try:
        given = json.loads(arguments)
    except ValueError:
        return ""
    name = given.get("filename") if isinstance(given, dict) else ""
    return name if isinstance(name, str) else ""


def resumed(talk: Talk, rounds: Sequence[Sequence[Said]]) -> list[Ask] | Outcome:
    """What comes after these rounds of answers."""
    try:
        asking = next(talk)
        for answers in rounds:
            missing = [_NOT_RUN] * (len(asking) - len(answers))
            asking = talk.send([*answers, *missing][: len(asking)])
    except StopIteration as ended:
        outcome: Outcome = ended.value
        return outcome
    return asking
