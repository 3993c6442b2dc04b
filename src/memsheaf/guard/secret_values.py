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
from collections.abc import Callable, Iterator
from functools import cache
from itertools import pairwise

# Words with digits in them that are words, longest first where one begins another.
_TECHNICAL_WORDS = (
    r"(?i)1password|argon2(?:id?|d)?|base(?:16|32|58|62|64|85)(?:url)?|pbkdf2|sha-?(?:224|256|384|512|1|2|3)(?:sum)?"
    r"|md[45](?:sum)?|wpa[23]|hs(?:256|384|512)|[rpe]s(?:256|384|512)|aes-?(?:128|192|256)|rsa-?(?:1024|2048|3072|4096)"
    r"|ed25519|x25519|curve25519|secp256[kr]1|p-?(?:256|384|521)|blake[23]b?|chacha20|poly1305|crc32|fido2|x\.?509"
    r"|pkcs-?[0-9]{1,2}|oauth-?[12]|http-?[123]|ipv[46]|utf-?(?:8|16|32)(?:mb[34])?|latin1|i18n|l10n|a11y|[a-z]{3,}2[a-z]{3,}(?![a-z0-9])"
    r"|(?<![a-z0-9])(?:k8s|k3s|e2e|p2p|b2b|b2c|c2c|ec2|s3|r2|d3|h2|u2f|py3)(?![a-z0-9])|sqlite3|mysql8|psycopg[23]|boto3|neo4j|log4j2?|web[23]|es(?:5|6|20[0-9]{2})|python[23]"
    r"|x86(?:_64)?|amd64|arm64|win(?:32|64)|u?int(?:8|16|32|64|128)|float(?:16|32|64)|varchar2|md5|iso-?[0-9]{4,5}|rfc-?[0-9]{3,4}"
    r"|(?<![a-z0-9])v[0-9]{1,3}(?:(?:alpha|beta|rc|p)[0-9]{0,3})?(?![a-z0-9])|[0-9]{4}-[0-9]{2}-[0-9]{2}(?:t[0-9:.]{4,15}z?)?|20[0-9]{6}"
)
_WEAK_VALUE = (
    r"(?i)(?:my|your|the|some|new|old|a|db|user|app)?[-_.]?(?:pass(?:word|wd|phrase|code)?|passwort|pwd|pw|secret|token|key"
    r"|api[-_]?key|user(?:name)?|admin|root|guest|test(?:ing)?|demo|dev|local(?:host)?|postgres(?:ql)?|mysql|mariadb|mongo|redis"
    r"|rabbitmq|minio(?:admin)?|example|sample|dummy|default|foo|bar|baz|qwerty|letmein|change[-_]?(?:me|it|this)|none|null|nil"
    r"|true|false|empty|undefined|todo|tbd|value|string|text|hidden|removed|masked|redacted|secure)"
    r"[-_.]?(?:password|pass|secret|token|key|value|here)?[-_.]?[0-9]{0,4}!?"
)
_PLACEHOLDER_MARKS = (
    r"(?i)^<|\$\{|\{\{|x{4,}|\*{3,}|•{2,}|\.{3,}|…|_{4,}|-{4,}|(?<![a-z0-9])your(?![a-z0-9])|yourkey|yourtoken|placeholder"
    r"|change[-_]?me|redacted|insert[-_]|replace[-_]?(?:me|with)|(?<![a-z])dummy|example|(?<![a-z])todo(?![a-z])"
)
# The same for what has the form of a provider's key: too long a word, or too long a run, to come about by chance.
_EXAMPLE_MARKS = (
    r"(?i)([x*_.-])\1{7}|\.{3}$|…|placeholder|redacted|changeme|example|(?<![a-z0-9])(?-i:your|YOUR)(?![a-z0-9])"
    r"|replace[-_](?:me|with)"
)
_REFERENCE_START = (
    r"[\[({<]|\$[A-Z_][A-Z0-9_]*$|\$\{|\$\(|%[A-Z_]{2,}%|![A-Za-z]+$|(?:os|process|import|env|config|settings|self|this|secrets"
    r"|vars?|local|data|args|options|params|request|req|props|state|ctx|context)(?:\.[A-Za-z_]|\?\.)|[A-Za-z][A-Za-z0-9+.-]{1,20}:/"
    r"|arn:|vault:|ssm:|op:|file:|enc:|sha(?:1|256|384|512)[:-]|md5:|\$(?:2[abxy]|argon2|pbkdf2|scrypt|apr1|[1567y])\$|\.{1,2}/|@"
)
_CODE_START = r"[A-Za-z_][\w.]*(?:[(\[{]|=(?![=]|$))|.*\(\)"  # a call, or an argument by its name
_EMAIL_ADDRESS = r"[\w.+-]{1,64}@[\w-]{1,64}(?:\.[\w-]{1,64}){1,6}"
_FILE_ENDING = (
    r"(?i)\.(?:md|txt|py|js|tsx?|go|rs|java|rb|c|h|cc|cpp|json|ya?ml|toml|ini|cfg|conf|env|pem|key|crt|sh|sql|html?|xml"
    r"|lock|log|kdbx|gpg|asc|zip|gz|com|org|net|io|dev|local|internal)$"
)
_MERE_NUMBERS = r"v?[0-9]+(?:[.,:/x-][0-9]+)*[A-Za-z%+]{0,3}$"
_UUID_SHAPE = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_CLUSTER_OBJECT = r"[a-z]{2,}(?:-[a-z0-9]{1,12})+"  # what runs in a cluster is called so
_HEX_DIGITS = r"(?:0x)?(?:[0-9a-f]+|[0-9A-F]+)"
_NAME_CHUNK = r"[A-Za-z]+[0-9]{0,4}|[0-9]{1,6}"
_SPECIAL_SIGN = r"[!#$%^&*?+~=@]"
_LETTER_BESIDE_DIGIT = r"[A-Za-z](?=[0-9])|[0-9](?=[A-Za-z])"
# Three of four pairs of letters in English words and names in code are of these; at random it is one in five.
_USUAL_PAIRS = frozenset(
    re.findall(
        "..",
        "abacadaialamanaparasatbeblcacechckclcoctdadedidodseaecedeeefelemeneperesetevexfffifogehahehihoicidieigiliminio"
        "irisitivkelalelilllolymamemimompnancndnengninonsntocodolomonoooporosotouowpapeplpoppprptrarerirmrorsrtsascsesh"
        "sisospssstsutatethtitotrtsttulunurusutve",
    )
)
MIN_WORDINESS_OF_WORD = 0.4  # the share of usual pairs; see `wordiness`
_LETTER_RUN = r"[A-Z]?[a-z]+|[A-Z]+"


