"""Heuristics that tell a secret value from a word, a path or an example, and find what is said to be one.

A password is what nobody would write for another reason. What stands for one (`<your-key>`, `${TOKEN}`, `xxxx`,
`config.api_key`), names a technique (`sha256`), a file or a thing (`color-blue-500`) is not one. Letters at random
are told from words by the pairs that they come in.
"""

from __future__ import annotations

import math
import re
from binascii import a2b_base64
from collections import Counter
from collections.abc import Iterator
from functools import cache, lru_cache
from itertools import pairwise

# Words with digits in them that are words, longest first where one begins another.
_TECHNICAL = (
    r"(?i)1password|argon2(?:id?|d)?|base(?:16|32|58|62|64|85)(?:url)?|pbkdf2|sha-?(?:224|256|384|512|1|2|3)(?:sum)?"
    r"|md[45](?:sum)?|wpa[23]|hs(?:256|384|512)|[rpe]s(?:256|384|512)|aes-?(?:128|192|256)|rsa-?(?:1024|2048|3072|4096)"
    r"|ed25519|x25519|curve25519|secp256[kr]1|p-?(?:256|384|521)|blake[23]b?|chacha20|poly1305|crc32|fido2|x\.?509"
    r"|pkcs-?[0-9]{1,2}|oauth-?[12]|http-?[123]|ipv[46]|utf-?(?:8|16|32)(?:mb[34])?|latin1|i18n|l10n|a11y|[a-z]{3,}2[a-z]{3,}(?![a-z0-9])"
    r"|(?<![a-z0-9])(?:k8s|k3s|e2e|p2p|b2b|b2c|c2c|ec2|s3|r2|d3|h2|u2f|py3)(?![a-z0-9])|sqlite3|mysql8|psycopg[23]|boto3|neo4j|log4j2?|web[23]|es(?:5|6|20[0-9]{2})|python[23]"
    r"|x86(?:_64)?|amd64|arm64|win(?:32|64)|u?int(?:8|16|32|64|128)|float(?:16|32|64)|varchar2|md5|iso-?[0-9]{4,5}|rfc-?[0-9]{3,4}"
    r"|(?<![a-z0-9])v[0-9]{1,3}(?:(?:alpha|beta|rc|p)[0-9]{0,3})?(?![a-z0-9])|[0-9]{4}-[0-9]{2}-[0-9]{2}(?:t[0-9:.]{4,15}z?)?|20[0-9]{6}"
)
_WEAK = (
    r"(?i)(?:my|your|the|some|new|old|a|db|user|app)?[-_.]?(?:pass(?:word|wd|phrase|code)?|passwort|pwd|pw|secret|token|key"
    r"|api[-_]?key|user(?:name)?|admin|root|guest|test(?:ing)?|demo|dev|local(?:host)?|postgres(?:ql)?|mysql|mariadb|mongo|redis"
    r"|rabbitmq|minio(?:admin)?|example|sample|dummy|default|foo|bar|baz|qwerty|letmein|change[-_]?(?:me|it|this)|none|null|nil"
    r"|true|false|empty|undefined|todo|tbd|value|string|text|hidden|removed|masked|redacted|secure)"
    r"[-_.]?(?:password|pass|secret|token|key|value|here)?[-_.]?[0-9]{0,4}!?"
)
_STANDS_FOR = (
    r"(?i)^<|\$\{|\{\{|x{4,}|\*{3,}|•{2,}|\.{3,}|…|_{4,}|-{4,}|(?<![a-z0-9])your(?![a-z0-9])|yourkey|yourtoken|placeholder"
    r"|change[-_]?me|redacted|insert[-_]|replace[-_]?(?:me|with)|(?<![a-z])dummy|example|(?<![a-z])todo(?![a-z])"
)
# The same for what has the form of a provider's key: too long a word, or too long a run, to come about by chance.
_EXAMPLE = (
    r"(?i)([x*_.-])\1{7}|\.{3}$|…|placeholder|redacted|changeme|example|(?<![a-z0-9])(?-i:your|YOUR)(?![a-z0-9])"
    r"|replace[-_](?:me|with)"
)
_REFERENCE = (
    r"[\[({<]|\$[A-Z_][A-Z0-9_]*$|\$\{|\$\(|%[A-Z_]{2,}%|![A-Za-z]+$|(?:os|process|import|env|config|settings|self|this|secrets"
    r"|vars?|local|data|args|options|params|request|req|props|state|ctx|context)(?:\.[A-Za-z_]|\?\.)|[A-Za-z][A-Za-z0-9+.-]{1,20}:/"
    r"|arn:|vault:|ssm:|op:|file:|enc:|sha(?:1|256|384|512)[:-]|md5:|\$(?:2[abxy]|argon2|pbkdf2|scrypt|apr1|[1567y])\$|\.{1,2}/|@"
)
_CODE = r"[A-Za-z_][\w.]*(?:[(\[{]|=(?![=]|$))|.*\(\)"  # a call, or an argument by its name
_EMAIL = r"[\w.+-]{1,64}@[\w-]{1,64}(?:\.[\w-]{1,64}){1,6}"
_FILE = (
    r"(?i)\.(?:md|txt|py|js|tsx?|go|rs|java|rb|c|h|cc|cpp|json|ya?ml|toml|ini|cfg|conf|env|pem|key|crt|sh|sql|html?|xml"
    r"|lock|log|kdbx|gpg|asc|zip|gz|com|org|net|io|dev|local|internal)$"
)
_NUMBERED = r"v?[0-9]+(?:[.,:/x-][0-9]+)*[A-Za-z%+]{0,3}$"
_UUID = r"(?i)[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_OBJECT = r"[a-z]{2,}(?:-[a-z0-9]{1,12})+"  # what runs in a cluster is called so
_HEX = r"(?:0x)?(?:[0-9a-f]+|[0-9A-F]+)"
_CHUNK = r"[A-Za-z]+[0-9]{0,4}|[0-9]{1,6}"
_SPECIAL = r"[!#$%^&*?+~=@]"
# Three of four pairs of letters in English words and names in code are of these; at random it is one in five.
_PAIRS = frozenset(
    re.findall(
        "..",
        "abacadaialamanaparasatbeblcacechckclcoctdadedidodseaecedeeefelemeneperesetevexfffifogehahehihoicidieigiliminio"
        "irisitivkelalelilllolymamemimompnancndnengninonsntocodolomonoooporosotouowpapeplpoppprptrarerirmrorsrtsascsesh"
        "sisospssstsutatethtitotrtsttulunurusutve",
    )
)
_RUN = r"[A-Z]?[a-z]+|[A-Z]+"


