"""Whether a value is a secret, when all there is to go by is the value and the word it is assigned to.

A password is what nobody would write for another reason. What stands for one (`<your-key>`, `${TOKEN}`, `xxxx`,
`config.api_key`), names a technique (`sha256`), a file or a thing (`color-blue-500`) is not one.
"""

from __future__ import annotations

import math
import re
from collections import Counter

# Words with digits in them that are words, longest first where one begins another.
_TECHNICAL = re.compile(
    r"(?i)1password|argon2(?:id?|d)?|base(?:16|32|58|62|64|85)(?:url)?|pbkdf2|sha-?(?:1|2|3|224|256|384|512)(?:sum)?"
    r"|md[45](?:sum)?|hs(?:256|384|512)|[rpe]s(?:256|384|512)|aes-?(?:128|192|256)|rsa-?(?:1024|2048|3072|4096)"
    r"|ed25519|x25519|curve25519|secp256[kr]1|p-?(?:256|384|521)|blake[23]b?|chacha20|poly1305|crc32|fido2|x\.?509"
    r"|pkcs-?[0-9]{1,2}|oauth-?[12]|http-?[123]|ipv[46]|utf-?(?:8|16|32)(?:mb[34])?|latin1|i18n|l10n|a11y|[a-z]{3,}2[a-z]{3,}(?![a-z0-9])"
    r"|(?<![a-z0-9])(?:k8s|k3s|e2e|p2p|b2b|b2c|c2c|ec2|s3|r2|d3|h2|u2f|py3)(?![a-z0-9])|sqlite3|mysql8|psycopg[23]|boto3|neo4j|log4j2?|web[23]|es(?:5|6|20[0-9]{2})|python[23]"
    r"|x86(?:_64)?|amd64|arm64|win(?:32|64)|u?int(?:8|16|32|64|128)|float(?:16|32|64)|varchar2|md5|iso-?[0-9]{4,5}|rfc-?[0-9]{3,4}"
    r"|(?<![a-z0-9])v[0-9]{1,3}(?:(?:alpha|beta|rc|p)[0-9]{0,3})?(?![a-z0-9])|[0-9]{4}-[0-9]{2}-[0-9]{2}(?:t[0-9:.]{4,15}z?)?|20[0-9]{6}"
)
_WEAK = re.compile(
    r"(?i)(?:my|your|the|some|new|old|a|db|user|app)?[-_.]?(?:pass(?:word|wd|phrase|code)?|passwort|pwd|pw|secret|token|key"
    r"|api[-_]?key|user(?:name)?|admin|root|guest|test(?:ing)?|demo|dev|local(?:host)?|postgres(?:ql)?|mysql|mariadb|mongo|redis"
    r"|rabbitmq|minio(?:admin)?|example|sample|dummy|default|foo|bar|baz|qwerty|letmein|change[-_]?(?:me|it|this)|none|null|nil"
    r"|true|false|empty|undefined|todo|tbd|value|string|text|hidden|removed|masked|redacted|secure)"
    r"[-_.]?(?:password|pass|secret|token|key|value|here)?[-_.]?[0-9]{0,4}!?"
)
_STANDS_FOR = re.compile(
    r"(?i)x{4,}|\*{3,}|•{2,}|\.{3,}|…|_{4,}|-{4,}|(?<![a-z0-9])your(?![a-z0-9])|yourkey|yourtoken|placeholder"
    r"|change[-_]?me|redacted|insert[-_]|replace[-_]?(?:me|with)|(?<![a-z])dummy|example|(?<![a-z])todo(?![a-z])"
)
_REFERENCE = re.compile(
    r"[\[({<]|\$[A-Z_][A-Z0-9_]*$|\$\{|\$\(|%[A-Z_]{2,}%|![A-Za-z]+$|(?:os|process|import|env|config|settings|self|this|secrets"
    r"|vars?|local|data|args|options|params|request|req|props|state|ctx|context)(?:\.[A-Za-z_]|\?\.)|[A-Za-z][A-Za-z0-9+.-]{1,20}:/"
    r"|arn:|vault:|ssm:|op:|file:|enc:|sha(?:1|256|384|512)[:-]|md5:|\$(?:2[abxy]|argon2|pbkdf2|scrypt|apr1|[1567y])\$|~?/|\.{1,2}/|@"
)
_CODE = re.compile(r"[A-Za-z_][\w.]*(?:[(\[{]|=(?![=]|$))")  # a call, or an argument by its name
_EMAIL = re.compile(r"[\w.+-]{1,64}@[\w-]{1,64}(?:\.[\w-]{1,64}){1,6}")
_FILE = re.compile(
    r"(?i).*\.(?:md|txt|py|js|tsx?|go|rs|java|rb|c|h|cc|cpp|json|ya?ml|toml|ini|cfg|conf|env|pem|key|crt|sh|sql|html?|xml"
    r"|lock|log|kdbx|gpg|asc|zip|gz|com|org|net|io|dev|local|internal)$"
)
_NUMBERED = re.compile(r"v?[0-9]+(?:[.,:/x-][0-9]+)*[A-Za-z%+]{0,3}$")
_UUID = re.compile(r"(?i)[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_OBJECT = re.compile(r"[a-z]{2,}(?:-[a-z0-9]{1,12})+")  # what runs in a cluster is called so
_HEX = re.compile(r"(?:0x)?(?:[0-9a-f]+|[0-9A-F]+)")
_CHUNK = re.compile(r"[A-Za-z]+[0-9]{0,4}|[0-9]{1,6}")
_SPECIAL = re.compile(r"[!#$%^&*?+~=@]")


def is_placeholder(value: str) -> bool:
    """Whether a value only stands where a secret would.

    >>> is_placeholder("<your-token>"), is_placeholder("xxxxxxxx"), is_placeholder("Corr3ct-H0rse")
    (True, True, False)
    """
    if len(set(value)) <= 3 and len(value) > 3:
        return True
    if "fake" not in value.lower() and _WEAK.fullmatch(value):
        return True
    return value[:1] == "<" or "${" in value or "{{" in value or bool(_STANDS_FOR.search(value))


def is_weak(value: str) -> bool:
    """Whether everybody would guess it: what examples and default installations use."""
    return bool(_WEAK.fullmatch(value))


def is_password(value: str, *, exact: bool) -> bool:
    """Whether a value that is said to be a password can be one; `exact` when it was quoted or assigned with `=`."""
    if not _may_be_secret(value, 6):
        return False
    if not is_name(value):
        return _has_digit(value) or bool(_SPECIAL.search(value)) or _is_random(value)
    chunks = _chunks(value)
    return (len(chunks) == 1 and _has_digit(value)) or (
        exact and ((len(chunks) > 3 and "-" in value) or _has_digit(value))
    )


def is_token(value: str) -> bool:
    """Whether a value that is said to be a key or a token can be one."""
    if not _may_be_secret(value, 12) or is_name(value):
        return False
    bare = value.removeprefix("0x")
    if _HEX.fullmatch(bare):
        return len(bare) >= 16
    return (_has_digit(value) and _entropy(value) >= 2.8) or _is_random(value)


def is_striking(value: str) -> bool:
    """Whether a word stands out of prose as a secret: nobody writes so who wants to be read."""
    if not _may_be_secret(value, 8) or not _has_digit(value) or is_name(value):
        return False
    if _HEX.fullmatch(value) or _UUID.fullmatch(value) or _OBJECT.fullmatch(value):
        return False
    plain = _TECHNICAL.sub("", value)
    between = len(re.findall(r"[A-Za-z](?=[0-9])|[0-9](?=[A-Za-z])", plain))
    leet = re.search(r"[A-Za-z][0-9]{1,2}[a-z]", plain)
    mixed = (
        len(plain) >= 16 and re.search("[a-z]", plain) and re.search("[A-Z]", plain) and re.search("[0-9]{4}", plain)
    )
    special = _SPECIAL.search(plain) and re.search("[A-Za-z]{2}", plain)
    return bool(leet or between >= 3 or mixed or special)


def _may_be_secret(value: str, least: int) -> bool:
    """Whether it is long enough, and neither a placeholder nor a way to something else."""
    if len(value) < least or not value.isascii() or is_placeholder(value):
        return False
    if _REFERENCE.match(value) or _EMAIL.fullmatch(value) or _FILE.match(value):
        return False
    if _CODE.match(value) or "()" in value:
        return False
    return not (_NUMBERED.match(value) and not re.fullmatch("[0-9]{6,}", value))


def is_name(value: str) -> bool:
    """Whether it reads as words and small numbers, as names of things do."""
    plain = _TECHNICAL.sub("", value)
    if not plain.strip("-_./:"):
        return True
    if _SPECIAL.search(plain) or not all(_CHUNK.fullmatch(chunk) for chunk in _chunks(plain)):
        return False
    digits = sum(map(str.isdigit, plain))
    return not _is_random(plain) and digits * 2 < len(plain) and digits <= 6


def _chunks(value: str) -> list[str]:
    return [chunk for chunk in re.split(r"[-_./:]+|(?<=[a-z])(?=[A-Z][a-z])", value) if chunk]


def _has_digit(value: str) -> bool:
    return any(map(str.isdigit, value))


def _is_random(value: str) -> bool:
    """Whether letters follow each other as in no language: many of them, hardly a vowel, or case at random."""
    letters = "".join(filter(str.isalpha, value))
    if len(letters) < 12:
        return False
    vowels = sum(letter in "aeiouyAEIOUY" for letter in letters)
    turns = len(re.findall(r"[a-z][A-Z]|[A-Z](?=[a-z])", value))
    return _entropy(value) >= 3.2 and (vowels * 6 < len(letters) or turns * 5 > len(letters) * 2)


def _entropy(value: str) -> float:
    """Bits a character, by how often each occurs."""
    size = len(value)
    return -sum(n / size * math.log2(n / size) for n in Counter(value).values())