MIN_PASSWORD_CHARS = 6
MIN_TOKEN_CHARS = 12
MIN_STRIKING_CHARS = 8


def is_real(value: str) -> bool:
    """Return True unless a value stands for a secret, or everybody would guess it.

    >>> is_real("<your-token>"), is_real("postgres"), is_real("fluffy1987")
    (False, False, True)
    """
    return not is_placeholder(value) and not _is_guessable(value)


def is_no_example(value: str) -> bool:
    """Return True unless a long random value only shows how a secret looks, or everybody would guess it."""
    return not is_example(value) and not _is_guessable(value)


def is_held(value: str) -> bool:
    """Return True for a value that a place for secrets holds, such as a manifest: also one that is a plain word."""
    if len(value) <= 5 or not is_no_example(value) or (is_name(value) and value.islower()):
        return False
    is_encoded_default = len(value) % 4 == 0 and re.fullmatch(_WEAK_VALUE, base64_text(value))
    return not is_encoded_default


def is_random_key(value: str) -> bool:
    """Return True for letters and digits at random, as providers make the end of their keys."""
    has_all_sorts = re.match(r"(?=.*[a-z])(?=.*[A-Z]).*[0-9]", value)
    return bool(has_all_sorts) and wordiness(value) < MIN_WORDINESS_OF_WORD and is_real(value)


