"""Values that a text assigns to a word such as *password* or *token*, and that look like one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache, lru_cache

from memsheaf.guard.secret_values import fits

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
# Where every word has spaces around it, none needs to be given back in part.
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


def assigned_values(text: str) -> Iterator[tuple[str, int, int]]:
    """What is said to be a password, a key or a token, and looks like one: its kind, where it begins and ends."""
    lowered = lower(text)
    words = tuple(word for word in (_IN_ASCII if text.isascii() else _ANNOUNCING) if word in lowered)
    piece, kept, span = "", (-1, -1), None
    for word in _announcing(words).finditer(lowered) if words else ():
        at, end = word.span()
        first = at - _BEFORE if at > _BEFORE else 0
        place = at - first, end - first
        if place != kept or not text.startswith(piece, first) or end + _BEHIND > len(text):  # else it is as the last
            piece, kept = text[first : end + _BEHIND], place
            span = find_announced(piece, *place, word.lastindex, words)
        if span:
            yield "a key or token" if word[3] else "a password", first + span[0], first + span[1]


@lru_cache(maxsize=512)  # a text that repeats itself is judged once
def find_announced(text: str, at: int, end: int, sort: int, words: tuple[str, ...]) -> tuple[int, int] | None:
    """Where the value stands that the word at this place announces, in a piece of text around it."""
    if sort == 3 and text[at:end].lower() == "key" and not is_key(text[:at]):
        return None
    match, direct, loose = _compiled(_DIRECT).match(text, end), True, text[at:end].lower() != "pass"
    if match is None and loose and _compiled(_MIXED).search(text, end, end + _NEAR + 2):
        loosely = _compiled(_LOOSE_ASCII if text.isascii() else _LOOSE)
        match, direct = loosely.match(text, end, _reach(lower(text), end, words)), False
    return _value(match, direct, is_token=sort == 3) if match and (loose or match["mark"]) else None


def _reach(lowered: str, at: int, words: tuple[str, ...]) -> int:
    """How far a value may be looked for: to the next word that announces one, where that stands alone."""
    following = _announcing(words).search(lowered, at)
    if following is None or following[3] == "key" or following[2] == "pass":
        return len(lowered)
    start, end = following.span()
    return start if lowered[start - 1] in " \t" and lowered[end : end + 1] in " \t" else len(lowered)


def lower(text: str) -> str:
    """The text in small letters, as long as it is."""
    return text.replace("İ", "i").lower()  # the one letter that becomes two


@lru_cache(maxsize=512)
def is_key(before: str) -> bool:
    """Whether a key is one that is kept, by what stands before the word: `api_key`, and not `primary key`."""
    found = _compiled(_KEY_BEFORE).search(before)
    return found is not None and found[1] is None


def _value(match: re.Match[str], direct: bool, *, is_token: bool) -> tuple[int, int] | None:
    """Where the secret stands that a word announces, if there is one."""
    about = f"{match['tail']} {'' if direct else match['gap'] or ''}"
    if about != " " and not _ABOUT.isdisjoint(word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+", about)):
        return None
    quoted, mark = bool(match["open"]), match["mark"] or ""
    value = match["value"].rstrip("\\*" if quoted else ".:)]}*_\\")
    ask = "striking" if not direct else "token" if is_token else "exact" if quoted or "=" in mark else "password"
    start = match.start("value")
    return (start, start + len(value)) if fits(value, ask) else None


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)
