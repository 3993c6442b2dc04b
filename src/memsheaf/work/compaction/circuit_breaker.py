"""The circuit breaker of compaction: after three failures in a row it waits for a person's approval.

The count is a small file of the state directory, one for each conversation that failed, so a restart does not forget
it. It goes when a compaction succeeds or a person approves. A count that is there and cannot be read is taken for one
failure less than the limit: one more try is let through, and only its success makes it good again.
"""

from __future__ import annotations

from memsheaf.errors import Refused
from memsheaf.guard.secrets import without_secrets
from memsheaf.store.state import State
from memsheaf.text.neutralize import one_line
from memsheaf.values import sha256

FAILURES = 3

_WAIT = 5.0  # seconds for another process to count


class CircuitBreaker:
    """The failures of one conversation, in a row."""

    def __init__(self, state: State, conversation: str) -> None:
        self._state = state
        self._name = f"breaker-{sha256(conversation.encode('utf-8', 'replace')).hexdigest()[:24]}.json"

    def failures(self) -> tuple[int, str]:
        """How many there were since the last success, and why the last one was."""
        if self._name not in self._state.names():
            return 0, ""
        found = self._state.load(self._name)
        count = found.get("failures") if isinstance(found, dict) else None
        why = found.get("why") if isinstance(found, dict) else None
        if type(count) is not int or count < 1 or not isinstance(why, str):
            return FAILURES - 1, "the count of failures cannot be read"
        return count, why

    def require(self) -> None:
        """Raise Refused when a person has to approve first."""
        count, why = self.failures()
        if count >= FAILURES:
            error = Refused(f"waiting for approval: compaction failed {count} times in a row, last because {why}")
            error.hint = "Look at why; then `memsheaf compact FILE --approve` lets it go on."
            raise error

    def fail(self, why: str) -> int:
        """Count a failure. Gives how many there are now. Raises StoreFailed, Busy."""
        with self._state.lock("breaker", wait=_WAIT):
            count = self.failures()[0] + 1
            self._state.save(self._name, {"failures": count, "why": one_line(without_secrets(why), 300)})
        return count

    def reset(self) -> None:
        """Begin again: it succeeded, or a person approved. Raises StoreFailed, Busy."""
        if self._name in self._state.names():
            with self._state.lock("breaker", wait=_WAIT):
                self._state.remove(self._name)