def fits(value: str, ask: str) -> bool:
    """Whether a value is what is asked for.

    That is "any" secret, a "password" (or an "exact" one), a "token", a "credential" in a header, what is "striking"
    or "random", what is "held" by a place for secrets, a "seed" in groups, the "rest" of a torn token, no "example",
    or a "pair", base64 of `name:word`; "" asks for nothing.

    >>> fits("<your-token>", "any"), fits("fluffy1987", "password"), fits("color-blue-500", "token")
    (False, True, False)
    """
    if not ask:
        return True
    if ask in ("password", "exact"):
        return is_password(value, exact=ask == "exact")
    if ask in ("token", "striking"):
        return is_token(value) if ask == "token" else is_striking(value)
    if ask in ("example", "held") and is_example(value):
        return False
    if ask == "seed":  # in groups, as programs show it
        bare = re.sub("[ -]", "", value)
        return len(set(bare)) > 5 and (_has_digit(bare) or wordiness(bare) < 0.4)
    if ask == "rest":  # of a token that is broken over two lines, in a line of its own
        return not (
            re.fullmatch(r"[A-Z]?[a-z]+|[A-Z]+", value) and (len(value) < 4 or wordiness(value) >= 0.4)
        ) and bool(re.search("[A-Za-z0-9]", value) and not is_example(value))
    if ask not in ("example", "held") and is_placeholder(value):
        return False
    if is_weak(value) or value[:1] in "$<{[%" or (len(value) < 6 and value.islower()):
        return False
    if ask == "held":
        inner = base64_text(value) if len(value) % 4 == 0 else ""
        return len(value) > 5 and not is_weak(inner) and not (is_name(value) and value.islower())
    if ask == "random":
        sorts = (str.islower, str.isupper, str.isdigit)
        return all(any(map(sort, value)) for sort in sorts) and wordiness(value) < 0.4
    if ask == "credential":  # in a header that is made for one
        return is_token(value) or (len(value) >= 32 and not value.isalpha())
    return ask in ("any", "example") or ":" in base64_text(value)


def base64_text(value: str) -> str:
    """What is written in base64, as far as it is text in ASCII; else ""."""
    data = value.rstrip("=").replace("-", "+").replace("_", "/")
    try:
        text = a2b_base64(data + "=" * (-len(data) % 4)).decode("ascii")
    except ValueError:
        return ""
    return text if text.replace("\n", "").replace("\r", "").replace("\t", "").isprintable() else ""


