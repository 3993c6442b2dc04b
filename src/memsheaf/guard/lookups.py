"""What code, files and version control say of themselves: sentences on them, and their pasted output.

A row is found quickly by its needles, one of which is in every text that it matches, and surely by its pattern.
Sentences are in small letters; `worth.py` reads them.
"""

from __future__ import annotations

from memsheaf.values import NamedTuple


class Paste(NamedTuple):
    """Output of a tool: `sure` is in it somewhere, and `line` matches at least so many of its lines."""

    what: str
    needles: tuple[str, ...]
    sure: str
    line: str
    least: int = 3


_ENDINGS = "py|pyi|ts|tsx|js|jsx|mjs|go|rs|java|kt|c|h|cc|cpp|hpp|rb|php|cs|swift|scala|vue|lua|ex|exs|hs|dart"
_FILE = rf"(?<![\w./-])[`\"]?(?:[\w.-]+/)*[\w-]+\.(?:{_ENDINGS})\b[`\"]?"
_NAME = r"[`\"]?\b[\w.:]+(?:\(\))?[`\"]?"
_MANY = r"(?:\d+|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|a dozen)"
_PARTS = (
    "modules|files|packages|tests|classes|functions|lines|endpoints|components|directories|folders|tables|routes"
    "|commits|contributors|branches|dependencies|subpackages|crates"
)
_CHANGES = r"fix\w*|add\w*|remov\w*|chang\w*|updat\w*|refactor\w*|renam\w*|introduc\w*|mov\w*|bump\w*"
_REQUEST = r"(?:pr|pull request|mr|merge request)"

SENTENCES: tuple[tuple[tuple[str, ...], str], ...] = (
    (
        ("src/", "lib/", "app/", "test/", "tests/", "pkg/", "internal/", "cmd/"),
        r"\b(?:src|lib|app|tests?|pkg|internal|cmd)/[\w./-]* (?:contains?|holds?|has|includes?)\b",
    ),
    (("class ",), rf"\bclass {_NAME} (?:inherits|extends|derives|subclasses|implements)\b"),
    (
        ("inherits from", "subclass", "derives from"),
        rf"{_NAME} (?:inherits from|is a subclass of|subclasses|derives from) {_NAME}",
    ),
    (
        ("commit",),
        rf"\b(?:last|latest|previous|most recent|newest) commit(?: on \w+)? (?:was|is|{_CHANGES})\b"
        rf"|\bcommit [0-9a-f]{{7,40}} (?:was|is|by|{_CHANGES})\b|\b(?:der letzte|le dernier|el último) commit\b",
    ),
    (
        ("merged", "closed", "opened", "approved", "reviewed", "created"),
        rf"\b(?:{_REQUEST}|issue)s? ?[#!]?\d+ (?:was|were|is|has been|have been|got)"
        r" (?:merged|closed|opened|approved|reviewed|created|reopened)\b"
        rf"|\b(?:merged|opened|closed|reviewed|approved) (?:the )?{_REQUEST} ?[#!]?\d+",
    ),
    (("branch ",), r"\bbranch \S+ (?:was|has been|is|got) (?:merged|deleted|rebased)\b"),
    (
        (" has ", " contains ", " consists of ", " comprises "),
        r"\b(?:project|repo|repository|package|codebase|library|app|application|service|suite)\b (?:currently )?"
        rf"(?:has|contains|consists of|comprises) (?:about |around |roughly |over |more than )?{_MANY} (?:\w+ )?"
        rf"(?:{_PARTS})\b",
    ),
    (("there are", "there is"), rf"\bthere (?:are|is) (?:about |around )?{_MANY} (?:\w+ )?(?:{_PARTS}) in\b"),
    (("argument", "param"), r"\b(?:takes|accepts|receives) (?:\w+ ){0,2}(?:arguments?|parameters?|params)\b"),
    (("function ", "method "), rf"\b(?:function|method) {_NAME} (?:returns|calls) "),
    (
        (" has ",),
        r"\b(?:model|table|schema|class|struct|interface|entity) has (?:the )?(?:\w+ )?"
        r"(?:fields?|columns?|attributes?|methods?|properties)\b",
    ),
    (("git ",), r"\bgit (?:log|blame|diff|status|history) (?:shows?|says?|tells?)\b"),
    (("recent ",), r"^recent (?:commits|changes)\b"),
    (("提交",), r"(?:最近|最后|最後|上)的?一?次提交"),
    (("合并", "合併", "关闭", "關閉"), r"\bpr ?#?\d+ ?(?:已经?|已經|被)?(?:合并|合併|关闭|關閉)"),
    (
        ("项目", "專案", "仓库", "代码库"),
        r"(?:项目|專案|仓库|代码库)(?:里|中)?(?:一共|总共|共)?(?:有|包含)\s?\d+\s?个?(?:模块|文件|包|测试|组件)",
    ),
    (("继承", "繼承"), r"\b[a-z_]\w*?\s?类?(?:继承|繼承)自?\s?[a-z_]"),
    (("コミット",), r"(?:最後|直近|最新|前回)のコミット"),
    (("マージ", "クローズ"), r"\bpr ?#?\d+ ?(?:は|が)?(?:マージ|クローズ)"),
    (
        ("プロジェクト", "リポジトリ"),
        r"(?:プロジェクト|リポジトリ)に?は\s?\d+\s?個?の?(?:モジュール|ファイル|パッケージ)",
    ),
    (("継承",), r"\b[a-z_]\w*?\s?(?:クラス)?は\s?[a-z_]\w*?\s?(?:クラス)?を継承"),
    (
        ("wurde", "a été", " est ", " fue ", "ha sido"),
        rf"\b{_REQUEST} ?#?\d+ (?:wurde|ist|a été|est|fue|ha sido|está) (?:gemerg\w*|geschlossen|fusionn\w*|merg\w*"
        r"|ferm\w*|fusionad\w*|cerrad\w*)",
    ),
    (
        ("projekt", "projet", "dépôt", "proyecto", "repositorio"),
        r"\b(?:projekt|repo|repository|projet|dépôt|proyecto|repositorio) (?:hat|besteht aus|enthält|a|compte"
        r"|contient|tiene|contiene) \d+ (?:modul|datei|fichier|módulo|archivo|test|paquete)",
    ),
    (("erbt", "hérite", "hereda"), rf"\b(?:klasse|classe|clase) {_NAME} (?:erbt von|hérite de|hereda de)\b"),
)
"""What a look at the code or its history tells as well."""

