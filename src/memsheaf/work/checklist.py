"""The checklist before a note is promoted to a wider layer: each step has a verdict and a reason.

classify        into the four types
exclude         no secret, nothing that nobody confirmed; is it in the code or its history, or of the moment?
task-specific   is it tied to one task? then it stays there
duplicate       what is there already is skipped, or superseded when a person says so
five fields     a fact needs subject, fact, citation, reason and category
skill           is it a procedure? then it is rather a skill
team            only a person gives something to a team

Secrets, duplicates, fields and citations are checked. The questions are about meaning: a list shows them as `ask`,
and whoever promotes an item by its id has answered them.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from shlex import quote
from typing import Literal, NamedTuple

from memsheaf.errors import MemsheafError, ScopeRefused
from memsheaf.guard.citations import Tree
from memsheaf.guard.paths import is_fact
from memsheaf.guard.secrets import new_secrets, without_secrets
from memsheaf.history import diff
from memsheaf.memory import KINDS, NAME_LIMIT, Kind, Memory
from memsheaf.scope import Scope
from memsheaf.sheaf import Sheaf
from memsheaf.text.neutralize import cut_bytes, one_line
from memsheaf.text.sections import fold_title
from memsheaf.text.similarity import MIN_FACT_WORDS, SAME, fact, likeness, words
from memsheaf.work.facts import Fact, Facts, compared_subject, problems_of

TARGETS = ("task", "project", "user", "team")
TEAM_LIMIT = 250_000  # bytes of a team's memory
INSIST = "--anyway RATIONALE"  # the option that overrides a step that is only a guess
LONGEST = 20_000  # characters of a text that are read
_TITLE = 60  # characters
_OPTIONS = {
    "subject": "--subject TEXT",
    "fact": "--fact TEXT",
    "citations": "--cite PLACE",
    "reason": "--reason TEXT",
    "category": "--category TYPE",
}

_QUESTIONS = {
    "exclude": "does the code or its history say it, or is it of the moment? then it stays",
    "task-specific": "is it tied to one task? then it stays there",
    "skill": "is it a procedure? then it is rather a skill, once it was needed twice",
}

StepVerdict = Literal["pass", "stop", "ask"]
Recommended = Literal["yes", "no", "defer"]


class PromotionItem(NamedTuple):
    """Something that was noted in a session or a task: a bullet below a heading, or a memory, which has no `section`.

    `kind` is "" when nobody gave a type, and `own` is the one that the memory has, whatever is given later. `doubt`
    says why it may not leave its scope, as it is.
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
    own: str = ""
    doubt: str = ""

    @property
    def title(self) -> str:
        """What it is called: its subject, or its first words."""
        return self.subject or cut_bytes(one_line(self.text, _TITLE), NAME_LIMIT)

    @property
    def origin(self) -> str:
        """Where it was noted."""
        return " ".join(filter(None, (self.scope, self.path, self.section)))


class PromotionChoice(NamedTuple):
    """What the caller decided where the checklist asks.

    `supersedes` names the memory that gives way; `anyway` is the rationale for keeping it all the same; `convention`
    says that feedback is a convention of the team, and `confirmed` that a person wants the team to have it. `judged`
    says that somebody answered the questions about meaning, all for the item.
    """

    supersedes: str = ""
    anyway: str = ""
    convention: bool = False
    confirmed: bool = False
    judged: bool = False


UNDECIDED = PromotionChoice()


class ChecklistStep(NamedTuple):
    """One step of the checklist, and what came of it. `ask` waits for a person's word.

    `help` are the options of `memsheaf promote` that would let it pass, "" when none does.
    """

    name: str
    verdict: StepVerdict
    said: str
    help: str = ""


class Examination(NamedTuple):
    """An item, with the type it was given, and the verdict of each step.

    `supersedes` is the memory there that says nearly the same, or something else on the same subject; `diff` shows
    how the item differs from it. `is_there` says that it was promoted word for word, and only its mark is missing.
    """

    item: PromotionItem
    target: str
    steps: tuple[ChecklistStep, ...]
    supersedes: str = ""
    diff: str = ""
    is_there: bool = False

    @property
    def recommend(self) -> Recommended:
        """Whether to promote it: `no` when a step stops it, `defer` when one needs a person's decision."""
        verdicts = {step.verdict for step in self.steps}
        return "no" if "stop" in verdicts else "defer" if "ask" in verdicts else "yes"


