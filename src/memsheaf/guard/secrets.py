"""Secrets in a text: found before it reaches a disk, a log, an index or a model.

Three ways to be found: a known format (`formats.py`), a place where only a secret stands (a private key, the
password in an address), and a value that is assigned to a word such as *password* and looks like one (`opaque.py`).
The text is read as people and programs would: without invisible characters, with compatibility forms folded, line
breaks inside a token and escapes undone. Every step looks at a bounded piece, so hostile texts take no longer.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache

from memsheaf.values import NamedTuple

# Known to type checkers under this name: a start does not import `typing`.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal

    Surety = Literal["certain", "likely"]
else:
    Surety = str

SHORTEST = 16  # of what is known by its format


REMOVED = "[removed: "
"""How what stands in the place of a secret begins."""


class Secret(NamedTuple):
    """Where in a text a secret stands and what it is; never the secret itself."""

    kind: str
    start: int
    end: int
    sure: Surety = "certain"


class _View(NamedTuple):
    """A text as it is read, and for each character where it comes from; None when it is the text itself."""

    text: str
    origins: list[int] | None = None

    def original(self, start: int, end: int) -> tuple[int, int]:
        return (start, end) if self.origins is None else (self.origins[start], self.origins[end])


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
    for secret in reversed(secrets):
        text = f"{text[: secret.start]}{REMOVED}{secret.kind}]{text[secret.end :]}"
    return text


def _scan(text: str, *, pii: bool = False) -> list[_Found]:
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
    if seams := _joined(view):
        found += _formatted(seams, seams.text.split())
    if pii:
        found += _personal(view)
    return _without_overlaps(found) if len(found) > 1 else found


def _in_view(view: _View) -> Iterator[_Found]:
    words, lowered = view.text.split(), view.text.lower()
    yield from _marked(view, lowered)
    yield from _formatted(view, words)
    yield from _assigned(view, lowered)
    yield from _beside(view, words, lowered)


def _without_overlaps(found: list[_Found]) -> list[_Found]:
    """Each secret once: the first that was found of those that share a place, in the order of the text."""
    from bisect import bisect

    kept: list[_Found] = []
    starts: list[int] = []
    for each in found:
        at = bisect(starts, each.secret.start)
        before = at > 0 and kept[at - 1].secret.end > each.secret.start
        behind = at < len(kept) and kept[at].secret.start < each.secret.end
        if not before and not behind:
            kept.insert(at, each)
            starts.insert(at, each.secret.start)
    return kept


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
    r"%([2-7][0-9A-Fa-f])|&#[xX]0{0,6}([2-7][0-9A-Fa-f]);|\\x([2-7][0-9A-Fa-f])|\\u00([2-7][0-9A-Fa-f])"
    r"|&#0{0,6}([0-9]{2,3});|&(amp|quot|apos|lt|gt|colon|equals|lowbar|hyphen|sol|plus);"
)
_NAMED = {
    "amp": "&", "quot": '"', "apos": "'", "lt": "<", "gt": ">", "colon": ":", "equals": "=", "lowbar": "_",
    "hyphen": "-", "sol": "/", "plus": "+",
}  # fmt: skip
# a line break with what indents or quotes the next line, or the seam of two strings, inside a token
_SEAM = (
    r"(?<=[A-Za-z0-9+/_=.-])(?:[ \t]{0,8}\\?\r?\n[ \t>#*|]{0,16}|\\r\\n|\\n|[\"'][ \t]{0,4}\+?[ \t\r\n]{0,16}[\"'])"
    r"(?=[A-Za-z0-9+/_=.-])"
)
_STRINGS = r"[\"'][ \t]{0,4}\+[ \t\r\n]{0,16}[\"']"


def _normal(text: str) -> _View:
    """The text without what cannot be seen, in compatibility forms."""
    import unicodedata

    pieces: list[str] = []
    origins: list[int] = []
    invisible = _compiled(_INVISIBLE)
    for cluster in _compiled(_CLUSTER).finditer(text):
        piece = cluster[0]
        if not piece.isascii():
            piece = invisible.sub("", unicodedata.normalize("NFKC", piece))
        pieces.append(piece)
        origins += [cluster.start()] * len(piece)
    return _View("".join(pieces), [*origins, len(text)])


def _decoded(view: _View) -> _View | None:
    """The text with escapes for ASCII undone: percent, HTML, backslash; None when it has none."""
    text = view.text
    if "%" not in text and "&" not in text and "\\" not in text:
        return None

    def meant(escape: re.Match[str]) -> str:
        if escape[6]:
            return _NAMED[escape[6]]
        code = int(escape[5]) if escape[5] else int(next(filter(None, escape.groups())), 16)
        return chr(code) if 32 <= code < 127 else escape[0]

    return _replaced(view, _ESCAPE, meant)


def _replaced(view: _View, pattern: str, meant: Callable[[re.Match[str]], str] | None) -> _View | None:
    """The view with each match replaced by what it means, or by nothing; None when there is no match."""
    text, at = view.text, 0
    pieces: list[str] = []
    origins: list[int] = []
    for match in _compiled(pattern).finditer(text):
        piece = meant(match) if meant else ""
        pieces += (text[at : match.start()], piece)
        origins.extend(range(at, match.start()))
        origins.extend([match.start()] * len(piece))
        at = match.end()
    if not pieces:
        return None
    pieces.append(text[at:])
    origins.extend(range(at, len(text) + 1))
    known = view.origins
    return _View("".join(pieces), origins if known is None else [known[origin] for origin in origins])


# known formats


def _formatted(view: _View, words: list[str]) -> Iterator[_Found]:
    """What looks as a provider says that its keys look, and base64 with such a thing in it."""
    from memsheaf.guard.formats import begun, pattern_of

    long = [word for word in words if len(word) >= SHORTEST]
    if not long:
        return
    text = view.text
    for known in begun(" ".join(long)):
        for match in _compiled(pattern_of(known)).finditer(text):
            if not _stands_for(match[1], known.needle):
                yield _as_found(view, known.kind, *match.span(1))
    if max(map(len, long)) >= 40:
        yield from _encoded(view)


def _stands_for(value: str, needle: str) -> bool:
    """Whether what looks like a key is the example of one, or runs of letters in a name."""
    from memsheaf.guard.opaque import is_name, is_placeholder

    rest = value.removeprefix(needle)
    if is_placeholder(rest) or (needle == "sk-" and is_name(rest)):
        return True
    return not any(map(str.isdigit, rest)) and (rest.islower() or len(rest) < 30)


def _joined(view: _View) -> _View | None:
    """The text with its seams closed, if a line break or the end of a string may tear a known format apart."""
    from memsheaf.guard.formats import begun

    text = view.text
    ends = [line.rpartition(" ")[2] for line in text.split("\n")[:-1]]
    for seam in _compiled(_STRINGS).finditer(text) if "+" in text else ():
        ends.append(text[max(0, seam.start() - 100) : seam.start()].rpartition(" ")[2])
    torn = [
        word
        for word in ends
        if len(word) >= 4 and not word[0].isdigit() and (word.isupper() or not word[:-1].isalpha())
    ]
    # a short beginning is in too many words to close the seams for it
    if not torn or not any(known.least and len(known.needle) > 3 for known in begun(" ".join(torn))):
        return None
    return _replaced(view, _SEAM, None)


def _encoded(view: _View) -> Iterator[_Found]:
    """Base64 that holds a text with a secret in it."""
    from base64 import b64decode
    from binascii import Error

    for match in _compiled(r"(?<![A-Za-z0-9+/_-])[A-Za-z0-9+/_-]{24,65536}={0,2}").finditer(view.text):
        data = match[0].rstrip("=").replace("-", "+").replace("_", "/")
        try:
            inner = b64decode(data + "=" * (-len(data) % 4)).decode("ascii")
        except (Error, ValueError):
            continue
        if inner.replace("\n", "").replace("\r", "").replace("\t", "").isprintable() and any(_in_view(_View(inner))):
            yield _as_found(view, "a secret in base64", *match.span(), "likely")


# places where only a secret stands


_PEM = r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
_SEED = (
    r"(?i)(?:seed|mnemonic|recovery|wallet|bip-?39)[^\n:=]{0,40}[:=]?\s{0,4}[\"'`]?"
    r"((?-i:[a-z]{3,8}[ \t\n,]{1,3}){11,23}(?-i:[a-z]{3,8}))(?![A-Za-z])"
)


def _marked(view: _View, lowered: str) -> Iterator[_Found]:
    """What stands where only a secret stands."""
    from memsheaf.guard.formats import PLACES

    text = view.text
    if "-----BEGIN" in text:
        yield from _private_keys(view)
    for kind, needle, pattern, ask in PLACES:
        if needle in lowered:
            for match in _compiled(pattern).finditer(text):
                if _is_asked(match[1], ask):
                    yield _as_found(view, kind, *match.span(1))
    if "wallet" in lowered or "phrase" in lowered or "mnemonic" in lowered or "bip39" in lowered:
        for match in _compiled(_SEED).finditer(text):
            yield _as_found(view, "a wallet's seed phrase", *match.span(1), "likely")


def _private_keys(view: _View) -> Iterator[_Found]:
    text = view.text
    for match in _compiled(_PEM).finditer(text):
        stop = text.find("-----", match.end(), match.end() + 20_000)
        inside = text[match.end() : stop if stop >= 0 else match.end() + 4000]
        if not _compiled(r"[A-Za-z0-9+/=]{16}").search(inside):
            continue
        end = match.end() + len(inside)
        closing = _compiled(r"-----END [A-Z0-9 ]{0,60}-----").match(text, end)
        yield _as_found(view, "a private key", match.start(), closing.end() if closing else end)


def _is_asked(value: str, ask: str) -> bool:
    from memsheaf.guard.opaque import is_placeholder, is_striking, is_token, is_weak

    if is_placeholder(value) or is_weak(value) or value[:1] in "$<{[%" or (len(value) < 6 and value.islower()):
        return False
    if ask == "token":
        return is_token(value) or (len(value) >= 32 and not value.isalpha())
    if ask == "striking":
        return is_striking(value)
    return ask == "any" or ":" in _base64_text(value)


def _base64_text(value: str) -> str:
    from base64 import b64decode
    from binascii import Error

    try:
        text = b64decode(value + "=" * (-len(value) % 4)).decode("ascii")
    except (Error, ValueError):
        return ""
    return text if text.isprintable() else ""


# values that are assigned to a word


_PASSWORDS = (
    "password", "passwd", "passwort", "passphrase", "passcode", "passord", "mot de passe", "pass",
    "pwd", "pw", "kennwort", "contrasena", "senha", "wachtwoord", "heslo", "haslo", "salasana", "adgangskode",
    "kata sandi", "parola", "sifre",
)  # fmt: skip
_PASS = _PASSWORDS.index("pwd")  # those before it have "pass" in them
_TOKENS = ("token", "secret", "key", "credential")
_FOREIGN_PASSWORDS = (
    "contraseña", "пароль", "пароля", "паролем", "пароли", "密码", "密碼", "口令", "パスワード", "暗証番号",
    "비밀번호", "암호", "كلمة المرور", "كلمة السر", "पासवर्ड", "şifre", "hasło", "lösenord", "jelszó", "κωδικός",
    "סיסמה", "סיסמא", "mật khẩu", "รหัสผ่าน", "parolă",
)  # fmt: skip
_FOREIGN_TOKENS = (
    "токен", "секрет", "ключ", "令牌", "密钥", "金鑰", "秘钥", "トークン", "秘密鍵", "apiキー", "토큰", "api 키",
)  # fmt: skip
_ALONE = frozenset({"pass", "pwd", "pw"})
_KEY_BEFORE = (
    r"(?:(?:^|[^A-Za-z])(?:PUBLIC|PRIMARY|FOREIGN|UNIQUE|SORT|CACHE|PARTITION|IDEMPOTENCY|INDEX|LOOKUP|SSH|GPG)_()|(?i:api|access|secret|private|auth|account|encrypt(?:ion)?|signing|master|role|client|service|app|deploy|license"
    r"|subscription|storage|shared|session|webhook|admin)[ _-]?|[A-Z0-9]_)$"
)
# The rest of a name: `password_staging`, `tokenForCi`, `passwords`; other letters make it another word.
_TAIL = r"[sS]?(?:[_.-][A-Za-z0-9_.-]{0,40}|(?<=[a-z])[A-Z0-9][A-Za-z0-9_]{0,40})?(?![A-Za-z0-9])"
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
_VALUE = r"(?:[*_]{1,2}[ \t]{0,2})?(?P<open>\\?[\"'`]|)(?P<value>[!#-%(-+\--:=?-_a-z{}~]{4,300})"
_DIRECT = rf"(?P<tail>{_TAIL}){_MARKS}(?:{_MARK}|{_IS}){_VALUE}"
_WORDS = r"(?:[ \t]+[^\s:=|\"'`<>{}();!?,]{1,40}(?<![.]))"
_LOOSE = (
    rf"(?P<tail>{_TAIL}){_MARKS}(?:(?P<gap>{_WORDS}{{1,5}}?)(?:{_MARK}|{_IS})"
    rf"|[ \t]+-{{1,2}}[ \t]+|>|[ \t]{{0,8}}[|(,][ \t]{{0,8}}|[ \t]{{1,4}}){_VALUE}"
)
_MIXED = r"[^\n]{0,250}?(?:[A-Za-z!#$%^&*?+~=@][0-9]|[0-9][A-Za-z!#$%^&*?+~=@])"


def _assigned(view: _View, lowered: str) -> Iterator[_Found]:
    """What is said to be a password, a key or a token, and looks like one."""
    text = view.text
    if len(lowered) != len(text):  # a few letters become two
        lowered = "".join(low if len(low := letter.lower()) == 1 else letter for letter in text)
    passwords: tuple[str, ...] = _PASSWORDS if "pass" in lowered else _PASSWORDS[_PASS:]
    tokens: tuple[str, ...] = _TOKENS
    if not text.isascii():
        passwords, tokens = passwords + _FOREIGN_PASSWORDS, tokens + _FOREIGN_TOKENS
    for words, kind in ((passwords, "a password"), (tokens, "a key or token")):
        for word in words:
            at = lowered.find(word)
            while at >= 0:
                end = at + len(word)
                if _is_word(text, word, at, end) and (span := _value_behind(text, end, kind, word != "pass")):
                    yield _as_found(view, kind, *span, "likely")
                at = lowered.find(word, end)


def _beside(view: _View, words: list[str], lowered: str) -> Iterator[_Found]:
    """A long random word in a line that speaks of a key before it, though it does not say that this is the one."""
    if all(len(word) < _LONG_WORD for word in words):
        return
    from memsheaf.guard.opaque import is_name, is_token

    for match in _compiled(_LONG_RUN).finditer(view.text):
        start, end = match.span()
        before = lowered[max(0, start - 100) : start].rpartition("\n")[2]
        if not _compiled(_SPOKEN_OF).search(before) or _compiled(_IN_PUBLIC).search(before):
            continue
        value = match[0]
        named = sum(map(is_name, pieces := value.split("/"))) * 2 >= len(pieces)
        plain = (
            named or value.startswith(("pk_", "pub")) or end - start > 300 or not _compiled(_ALL_SORTS).match(value)
        )
        if not plain and is_token(value):
            yield _as_found(view, "a key or token", start, end, "likely")


_LONG_WORD = 32
_LONG_RUN = r"(?<![\w+/=-])[A-Za-z0-9+/_-]{32,}={0,2}(?![\w+/=-])"
_ALL_SORTS = r"(?=[^a-z]*[a-z])(?=[^A-Z]*[A-Z])(?=[^0-9]*[0-9])"
_SPOKEN_OF = r"\b(?:keys?|tokens?|secrets?|creds?|credentials?|passwords?)\b|\b(?:akia|asia)[a-z0-9]{16}\b"
_IN_PUBLIC = (
    r"public|publish|fingerprint|sha|hash|integrity|checksum|digest|commit|ssh|cert|signature|etag|uuid|revision"
)


def _is_word(text: str, word: str, at: int, end: int) -> bool:
    """Whether a word at a place is that word, and not a piece of another."""
    if word in _ALONE:
        return not (text[at - 1 : at].isalpha() or text[end : end + 1].isalpha())
    if word == "key":
        before = _compiled(_KEY_BEFORE).search(text[max(0, at - 16) : at])
        return before is not None and before[1] is None
    return True


def _value_behind(text: str, end: int, kind: str, loose: bool) -> tuple[int, int] | None:
    """Where the secret stands that the words up to `end` announce; `loose` when there may be words between."""
    from memsheaf.guard.opaque import is_password, is_striking, is_token

    match = _compiled(_DIRECT).match(text, end)
    direct = match is not None
    if match is None and loose and _compiled(_MIXED).match(text, end):
        match = _compiled(_LOOSE).match(text, end)
    if match is None or not (loose or match["mark"]):
        return None
    about = f"{match['tail']} {match.groupdict().get('gap') or ''}"
    if about != " " and not _ABOUT.isdisjoint(word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+", about)):
        return None
    quoted = bool(match["open"])
    value = match["value"].rstrip("\\*" if quoted else ".:)]}*_\\")
    if not direct:
        fits = is_striking(value)
    elif kind == "a password":
        fits = is_password(value, exact=quoted or "=" in (match["mark"] or ""))
    else:
        fits = is_token(value)
    start = match.start("value")
    return (start, start + len(value)) if fits else None


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
