"""Which messages the inbox has had: a file of digests, so that what a host tells again is not read again.

A line holds the digest of a message, or `@` and the digests of a conversation and of its latest turn, or `#` and the
number of the last turn that was put in place before it was written. Lines are added without a flush: what a power cut
takes of them can be told from the turns that wait.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from hashlib import blake2b

from memsheaf.store.state import State

NAME = "inbox.known"
KNOWN = 65_536
"""How many of the latest messages are known again, at least; at twice the size the file is shortened to these."""

_MARK = re.compile(rb"\n#([0-9]{12})(?=\n)")
_LINE = 17  # bytes that a digest takes, with the end of its line


class SeenMessages:
    """What was known when it was read, and what is added since. Whoever adds to it holds the lock of the inbox."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._data = state.read(NAME) or b""

    @property
    def last(self) -> int | None:
        """The number of the last turn that was noted; None when there is none, or the file was lost."""
        marks = _MARK.findall(self._data[-64:]) or _MARK.findall(self._data)
        return int(marks[-1]) if marks else None

    def among(self, keys: Sequence[str]) -> set[str]:
        """Those of these digests that are known."""
        if len(keys) < 32:
            return {key for key in keys if f"\n{key}\n".encode() in self._data}
        return set(keys) & set(self._data.decode("ascii", "replace").split("\n"))

    def is_latest(self, conversation: str, keys: Sequence[str]) -> bool:
        """Whether the turn of these messages is the latest that was noted of its conversation."""
        name, turn = _latest(conversation, keys)
        at = self._data.rfind(f"\n@{name}".encode())
        return at < 0 or self._data.startswith(f"\n@{name}{turn}\n".encode(), at)

    def note(self, conversation: str, keys: Sequence[str], last: int, new: Sequence[str] | None = None) -> None:
        """Write down a turn of a conversation, of which these messages, or the `new` ones, were not known.

        `last` is the number of the last turn that is in place. Raises StoreFailed.
        """
        name, turn = _latest(conversation, keys)
        lines = "\n".join(["", *(keys if new is None else new), f"@{name}{turn}", f"#{last:012}", ""]).encode()
        self._data += lines
        if len(self._data) <= 2 * KNOWN * _LINE:
            self._state.add(NAME, lines, durably=False)
            return
        digests = [line for line in self._data.split(b"\n") if len(line) == _LINE - 1]
        self._data = b"\n".join([b"", *digests[-KNOWN:], b"#%012d" % last, b""])
        self._state.write(NAME, self._data)


def _latest(conversation: str, keys: Sequence[str]) -> tuple[str, str]:
    return digest("conversation", conversation), digest("turn", *keys)


def settle(state: State) -> None:
    """Make what was noted outlast a power cut. Raises StoreFailed."""
    state.add(NAME, b"")


def digest(*parts: str) -> str:
    """A short name for texts, from which they cannot be told; none of them can run into the next.

    >>> digest("users", "es") == digest("user", "ses")
    False
    """
    hashed = blake2b(digest_size=(_LINE - 1) // 2)
    for part in parts:
        data = part.encode("utf-8", "replace")
        hashed.update(b"%d:%s" % (len(data), data))
    return hashed.hexdigest()