def is_placeholder(value: str) -> bool:
    """Whether a value only stands where a secret would.

    >>> is_placeholder("<your-token>"), is_placeholder("xxxxxxxx"), is_placeholder("Corr3ct-H0rse")
    (True, True, False)
    """
    if len(set(value)) <= 3 and len(value) > 3:
        return True
    if "fake" not in value.lower() and re.fullmatch(_WEAK, value):
        return True
    return bool(re.search(_STANDS_FOR, value))


def is_example(rest: str) -> bool:
    """Whether what follows the beginning of a provider's key only shows how one looks."""
    return len(set(rest)) <= 3 or bool(re.search(_EXAMPLE, rest))


def is_weak(value: str) -> bool:
    """Whether everybody would guess it: what examples and default installations use."""
    return bool(re.fullmatch(_WEAK, value))


def is_password(value: str, *, exact: bool) -> bool:
    """Return True if a value that is said to be a password can be one.

    It is `exact` when it was quoted, assigned with `=`, or what a sentence states the password to be.
    """
    if not _may_be_secret(value, 6):
        return False
    if not is_name(value):
        return _has_digit(value) or bool(re.search(_SPECIAL, value)) or _is_random(value)
    chunks = _chunks(value)
    return (len(chunks) == 1 and _has_digit(value)) or (
        exact and ((len(chunks) > 3 and "-" in value) or _has_digit(value))
    )


def is_token(value: str) -> bool:
    """Whether a value that is said to be a key or a token can be one."""
    if not _may_be_secret(value, 12) or is_name(value):
        return False
    bare = value.removeprefix("0x")
    if re.fullmatch(_HEX, bare):
        return len(bare) >= 16
    return (_has_digit(value) and _entropy(value) >= 2.8) or _is_random(value)


def is_striking(value: str) -> bool:
    """Whether a word in prose looks like a secret: digits and signs mixed as in no ordinary word."""
    if not _may_be_secret(value, 8) or not _has_digit(value) or is_name(value):
        return False
    if re.fullmatch(_HEX, value) or re.fullmatch(_UUID, value) or re.fullmatch(_OBJECT, value):
        return False
    plain = re.sub(_TECHNICAL, "", value)
    between = len(re.findall(r"[A-Za-z](?=[0-9])|[0-9](?=[A-Za-z])", plain))
    leet = re.search(r"[A-Za-z][0-9]{1,2}[a-z]", plain)
    mixed = (
        len(plain) >= 16 and re.search("[a-z]", plain) and re.search("[A-Z]", plain) and re.search("[0-9]{4}", plain)
    )
    special = re.search(_SPECIAL, plain) and re.search("[A-Za-z]{2}", plain)
    return bool(leet or between >= 3 or mixed or special)


def _may_be_secret(value: str, least: int) -> bool:
    """Whether it is long enough, and neither a placeholder nor a way to something else."""
    if len(value) < least or not value.isascii() or is_placeholder(value):
        return False
    if re.match(_REFERENCE, value) or re.fullmatch(_EMAIL, value) or re.search(_FILE, value) or _is_path(value):
        return False
    if re.match(_CODE, value):
        return False
    return not (re.match(_NUMBERED, value) and not re.fullmatch("[0-9]{6,}", value))


def _is_path(value: str) -> bool:
    """Whether it leads to a file: most of what stands between its slashes are names."""
    if not value.startswith(("/", "~/")):
        return False
    pieces = [piece for piece in value.lstrip("~").split("/") if piece]
    return sum(len(piece) for piece in pieces if is_name(piece)) * 2 >= sum(map(len, pieces))


def is_name(value: str) -> bool:
    """Whether it reads as words and small numbers, as names of things do."""
    plain = re.sub(_TECHNICAL, "", value)
    if not plain.strip("-_./:"):
        return True
    if re.search(_SPECIAL, plain) or not all(re.fullmatch(_CHUNK, chunk) for chunk in _chunks(plain)):
        return False
    digits = sum(map(str.isdigit, plain))
    return not _is_random(plain) and digits * 2 < len(plain) and digits <= 6


def _chunks(value: str) -> list[str]:
    return [chunk for chunk in re.split(r"[-_./:]+|(?<=[a-z])(?=[A-Z][a-z])", value) if chunk]


def _has_digit(value: str) -> bool:
    return any(map(str.isdigit, value))


def _is_random(value: str) -> bool:
    """Whether letters follow each other as in no word: unusual pairs, hardly a vowel, or odd case."""
    letters = "".join(filter(str.isalpha, value))
    if len(letters) < 12:
        return False
    vowels = sum(letter in "aeiouyAEIOUY" for letter in letters)
    turns = len(re.findall(r"[a-z][A-Z]|[A-Z](?=[a-z])", value))
    odd = vowels * 6 < len(letters) or turns * 5 > len(letters) * 2 or wordiness(value) < 0.3
    return odd and _entropy(value) >= 3.2


