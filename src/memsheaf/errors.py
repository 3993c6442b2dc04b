"""Every error memsheaf raises. Catch `MemsheafError` to catch them all.

    MemsheafError
    ├── NotFound           there is no memory at that path
    ├── Exists             something is there already
    ├── Changed            someone wrote first; nothing was written now
    ├── Refused            what was asked may not be done
    │   ├── PathRefused      a name or path that could leave its root, or collide
    │   ├── ScopeRefused     no such scope, or a scope that leads elsewhere
    │   ├── TextRefused      a text that is not a sound memory
    │   │   ├── SecretFound    a text with a key, a token or a password in it
    │   │   ├── Duplicate      a text that says what another memory says already
    │   │   └── NotWorth       a text that says nothing, holds for the moment only, or can be looked up
    │   ├── ReadOnly         a sheaf opened for reading, a fact, or a team's memory for all but people
    │   └── HubRefused       the hub does not let this member or this version of memsheaf do that
    ├── BadHeader          a file whose header we do not understand, and so do not rewrite
    ├── NoMatch            the text to replace is not there, or not as often as was said
    ├── NotInHistory       the history has no such commit or text, or nothing is left to undo
    ├── Busy               another process holds the lock
    ├── StoreFailed        the disk refused: full, failing, or not ours to write
    │   ├── HubUnreachable   the hub of a scope does not answer; reading goes on
    │   └── HubRestored      the hub lacks what it had: it was restored from an older backup
    ├── ModelFailed        a language model or an encoder gave no answer, or none that can be used
    │   └── CapReached       to ask it would cost more than what was allowed
    └── BadSettings        a configuration that cannot be used

Each has a message that says what happened, a `hint` that says what to do next, and in `ref` the memory it is about,
if it is about one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Ref(NamedTuple):
    """The identity of a memory: its scope, and the path of its file in the folder of that scope.

    Shown to people and models, a file of the project is its path alone; no path can hold the colon.

    >>> str(Ref("user", "user_tabs.md")), str(Ref("project", "project_x.md"))
    ('user:user_tabs.md', 'project_x.md')
    """

    scope: str
    path: str

    def __str__(self) -> str:
        return self.label("project")

    def label(self, home: str) -> str:
        """Return the name under which a file is shown: bare in the scope that is `home`, else with its scope."""
        return self.path if self.scope in ("", home) else f"{self.scope}:{self.path}"


class MemsheafError(Exception):
    """Something memsheaf promised cannot be kept, or was asked for wrongly.

    An error about a memory, or about another file of ours, which has no scope, has {} in its message where the name
    of the file stands.
    """

    hint = ""
    ref = Ref("", "")

    def __init__(self, message: str = "", *, about: Ref | str = "", hint: str = "") -> None:
        self._message = message
        if about:
            self.ref = about if isinstance(about, Ref) else Ref("", about)
        self.hint = hint or self.hint
        super().__init__(self.message("project"))

    def message(self, home: str | None) -> str:
        """Return what happened, for a reader to whom files of the scope `home`, or of any, have bare names."""
        if not self.ref.path:
            return self._message
        name = self.ref.path if home is None else self.ref.label(home)
        return self._message.replace("{}", repr(name), 1)


class NotFound(MemsheafError):
    """There is no memory at that path."""

    hint = "`memsheaf list` shows what exists."

    def __init__(self, where: Ref | str, why: str = "", *, hint: str = "") -> None:
        super().__init__(why or "no memory at {}", about=where, hint=hint)


class Exists(MemsheafError):
    """Something exists already, and replacing it was not requested."""

    hint = "`memsheaf edit` changes it."

    def __init__(self, where: Ref | str, why: str = "", *, hint: str = "") -> None:
        super().__init__(f"{{}} exists already: {why}" if why else "{} exists already", about=where, hint=hint)


class Changed(MemsheafError):
    """Someone wrote first. Nothing was written now."""

    hint = "Read the memory again and repeat the change on its present text."

    def __init__(self, where: Ref | str) -> None:
        super().__init__("{} is not at the version this change was made for", about=where)


class Refused(MemsheafError):
    """The request may not be carried out."""


class PathRefused(Refused):
    """A name or path that could leave its root, or collide with another."""

    hint = "Use a plain relative name such as 'user_prefers-tabs.md'."

    def __init__(self, path: str, why: str, *, hint: str = "") -> None:
        super().__init__(f"the path {path!r} is not allowed: {why}", hint=hint)
        self.path = path
        self.why = why


class ScopeRefused(Refused):
    """No such scope, or a scope that leads elsewhere."""

    hint = "Scopes are user, project, agent/NAME, task/SLUG, session/ID and team/NAME."


class TextRefused(Refused):
    """A text that is not a sound memory. Nothing was stored."""

    hint = (
        "A memory is a header with name, description and type, then a text; `memsheaf help remember` has an example."
    )


class SecretFound(TextRefused):
    """A text with a secret in it that was not there before. Nothing was stored, and the message does not say it."""

    hint = "Keep it where secrets are kept, and remember only where that is."

    def __init__(self, kind: str, where: str) -> None:
        super().__init__(f"{where} holds {kind}; nothing was stored")
        self.kind = kind
        self.where = where


class Duplicate(TextRefused):
    """A text that says what another memory says already. Nothing was stored."""

    hint = "If it corrects that memory, change that one; if it says something else, say how it differs."

    def __init__(self, ref: Ref, likeness: float) -> None:
        message = f"{{}} says the same already ({likeness:.0%} of the words); nothing was stored"
        super().__init__(message, about=ref)


class NotWorth(TextRefused):
    """A text that says nothing, holds for the moment only, or can be looked up in the code. Nothing was stored."""

    hint = "Keep what will still be true and of use in another conversation, and what cannot be looked up."

    def __init__(self, why: str, *, hint: str = "") -> None:
        super().__init__(f"this is not worth keeping: {why}; nothing was stored", hint=hint)


class ReadOnly(Refused):
    """No change is allowed: the sheaf was opened for reading, `ref` is a fact, or an agent may not write to a team.

    The `memory` that an agent would save for the team `scope`, in place of what `was` there, can be proposed.
    """

    hint = "Open it without read_only to change memories."
    scope = ""
    memory: object = None
    was: object = None


def fact_edit_error(fact: Ref | str) -> ReadOnly:
    """Return the refusal of a change: a fact of the repository is never edited, nor removed by a machine."""
    return ReadOnly(
        "{} is a fact: it is corrected by another that supersedes it, not edited",
        about=fact,
        hint="`memsheaf remember FACT --reason TEXT --replaces FILE` says what is true now, and retires the old one.",
    )


class HubRefused(Refused):
    """The hub refuses this member or version; nothing was changed. `lacks_permission`: another role could do it.
    `is_of_commit`: it is what was pushed that it does not take."""

    lacks_permission = is_of_commit = False
    hint = "`memsheaf hub status` shows your role and the versions."


class BadHeader(MemsheafError):
    """A file whose header we do not understand: readable as it is, never rewritten by a machine."""

    hint = "`memsheaf doctor` says what is wrong; `memsheaf edit` opens the file."

    def __init__(self, where: Ref | str, why: str, *, hint: str = "") -> None:
        super().__init__(f"{{}} has a header we cannot read: {why}", about=where, hint=hint)
        self.why = why


class NoMatch(MemsheafError):
    """The text to replace is not in the memory, or not as often as the caller said: at these lines."""

    hint = "Read the memory and copy the text exactly, with what is around it; or say how often it occurs."

    def __init__(self, where: Ref | str, lines: Sequence[int] = ()) -> None:
        at = f", at lines {', '.join(map(str, lines))}" if lines else ""
        super().__init__(f"the text to replace occurs {len(lines)} times in {{}}{at}", about=where)
        self.lines = tuple(lines)


class NotInHistory(MemsheafError):
    """The history has no such commit or text: it never was, its retention passed, or it was erased."""

    hint = "`memsheaf log --full` shows the commits, and with a PATH which of its versions are still there."


class Busy(MemsheafError):
    """Another process holds the lock, and did not let go in time."""

    hint = "Try again in a moment; nothing was changed."


class StoreFailed(MemsheafError):
    """The disk refused: full, failing, or not ours to write."""

    hint = "Check free space and permissions, then run `memsheaf doctor`."


class HubUnreachable(StoreFailed):
    """The hub of a scope does not answer. What is here can be read; whether something was saved, the message says."""

    hint = (
        "Reading goes on. `memsheaf hub status` shows the hub; `memsheaf hub add -s SCOPE --offline queue` keeps "
        "changes here until it answers."
    )


class HubRestored(StoreFailed):
    """The hub lacks what this machine pulled from it: it was restored from an older backup."""

    hint = "`memsheaf hub sync --again -s SCOPE` brings both together: the same text once, different texts both."


class ModelFailed(MemsheafError):
    """A language model or an encoder is not there, gave no answer in time, or none that can be used."""

    hint = "Nothing was lost: what needs no model went on without it."


class CapReached(ModelFailed):
    """To ask the model would cost more than what was allowed. It was not asked."""

    hint = "`memsheaf doctor --cost 7` shows what was spent; the caps are in the settings, under [spend]."


class BadSettings(MemsheafError):
    """A configuration that cannot be used: the setting `key`, if it is one, for a `reason` that names no file."""

    hint = "`memsheaf config` lists the settings."
    key = reason = ""
