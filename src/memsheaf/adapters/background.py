"""Run our work in the background of another framework's agent, which neither waits for it nor fails with it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from memsheaf.errors import MemsheafError
from memsheaf.learn.learner import ALREADY_LEARNING, Distilled
from memsheaf.sheaf import Sheaf, load_metered_model

_log = logging.getLogger("memsheaf")


@contextmanager
def going_on(without: str) -> Iterator[None]:
    """Log errors instead of raising them, so that the host agent goes on."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 - whatever it is, it is not the agent's
        _log.warning("%s: %s", without, error)


def log_problem(result: Distilled) -> None:
    """Log what has to wait longer. That another process is learning is no problem."""
    if result.problem and result.problem != ALREADY_LEARNING:
        _log.warning("what was said waits, and is learned later: %s", result.problem)


class Distiller:
    """Distils waiting turns in a background thread, one run at a time, and passes each result to `report`.

    Rules take a moment, and a process that ends waits for them. For a model it does not wait: what was not read by
    then waits in the inbox for the next run.
    """

    def __init__(self, memory: Sheaf | Sheaf, report: Callable[[Distilled], None] = log_problem) -> None:
        self._memory = memory
        self._report = report
        self._guard = threading.Lock()
        self._worker: threading.Thread | None = None
        self._is_wanted = False

    def start(self) -> None:
        """Begin, or have the running thread look once more when it is through."""
        try:
            daemon = bool(load_metered_model(self._memory.settings, "extract"))  # then nobody waits for it at the end
        except MemsheafError:
            daemon = True
        with self._guard:
            self._is_wanted = True
            if self._worker is None or not self._worker.is_alive():  # in a forked process, it is the parent's
                self._worker = threading.Thread(target=self._work, name="memsheaf-distil", daemon=daemon)
                self._worker.start()

    @property
    def is_busy(self) -> bool:
        """True while something is being learned."""
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
                    result = self._memory.distil()
                except MemsheafError as error:
                    result = Distilled(problem=str(error))
                self._report(result)
