"""Recall: which memories matter for a message, and why. Gates, candidates, selection.

A pure function: a conversation (`recall/session.py`) says what was shown already and how much room is left, and the
same message to the same memories gives the same recall.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple, Protocol

from memsheaf.errors import MemsheafError, ModelFailed
from memsheaf.gates import LAYER_FILES
from memsheaf.index.database import Match, Row
from memsheaf.index.scoring import SHOWN_FROM, compare_with_nearest
from memsheaf.llm import Model, Question, answer
from memsheaf.memory import Memory
from memsheaf.prompts import read_prompt
from memsheaf.recall.inject import CONTEXT, MEMORY_BYTES, NOTES, Shown, days_between, fit_within, render_recall
from memsheaf.scope import Scope
from memsheaf.text.tokenizer import CUT_INTO_PAIRS, is_weak, words

MAX_MEMORIES = 5  # at once
MAX_CANDIDATES = 50  # of one scope
MAX_OFFERED = 20  # to a model
CONVERSATION_BYTES = 60 * 1024
MESSAGE_BYTES = 9_600  # at once: hosts take 10,000 of a hook, and put more into a file
QUERY_TEXTS = 3
MAX_QUERY_CHARS = 2_000
FOLLOW_UP_WEIGHT = 0.8  # of what fits a message only together with those before it

# What is added to a score, which is at most 1: enough to part equals. The small bonus is for the nearest scope (half
# of it for the next, a third for the one after), for a change in the last week, and for use in the last month.
PINNED_BONUS = 0.04
SMALL_BONUS = 0.02
RECENTLY_CHANGED_DAYS = 7
RECENTLY_USED_DAYS = 30


class RecallSource(Protocol):
    """A scope that memories are recalled from; `OpenScope` is one."""

    scope: Scope

    def matches(self, query: str, *, limit: int) -> Sequence[Match]:
        """Return the memories that match a query, best first."""
        ...

    def best(self, limit: int) -> Sequence[Row]:
        """Return the rows that the catalog lists first."""
        ...

    def newer(self, path: str) -> Row | None:
        """Return the memory that supersedes this one, if there is one."""
        ...

    def read(self, path: str) -> Memory:
        """Return a memory as it is now."""
        ...

    def count_use(self, paths: Sequence[str], message: str) -> None:
        """Count that memories were shown for a message, which is logged unless it is ""."""
        ...

    def caveats(self, memory: Memory) -> Sequence[str]:
        """Return what a reader must know of a memory."""
        ...


class Candidate(NamedTuple):
    """A memory that was considered, and what became of it.

    `likely` says how likely it matters, from 0 to 1, and `score` gives its place among the others. `common` are the
    telling words it shares with the question, `near` how near it is in meaning. `why` says in a sentence why it is
    not recalled, `cut` in a word: `excluded`, whatever it says; `unlikely` to matter; by the `model`; by the `limit`
    of memories or bytes.
    """

    scope: str
    row: Row
    common: float
    near: float
    likely: float
    score: float
    chosen: bool = False
    why: str = ""
    cut: str = ""

    @property
    def version(self) -> tuple[str, str, str]:
        """Return the scope, the path and the hash of this text."""
        return self.scope, self.row.path, self.row.version

    def refuse(self, why: str, cut: str) -> Candidate:
        """Return the candidate as one that is not recalled."""
        return self._replace(chosen=False, why=why, cut=cut)


class Recall(NamedTuple):
    """The memories that were recalled for a message, and why.

    `text` goes beside the user's message and is "" when nothing was recalled. `gate` says why nothing was even
    looked for. `selector` is who chose: `local`, `model`, or `local` with the reason why the model did not.
    `decision` says in a sentence whether the message is about something remembered.
    """

    text: str = ""
    memories: tuple[Shown, ...] = ()
    gate: str = ""
    selector: str = "local"
    query: str = ""
    candidates: tuple[Candidate, ...] = ()
    decision: str = ""

    @property
    def size(self) -> int:
        """Return the number of bytes of the text."""
        return len(self.text.encode())


class Occasion(NamedTuple):
    """The input of a recall besides the memories: the messages of the user, newest last, and what was shown before.

    In `home`, one of the scopes, files are shown by their bare names; "" is the scope of each. `is_query` is for a
    person who asks the memory itself: then a single word is looked for, too. With `rows`, only these are recalled.
    """

    texts: Sequence[str]
    today: str
    nonce: str
    surfaced: Collection[tuple[str, str, str]] = ()
    spent: int = 0
    tools: Sequence[str] = ()
    check: Callable[[Memory], Sequence[str]] = lambda memory: ()
    home: str = ""
    is_query: bool = False
    rows: Sequence[Row] = ()


def recall(
    sources: Sequence[RecallSource], occasion: Occasion, *, model: Model | None = None, deadline: float = 5.0
) -> Recall:
    """Recall at most five memories for the last of the user's texts, or of the rows that are given."""
    gate = find_gate(occasion)
    if gate and not occasion.rows:
        return Recall(gate=gate)
    query = "\n".join(occasion.texts[-QUERY_TEXTS:])[-MAX_QUERY_CHARS:]
    candidates = [_exclude(Candidate(row.scope, row, 0.0, 0.0, 1.0, 0.0), occasion) for row in occasion.rows]
    if occasion.rows:
        model = None
    else:
        candidates = _find_candidates(sources, query, occasion)
    if not candidates and not any(source.best(1) for source in sources):
        return Recall(gate="nothing is remembered yet")
    selector = "local"
    selected = None
    if model is not None and (offered := _fill_up(sources, candidates, occasion)):
        try:
            selected = _select_by_model(model, query, offered, occasion, deadline), "a model chose"
            selector = "model"
        except ModelFailed as error:
            selector = f"local, because the model failed: {error}"
    candidates, decision = selected or _select_likely(candidates)
    shown, candidates = _read_selected(sources, candidates, occasion)
    text = render_recall(shown, occasion.nonce)
    return Recall(text, tuple(shown), "", selector, query, tuple(candidates), decision)


