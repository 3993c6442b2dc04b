"""Promotion of notes from a session or a task to a wider scope, through a checklist.

    session        ›  task              a note of the task
    session, task  ›  project           a fact
    session, task  ›  user              an ordinary memory
    session, task  ›  team/NAME         an ordinary memory; only by a person, who says so

The checklist looks at the type, secrets, duplicates, the five fields of a fact and the rules of a team, and lists the
steps that do not pass. `QUESTIONS` about meaning are for whoever promotes a note. A memory of a task or a session
is moved like any other, with `Sheaf.move`.

What is promoted is written first where it goes, then marked where it was noted. A crash between the two offers it
again, and the checklist finds it there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from hashlib import sha256
from shlex import quote
from typing import Literal, NamedTuple

from memsheaf.errors import MemsheafError, NotFound, ReadOnly, Refused, ScopeRefused, hinted
from memsheaf.guard.citations import Tree, parse
from memsheaf.guard.paths import is_fact
from memsheaf.guard.secrets import new_secrets, without_secrets
from memsheaf.memory import DESCRIPTION_LIMIT, KINDS, NAME_LIMIT, Allow, Memory
from memsheaf.open_scope import diff
from memsheaf.scope import Scope
from memsheaf.sheaf import Sheaf
from memsheaf.text.neutralize import cut_bytes, one_line
from memsheaf.text.sections import SESSION_FILE, Entry, entries, fold_title, sections
from memsheaf.text.similarity import MIN_FACT_WORDS, SAME, fact, likeness, words
from memsheaf.work import sessions
from memsheaf.work.facts import Fact, Facts, fold_subject, problems_of
from memsheaf.work.tasks import TASK_FILE, Task

MAX_TEAM_BYTES = 250_000
MAX_TITLE_CHARS = 60
MAX_SEARCHED_CHARS = 20_000
QUESTIONS = (
    "Does the code or its history say it, or is it of the moment? Then it stays.",
    "Is it tied to one task? Then it stays there.",
    "Is it a procedure? Then it is rather a skill, once it was needed twice.",
)
_NOTED = {
    SESSION_FILE: frozenset(map(fold_title, sessions.PROMOTABLE)),
    sessions.ARCHIVE_FOLDER + SESSION_FILE: frozenset(map(fold_title, sessions.PROMOTABLE)),
    TASK_FILE: frozenset({"notes"}),
}
"""The files that have notes, each with the headings under which those stand that may be of use beyond it."""

_TARGETS = {"session": ("task", "project", "user", "team"), "task": ("project", "user", "team")}
_OPTIONS = {
    "subject": "--subject TEXT",
    "fact": "--fact TEXT",
    "citations": "--cite PLACE",
    "reason": "--reason TEXT",
    "category": "--category TYPE",
}
_PROMOTED = r"\(promoted: .+\)\s*$"
_DATE = r"(?:\d{4}-\d\d-\d\d)?[ T]?(?:\d\d:\d\d)?:?\s+"
_LEAD = r"(?:\*\*)?(?P<subject>[^\s:*`.!?：][^:*`.!?\n：]{1,60}?)(?:\*\*)?(?::(?:\*\*)?\s+|：\s*)(?=\S)"
_WHY = r"(?im)^(?:\*\*)?why(?::\*\*|\*\*:|:|：)\s*(.+)$"
_PLACE = r"[^\s`()\[\]{},;\"'<>，。；（）「」]{0,400}[^\s`()\[\]{},;\"'<>，。；（）「」.:!?]"


class PromotionItem(NamedTuple):
    """A note of a session or a task: an entry of `path`, below the heading `section`.

    `kind` is "" until somebody gives a type. `is_shared` is True when somebody else wrote it.
    """

    id: str
    scope: str
    path: str
    section: str
    text: str
    subject: str = ""
    kind: str = ""
    citations: tuple[str, ...] = ()
    reason: str = ""
    is_shared: bool = False

    @property
    def title(self) -> str:
        """Its subject, or its first words."""
        return self.subject or cut_bytes(one_line(self.text, MAX_TITLE_CHARS), NAME_LIMIT)

    @property
    def origin(self) -> str:
        """The place where it was noted."""
        return f"{self.scope} {self.path} {self.section}"


class PromotionChoice(NamedTuple):
    """What the caller decided where the checklist asks.

    `supersedes` names the memory that gives way; `anyway` is the rationale for keeping it all the same; `confirmed`
    says that a person wants the team to have it.
    """

    supersedes: str = ""
    anyway: str = ""
    confirmed: bool = False


UNDECIDED = PromotionChoice()


class ChecklistStep(NamedTuple):
    """A step of the checklist that an item does not pass: it is stopped, or somebody is asked.

    `help` are the options of `memsheaf promote` that would let it pass, "" when none does.
    """

    name: str
    verdict: Literal["stop", "ask"]
    said: str
    help: str = ""


class Examination(NamedTuple):
    """An item, with the type that it would get, and the steps that it does not pass.

    `supersedes` is the memory there that says nearly the same, or something else on the same subject; `diff` shows
    how the item differs from it. `is_there` says that it was promoted word for word, and only its mark is missing.
    """

    item: PromotionItem
    target: str
    steps: list[ChecklistStep]
    supersedes: str = ""
    diff: str = ""
    is_there: bool = False

    @property
    def recommend(self) -> Literal["yes", "no", "defer"]:
        """Return `no` when a step stops it, `defer` when one needs a person's decision."""
        verdicts = {step.verdict for step in self.steps}
        if "stop" in verdicts:
            return "no"
        return "defer" if "ask" in verdicts else "yes"


