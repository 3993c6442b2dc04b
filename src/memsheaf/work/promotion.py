"""Promotion of notes from a session or a task to a wider scope, through a checklist.

    session        ›  task              a note of the task
    session, task  ›  project           a fact
    session, task  ›  user              an ordinary memory
    session, task  ›  team/NAME         an ordinary memory; only by a person, who says so

The checklist looks for secrets, duplicates, the five fields of a fact and the rules of a team, and lists the steps
that do not pass. `QUESTIONS` about meaning are for whoever promotes a note: they give it a subject, a reason, a type
and the places that show it. A memory of a task or a session is moved like any other, with `Sheaf.move`.

What is promoted is written first where it goes, then marked where it was noted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from hashlib import sha256
from typing import Literal, NamedTuple

from memsheaf.errors import MemsheafError, NotFound, ReadOnly, Refused, ScopeRefused
from memsheaf.guard.citations import Tree
from memsheaf.guard.secrets import new_secrets, without_secrets
from memsheaf.memory import DESCRIPTION_LIMIT, KINDS, NAME_LIMIT, Allow, Memory
from memsheaf.open_scope import diff
from memsheaf.scope import Scope
from memsheaf.sheaf import Sheaf
from memsheaf.text.neutralize import cut_bytes, one_line
from memsheaf.text.sections import SESSION_FILE, Entry, entries, fold_title, sections
from memsheaf.text.similarity import SAME, fact, likeness, words
from memsheaf.work import sessions
from memsheaf.work.facts import Fact, Facts, fold_subject, problems_of
from memsheaf.work.tasks import TASK_FILE, Task

MAX_TEAM_BYTES = 250_000
MAX_TITLE_CHARS = 60
QUESTIONS = (
    "Does the code or its history say it, or is it of the moment? Then it stays.",
    "Is it tied to one task? Then it stays there.",
    "Is it a procedure? Then it is rather a skill, once it was needed twice.",
)
_SESSION_TITLES = frozenset(map(fold_title, sessions.PROMOTABLE))
_NOTED = {
    SESSION_FILE: _SESSION_TITLES,
    sessions.ARCHIVE_FOLDER + SESSION_FILE: _SESSION_TITLES,
    TASK_FILE: frozenset({"notes"}),
}
"""The files that have notes, each with the headings under which those stand that may be of use beyond it."""

_TARGETS = {"session": ("task", "project", "user", "team"), "task": ("project", "user", "team")}
_DATE = r"(?:\d{4}-\d\d-\d\d)?[ T]?(?:\d\d:\d\d)?:?\s+"


class PromotionItem(NamedTuple):
    """A note of a session or a task: an entry of `path`, below the heading `section`, as it is there in `noted`.

    Subject, citations and reason are "" until somebody gives them. `is_shared` is True when somebody else wrote it.
    """

    id: str
    scope: str
    path: str
    section: str
    noted: str
    text: str
    subject: str = ""
    kind: str = "project"
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
    """The caller's decisions where the checklist asks.

    `supersedes` names the memory that gives way; `anyway` is the rationale for keeping it all the same; `confirmed`
    says that a person wants the team to have it.
    """

    supersedes: str = ""
    anyway: str = ""
    confirmed: bool = False


UNDECIDED = PromotionChoice()


class ChecklistStep(NamedTuple):
    """A step of the checklist that an item does not pass: it is stopped, or somebody is asked."""

    name: str
    verdict: Literal["stop", "ask"]
    said: str


class Examination(NamedTuple):
    """An item, and the steps that it does not pass. `diff` shows how it differs from a memory that is on the same."""

    item: PromotionItem
    target: str
    steps: list[ChecklistStep]
    diff: str = ""

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
    named = [Scope.parse(f"{layer}/{name}") for layer, name in (("session", session), ("task", task)) if name]
    for scope in named:
        if scope.name not in layers.work.names(scope.layer):
            raise NotFound(str(scope))
    going = [f"{layer}/{name}" for layer in ("session", "task") for name in layers.work.going(layer)]
    return list(map(str, named)) or going


def items(sheaf: Sheaf) -> list[PromotionItem]:
    """Return what was noted in a session or a task that may be of use beyond it, and was not promoted yet."""
    waiting: dict[str, PromotionItem] = {}
    for path in _NOTED:
        memory = sheaf.own.find(path)
        if memory is None or memory.state not in ("ok", "free"):
            continue
        for title, entry in _noted_entries(path, memory.text):
            id = sha256(entry.text.encode("utf-8", "surrogatepass")).hexdigest()[:6]
            text = re.sub(f"^{_DATE}", "", entry.text)
            kind = "feedback" if fold_title(title) == "errors and corrections" else "project"
            is_shared = memory.trust == "shared"
            scope = str(sheaf.scope)
            waiting[id] = PromotionItem(id, scope, path, title, entry.text, text, kind=kind, is_shared=is_shared)
    return list(waiting.values())


def _noted_entries(path: str, text: str) -> Iterator[tuple[str, Entry]]:
    """Yield the entries of a file that may be promoted and were not yet, each after its heading; not the guides."""
    for part in sections(text):
        first = part.first + len(part.guide)
        for entry in entries(part) if fold_title(part.title) in _NOTED[path] else ():
            if entry.first >= first and "(promoted: " not in entry.text.partition("\n")[0]:
                yield part.title, entry


def examine(
    item: PromotionItem, target: Sheaf, *, choice: PromotionChoice = UNDECIDED, tree: Tree | None = None
) -> Examination:
    """Walk the checklist for an item and the scope it shall go to. Nothing is written.

    With `tree`, cited places are looked up in it.

    Raises ScopeRefused when nothing is promoted to there.
    """
    require_target(target.scope)
    near = None if choice.supersedes else _find_nearest(item, target)
    steps = [
        *_check_content(item, target),
        *_check_duplicate(item, near, choice),
        *_check_fields(item, target, tree),
        *_check_team(item, target, choice),
    ]
    steps = [step._replace(said=without_secrets(step.said)) for step in steps]
    difference = diff(near.path, near.body.strip(), item.text, labels=("there", "new")) if near else ""
    return Examination(item, str(target.scope), steps, without_secrets(difference))


def require_target(scope: Scope) -> None:
    """Raise ScopeRefused unless something may be promoted to this scope."""
    if scope.layer not in _TARGETS["session"]:
        raise ScopeRefused(f"nothing is promoted to {scope}: it goes to project, user, task/SLUG or team/NAME")


def _check_content(item: PromotionItem, target: Sheaf) -> Iterator[ChecklistStep]:
    if item.kind not in KINDS:
        yield ChecklistStep("type", "stop", f"{item.kind!r} is not one of {', '.join(KINDS)}")
    if item.kind == "user" and target.scope.layer == "project":
        yield ChecklistStep("type", "stop", "what is about the person goes to user: --to user")
    for secret in new_secrets("\n".join((item.subject, item.text, item.reason, *item.citations)), ""):
        yield ChecklistStep("content", "stop", f"it holds {secret.kind}")
    if item.is_shared:
        yield ChecklistStep("content", "stop", "it came with the repository, and nobody here wrote it")


def _check_duplicate(item: PromotionItem, near: Memory | None, choice: PromotionChoice) -> Iterator[ChecklistStep]:
    """Ask what to do with a memory that says nearly the same; which is right is not decided by rules."""
    if near is None or choice.anyway:
        return
    if words(near.body) == words(item.text):
        yield ChecklistStep("duplicate", "stop", f"{near.path} says the same: skip it")
    else:
        why = f"{near.path} is on the same: skip this, --replaces FILE, or keep both with --anyway RATIONALE?"
        yield ChecklistStep("duplicate", "ask", why)


def _check_fields(item: PromotionItem, target: Sheaf, tree: Tree | None) -> Iterator[ChecklistStep]:
    """Ask for what a fact of the project lacks."""
    if target.scope.layer == "project" and (problems := problems_of(_make_fact(item), tree)):
        yield ChecklistStep("five fields", "ask", "; ".join(why for _, why in problems))


def _check_team(item: PromotionItem, target: Sheaf, choice: PromotionChoice) -> Iterator[ChecklistStep]:
    """Let a person alone decide what a team gets to read."""
    if target.scope.layer != "team":
        return
    if target.by != "user":
        yield ChecklistStep("team", "stop", "only a person gives something to a team")
    if item.kind == "user":
        yield ChecklistStep("team", "stop", "what is about a person stays private")
    if len(item.text.encode("utf-8", "replace")) > MAX_TEAM_BYTES:
        yield ChecklistStep("team", "stop", f"it is longer than {MAX_TEAM_BYTES // 1000} KB")
    if item.kind == "feedback" and not choice.anyway:
        why = "feedback stays private, unless it is a convention of the team: say so with --anyway RATIONALE"
        yield ChecklistStep("team", "ask", why)
    if not choice.confirmed:
        yield ChecklistStep("team", "ask", f"everybody in {target.scope} will read it: a person has to say --yes")


def _find_nearest(item: PromotionItem, target: Sheaf) -> Memory | None:
    """Return a memory there that has the subject of an item, or nearly all of its words.

    A task gets a note, which is no memory.
    """
    if target.scope.layer == "task":
        return None
    mine = words(item.text)
    subject = fold_subject(item.title)
    named = [row.path for row in target.list() if fold_subject(row.name) == subject]
    for path in (*named, *(path for path, _ in target.own.index.alike(mine))):
        with suppress(MemsheafError):  # gone, or not to be read
            memory = target.read(path)
            if memory.state == "ok" and (path in named or likeness(mine, fact(memory)) >= SAME):
                return memory
    return None


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
        SecretFound, Duplicate, NotWorth, Exists, TextRefused, Refused: it cannot be stored there.
    """
    if target.scope.layer not in _TARGETS.get(source.scope.layer, ()):
        raise ScopeRefused(f"nothing is promoted from {source.scope} to {target.scope}")
    if target.scope.layer == "task" and target.own.find(TASK_FILE) is None:
        error = NotFound(str(target.scope), f"there is no task {target.scope.name!r}")
        error.hint = "`memsheaf task status --all` shows which there are."
        raise error
    if source.read_only:
        raise ReadOnly(f"the scope {source.scope} was opened for reading only")
    if steps := examine(item, target, choice=choice, tree=tree).steps:
        why = "; ".join(f"{step.name}: {step.said}" for step in steps)
        raise Refused(
            f"{without_secrets(item.title)!r} was not promoted to {target.scope}; {why}",
            hint="`memsheaf promote` shows each step.",
        )
    memory = _write(item, target, choice, tree)
    where = memory.path if target.scope.layer == "project" else f"{target.scope} {memory.path}"
    try:
        source.own.change_files(lambda look: _mark(item, look(item.path), where), f"promoted: {where}")
    except MemsheafError as error:
        error.add_note(f"It was promoted to {where}, and could not be marked in {item.origin}.")
        raise
    return memory


def _mark(item: PromotionItem, text: str | None, where: str) -> dict[str, str]:
    """Return the file with a note of where an item went, and not a byte of the rest changed."""
    lines = (text or "").split("\n")
    for title, entry in _noted_entries(item.path, text or ""):
        if title == item.section and entry.text == item.noted:
            line = lines[entry.first]
            bare = line.rstrip()
            lines[entry.first] = f"{bare} (promoted: {where}){line[len(bare) :]}"
            return {item.path: "\n".join(lines)}
    return {}


def _write(item: PromotionItem, target: Sheaf, choice: PromotionChoice, tree: Tree | None) -> Memory:
    if target.scope.layer == "task":
        Task(target).note(item.text)
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