def find_gate(occasion: Occasion) -> str:
    """Return why nothing is searched for, whatever is remembered; "" when something is."""
    message = occasion.texts[-1] if occasion.texts else ""
    if not _is_telling(message) and not (occasion.is_query and message.strip()):
        return "the message is a single word"
    if occasion.spent >= CONVERSATION_BYTES:
        return f"this conversation has used its {CONVERSATION_BYTES:,} bytes for memories"
    return ""


def _is_telling(message: str) -> bool:
    """Return True if there are two words, or two characters of a script without spaces."""
    return bool(re.search(rf"(?s)\S\s+\S|(?:[{CUT_INTO_PAIRS}].*?){{2}}", message[:MAX_QUERY_CHARS]))


def _find_candidates(sources: Sequence[RecallSource], query: str, occasion: Occasion) -> list[Candidate]:
    """Return all that matches the last message; if nothing does, what matches it together with the ones before."""
    message = occasion.texts[-1][-MAX_QUERY_CHARS:]
    matches = _match(sources, message, occasion)
    is_clear = any(candidate.likely >= SHOWN_FROM for candidate in matches)
    if query != message and not is_clear and not all(map(is_weak, words(message))):
        matches += _match(sources, query, occasion, FOLLOW_UP_WEIGHT)
    likeliest: dict[tuple[str, str, str], Candidate] = {}
    for candidate in matches:
        known = likeliest.setdefault(candidate.version, candidate)
        if candidate.likely > known.likely:
            likeliest[candidate.version] = candidate
    candidates = [_exclude(candidate, occasion) for candidate in likeliest.values()]
    return sorted(candidates, key=lambda candidate: (-candidate.score, candidate.scope, candidate.row.path))


