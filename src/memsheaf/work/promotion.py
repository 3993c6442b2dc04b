"""Promotion of notes from a session or a task to a wider scope.

    session  ›  task  ›  project        an ordinary memory in the task, a fact in the project
    session, task  ›  user              an ordinary memory
    session, task  ›  team/NAME         only by a person, who says so

What is promoted is written first where it goes, then marked where it was noted. A crash between the two offers it
again, and the checklist finds it there.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator
from contextlib import suppress
from hashlib import sha256
from itertools import pairwise
from typing import NamedTuple

from memsheaf.errors import Blocked, MemsheafError, NotFound, ReadOnly, ScopeRefused, hinted
from memsheaf.frontmatter import edited
from memsheaf.gates import require_no_secret
from memsheaf.guard.citations import Citation, Tree, has_suffix, parse
from memsheaf.guard.secrets import without_secrets
from memsheaf.memory import DESCRIPTION_LIMIT, Allow, Memory
from memsheaf.scope import Scope
from memsheaf.sheaf import Sheaf
from memsheaf.text.neutralize import cut_bytes, one_line
from memsheaf.text.sections import Section, fold_title, sections
from memsheaf.work import sessions, tasks
from memsheaf.work.checklist import (
    LONGEST,
    UNDECIDED,
    Examination,
    PromotionChoice,
    PromotionItem,
    examine,
    fact_of,
)
from memsheaf.work.facts import Facts
from memsheaf.work.tasks import DELIVERABLES, PHASES, TASK

NOTED = {sessions.FILE: frozenset(map(fold_title, sessions.PROMOTABLE)), TASK: frozenset({"notes"})}
"""Under which headings of a layer's own files the notes stand that may be of use beyond it."""

_PROMOTED = r"\(promoted: .+\)\s*$"
_DATE = r"(?:\d{4}-\d\d-\d\d)?[ T]?(?:\d\d:\d\d)?:?\s+"
_LEAD = r"(?:\*\*)?(?P<subject>[^\s:*`.!?：][^:*`.!?\n：]{1,60}?)(?:\*\*)?(?::(?:\*\*)?\s+|：\s*)(?=\S)"
_WHY = r"(?im)^(?:\*\*)?(?:why|reason|warum|grund|pourquoi|por qué|原因|理由)(?::\*\*|\*\*:|:|：)\s*(.+)$"
# what may be a place in a working tree: a piece of code, or a word without the marks around it
_MARKS = r"\s`()\[\]{},;\"'<>，。；（）「」"
_PLACE = rf"`[^`\n]{{1,400}}`|[^{_MARKS}]{{0,400}}[^{_MARKS}.:!?]"


def sources(layers: Sheaf, *, session: str = "", task: str = "") -> list[str]:
    """The scopes to promote from: the named session or task, else all open ones. Raises NotFound, ScopeRefused."""
    if not (session or task):
        session, task = layers.settings.session, layers.settings.task
    if not (session or task):
        still_open, active = sessions.open_sessions(layers), tasks.active_tasks(layers)
        return [*(f"session/{name}" for name in still_open), *(f"task/{name}" for name in active)]
    named = [Scope.parse(f"{layer}/{name}") for layer, name in (("session", session), ("task", task)) if name]
    for scope in named:
        if scope.name not in layers.names(scope.layer):
            raise NotFound(str(scope))
    return list(map(str, named))


def items(sheaf: Sheaf) -> list[PromotionItem]:
    """What was noted in a session or a task that may be of use beyond it, and was not promoted yet."""
    notes: list[PromotionItem] = []
    memories: list[PromotionItem] = []
    for row in sheaf.list():
        name = row.path.removeprefix(sessions.ARCHIVE)
        if row.state not in ("ok", "free") or name.startswith((PHASES, DELIVERABLES)):
            continue
        with suppress(NotFound):  # somebody was faster
            memory = sheaf.read(row.path)
            if name in NOTED:
                doubt = "it came with the repository, and nobody here wrote it" if memory.trust == "shared" else ""
                for entry in _entries(memory.text, NOTED[name]):
                    if not re.search(_PROMOTED, entry.text.partition("\n")[0]):
                        notes.append(_from_entry(str(sheaf.scope), memory.path, entry)._replace(doubt=doubt))
            elif memory.known and not memory.page.get("promoted"):
                memories.append(_from_memory(str(sheaf.scope), memory))
    return list({item.id: item for item in [*notes, *memories]}.values())


