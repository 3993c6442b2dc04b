"""Find secrets in a text before it reaches a disk, a log, an index or a model.

Three ways to be found: a known format, a place where only a secret stands (both are lines of `secret_formats.txt`),
and a value that is assigned to a word such as *password* and looks like one (`secret_values.py`). The text is read as
people and programs would. Every step is one pass, or looks at a bounded piece: hostile texts take no longer.
"""

from __future__ import annotations

import os
import re
import unicodedata
from binascii import a2b_base64
from collections.abc import Callable, Iterable, Iterator, Sequence
from html import unescape
from itertools import pairwise
from typing import NamedTuple

from memsheaf.guard.secret_values import (
    JUDGES,
    assigned_values,
    base64_text,
    is_example,
    is_held,
    is_name,
    is_random_key,
    is_real,
    is_rest_of_token,
    is_seed,
    is_token,
    lower,
    wordiness,
)
from memsheaf.memory import INVISIBLE

MIN_FORMAT_CHARS = 14  # of what is known by its format
MIN_LONG_CHARS = 32  # of what is known by being long and random
MAX_JUDGED_CHARS = 1024  # of a value

REMOVED = "[removed: "  # prefix of what replaces a secret

Finding = tuple[str, int, int]  # the kind of a secret, and where in a view it begins and ends


class Secret(NamedTuple):
    """The place of a secret in a text and its kind; never the secret itself."""

    kind: str
    start: int
    end: int


def find_secrets(text: str) -> list[Secret]:
    """Return the secrets in a text, in order.

    >>> find_secrets("the wifi password is Corr3ct-H0rse-Fake")
    [Secret(kind='a password', start=21, end=39)]
    """
    normal = normalize(text)
    secrets = _find_in_views(View(normal, range(len(normal))))
    if normal == text or not secrets:
        return secrets
    # Where each character came from is worth knowing only now.
    return _find_in_views(normalized_view(text)) or [Secret(secrets[0].kind, 0, len(text))]


def new_secrets(text: str, old: str) -> list[Secret]:
    """Return the secrets in a text that were not in the old one, whatever else changed."""
    secrets = find_secrets(text)
    if not secrets or not old:
        return secrets
    known = {old[secret.start : secret.end] for secret in find_secrets(old)}
    return [secret for secret in secrets if text[secret.start : secret.end] not in known]


def without_secrets(text: str) -> str:
    """Return the text with `[removed: a GitHub token]` where a secret was, to be shown or kept in its stead."""
    return remove_secrets(text, find_secrets(text))


def remove_secrets(text: str, secrets: list[Secret]) -> str:
    """Return the text without these secrets."""
    for secret in reversed(secrets):
        text = f"{text[: secret.start]}{REMOVED}{secret.kind}]{text[secret.end :]}"
    return text


def _find_in_views(view: View) -> list[Secret]:
    """Return the secrets in a text that is read as it stands, with its escapes undone, and with its seams closed."""
    secrets = _locate(view, _find_all(view.text))
    decoded, closed = undo_escapes(view), close_seams(view)
    if decoded is not view:
        secrets += _locate(decoded, _find_all(decoded.text))
    if closed is not view:
        secrets += _locate(closed, _find_formatted(closed.text))
        secrets += _locate(closed, assigned_values(closed.text))
    merged: list[Secret] = []
    for secret in sorted(secrets, key=lambda secret: secret.start):
        if not merged or secret.start >= merged[-1].end:
            merged.append(secret)
        elif secret.end > merged[-1].end:  # those that share a place are one
            merged[-1] = merged[-1]._replace(end=secret.end)
    return merged


def _locate(view: View, findings: Iterable[Finding]) -> list[Secret]:
    return [Secret(kind, *view.original(start, end)) for kind, start, end in findings]


def _find_all(text: str) -> Iterator[Finding]:
    yield from _find_marked(text)
    yield from _find_formatted(text)
    yield from assigned_values(text)
    yield from _find_beside_words(text)


