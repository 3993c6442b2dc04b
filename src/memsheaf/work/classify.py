"""Classify a note by its words: its type, whether it belongs to one task, is a procedure, or refers to a place.

Words alone decide, in six languages, and apart from code, addresses and quotations; so each is a careful guess that a
person can overrule, and says which words it goes by.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache

from memsheaf.guard.citations import parse
from memsheaf.memory import Kind
from memsheaf.text.sections import fold_title
from memsheaf.text.similarity import things
from memsheaf.text.spoken import spoken

LONGEST = 20_000
"""How many characters of a text are read."""

_PLACES = r"\b(?:dashboards?|runbooks?|wiki|grafana|kibana|confluence|sentry)\b|仪表盘|看板|ダッシュボード"
_PREFERENCES = (
    r"\bi(?: really| strongly)? (?:prefer|like|love|hate|dislike|would rather)\b|\bi'd rather\b|\bmy (?:preference|"
    r"favou?rite)\b|\b(?:the )?user(?: really| strongly)? (?:prefers|dislikes|would rather)\b|\buser's preference\b"
    r"|\bich (?:bevorzuge|mag|hasse|möchte lieber)\b|\b(?:be)?nutzer(?:in)? (?:bevorzugt|mag)\b"
    r"|\bje préfère\b|\bj'aime mieux\b|\butilisat(?:eur|rice) préfère\b"
    r"|\bprefiero\b|\busuari[oa] prefiere\b"
    r"|(?:我|用户|用戶)(?:更|比较|比較|不)?(?:喜欢|喜歡|偏好)"
    r"|(?:私|僕|俺|ユーザー)は[^。\n]{0,30}(?:好む|好き|好み)"
)

_ON_A_BRANCH = (
    r"\b(?:on|in) (?:the |my )?branch `?(?!(?:main|master|develop|dev|trunk|stable|releases?|names?|protection|policy"
    r"|policies)\b)[\w./-]+"
)
_OF_ONE_TASK = (
    r"\b(?:this|the current|our current) (?:task|phase|iteration|branch|pr|pull request|merge request|ticket|story"
    r"|sprint|feature branch|plan)\b"
    r"|\b(?:phase|iteration|sprint)[ -]?#?\d+\b|\b(?:last|next|previous|first|second|third) iteration\b"
    r"|\b(?:pr|mr|pull request|merge request) ?[#!]?\d+\b|\b(?:is|was) regressed\b|\bwas verified, and is\b"
    r"|\b(?:diese[rsmn]?|aktuelle[rsnm]?) (?:aufgabe|task|phase|iteration|branch|zweig|sprints?|ticket)\b"
    r"|\b(?:cette|la présente) (?:tâche|phase|itération|branche)\b|\b(?:phase|itération) (?:n° ?)?\d+\b"
    r"|\besta (?:tarea|fase|iteración|rama)\b|\b(?:fase|iteración) \d+\b"
    r"|(?:[这這]个?|本|[当當]前)(?:次)?(?:任务|任務|分支|阶段|階段|迭代)|第[一二三四五六七八九十\d]+(?:个|次|轮)?(?:阶段|階段|迭代)"
    r"|(?:この|今回の|現在の)(?:タスク|ブランチ|フェーズ|イテレーション)|(?:フェーズ|イテレーション) ?\d+"
)

_STEPS = r"(?:^|\s)(?:step )?{number}[.):]\s"
_SEQUENCES = (
    (r"\bfirst(?:ly)?\b", r"\bthen\b", r"\b(?:then|finally|lastly|after that|at last)\b"),
    (r"\b(?:zuerst|zunächst|erst)\b", r"\bdann\b", r"\b(?:dann|danach|schließlich|zuletzt)\b"),
    (r"\bd'abord\b", r"\b(?:puis|ensuite)\b", r"\b(?:puis|ensuite|enfin)\b"),
    (r"\bprimero\b", r"\b(?:luego|después|entonces)\b", r"\b(?:luego|después|finalmente|por último)\b"),
    (r"首先|先", r"然后|然後|再|接着", r"最后|最後|然后|再"),
    (r"まず|最初に", r"次に|それから", r"最後に|その後|次に"),
)


_MARKS = r"\s`()\[\]{},;\"'<>，。；（）「」"
PLACE = rf"`[^`\n]{{1,400}}`|[^{_MARKS}]{{0,400}}[^{_MARKS}.:!?]"
"""What may be a place in a working tree: a piece of code, or a word without the marks around it."""

_SEE = r"(?:see(?: also)?|cf\.|siehe(?: auch)?|vgl\.|voir|véase|ver|参见|參見|参考|見|见)"
_AND = r"(?:, ?| ?& ?| and | und | et | y |、|和)"
_PLACES_THERE = rf"(?P<places>(?:{PLACE})(?:{_AND}(?:{PLACE}))*)"
_REFERENCES = (
    rf"[ ]?[(（](?:{_SEE} ?)?{_PLACES_THERE}(?: ?参照)?[)）]",
    rf"(?<=[.!?。！？])[ ]?{_SEE} ?{_PLACES_THERE}[.。]?(?=\s|$)",
    rf"[ ]?[,;，；–—-][ ]?{_SEE} ?{_PLACES_THERE}(?=[.,;:!?)。，；）]|\s*$)",
)


def kind_of(text: str, section: str = "") -> tuple[Kind, str]:
    """The type that a note seems to have, and the sign by which it is known.

    >>> kind_of("Before a push, run `make check`.")
    ('reference', "it names 'make check'")
    """
    if fold_title(section) == "errors and corrections":
        return "feedback", f"it stands under {section}"
    lowered = text[:LONGEST].lower().replace("’", "'")
    place = _compiled(_PLACES).search(lowered)
    if named := sorted(things(text)) or (place and [place[0]]):
        return "reference", f"it names {named[0]!r}"
    if found := _compiled(_PREFERENCES).search(spoken(lowered)):
        return "user", f"{found[0]!r} tells what the person prefers"
    return "project", "nothing in it says otherwise"


def of_one_task(text: str, names: Iterable[str] = ()) -> str:
    """The words that tie a text to one task, branch or phase; "" when none do. `names` are what tasks are called.

    >>> of_one_task("In phase 2 the parser moved."), of_one_task("Parsers live in src/parse.")
    ('phase 2', '')
    """
    text = text[:LONGEST].replace("’", "'")
    lowered = text.lower()
    if found := _compiled(_OF_ONE_TASK).search(spoken(lowered)) or _compiled(_ON_A_BRANCH).search(lowered):
        return found[0]
    return next((name for name in names if _is_telling(name) and _stands_in(name, text)), "")


def is_procedure(text: str) -> bool:
    """Whether a text tells three or more steps in order: then it is rather a skill than a fact.

    >>> is_procedure("First stop the workers, then migrate, then start them."), is_procedure("Migrate first.")
    (True, False)
    """
    lowered = text[:LONGEST].lower()
    numbered = [_STEPS.format(number=number) for number in (1, 2, 3)]
    return any(_in_order(lowered, patterns) for patterns in (numbered, *_SEQUENCES))


def without_places(text: str, cited: Iterable[str]) -> str:
    """A text without the references to places that are cited beside it; what holds a sentence together stays.

    >>> without_places("Pushes run `make check`, see Makefile:12.", ["Makefile:12"])
    'Pushes run `make check`.'
    """
    if len(text) > LONGEST:
        return text
    known = {place.place for one in cited if (place := parse(one, typed=True))}

    def let_go(found: re.Match[str]) -> str:
        named = (parse(one.strip("`"), typed=True) for one in _compiled(_AND).split(found["places"]))
        return "" if all(one and one.place in known for one in named) else found[0]

    left = text
    for pattern in _REFERENCES:
        left = _compiled(f"(?i){pattern}").sub(let_go, left)
    return left if left.strip() else text


def _in_order(text: str, patterns: Iterable[str]) -> bool:
    at = 0
    for pattern in patterns:
        found = _compiled(pattern).search(text, at)
        if not found:
            return False
        at = found.end()
    return True


def _is_telling(name: str) -> bool:
    """Whether a task's name says that it is meant: one common word such as `auth` stands in many a text."""
    return len(re.findall(r"\w+", name)) > 1 or (not name.isascii() and len(name) > 3)


def _stands_in(name: str, text: str) -> bool:
    """Whether a text holds a name as it is written, as whole words where it has blanks."""
    words = r"\s+".join(map(re.escape, name.split()))
    return bool(re.search(rf"(?<![\w-]){words}(?![\w-])" if name.isascii() else words, text))


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)
