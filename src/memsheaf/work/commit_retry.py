"""Read, plan, commit, retry: how the files of a layer are changed."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from memsheaf.errors import BadHeader, Changed, Exists, NotFound, SecretFound
from memsheaf.guard.paths import check_stored
from memsheaf.guard.secrets import find_secrets
from memsheaf.memory import STRICT, Allow, Memory
from memsheaf.sheaf import Sheaf
from memsheaf.store import ABSENT, Change, Commit
from memsheaf.text_edits import checked
from memsheaf.timeouts import retry

Look = Callable[[str], str | None]  # gives the text of a file as it is now, None when there is none
Plan = Callable[[Look], Mapping[str, str | None]]  # the new text of each file (None: remove it)


def commit(sheaf: Sheaf, plan: Plan, why: str, *, allow: Allow = STRICT) -> Commit | None:
    """Change files of a scope as one commit, all or none; None when the plan changes nothing.

    The plan is asked again when a file that it looked at has changed meanwhile, so that two who note something at
    once both find it there. A file that the plan did not look at must not exist.

    Raises:
        Busy: others are always faster.
        BadHeader: a file that the plan looked at is not understood.
        Exists: one is there under a name that differs in case alone.
        TextRefused, SecretFound, PathRefused: a text may not be stored; nothing was.
    """

    def attempt() -> Commit | None:
        seen: dict[str, Memory | None] = {}

        def look(path: str) -> str | None:
            try:
                seen[path] = sheaf.read(path)
            except NotFound:
                seen[path] = None
            found = seen[path]
            if found and check_stored(found.path) != check_stored(path):
                raise Exists(found.path, f"{path!r} would be the same file on some systems")
            if found and found.data and found.state not in ("ok", "free"):
                raise BadHeader(found.path, found.problem)  # a machine does not rewrite it
            return found.text if found else None

        wanted = plan(look)
        changes = []
        for path, text in wanted.items():
            was = seen.get(path)
            data = None if text is None else checked(path, text, was, free=True).data
            if data is not None or was is not None:
                changes.append(Change(path, data, was.version if was else ABSENT))
        if not changes:
            return None
        try:
            return sheaf.change_many(changes, why, by=sheaf.by, allow=allow._replace(anyway=True))
        except Exists as error:
            raise Changed(error.path) from None

    try:
        return attempt()
    except Changed:  # who was too slow once waits for a turn, so that nobody is too slow for ever
        with sheaf.writer.turn():
            return retry(attempt, busy=f"the files of {sheaf.scope} change faster than they can be read", times=20)


def refuse_secrets_in(text: str, where: str) -> None:
    """Raise SecretFound for what would become the name of a file or folder."""
    for secret in find_secrets(text):
        raise SecretFound(secret.kind, where)