def _find_formatted(text: str) -> Iterator[Finding]:
    """Yield what looks as a provider says that its keys look, what is made alike, and base64 of a secret."""
    words = [word for word in text.split() if len(word) >= MIN_FORMAT_CHARS]
    for known in formats_in(words):
        for match in re.finditer(known.pattern, text):
            if not _stands_for_key(match[1][:MAX_JUDGED_CHARS].removeprefix(known.needle), known.needle):
                yield known.kind, *match.span(1)
    if max(map(len, words), default=0) < MIN_LONG_CHARS:
        return
    for match in re.finditer(_LONG_WORD, text):
        prefixed = re.fullmatch(_PREFIXED_KEY, match[0])
        if prefixed and is_random_key(prefixed[1]):
            yield "a key or token", *match.span()
    yield from _find_encoded(text)


_LONG_WORD = r"(?<![\w/+=.@-])[A-Za-z][A-Za-z0-9_-]{31,255}+(?![\w/+=-]|\.\w)"
# A word, a separator and a long run: how most providers make their keys, those of tomorrow, too.
_PREFIXED_KEY = (
    r"(?!(?:pk|pub|sha|md5|commit|msg|req|cs|phc|css|sc|chunk|file|img)[0-9]{0,3}[_-])"
    r"[A-Za-z][A-Za-z0-9]{0,11}(?:[_-][A-Za-z0-9]{1,10}){0,3}[_-]([A-Za-z0-9]{30,200}+)"
)


def _stands_for_key(rest: str, needle: str) -> bool:
    """Return True if what follows the beginning of a key makes it the example of one, or words in a name."""
    if is_example(rest) or (needle == "sk-" and is_name(rest) and (rest.islower() or wordiness(rest) >= 0.6)):
        return True
    if any(map(str.isdigit, rest)):
        return False
    has_words = rest.islower() and ("-" in rest or "_" in rest)
    return (len(needle) < 5 and wordiness(rest) >= 0.6) or (has_words and wordiness(rest) >= 0.5)


def _find_encoded(text: str) -> Iterator[Finding]:
    """Yield base64 of a private key, or of a text with a secret in it."""
    done = 0
    for match in re.finditer(r"(?<![A-Za-z0-9+/_-])[A-Za-z0-9+/_-]{24,65536}+={0,2}", text):
        start, end = match.span()
        if start < done:
            continue
        if match[0][0] == "M" and _is_private_key(match[0]):
            lines = re.compile(_KEY_LINES).match(text, end)
            done = lines.end() if lines else end
            yield "a private key", start, done
        elif any(_find_all(base64_text(match[0]))):
            yield "a secret in base64", start, end


_KEY_LINES = r"(?:(?:\\[rn]|[\s>|\"'+,])++[A-Za-z0-9+/]{16,}+={0,2})*+(?:\s++[A-Za-z0-9+/]{1,15}={1,2})?"
_ENCRYPTED_KEY = b"\x2a\x86\x48\x86\xf7\x0d\x01\x05"


def _is_private_key(data: str) -> bool:
    """Return True if base64 begins as a private key does in DER: a sequence that begins with a small version number.

    Certificates and public keys begin with a sequence inside, or with a long number. One that is encrypted says how.
    """
    head = a2b_base64(data.replace("-", "+").replace("_", "/")[:24])
    length_bytes = max(0, head[1] - 0x80)
    inside = head[2 + length_bytes :] if head[0] == 0x30 and length_bytes < 4 else b""
    has_version = inside.startswith((b"\x02\x01\x00", b"\x02\x01\x01", b"\x02\x01\x03"))
    return has_version or _ENCRYPTED_KEY in inside


