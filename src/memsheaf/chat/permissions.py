"""Permissions: a tool says what it wants to do, the user allows or denies it.

Reading inside the working directory is free. All else is asked for, unless the user has answered for good, or said
beforehand what is allowed. In plan mode nothing is written and nothing is run, whatever was allowed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from typing import NamedTuple

from memsheaf.errors import Refused
from memsheaf.text.neutralize import one_line

_SHOWN = 200  # characters of what a rule is about


class PermissionRequest(NamedTuple):
    """A question to the user about what a tool wants to do.

    The `line` says what will happen, and `detail` all of it, safe for a terminal: a command in full, a diff. `reach`
    is "read", "write" or "run"; with `outside` it goes beyond the working directory. `key` is what "always" would
    allow.
    """

    tool: str
    line: str
    detail: str = ""
    reach: str = "read"
    outside: bool = False
    key: str = ""


class Permission:
    """The permissions of one conversation. Without `ask`, all that was not allowed beforehand is refused.

    `allow` names "read" (outside the working directory), "write" (inside it), "shell", and "outside" (with "write").

    >>> wish = PermissionRequest("shell", "run: rm -r build", reach="run", key="run rm -r build")
    >>> Permission(lambda wish: "no").require(wish)
    Traceback (most recent call last):
    memsheaf.errors.Refused: the user said no to this: run: rm -r build. Do not try it another way; ask what to do
    """

    def __init__(
        self,
        ask: Callable[[PermissionRequest], str] | None = None,
        *,
        allow: Collection[str] = (),
        planning: bool = False,
    ) -> None:
        self.ask = ask
        self.planning = planning
        self._allow = frozenset(allow)
        self._rules: dict[str, str] = {}
        self._asking = threading.RLock()  # one question at a time

    def require(self, wish: PermissionRequest) -> None:
        """Let a tool go on, once the user is known to agree.

        Raises:
            Refused: it may not. The message tells a model what to do instead.
        """
        said = f"{wish.line} (outside the working directory)" if wish.outside else wish.line
        if self.planning and wish.reach != "read":
            raise Refused(
                f"this is plan mode, in which nothing is written and no command is run: {said}. "
                "Describe what you would do instead, and let the user decide"
            )
        with self._asking:
            rule = self._rules.get(wish.key) if wish.key else None
            if rule == "never":
                raise Refused(f"the user never allows this: {said}. Go on without it, and do not try it again")
            if rule == "always" or self._is_free(wish):
                return
            if self.ask is None:
                raise Refused(f"nobody is here to allow this: {said}. Go on without it, and say what was left undone")
            try:
                answer = self.ask(wish)
            except EOFError:  # to walk away is no answer
                answer = "no"
            if answer in ("always", "never") and wish.key:
                self._rules[wish.key] = answer
            if answer not in ("once", "always"):
                raise Refused(f"the user said no to this: {said}. Do not try it another way; ask what to do")

    def rules(self) -> list[str]:
        """Return the answers for good so far, such as "always: run pytest -q"."""
        return [f"{answer}: {one_line(key, _SHOWN)}" for key, answer in self._rules.items()]

    def forget(self) -> None:
        """Ask again from now on, also what was answered for good."""
        self._rules.clear()

    def _is_free(self, wish: PermissionRequest) -> bool:
        """Return True if no question is needed: it only reads here, or it was allowed beforehand."""
        if wish.reach == "read":
            return not wish.outside or not self._allow.isdisjoint(("read", "outside"))
        needed = {"write" if wish.reach == "write" else wish.tool}
        return self._allow >= (needed | {"outside"} if wish.outside else needed)
