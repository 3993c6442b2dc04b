"""Learning and consolidation of one scope, with the model, the embedder and the policy that the settings name."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import Any, Protocol

from memsheaf.config import Settings
from memsheaf.embed import find as find_embedder
from memsheaf.errors import BadSettings, Busy, EmbedderFailed, ModelFailed
from memsheaf.learn import consolidate, rehearsal, schedule
from memsheaf.learn.consolidate import ConsolidationReport, Progress, Target
from memsheaf.learn.learner import Distilled, Learner, LearningScope
from memsheaf.llm import Model, load_model
from memsheaf.llm.spend import Ledger, Metered
from memsheaf.reader import ScopeReader
from memsheaf.store.state import State
from memsheaf.writer import Writer

Gates = tuple[schedule.Gate, ...]


def metered(
    purpose: str, model: Model | str | None, settings: Settings, *, clock: Callable[[], float]
) -> Model | None:
    """The model, or the one that the settings name, with the caps of the settings; None for "none" or without.

    Raises:
        ModelFailed, BadSettings: it cannot be used.
    """
    model = model or settings.model
    if isinstance(model, str):
        own = model == settings.model  # address and key in the settings are for it and for no other
        url, key = (settings.model_url, settings.model_key) if own else ("", "")
        model = load_model(model, url=url, key=key) if model and model != "none" else None
    if model is None or isinstance(model, Metered):
        return model
    ledger = Ledger.of(settings.state or os.path.join(settings.home, "state"), clock=clock)
    return Metered(model, ledger, settings.caps, purpose)


class LearnedMemories(LearningScope, Target, Protocol):
    """The memories that are learned and consolidated; `Sheaf` is one."""


class ScopeLearning:
    """How one scope learns."""

    def __init__(
        self,
        memories: LearnedMemories,
        reader: ScopeReader,
        writer: Writer,
        state: State,
        settings: Settings,
        clock: Callable[[], float],
    ) -> None:
        self._memories = memories
        self._reader = reader
        self._writer = writer
        self._state = state
        self._settings = settings
        self._clock = clock

    @property
    def learner(self) -> Learner:
        """The inbox of this scope, and what waits for review."""
        policy = self._policy
        return Learner(
            self._memories,
            self._writer,
            self._state,
            policy=lambda path: policy,
            ledger=self._writer.ledger,
            clock=self._clock,
        )

    def distil(
        self, model: Model | str | None, *, deadline: float, progress: Progress | None, learner: Learner | None
    ) -> Distilled:
        """Make memories of waiting turns, then consolidate if that is due and needs no confirmation."""
        self._writer.require_writable()
        extracting = metered("extract", model, self._settings, clock=self._clock)
        done = (learner or self.learner).distil(extracting, deadline=deadline, progress=progress)
        if done.problem or self._policy != "auto":
            return done
        with suppress(Busy):
            return done._replace(report=self.dream(model)[1])
        return done

    def consolidate(self, model: Model | str | None, **options: Any) -> ConsolidationReport:
        """Merge what says the same and retire what is past, or plan it, as `Sheaf.consolidate` says. Raises Busy."""
        return self._consolidate(metered("consolidate", model, self._settings, clock=self._clock), **options)

    def dream(
        self, model: Model | str | None, *, planning: bool = False, progress: Progress | None = None
    ) -> tuple[Gates, ConsolidationReport | None]:
        """Consolidate if every gate is open; the model is made only then. Raises Busy, StoreFailed."""
        self._writer.require_writable()
        gates = self.gates(planning=planning)
        if not all(gate.is_open for gate in gates):
            return gates, None
        schedule.look(self._state, self._clock())
        asked: Model | None = None
        notes: tuple[str, ...] = ()
        try:
            asked = metered("consolidate", model, self._settings, clock=self._clock)
        except (ModelFailed, BadSettings) as error:
            notes = (f"no model was asked: {error}",)
        report = self._consolidate(asked, apply=True, progress=progress)
        return gates, report._replace(notes=(*notes, *report.notes))

    def gates(self, *, planning: bool = False) -> Gates:
        """What has to be so before memories are consolidated by themselves, and whether it is."""
        return schedule.gates(
            self._state,
            self._settings.dream,
            files=self._reader.count(),
            learned=self.learner.inbox.learned(),
            now=self._clock(),
            planning=planning,
            logging=self._policy == "log",
            team=self._writer.ledger is not None and self._writer.scope.layer == "team" and self._policy != "auto",
        )

    def _consolidate(self, model: Model | None, *, apply: bool, **options: Any) -> ConsolidationReport:
        store, embedder = self._writer.store, None
        with suppress(EmbedderFailed):
            if self._settings.embedder != "none":
                embedder = find_embedder(self._settings.cache, name="static")
        with ExitStack() as held:
            if apply and hasattr(store, "hub"):  # no other machine does the same
                held.enter_context(store.lock("consolidate", wait=schedule.WORKER_SECONDS))
            return consolidate.run(
                self._memories,
                state=self._state,
                now=self._clock(),
                model=model,
                apply=apply,
                learned=self.learner.inbox.learned(),
                embedder=embedder,
                **options,
            )

    def expect(self, question: str, path: str) -> None:
        """Record that a question is answered by a memory. Raises NotFound."""
        self._writer.require_writable()
        rehearsal.expect(self._state, question, self._writer.read(path).path)

    @property
    def _policy(self) -> str:
        return self._settings.policy_of(self._writer.scope)