_RUN_OF_WORDS = (
    r"(?<![A-Za-z])(?:(?:[0-9]{1,2}[.):]?[ \t]{1,2})?[a-z]{3,8}(?:[ \t\n,;|]{1,4}|-| - )){11,}+"
    r"(?:[0-9]{1,2}[.):]?[ \t]{1,2})?(?:[a-z]{3,8}(?![A-Za-z]))?"
)
_OF_SEEDS = r"(?i)\b(?:seed|mnemonic|wallet|bip-?39|(?:recovery|secret|backup)[ -](?:phrase|words))\b"
_OF_CODES = "2fa|mfa|otp|authenticator|one-time|set-?up|seed|secret|backup"
_SENTENCE_WORDS = (
    r"\b(?:the|and|for|with|from|your|not|are|was|has|have|had|which|been|should|would|were|their|but|our|its|into|who"
    r"|never|because|where|when|what|being|does|did|them|these|those|than)\b"
)
_IS_SECRET = r"(?<![\w-])[\"']?kind[\"']?[ \t]*:[ \t]*[\"']?Secret(?![\w-])"
_MANIFEST_DATA = (
    r"(?m)^([ \t>]*)[\"']?(?:data|stringData)[\"']?[ \t]*:[ \t]*\{?[ \t]*$"
    r"|[{,]\s*\"(?:data|stringData)\"\s*:\s*\{|[ ](?:data|stringData):(?= [\w./-]+: )"
)
_MANIFEST_ENTRY = (
    r"([\s,>]*)[\"']?[\w./-]{1,100}[\"']?[ \t]*:[ \t]*[\"']?([^\s\"',}]*)[\"']?[ \t]*(?=[,}\s]|$|(?<=\s))"
)


_COOKIE_HEADER = (
    r"(?i:cookie)[\"']?[ \t]{0,4}:[ \t]{0,4}[\"']?((?:[\w.!$%-]{1,80}=[^\s;\"',…]{0,4096}+;?[ \t]{0,4})++)"
)
_COOKIE_PAIR = (
    r"(?i)([\w.!$%-]*(?:sess|sid|auth|tok|csrf|jwt)[\w.!$%-]*|)(?:(?<=[;\s:\"'])[\w.!$%-]+)?=([^\s;\"',…]{8,})"
)
_GROUPED_CODE = (
    r"(?<![A-Za-z0-9])(?:[A-Z2-7]{4}(?:[ -][A-Z2-7]{4}){2,15}+(?:[ -][A-Z2-7]{2,4})?+"
    r"|[a-z2-7]{4}(?: [a-z2-7]{4}){2,15}+(?: [a-z2-7]{2,4})?+)(?![A-Za-z0-9])"
)
MIN_SURE_CODE_CHARS = 29  # so many groups with figures among them are a seed wherever they stand


def _find_marked(text: str) -> Iterator[Finding]:
    """Yield what stands where only a secret stands."""
    lowered = lower(text)
    for place in PLACES:
        if place.needle not in lowered:
            continue
        for match in re.finditer(place.pattern, text):
            if JUDGES[place.judge](match[1]):
                yield place.kind, *match.span(1)
    if "cookie" in lowered:
        yield from _find_cookies(text)
    if "Secret" in text and "ata" in text:
        yield from _find_in_manifests(text)
    if re.search("seed|mnemonic|wallet|bip|phrase|words", lowered):
        yield from _find_seed_phrases(text)
    yield from _find_grouped_codes(text, lowered)


def _find_cookies(text: str) -> Iterator[Finding]:
    """Yield the values of a cookie header that belong to a session."""
    for header in re.finditer(_COOKIE_HEADER, text):
        for pair in re.compile(_COOKIE_PAIR).finditer(text, *header.span(1)):
            is_secret = is_real if pair[1] else is_token
            if is_secret(pair[2]):
                yield "a cookie", *pair.span(2)


