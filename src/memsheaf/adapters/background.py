"""Run our work in the background of another framework's agent, which neither waits for it nor fails with it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from memsheaf.config import Settings
from memsheaf.errors import MemsheafError
from memsheaf.learn.learner import ALREADY_LEARNING, Distilled
from memsheaf.llm import Model
from memsheaf.recall.session import Session
from memsheaf.recall.turns import Turn
from memsheaf.scope import Scope
from memsheaf.sheaf import Sheaf
from memsheaf.work.layers import Layers

_log = logging.getLogger("memsheaf")


@contextmanager
def going_on(without: str) -> Iterator[None]:
    """Log errors instead of raising them, so that the host agent goes on."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 - whatever it is, it is not the agent's
        _log.warning("%s: %s", without, error)


def distil(sheaf: Sheaf) -> None:
    """Make memories of what waits, and tell the log what has to wait longer, unless another process is at it."""
    _logged(sheaf.distil())


def _logged(done: Distilled) -> None:
    if done.problem and done.problem != ALREADY_LEARNING:
        _log.warning("what was said waits, and is learned later: %s", done.problem)


class Distiller:
    """Distils waiting turns in a background thread, one run at a time.

    `heard` is told what came of it.

    Rules take a moment, and a process that ends waits for them. For a model it does not wait: what was not read by
    then waits in the inbox for the next run.
    """

    def __init__(self, memory: Layers | Sheaf, heard: Callable[[Distilled], None] = _logged) -> None:
        self._memory = memory
        self._heard = heard
        self._guard = threading.Lock()
        self._worker: threading.Thread | None = None
        self._is_wanted = False

    def start(self) -> None:
        """Begin, or have the one who is at it look once more when it is through."""
        try:
            daemon = self._memory.metered("extract") is not None  # then nobody waits for it at the end
        except MemsheafError:
            daemon = True
        with self._guard:
            self._is_wanted = True
            if self._worker is None or not self._worker.is_alive():  # in a forked process, it is the parent's
                self._worker = threading.Thread(target=self._work, name="memsheaf-distil", daemon=daemon)
                self._worker.start()

    @property
    def is_busy(self) -> bool:
        """Whether something is being learned."""
        return bool((worker := self._worker) and worker.is_alive())

    def wait(self, seconds: float | None = None) -> None:
        """Wait until learning is finished, with a time-out in seconds."""
        if (worker := self._worker) and worker.is_alive():  # it may not have begun yet when a Ctrl-C came
            worker.join(seconds)

    def _work(self) -> None:
        while True:
            with self._guard:
                if not self._is_wanted:
                    self._worker = None
                    return
                self._is_wanted = False
            with going_on("what was said is not learned yet"):
                try:
                    found = self._memory.distil()
                except MemsheafError as error:
                    found = Distilled(problem=str(error))
                self._heard(found)


class ScopedMemory:
    """The memory of one scope or several, the nearest first: tools and learning are for the first.

    A scope is named, or is an open `Sheaf`, which its owner closes. Without `distil`, turns wait for `sheaf.distil()`
    or `memsheaf extract`.
    """

    def __init__(
        self,
        scopes: Sequence[Scope | str | Sheaf],
        *,
        settings: Settings | None,
        tree: str,
        read_only: bool,
        distil: bool,
    ) -> None:
        if read_only and any(isinstance(one, Sheaf) and not one.read_only for one in scopes):
            raise ValueError("a sheaf is made read-only when it is opened: Sheaf.open(scope, read_only=True)")
        self._tree = tree
        self._opened: list[Sheaf] = []

        def open_scope(one: Scope | str) -> Sheaf:
            self._opened.append(Sheaf.open(one, settings=settings, cwd=tree, read_only=read_only))
            return self._opened[-1]

        self.nearest, *self._others = [
            one if isinstance(one, Sheaf) else open_scope(one) for one in scopes or ("project",)
        ]
        self.learns = not self.nearest.read_only
        self._distiller = Distiller(self.nearest) if distil else None

    def session(self, model: Model | None = None) -> Session:
        """A conversation in which something is recalled from all scopes; `model` may choose what."""
        return self.nearest.session(*self._others, model=model, tree=self._tree)

    def learn(self, session: Session, turn: Turn) -> None:
        """Keep a turn, and learn from it in the background."""
        with going_on("nothing is learned from this turn"):
            if session.learn(turn) and self._distiller:
                self._distiller.start()

    def close(self) -> None:
        """Wait until what was said is learned, and close what was opened here. Nothing is lost without."""
        if self._distiller:
            self._distiller.wait()
        for sheaf in self._opened:
            sheaf.close()