def examine(
    item: PromotionItem, target: Sheaf, *, choice: PromotionChoice = UNDECIDED, tree: Tree | None = None
) -> Examination:
    """Walk the checklist for an item and the scope it shall go to. Nothing is written.

    With `tree`, cited places are looked up in it.

    Raises ScopeRefused when nothing is promoted to there.
    """
    require_target(target.scope)
    layer = target.scope.layer
    classify = _classify(item, layer, choice)
    item = item._replace(kind=item.kind or _propose_kind(item, layer))
    wrong = problems_of(fact_of(item), tree) if layer == "project" else []
    near = _nearest(item, target)
    steps = [
        classify,
        _refuse_unfit(item) or _ask("exclude", choice),
        ChecklistStep("task-specific", "pass", "it goes to a task")
        if layer == "task"
        else _ask("task-specific", choice),
        _compared(item, target, near, choice),
        _complete(target, wrong),
        _ask("skill", choice),
    ]
    if layer == "team":
        steps.append(_shared(item, target, choice))
    told = tuple(step._replace(said=without_secrets(step.said)) for step in steps)
    found = Examination(item, str(target.scope), told)
    if near is None:
        return found
    shown = diff(near.path, near.body.strip(), item.text, labels=("there", "new"))
    is_there = _has_same_words(near, item) and _is_twin(near, item)
    return found._replace(supersedes=near.path, diff=without_secrets(shown), is_there=is_there)


def require_target(scope: Scope) -> None:
    """Raise ScopeRefused unless something may be promoted to this scope."""
    if scope.layer not in TARGETS:
        raise ScopeRefused(f"nothing is promoted to {scope}: it goes to project, user, task/SLUG or team/NAME")


def _propose_kind(item: PromotionItem, layer: str) -> Kind:
    """Return the type of a note without one, by where it stands and where it goes."""
    if layer == "user":
        return "user"
    return "feedback" if fold_title(item.section) == "errors and corrections" else "project"


def fact_of(item: PromotionItem) -> Fact:
    """The fact that an item would be in the project."""
    return Fact(item.subject, " ".join(item.text.split()), item.citations, item.reason, item.kind)


def _classify(item: PromotionItem, layer: str, choice: PromotionChoice) -> ChecklistStep:
    if not item.kind:
        proposed = f"{_propose_kind(item, layer)}, unless --category says otherwise"
        return ChecklistStep("classify", "pass" if choice.judged else "ask", proposed)
    if item.kind not in KINDS:
        return ChecklistStep("classify", "stop", f"{item.kind!r} is not one of {', '.join(KINDS)}")
    if item.kind == "user" and layer == "project":
        return ChecklistStep("classify", "stop", "user: what is about the person goes to user", "--to user")
    return ChecklistStep("classify", "pass", f"{item.kind}: given")


def _refuse_unfit(item: PromotionItem) -> ChecklistStep | None:
    """Stop secrets and unconfirmed texts."""
    for secret in new_secrets("\n".join((item.subject, item.text, item.reason, *item.citations)), ""):
        return ChecklistStep("exclude", "stop", f"it holds {secret.kind}")
    return ChecklistStep("exclude", "stop", item.doubt) if item.doubt else None


def _ask(name: str, choice: PromotionChoice) -> ChecklistStep:
    if choice.judged:
        return ChecklistStep(name, "pass", "answered by promoting it")
    return ChecklistStep(name, "ask", _QUESTIONS[name])


