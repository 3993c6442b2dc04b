"""What must be found in the end, whatever happened to machines, networks and hubs: told by a plain dictionary.

Every text is written once and is like no other. A text may go only when somebody who had it before them replaced or
removed it; so it does not matter who was offline when. All others are found in the end, each once, on every machine.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import count

Files = Mapping[str, bytes]


@dataclass(slots=True)
class Ledger:
    """The fate of every text: to be found (`kept`), perhaps (`perhaps`), or not (`gone`)."""

    kept: set[bytes] = field(default_factory=set)
    perhaps: set[bytes] = field(default_factory=set)
    gone: set[bytes] = field(default_factory=set)
    erased: set[bytes] = field(default_factory=set)
    twice: set[bytes] = field(default_factory=set)
    numbers: count[int] = field(default_factory=count)

    def text(self, path: str, by: str = "agent") -> bytes:
        """A memory that nobody has written before."""
        name, number = path[:-3].replace("/", " "), next(self.numbers)
        header = f"---\nname: {name}\ndescription: all about {name}\ntype: user\nsource: agent\n---\n"
        return f"{header}{by} {number:06}\n".encode()

    def accept(self, old: bytes | None, new: bytes | None) -> None:
        """Somebody who had `old` before them saved `new` (None: nothing), and was told so or needs no answer."""
        if old is not None and old != new:
            self._move(old, self.perhaps if old in self.twice else self.gone)
        if new is not None and old in self.erased:
            self.doubt_erased(new)
        elif new is not None:
            self._move(new, self.kept)

    def refuse(self, new: bytes | None) -> None:
        """Somebody was told that this was not saved."""
        if new is not None and new not in self.kept | self.perhaps:
            self.gone.add(new)

    def doubt(self, *texts: bytes | None) -> None:
        """Nobody was told anything: these texts are there or not."""
        for text in texts:
            if text is not None:
                self._move(text, self.perhaps)

    def doubt_copied(self, texts: set[bytes]) -> None:
        """These may have got a second name, which whoever replaces them or goes back to them does not know."""
        self.doubt(*texts & self.gone)
        self.twice |= texts

    def doubt_erased(self, *texts: bytes | None) -> None:
        """These were made of a text that was erased elsewhere, and go with it or not."""
        self.doubt(*texts)
        self.erased.update(text for text in texts if text is not None)

    def forget(self, texts: Iterable[bytes]) -> None:
        """These texts are nowhere any more."""
        for text in texts:
            self._move(text, self.gone)
            self.erased.add(text)

    def wrong(self, files: Files) -> list[str]:
        """What is lost, doubled or back among files on which all machines agree."""
        found = Counter(files.values())
        return [
            *(f"lost: {_shown(text)}" for text in sorted(self.kept - set(found))),
            *(f"doubled: {_shown(text)}" for text, times in found.items() if times > 1 + (text in self.twice)),
            *(f"back: {_shown(text)}" for text in sorted(self.gone & set(found))),
            *(f"nobody's: {_shown(text)}" for text in sorted(set(found) - self.kept - self.perhaps - self.gone)),
        ]

    def settle(self, files: Files) -> None:
        """Take what was found for what is: doubts end here."""
        self.gone |= self.perhaps - set(files.values())
        self.kept = set(files.values())
        self.perhaps = set()
        self.erased -= self.kept

    def _move(self, text: bytes, fate: set[bytes]) -> None:
        for other in (self.kept, self.perhaps, self.gone):
            other.discard(text)
        fate.add(text)


def _shown(text: bytes) -> str:
    return text.rsplit(b"---\n", 1)[-1].decode("utf-8", "replace").strip()[:80]