def _find_grouped_codes(text: str, lowered: str) -> Iterator[Finding]:
    """Yield seeds of one-time passwords in groups of four: long ones, and those that the words before them name."""
    for match in re.finditer(_GROUPED_CODE, text):
        is_sure = len(match[0]) >= MIN_SURE_CODE_CHARS and len(re.findall("[0-9]", match[0])) > 2
        is_named = is_sure or re.compile(_OF_CODES).search(lowered, max(0, match.start() - 80), match.start())
        if is_named and is_seed(match[0]):
            yield "a one-time password seed", *match.span()


def _find_seed_phrases(text: str) -> Iterator[Finding]:
    """Yield the words that a wallet is made again from: as many as it takes, and nothing that makes a sentence."""
    for match in re.finditer(_RUN_OF_WORDS, text):
        mention = re.compile(_OF_SEEDS).search(text, max(0, match.start() - 80), match.end())
        if not mention:
            continue
        first = max(mention.end(), match.start())
        words: list[str] = []
        for line in re.finditer(r"[^\n]*\n?", text[first : match.end()]):  # the phrase ends with a line
            words += re.findall("[a-z]+", line[0])
            if words[:1] == ["phrase"]:
                del words[0]
            if len(words) in (12, 15, 18, 21, 24) and not re.search(_SENTENCE_WORDS, " ".join(words)):
                yield "a wallet's seed phrase", first, first + line.end()
                break


def _find_in_manifests(text: str) -> Iterator[Finding]:
    """Yield the values that a Secret of Kubernetes holds, whatever they are called."""
    borders = [0, *(match.start() for match in re.finditer(r"(?m)^---", text)), len(text)]
    entries = re.compile(_MANIFEST_ENTRY)
    for first, last in pairwise(borders):
        if not re.compile(_IS_SECRET).search(text, first, last):
            continue
        for data in re.compile(_MANIFEST_DATA).finditer(text, first, last):
            entry = entries.match(text, data.end(), last)
            while entry and (data[1] is None or len(entry[1].rpartition("\n")[2]) > len(data[1])):
                if is_held(entry[2]):
                    yield "a secret of Kubernetes", *entry.span(2)
                entry = entries.match(text, entry.end(), last)


_LONG_RUN = r"(?<![\w+/=-])[A-Za-z0-9+/_-]{32,}+={0,2}(?![\w+/=-])|(?<=: )[A-Za-z0-9_-]{20,31}(?![\w+/=-]|\.\w)"
_ALL_SORTS = r"(?!pk_|pub)(?=[^a-z]*[a-z])(?=[^A-Z]*[A-Z])(?=[^0-9]*[0-9]).{1,300}$"
_SECRET_WORDS = r"\b(?:keys?|tokens?|secrets?|creds?|credentials?|passwords?)\b|\b(?:akia|asia)[a-z0-9]{16}\b"
_PUBLIC_WORDS = (
    r"public|publish|fingerprint|sha|hash|integrity|checksum|digest|commit|ssh|cert|signature|etag|uuid|revision"
    r"|data:\w+/"
)


def _find_beside_words(text: str) -> Iterator[Finding]:
    """Yield a long random word in a line that speaks of a key before it, though it does not say that this is it."""
    for match in re.finditer(_LONG_RUN, text):
        value = match[0]
        before = text[max(0, match.start() - 100) : match.start()].rpartition("\n")[2].lower()
        if not re.search(_SECRET_WORDS, before) or re.search(_PUBLIC_WORDS, before):
            continue
        pieces = value.split("/")
        is_path = sum(map(is_name, pieces)) * 2 >= len(pieces)
        if re.match(_ALL_SORTS, value) and not is_path and is_token(value):
            yield "a key or token", *match.span()


# The formats of keys and tokens as providers publish them, and places where only a secret stands. A row of the file
# is tried only where its needle stands in the text, so most texts cost a few substring tests.

LONG_WORD_CHARS = 55  # as many have the formats whose needle is a single character