def is_credential(value: str) -> bool:
    """Return True for a value that can stand in a header that is made for credentials."""
    return is_real(value) and (is_token(value) or (len(value) >= 32 and not value.isalpha()))


def is_user_and_password(value: str) -> bool:
    """Return True for base64 of `name:password`."""
    return is_real(value) and ":" in base64_text(value)


def is_seed(value: str) -> bool:
    """Return True for a one-time password seed in groups, as programs show it."""
    bare = re.sub("[ -]", "", value)
    return len(set(bare)) > 5 and (_has_digit(bare) or wordiness(bare) < MIN_WORDINESS_OF_WORD)


def is_rest_of_token(value: str) -> bool:
    """Return True for a word alone in its line that can be the rest of a token which the line before began."""
    if is_example(value) or not re.search("[A-Za-z0-9]", value):
        return False
    is_word = len(value) < 4 or wordiness(value) >= MIN_WORDINESS_OF_WORD
    return not (is_word and re.fullmatch(_LETTER_RUN, value))


def is_password(value: str) -> bool:
    """Return True for a value that is said to be a password and can be one.

    >>> is_password("fluffy1987"), is_password("color-blue-500"), is_exact_password("correct-horse-battery-staple")
    (True, False, True)
    """
    if not _may_be_secret(value, MIN_PASSWORD_CHARS):
        return False
    if is_name(value):
        return len(_chunks(value)) == 1 and _has_digit(value)
    return _has_digit(value) or bool(re.search(_SPECIAL_SIGN, value)) or _is_random(value)


def is_exact_password(value: str) -> bool:
    """Return True for a password that was quoted, assigned with `=`, or that a sentence states: names may be one."""
    if is_password(value):
        return True
    is_phrase = "-" in value and len(_chunks(value)) > 3
    return (is_phrase or _has_digit(value)) and is_name(value) and _may_be_secret(value, MIN_PASSWORD_CHARS)


def is_token(value: str) -> bool:
    """Return True for a value that is said to be a key or a token and can be one."""
    if not _may_be_secret(value, MIN_TOKEN_CHARS) or is_name(value):
        return False
    bare = value.removeprefix("0x")
    if re.fullmatch(_HEX_DIGITS, bare):
        return len(bare) >= 16
    return (_has_digit(value) and _entropy(value) >= 2.8) or _is_random(value)


def is_striking(value: str) -> bool:
    """Return True for a word in prose that looks like a secret: digits and signs mixed as in no ordinary word."""
    if not _may_be_secret(value, MIN_STRIKING_CHARS) or not _has_digit(value) or is_name(value):
        return False
    if re.fullmatch(f"{_HEX_DIGITS}|{_CLUSTER_OBJECT}|(?i:{_UUID_SHAPE})", value):
        return False
    plain = re.sub(_TECHNICAL_WORDS, "", value)
    if re.search(r"[A-Za-z][0-9]{1,2}[a-z]", plain) or len(re.findall(_LETTER_BESIDE_DIGIT, plain)) >= 3:
        return True
    if re.search(_SPECIAL_SIGN, plain) and re.search("[A-Za-z]{2}", plain):
        return True
    return bool(re.match(r"(?=.{16})(?=.*[a-z])(?=.*[A-Z]).*[0-9]{4}", plain))


# How the value in a place is judged, by the word that `secret_formats.txt` has for it.
JUDGES: dict[str, Callable[[str], bool]] = {
    "anything": bool,  # whatever stands there: the place is a secret by its look alone
    "any": is_real,  # all but a placeholder, and what everybody would guess
    "example": is_no_example,  # the same for a long random value, of which fewer words make an example
    "password": is_password,  # what is said to be a password: no name, no path, no number, no code
    "exact": is_exact_password,  # a password that was quoted or assigned with `=`: a name with figures may be one
    "token": is_token,  # what is said to be a key: long and random
    "credential": is_credential,  # what a header for credentials holds: a token, or anything long
    "striking": is_striking,  # what looks like a secret wherever it stands: figures and signs mixed
    "held": is_held,  # what a place made for secrets holds, such as a manifest: any word but a default
    "pair": is_user_and_password,  # base64 of `name:password`
}