def promising(layers: Sheaf, source: Sheaf) -> list[PromotionItem]:
    """Return what a session or a task has to offer: the items that no step of the checklist stops."""
    with layers.reopen_read_only() as seen:
        return [item for item in items(source) if examine(item, seen.only(usual_target(item))).recommend != "no"]


def usual_target(item: PromotionItem) -> str:
    """Return the default target of an item: `user` for a memory of that type, else `project`."""
    return "user" if item.kind == "user" else "project"


class _Entry(NamedTuple):
    """A bullet below a heading, or all the prose of a section without bullets; and the number of its first line."""

    section: str
    line: int
    text: str


def _entries(text: str, titles: Container[str]) -> Iterator[_Entry]:
    for section in sections(text):
        if fold_title(section.title) not in titles:
            continue
        lines = [line.removesuffix("\r") for line in section.lines]
        first = section.start + bool(section.level)
        starts = [number for number, line in enumerate(lines) if Section("", 0, 0, (line,)).bullets]
        for start, end in pairwise([*starts, len(lines)]):
            (bullet,) = Section("", 0, 0, tuple(lines[start:end])).bullets
            yield _Entry(section.title, first + start, bullet)
        begin = len(section.guide)
        if not starts and (prose := "\n".join(lines[begin:]).strip()):
            begin += next(number for number, line in enumerate(lines[begin:]) if line.strip())
            yield _Entry(section.title, first + begin, prose)


def _from_entry(scope: str, path: str, entry: _Entry) -> PromotionItem:
    """The item that an entry makes: `Subject: the fact`, with places in it, and perhaps a line `Why: ...` below."""
    dated = re.match(_DATE, entry.text)
    text = entry.text[dated.end() :] if dated else entry.text
    why = re.search(_WHY, text)
    text = re.sub(_WHY, "", text).strip() or text
    lead = re.match(_LEAD, text)
    return PromotionItem(
        _id(entry.text),
        scope,
        path,
        entry.section,
        text=text[lead.end() :] if lead else text,
        subject=lead["subject"].strip() if lead else "",
        citations=_places(text),
        reason=why[1].strip() if why else "",
    )


def _from_memory(scope: str, memory: Memory) -> PromotionItem:
    doubt = ""
    if memory.trust != "confirmed":
        doubt = f"nobody confirmed it: `memsheaf review --scope {scope} --approve {memory.path}` does"
    elif memory.expires:
        doubt = f"it holds until {memory.expires} only"
    why = re.search(_WHY, memory.body)
    return PromotionItem(
        _id(f"{memory.path}\n{memory.name}\n{memory.body}"),
        scope,
        memory.path,
        "",
        text=memory.body.strip(),
        subject=memory.name,
        kind=memory.kind,
        citations=memory.citations or _places(memory.body),
        reason=memory.reason or (why[1].strip() if why else ""),
        own=memory.kind,
        doubt=doubt,
    )


def _places(text: str) -> tuple[str, ...]:
    """The places that a text names with a line or a symbol, each once; in backticks, a path may have spaces."""
    found: list[Citation | None] = []
    for word in re.findall(_PLACE, text[:LONGEST]):
        code = word.strip("`")
        whole = parse(code, typed=" " in code)
        if " " in code and not (whole and has_suffix(whole.path)):
            found += map(parse, re.findall(_PLACE, code))
        else:
            found.append(whole)
    return tuple(dict.fromkeys(str(place) for place in found if place and _is_exact(place)))


def _is_exact(place: Citation) -> bool:
    """Whether it has a line or a symbol, and is no address such as `db.internal:5432`."""
    is_code = "/" in place.path or len(place.path.rpartition(".")[2]) <= 4 or "." not in place.path
    return is_code and bool(place.first or place.symbol)


def _id(content: str) -> str:
    return sha256(content.encode("utf-8", "surrogatepass")).hexdigest()[:6]