def sources(layers: Sheaf, *, session: str = "", task: str = "") -> list[str]:
    """Return the scopes to promote from: the named session or task, else all open ones. Raises NotFound."""
    if not session and not task:
        session, task = layers.settings.session, layers.settings.task
    scopes = []
    for layer, name in (("session", session), ("task", task)):
        if name:
            scope = Scope.parse(f"{layer}/{name}")
            if scope.name not in layers.work.names(layer):
                raise NotFound(str(scope))
            scopes.append(str(scope))
    if scopes:
        return scopes
    return [f"{layer}/{name}" for layer in ("session", "task") for name in layers.work.going(layer)]


def items(sheaf: Sheaf) -> list[PromotionItem]:
    """Return what was noted in a session or a task that may be of use beyond it, and was not promoted yet."""
    waiting: dict[str, PromotionItem] = {}
    for path in _NOTED:
        memory = sheaf.own.find(path)
        if memory is None or memory.state not in ("ok", "free"):
            continue
        for title, entry in _noted_entries(path, memory.text):
            if not re.search(_PROMOTED, entry.text.partition("\n")[0]):
                item = _parse_note(sheaf, memory, title, entry.text)
                waiting[item.id] = item
    return list(waiting.values())


def _noted_entries(path: str, text: str) -> Iterator[tuple[str, Entry]]:
    """Yield the entries of a file that may be promoted, each after its heading; not the guides."""
    for part in sections(text):
        if fold_title(part.title) in _NOTED[path]:
            first = part.first + len(part.guide)
            yield from ((part.title, entry) for entry in entries(part) if entry.first >= first)


def _parse_note(sheaf: Sheaf, memory: Memory, title: str, note: str) -> PromotionItem:
    """Return the item of a note: `Subject: the fact`, with places in it, and perhaps a line `Why: ...` below."""
    text = re.sub(f"^{_DATE}", "", note)
    why = re.search(_WHY, text)
    text = re.sub(_WHY, "", text).strip() or text
    lead = re.match(_LEAD, text)
    return PromotionItem(
        _hash(note),
        str(sheaf.scope),
        memory.path,
        title,
        text=text[lead.end() :] if lead else text,
        subject=lead["subject"].strip() if lead else "",
        citations=_places(text),
        reason=why[1].strip() if why else "",
        is_shared=memory.trust == "shared",
    )


def _places(text: str) -> tuple[str, ...]:
    """Return the places that a text names with a line or a symbol."""
    places = []
    for word in re.findall(_PLACE, text[:MAX_SEARCHED_CHARS]):
        place = parse(word)
        if place is None or not (place.first or place.symbol):
            continue
        if "/" in place.path or len(place.path.partition(".")[2]) <= 4:  # no address such as db.internal:5432
            places.append(str(place))
    return tuple(dict.fromkeys(places))


def _hash(content: str) -> str:
    return sha256(content.encode("utf-8", "surrogatepass")).hexdigest()[:6]


def examine(
    item: PromotionItem, target: Sheaf, *, choice: PromotionChoice = UNDECIDED, tree: Tree | None = None
) -> Examination:
    """Walk the checklist for an item and the scope it shall go to. Nothing is written.

    With `tree`, cited places are looked up in it.

    Raises ScopeRefused when nothing is promoted to there.
    """
    require_target(target.scope)
    item = item._replace(kind=item.kind or _usual_kind(item, target))
    near = _find_nearest(item, target)
    steps = [
        *_check_content(item, target),
        *_check_duplicate(item, target, near, choice),
        *_check_fields(item, target, tree),
        *_check_team(item, target, choice),
    ]
    steps = [step._replace(said=without_secrets(step.said)) for step in steps]
    if near is None:
        return Examination(item, str(target.scope), steps)
    difference = without_secrets(diff(near.path, near.body.strip(), item.text, labels=("there", "new")))
    is_there = _has_subject(near, item) and words(near.body) == words(item.text)
    return Examination(item, str(target.scope), steps, near.path, difference, is_there)