class Format(NamedTuple):
    """A kind of secret, a needle that stands in every one, and how it looks; group 1 is the secret."""

    kind: str
    needle: str
    pattern: str


class SecretPlace(NamedTuple):
    """A place where only a secret stands: its kind, a needle in lower case, a judge of `JUDGES`, its look.

    Group 1 of the pattern is a secret if the judge takes it for one.
    """

    kind: str
    needle: str
    judge: str
    pattern: str


def _read_tables() -> dict[str, list[list[str]]]:
    tables: dict[str, list[list[str]]] = {}
    with open(os.path.join(os.path.dirname(__file__), "secret_formats.txt"), encoding="utf-8") as file:
        lines = file.read().splitlines()
    for line in lines:
        if line.startswith("["):
            rows = tables.setdefault(line.strip("[]"), [])
        elif line and not line.startswith("#"):
            rows.append(line.split(" | "))
    return tables


_TABLES = _read_tables()
_NAMES = dict(_TABLES["names"])


def _expand(pattern: str) -> str:
    return re.sub(r"\(\?&(\w+)\)", lambda name: _expand(_NAMES[name[1]]), pattern)


def _beginnings() -> Iterator[Format]:
    for kind, starts, least, characters in _TABLES["beginnings"]:
        count = f"{{{least},}}+"
        end = ""
        if characters == "UPPER" and least == "16":
            count = "{16}"  # an access key has one length
        if characters in ("UPPER", "HEX"):
            end = "(?![A-Za-z0-9])"  # a longer run is something else
        for start in starts.split():
            # A short start must stand at the start of a word; what is long enough may be anywhere.
            edge = r"(?:(?<![A-Za-z0-9])|(?<=\\[nrt]))" if len(start) < 6 else ""
            following = _NAMES.get(characters, characters)
            yield Format(kind, start, f"{edge}({re.escape(start)}{following}{count}{end})")


FORMATS = (*_beginnings(), *(Format(*row) for row in _TABLES["shapes"]))
PLACES = tuple(SecretPlace(kind, needle, judge, _expand(look)) for kind, needle, judge, look in _TABLES["places"])


def formats_in(words: list[str]) -> list[Format]:
    """Return the formats whose needle stands in one of these words."""
    text = " ".join(words)
    has_long_word = any(len(word) >= LONG_WORD_CHARS for word in words)
    return [known for known in FORMATS if known.needle in text and (has_long_word or len(known.needle) > 1)]


# A text as the search reads it: compatibility forms folded, escapes undone, broken tokens put together. A view knows
# where each of its characters comes from, so that what is found in it is found in the text.

# one character with the marks and vowels that it composes with
_COMPOSED_CHARACTER = r"(?s).[\u0300-\u036f\u1160-\u11ff\u3099\u309a]{0,8}"
_ASCII_ESCAPE = (
    r"%[2-7][0-9A-Fa-f]|&#[xX]0{0,6}[2-7][0-9A-Fa-f];|\\x[2-7][0-9A-Fa-f]|\\u00[2-7][0-9A-Fa-f]"
    r"|\\[nrt\"'/]|&#0{0,6}[0-9]{2,3};|&(?:amp|quot|apos|lt|gt|colon|equals|lowbar|hyphen|sol|plus);"
)
# A line break with what indents or quotes the next line, or the seam of two strings, inside a token; what follows it
# in its line, and whether that is all.
_TOKEN_SEAM = (
    # a character to begin with, and no space inside a line: most are passed over quickly
    r"[ \t\\\r\n\"'](?:(?<![ \t])|(?=[ \t\\\r\n]))(?<=[A-Za-z0-9+/_=.~%-]{6}[\s\S])"
    r"(?:(?:(?<=[ \t])[ \t]{0,7}\\?\r?\n|(?<=\\)\r?\n|(?<=\r)\n|(?<=\n))[ \t>#*|]{0,16}"
    r"|(?<=\\)r\\n|(?<=\\)n|(?<=[\"'])[ \t]{0,4}[+\\]?[ \t\r\n]{0,16}[\"'])"
    r"(?=([A-Za-z0-9+/_=.~%-]{2,200}+)([\"'`,;)\]} \t]{0,4}(?:\\?\r?\n|\\n|$))?)"
)
MIN_REST_CHARS = 8  # of a token, where more follows in its line


