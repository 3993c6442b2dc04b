"""Spending limits, checked before each request, and the ledger of requests.

A request is written down before it is made, at the most that it may cost, and put right when its answer is there. So
whoever is killed in between has paid in full, and no two processes spend the same allowance.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import date, timedelta
from functools import partial
from operator import add
from threading import Lock
from typing import NamedTuple

from memsheaf.errors import Busy, CapReached, ModelFailed, StoreFailed
from memsheaf.limits import Caps, ChatCaps, TimeUp, within
from memsheaf.llm.model import Answer, Model, Question
from memsheaf.state import State

DAYS = 400  # days that the ledger keeps
CHAT = "chat"  # the purpose of what conversations cost; they have an allowance of their own, and all else has another
_BYTES_A_TOKEN = 4
LOCK_SECONDS = 5.0  # to wait for the ledger's lock, unless the question has fewer
_MAX_TOKENS = 10**9  # whoever reports more does not count


class Spent(NamedTuple):
    """An amount spent, on a day, purpose and model, or in all. `open` counts requests that never came back."""

    day: str = ""
    purpose: str = ""
    model: str = ""
    requests: int = 0
    failures: int = 0
    open: int = 0
    input: int = 0
    output: int = 0
    seconds: float = 0.0

    @property
    def tokens(self) -> int:
        """Return the sum of what went in and what came out."""
        return self.input + self.output

    def plus(self, other: Spent) -> Spent:
        """Return both together, under the name of this."""
        day, purpose, model, *counts = self
        return Spent(day, purpose, model, *map(add, counts, other[3:]))


_SUMS = ", ".join(["count(*)", *(f"coalesce(sum({name}), 0)" for name in Spent._fields[4:])])


class Ledger:
    """The record of what all runs of a user spent, request by request. Processes and threads may share it."""

    def __init__(self, state: State, *, clock: Callable[[], float] = time.time) -> None:
        self._state = state
        self._clock = clock

    @classmethod
    def of(cls, state: str, *, clock: Callable[[], float] = time.time) -> Ledger:
        """Return the ledger of a user, in the state directory: a day's caps hold for all scopes."""
        return cls(State(os.path.join(state, "spend")), clock=clock)

    def reserve(self, caps: Caps | ChatCaps, cost: Spent) -> Reserved:
        """Write down what a request will cost at most, provided that the day has room for it.

        What conversations spent counts for conversations, and what all else spent for all else.

        Raises:
            CapReached: it has not.
            ModelFailed: it cannot be written down.
        """
        day, id = self.today(), os.urandom(8).hex()
        try:
            with self._state.writing(wait=min(LOCK_SECONDS, cost.seconds)) as db:
                spent = self.spent(day, chat=cost.purpose == CHAT)
                until = f"; the day ends at {self.ends()}"
                _check("day", spent.requests + 1, caps.requests_per_day, "requests", until)
                _check("day", spent.tokens + cost.tokens, caps.tokens_per_day, "tokens", until)
                db.execute("DELETE FROM spend WHERE day < ?", (self._day_before(DAYS),))
                db.execute(
                    "INSERT INTO spend (id, day, purpose, model, input, output) VALUES (?, ?, ?, ?, ?, ?)",
                    (id, day, cost.purpose, cost.model, cost.input, cost.output),
                )
        except (Busy, StoreFailed) as error:
            raise ModelFailed(f"{cost.model} was not asked, because its cost cannot be noted: {error}") from error
        return Reserved(day, id)

    def settle(self, entry: Reserved, cost: Spent) -> None:
        """Write down what it did cost; if that cannot be written, it stands at the most."""
        with suppress(Busy, StoreFailed), self._state.writing() as db:
            db.execute(
                "UPDATE spend SET open = 0, input = ?, output = ?, failures = ?, seconds = ? WHERE id = ?",
                (cost.input, cost.output, min(cost.failures, 1), round(cost.seconds, 3), entry.id),
            )

    def today(self) -> str:
        """Return the day, here."""
        return time.strftime("%Y-%m-%d", time.localtime(self._clock()))

    def ends(self) -> str:
        """Return when the day ends, here, and what it has spent no longer counts."""
        now = time.localtime(self._clock())
        night = time.mktime((now.tm_year, now.tm_mon, now.tm_mday + 1, 0, 0, 0, 0, 0, -1))
        return time.strftime("%Y-%m-%d %H:%M", time.localtime(night))

    def spent(self, day: str = "", *, chat: bool | None = None) -> Spent:
        """Return what all runs spent on a day, or today; with `chat`, in conversations (True) or all else (False)."""
        day = day or self.today()
        who = "" if chat is None else "AND (purpose = ?) = ?"
        values = (day,) if chat is None else (day, CHAT, chat)
        ((*sums,),) = self._state.query(f"SELECT {_SUMS} FROM spend WHERE day = ? {who}", *values) or [[0] * 6]
        return Spent(day, "", "", *sums)

    def summary(self, days: int = 30) -> list[Spent]:
        """Return what was spent on the last days, today included: the newest first, by purpose and model."""
        rows = self._state.query(
            f"SELECT day, purpose, model, {_SUMS} FROM spend WHERE day > ? AND day <= ?"
            " GROUP BY day, purpose, model ORDER BY day DESC, purpose, model",
            self._day_before(days),
            self.today(),
        )
        return [Spent(*row) for row in rows]

    def by_day(self, days: int = 30) -> list[Spent]:
        """Return what was spent on each of the last days, the oldest first, also where it was nothing."""
        return [self.spent(self._day_before(ago)) for ago in reversed(range(days))]

    def _day_before(self, days: int) -> str:
        return (date.fromisoformat(self.today()) - timedelta(days=days)).isoformat()