def wordiness(value: str) -> float:
    """The share of pairs of letters that are usual in words, of all pairs.

    >>> wordiness("getUserAuthenticationToken") > 0.5 > wordiness("qXvKpTzGwJhRbYdNcFmL")
    True
    """
    pairs = sum(pair.isalpha() for pair in map("".join, pairwise(value)))
    usual = sum(
        run[at : at + 2] in _PAIRS for run in map(str.lower, re.findall(_RUN, value)) for at in range(len(run) - 1)
    )
    return usual / max(pairs, 1)


def _entropy(value: str) -> float:
    """Bits a character, by how often each occurs."""
    size = len(value)
    return -sum(n / size * math.log2(n / size) for n in Counter(value).values())


_PASSWORDS = (
    "password|passwd|passwort|passphrase|passcode|passord|mot de passe|kennwort|contrasena|senha|wachtwoord"
    "|heslo|haslo|salasana|adgangskode|kata sandi|parola|sifre|contraseña|пароль|пароля|паролем|пароли|密码|密碼|口令"
    "|パスワード|暗証番号|비밀번호|암호|كلمة المرور|كلمة السر|पासवर्ड|şifre|hasło|lösenord|jelszó|κωδικός|סיסמה|סיסמא"
    "|mật khẩu|รหัสผ่าน|parolă"
)
_TOKENS = "token|secret|key|credential|токен|секрет|ключ|令牌|密钥|金鑰|秘钥|トークン|秘密鍵|apiキー|토큰|api 키"
_SHORT = "pass|pwd|pw|psk"
_ANNOUNCING = tuple(f"{_PASSWORDS}|{_TOKENS}|{_SHORT}".split("|"))
_IN_ASCII = tuple(filter(str.isascii, _ANNOUNCING))
_KEY_BEFORE = (
    r"(?:(?:^|[^A-Za-z])(?:PUBLIC|PRIMARY|FOREIGN|UNIQUE|SORT|CACHE|PARTITION|IDEMPOTENCY|INDEX|LOOKUP|SSH|GPG)_()|(?i:api|access|secret|private|auth|account|encrypt(?:ion)?|signing|master|role|client|service|app|deploy|license"
    r"|subscription|storage|shared|session|webhook|admin)[ _-]?|[A-Z0-9]_)$"
)
# The rest of a name: `password_staging`, `tokenForCi`, `passwords`; other letters make it another word.
_TAIL = r"[sS]?(?:[_.-][A-Za-z0-9_.-]{0,40}+|(?<=[a-z])[A-Z0-9][A-Za-z0-9_]{0,40}+)?(?![A-Za-z0-9])"
# Words behind it that tell of something other than its value.
_ABOUT = (
    r"(?i)ids?|hash(?:e[dsr]|ing)?|digest|commit|polic(?:y|ies)|reset|len(?:gth)?|managers?|fingerprint|checksum"
    r"|expir(?:es|y|ation)|ttl|files?|paths?|ur[li]|names?|endpoint|versions?|tickets?|issues?|types?|format|fields?"
    r"|counts?|limits?|max|min|size|budget|usage|regex|pattern|prompt|hint|label|rotation|vault|see|under|via|header"
    r"|column|table|ref|arn|env|var|variable"
)
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
_MIXED = r"[A-Za-z!#$%^&*?+~=@_-][0-9]|[0-9][A-Za-z!#$%^&*?+~=@]|[0-9]{6}|[A-Za-z][!#$%^&*?~@][A-Za-z]"
# "The password for the admin account is …" says as much as "The password is …", which needs no `=` or quotes. A
# value has a figure or a sign in it then, and is no measure (`12-character`), ticket (`OPS-12`), variable
# (`DB_PASS_2`), numbered thing (`node-3`) or participle (`NTLMv2-hashed`).
_OF = (
    r"at|in|for|of|on|to|from|für|fürs|im|am|auf|vom|von|zum|zur|beim|du|de|des|sur|pour|del|della|di|al|en|para|per"
    r"|do|da|no|na|van|voor|op|till|til|på|av|af|dla|od|от|для|к|на"
)
_COPULA = r"(?:is|was|are|ist|lautet|war|est|es|era|é|è|er|är|jest|je|это|был)"
_FOR = rf"(?:[ \t]+(?:{_OF})(?:[ \t]+(?!{_COPULA}[ \t])[^\s:]+){{1,4}})"
_STATED = rf"(?i){_MARKS}(?:{_FOR}:|{_FOR}?[ \t]+{_COPULA}(?:[ \t]+(?:now|jetzt))?:?)[ \t]+[\W_]{{0,4}}"
_UNUSUAL = r"(?![0-9]{1,3}-[a-z-]+$|[A-Z]+[-_][A-Z0-9_]+$|[a-z-]+-[0-9]$|.*-[a-z]+ed$)(?:.*[0-9]|.*\w[!#$%^&*?~@]\w)"
# Before a password that belongs to what the sentence is about: "The server with the password for staging is node-3".
_ARTICLE = r"(?:the|an?|my|our|its|his|her|your|their|all|de[rnms]|die|das|les?|la|el|los|het)[ \t]+"
_BELONGS = (
    rf"(?i)(?:\w[ \t]+(?:{_OF}|with|about|by|mit|über|avec|con|com|met|(?:that|which|who)[ \t]+(?!{_ARTICLE})\w+)"
    rf"[ \t]+(?:{_ARTICLE})?|\b\w+ing[ \t]+{_ARTICLE})(?:(?!{_ARTICLE})[\w-]+[ \t]+){{0,2}}$"
)
_NEAR = 250  # so far behind its word a value may stand that is not assigned
_BEFORE, _BEHIND = 48, 640  # characters around its word in which a value is looked for