def promote(
    item: PromotionItem,
    source: Sheaf,
    target: Sheaf,
    *,
    choice: PromotionChoice = UNDECIDED,
    tree: Tree | None = None,
) -> Memory:
    """Write an item where it goes, and mark it where it was noted; only if no step of the checklist stops it.

    The caller has answered the questions about meaning that the checklist asks.

    Raises:
        Blocked: a step does; nothing was written.
        ScopeRefused: nothing is promoted from there to there.
        NotFound: there is no such task.
        SecretFound, Duplicate, NotWorth, Exists, TextRefused, CitationRefused: it cannot be stored there.
    """
    _require_way(source, target)
    found = examine(item, target, choice=choice._replace(judged=True), tree=tree)
    if found.recommend != "yes":
        if found.is_there and item.id in [one.id for one in items(source)]:
            there = target.read(found.supersedes)
            _mark(item, source, target, there)  # something kept somebody from marking it
            return there
        raise _blocked(found)
    if target.scope.layer == "team" and not item.section:
        require_no_secret(source.read(item.path))  # anywhere in the file: then nothing of it goes to a team
    memory = _written(found.item, target, choice, tree)
    _mark(item, source, target, memory)
    return memory


def _mark(item: PromotionItem, source: Sheaf, target: Sheaf, memory: Memory) -> None:
    where = memory.path if target.scope.layer == "project" else f"{target.scope} {memory.path}"
    try:
        source.change_files(lambda look: _marked(item, look(item.path), where), f"promoted: {where}")
    except MemsheafError as error:
        error.add_note(f"It was promoted to {where}, and could not be marked in {item.origin}.")
        raise


def _require_way(source: Sheaf, target: Sheaf) -> None:
    ways = {"session": ("task", "project", "user", "team"), "task": ("project", "user", "team")}
    if target.scope.layer not in ways.get(source.scope.layer, ()):
        raise ScopeRefused(f"nothing is promoted from {source.scope} to {target.scope}")
    if target.scope.layer == "task" and target.own.find(TASK) is None:
        error = NotFound(str(target.scope), f"there is no task {target.scope.name!r}")
        raise hinted(error, "`memsheaf task list` shows which there are.")
    if source.read_only:
        raise ReadOnly(f"the scope {source.scope} was opened for reading only")


def _blocked(found: Examination) -> Blocked:
    open_steps = [f"{step.name}: {step.said}" for step in found.steps if step.verdict != "pass"]
    title = without_secrets(found.item.title)
    error = Blocked(f"{title!r} was not promoted to {found.target}; " + "; ".join(open_steps))
    return hinted(error, "`memsheaf promote` shows each step and what to type next.")


def _written(item: PromotionItem, target: Sheaf, choice: PromotionChoice, tree: Tree | None) -> Memory:
    if choice.anyway:
        item = item._replace(reason=f"{item.reason} ({choice.anyway})".strip())
    insists = bool(choice.anyway)
    if target.scope.layer == "project":
        return Facts(target).add(fact_of(item), supersedes=choice.supersedes, tree=tree, allow=Allow(anyway=insists))
    return target.remember(
        item.title,
        cut_bytes(one_line(item.text, DESCRIPTION_LIMIT), DESCRIPTION_LIMIT),
        item.kind,
        item.text,
        path=choice.supersedes,
        replace=bool(choice.supersedes),
        citations=item.citations,
        reason=item.reason or f"noted in {item.origin}",
        allow=Allow(anyway=insists),
    )


def _marked(item: PromotionItem, text: str | None, where: str) -> dict[str, str | None]:
    """The source with the note of where an item went, not a byte of the rest changed; nothing when it is gone."""
    if text is None:
        return {}
    if not item.section:
        return {item.path: edited(text, fields={"promoted": where})}
    lines = text.split("\n")
    for entry in _entries(text, {fold_title(item.section)}):
        if _id(entry.text) == item.id:
            line = lines[entry.line]
            lines[entry.line] = f"{line.rstrip()} (promoted: {where})" + "\r" * line.endswith("\r")
    return {item.path: "\n".join(lines)}