def base64_text(value: str) -> str:
    """Return what is written in base64, as far as it is text in ASCII; else ""."""
    data = value.rstrip("=").replace("-", "+").replace("_", "/")
    try:
        text = a2b_base64(data + "=" * (-len(data) % 4)).decode("ascii")
    except ValueError:
        return ""
    return text if re.fullmatch(r"[ -~\t\r\n]*", text) else ""


def is_placeholder(value: str) -> bool:
    """Return True if a value only stands where a secret would.

    >>> is_placeholder("<your-token>"), is_placeholder("xxxxxxxx"), is_placeholder("Corr3ct-H0rse")
    (True, True, False)
    """
    if len(set(value)) <= 3 and len(value) > 3:
        return True
    if "fake" not in value.lower() and re.fullmatch(_WEAK_VALUE, value):
        return True
    return bool(re.search(_PLACEHOLDER_MARKS, value))


def is_example(rest: str) -> bool:
    """Return True if what follows the beginning of a provider's key only shows how one looks."""
    return len(set(rest)) <= 3 or bool(re.search(_EXAMPLE_MARKS, rest))


def _is_guessable(value: str) -> bool:
    """Return True for what examples and default installations use."""
    return bool(re.fullmatch(_WEAK_VALUE, value) or re.match(r"[$<{\[%]|$|(?=[^A-Z]{1,5}$).*[a-z]", value))


def _may_be_secret(value: str, least: int) -> bool:
    """Return True if a value is long enough, and neither a placeholder nor a way to something else."""
    if len(value) < least or not value.isascii() or is_placeholder(value):
        return False
    if (
        re.match(f"{_REFERENCE_START}|{_CODE_START}|{_EMAIL_ADDRESS}$", value)
        or re.search(_FILE_ENDING, value)
        or _is_path(value)
    ):
        return False
    return not re.match(_MERE_NUMBERS, value) or bool(re.fullmatch("[0-9]{6,}", value))


def _is_path(value: str) -> bool:
    """Return True if a value leads to a file: most of what stands between its slashes are names."""
    if not value.startswith(("/", "~/")):
        return False
    pieces = [piece for piece in value.lstrip("~").split("/") if piece]
    return sum(len(piece) for piece in pieces if is_name(piece)) * 2 >= sum(map(len, pieces))


def is_name(value: str) -> bool:
    """Return True if a value reads as words and small numbers, as names of things do."""
    plain = re.sub(_TECHNICAL_WORDS, "", value)
    if not plain.strip("-_./:"):
        return True
    if re.search(_SPECIAL_SIGN, plain) or not all(re.fullmatch(_NAME_CHUNK, chunk) for chunk in _chunks(plain)):
        return False
    digits = sum(map(str.isdigit, plain))
    return not _is_random(plain) and digits * 2 < len(plain) and digits <= 6


def _chunks(value: str) -> list[str]:
    return [chunk for chunk in re.split(r"[-_./:]+|(?<=[a-z])(?=[A-Z][a-z])", value) if chunk]


def _has_digit(value: str) -> bool:
    return any(map(str.isdigit, value))


def _is_random(value: str) -> bool:
    """Return True if letters follow each other as in no word: unusual pairs, hardly a vowel, or odd case."""
    letters = "".join(filter(str.isalpha, value))
    if len(letters) < 12 or _entropy(value) < 3.2:
        return False
    vowels = len(re.findall("(?i)[aeiouy]", letters))
    case_changes = len(re.findall(r"[a-z][A-Z]|[A-Z](?=[a-z])", value))
    return vowels * 6 < len(letters) or case_changes * 5 > len(letters) * 2 or wordiness(value) < 0.3


def wordiness(value: str) -> float:
    """Return the share of pairs of letters that are usual in words, of all pairs.

    >>> wordiness("getUserAuthenticationToken") > 0.5 > wordiness("qXvKpTzGwJhRbYdNcFmL")
    True
    """
    pairs = sum(pair.isalpha() for pair in map("".join, pairwise(value)))
    words = [word.lower() for word in re.findall(_LETTER_RUN, value)]
    usual = sum("".join(pair) in _USUAL_PAIRS for word in words for pair in pairwise(word))
    return usual / max(pairs, 1)


