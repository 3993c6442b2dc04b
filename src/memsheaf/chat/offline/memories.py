"""Turns and memories as the offline talker reads them out of a conversation."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from memsheaf.chat.offline.requests import remove_hollow
from memsheaf.frontmatter import split
from memsheaf.index.database import Row
from memsheaf.llm.model import Said
from memsheaf.text.tokenizer import is_weak, words
from memsheaf.values import parse_object

CALL_PREFIX = "offline-"  # of the ids of calls that the offline talker made
NOT_RUN = Said("tool", "Error: it was not run.")
_ROW = r"(?m)^(\S[^\n]*?)  \[[^\]\n]*\]  [^\n]*?  \(updated: [^)\n]*\)"
_TABS_OR_SPACES = (
    r"(?i)(?P<tabs>\btabs?\b|tabulat|制表符|タブ)|\b(?:spaces|leerzeichen|espaces|espacios)\b|空格|スペース"
)


class PastTurn(NamedTuple):
    """A turn: the user's text, the files recalled beside it, the answers to each round of calls, the files saved."""

    text: str
    recalled: list[str]
    rounds: list[list[Said]]
    saved: list[str]


class ShownMemory(NamedTuple):
    """A memory as a tool showed it; `day` is when it was changed."""

    file: str
    type: str
    day: str
    name: str
    body: str

    @property
    def words(self) -> str:
        """All of it, to look for words in."""
        return f"{self.file}\n{self.name}\n{self.body}"

    @property
    def indentation(self) -> str:
        """The indentation that it names first, tabs or spaces; "" where it names none."""
        match = re.search(_TABS_OR_SPACES, self.body)
        if not match:
            return ""
        return "\t" if match["tabs"] else "    "

    def render(self) -> str:
        """Return the memory for a person: its file, its type and day, its text."""
        about = ", ".join(filter(None, (self.type, self.day)))
        text = self.body.replace("\n", "\n  ")
        return f"- {self.file}{f' ({about})' if about else ''}: {text}"


class MemoryChanges(NamedTuple):
    """Changes of memory without a tool, because the user explicitly asked for them.

    `undo` takes the last change back and says so. `offer` gives the memories of some types, or all, by scope, and
    `forget` deletes those that were offered last.
    """

    undo: Callable[[], str]
    offer: Callable[[Sequence[str]], Mapping[str, Sequence[Row]]]
    forget: Callable[[], Mapping[str, Sequence[Row]]]


def find_files(answer: str) -> list[str]:
    """Return the files that `memory_list` or `memory_search` named."""
    return re.findall(_ROW, answer)


def read_shown(file: str, answer: str) -> ShownMemory:
    """Return the memory that `memory_read` gave."""
    page = split(answer)
    day = page.get("updated") or page.get("created") or ""
    return ShownMemory(file, page.get("type") or "", day, page.get("name") or "", page.body.strip("\n"))


def touched_file(answer: Said, action: str) -> str:
    """Return the file that a tool did this to, or found in its way; "" for none."""
    return next((each.path for each in answer.touched if each.action == action), "")


def share_words(subject: str, text: str) -> float:
    """Return the share of a subject's words that a text has: 1 for all of them.

    Words of the request itself and of any talk do not count. A subject without spaces is compared by pairs of
    characters, some of which reach over the end of a word: there a fifth may be missing.

    >>> share_words("the auth service decision", "Auth runs on PostgreSQL."), share_words("tea", "Coffee")
    (0.5, 0.0)
    """
    telling = {word for word in words(remove_hollow(subject)) if not is_weak(word)} or set(words(subject))
    shared = len(telling.intersection(words(text)))
    pairs = [word for word in telling if "\u3040" <= word[0] <= "\u9fff"]
    return min(1.0, (shared + len(pairs) // 5) / len(telling)) if shared else 0.0


def split_turns(conversation: Sequence[Said]) -> list[PastTurn]:
    """Return the turns of a conversation."""
    turns: list[list[Said]] = []
    for message in conversation:
        if message.role == "user":
            turns.append([message])
        elif turns:
            turns[-1].append(message)
    return [_read_turn(turn) for turn in turns]


def _read_turn(turn: Sequence[Said]) -> PastTurn:
    answers = {message.answers: message for message in turn if message.role == "tool"}
    asking = [message.calls for message in turn if message.role == "assistant" and message.calls]
    own = [calls for calls in asking if all(call.id.startswith(CALL_PREFIX) for call in calls)]
    rounds = [[answers.get(call.id, NOT_RUN) for call in calls] for calls in own]
    saved = [file for answer in answers.values() if (file := touched_file(answer, "saved"))]
    return PastTurn(turn[0].text, find_recalled(turn[0].beside), rounds, saved)


def find_recalled(beside: str) -> list[str]:
    """Return the files of the memories that stand beside a message.

    A text cannot know the mark of the envelopes around it, so it adds no file to them.
    """
    mark = re.search(r"(?m)^<memories-([0-9a-z]{8,64})>$", beside)
    return re.findall(rf'(?m)^<memory-{mark[1]} file="([^"\n]*)"', beside) if mark else []


def find_seen_files(conversation: Sequence[Said]) -> dict[str, str]:
    """Return the files that tools read or wrote, by their names without a scope: to write one again replaces it."""
    arguments = [parse_object(call.arguments) or {} for message in conversation for call in message.calls]
    named = [each["filename"] for each in arguments if isinstance(each.get("filename"), str)]
    touched = [each.path for message in conversation for each in message.touched]
    return {file.rpartition(":")[2]: file for file in (*named, *touched)}