@cache
def _announcing(words: tuple[str, ...]) -> re.Pattern[str]:
    """The words that announce a secret, in small letters: group 1 is a password, 2 short for one, 3 a token."""
    sorts = [[word for word in words if word in sort.split("|")] for sort in (_PASSWORDS, _TOKENS, _SHORT)]
    passwords, tokens, short = ("|".join(sort) or "(?!)" for sort in sorts)
    return re.compile(f"({passwords})|(?<![a-z])({short})(?![a-z])|({tokens})")


def assigned_values(text: str) -> Iterator[tuple[str, int, int]]:
    """What is said to be a password, a key or a token, and looks like one: its kind, where it begins and ends."""
    lowered = lower(text)
    words = tuple(word for word in (_IN_ASCII if text.isascii() else _ANNOUNCING) if word in lowered)
    if not words:
        return
    for word in _announcing(words).finditer(lowered):
        at, end = word.span()
        first = at - _BEFORE if at > _BEFORE else 0
        piece = text[first : end + _BEHIND]
        if span := find_announced(words, piece, at - first, end - first, word.lastindex or 0):
            yield "a key or token" if word[3] else "a password", first + span[0], first + span[1]


@lru_cache(512)  # until the text is scanned
def find_announced(words: tuple[str, ...], text: str, at: int, end: int, sort: int) -> tuple[int, int] | None:
    """Where the value stands that the word at this place announces, in a piece of text around it."""
    if sort == 3 and text[at:end].lower() == "key" and not is_key(text[:at]):
        return None
    is_token, loose = sort == 3, text[at:end].lower() != "pass"
    match = re.compile(_DIRECT).match(text, end)
    if match and (loose or match["mark"]) and (span := _value(match, text[:at], True, is_token=is_token)):
        return span
    if not loose or not re.compile(_MIXED).search(text, end, end + _NEAR + 2):
        return None
    loosely = re.compile(_LOOSE_ASCII if text.isascii() else _LOOSE)
    match = loosely.match(text, end, _reach(lower(text), end, words))
    return _value(match, text[:at], False, is_token=is_token) if match else None


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


def is_key(before: str) -> bool:
    """Whether a key is one that is kept, by what stands before the word: `api_key`, and not `primary key`."""
    found = re.search(_KEY_BEFORE, before)
    return found is not None and found[1] is None


def _value(match: re.Match[str], before: str, direct: bool, *, is_token: bool) -> tuple[int, int] | None:
    """Where the secret stands that a word announces, if there is one."""
    about = f"{match['tail']} {'' if direct else match['gap'] or ''}"
    if about != " " and any(re.fullmatch(_ABOUT, word) for word in re.findall(_RUN, about)):
        return None
    quoted, mark = bool(match["open"]), match["mark"] or ""
    value = match["value"].rstrip("\\*" if quoted else ".:)]}*_\\")
    start = match.start("value")
    is_stated = (
        re.compile(_STATED).fullmatch(match.string, match.end("tail"), start)
        and re.match(_UNUSUAL, re.sub(_TECHNICAL, "", value))
        and not re.search(_BELONGS, before)
    )
    if is_token:
        ask = "token" if direct else "striking"
    elif direct or is_stated:
        ask = "exact" if quoted or "=" in mark or (is_stated and not mark) else "password"
    else:
        ask = "striking"
    return (start, start + len(value)) if fits(value, ask) else None
