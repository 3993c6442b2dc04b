"""The checklist before a note is promoted to a wider layer: each step has a verdict and a reason.

classify        into the four types
exclude         what the code or its history says, what is of the moment, secrets, what nobody confirmed
task-specific   what is tied to one task stays there
duplicate       what is there already is skipped, or superseded when a person says so
five fields     a fact needs subject, fact, citation, reason and category
skill           three steps in order are rather a skill
team            only a person gives something to a team

Words alone decide, in six languages, apart from code, addresses and quotations; so each verdict is a careful guess
that a person can overrule, and says which words it goes by.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from shlex import quote
from typing import Literal

from memsheaf.errors import MemsheafError, ScopeRefused
from memsheaf.guard.citations import Tree
from memsheaf.guard.paths import is_fact
from memsheaf.guard.secrets import new_secrets, without_secrets
from memsheaf.guard.worth import derivable, ephemeral
from memsheaf.history import diff
from memsheaf.memory import KINDS, NAME_LIMIT, Kind, Memory
from memsheaf.scope import Scope
from memsheaf.sheaf import Sheaf
from memsheaf.text.neutralize import cut_bytes, one_line
from memsheaf.text.sections import fold_title
from memsheaf.text.similarity import LIKE, TELLING, denials, fact, likeness, telling, things, words
from memsheaf.text.spoken import spoken
from memsheaf.values import NamedTuple, compiled
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

_PLACES = r"\b(?:dashboards?|runbooks?|wiki|grafana|kibana|confluence|sentry)\b|仪表盘|看板|ダッシュボード"
_PREFERENCES = (
    r"\bi(?: really| strongly)? (?:prefer|like|love|hate|dislike|would rather)\b|\bi'd rather\b|\bmy (?:preference|"
    r"favou?rite)\b|\b(?:the )?user(?: really| strongly)? (?:prefers|dislikes|would rather)\b|\buser's preference\b"
    r"|\bich (?:bevorzuge|mag|hasse|möchte lieber)\b|\b(?:be)?nutzer(?:in)? (?:bevorzugt|mag)\b"
    r"|\bje préfère\b|\bj'aime mieux\b|\butilisat(?:eur|rice) préfère\b|\bprefiero\b|\busuari[oa] prefiere\b"
    r"|(?:我|用户|用戶)(?:更|比较|比較|不)?(?:喜欢|喜歡|偏好)|(?:私|僕|俺|ユーザー)は[^。\n]{0,30}(?:好む|好き|好み)"
)
_ON_A_BRANCH = (
    r"\b(?:on|in) (?:the |my )?branch `?(?!(?:main|master|develop|dev|trunk|stable|releases?|names?|protection|policy"
    r"|policies)\b)[\w./-]+"
)
_OF_ONE_TASK = (
    r"\b(?:this|the current|our current) (?:task|phase|iteration|branch|pr|pull request|merge request|ticket|story"
    r"|sprint|feature branch|plan)\b|\b(?:phase|iteration|sprint)[ -]?#?\d+\b"
    r"|\b(?:last|next|previous|first|second|third) iteration\b|\b(?:pr|mr|pull request|merge request) ?[#!]?\d+\b"
    r"|\b(?:is|was) regressed\b|\bwas verified, and is\b"
    r"|\b(?:diese[rsmn]?|aktuelle[rsnm]?) (?:aufgabe|task|phase|iteration|branch|zweig|sprints?|ticket)\b"
    r"|\b(?:cette|la présente) (?:tâche|phase|itération|branche)\b|\b(?:phase|itération) (?:n° ?)?\d+\b"
    r"|\besta (?:tarea|fase|iteración|rama)\b|\b(?:fase|iteración) \d+\b"
    r"|(?:[这這]个?|本|[当當]前)(?:次)?(?:任务|任務|分支|阶段|階段|迭代)|第[一二三四五六七八九十\d]+(?:个|次|轮)?(?:阶段|階段|迭代)"
    r"|(?:この|今回の|現在の)(?:タスク|ブランチ|フェーズ|イテレーション)|(?:フェーズ|イテレーション) ?\d+"
)
_SEE = r"(?:\bsee(?: also)?|\bsiehe|\bvoir|\bvéase|见|見)"
_STEPS = (
    [rf"(?:^|\s)(?:step )?{number}[.):]\s" for number in (1, 2, 3)],
    (r"\bfirst(?:ly)?\b", r"\bthen\b", r"\b(?:then|finally|lastly|after that|at last)\b"),
    (r"\b(?:zuerst|zunächst|erst)\b", r"\bdann\b", r"\b(?:dann|danach|schließlich|zuletzt)\b"),
    (r"\bd'abord\b", r"\b(?:puis|ensuite)\b", r"\b(?:puis|ensuite|enfin)\b"),
    (r"\bprimero\b", r"\b(?:luego|después|entonces)\b", r"\b(?:luego|después|finalmente|por último)\b"),
    (r"首先|先", r"然后|然後|再|接着", r"最后|最後|然后|再"),
    (r"まず|最初に", r"次に|それから", r"最後に|その後|次に"),
)

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
    says that feedback is a convention of the team, and `confirmed` that a person wants the team to have it.
    """

    supersedes: str = ""
    anyway: str = ""
    convention: bool = False
    confirmed: bool = False


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
    how the item differs from it. `lacking` are the fields of a fact that are not there, or not as they should be.
    `is_there` says that it was promoted word for word, and only its mark is missing.
    """

    item: PromotionItem
    target: str
    steps: tuple[ChecklistStep, ...]
    supersedes: str = ""
    diff: str = ""
    lacking: tuple[str, ...] = ()
    is_there: bool = False

    @property
    def recommend(self) -> Recommended:
        """Whether to promote it: `no` when a step stops it, `defer` when one needs a person's decision."""
        verdicts = {step.verdict for step in self.steps}
        return "no" if "stop" in verdicts else "defer" if "ask" in verdicts else "yes"