def require_target(scope: Scope) -> None:
    """Raise ScopeRefused unless something may be promoted to this scope."""
    if scope.layer not in _TARGETS["session"]:
        raise ScopeRefused(f"nothing is promoted to {scope}: it goes to project, user, task/SLUG or team/NAME")


def _usual_kind(item: PromotionItem, target: Sheaf) -> str:
    """Return the type of a note without one, by where it stands and where it goes."""
    if target.scope.layer == "user":
        return "user"
    return "feedback" if fold_title(item.section) == "errors and corrections" else "project"


def _check_content(item: PromotionItem, target: Sheaf) -> Iterator[ChecklistStep]:
    if item.kind not in KINDS:
        yield ChecklistStep("type", "stop", f"{item.kind!r} is not one of {', '.join(KINDS)}")
    if item.kind == "user" and target.scope.layer == "project":
        yield ChecklistStep("type", "stop", "what is about the person goes to user", "--to user")
    for secret in new_secrets("\n".join((item.subject, item.text, item.reason, *item.citations)), ""):
        yield ChecklistStep("content", "stop", f"it holds {secret.kind}")
    if item.is_shared:
        yield ChecklistStep("content", "stop", "it came with the repository, and nobody here wrote it")


def _check_duplicate(
    item: PromotionItem, target: Sheaf, near: Memory | None, choice: PromotionChoice
) -> Iterator[ChecklistStep]:
    """Ask what to do with a memory that says nearly the same; which is right is not decided by rules."""
    is_project = target.scope.layer == "project"
    if choice.supersedes:
        try:
            _ = Facts(target).find(choice.supersedes) if is_project else target.read(choice.supersedes)
        except MemsheafError as error:
            yield ChecklistStep("duplicate", "stop", str(error), "--supersede FILE")
        return
    if near is None or (choice.anyway and not _has_subject(near, item)):
        return
    beside = "--anyway RATIONALE --subject TEXT" if _has_subject(near, item) else "--anyway RATIONALE"
    if choice.anyway:
        why = f"{near.path} has the same subject: give another, or supersede it"
        yield ChecklistStep("duplicate", "ask", why, "--subject TEXT")
    elif words(near.body) == words(item.text):
        yield ChecklistStep("duplicate", "stop", f"{near.path} says the same: skip it", beside)
    elif is_project and not is_fact(near.path):
        why = f"{near.path} is on the same, and is no fact: skip this, or correct it there"
        yield ChecklistStep("duplicate", "ask", why, beside)
    else:
        why = f"{near.path} is on the same: skip this, or supersede it?"
        yield ChecklistStep("duplicate", "ask", why, f"--supersede {quote(near.path)}")


def _check_fields(item: PromotionItem, target: Sheaf, tree: Tree | None) -> Iterator[ChecklistStep]:
    """Ask for what a fact of the project lacks."""
    if target.scope.layer == "project" and (problems := problems_of(_make_fact(item), tree)):
        options = dict.fromkeys(_OPTIONS[field] for field, _ in problems)
        yield ChecklistStep("five fields", "ask", "; ".join(why for _, why in problems), " ".join(options))


def _check_team(item: PromotionItem, target: Sheaf, choice: PromotionChoice) -> Iterator[ChecklistStep]:
    """Let a person alone decide what a team gets to read."""
    if target.scope.layer != "team":
        return
    if target.by != "user":
        yield ChecklistStep("team", "stop", "only a person gives something to a team")
    if item.kind == "user":
        yield ChecklistStep("team", "stop", "what is about a person stays private", "--to user")
    if len(item.text.encode("utf-8", "replace")) > MAX_TEAM_BYTES:
        yield ChecklistStep("team", "stop", f"it is longer than {MAX_TEAM_BYTES // 1000} KB")
    if item.kind == "feedback" and not choice.anyway:
        why = "feedback stays private, unless it is a convention of the team: say so"
        yield ChecklistStep("team", "ask", why, "--anyway RATIONALE")
    if not choice.confirmed:
        why = f"everybody in {target.scope} will read it: a person has to say yes"
        yield ChecklistStep("team", "ask", why, "--yes")