FILE = rf"\.(?:{_ENDINGS})\b"
ON_FILES: tuple[tuple[tuple[str, ...], str], ...] = (
    (
        (" defined", " implemented", " declared", " located", " found", " exported", " imported"),
        r"\b(?:is|are|was|were) (?:defined|implemented|declared|located|found|exported|imported)"
        rf" (?:in|at|from|by|inside) (?:the file )?{_FILE}",
    ),
    (
        (" lives in", " live in", " sits in", " is in "),
        r"\b(?:function|method|class|struct|component|hook|constant|handler|helper|service|model)\b[^\n]{0,40}"
        rf" (?:lives?|sits?|is) in {_FILE}",
    ),
    (
        (
            " contain",
            " define",
            " has ",
            " hold",
            " export",
            " import",
            " implement",
            " provide",
            " include",
            " consist",
        ),
        rf"{_FILE} (?:contains?|defines?|has|holds?|exports?|imports?|implements?|provides?|includes?|consists of)\b",
    ),
    ((" lines",), rf"{_FILE} (?:is|has) (?:about |around )?\d+ lines"),
    ((" line",), rf"\b(?:on|at|in) lines? \d+(?:-\d+)? (?:of|in) {_FILE}"),
    (
        (
            " renamed",
            " moved",
            " deleted",
            " removed",
            " added",
            " created",
            " updated",
            " modified",
            " refactored",
            " changed",
            " split",
        ),
        rf"{_FILE} (?:was|has been|is|were) (?:renamed|moved|deleted|removed|added|created|updated|modified"
        r"|refactored|changed|split)\b",
    ),
    (
        (
            "fixed",
            "added",
            "updated",
            "refactored",
            "renamed",
            "removed",
            "changed",
            "implemented",
            "created",
            "moved",
        ),
        r"^(?:i |we |the user |the agent |have |just )*(?:fixed|added|updated|refactored|renamed|removed|changed"
        rf"|implemented|created|moved)\b[^\n]{{0,80}}?{_FILE}",
    ),
    (
        ("定义", "定義", "实现", "實現", "位于"),
        rf"(?:函数|方法|类|類|组件|接口)\s?{_NAME}\s?(?:是)?(?:定义|定義|实现|實現|位于)(?:在|于)?\s?{_FILE}",
    ),
    (("包含", "有", "定义了", "实现了"), rf"{_FILE}\s?(?:文件)?(?:包含|里有|裡有|中有|定义了|定義了|实现了)"),
    (("定義", "実装", "あ"), rf"(?:関数|クラス|メソッド)[^。\n]{{0,30}}?{_FILE}\s?[にで](?:定義|実装|ある|あります)"),
    (("定義", "含ま", "入って", "実装"), rf"{_FILE}\s?には?[^。\n]{{0,20}}(?:定義|含ま|入って|実装)"),
    (
        ("definiert", "implementiert", "deklariert"),
        rf"\b(?:ist|wird|sind|werden) in (?:der datei )?{_FILE} (?:definiert|implementiert|deklariert)",
    ),
    (
        ("enthält", "contient", "contiene", "définit", "definiert"),
        rf"{_FILE} (?:enthält|contient|contiene|définit|definiert)\b",
    ),
    (("est défini", "est implément", "est déclaré"), rf"\best (?:définie?|implémentée?|déclarée?) dans {_FILE}"),
    (
        ("está definid", "está implementad", "está declarad"),
        rf"\bestá (?:definid|implementad|declarad)[oa] en {_FILE}",
    ),
)
"""The same, for sentences that name a `FILE`."""