def examine(
    item: PromotionItem,
    target: Sheaf,
    *,
    choice: PromotionChoice = UNDECIDED,
    names: Sequence[str] = (),
    tree: Tree | None = None,
) -> Examination:
    """Walk the checklist for an item and the scope it shall go to. Nothing is written.

    `names` are what tasks are called. With `tree`, cited places are looked up in it.

    Raises ScopeRefused when nothing is promoted to there.
    """
    require_target(target.scope)
    kind, why = classified(item)
    if target.scope.layer == "user" and not item.kind:
        kind, why = "user", "it goes to the user"
    item = item._replace(kind=kind)
    wrong: list[tuple[str, str]] = []
    if target.scope.layer == "project":
        item = item._replace(text=_without_reference(item.text, item.citations))
        wrong = problems_of(fact_of(item), tree)
    near = _nearest(item, target)
    steps = [
        _typed(item, target, why),
        _excluded(item, choice),
        _specific(item, target, names, choice),
        _compared(item, target, near, choice),
        _complete(target, wrong),
        ChecklistStep("skill", "pass", _advice(item.text)),
    ]
    if target.scope.layer == "team":
        steps.append(_shared(item, target, choice))
    told = tuple(step._replace(said=without_secrets(step.said)) for step in steps)
    found = Examination(item, str(target.scope), told, lacking=tuple(dict.fromkeys(field for field, _ in wrong)))
    if near is None:
        return found
    shown = diff(near.path, near.body.strip(), item.text, labels=("there", "new"))
    is_there = words(near.body) == words(item.text) and _is_twin(near, item)
    return found._replace(supersedes=near.path, diff=without_secrets(shown), is_there=is_there)


def _without_reference(text: str, cited: Iterable[str]) -> str:
    """A text without the reference at its end to a place that is cited beside it."""
    for place in cited:
        named = rf"`?{re.escape(place)}`?"
        reference = rf"[,;]?\s*(?:{_SEE} ?{named}|[(（](?:{_SEE} )?{named}[)）])(?=[.。]?\s*$)"
        text = re.sub(reference, "", text, flags=re.IGNORECASE) or text
    return text