def _compared(item: PromotionItem, target: Sheaf, near: Memory | None, choice: PromotionChoice) -> ChecklistStep:
    """Ask what to do with a memory that says nearly the same; which is right is not decided by rules."""
    if choice.supersedes:
        read = Facts(target).find if target.scope.layer == "project" else target.read
        try:
            return ChecklistStep("duplicate", "pass", f"supersedes {read(choice.supersedes).path}")
        except MemsheafError as error:
            return ChecklistStep("duplicate", "stop", str(error), "--supersede FILE")
    if near is None:
        return ChecklistStep("duplicate", "pass", "nothing there says the same")
    is_twin = _is_twin(near, item)
    beside = f"{INSIST} --subject TEXT" if is_twin else INSIST
    if choice.anyway:
        if is_twin:
            said = f"{near.path} has the same subject: give another, or supersede it"
            return ChecklistStep("duplicate", "ask", said, "--subject TEXT")
        return ChecklistStep("duplicate", "pass", f"{near.path} is near; kept all the same: {choice.anyway}")
    if _has_same_words(near, item):
        return ChecklistStep("duplicate", "stop", f"{near.path} says the same: skip it", beside)
    if target.scope.layer == "project" and not is_fact(near.path):
        said = f"{near.path} is on the same, and is no fact: skip this, or correct it there"
        return ChecklistStep("duplicate", "ask", said, beside)
    said = f"{near.path} is on the same: skip this, or supersede it?"
    return ChecklistStep("duplicate", "ask", said, f"--supersede {quote(near.path)}")


def _complete(target: Sheaf, wrong: Sequence[tuple[str, str]]) -> ChecklistStep:
    if wrong:
        options = dict.fromkeys(_OPTIONS[field] for field, _ in wrong)
        return ChecklistStep("five fields", "ask", "; ".join(why for _, why in wrong), " ".join(options))
    if target.scope.layer == "project":
        return ChecklistStep("five fields", "pass", "subject, fact, citation, reason and category are there")
    return ChecklistStep("five fields", "pass", "an ordinary memory: a name and a text are enough")


def _shared(item: PromotionItem, target: Sheaf, choice: PromotionChoice) -> ChecklistStep:
    """Let a person alone decide what a team gets to read."""
    if target.by != "user":
        return ChecklistStep("team", "stop", "only a person gives something to a team")
    kinds = (item.kind, item.own)
    if "user" in kinds:
        return ChecklistStep("team", "stop", "what is about a person stays private", "--to user")
    if len(item.text.encode("utf-8", "replace")) > TEAM_LIMIT:
        return ChecklistStep("team", "stop", f"it is longer than {TEAM_LIMIT // 1000} KB")
    if "feedback" in kinds and not choice.convention:
        said = "feedback stays private, unless it is a convention of the team: is it?"
        return ChecklistStep("team", "ask", said, "--convention")
    if not choice.confirmed:
        said = f"everybody in {target.scope} will read it: a person has to say yes, on a terminal or with --yes"
        return ChecklistStep("team", "ask", said)
    return ChecklistStep("team", "pass", "a person said yes")


def _nearest(item: PromotionItem, target: Sheaf) -> Memory | None:
    """The memory there that shares most words with an item, if they are nearly all; or that has its subject."""
    text, told = words(item.text), words(f"{item.title}\n{item.text}")
    mine = text if len(set(text)) >= MIN_FACT_WORDS else told  # as the gate before every save compares it
    subject = compared_subject(item.title)
    rows = (row for row in target.list() if row.state == "ok")
    named = [row.path for row in rows if compared_subject(row.name) == subject]
    best: tuple[float, Memory] | None = None
    rivals = [path for wanted in (told, mine) for path, _ in target.own.index.alike(wanted)]
    for path in dict.fromkeys([*named, *rivals]):
        with suppress(MemsheafError):  # gone, or not to be read
            memory = target.read(path)
            like = max(likeness(told, words(f"{memory.name}\n{memory.body}")), likeness(mine, fact(memory)))
            if memory.state == "ok" and (like >= SAME or path in named) and (best is None or like > best[0]):
                best = like, memory
    return best[1] if best else None


def _is_twin(memory: Memory, item: PromotionItem) -> bool:
    return compared_subject(memory.name) == compared_subject(item.title)


def _has_same_words(memory: Memory, item: PromotionItem) -> bool:
    return words(memory.body) == words(item.text)