NEEDLES = sorted({needle for needles, _ in SENTENCES for needle in needles})

REASON = (
    r"\b(?:because|since|so that|therefore|why|decid\w*|chose|chosen|must|mustn't|never|always|don't|do not|avoid"
    r"|should|shouldn't|prefer\w*|convention|instead|workaround|gotcha|careful|otherwise|break\w*|unless|needs?|rather|reason"
    r"|policy|agreed|rule|ask|until|generated|vendored|legacy|deprecated|if|cannot|can't|fails?|flaky|only|on purpose"
    r"|intentional\w*|weil|damit|muss|müssen|nicht|immer|nie|deshalb|sonst|parce|car|doit|doivent|jamais|toujours|sinon"
    r"|porque|debe|deben|nunca|siempre|hay que)\b"
    r"|因为|因為|所以|必须|必須|不要|应该|應該|决定|決定|约定|否则|ため|ので|から、|必ず|べき|しないで|禁止|不能|别"
)
"""A reason, a rule or a warning: no code says that of itself."""

_CODE = (
    r"\s*(?:@\w|(?:async )?def |class |import |from \S+ import|func |fn |pub |impl |function |export |const |let "
    r"|var |public |private |protected |static |return\b|if\b.*[:{]$|else\b|elif |for\b.*[:{]$|while\b|try\b"
    r"|except\b|catch\b|raise |throw |switch|case |package |use |#include|struct |type |[)}\]]+[;,]?$"
    r"|\w[\w.\[\]]* (?:=|:=|\+=) .+|self\.|this\.|with .+:$|int |void |[\w.]+\(.*\)[;{:]?$|\"\"\"|//|/\*|\*/)"
)
PASTES = (
    Paste(
        "a diff",
        ("diff --git ", "@@ -"),
        r"(?m)^diff --git |^@@ -\d",
        r"diff --git |@@ -|index [0-9a-f]{7,}\.\.|(?:---|\+\+\+) |[+-]|new file mode|[ ]\S|    ",
    ),
    Paste(
        "a git log",
        ("\n",),
        r"(?m)^\*?\s?commit [0-9a-f]{7,40}\b|^[*|\\/ ]*\b(?=[a-f]*\d)[0-9a-f]{7,40}\b \S",
        r"\*?\s?commit [0-9a-f]{7,40}\b|(?:Author|Date|Merge|Commit):? +\S|[*|\\/ ]*\b[0-9a-f]{7,40}\b \S|    \S",
    ),
    Paste(
        "git blame",
        (" +0", " -0", " +1", " -1"),
        r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d",
        r"\^?[0-9a-f]{7,40} .*\(.+\d{4}-\d\d-\d\d.*\d+\)",
    ),
    Paste(
        "git status",
        ("On branch", "M ", "A ", "D ", "??", "R "),
        r"(?m)^On branch |^(?:[ MADRCU?][MADRCU?]|[MADRCU] ) [\w./-]+$",
        r"On branch |Your branch |Changes |Untracked files|nothing to commit|\s+\((?:use|commit)"
        r"|\s+(?:modified|new file|deleted|renamed):|[ MADRCU?]{2} [\w./-]+$|\t\S",
    ),
    Paste(
        "a listing of a folder",
        ("├", "└", "rw-", "r--", "r-x"),
        r"[├└]|(?m:^[-dl][rwx-]{9})",
        r".*[├└│]|[-dl][rwxs-]{9}[+@.]?\s|total \d+$|\d+ director(?:y|ies), \d+ files?|\.$",
    ),
    Paste(
        "a list of files",
        ("/", "."),
        r"(?m)^[-*•\d.)`\" ]*[\w@.-]*[/.][\w@./-]*[`\"]?$",
        r"(?:[-*•]|\d+[.)])?\s*[`\"]?(?:\./)?(?:[\w@.-]+/)*[\w@.-]+(?:\.\w{1,5}|/)[`\"]?$",
        least=5,
    ),
    Paste(
        "a stack trace",
        ("Traceback", "\n    at ", "\tat ", "goroutine ", "panicked at"),
        r"Traceback \(most recent call|(?m:^\s+at .+[(:].*\d\)?$)|goroutine \d+ \[|panicked at",
        r"Traceback \(most recent|\s*File \".*\", line \d+|    \S|\s+at .+|\w+(?:\.\w+)*(?:Error|Exception|Warning)\b"
        r"|goroutine \d+ |\s+\S+\.go:\d+|\S+\(.*\)$|Caused by|\s+\.\.\. \d+ more|thread '.*' panicked|\s+\d+: ",
    ),
    Paste(
        "a listing of code",
        (
            "def ",
            "class ",
            "import ",
            "func ",
            "fn ",
            "function ",
            "export ",
            "const ",
            "let ",
            "public ",
            "static ",
            "#include",
            "package ",
        ),
        r"(?m)^\s*(?:(?:async )?def |class |import |from \S+ import|func |fn |function |export |const |let |public "
        r"|static |#include|package )",
        _CODE,
        least=8,
    ),
)
"""What people and agents paste, and can have again at any time."""