def require_target(scope: Scope) -> None:
    """Raise ScopeRefused unless something may be promoted to this scope."""
    if scope.layer not in TARGETS:
        raise ScopeRefused(f"nothing is promoted to {scope}: it goes to project, user, task/SLUG or team/NAME")


def classified(item: PromotionItem) -> tuple[str, str]:
    """The type of an item, and why it is that: given, the memory's own, or by where it stands and what it says."""
    return (item.kind, "given") if item.kind else kind_of(f"{item.subject}\n{item.text}", item.section)


def fact_of(item: PromotionItem) -> Fact:
    """The fact that an item would be in the project."""
    return Fact(item.subject, " ".join(item.text.split()), item.citations, item.reason, item.kind)


def _typed(item: PromotionItem, target: Sheaf, why: str) -> ChecklistStep:
    if item.kind not in KINDS:
        return ChecklistStep("classify", "stop", f"{item.kind!r} is not one of {', '.join(KINDS)}")
    if item.kind == "user" and target.scope.layer == "project":
        return ChecklistStep("classify", "stop", f"user ({why}): what is about the person goes to user", "--to user")
    return ChecklistStep("classify", "pass", f"{item.kind}: {why}")


def _excluded(item: PromotionItem, choice: PromotionChoice) -> ChecklistStep:
    """Stop secrets, unconfirmed texts, what code and its history say, and temporary states."""
    told = f"{item.subject}\n{item.text}"
    for secret in new_secrets("\n".join((told, item.reason, *item.citations)), ""):
        return ChecklistStep("exclude", "stop", f"it holds {secret.kind}")
    if item.doubt:
        return ChecklistStep("exclude", "stop", item.doubt)
    if why := derivable(told) or ephemeral(told):
        return _insisted("exclude", why, choice)
    return ChecklistStep("exclude", "pass", "neither derivable, nor history, nor of the moment")


def _specific(item: PromotionItem, target: Sheaf, names: Sequence[str], choice: PromotionChoice) -> ChecklistStep:
    if target.scope.layer == "task":
        return ChecklistStep("task-specific", "pass", "it goes to a task")
    if found := of_one_task(f"{item.subject}\n{item.text}", names):
        elsewhere = "--to task/SLUG" if item.scope.startswith("session/") else INSIST
        return _insisted("task-specific", f"{found!r} ties it to one task: it stays there", choice, elsewhere)
    return ChecklistStep("task-specific", "pass", "nothing in it is tied to one task")


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
    if is_twin and choice.anyway:
        said = f"{near.path} has the same subject: give another, or supersede it"
        return ChecklistStep("duplicate", "ask", said, "--subject TEXT")
    if _is_said(item, near):
        return _insisted("duplicate", f"{near.path} says the same, or more: skip it", choice, beside)
    if choice.anyway:
        return _insisted("duplicate", f"{near.path} is near", choice)
    if target.scope.layer == "project" and not is_fact(near.path):
        said = f"{near.path} says otherwise, or less, and is no fact: correct it there"
        return ChecklistStep("duplicate", "ask", said, beside)
    said = f"{near.path} says otherwise, or less: supersede it?"
    return ChecklistStep("duplicate", "ask", said, f"--supersede {quote(near.path)}")


def _complete(target: Sheaf, wrong: Sequence[tuple[str, str]]) -> ChecklistStep:
    if wrong:
        options = dict.fromkeys(_OPTIONS[field] for field, _ in wrong)
        return ChecklistStep("five fields", "ask", "; ".join(why for _, why in wrong), " ".join(options))
    if target.scope.layer == "project":
        return ChecklistStep("five fields", "pass", "subject, fact, citation, reason and category are there")
    return ChecklistStep("five fields", "pass", "an ordinary memory: a name and a text are enough")


def _advice(text: str) -> str:
    if is_procedure(text):
        return "advice: a procedure is better kept as a skill; write one once it was needed twice"
    return "a fact, not a procedure"


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


def _insisted(name: str, why: str, choice: PromotionChoice, help: str = INSIST) -> ChecklistStep:
    if choice.anyway:
        return ChecklistStep(name, "pass", f"{why}; kept all the same: {choice.anyway}")
    return ChecklistStep(name, "stop", why, help)