class View(NamedTuple):
    """A text as it is read, and for each of its characters the place that it has in the text itself."""

    text: str
    origins: Sequence[int]

    def original(self, start: int, end: int) -> tuple[int, int]:
        """Return where a piece of the view stands in the text itself."""
        return self.origins[start], self.origins[end - 1] + 1


def normalize(text: str) -> str:
    """Return a text without characters that cannot be seen, in compatibility forms."""
    return re.sub(f"[{INVISIBLE}]", "", unicodedata.normalize("NFKC", text))


def normalized_view(text: str) -> View:
    """Return a text as `normalize` does, with the places of its characters."""
    pieces: list[str] = []
    origins: list[int] = []
    for cluster in re.finditer(_COMPOSED_CHARACTER, text):
        piece = cluster[0] if cluster[0].isascii() else normalize(cluster[0])
        pieces.append(piece)
        origins += [cluster.start()] * len(piece)
    return View("".join(pieces), origins)


def undo_escapes(view: View) -> View:
    """Return a text with its escapes for ASCII undone: percent, HTML, backslash."""
    if not any(mark in view.text for mark in "%&\\"):
        return view
    return _replace(view, _ASCII_ESCAPE, _read_escape)


def _read_escape(match: re.Match[str]) -> str:
    """Return the character that an escape stands for; the escape itself where that character is invisible."""
    escape = match[0]
    if escape[0] == "\\" and len(escape) == 2:
        return {"n": "\n", "r": "\r", "t": "\t"}.get(escape[1], escape[1])
    if escape[0] != "&":
        escape = f"&#x{escape[-2:]};"
    character = unescape(escape).replace("\u2010", "-")
    return character if " " <= character <= "~" else match[0]


def close_seams(view: View) -> View:
    """Return a text in which tokens that are broken over two lines or two strings are put together."""

    def join(match: re.Match[str]) -> str:
        if "n" in match[0] or "\n" in match[0]:
            before = view.text[max(0, match.start() - 80) : match.start()]
            if not _is_torn(before, match[1], is_alone=match[2] is not None):
                return match[0]
        return ""

    if not any(mark in view.text for mark in "\n\\\"'"):
        return view
    return _replace(view, _TOKEN_SEAM, join)


def _is_torn(before: str, rest: str, *, is_alone: bool) -> bool:
    """Return True if the rest of a line, all of it or a part, belongs to the token at the end of the line before."""
    if is_alone:
        if not is_rest_of_token(rest):
            return False
    elif len(rest) < MIN_REST_CHARS or not is_token(rest):
        return False
    longest = max((len(known.needle) for known in formats_in(before.split()[-1:])), default=0)
    if not is_alone:
        return longest > 3
    begins_anew = any(rest.startswith(known.needle) for known in formats_in([rest]) if len(known.needle) > 2)
    return longest > 2 or not begins_anew


def _replace(view: View, pattern: str, meaning: Callable[[re.Match[str]], str]) -> View:
    """Return a view in which each match is replaced by its meaning."""
    pieces: list[str] = []
    origins: list[int] = []
    done = 0
    for match in re.finditer(pattern, view.text):
        piece = meaning(match)
        if piece == match[0]:
            continue
        start, end = match.span()
        pieces += view.text[done:start], piece
        origins += view.origins[done:start]
        origins += [view.origins[end - 1]] * len(piece)
        done = end
    if not done:
        return view
    return View("".join([*pieces, view.text[done:]]), [*origins, *view.origins[done:]])
