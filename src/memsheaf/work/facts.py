"""Facts of a repository: short sentences that can be false, each with the places that show them to be true.

A fact has five fields and is never edited. What has become wrong is superseded: the new fact names the old one, which
is retired in the same commit.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import NamedTuple

from memsheaf.errors import NotFound, PathRefused, Refused, TextRefused
from memsheaf.guard.citations import Tree, make, parse
from memsheaf.guard.paths import FACTS, file_name, is_fact
from memsheaf.guard.secrets import without_secrets
from memsheaf.memory import DESCRIPTION_LIMIT, KINDS, STRICT, Allow, Memory
from memsheaf.sheaf import Sheaf
from memsheaf.text.neutralize import cut_bytes, one_line
from memsheaf.text.sections import fold_title

MAX_FACT_BYTES = 500


class Fact(NamedTuple):
    """One fact: what it is about, what is so, where that can be seen, why it is kept, and which type it is of."""

    subject: str
    fact: str
    citations: tuple[str, ...]
    reason: str
    category: str


def problems_of(fact: Fact, tree: Tree | None = None) -> list[tuple[str, str]]:
    """Return the fields that are missing or wrong, each with what is wrong; with a tree, places have to be there.

    >>> problems_of(Fact("Test command", "Tests run with make test.", ("Makefile:3",), "", "project"))
    [('reason', 'there is no reason')]
    """
    problems = [
        (field, f"there is no {field}") for field in ("subject", "fact", "reason") if not getattr(fact, field).strip()
    ]
    size = len(" ".join(fact.fact.split()).encode("utf-8", "replace"))
    if size > MAX_FACT_BYTES:
        problems.append(("fact", f"it is {size} bytes long, and {MAX_FACT_BYTES} are the most"))
    if fact.category not in KINDS:
        problems.append(("category", f"the category is not one of {', '.join(KINDS)}"))
    is_exact = False
    for text in fact.citations:
        place = parse(text, typed=tree is not None)
        if place is None:
            problems.append(("citations", f"{one_line(text, 80)!r} is no place in a working tree"))
            continue
        is_exact = is_exact or bool(place.first or place.symbol)
        try:
            if tree:
                make(tree, str(place.place))
        except Refused as error:
            problems.append(("citations", str(error)))
    if not is_exact:
        why = "no citation has a file and a line or a symbol, such as src/app.py:12"
        problems.append(("citations", why))
    return problems


class Facts:
    """The facts of a repository."""

    def __init__(self, sheaf: Sheaf) -> None:
        self._sheaf = sheaf

    def add(self, fact: Fact, *, supersedes: str = "", tree: Tree | None = None, allow: Allow = STRICT) -> Memory:
        """Store a fact; the one that it `supersedes` is retired with it. With a tree, its places get their hashes.

        Raises:
            TextRefused: it is not complete; nothing insists against that.
            Exists: there is a fact on this subject, and it is not the one that is superseded.
            NotFound, Refused: what it supersedes is not there, or is no fact.
            SecretFound, Duplicate, NotWorth, as whenever something is remembered.
        """
        if problems := problems_of(fact, tree):
            lacking = without_secrets("; ".join(why for _, why in problems))
            hint = "A fact has a subject, a sentence that can be false, a place that shows it, a reason, a category."
            raise TextRefused(f"this fact is not complete: {lacking}", hint=hint)
        citations = fact.citations
        if tree is not None:  # the hash of what is there now goes behind each place
            citations = tuple(str(make(tree, _without_hash(place))) for place in citations)
        sheaf = self._sheaf
        old = self.find(supersedes) if supersedes else None
        text = " ".join(fact.fact.split())

        def is_taken(name: str) -> bool:
            """Return True also for a file that is gone: its name stays that of the fact that was retired."""
            return bool(sheaf.own.index.same_file(FACTS + name)) or sheaf.own.has_history(FACTS + name)

        return sheaf.write(
            fact.subject,
            cut_bytes(text, DESCRIPTION_LIMIT),
            fact.category,
            text,
            path=FACTS + file_name(fact.category, fact.subject, is_taken),
            supersedes=(old.ref,) if old else (),
            citations=citations,
            reason=fact.reason,
            allow=allow,
        )

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
        places = tuple(citations) or tuple(map(_without_hash, old.citations))
        fact = Fact(old.name, text, places, reason, old.type)
        return self.add(fact, supersedes=old.path, tree=tree, allow=allow)

    def all(self) -> list[Memory]:
        """Return every fact, in the order of their files."""
        return [memory for memory in self._sheaf.own.facts() if memory.state == "ok"]

    def find(self, name: str) -> Memory:
        """Return one fact by its file, with or without the folder, or by its subject.

        Raises:
            NotFound: there is none.
            Refused: it is no fact, or several are on this subject.
        """
        try:
            facts = [self._sheaf.read(name if is_fact(name) else FACTS + name)]
        except (NotFound, PathRefused):
            facts = self._on(name)
        if len(facts) > 1:
            paths = ", ".join(memory.path for memory in facts)
            raise Refused(f"several facts are on it: {paths}; name one by its file")
        if not facts:
            error = NotFound(name, f"there is no fact {one_line(name, 80)!r}")
            error.hint = "`memsheaf list` shows them, each with its file and its subject."
            raise error
        if facts[0].state != "ok":
            raise Refused(f"{facts[0].path!r} is no fact: it has no header that can be read")
        return facts[0]

    def _on(self, subject: str) -> list[Memory]:
        return [memory for memory in self.all() if fold_subject(memory.name) == fold_subject(subject)]

    def of(self, memory: Memory) -> Fact:
        """Return the five fields of a fact that is stored."""
        return Fact(memory.name, memory.body.strip(), memory.citations, memory.reason, memory.type)


def _without_hash(citation: str) -> str:
    place = parse(citation, typed=True)
    return str(place.place) if place else citation


def fold_subject(text: str) -> str:
    """Return a subject as it is compared."""
    text = unicodedata.normalize("NFKC", text)
    return fold_title(text) or text.strip()