def _nearest(item: PromotionItem, target: Sheaf) -> Memory | None:
    """The memory there that shares most words with an item, if they are nearly all; or that has its subject."""
    text, told = words(item.text), words(f"{item.title}\n{item.text}")
    mine = text if len(set(text)) >= TELLING else told  # as the gate before every save compares it
    subject = compared_subject(item.title)
    rows = (row for row in target.list() if row.state == "ok")
    named = [row.path for row in rows if compared_subject(row.name) == subject]
    best: tuple[float, Memory] | None = None
    rivals = [*target.reader.similar(told), *target.reader.similar(mine)]
    for path in dict.fromkeys([*named, *rivals]):
        with suppress(MemsheafError):  # gone, or not to be read
            memory = target.read(path)
            like = max(likeness(told, words(f"{memory.name}\n{memory.body}")), likeness(mine, fact(memory)))
            if memory.state == "ok" and (like >= LIKE or path in named) and (best is None or like > best[0]):
                best = like, memory
    return best[1] if best else None


def _is_twin(memory: Memory, item: PromotionItem) -> bool:
    return compared_subject(memory.name) == compared_subject(item.title)


def _is_said(item: PromotionItem, memory: Memory) -> bool:
    """Whether a memory says all that an item says: its words, in its order, and nothing denied that it does not."""
    mine, theirs = words(item.text), words(memory.body)
    # without its name: "run make test" is not said by "Test command: run make check"
    if not telling(item.text) <= telling(memory.body) or denials(mine) != denials(theirs):
        return False
    common = frozenset(mine) & frozenset(theirs)
    first, second = (list(dict.fromkeys(word for word in one if word in common)) for one in (mine, theirs))
    return first == second


def kind_of(text: str, section: str = "") -> tuple[Kind, str]:
    """The type that a note seems to have, and the sign by which it is known.

    >>> kind_of("Before a push, run `make check`.")
    ('reference', "it names 'make check'")
    """
    if fold_title(section) == "errors and corrections":
        return "feedback", f"it stands under {section}"
    lowered = text[:LONGEST].lower().replace("’", "'")
    place = compiled(_PLACES).search(lowered)
    if named := sorted(things(text)) or (place and [place[0]]):
        return "reference", f"it names {named[0]!r}"
    if found := compiled(_PREFERENCES).search(spoken(lowered)):
        return "user", f"{found[0]!r} tells what the person prefers"
    return "project", "nothing in it says otherwise"


def of_one_task(text: str, names: Iterable[str] = ()) -> str:
    """The words that tie a text to one task, branch or phase; "" when none do. `names` are what tasks are called.

    >>> of_one_task("In phase 2 the parser moved."), of_one_task("Parsers live in src/parse.")
    ('phase 2', '')
    """
    text = text[:LONGEST].replace("’", "'")
    lowered = text.lower()
    if found := compiled(_OF_ONE_TASK).search(spoken(lowered)) or compiled(_ON_A_BRANCH).search(lowered):
        return found[0]
    for name in names:
        # one common word such as `auth` stands in many a text
        is_telling = len(re.findall(r"\w+", name)) > 1 or (not name.isascii() and len(name) > 3)
        pattern = r"\s+".join(map(re.escape, name.split()))
        if is_telling and re.search(rf"(?<![\w-]){pattern}(?![\w-])" if name.isascii() else pattern, text):
            return name
    return ""


def is_procedure(text: str) -> bool:
    """Whether a text tells three or more steps in order: then it is rather a skill than a fact.

    >>> is_procedure("First stop the workers, then migrate, then start them."), is_procedure("Migrate first.")
    (True, False)
    """
    lowered = text[:LONGEST].lower()
    return any(_stand_in_order(lowered, patterns) for patterns in _STEPS)


def _stand_in_order(text: str, patterns: Iterable[str]) -> bool:
    at = 0
    for pattern in patterns:
        found = compiled(pattern).search(text, at)
        if not found:
            return False
        at = found.end()
    return True
