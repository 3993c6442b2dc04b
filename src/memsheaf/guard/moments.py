"""How people say that something holds for the moment only, or is to be done once.

A row is found quickly by its needles, one of which is in every text that it matches, and surely by its pattern. Texts
are in small letters, with straight apostrophes. `worth.py` knows what turns such a phrase into something else.
"""

from __future__ import annotations

from memsheaf.values import NamedTuple


class Phrase(NamedTuple):
    """Words that bind a sentence to its moment. Rules and conditions use those that are `weak`, too."""

    needles: tuple[str, ...]
    pattern: str
    weak: bool = False


_DO = (
    "rename|fix|remove|delete|add|change|skip|leave|revert|move|update|make|undo|reformat|shorten|rewrite|translate"
    "|format|clean|replace|use|run|commit|don't|do not"
)
_THING = (
    "file|function|pr|pull request|commit|diff|branch|line|test|message|reply|answer|thread|ticket|step|paragraph"
    "|class"
)
_BUSY = (
    "debugging|fixing|looking (?:at|for|into)|editing|testing|reviewing|refactoring|trying|reading|rewriting"
    "|investigating|waiting|asking"
)

PHRASES = (
    Phrase(("for now",), r"\bfor now\b(?! and (?:always|ever|forever))"),
    Phrase(("time being", "for the moment"), r"\bfor the (?:time being|moment)\b"),
    Phrase(
        ("this once", "the once", "this time", "the time", "one time"),
        r"\b(?:just|only) (?:for )?(?:this|the) (?:once|one time|time)\b|\bthis (?:once|one time)\b",
    ),
    Phrase(("today",), r"\b(?:for today\b(?!')|today only\b|(?:only|just) today\b)"),
    Phrase(("rest of",), r"\bfor the rest of (?:the day|today|this \w+)"),
    Phrase(("this session", "this conv", "this chat"), r"\b(?:in|for|during) this (?:session|conversation|chat)\b"),
    Phrase(("until i", "until we"), r"\buntil (?:i'm|i am|we're) (?:back|done)\b"),
    Phrase(("middle of",), r"\bi(?:'m| am) (?:currently |right now |now |still )?in the middle of\b"),
    Phrase(
        ("i'm ", "i am ", "user is "),
        rf"\b(?:i'm|i am|the user is) (?:currently |right now |now |still )(?:{_BUSY})\b",
    ),
    Phrase(
        ("at the moment",), r"\bat the moment\b(?! (?:of|when|that|the|a|an|it|each|where|you|we|i)\b)", weak=True
    ),
    Phrase(("right now",), r"\bright now\b", weak=True),
    Phrase(("tempor",), r"\b(?:temporarily|temporairement|temporalmente)\b", weak=True),
    Phrase(
        ("this time",),
        r"(?<!by )(?<!at )(?<!of )(?<!around )(?<!during )(?<!until )(?<!before )(?<!about )\bthis time"
        r"(?=[.!,]|$| (?:please|just|only|use|skip|do|don't|leave|keep|write|run|make|try|we|i|let's)\b)",
        weak=True,
    ),
    Phrase(("erste", "vorerst", "vorläufig", "momentan"), r"\b(?:fürs erste|vorerst|vorläufig|momentan)\b"),
    Phrase(("im moment",), r"\bim moment\b(?! (?:der|des|in|wo|als)|,)"),
    Phrase(
        ("nur dies", "nur heute", "nur für", "diesmal"),
        r"\bnur (?:dieses (?:eine )?mal|heute|für heute)\b|\bdiesmal\b",
    ),
    Phrase(("ausnahmsweise", "ich bin gerade"), r"\b(?:ausnahmsweise|ich bin gerade (?:dabei|mitten))\b"),
    Phrase(("vorübergehend",), r"\bvorübergehend\b", weak=True),
    Phrase(("pour l", "cette fois"), r"\bpour (?:l'instant|le moment)\b|\bcette fois-ci\b|\bcette fois seulement\b"),
    Phrase(("cette fois", "aujourd'hui"), r"\b(?:juste|seulement) (?:cette fois|(?:pour )?aujourd'hui)\b"),
    Phrase(
        ("provisoirement", "exceptionnell", "en train"),
        r"\b(?:provisoirement|exceptionnellement|je suis en train de)\b",
    ),
    Phrase(("en ce moment", "ahora mismo"), r"\b(?:en ce moment|ahora mismo)\b", weak=True),
    Phrase(("por ahora", "momento"), r"\b(?:por ahora|por el momento|de momento)\b"),
    Phrase(("esta vez", "lo hoy", "lo por hoy"), r"\b(?:por )?esta vez\b|\bs[oó]lo (?:por )?hoy\b"),
    Phrase(("provisionalmente", "estoy en medio"), r"\b(?:provisionalmente|estoy en medio de)\b"),
    Phrase(("这次", "這次", "一次"), r"[就只仅僅](?:限|是)?[这這]一?次"),
    Phrase(
        ("这次", "這次", "一次"),
        r"(?:^|(?<=[，,\s]))(?:那|就|只|我们|先)?[这這]一?次(?=就|先|只|不要|别|別|用|请|請|帮|幫|可以|例外|暂|跳)",
    ),
    Phrase(("暂时", "暫時", "临时"), r"暂时|暫時|临时(?=先|用|关|禁|改|跳)"),
    Phrase(("先",), r"先[^，。,.;；\n]{1,20}吧|今天先|先到这里?"),
    Phrase(("目前", "当前", "當前"), r"[目当當]前[^，。\n]{0,6}(?=正在|还在|還在|还没|還沒|卡在|先)"),
    Phrase(
        ("现在", "正在", "今天", "到此"),
        r"现在(?=正在|先|卡在)|我正在(?=改|写|看|调试|修|处理|测试|重构|排查)|[只仅][限有]今天|到此为止",
    ),
    Phrase(
        ("今回",), r"今回(?:だけ|のみ|限り)|今回は(?=[^。\n]{0,20}(?:してください|しないで|で(?:いい|お願い)|省略))"
    ),
    Phrase(("とりあえず", "ひとまず", "今のところ"), r"とりあえず|ひとまず|今のところ"),
    Phrase(("一旦", "いったん"), r"(?:一旦|いったん)(?![^。、\n]{0,12}(?:した|すると|れば|たら))"),
    Phrase(("今だけ", "今日だけ", "本日限り", "当面"), r"今だけ|今日だけ|本日限り|当面(?:は|の間)"),
    Phrase(
        ("作業中", "修正中", "調査中", "デバッグ中", "対応中", "ところ", "最中"),
        r"(?:現在|今)[^。、\n]{0,14}(?:作業中|修正中|調査中|デバッグ中|対応中)|[てで]い?る(?:ところ|最中)",
    ),
)
"""What says that it holds for the moment only."""

