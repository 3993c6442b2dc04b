"""Secrets in a text: found before it reaches a disk, a log, an index or a model.

Three ways to be found: a known format, a place where only a secret stands (both in `formats.py`), and a value that is
assigned to a word such as *password* and looks like one (`opaque.py`). The text is read as people and programs would:
without invisible characters, with compatibility forms folded, escapes undone, and what is broken over two lines put
together. Every step is one pass, or looks at a bounded piece, so hostile texts take no longer.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator
from functools import cache, lru_cache
from itertools import pairwise
from operator import itemgetter

from memsheaf.values import NamedTuple

# Known to type checkers under this name: a start does not import `typing`.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal

    Surety = Literal["certain", "likely"]
else:
    Surety = str

SHORTEST = 14  # of what is known by its format
LONGEST = 1024  # characters of a value by which it is judged
_START = itemgetter(0)


REMOVED = "[removed: "
"""How what stands in the place of a secret begins."""


class Secret(NamedTuple):
    """Where in a text a secret stands and what it is; never the secret itself."""

    kind: str
    start: int
    end: int
    sure: Surety = "certain"


_Run = tuple[int, int, int]
"""Characters of a view: where they begin, where they come from, and 1; 0 where all come from one place."""


class _View(NamedTuple):
    """A text as it is read, the runs it is made of, and the view they come from; without runs, the text itself."""

    text: str
    runs: list[_Run] | None = None
    base: _View | None = None

    def original(self, start: int, end: int) -> tuple[int, int]:
        if self.runs is None:
            return start, end
        start, end = self._origin(self.runs, start), self._origin(self.runs, end - 1) + 1
        return self.base.original(start, end) if self.base else (start, end)

    @staticmethod
    def _origin(runs: list[_Run], at: int) -> int:
        start, origin, step = runs[bisect_right(runs, at, key=_START) - 1]
        return origin + (at - start) * step


class _Found(NamedTuple):
    secret: Secret
    value: str


def find_secrets(text: str, *, pii: bool = False) -> list[Secret]:
    """The secrets in a text, in order; with `pii` also numbers of cards, accounts and persons.

    >>> find_secrets("the wifi password is Corr3ct-H0rse-Fake")
    [Secret(kind='a password', start=21, end=39, sure='likely')]
    """
    return [found.secret for found in _scan(text, pii=pii)]


def new_secrets(text: str, old: str) -> list[Secret]:
    """The secrets in a text that were not in the old one, whatever else changed."""
    found = _scan(text)
    if not found or not old:
        return [each.secret for each in found]
    known = {each.value for each in _scan(old)}
    return [each.secret for each in found if each.value not in known]


def without_secrets(text: str) -> str:
    """The text with `[removed: a GitHub token]` where a secret was, for what is shown or kept in its stead."""
    return removed(text, find_secrets(text))


def removed(text: str, secrets: list[Secret]) -> str:
    """The text without these secrets."""
    pieces: list[str] = []
    done = 0
    for secret in secrets:
        pieces += text[done : secret.start], f"{REMOVED}{secret.kind}]"
        done = secret.end
    return "".join([*pieces, text[done:]])


def _scan(text: str, *, pii: bool = False) -> list[_Found]:
    from memsheaf.guard.secret_values import fits

    try:
        return _read(text, pii)
    finally:  # what was judged may be a secret
        for judged in (fits, _is_key, _is_plain, _is_torn, _stands_for, _is_made_alike, _announced):
            judged.cache_clear()


def _read(text: str, pii: bool) -> list[_Found]:
    if text.isascii():
        return _in_text(_View(text), pii)
    import unicodedata

    normal = _compiled(_INVISIBLE).sub("", unicodedata.normalize("NFKC", text))
    found = _in_text(_View(normal), pii)
    if normal == text or not found:
        return found
    # where each character came from is worth knowing only now
    return _in_text(_normal(text), pii) or [_Found(Secret(found[0].secret.kind, 0, len(text)), found[0].value)]


def _in_text(view: _View, pii: bool) -> list[_Found]:
    """The secrets in a text that is read as it stands, with its escapes undone, and with its seams closed."""
    found = [*_in_view(view)]
    if decoded := _decoded(view):
        found += _in_view(decoded)
    if any(mark in view.text for mark in "\n\\\"'") and (closed := _replaced(view, _SEAM, _seam)):
        found += _formatted(closed)
        found += _assigned(closed)
    if pii:
        found += _personal(view)
    return _merged(found) if len(found) > 1 else found


def _in_view(view: _View) -> Iterator[_Found]:
    yield from _marked(view)
    yield from _formatted(view)
    yield from _assigned(view)
    yield from _beside(view)


def _merged(found: list[_Found]) -> list[_Found]:
    """Each secret once, in the order of the text: those that share a place are one, called as the first was."""
    kept: list[tuple[int, _Found]] = []
    for order, each in sorted(enumerate(found), key=lambda one: one[1].secret.start):
        if not kept or kept[-1][1].secret.end <= each.secret.start:
            kept.append((order, each))
            continue
        number, last = kept[-1]
        first = last if number < order else each
        value = max(last.value, each.value, key=len)
        end = max(last.secret.end, each.secret.end)
        whole = first.secret._replace(start=last.secret.start, end=end)
        kept[-1] = min(number, order), _Found(whole, value)
    return [each for _, each in kept]


def _as_found(view: _View, kind: str, start: int, end: int, sure: Surety = "certain") -> _Found:
    return _Found(Secret(kind, *view.original(start, end), sure), view.text[start:end])


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


# how a text is read


_INVISIBLE = (
    r"[\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f"
    r"\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e0fff]"
)
# one character with the marks and vowels that it composes with
_CLUSTER = r"(?s).[\u0300-\u036f\u1160-\u11ff\u3099\u309a]{0,8}"
_ESCAPE = (
    r"%[2-7][0-9A-Fa-f]|&#[xX]0{0,6}[2-7][0-9A-Fa-f];|\\x[2-7][0-9A-Fa-f]|\\u00[2-7][0-9A-Fa-f]"
    r"|\\[nrt\"'/]|&#0{0,6}[0-9]{2,3};|&(?:amp|quot|apos|lt|gt|colon|equals|lowbar|hyphen|sol|plus);"
)
_NAMED = {
    "amp": "&", "quot": '"', "apos": "'", "lt": "<", "gt": ">", "colon": ":", "equals": "=", "lowbar": "_",
    "hyphen": "-", "sol": "/", "plus": "+",
}  # fmt: skip
# A line break with what indents or quotes the next line, or the seam of two strings, inside a token; what follows it
# in its line, and whether that is all.
_SEAM = (
    r"(?<=[A-Za-z0-9+/_=.~%-]{6})(?:[ \t]{0,8}\\?\r?\n[ \t>#*|]{0,16}|\\r\\n|\\n"
    r"|[\"'][ \t]{0,4}[+\\]?[ \t\r\n]{0,16}[\"'])"
    r"(?=([A-Za-z0-9+/_=.~%-]{2,200}+)([\"'`,;)\]} \t]{0,4}(?:\\?\r?\n|\\n|$))?)"
)


def _normal(text: str) -> _View:
    """The text without what cannot be seen, in compatibility forms."""
    import unicodedata

    pieces: list[str] = []
    runs: list[_Run] = []
    length = 0
    invisible = _compiled(_INVISIBLE)
    for cluster in _compiled(_CLUSTER).finditer(text):
        piece = cluster[0]
        if not piece.isascii():
            piece = invisible.sub("", unicodedata.normalize("NFKC", piece))
        if piece:
            pieces.append(piece)
            runs.append((length, cluster.start(), 0))
            length += len(piece)
    return _View("".join(pieces), runs)


def _decoded(view: _View) -> _View | None:
    """The text with escapes for ASCII undone: percent, HTML, backslash; None when it has none."""
    text = view.text
    return _replaced(view, _ESCAPE, _meant) if "%" in text or "&" in text or "\\" in text else None


def _meant(match: re.Match[str]) -> str:
    return _character(match[0])


@cache
def _character(escape: str) -> str:
    """The character that an escape stands for; the escape itself where that would not be seen."""
    if escape[0] == "&" and escape[1] != "#":
        return _NAMED[escape[1:-1]]
    if escape[0] == "\\" and len(escape) == 2:
        return {"n": "\n", "r": "\r", "t": "\t"}.get(escape[1], escape[1])
    digits = escape.strip("%&#xX\\u;") if escape[0] != "&" else escape[2:-1].strip("xX")
    code = int(digits, 10 if escape[:2] == "&#" and escape[2] not in "xX" else 16)
    return chr(code) if 32 <= code < 127 else escape


def _seam(match: re.Match[str]) -> str:
    """Nothing, where what follows belongs to the token before it; else the seam as it is."""
    seam, rest, alone = match[0], match[1], match[2] is not None
    if "n" not in seam and "\n" not in seam:
        return ""
    before = "" if alone or len(rest) < 8 else match.string[max(0, match.start() - 80) : match.start()]
    return "" if _is_torn(before, rest, alone) else seam


@lru_cache(maxsize=512)
def _is_torn(before: str, rest: str, alone: bool) -> bool:
    """Whether what follows a line break, in a line of its own or not, is the rest of the token before it."""
    from memsheaf.guard.secret_formats import begun
    from memsheaf.guard.secret_values import fits

    if alone:
        return fits(rest, "rest")
    words = before.split()
    return bool(words) and fits(rest, "token") and any(len(known.needle) > 3 for known in begun(words[-1]))


def _replaced(view: _View, pattern: str, meant: Callable[[re.Match[str]], str]) -> _View | None:
    """The view with each match replaced by what it means, and a few lines around each; None when nothing changes."""
    text, at, last, length = view.text, 0, 0, 0
    pieces: list[str] = []
    runs: list[_Run] = []

    def add(piece: str, origin: int, step: int) -> None:
        nonlocal length
        if piece:
            pieces.append(piece)
            runs.append((length, origin, step))
            length += len(piece)

    for match in _compiled(pattern).finditer(text):
        if (piece := meant(match)) == match[0]:
            continue
        start, end = match.span()
        if start >= last:  # behind the lines around the one before
            if last:
                add(text[at:last], at, 1)
                add("\n\n", last - 1, 0)
            at = max(at, last, _lines_before(text, start))
        if end > last:
            last = _lines_behind(text, end)
        if start > at:
            add(text[at:start], at, 1)
        if piece:  # as `add`, for each of very many
            pieces.append(piece)
            runs.append((length, end - 1, 0))
            length += len(piece)
        at = end
    if not runs:
        return None
    add(text[at:last], at, 1)
    return _View("".join(pieces), runs, view)


def _lines_before(text: str, at: int) -> int:
    """Where a few lines before a place begin."""
    for _ in range(_AROUND):
        at = max(0, text.rfind("\n", 0, at))
    return at


def _lines_behind(text: str, at: int) -> int:
    """Where a few lines behind a place end."""
    for _ in range(_AROUND):
        at = text.find("\n", at) + 1 or len(text)
    return at


_AROUND = 4  # lines, the one itself among them


# known formats


def _formatted(view: _View) -> Iterator[_Found]:
    """What looks as a provider says that its keys look, what is made alike, and base64 with such a thing in it."""
    from memsheaf.guard.secret_formats import begun, found

    long = [word for word in view.text.split() if len(word) >= SHORTEST]
    if not long:
        return
    for known in begun(" ".join(long)):
        for match in found(_compiled(known.pattern), view.text, known.needle, known.back):
            if not _stands_for(match[1][:LONGEST], known.needle):
                yield _as_found(view, known.kind, *match.span(1))
    if max(map(len, long)) >= 32:
        for match in _compiled(_ONE_WORD).finditer(view.text):
            if _is_made_alike(match[0]):
                yield _as_found(view, "a key or token", *match.span(), "likely")
        yield from _encoded(view)


_ONE_WORD = r"(?<![\w/+=.@-])[A-Za-z][A-Za-z0-9_-]{31,255}+(?![\w/+=-]|\.\w)"


@lru_cache(maxsize=512)
def _is_made_alike(word: str) -> bool:
    """Whether a word is made as most providers make their keys."""
    from memsheaf.guard.secret_formats import PREFIXED
    from memsheaf.guard.secret_values import fits

    prefixed = _compiled(PREFIXED).fullmatch(word)
    return prefixed is not None and fits(prefixed[1], "random")


@lru_cache(maxsize=512)
def _stands_for(value: str, needle: str) -> bool:
    """Whether what looks like a key is the example of one, or words in a name."""
    from memsheaf.guard.secret_values import is_example, is_name, wordiness

    rest = value.removeprefix(needle)
    if is_example(rest) or (needle == "sk-" and is_name(rest) and (rest.islower() or wordiness(rest) >= 0.6)):
        return True
    if any(map(str.isdigit, rest)):
        return False
    is_listed = rest.islower() and ("-" in rest or "_" in rest)
    return (len(needle) < 5 and wordiness(rest) >= 0.6) or (is_listed and wordiness(rest) >= 0.5)


def _encoded(view: _View) -> Iterator[_Found]:
    """Base64 of a private key, or of a text with a secret in it."""
    from memsheaf.guard.secret_values import base64_text

    done = 0
    for match in _compiled(r"(?<![A-Za-z0-9+/_-])[A-Za-z0-9+/_-]{24,65536}+={0,2}").finditer(view.text):
        if match.start() < done:
            continue
        if match[0][0] == "M" and _is_private(match[0]):
            done = _compiled(_KEY_LINES).match(view.text, match.end()).end()  # type: ignore[union-attr]
            yield _as_found(view, "a private key", match.start(), done)
        elif (inner := base64_text(match[0])) and any(_in_view(_View(inner))):
            yield _as_found(view, "a secret in base64", *match.span(), "likely")


_KEY_LINES = r"(?:(?:\\[rn]|[\s>|\"'+,])++[A-Za-z0-9+/]{16,}+={0,2})*+(?:\s++[A-Za-z0-9+/]{1,15}={1,2})?"


def _is_private(data: str) -> bool:
    """Whether base64 begins as a private key does in DER: a sequence that begins with a small version number.

    Certificates and public keys begin with a sequence inside, or with a long number. One that is encrypted says how.
    """
    from base64 import b64decode

    head = b64decode(data.replace("-", "+").replace("_", "/")[:24])
    long = head[1] & 0x7F if head[1] & 0x80 else 0
    inside = head[2 + long :] if head[0] == 0x30 and long < 4 else b""
    return (inside[:2] == b"\x02\x01" and inside[2] in (0, 1, 3)) or b"\x2a\x86\x48\x86\xf7\x0d\x01\x05" in inside


# places where only a secret stands


_RUN_OF_WORDS = (
    r"(?<![A-Za-z])(?:(?:[0-9]{1,2}[.):]?[ \t]{1,2})?[a-z]{3,8}(?:[ \t\n,;|]{1,4}|-| - )){11,}+"
    r"(?:[0-9]{1,2}[.):]?[ \t]{1,2})?(?:[a-z]{3,8}(?![A-Za-z]))?"
)
_OF_SEEDS = r"(?i)\b(?:seed|mnemonic|wallet|bip-?39|(?:recovery|secret|backup)[ -](?:phrase|words))\b"
_OF_CODES = "2fa|mfa|otp|authenticator|one-time|setup|set-up|seed|secret|backup"
_SENTENCE = (
    r"\b(?:the|and|for|with|from|your|not|are|was|has|have|had|which|been|should|would|were|their|but|our|its|into|who"
    r"|never|because|where|when|what|being|does|did|them|these|those|than)\b"
)
_IS_SECRET = r"(?<![\w-])[\"']?kind[\"']?[ \t]*:[ \t]*[\"']?Secret(?![\w-])"
_HELD = (
    r"(?m)^([ \t>]*)[\"']?(?:data|stringData)[\"']?[ \t]*:[ \t]*\{?[ \t]*$"
    r"|[{,]\s*\"(?:data|stringData)\"\s*:\s*\{|[ ](?:data|stringData):(?= [\w./-]+: )"
)
_ENTRY = r"([\s,>]*)[\"']?[\w./-]{1,100}[\"']?[ \t]*:[ \t]*[\"']?([^\s\"',}]*)[\"']?[ \t]*(?=[,}\s]|$|(?<=\s))"


def _marked(view: _View) -> Iterator[_Found]:
    """What stands where only a secret stands."""
    from memsheaf.guard.secret_formats import COOKIE, GROUPED, PAIR, PLACES, found
    from memsheaf.guard.secret_values import fits

    text, lowered = view.text, _lowered(view.text)
    for kind, needle, pattern, ask, back in PLACES:
        if needle in lowered:
            for match in found(_compiled(pattern), text, needle, back, lowered):
                start, end = match.span(1)
                if not ask:  # a key block has its dashes before it, as many as were not lost
                    start -= len(_compiled(r"(?:-*+ ?)$").search(text, max(0, start - 12), start)[0])  # type: ignore[index]
                if fits(text[start:end], ask):
                    yield _as_found(view, kind, start, end)
    for match in _compiled(COOKIE).finditer(text) if "cookie" in lowered else ():
        for pair in _compiled(PAIR).finditer(text, *match.span(1)):
            if fits(pair[2], "any" if pair[1] else "token"):
                yield _as_found(view, "a cookie", *pair.span(2))
    if "Secret" in text and "ata" in text:
        yield from _in_manifests(view)
    if any(word in lowered for word in ("seed", "mnemonic", "wallet", "bip", "phrase", "words")):
        yield from _seeds(view)
    for match in _compiled(GROUPED).finditer(text):
        # so many groups with figures among them are one wherever they stand
        is_sure = len(match[0]) >= 29 and sum(map(str.isdigit, match[0])) > 2
        is_said = is_sure or _compiled(_OF_CODES).search(lowered, max(0, match.start() - 80), match.start())
        if is_said and fits(match[0], "seed"):
            yield _as_found(view, "a one-time password seed", *match.span(), "likely")


def _seeds(view: _View) -> Iterator[_Found]:
    """The words that a wallet is made again from: as many as it takes, and nothing that makes a sentence."""
    text = view.text
    for match in _compiled(_RUN_OF_WORDS).finditer(text):
        spoken_of = _compiled(_OF_SEEDS).search(text, max(0, match.start() - 80), match.end())
        first = max(spoken_of.end(), match.start()) if spoken_of else match.end()
        words: list[str] = []
        for line in re.finditer(r"[^\n]*\n?", text[first : match.end()]):  # the phrase ends with a line
            words += re.findall("[a-z]+", line[0])
            words = words[1:] if words[:1] == ["phrase"] else words
            if len(words) in (12, 15, 18, 21, 24) and not _compiled(_SENTENCE).search(" ".join(words)):
                yield _as_found(view, "a wallet's seed phrase", first, first + line.end(), "likely")
                break


def _in_manifests(view: _View) -> Iterator[_Found]:
    """The values that a Secret of Kubernetes holds, whatever they are called."""
    from memsheaf.guard.secret_values import fits

    text = view.text
    starts = [0, *(match.start() for match in _compiled(r"(?m)^---").finditer(text)), len(text)]
    for first, last in pairwise(starts):
        if not _compiled(_IS_SECRET).search(text, first, last):
            continue
        for held in _compiled(_HELD).finditer(text, first, last):
            entry = _compiled(_ENTRY).match(text, held.end(), last)
            while entry and (held[1] is None or len(entry[1].rpartition("\n")[2]) > len(held[1])):
                if fits(entry[2], "held"):
                    yield _as_found(view, "a secret of Kubernetes", *entry.span(2))
                entry = _compiled(_ENTRY).match(text, entry.end(), last)


# values that are assigned to a word


_PASSWORDS = (
    "password", "passwd", "passwort", "passphrase", "passcode", "passord", "mot de passe", "kennwort", "contrasena",
    "senha", "wachtwoord", "heslo", "haslo", "salasana", "adgangskode", "kata sandi", "parola", "sifre",
    "contraseña", "пароль", "пароля", "паролем", "пароли", "密码", "密碼", "口令", "パスワード", "暗証番号",
    "비밀번호", "암호", "كلمة المرور", "كلمة السر", "पासवर्ड", "şifre", "hasło", "lösenord", "jelszó", "κωδικός",
    "סיסמה", "סיסמא", "mật khẩu", "รหัสผ่าน", "parolă",
)  # fmt: skip
_TOKENS = (
    "token", "secret", "key", "credential",
    "токен", "секрет", "ключ", "令牌", "密钥", "金鑰", "秘钥", "トークン", "秘密鍵", "apiキー", "토큰", "api 키",
)  # fmt: skip
_SHORT = ("pass", "pwd", "pw")
_ANNOUNCING = (*_PASSWORDS, *_TOKENS, *_SHORT)
_IN_ASCII = tuple(filter(str.isascii, _ANNOUNCING))
_KEY_BEFORE = (
    r"(?:(?:^|[^A-Za-z])(?:PUBLIC|PRIMARY|FOREIGN|UNIQUE|SORT|CACHE|PARTITION|IDEMPOTENCY|INDEX|LOOKUP|SSH|GPG)_()|(?i:api|access|secret|private|auth|account|encrypt(?:ion)?|signing|master|role|client|service|app|deploy|license"
    r"|subscription|storage|shared|session|webhook|admin)[ _-]?|[A-Z0-9]_)$"
)
# The rest of a name: `password_staging`, `tokenForCi`, `passwords`; other letters make it another word.
_TAIL = r"[sS]?(?:[_.-][A-Za-z0-9_.-]{0,40}+|(?<=[a-z])[A-Z0-9][A-Za-z0-9_]{0,40}+)?(?![A-Za-z0-9])"
# Words behind it that tell of something other than its value.
_ABOUT = frozenset(
    {
        "id", "ids", "hash", "hashes", "hashed", "hasher", "hashing", "digest", "commit", "policy", "policies",
        "reset", "length", "len", "manager", "managers", "fingerprint", "checksum", "expires", "expiry",
        "expiration", "ttl", "file", "files", "path", "paths", "url", "uri", "name", "names", "endpoint", "version",
        "versions", "ticket", "tickets", "issue", "issues", "type", "types", "format", "field", "fields", "count",
        "counts", "limit", "limits", "max", "min", "size", "budget", "usage", "regex", "pattern", "prompt", "hint",
        "label", "rotation", "vault", "see", "under", "via", "header", "column", "table", "ref", "arn", "env", "var",
        "variable",
    }
)  # fmt: skip
_IS = (
    r"[ \t]+(?:is|was|are|now|to|as|ist|lautet|war|est|es|era|é|è|er|är|jest|je|on|это|был|—|–|->|→)"
    r"(?:[ \t]*:)?[ \t]+"
    r"|[ \t]*(?:是|为|為|は|が|는|은|이|→)[ \t]*"
)
_MARK = r"[ \t]{0,8}(?P<mark>=>|:=|={1,3}|::?)\s{0,8}(?:\\n)?"
_MARKS = r"(?:'s)?[\"'`*_\])]{0,4}(?:\\[\"'])?"
# A value is no name with a value of its own: that one is looked at where it stands.
_VALUE = (
    r"(?:[*_]{1,2}[ \t]{0,2})?(?P<open>\\?[\"'`]|)(?![A-Za-z_]{1,40}=[A-Za-z_])"
    r"(?P<value>[!#-%(-+\--:=?-_a-z{}~]{4,300})"
)
_DIRECT = rf"(?P<tail>{_TAIL}){_MARKS}(?:{_MARK}|{_IS}){_VALUE}"
_WORDS = r"(?:[ \t]+[^\s:=|\"'`<>{}();!?,]{1,40}(?<![.]))"
_LOOSE = (
    rf"(?P<tail>{_TAIL}){_MARKS}(?:(?P<gap>{_WORDS}{{1,5}}?)(?:{_MARK}|{_IS})"
    rf"|[ \t]+-{{1,2}}[ \t]+|>|[ \t]{{0,8}}[|(,][ \t]{{0,8}}|[ \t]{{1,4}}){_VALUE}"
)
# Where every word has blanks around it, none needs to be given back in part.
_LOOSE_ASCII = _LOOSE.replace(_WORDS, _WORDS.replace("{1,40}", "{1,40}+"))
_MIXED = r"[A-Za-z!#$%^&*?+~=@][0-9]|[0-9][A-Za-z!#$%^&*?+~=@]"
_NEAR = 250  # so far behind its word a value may stand that is not assigned
_BEFORE, _BEHIND = 16, 640  # characters around its word in which a value is looked for


@cache
def _announcing(words: tuple[str, ...]) -> re.Pattern[str]:
    """The words that announce a secret, in small letters: group 1 is a password, 2 short for one, 3 a token."""
    sorts = [[word for word in words if word in sort] for sort in (_PASSWORDS, _TOKENS, _SHORT)]
    passwords, tokens, short = ("|".join(sort) or "(?!)" for sort in sorts)
    return re.compile(f"({passwords})|(?<![a-z])({short})(?![a-z])|({tokens})")


def _assigned(view: _View) -> Iterator[_Found]:
    """What is said to be a password, a key or a token, and looks like one."""
    text, lowered = view.text, _lowered(view.text)
    words = tuple(word for word in (_IN_ASCII if text.isascii() else _ANNOUNCING) if word in lowered)
    piece, kept, span = "", (-1, -1), None
    for word in _announcing(words).finditer(lowered) if words else ():
        at, end = word.span()
        first = at - _BEFORE if at > _BEFORE else 0
        place = at - first, end - first
        if place != kept or not text.startswith(piece, first) or end + _BEHIND > len(text):  # else it is as the last
            piece, kept = text[first : end + _BEHIND], place
            span = _announced(piece, *place, word.lastindex, words)
        if span:
            kind = "a key or token" if word[3] else "a password"
            yield _as_found(view, kind, first + span[0], first + span[1], "likely")


@lru_cache(maxsize=512)  # a text that repeats itself is judged once
def _announced(text: str, at: int, end: int, sort: int, words: tuple[str, ...]) -> tuple[int, int] | None:
    """Where the value stands that the word at this place announces, in a piece of text around it."""
    if sort == 3 and text[at:end].lower() == "key" and not _is_key(text[:at]):
        return None
    match, direct, loose = _compiled(_DIRECT).match(text, end), True, text[at:end].lower() != "pass"
    if match is None and loose and _compiled(_MIXED).search(text, end, end + _NEAR + 2):
        loosely = _compiled(_LOOSE_ASCII if text.isascii() else _LOOSE)
        match, direct = loosely.match(text, end, _reach(_lowered(text), end, words)), False
    return _value(match, direct, is_token=sort == 3) if match and (loose or match["mark"]) else None


def _reach(lowered: str, at: int, words: tuple[str, ...]) -> int:
    """How far a value may be looked for: to the next word that announces one, where that stands alone."""
    following = _announcing(words).search(lowered, at)
    if following is None or following[3] == "key" or following[2] == "pass":
        return len(lowered)
    start, end = following.span()
    return start if lowered[start - 1] in " \t" and lowered[end : end + 1] in " \t" else len(lowered)


def _lowered(text: str) -> str:
    """The text in small letters, as long as it is."""
    return text.replace("İ", "i").lower()  # the one letter that becomes two


@lru_cache(maxsize=512)
def _is_key(before: str) -> bool:
    """Whether a key is one that is kept, by what stands before the word: `api_key`, and not `primary key`."""
    found = _compiled(_KEY_BEFORE).search(before)
    return found is not None and found[1] is None


def _value(match: re.Match[str], direct: bool, *, is_token: bool) -> tuple[int, int] | None:
    """Where the secret stands that a word announces, if there is one."""
    from memsheaf.guard.secret_values import fits

    about = f"{match['tail']} {'' if direct else match['gap'] or ''}"
    if about != " " and not _ABOUT.isdisjoint(word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+", about)):
        return None
    quoted, mark = bool(match["open"]), match["mark"] or ""
    value = match["value"].rstrip("\\*" if quoted else ".:)]}*_\\")
    ask = "striking" if not direct else "token" if is_token else "exact" if quoted or "=" in mark else "password"
    start = match.start("value")
    return (start, start + len(value)) if fits(value, ask) else None


def _beside(view: _View) -> Iterator[_Found]:
    """A long random word in a line that speaks of a key before it, though it does not say that this is the one."""
    for match in _compiled(_LONG_RUN).finditer(view.text):
        start, end = match.span()
        before = view.text[max(0, start - 100) : start].rpartition("\n")[2].lower()
        if not _compiled(_SPOKEN_OF).search(before) or _compiled(_IN_PUBLIC).search(before):
            continue
        if end - start <= 300 and not _is_plain(match[0]):
            yield _as_found(view, "a key or token", start, end, "likely")


@lru_cache(maxsize=512)
def _is_plain(value: str) -> bool:
    """Whether a long word is a path, a name, a public key, or anything else but a token."""
    from memsheaf.guard.secret_values import fits, is_name

    if value.startswith(("pk_", "pub")) or not _compiled(_ALL_SORTS).match(value):
        return True
    named = sum(map(is_name, pieces := value.split("/"))) * 2 >= len(pieces)
    return named or not fits(value, "token")


_LONG_RUN = r"(?<![\w+/=-])[A-Za-z0-9+/_-]{32,}+={0,2}(?![\w+/=-])"
_ALL_SORTS = r"(?=[^a-z]*[a-z])(?=[^A-Z]*[A-Z])(?=[^0-9]*[0-9])"
_SPOKEN_OF = r"\b(?:keys?|tokens?|secrets?|creds?|credentials?|passwords?)\b|\b(?:akia|asia)[a-z0-9]{16}\b"
_IN_PUBLIC = (
    r"public|publish|fingerprint|sha|hash|integrity|checksum|digest|commit|ssh|cert|signature|etag|uuid|revision"
    r"|data:\w+/"
)
# what tells who a person is


def _personal(view: _View) -> Iterator[_Found]:
    for match in _compiled(r"(?<![0-9-])(?!000|666|9)[0-9]{3}-(?!00)[0-9]{2}-(?!0000)[0-9]{4}(?![0-9-])").finditer(
        view.text
    ):
        yield _as_found(view, "a social security number", *match.span(), "likely")
    for match in _compiled(r"(?<![0-9A-Za-z])[0-9](?:[ -]?[0-9]){12,18}(?![0-9A-Za-z])").finditer(view.text):
        if _luhn(re.sub("[ -]", "", match[0])):
            yield _as_found(view, "a card number", *match.span(), "likely")
    for match in _compiled(
        r"(?<![0-9A-Za-z])[A-Z]{2}[0-9]{2}(?: ?[0-9A-Z]{4}){2,7}(?: ?[0-9A-Z]{1,3})?(?![0-9A-Za-z])"
    ).finditer(view.text):
        if _is_iban(match[0].replace(" ", "")):
            yield _as_found(view, "a bank account", *match.span(), "likely")


def _luhn(digits: str) -> bool:
    doubled = [int(digit) * (1 + place % 2) for place, digit in enumerate(reversed(digits))]
    return sum(number - 9 * (number > 9) for number in doubled) % 10 == 0


def _is_iban(number: str) -> bool:
    return int("".join(str(int(sign, 36)) for sign in number[4:] + number[:4])) % 97 == 1
