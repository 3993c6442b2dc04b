"""Facts of a repository: short sentences that can be false, each with the places that show them to be true.

A fact has five fields and is never edited. What has become wrong is superseded: the new fact names the old one, which
is retired in the same commit.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

from memsheaf.errors import Changed, CitationRefused, Exists, NotFound, PathRefused, Refused, TextRefused, hinted
from memsheaf.guard.citations import Citation, Tree, make, parse
from memsheaf.guard.paths import FACTS, file_name, is_fact
from memsheaf.guard.secrets import without_secrets
from memsheaf.index.database import Row
from memsheaf.memory import DESCRIPTION_LIMIT, KINDS, STRICT, Allow, Memory, compose
from memsheaf.sheaf import Sheaf
from memsheaf.store import ABSENT, Change
from memsheaf.text.neutralize import cut_bytes, one_line
from memsheaf.text.sections import fold_title
from memsheaf.text_edits import dated, placed

FACT_BYTES = 500

_WANTED = (
    "A fact has a subject, one or two sentences that can be false, a place that shows it, a reason and a category."
)


class Fact(NamedTuple):
    """One fact: what it is about, what is so, where that can be seen, why it is kept, and which type it is of."""

    subject: str
    fact: str
    citations: tuple[str, ...]
    reason: str
    category: str


def problems_of(fact: Fact, tree: Tree | None = None) -> list[tuple[str, str]]:
    """The fields that are missing or wrong, each with what is wrong; with a tree, cited places have to be there."""
    found = [] if fact.subject.strip() else [("subject", "there is no subject")]
    size = len(" ".join(fact.fact.split()).encode("utf-8", "replace"))
    if size == 0:
        found.append(("fact", "there is no fact"))
    elif size > FACT_BYTES:
        found.append(("fact", f"it is {size} bytes long, and {FACT_BYTES} are the most"))
    found += [("citations", why) for why in _wrong_with_places(fact.citations, tree)]
    found += [] if fact.reason.strip() else [("reason", "there is no reason")]
    found += [] if fact.category in KINDS else [("category", f"the category is not one of {', '.join(KINDS)}")]
    return found


def missing(fact: Fact, tree: Tree | None = None) -> list[str]:
    """What a fact lacks, in words; [] when it is complete. With a tree, the cited places have to be there.

    >>> missing(Fact("Test command", "Tests run with make test.", ("Makefile:3",), "", "project"))
    ['there is no reason']
    """
    return [why for _, why in problems_of(fact, tree)]


class Facts:
    """The facts of a repository; `commit` is the id of the last one stored here, "" before."""

    def __init__(self, sheaf: Sheaf) -> None:
        self._sheaf = sheaf
        self.commit = ""

    def add(self, fact: Fact, *, supersedes: str = "", tree: Tree | None = None, allow: Allow = STRICT) -> Memory:
        """Store a fact; the one that it `supersedes` is retired with it. With a tree, its places get their hashes.

        Raises:
            TextRefused: it is not complete; nothing insists against that.
            Exists: there is a fact on this subject, and it is not the one that is superseded.
            NotFound, Refused: what it supersedes is not there, or is no fact.
            SecretFound, Duplicate, NotWorth, as whenever something is remembered.
        """
        if lacking := missing(fact, tree):
            told = without_secrets("; ".join(lacking))
            raise _refused(f"this fact is not complete: {told}", _WANTED)
        if tree is not None:  # the hash of what is there now goes behind each place
            fact = fact._replace(citations=tuple(str(make(tree, place)) for place in _places(fact.citations)))
        try:
            return self._add(fact, supersedes, allow)
        except (Changed, Exists):  # somebody may have been faster, and the second look knows it
            return self._add(fact, supersedes, allow)

    def _add(self, fact: Fact, supersedes: str, allow: Allow) -> Memory:
        old = self.find(supersedes) if supersedes else None
        if old and self.of(old) == fact:
            raise _refused(f"{old.path!r} says this already", "Say what is true now, or cite what shows it now.")
        # the name first: whoever comes with a twin after the look below finds this name taken
        path = FACTS + file_name(fact.category, fact.subject, lambda name: self._sheaf.own.is_taken(FACTS + name))
        for twin in self._on(fact.subject):
            if old is None or twin != old.path:
                error = Exists(twin, "it is a fact on the same subject")
                raise hinted(error, f"`memsheaf fact supersede {twin} FACT --reason TEXT` says what is true now.")
        sheaf = self._sheaf
        text = dated(" ".join(fact.fact.split()), sheaf.today)
        made = compose(
            name=fact.subject,
            description=cut_bytes(text, DESCRIPTION_LIMIT),
            kind=fact.category,
            body=text,
            created=sheaf.today,
            updated=sheaf.today,
            source=sheaf.by,
            citations=fact.citations,
            supersedes=(old.path,) if old else (),
            reason=fact.reason,
        )
        changes = [Change(path, made.data, ABSENT)]
        changes += [Change(old.path, None, old.version)] if old else []
        why = f"supersede {old.name}" if old else f"fact {made.name}"
        self.commit = sheaf.change_many(changes, why, by=sheaf.by, allow=allow).id
        return placed(made, path)

    def supersede(
        self,
        name: str,
        text: str,
        *,
        reason: str,
        citations: Sequence[str] = (),
        tree: Tree | None = None,
        allow: Allow = STRICT,
    ) -> Memory:
        """Correct a fact: another takes its subject and category, and its citations unless it has its own.

        Raises:
            As `add`.
        """
        old = self.find(name)
        was = self.of(old)
        fact = was._replace(fact=text, reason=reason, citations=tuple(citations) or _places(was.citations))
        return self.add(fact, supersedes=old.path, tree=tree, allow=allow)

    def all(self) -> list[Memory]:
        """Every fact, in the order of their files."""
        found = []
        for row in self._rows():
            with suppress(NotFound):  # somebody was faster
                found.append(self._sheaf.read(row.path))
        return found

    def find(self, name: str) -> Memory:
        """One fact by its file, with or without the folder, or by its subject.

        Raises:
            NotFound: there is none.
            Refused: it is no fact, or several are on this subject.
        """
        try:
            found = self._sheaf.read(name if is_fact(name) else FACTS + name)
        except (NotFound, PathRefused):
            paths = self._on(name)
            if len(paths) > 1:
                raise Refused(f"several facts are on it: {', '.join(paths)}; name one by its file") from None
            if not paths:
                error = NotFound(name, f"there is no fact {one_line(name, 80)!r}")
                raise hinted(error, "`memsheaf fact` lists them, each with its file and its subject.") from None
            found = self._sheaf.read(paths[0])
        if found.state != "ok":
            raise Refused(f"{found.path!r} is no fact: it has no header that can be read")
        return found

    def of(self, memory: Memory) -> Fact:
        """The five fields of a fact that is stored."""
        return Fact(memory.name, memory.body.strip(), memory.citations, memory.reason, memory.kind)

    def _on(self, subject: str) -> list[str]:
        """The files of the facts on a subject."""
        wanted = compared_subject(subject)
        return [row.path for row in self._rows() if compared_subject(row.name) == wanted]

    def _rows(self) -> list[Row]:
        return [row for row in self._sheaf.list() if is_fact(row.path) and row.state == "ok"]


def _refused(message: str, advice: str) -> TextRefused:
    return hinted(TextRefused(message), advice)


def _wrong_with_places(citations: Sequence[str], tree: Tree | None) -> Iterator[str]:
    """What is wrong with the places that shall show a fact to be true."""
    exact = False
    for text in citations:
        place = parse(text, typed=tree is not None)
        if place is None:
            yield f"{one_line(text, 80)!r} is no place in a working tree"
            continue
        exact = exact or bool(place.first or place.symbol)
        try:
            if tree:
                make(tree, str(place.place))
        except CitationRefused as error:
            yield str(error)
    if not exact:
        yield "no citation has a file and a line or a symbol, such as src/app.py:12"


def _places(citations: Sequence[str]) -> tuple[str, ...]:
    """Citations without their hashes."""
    found = ((text, parse(text, typed=True)) for text in citations)
    return tuple(str(place.place) if isinstance(place, Citation) else text for text, place in found)


def compared_subject(text: str) -> str:
    """A subject as it is compared."""
    text = unicodedata.normalize("NFKC", text)
    return fold_title(text) or text.strip()