REQUESTS = (
    Phrase(
        ("stop here", "pause here", "wait here"),
        r"^(?:ok(?:ay)?,? |please,? |now,? |then,? |and |so,? |let's )*(?:stop|pause|wait) here\b",
    ),
    Phrase(
        ("continue", "go on", "carry on", "go ahead", "try again", "start over", "undo that"),
        r"^(?:please,? |now,? |ok(?:ay)?,? )*(?:continue|go on|carry on|go ahead|try again|start over|undo that)"
        r"(?: please)?[.!]*$",
    ),
    Phrase(
        ("in this ", "on this ", "from this ", "to this ", "of this "),
        rf"^(?:please |can you |could you |now |just |let's |ok,? |also )*(?:{_DO})\b[^\n]{{0,80}}"
        rf"\b(?:in|on|from|to|of) this (?:{_THING})\b",
    ),
    Phrase(
        ("in this ", "on this "),
        rf"^(?:in|on) this (?:{_THING})\b[^\n]{{0,60}}\b(?:please|rename|fix|remove|delete|change)\b",
    ),
    Phrase(
        ("user asked", "user told", "user requested", "user just"),
        r"^the user (?:just )?(?:asked|told|requested) (?:me |us |the agent |the assistant )?to (?:fix|rename|add"
        r"|write|refactor|implement|run|update|remove|delete|check|explain|debug|review|look|create|change)\b",
    ),
    Phrase(
        (
            "just fixed",
            "just ran",
            "just pushed",
            "just committed",
            "just merged",
            "just started",
            "just finished",
            "just opened",
            "just updated",
            "just rebased",
            "just deployed",
        ),
        r"^(?:i |we )?(?:have |'ve )?just (?:fixed|ran|pushed|committed|merged|started|finished|opened|updated"
        r"|rebased|deployed)\b",
    ),
    Phrase(
        ("dieser datei", "ce fichier", "este archivo"),
        r"^(?:in dieser datei|dans ce fichier|en este archivo)\b[^\n]{0,60}"
        r"(?:bitte|s'il|stp|por favor|umbenenn|renomm|renombr)",
    ),
    Phrase(
        ("hör hier", "halt hier", "arrête", "para aquí"),
        r"^(?:hör|halt) hier (?:auf|an)\b|^arrête(?:-toi|z)? (?:ici|là)\b|^para aquí\b",
    ),
    Phrase(("这", "這"), r"[这這][个個]?(?:文件|函数|提交|分支)[^。\n]{0,15}(?:改成|重命名|删掉|加上|改一下)"),
    Phrase(
        ("この",), r"この(?:ファイル|関数|コミット|ブランチ|pr)[^。\n]{0,20}(?:してください|直して|変えて|消して)"
    ),
    Phrase(("ここで",), r"ここで(?:止めて|やめて)"),
)
"""What asks for one thing, once, or reports that it is done."""

NEEDLES = sorted({needle for phrase in PHRASES + REQUESTS for needle in phrase.needles})

_MONTH = "(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec|mär|mai|okt|dez|fév|avr|déc|ene|abr|dic)"
END = (
    rf"\b(?:until|till|through|by|before|ends?|expires?|bis|jusqu|hasta|antes)\b[^\n]{{0,40}}?(?:\d{{4}}-\d\d"
    rf"|\b\d{{1,2}}[./]\d{{1,2}}\b|\b\d{{4}}\b|\b{_MONTH}\w*\.? ?\d|\d\.? (?:de )?{_MONTH})"
    r"|\b(?:until|till|bis|jusqu'à|hasta(?: que)?) (?:the |der |die |das |la |le |el |version |v?\d|release|issue|#)"
    r"|\d{4}[-年][^\n]{0,8}(?:まで|之?前|为止|為止|截止)|(?:到|直到|截止|截至)[^\n]{0,4}\d{4}[-年]"
)
"""An end that is named: what holds until then is no longer of the moment."""

DENIED_BEFORE = (
    r"\b(?:not|nicht|pas|no)\s(?:just |only |merely |nur |seulement |que |s[oó]lo )?$"
    r"|(?:rather|more) than (?:only |just )?$"
    r"|不(?:只|仅|仅仅|僅)?是?$|\b(?:words?|phrase|says?|saying|called|named) $"
)
DENIED_AFTER = r"\s?(?:でなく|ではなく|じゃなく|に限らず|でない)"
RULE = (
    r"\b(?:if|when|whenever|never|always|can|may|might|could|avoid|every|each|without|whether|unless|while|nie|immer"
    r"|wenn|si|quand|cuando|jamais|toujours|nunca|siempre)\b"
)