def _entropy(value: str) -> float:
    """Return the bits a character, by how often each occurs."""
    shares = [count / len(value) for count in Counter(value).values()]
    return -sum(share * math.log2(share) for share in shares)


_PASSWORD_WORDS = (
    "password|passwd|passwort|passphrase|passcode|passord|mot de passe|kennwort|contrasena|senha|wachtwoord"
    "|heslo|haslo|salasana|adgangskode|kata sandi|parola|sifre|contraseña|пароль|пароля|паролем|пароли|密码|密碼|口令"
    "|パスワード|暗証番号|비밀번호|암호|كلمة المرور|كلمة السر|पासवर्ड|şifre|hasło|lösenord|jelszó|κωδικός|סיסמה|סיסמא"
    "|mật khẩu|รหัสผ่าน|parolă"
)
_TOKEN_WORDS = "token|secret|key|credential|токен|секрет|ключ|令牌|密钥|金鑰|秘钥|トークン|秘密鍵|apiキー|토큰|api 키"
_SHORT_WORDS = "pass|pwd|pw|psk"
_ANNOUNCING_WORDS = tuple(f"{_PASSWORD_WORDS}|{_TOKEN_WORDS}|{_SHORT_WORDS}".split("|"))
_KEY_BEFORE = (
    r"(?:(?:^|[^A-Za-z])(?:PUBLIC|PRIMARY|FOREIGN|UNIQUE|SORT|CACHE|PARTITION|IDEMPOTENCY|INDEX|LOOKUP|SSH|GPG)_()|(?i:api|access|secret|private|auth|account|encrypt(?:ion)?|signing|master|role|client|service|app|deploy|license"
    r"|subscription|storage|shared|session|webhook|admin)[ _-]?|[A-Z0-9]_)$"
)
# The rest of a name: `password_staging`, `tokenForCi`, `passwords`; other letters make it another word.
_NAME_TAIL = r"[sS]?(?:[_.-][A-Za-z0-9_.-]{0,40}+|(?<=[a-z])[A-Z0-9][A-Za-z0-9_]{0,40}+)?(?![A-Za-z0-9])"
# Words behind it that tell of something other than its value.
_OTHER_SUBJECTS = (
    r"(?i)ids?|hash(?:e[dsr]|ing)?|digest|commit|polic(?:y|ies)|reset|len(?:gth)?|managers?|fingerprint|checksum"
    r"|expir(?:es|y|ation)|ttl|files?|paths?|ur[li]|names?|endpoint|versions?|tickets?|issues?|types?|format|fields?"
    r"|counts?|limits?|max|min|size|budget|usage|regex|pattern|prompt|hint|label|rotation|vault|see|under|via|header"
    r"|column|table|ref|arn|env|var|variable"
)
_IS_SIGN = (
    r"[ \t]+(?:is|was|are|now|to|as|ist|lautet|war|est|es|era|é|è|er|är|jest|je|on|это|был|—|–|->|→)"
    r"(?:[ \t]*:)?[ \t]+"
    r"|[ \t]*(?:是|为|為|は|が|는|은|이|→)[ \t]*"
)
_ASSIGNMENT_SIGN = r"[ \t]{0,8}(?P<mark>=>|:=|={1,3}|::?)\s{0,8}(?:\\n)?"
_CLOSING_MARKS = r"(?:'s)?[\"'`*_\])]{0,4}(?:\\[\"'])?"
# A value is no name with a value of its own: that one is looked at where it stands.
_ASSIGNED_VALUE = (
    r"(?:[*_]{1,2}[ \t]{0,2})?(?P<open>\\?[\"'`]|)(?![A-Za-z_]{1,40}=[A-Za-z_])"
    r"(?P<value>[!#-%(-+\--:=?-_a-z{}~]{4,300})"
)
_DIRECT_VALUE = rf"(?P<tail>{_NAME_TAIL}){_CLOSING_MARKS}(?:{_ASSIGNMENT_SIGN}|{_IS_SIGN}){_ASSIGNED_VALUE}"
_WORDS_BETWEEN = r"(?:[ \t]+[^\s:=|\"'`<>{}();!?,]{1,40}(?<![.]))"
_LOOSE_VALUE = (
    rf"(?P<tail>{_NAME_TAIL}){_CLOSING_MARKS}(?:(?P<gap>{_WORDS_BETWEEN}{{1,5}}?)(?:{_ASSIGNMENT_SIGN}|{_IS_SIGN})"
    rf"|[ \t]+-{{1,2}}[ \t]+|>|[ \t]{{0,8}}[|(,][ \t]{{0,8}}|[ \t]{{1,4}}){_ASSIGNED_VALUE}"
)
# Where every word has spaces around it, none needs to be given back in part.
_LOOSE_VALUE_ASCII = _LOOSE_VALUE.replace(_WORDS_BETWEEN, _WORDS_BETWEEN.replace("{1,40}", "{1,40}+"))
_MIXED_SIGNS = r"[A-Za-z!#$%^&*?+~=@_-][0-9]|[0-9][A-Za-z!#$%^&*?+~=@]|[0-9]{6}|[A-Za-z][!#$%^&*?~@][A-Za-z]"
# "The password for the admin account is …" says as much as "The password is …", which needs no `=` or quotes. A
# value has a figure or a sign in it then, and is no measure (`12-character`), ticket (`OPS-12`), variable
# (`DB_PASS_2`), numbered thing (`node-3`) or participle (`NTLMv2-hashed`).
_PREPOSITIONS = (
    r"at|in|for|of|on|to|from|für|fürs|im|am|auf|vom|von|zum|zur|beim|du|de|des|sur|pour|del|della|di|al|en|para|per"
    r"|do|da|no|na|van|voor|op|till|til|på|av|af|dla|od|от|для|к|на"
)
_COPULA_WORD = r"(?:is|was|are|ist|lautet|war|est|es|era|é|è|er|är|jest|je|это|был)"
_FOR_WHAT = rf"(?:[ \t]+(?:{_PREPOSITIONS})(?:[ \t]+(?!{_COPULA_WORD}[ \t])[^\s:]+){{1,4}})"
_STATED_AS_VALUE = (
    rf"(?i){_CLOSING_MARKS}(?:{_FOR_WHAT}:|{_FOR_WHAT}?[ \t]+{_COPULA_WORD}"
    rf"(?:[ \t]+(?:now|jetzt))?:?)[ \t]+[\W_]{{0,4}}"
)
_UNUSUAL_WORD = (
    r"(?![0-9]{1,3}-[a-z-]+$|[A-Z]+[-_][A-Z0-9_]+$|[a-z-]+-[0-9]$|.*-[a-z]+ed$)(?:.*[0-9]|.*\w[!#$%^&*?~@]\w)"
)
# Before a password that belongs to what the sentence is about: "The server with the password for staging is node-3".
_ARTICLE_WORD = r"(?:the|an?|my|our|its|his|her|your|their|all|de[rnms]|die|das|les?|la|el|los|het)[ \t]+"
_BELONGS_TO_SUBJECT = (
    rf"(?i)(?:\w[ \t]+(?:{_PREPOSITIONS}|with|about|by|mit|über|avec|con|com|met"
    rf"|(?:that|which|who)[ \t]+(?!{_ARTICLE_WORD})\w+)"
    rf"[ \t]+(?:{_ARTICLE_WORD})?|\b\w+ing[ \t]+{_ARTICLE_WORD})(?:(?!{_ARTICLE_WORD})[\w-]+[ \t]+){{0,2}}$"
)
MAX_LOOSE_CHARS = 252  # behind its word, to a value that is not assigned
MAX_CHARS_BEFORE = 48  # around its word, in which a value is looked for
MAX_CHARS_BEHIND = 640


