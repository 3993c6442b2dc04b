"""Texts that are not worth keeping: what holds for the moment only, and what the code and its history say already.

Both are known by their words, so both are careful: what may be a durable fact is let through. A phrase that is quoted
or stands in code says nothing, nor does one beside which an end is named ("for now, until 2026-12-01"). A sentence on
code is let through where the text gives a reason, a rule or a warning. `tests/corpora/worth.json` has examples.

Patterns are matched against one sentence in small letters, and stay text until one is needed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from memsheaf.text.neutralize import one_line
from memsheaf.text.spoken import spoken

MAX_QUOTED_CHARS = 60
MAX_CHARS_READ = 20_000

# Words that bind a sentence to its moment, in English, German, French and Spanish, then in Chinese and Japanese.
_MOMENT_WORDS = (
    r"\b(?:for now(?! and (?:always|ever))|for the (?:time being|moment|rest of (?:the day|today|this))"
    r"|(?:just|only) (?:for )?(?:this|the) (?:once|one time|time)|this (?:once|one time)"
    r"|for today(?!')|today only|(?:only|just) today|(?:in|for|during) this (?:session|conversation|chat)"
    r"|until (?:i'm|i am|we're) (?:back|done)|(?:i'm|i am) (?:(?:currently|now|still) )?in the middle of"
    r"|(?:i'm|i am|the user is) (?:currently|right now|now|still) (?:debugg|fix|look|edit|test|review|refactor)ing"
    r"|fürs erste|vorerst|vorläufig|momentan|im moment(?! (?:der|des|in|wo|als)|,)|diesmal|ausnahmsweise"
    r"|nur (?:dieses (?:eine )?mal|(?:für )?heute)|ich bin gerade (?:dabei|mitten)"
    r"|pour (?:l'instant|le moment)|cette fois(?:-ci| seulement)|provisoirement|exceptionnellement"
    r"|(?:juste|seulement) (?:cette fois|(?:pour )?aujourd'hui)|je suis en train de"
    r"|por (?:ahora|el momento)|de momento|esta vez|s[oó]lo (?:por )?hoy|provisionalmente|estoy en medio de)\b"
)
_MOMENT_IN_CHINESE_OR_JAPANESE = (
    r"|[就只仅僅][限是]?[这這]一?次|暂时|暫時|临时(?=[先用关禁改跳])|先[^，。、,.]{0,14}吧|今天先|先到这|[只仅][限有]今天"
    r"|(?:^|(?<=[，,\s]))[这這]一?次(?=[就先只不别別用请請帮幫暂跳])|现在(?=正在|先|卡在)|我正在(?=[改写看调修处测重排])"
    r"|(?:目前|当前|當前)[^，。、,.]{0,14}(?:正在|[还還]在|还没|還沒|卡在|先)"
    r"|今回(?:だけ|のみ|限り|は(?=.{0,14}(?:ください|しないで|でいい|でお願い|省略)))|とりあえず|ひとまず|今のところ"
    r"|(?:一旦|いったん)(?!.{0,14}(?:した|すると|れば|たら))|今日?だけ|本日限り|当面(?:は|の間)|[てで]い?る(?:ところ|最中)"
    r"|(?:現在|今).{0,14}(?:作業|修正|調査|デバッグ|対応)中"
)
# The same, unless the sentence is a rule ("never skip a test temporarily").
_MOMENT_UNLESS_RULE = (
    r"|\b(?:at the moment(?! (?:of|when|that|the|an?|it|each|where|you|we|i)\b)|right now|temporarily"
    r"|(?<!by )(?<!at )(?<!of )(?<!around )(?<!during )(?<!until )(?<!before )(?<!about )this time"
    r"(?=[.!,]|$| (?:please|just|only|use|skip|do|don't|leave|keep|write|run|make|try|we|i|let's)\b)"
    r"|vorübergehend|en ce moment|temporairement|ahora mismo|temporalmente)\b"
)
_RULE_WORDS = (
    r"\b(?:if|when(?:ever)?|never|always|can|may|might|could|avoid|every|each|without|whether|unless|while"
    r"|nie|immer|wenn|si|quand|jamais|toujours|cuando|nunca|siempre)\b"
)
# One thing that is asked for, or reported as done.
_SINGLE_TASK = (
    r"^(?:(?:please|now|then|and|so|also|just|okay|ok|let's)\b,? *)*"
    r"(?:(?:stop|pause|wait) here|(?:continue|go on|go ahead|try again|start over|undo that)[.!]*$"
    r"|(?:rename|fix|remove|delete|add|change|skip|leave|revert|move|update|make|use|run|don't|do not)\b"
    r".{0,80}? (?:in|on|from|to|of) this (?:file|function|pr|pull request|commit|diff|branch|line|test|reply)\b"
    r"|(?:in|on) this (?:file|function|pr|commit|diff|branch)\b.{0,80}?\b(?:please|rename|fix|remove|change)\b)"
    r"|^the user (?:just )?(?:asked|told|requested) (?:(?:me|us|the (?:agent|assistant)) )?to"
    r" (?:fix|rename|add|write|refactor|implement|run|update|remove|delete|check|explain|debug|review|change)\b"
    r"|^(?:(?:i|we)(?: have|'ve)? )?just (?:fixed|ran|pushed|committed|merged|started|finished|updated|deployed)\b"
    r"|^in dieser datei .{0,80}?(?:bitte|umbenenn)|^dans ce fichier .{0,80}?(?:s'il|stp|renomm)"
    r"|^en este archivo .{0,80}?(?:por favor|renombr)"
    r"|[这這][个個]?(?:文件|函数|提交|分支).{0,14}(?:改成|重命名|删掉|加上|改一下)"
    r"|この(?:ファイル|関数|コミット|ブランチ).{0,14}(?:してください|直して|変えて|消して)|ここで(?:止めて|やめて)"
)
_MONTH_NAME = "(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec|mär|mai|okt|dez|fév|avr|déc|ene|abr|dic)"
# An end that is named: what holds until then is no longer of the moment.
_NAMED_END = (
    r"\b(?:until|till|through|by|before|ends?|expires?|bis|jusqu|hasta|antes)\b.{0,40}?(?:\d{4}|\b\d{1,2}[./]\d{1,2}\b"
    rf"|\b{_MONTH_NAME}\w*\.? ?\d|\d\.? (?:de )?{_MONTH_NAME})"
    r"|\b(?:until|till|bis|jusqu'à|hasta(?: que)?) (?:the |der |die |das |la |le |el |version |v?\d|release|issue|#)"
    r"|\d{4}[-年].{0,8}(?:まで|之?前|为止|為止|截止)|[到至止].{0,4}\d{4}[-年]"
)
_DENIED_BEFORE = (
    r"\b(?:not|nicht|pas|no) (?:just |only |merely |nur |seulement |que |s[oó]lo )?$"
    r"|(?:rather|more) than (?:only |just )?$|不[只仅僅]*是?$|\b(?:words?|phrase|says?|saying|called|named) $"
)
_DENIED_AFTER = r"\s?(?:でなく|ではなく|じゃなく|に限らず|でない)"

# What a look at the code or its history tells as well.
_LOOKUP_STATEMENT = (
    r"\b(?:(?:src|lib|app|tests?|pkg|internal|cmd)/[\w./-]* *(?:contains?|holds?|has|includes?)\b"
    r"|class SYMBOL (?:inherits|extends|derives|subclasses|implements)\b"
    r"|(?:inherits from|is a subclass of|subclasses|derives from) \S"
    r"|(?:last|latest|previous|most recent|newest) commit (?:on \S+ )?(?:was|is|CHANGED)"
    r"|commit [0-9a-f]{7,40} (?:was|is|by|CHANGED)"
    r"|REQUEST ?(?:(?:was|were|is|has been|have been|got) (?:merged|closed|opened|approved|reviewed|reopened)\b"
    r"|(?:wurde|ist) (?:gemerg|geschlossen)|(?:a été|est|fue|ha sido|está) (?:fusionn|merg|ferm|fusionad|cerrad)"
    r"|(?:已经|已經|已|被)?(?:合并|合併|关闭|關閉)|[はが]?(?:マージ|クローズ))"
    r"|(?:merged|opened|closed|reviewed|approved) (?:the )?REQUEST"
    r"|branch \S+ (?:was|has been|is|got) (?:merged|deleted|rebased)\b"
    r"|(?:project|repo|repository|package|codebase|library|app|application|service|suite) (?:currently )?"
    r"(?:has|contains|consists of|comprises) (?:about |around |roughly |over |more than )?NUMBER (?:\S+ )?PARTS\b"
    r"|there (?:are|is) (?:about |around )?NUMBER (?:\S+ )?PARTS in\b"
    r"|(?:takes|accepts|receives) (?:\S+ ){0,2}(?:arguments?|parameters?|params)\b"
    r"|(?:function|method) SYMBOL (?:returns|calls)\b"
    r"|(?:model|table|schema|class|struct|interface) has (?:the )?(?:\S+ )?(?:fields?|columns?|attributes?)\b"
    r"|git (?:log|blame|diff|status|history) (?:shows?|says?|tells?)\b"
    r"|(?:projekt|repo|repository) (?:hat|enthält) NUMBER (?:modul|datei|paket|test)|der letzte commit\b"
    r"|(?:projet|dépôt) (?:a|compte|contient) NUMBER (?:module|fichier|paquet|test)|le dernier commit\b"
    r"|(?:proyecto|repositorio) (?:tiene|contiene) NUMBER (?:módulo|archivo|paquete|test)|el último commit\b)"
    r"|^recent (?:commits|changes)\b"
)
# The same in texts that name a file of code, or are in Chinese or Japanese.
_LOOKUP_IN_FILE_OR_ABROAD = (
    r"|^(?:(?:i|we|the user|the agent) )?(?:have )?(?:just )?"
    r"(?:fixed|added|updated|refactored|renamed|removed|changed|implemented|created|moved)\b.{0,80}?FILE"
    r"|\b(?:is|are|was|were) (?:defined|implemented|declared|located|found|exported|imported)"
    r" (?:in|at|from|by|inside) (?:the file )?FILE"
    r"|\b(?:function|method|class|struct|component|hook|constant|handler|helper|service|model)\b.{0,80}?"
    r" (?:lives?|sits?|is) in FILE"
    r"|FILE ?(?:(?:contains?|defines?|has|holds?|exports?|imports?|implements?|provides?|includes?|consists of)\b"
    r"|(?:was|has been|is|were) (?:renamed|moved|deleted|removed|added|created|updated|modified|changed|split)\b"
    r"|(?:enthält|definiert|contient|définit|contiene)\b|(?:文件)?(?:包含|[里裡中]有|[定实實][义義现現]了)"
    r"|には?.{0,14}(?:定義|含ま|入って|実装))"
    r"|\b(?:on|at|in) lines? \d+(?:-\d+)? (?:of|in) FILE"
    r"|in (?:der datei )?FILE (?:definiert|implementiert|deklariert)"
    r"|\best (?:défini|implément|déclar)\w* dans FILE|\bestá (?:definid|implementad|declarad)\w* en FILE"
    r"|(?:函数|方法|类|類|组件|接口).{0,40}(?:[定实實][义義现現]|位于)[在于]? ?FILE"
    r"|(?:関数|クラス|メソッド).{0,14}FILE ?[にで](?:定義|実装|ある|あります)"
    r"|(?:最近|最[后後]|上)的?一?次提交"
    r"|(?:项目|專案|仓库|代码库)[里中]?[一总]?共?(?:有|包含) ?\d+ ?个?(?:模块|文件|包|测试|组件)"
    r"|(?<![a-z0-9_])[a-z][a-z0-9_]*+ ?类?[继繼]承自? ?[a-z]"
    r"|(?:最後|直近|最新|前回)のコミット"
    r"|(?:プロジェクト|リポジトリ)に?は ?\d+ ?個?の?(?:モジュール|ファイル|パッケージ)"
    r"|(?<![a-z0-9_])[a-z][a-z0-9_]*+ ?(?:クラス)?を継承"
)
_FILE_ENDING = r"\.(?:pyi?|tsx?|m?jsx?|go|rs|java|kt|cc?|h|[ch]pp|rb|php|cs|swift|scala|vue|lua|exs?|hs|dart)\b"
_NAMED = {
    "SYMBOL": r"[`\"]?\b[\w.:]+(?:\(\))?[`\"]?",
    "FILE": r"(?<![\w./-])[`\"]?(?:[\w.-]+/)*[\w-]+"
    rf"{_FILE_ENDING}[`\"]?",
    "REQUEST": r"\b(?:pr|pull request|mr|merge request|issue)s? ?[#!]?\d+",
    "NUMBER": r"(?:\d+|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|a dozen)",
    "PARTS": r"(?:modules|(?:sub)?packages|files|tests|classes|functions|lines|endpoints|components|directories"
    r"|folders|tables|routes|commits|contributors|branches|dependencies|crates)",
    "CHANGED": r"(?:fix|add|remov|chang|updat|refactor|renam|introduc|mov|bump)",
}
for _name, _pattern in _NAMED.items():
    _LOOKUP_STATEMENT = _LOOKUP_STATEMENT.replace(_name, _pattern)
    _LOOKUP_IN_FILE_OR_ABROAD = _LOOKUP_IN_FILE_OR_ABROAD.replace(_name, _pattern)
# A reason, a rule or a warning: no code says that of itself.
_REASON_WORDS = (
    r"\b(?:because|since|so that|therefore|why|decid\w*|chose|chosen|must|mustn't|never|always|don't|do not|avoid"
    r"|should|shouldn't|prefer\w*|convention|instead|workaround|gotcha|careful|otherwise|break\w*|unless|needs?|rather"
    r"|reason|policy|agreed|rule|ask|until|generated|vendored|legacy|deprecated|if|cannot|can't|fails?|flaky|only"
    r"|on purpose|intentional\w*|weil|damit|muss|müssen|nicht|immer|nie|deshalb|sonst|parce|car|doit|doivent|jamais"
    r"|toujours|sinon|porque|deben?|nunca|siempre|hay que)\b"
    r"|因[为為]|所以|必[须須]|不要|不能|应该|應該|[决決]定|约定|否则|别|ため|ので|から、|必ず|べき|しないで|禁止"
)


def ephemeral(text: str) -> str:
    """Return why a text holds for the moment only, or "" when nothing says so.

    >>> ephemeral("Use the old endpoint for now.")
    "'for now' says that it holds for the moment only; say until when it holds, or leave it out"
    >>> ephemeral("Use the old endpoint for now, until 2026-12-01.")
    ''
    """
    for line in spoken(text[:MAX_CHARS_READ].lower().replace("’", "'")).split("\n"):
        for sentence in _sentences(line):
            if match := re.search(_SINGLE_TASK, sentence):
                return (
                    f"{one_line(match[0], MAX_QUOTED_CHARS)!r} asks for one thing, once, or reports it; "
                    "keep what holds every time, or leave it out"
                )
            words = _find_moment(sentence)
            if words and not re.search(_NAMED_END, line):
                return f"{words!r} says that it holds for the moment only; say until when it holds, or leave it out"
    return ""


def _find_moment(sentence: str) -> str:
    """Return the words that bind a sentence to its moment, unless they are denied ("not just for now")."""
    pattern = _MOMENT_WORDS
    if not sentence.isascii():
        pattern += _MOMENT_IN_CHINESE_OR_JAPANESE
    if not re.search(_RULE_WORDS, sentence):
        pattern += _MOMENT_UNLESS_RULE
    for match in re.finditer(pattern, sentence):
        before = sentence[: match.start()]
        behind = sentence[match.end() :]
        if not re.search(_DENIED_BEFORE, before) and not re.match(_DENIED_AFTER, behind):
            return match[0].strip()
    return ""


def derivable(text: str, *, cited: bool = False) -> str:
    """Return why a text need not be kept, since code, files or version control say it; "" when nothing shows that.

    With `cited`, it may speak of code, for that can be checked; pasted output is still refused.

    >>> derivable("PR #12 was merged.")
    "'pr #12 was merged' can be looked up in the code or its history; keep why it is so, or what follows from it"
    >>> derivable("PR #12 was merged without review, because production was down.")
    ''
    """
    text = text[:MAX_CHARS_READ]
    if kind := _find_paste(text):
        return f"this is {kind}, which can be looked up at any time; keep in a sentence what it taught"
    if cited:
        return ""
    lowered = text.lower()
    pattern = _LOOKUP_STATEMENT
    if not lowered.isascii() or re.search(_FILE_ENDING, lowered):
        pattern += _LOOKUP_IN_FILE_OR_ABROAD
    lookups: list[str] = []
    others = 0
    for sentence in _sentences(re.sub(r"(?s)```.*?(?:```|\Z)", "", lowered)):  # code is no statement
        if match := re.search(pattern, sentence):
            lookups.append(match[0].strip())
        elif len(sentence.split()) > 4 or len(sentence.encode()) > 2 * len(sentence):
            others += 1
    if len(lookups) <= others or re.search(_REASON_WORDS, lowered):
        return ""
    return (
        f"{one_line(lookups[0], MAX_QUOTED_CHARS)!r} can be looked up in the code or its history; "
        "keep why it is so, or what follows from it"
    )


def _sentences(text: str) -> Iterator[str]:
    for sentence in re.split(r"(?<=[!?;。！？；])|(?<=\.)(?=\s)|\n", text):
        if bare := sentence.strip(" \t*_#->•"):
            yield bare


_CODE_LINE = (
    r"\s*(?:@\w|(?:async )?def |class |import |from \S+ import|func |fn |pub |impl |function |export |const |let "
    r"|var |public |private |protected |static |return\b|if\b.*[:{]$|else\b|elif |for\b.*[:{]$|while\b|try\b"
    r"|except\b|catch\b|raise |throw |switch|case |package |use |#include|struct |type |[)}\]]+[;,]?$"
    r"|\w[\w.\[\]]* (?:=|:=|\+=) .+|self\.|this\.|with .+:$|int |void |[\w.]+\(.*\)[;{:]?$|\"\"\"|//|/\*|\*/)"
)
# What people and agents paste, and can have again at any time: its name, how many lines it has at least, a sign that
# stands somewhere in it, and how most of its lines look.
_PASTED_KINDS = (
    (
        "a diff",
        3,
        r"(?m)^diff --git |^@@ -\d",
        r"diff --git |@@ -|index [0-9a-f]{7,}\.\.|(?:---|\+\+\+) |[+-]|new file mode|[ ]\S|    ",
    ),
    (
        "a git log",
        3,
        r"(?m)^\*?\s?commit [0-9a-f]{7,40}\b|^[*|\\/ ]*\b(?=[a-f]*\d)[0-9a-f]{7,40}\b \S",
        r"\*?\s?commit [0-9a-f]{7,40}\b|(?:Author|Date|Merge|Commit):? +\S|[*|\\/ ]*\b[0-9a-f]{7,40}\b \S|    \S",
    ),
    (
        "git blame",
        3,
        r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d",
        r"\^?[0-9a-f]{7,40} .*\(.+\d{4}-\d\d-\d\d.*\d+\)",
    ),
    (
        "git status",
        3,
        r"(?m)^On branch |^(?:[ MADRCU?][MADRCU?]|[MADRCU] ) [\w./-]+$",
        r"On branch |Your branch |Changes |Untracked files|nothing to commit|\s+\((?:use|commit)"
        r"|\s+(?:modified|new file|deleted|renamed):|[ MADRCU?]{2} [\w./-]+$|\t\S",
    ),
    (
        "a listing of a folder",
        3,
        r"[├└]|(?m:^[-dl][rwx-]{9})",
        r".*[├└│]|[-dl][rwxs-]{9}[+@.]?\s|total \d+$|\d+ director(?:y|ies), \d+ files?|\.$",
    ),
    (
        "a list of files",
        5,
        r"(?m)^[-*•\d.)`\" ]*[\w@.-]*[/.][\w@./-]*[`\"]?$",
        r"(?:[-*•]|\d+[.)])?\s*[`\"]?(?:\./)?(?:[\w@.-]+/)*[\w@.-]+(?:\.\w{1,5}|/)[`\"]?$",
    ),
    (
        "a stack trace",
        3,
        r"Traceback \(most recent call|(?m:^\s+at .+[(:].*\d\)?$)|goroutine \d+ \[|panicked at",
        r"Traceback \(most recent|\s*File \".*\", line \d+|    \S|\s+at .+|\w+(?:\.\w+)*(?:Error|Exception|Warning)\b"
        r"|goroutine \d+ |\s+\S+\.go:\d+|\S+\(.*\)$|Caused by|\s+\.\.\. \d+ more|thread '.*' panicked|\s+\d+: ",
    ),
    (
        "a listing of code",
        8,
        r"(?m)^\s*(?:(?:async )?def |class |import |from \S+ import|func |fn |function |export |const |let |public "
        r"|static |#include|package )",
        _CODE_LINE,
    ),
)


def _find_paste(text: str) -> str:
    """Return what most lines of a text were pasted from, or "" when they were typed."""
    lines = [line for line in text.split("\n") if line.strip() and not line.startswith("```")]
    for kind, least_lines, sure_sign, line_pattern in _PASTED_KINDS:
        count = len([line for line in lines if re.match(line_pattern, line)])
        if count >= least_lines and count > 0.6 * len(lines) and re.search(sure_sign, text):
            return kind
    return ""