class Reserved(NamedTuple):
    """A request that was written down: on which day, and under which number."""

    day: str
    id: str


class Metered:
    """A model that is asked within its caps, and whose every request is in the ledger. One object is one run.

    It counts for itself: what a model reports can make a request dearer, never cheaper.
    """

    def __init__(self, model: Model, ledger: Ledger, caps: Caps, purpose: str) -> None:
        self._model = model
        self._ledger = ledger
        self._caps = caps
        self._purpose = purpose
        self._lock = Lock()
        self._run = Spent()

    @property
    def name(self) -> str:
        """Return the name of the model."""
        return self._model.name

    @property
    def spent(self) -> Spent:
        """Return what this run has cost so far; a question without its answer yet counts at the most it can cost."""
        return self._run

    def ask(self, question: Question, *, deadline: float) -> Answer:
        """Return the answer, in at most `deadline` seconds, and in fewer when the run has not so many left.

        Raises:
            CapReached: it would cost more than is left of the run or of the day. Nothing was asked.
            ModelFailed: there is no answer, in time and in its shape.
        """
        most, entry = self._reserve(question, deadline)
        cost, began = most._replace(failures=1), time.monotonic()
        try:
            work = partial(self._model.ask, question, deadline=most.seconds)
            answer = within(most.seconds, work, name=f"memsheaf-{self._purpose}")
            text = json.dumps(answer.value, ensure_ascii=False, default=str)
            cost = most._replace(
                input=max(_count(answer.input), most.input),
                output=max(_count(answer.output), count_text_tokens(text)),
            )
        except TimeUp:
            raise ModelFailed(f"{self.name} gave no answer within {most.seconds:g} seconds") from None
        finally:
            self._settle(entry, most, cost._replace(seconds=time.monotonic() - began))
        return answer

    def _reserve(self, question: Question, deadline: float) -> tuple[Spent, Reserved]:
        """Take the most that a question may cost from the run and the day. Raises CapReached, ModelFailed."""
        most = estimate(question)
        with self._lock:
            run, caps = self._run, self._caps
            _check("run", run.requests + 1, caps.requests_per_run, "requests")
            _check("run", run.tokens + most.tokens, caps.tokens_per_run, "tokens")
            left = caps.seconds_per_run - run.seconds
            if left <= 0:
                raise CapReached(f"the cap of {caps.seconds_per_run:g} seconds a run is reached")
            most = most._replace(purpose=self._purpose, model=self.name, seconds=min(deadline, left))
            entry = self._ledger.reserve(caps, most)
            self._run = run.plus(most)
        return most, entry

    def _settle(self, entry: Reserved, most: Spent, cost: Spent) -> None:
        """Give back what was not used."""
        sent, got, seconds = cost.input - most.input, cost.output - most.output, cost.seconds - most.seconds
        with self._lock:
            self._run = self._run.plus(Spent(failures=cost.failures, input=sent, output=got, seconds=seconds))
        self._ledger.settle(entry, cost)


def estimate(question: Question) -> Spent:
    """Return the most that a question may cost, by the bytes of what is sent and the tokens of what may come back."""
    sent = question.system + question.text + json.dumps(question.schema, ensure_ascii=False, default=str)
    return Spent(requests=1, input=count_text_tokens(sent), output=max(question.max_tokens, 0))


def count_text_tokens(text: str) -> int:
    """Return about how many tokens a text has.

    >>> count_text_tokens("abcde"), count_text_tokens("")
    (2, 0)
    """
    return -(-len(text.encode("utf-8", "surrogatepass")) // _BYTES_A_TOKEN)


def _count(value: object) -> int:
    """Return a reported number of tokens, 0 when it is invalid."""
    return min(value, _MAX_TOKENS) if isinstance(value, int) and value > 0 else 0


def _check(what: str, would_be: int, cap: int, unit: str, until: str = "") -> None:
    if would_be > cap:
        raise CapReached(
            f"the cap of {cap:,} {unit} a {what} is reached: with this request it would be {would_be:,}{until}"
        )