@cache
def _announcing(words: tuple[str, ...]) -> re.Pattern[str]:
    """Return what finds these words, in small letters: group 1 is a password, 2 short for one, 3 a token."""
    sorts = [
        [word for word in words if word in sort.split("|")] for sort in (_PASSWORD_WORDS, _TOKEN_WORDS, _SHORT_WORDS)
    ]
    passwords, tokens, short = ("|".join(sort) or "(?!)" for sort in sorts)
    return re.compile(f"({passwords})|(?<![a-z])({short})(?![a-z])|({tokens})")


def assigned_values(text: str) -> Iterator[tuple[str, int, int]]:
    """Yield what is said to be a password, a key or a token, and looks like one: its kind, start and end."""
    lowered = lower(text)
    words = tuple(word for word in _ANNOUNCING_WORDS if word in lowered)
    if not words:
        return
    for word in _announcing(words).finditer(lowered):
        first = max(0, word.start() - MAX_CHARS_BEFORE)
        piece = text[first : word.end() + MAX_CHARS_BEHIND]
        span = _find_value(piece, word.start() - first, word.end() - first, words, of_token=bool(word[3]))
        if span:
            yield "a key or token" if word[3] else "a password", first + span[0], first + span[1]


def _find_value(text: str, at: int, end: int, words: tuple[str, ...], *, of_token: bool) -> tuple[int, int] | None:
    """Return where the value stands that the word at this place announces, in a piece of text around it."""
    word = text[at:end].lower()
    before = text[:at]
    if word == "key":
        names_secret_key = re.search(_KEY_BEFORE, before)  # `api_key`, and not `primary key`
        if not names_secret_key or names_secret_key[1] is not None:
            return None
    match = re.compile(_DIRECT_VALUE).match(text, end)
    if match and (word != "pass" or match["mark"]):
        span = _judge_value(match, before, is_direct=True, of_token=of_token)
        if span:
            return span
    if word == "pass" or not re.compile(_MIXED_SIGNS).search(text, end, end + MAX_LOOSE_CHARS):
        return None
    pattern = _LOOSE_VALUE_ASCII if text.isascii() else _LOOSE_VALUE
    match = re.compile(pattern).match(text, end, _reach(lower(text), end, words))
    return _judge_value(match, before, is_direct=False, of_token=of_token) if match else None