def _match(sources: Sequence[RecallSource], text: str, occasion: Occasion, weight: float = 1.0) -> list[Candidate]:
    """Return what matches a text in all scopes."""
    is_word = not _is_telling(text)  # then somebody asks for it
    found = [source.matches(text, limit=MAX_CANDIDATES) for source in sources]
    confirmed = [match.near for matches in found for match in matches if match.row.trust != "unconfirmed"]
    nearest = max(confirmed, default=0.0)
    candidates = []
    for rank, (source, matches) in enumerate(zip(sources, found, strict=True), 1):
        for match in matches:
            likely = weight * match.likely
            if match.near:
                likely *= compare_with_nearest(match.likely, nearest - match.near)
            if is_word and match.is_hit:
                likely = max(likely, SHOWN_FROM)
            score = weight * match.score + SMALL_BONUS / rank + _bonus(match, occasion.today)
            candidates.append(Candidate(str(source.scope), match.row, match.common, match.near, likely, score))
    return candidates


def _bonus(match: Match, today: str) -> float:
    """Return what speaks for a memory whatever was asked."""
    bonus = PINNED_BONUS if match.row.pinned else 0.0
    used = time.strftime("%Y-%m-%d", time.gmtime(match.used * 86_400))  # 1970 if it never was
    for day, days in ((match.row.updated, RECENTLY_CHANGED_DAYS), (used, RECENTLY_USED_DAYS)):
        age = days_between(day, today)
        if age is not None and age <= days:
            bonus += SMALL_BONUS
    return bonus


def _exclude(candidate: Candidate, occasion: Occasion) -> Candidate:
    """Return the candidate, with the reason if it may not be shown whatever it says."""
    row = candidate.row
    if candidate.version in occasion.surfaced:
        why = "shown before in this conversation"
    elif row.path in (CONTEXT, NOTES):
        why = "stands in every prompt"
    elif row.path in LAYER_FILES and candidate.scope.startswith(("task/", "session/")):
        why = "is read with `memsheaf notes`, not recalled"
    elif row.trust == "unconfirmed":
        why = "unconfirmed: it waits for a person"
    elif row.state not in ("ok", "free"):
        why = f"cannot be used: {row.problem}"
    else:
        return candidate
    return candidate.refuse(why, "excluded")


def _fill_up(sources: Sequence[RecallSource], candidates: list[Candidate], occasion: Occasion) -> list[Candidate]:
    """Return the shortlist for a model, filled up with what the catalog shows first; [] when all are excluded."""
    known = {candidate.version for candidate in candidates}
    room = MAX_OFFERED - sum(not candidate.why for candidate in candidates)
    more = []
    for source in sources:
        for row in source.best(MAX_OFFERED):
            candidate = _exclude(Candidate(str(source.scope), row, 0.0, 0.0, 0.0, 0.0), occasion)
            if not candidate.why and candidate.version not in known:
                more.append(candidate)
    filled = candidates + more[: max(room, 0)]
    return filled if any(not candidate.why for candidate in filled) else []


def _select_likely(candidates: Sequence[Candidate]) -> tuple[list[Candidate], str]:
    """Choose the memories that likely matter; return a sentence about it, too."""
    possible = [candidate for candidate in candidates if not candidate.why]
    if not possible:
        return list(candidates), "nothing is recalled: nothing else fits"
    best = max(possible, key=lambda candidate: candidate.likely)
    decision = f"{best.row.ref} matters with {best.likely:.0%}, and {SHOWN_FROM:.0%} are needed"
    if best.likely < SHOWN_FROM:
        decision = f"nothing is recalled: at best, {decision}"
    selected = []
    for candidate in candidates:
        if not candidate.why:
            candidate = candidate._replace(chosen=True)
            if candidate.likely < SHOWN_FROM:
                candidate = candidate.refuse("it is unlikely to matter for this message", "unlikely")
        selected.append(candidate)
    return selected, decision


_CHOICE: Mapping[str, object] = {
    "type": "object",
    "properties": {"selected_memories": {"type": "array", "items": {"type": "string"}, "maxItems": MAX_MEMORIES}},
    "required": ["selected_memories"],
    "additionalProperties": False,
}


