"""Somebody to talk to where there is no model: memory requests in plain words, through the tools a model would call.

Nothing is kept between two steps: `hearing.py` says how a conversation is taken up again. Only the user's own words
lead to a call: what a memory or a tool says is shown, and never obeyed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Mapping, Sequence
from datetime import date

from memsheaf.chat.offline.changes import Changing
from memsheaf.chat.offline.drafts import Style, starter, style_of
from memsheaf.chat.offline.phrases import is_all
from memsheaf.chat.offline.replies import READ, Telling
from memsheaf.chat.offline.requests import CHANGES, LONGEST, Wanted, chosen, requested
from memsheaf.chat.offline.tool_answers import Known, known, recalled, rows
from memsheaf.chat.offline.turns import OURS, Heard, Outcome, Pending, Talk, heard, resumed
from memsheaf.errors import MemsheafError
from memsheaf.llm.talker import Call, Request, Said, Spoken, Step
from memsheaf.recall.ignore import asks_to_ignore
from memsheaf.text.neutralize import one_line
from memsheaf.values import sha256

STYLE = "indentation tabs spaces quotes code style"
"""What is looked for before a file is written."""

MODELS = "docs/models.md"
"""What is named where it is said how to come by a model."""

_MEMORY = "memory_"

Offer = Mapping[str, Mapping[str, object]]
"""The tools that are there, by name."""


class Offline:
    """A talker without a model. `undo` takes the last change of memory back and says so.

    >>> offline = Offline()
    >>> [each.text for each in offline.talk(Request("", [Said("user", "Thanks!")])) if isinstance(each, Spoken)]
    ['You are welcome.']
    """

    name = "offline"
    speaks_for_user = True

    def __init__(self, undo: Callable[[], str] | None = None, *, today: Callable[[], date] = date.today) -> None:
        self._undo = undo
        self._today = today

    def talk(self, request: Request) -> Generator[Spoken | Step, None, None]:
        """Say what comes next: calls of tools, or an answer."""
        turns = heard(request.conversation)
        offer = {str(tool.get("name", "")): tool for tool in request.tools}
        is_told = any(said.role == "assistant" and MODELS in said.text for said in request.conversation)
        turn = _Turn(turns, offer, self._today(), self._undo, is_told=is_told)
        following = resumed(turn.answer(), turns[-1].rounds if turns else ())
        if isinstance(following, Outcome):
            yield Spoken(following.text)
            yield Step(Said("assistant", following.text))
            return
        place = f"{len(request.conversation)} {turns[-1].text}"
        calls = (
            Call(_identity(f"{at} {place}"), tool, json.dumps(arguments, ensure_ascii=False))
            for at, (tool, arguments) in enumerate(following)
        )
        yield Step(Said("assistant", "", calls=tuple(calls)))


def _identity(call: str) -> str:
    """What a call is known by: another in each place of a conversation."""
    return OURS + sha256(call.encode("utf-8", "replace")).hexdigest()[:16]


class _Turn:
    """The last turn of a conversation, on its way to an answer."""

    def __init__(
        self,
        turns: Sequence[Heard],
        offer: Offer,
        today: date,
        undo: Callable[[], str] | None,
        *,
        is_told: bool = False,
    ) -> None:
        self._turns = turns
        self._today = today
        self._undo = undo
        self._is_told = is_told
        ignoring = bool(turns) and asks_to_ignore(turns[-1].text)
        self._offer = {name: offer[name] for name in offer if not (ignoring and name.startswith(_MEMORY))}

    def answer(self) -> Talk:
        """All that is asked for, one after the other."""
        if not self._turns:
            return Outcome(Telling("English").say("help"))
        text = self._turns[-1].text
        if (choice := chosen(text)) and (pending := self._pending()):
            return (yield from self._changing(Telling(pending.wanted.language)).chosen(pending, choice))
        wants = requested(text)
        outcomes: list[Outcome] = []
        for wanted in wants:
            outcomes.append((yield from self._one(wanted, Telling(wanted.language), alone=len(wants) == 1)))
        answer = "\n\n".join(dict.fromkeys(each.text for each in outcomes))
        return Outcome(answer, next((each.pending for each in outcomes if each.pending), None))

    def _one(self, wanted: Wanted, telling: Telling, *, alone: bool) -> Talk:
        """What one request leads to."""
        if wanted.kind in ("help", "thanks", "greeting"):
            return self._courtesy(wanted.kind, telling)
        if wanted.kind == "create":
            return (yield from self._create(wanted, telling))
        if not any(tool.startswith(_MEMORY) for tool in self._offer):
            return Outcome(telling.say("ignored"))
        if wanted.kind == "undo":
            return self._undone(telling) if alone else Outcome(telling.say("undo alone"))
        if wanted.kind in (*CHANGES, "state") and "memory_write" not in self._offer:
            return Outcome(telling.say("reading"))
        if wanted.kind == "state":
            return Outcome(telling.say("noted"))
        changing = self._changing(telling)
        doing: Mapping[str, Callable[[Wanted], Talk]] = {
            "remember": changing.remember, "update": changing.update, "forget": changing.forget, "know": telling.know,
            "search": telling.search, "list": telling.listed, "index": telling.listed, "both": telling.listed,
        }  # fmt: skip
        if wanted.kind not in doing:
            return (yield from self._other(wanted, telling))
        return (yield from doing[wanted.kind](wanted))

    def _changing(self, telling: Telling) -> Changing:
        return Changing(telling, self._turns, self._today, can_undo=self._undo is not None)

    def _pending(self) -> Pending | None:
        """The question that the turn before left to the user."""
        if len(self._turns) < 2:
            return None
        earlier = _Turn(self._turns[-2:-1], self._offer, self._today, None)
        following = resumed(earlier.answer(), self._turns[-2].rounds)
        return following.pending if isinstance(following, Outcome) else None

    def _courtesy(self, kind: str, telling: Telling) -> Outcome:
        if kind == "thanks":
            return Outcome(telling.say("thanks"))
        hello = [telling.say("hello")] if kind == "greeting" else []
        return Outcome("\n".join([*hello, telling.say("help"), *self._model(telling)]))

    def _model(self, telling: Telling) -> list[str]:
        """How to come by a model, once in a conversation."""
        return [] if self._is_told else [telling.say("model")]

    def _undone(self, telling: Telling) -> Outcome:
        if self._undo is None:
            return Outcome(telling.say("no undo"))
        try:
            return Outcome(self._undo())
        except MemsheafError as error:
            return Outcome(telling.say("failed", why=f"{error}"))

    def _create(self, wanted: Wanted, telling: Telling) -> Talk:
        """A file with the smallest beginning, as memories say that code is to be written."""
        if "write" not in self._offer:
            return Outcome("\n".join([telling.say("no files"), *self._model(telling)]))
        style = style_of(recalled(self._turns[-1].beside))
        if "memory_search" in self._offer and not (style.indent and style.quote):
            (found,) = yield [("memory_search", {"query": STYLE, "limit": READ})]
            near = rows(found.text)
            if near:
                texts = yield [("memory_read", {"filename": row.file}) for row in near]
                style = _completed(style, [known(row.file, one.text) for row, one in zip(near, texts, strict=True)])
        path, content = _fields(self._offer["write"])
        text, follows = starter(wanted.file, style)
        (answer,) = yield [("write", {path: wanted.file, content: text})]
        if answer.text.startswith("Error:"):
            return Outcome(telling.failed(answer.text))
        followed = [telling.say("followed", file=one.file, what=one_line(one.body, 200)) for one in follows]
        return Outcome("\n".join([telling.say("wrote", file=wanted.file), *followed]))

    def _other(self, wanted: Wanted, telling: Telling) -> Talk:
        """What is remembered that may answer it; no more than that without a model."""
        memories = recalled(self._turns[-1].beside)
        if not memories and "memory_search" in self._offer and _is_question(wanted):
            found = yield from telling.candidates(wanted.subject[:LONGEST], wanted.language)
            memories = found[:READ] if isinstance(found, list) else []
        if memories:
            return Outcome("\n".join([telling.say("recalled"), *(one.shown() for one in memories)]))
        return Outcome("\n".join([telling.say("nothing fits"), *self._model(telling)]))


def _is_question(wanted: Wanted) -> bool:
    text = wanted.subject.strip()[:LONGEST]
    return text.endswith(("?", "？")) or is_all("question", wanted.language, text)


def _completed(style: Style, memories: Sequence[Known]) -> Style:
    """A style with what these memories add to it."""
    more = style_of(memories)
    if not style.indent:
        style = style._replace(indent=more.indent, indented=more.indented)
    return style if style.quote else style._replace(quote=more.quote, quoted=more.quoted)


def _fields(tool: Mapping[str, object]) -> tuple[str, str]:
    """How a tool that writes files calls the file and its text."""
    schema = tool.get("input_schema")
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    names = list(properties) if isinstance(properties, Mapping) else []
    path = next((name for name in names if name in ("path", "file", "filename")), "path")
    content = next((name for name in names if name in ("content", "text")), "content")
    return path, content