def _reach(lowered: str, at: int, words: tuple[str, ...]) -> int:
    """Return how far a value may be looked for: to the next word that announces one, where that stands alone."""
    following = _announcing(words).search(lowered, at)
    if following and following[0] not in ("key", "pass"):
        start, end = following.span()
        if lowered[start - 1] in " \t" and lowered[end : end + 1] in " \t":
            return start
    return len(lowered)


def lower(text: str) -> str:
    """Return the text in small letters, as long as it is."""
    return text.replace("İ", "i").lower()  # the one letter that becomes two


def _judge_value(match: re.Match[str], before: str, *, is_direct: bool, of_token: bool) -> tuple[int, int] | None:
    """Return where the secret stands that a word announces, if there is one."""
    about = match["tail"] if is_direct else f"{match['tail']} {match['gap'] or ''}"
    if any(re.fullmatch(_OTHER_SUBJECTS, word) for word in re.findall(_LETTER_RUN, about)):
        return None
    is_quoted = match["open"] != ""
    mark = match["mark"] or ""
    start = match.start("value")
    value = match["value"].rstrip("\\*" if is_quoted else ".:)]}*_\\")
    is_stated = (
        re.compile(_STATED_AS_VALUE).fullmatch(match.string, match.end("tail"), start)
        and re.match(_UNUSUAL_WORD, re.sub(_TECHNICAL_WORDS, "", value))
        and not re.search(_BELONGS_TO_SUBJECT, before)
    )
    if not is_direct and (of_token or not is_stated):
        may_be = is_striking
    elif of_token:
        may_be = is_token
    elif is_quoted or "=" in mark or (is_stated and not mark):
        may_be = is_exact_password
    else:
        may_be = is_password
    return (start, start + len(value)) if may_be(value) else None
