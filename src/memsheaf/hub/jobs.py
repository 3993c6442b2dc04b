"""Learning on a hub: turns wait in the database, and jobs there make memories of them.

A job names a namespace and a login, never a text, and is in the queue of its team. One at a time works on a
namespace, and one at most waits for each member; what fails is tried again later, and so is what a killed worker
left. What the team learns is only proposed.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from functools import partial
from hashlib import sha256
from typing import Any

from procrastinate import App, PsycopgConnector, SyncPsycopgConnector
from procrastinate.exceptions import AlreadyEnqueued, ConnectorException, UniqueViolation
from procrastinate.jobs import Status

from memsheaf.config import Settings
from memsheaf.errors import HubRefused, HubUnreachable, MemsheafError, ModelFailed
from memsheaf.hub.server_replicas import Caller, CallerView, ServerReplicas
from memsheaf.hub.service import HubService, TakenTurns, TokenMember
from memsheaf.learn.inbox import BATCH_BYTES, Batch, Inbox, prepare
from memsheaf.learn.review_queue import QueuedProposal, ReviewQueue
from memsheaf.limits import Caps, ChatCaps
from memsheaf.llm import Model, load_model
from memsheaf.llm.spend import Ledger, Metered, Reserved, Spent
from memsheaf.recall.turns import Message, Turn
from memsheaf.sheaf import Consolidation
from memsheaf.state import State

LEARN, CONSOLIDATE = "learn", "consolidate"
MAX_RETRY_SECONDS = 300  # until what failed is tried again
LEARNING_SECONDS = 300.0
STALLED_SECONDS = 30.0  # without a sign of life of a worker, after which its jobs are taken over
_RETRY_PRIORITY, _LATER_PRIORITY = -1, -2  # others of the namespace go first


def queue_turns(service: HubService, caller: Caller, namespace: str, turns: Sequence[Turn]) -> int:
    """Store turns until a worker learns from them; return how many are new. Raises HubRefused, HubUnreachable.

    Secrets are left out before, and what the user wants off the record.
    """
    login = caller.member.login
    service.join_space(login, namespace)
    named = []
    for turn in map(_plain_json, prepare(turns)):
        content = json.dumps([login, turn["conversation"], turn["messages"]])
        named.append((sha256(content.encode()).hexdigest(), turn))
    added = service.add_turns(login, namespace, named)
    if named:  # also when all were known: whoever told them first may not have come this far
        defer_job(service, LEARN, namespace, login)
    return added


def defer_job(service: HubService, task: str, namespace: str, login: str, *, wait: float = 0, tries: int = 0) -> None:
    """Have a worker do this, unless it waits to be done already."""
    priority = 0
    if task == CONSOLIDATE:
        priority = _LATER_PRIORITY
    elif tries:
        priority = _RETRY_PRIORITY
    app = App(connector=SyncPsycopgConnector())
    with app.open(service.pool), suppress(AlreadyEnqueued):
        app.configure_task(
            task,
            queue=namespace.partition(":")[0],
            lock=namespace,
            queueing_lock=f"{task} {namespace} {login}",
            priority=priority,
            schedule_in={"seconds": int(wait)} if wait else None,
        ).defer(namespace=namespace, login=login, tries=tries)


class HubWorker:
    """Does the jobs of a hub. Any number of them may run."""

    def __init__(self, service: HubService, settings: Settings) -> None:
        self._service = service
        self._settings = settings
        self._replicas = ServerReplicas(service, settings, by="extraction")
        self.turns = 0
        """The number of turns it has learned from."""
        self.failed: set[tuple[str, str]] = set()
        """The namespace and login of each job that failed in a run with `once`, which leaves it to a later one."""
        self._once = False

    def close(self) -> None:
        """Drop the replicas."""
        self._replicas.close()

    def run(self, *, concurrency: int = 1, once: bool = False, stalled: float = STALLED_SECONDS) -> None:
        """Do what waits and what comes, or with `once` what waits. A signal ends it after the jobs at hand.

        Raises HubUnreachable with `once`; else it waits for the database to come back.
        """
        self._once = once
        while True:
            try:
                return asyncio.run(self._run(concurrency, once, stalled))
            except ConnectorException as error:
                why = f"{self._service.shown} does not answer: {error.__cause__ or error}"
                failure = self._service.find_failure() or HubUnreachable(why)
                if once:
                    raise failure from error
                print(failure, file=sys.stderr)
                time.sleep(stalled / 3)

    async def _run(self, concurrency: int, once: bool, stalled: float) -> None:
        url, options = self._service.url, self._service.options
        app = App(connector=PsycopgConnector(conninfo=url, min_size=1, max_size=4, kwargs=options))
        app.task(name=LEARN)(self.learn)
        app.task(name=CONSOLIDATE)(self.consolidate)
        async with app.open_async():
            await self._take_over(app, stalled)
            watching = asyncio.create_task(self._take_over(app, stalled, again=True))
            try:
                await app.run_worker_async(
                    queues=list(self._service.teams) or None,  # type: ignore[arg-type]  # None: all
                    concurrency=concurrency,
                    wait=not once,
                    delete_jobs="successful",
                    update_heartbeat_interval=stalled / 3,
                    stalled_worker_timeout=10 * stalled,
                )
            finally:
                watching.cancel()

    async def _take_over(self, app: App, stalled: float, *, again: bool = False) -> None:
        """Let jobs that failed or whose worker was killed be done again; look for them `again` and again."""
        jobs = app.job_manager
        while True:
            await asyncio.sleep(stalled if again else 0)
            for queue in self._service.teams or (None,):
                with suppress(ConnectorException):  # another worker was faster
                    failed = await jobs.list_jobs_async(queue=queue, status=Status.FAILED.value)
                    killed = await jobs.get_stalled_jobs(queue=queue, seconds_since_heartbeat=stalled)
                    for job in (*killed, *failed):
                        try:
                            await jobs.retry_job(job)
                        except UniqueViolation:  # the same waits already; one that failed can only be left
                            with suppress(ConnectorException):
                                await jobs.finish_job(job, status=Status.FAILED, delete_job=True)
            if not again:
                return

    def learn(self, namespace: str, login: str, tries: int) -> None:
        """Make memories of all that waits in a namespace and was told by a member."""
        if (namespace, login) in self.failed:
            return defer_job(self._service, LEARN, namespace, login, wait=MAX_RETRY_SECONDS, tries=tries)
        try:
            while self._learn_next(namespace, login):
                tries = 0
        except Exception as error:  # noqa: BLE001 - a mistake of ours must not end the worker either
            _report(error)
            if isinstance(error, HubRefused) and error.lacks_permission:
                return None  # no member any more: what waits is theirs, and is not read
            if self._once:
                self.failed.add((namespace, login))
            defer_job(self._service, LEARN, namespace, login, wait=min(2**tries, MAX_RETRY_SECONDS), tries=tries + 1)

    def _learn_next(self, namespace: str, login: str) -> bool:
        """Learn from the next turns; False when there are none."""
        service = self._service
        if (taken := service.take_turns(login, namespace, BATCH_BYTES)) is None:
            return False
        batch = _batch_of(taken)
        with self._memories(namespace, login) as view:
            learner = view.layers.learning
            learner.inbox = _TakenInbox(batch, lambda: service.take_turns(login, namespace, BATCH_BYTES))
            learner.queue = _HubQueue(view.layers.own.state, partial(service.propose, login, namespace, batch.id))
            learner.find_saved = partial(service.saved_texts, login, namespace)
            done = learner.distil(self._model(namespace, LEARN), deadline=LEARNING_SECONDS)
            if done.problem:
                raise ModelFailed(done.problem)
            if not done.turns:
                return True  # something of it was erased meanwhile: what is left is taken again
            service.finish_turns(login, namespace, taken.batch)
        self.turns += len(batch.turns)
        if done.of("saved") and self._settings.dream.enabled:
            defer_job(service, CONSOLIDATE, namespace, login, wait=self._settings.dream.hours * 3600)
        return True

    def consolidate(self, namespace: str, login: str, tries: int) -> None:
        """Merge duplicates some time after learning, except in a team, and drop texts past retention."""
        try:
            with self._memories(namespace, login) as view:
                if view.layers.own.count() >= self._settings.dream.files:
                    Consolidation(view.layers).run(self._model(namespace, CONSOLIDATE), apply=True)
            self._service.ask(login, "SELECT memsheaf.prune(%s)", namespace)
        except Exception as error:  # noqa: BLE001 - see learn
            _report(error)  # the next time that something is learned

    def _memories(self, namespace: str, login: str) -> AbstractContextManager[CallerView]:
        member = TokenMember(namespace.partition(":")[0], login, self._service.name_of(login, namespace))
        return self._replicas.use(Caller.learning(member, namespace))

    def _model(self, namespace: str, purpose: str) -> Model | None:
        """Return the model of the settings, within the caps of a team; None without one."""
        settings, team = self._settings, namespace.partition(":")[0]
        if settings.model in ("", "none"):
            return None
        model = load_model(settings.model, url=settings.model_url, key=settings.model_key)
        return Metered(model, _TeamLedger(self._service, team), settings.spend, purpose)


class _TakenInbox(Inbox):
    """Turns that were taken from the hub, as the one batch that waits, until it is done."""

    def __init__(self, batch: Batch, take_again: Callable[[], TakenTurns | None]) -> None:
        self._batch = batch
        self._take_again = take_again

    def next_batch(self, most: int = BATCH_BYTES) -> Batch:
        """Return the turns, until they are done."""
        return self._batch

    def holds(self, batch: Batch) -> bool:
        """Return True if nobody erased from it meanwhile; else it waits no longer here."""
        now = self._take_again()
        if not now or _batch_of(now).turns != batch.turns:
            self._batch = Batch()
        return self._batch is batch

    def finish(self, batch: Batch) -> None:
        """Drop the turns: they are learned from."""
        self._batch = Batch()

    def turns(self) -> list[Turn]:
        """Return the turns that wait."""
        return list(self._batch.turns)

    def count_waiting(self) -> int:
        """Return how many turns wait."""
        return len(self._batch.turns)


class _HubQueue(ReviewQueue):
    """A queue on the hub: what is proposed is there before the commit after which its turns count as learned from."""

    def __init__(self, state: State, propose: Callable[[str, Mapping[str, object]], None]) -> None:
        super().__init__(state)
        self._propose = propose

    def save(self, waiting: QueuedProposal) -> None:
        """Have a proposal wait on the hub."""
        self._propose(waiting.id, waiting.to_json())


class _TeamLedger(Ledger):
    """The spending of all workers on one team, counted in the database."""

    def __init__(self, service: HubService, team: str) -> None:
        self._service = service
        self._team = team
        self._reserved: dict[str, int] = {}

    def reserve(self, caps: Caps | ChatCaps, cost: Spent) -> Reserved:
        """Take what a request will cost at most from the day of the team. Raises CapReached, HubUnreachable."""
        day = self._service.reserve(self._team, cost.tokens, caps.requests_per_day, caps.tokens_per_day)
        entry = Reserved(day, os.urandom(8).hex())
        self._reserved[entry.id] = cost.tokens
        return entry

    def settle(self, entry: Reserved, cost: Spent) -> None:
        """Give back what was not used; if that fails, it stands at the most."""
        with suppress(HubUnreachable):
            self._service.settle(self._team, entry.day, cost.tokens - self._reserved.pop(entry.id))


def _batch_of(taken: TakenTurns) -> Batch:
    return Batch(taken.batch, "", tuple(map(_read_turn, taken.turns)), taken.tries)


def _read_turn(value: Mapping[str, Any]) -> Turn:
    """Return a turn that the database has."""
    return Turn(**{**value, "messages": tuple(Message(*message) for message in value["messages"])})


def _plain_json(turn: Turn) -> dict[str, object]:
    """Return a turn as the database takes it: without zero bytes and half characters."""
    text = json.dumps(turn._asdict(), ensure_ascii=False).replace("\\u0000", "")
    value: dict[str, object] = json.loads(text.encode("utf-8", "replace"))
    return value


def _report(error: Exception) -> None:
    """Report an error in one line, with the place if it is a bug."""
    if isinstance(error, MemsheafError):
        print(f"memsheaf: {error}", file=sys.stderr)
    else:
        traceback.print_exception(error)