def _select_by_model(
    model: Model, query: str, candidates: list[Candidate], occasion: Occasion, deadline: float
) -> list[Candidate]:
    """Return the candidates with the model's choice. Raises ModelFailed."""
    possible = [candidate for candidate in candidates if not candidate.why]
    offered = {f"{candidate.scope}/{candidate.row.path}": candidate for candidate in possible[:MAX_OFFERED]}
    text = f"The user's words:\n{query}"
    if occasion.tools:
        text += f"\n\nTools the assistant has just used: {', '.join(occasion.tools)}"
    text += "\n\nMemories:"
    for name, candidate in offered.items():
        row = candidate.row.masked()
        text += f"\n- [{row.type}] {name} ({row.updated}): {row.description}"
    reply = answer(model, Question(read_prompt("select"), text, _CHOICE), deadline)
    names = reply.get("selected_memories") if isinstance(reply, dict) else None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ModelFailed("its answer was not a list of memories")
    names = [name for name in dict.fromkeys(names) if name in offered][:MAX_MEMORIES]
    selected = [offered[name]._replace(chosen=True) for name in names]
    versions = {candidate.version for candidate in selected}
    for candidate in candidates:
        if candidate.why:
            selected.append(candidate)
        elif candidate.version not in versions:
            selected.append(candidate.refuse("not chosen by the model", "model"))
    return selected


def _read_selected(
    sources: Sequence[RecallSource], candidates: Sequence[Candidate], occasion: Occasion
) -> tuple[list[Shown], list[Candidate]]:
    """Return the selected memories as they are on disk now, in the room that is left, and each candidate's fate."""
    by_scope = {str(source.scope): source for source in sources}
    candidates = _add_newer(by_scope, candidates, occasion)
    room = min(MESSAGE_BYTES, CONVERSATION_BYTES - occasion.spent)
    shown: list[Shown] = []
    explained = []
    for candidate in candidates:
        if candidate.chosen and len(shown) == MAX_MEMORIES:
            candidate = candidate.refuse(f"only {MAX_MEMORIES} are recalled at once", "limit")
        elif candidate.chosen:
            memory = _read(by_scope[candidate.scope], candidate, occasion)
            if isinstance(memory, str):
                candidate = candidate.refuse(memory, "excluded")
            else:
                memory = memory._replace(limit=MEMORY_BYTES // (1 + len(shown)))  # the less, the lower its rank
                fitting, room = fit_within(memory, room, occasion.nonce, is_first=not shown)
                if fitting:
                    shown.append(fitting)
                else:
                    candidate = candidate.refuse("no room is left for it", "limit")
        explained.append(candidate)
    return shown, explained


def _add_newer(
    sources: Mapping[str, RecallSource], candidates: Sequence[Candidate], occasion: Occasion
) -> list[Candidate]:
    """Return the candidates with what supersedes a chosen one before it.

    The newer one may not replace it after all, so both are shown; the older one never alone, whether or not the newer
    matched.
    """
    ordered: dict[tuple[str, str, str], Candidate] = {}
    for candidate in candidates:
        newer = sources[candidate.scope].newer(candidate.row.path) if candidate.chosen else None
        if newer:
            later = _exclude(candidate._replace(row=newer), occasion)
            known = ordered.setdefault(later.version, later)
            if not known.chosen:
                ordered[later.version] = later
        ordered.setdefault(candidate.version, candidate)
    return list(ordered.values())


def _read(source: RecallSource, candidate: Candidate, occasion: Occasion) -> Shown | str:
    """Return a memory as it is shown, or why it is not."""
    try:
        memory = source.read(candidate.row.path)
    except MemsheafError as error:
        return str(error)
    is_other = memory.version != candidate.row.version
    if is_other and (candidate.scope, memory.path, memory.version) in occasion.surfaced:
        return "shown before in this conversation"
    if ended := memory.describe_end(occasion.today):
        return ended
    if memory.trust == "unconfirmed" or memory.state not in ("ok", "free"):
        return "changed meanwhile and may not be shown"
    notes = (*source.caveats(memory), *occasion.check(memory))
    file = memory.ref.label(occasion.home or candidate.scope)
    return Shown(candidate.scope, memory, occasion.today, notes, saved=candidate.row.updated, file=file)