def _find_nearest(item: PromotionItem, target: Sheaf) -> Memory | None:
    """Return the memory there that has nearly all words of an item, or its subject; the one that shares most.

    A task gets a note, which is no memory.
    """
    if target.scope.layer == "task":
        return None
    mine = words(item.text)
    if len(set(mine)) < MIN_FACT_WORDS:
        mine = words(item.title) + mine
    nearest, best = None, 0.0
    named = [row.path for row in target.list() if fold_subject(row.name) == fold_subject(item.title)]
    for path in {*named, *(path for path, _ in target.own.index.alike(mine))}:
        with suppress(MemsheafError):  # gone, or not to be read
            memory = target.read(path)
            share = likeness(mine, fact(memory))
            if memory.state == "ok" and (share >= SAME or path in named) and (nearest is None or share > best):
                nearest, best = memory, share
    return nearest


def _has_subject(memory: Memory, item: PromotionItem) -> bool:
    return fold_subject(memory.name) == fold_subject(item.title)


def _make_fact(item: PromotionItem) -> Fact:
    return Fact(item.subject, " ".join(item.text.split()), item.citations, item.reason, item.kind)


def promote(
    item: PromotionItem,
    source: Sheaf,
    target: Sheaf,
    *,
    choice: PromotionChoice = UNDECIDED,
    tree: Tree | None = None,
) -> Memory:
    """Write an item where it goes, and mark it where it was noted; only if all steps of the checklist pass.

    The caller has answered the `QUESTIONS` about meaning. Returns the memory that it is, or the file of the task.

    Raises:
        Refused: a step does not; nothing was written.
        ScopeRefused: nothing is promoted from there to there.
        NotFound: there is no such task.
        SecretFound, Duplicate, NotWorth, Exists, TextRefused, CitationRefused: it cannot be stored there.
    """
    _require_way(source, target)
    examined = examine(item, target, choice=choice, tree=tree)
    if examined.is_there and item.id in [other.id for other in items(source)]:
        memory = target.read(examined.supersedes)  # a crash kept it from being marked
    elif examined.recommend != "yes":
        raise _blocked(examined)
    else:
        memory = _write(examined.item, target, choice, tree)
    where = memory.path if target.scope.layer == "project" else f"{target.scope} {memory.path}"
    try:
        source.own.change_files(lambda look: _mark(item, look(item.path), where), f"promoted: {where}")
    except MemsheafError as error:
        error.add_note(f"It was promoted to {where}, and could not be marked in {item.origin}.")
        raise
    return memory


def _require_way(source: Sheaf, target: Sheaf) -> None:
    if target.scope.layer not in _TARGETS.get(source.scope.layer, ()):
        raise ScopeRefused(f"nothing is promoted from {source.scope} to {target.scope}")
    if target.scope.layer == "task" and target.own.find(TASK_FILE) is None:
        error = NotFound(str(target.scope), f"there is no task {target.scope.name!r}")
        raise hinted(error, "`memsheaf task list` shows which there are.")
    if source.read_only:
        raise ReadOnly(f"the scope {source.scope} was opened for reading only")


def _blocked(examined: Examination) -> Refused:
    steps = "; ".join(f"{step.name}: {step.said}" for step in examined.steps)
    title = without_secrets(examined.item.title)
    error = Refused(f"{title!r} was not promoted to {examined.target}; {steps}")
    return hinted(error, "`memsheaf promote` shows each step and what to type next.")


def _write(item: PromotionItem, target: Sheaf, choice: PromotionChoice, tree: Tree | None) -> Memory:
    if target.scope.layer == "task":
        subject = f"{item.subject}: " if item.subject else ""
        why = f"\nWhy: {item.reason}" if item.reason else ""
        Task(target).note(f"{subject}{item.text}{why}")
        return target.read(TASK_FILE)
    allow = Allow(anyway=bool(choice.anyway))
    if choice.anyway:
        item = item._replace(reason=f"{item.reason} ({choice.anyway})".strip())
    if target.scope.layer == "project":
        return Facts(target).add(_make_fact(item), supersedes=choice.supersedes, tree=tree, allow=allow)
    return target.write(
        item.title,
        cut_bytes(one_line(item.text, DESCRIPTION_LIMIT), DESCRIPTION_LIMIT),
        item.kind,
        item.text,
        path=choice.supersedes,
        replace=bool(choice.supersedes),
        citations=item.citations,
        reason=item.reason or f"noted in {item.origin}",
        allow=allow,
    )


def _mark(item: PromotionItem, text: str | None, where: str) -> dict[str, str]:
    """Return the file with a note of where an item went, and not a byte of the rest changed."""
    if text is None:
        return {}
    lines = text.split("\n")
    for title, entry in _noted_entries(item.path, text):
        if title == item.section and _hash(entry.text) == item.id:
            line = lines[entry.first]
            bare = line.rstrip()
            lines[entry.first] = f"{bare} (promoted: {where}){line[len(bare) :].lstrip(' ')}"
    return {item.path: "\n".join(lines)}
