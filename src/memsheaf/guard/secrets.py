"""Find secrets in a text before it reaches a disk, a log, an index or a model.

Three ways to be found: a known format, a place where only a secret stands (both in `secret_formats.py`), and a value
that is assigned to a word such as *password* and looks like one (`secret_values.py`). The text is read as people and
programs would (`secret_views.py`). Every step is one pass, or looks at a bounded piece: hostile texts take no longer.
"""

from __future__ import annotations

import re
import unicodedata
from binascii import a2b_base64
from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from memsheaf.guard.secret_values import (
    assigned_values,
    base64_text,
    find_announced,
    fits,
    is_example,
    is_name,
    lower,
    wordiness,
)
from memsheaf.guard.secret_views import View, close_seams, is_torn, normalize, undo_escapes
from memsheaf.memory import INVISIBLE

SHORTEST = 14  # of what is known by its format
LONGEST = 1024  # characters of a value by which it is judged

REMOVED = "[removed: "  # prefix of what replaces a secret


class Secret(NamedTuple):
    """Where in a text a secret stands and what it is; never the secret itself."""

    kind: str
    start: int
    end: int


class _Found(NamedTuple):
    secret: Secret
    value: str


def find_secrets(text: str) -> list[Secret]:
    """The secrets in a text, in order.

    >>> find_secrets("the wifi password is Corr3ct-H0rse-Fake")
    [Secret(kind='a password', start=21, end=39)]
    """
    return [found.secret for found in _scan(text)]


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


_fits = lru_cache(512)(fits)  # until the text is scanned


def _scan(text: str) -> list[_Found]:
    try:
        return _scan_views(text)
    finally:  # what repeats itself was judged once, and nothing is kept
        for judged in (_fits, is_torn, find_announced):
            judged.cache_clear()


def _scan_views(text: str) -> list[_Found]:
    if text.isascii():
        return _in_text(View(text))
    normal = re.sub(f"[{INVISIBLE}]", "", unicodedata.normalize("NFKC", text))
    found = _in_text(View(normal))
    if normal == text or not found:
        return found
    # where each character came from is worth knowing only now
    return _in_text(normalize(text)) or [_Found(Secret(found[0].secret.kind, 0, len(text)), found[0].value)]


def _in_text(view: View) -> list[_Found]:
    """The secrets in a text that is read as it stands, with its escapes undone, and with its seams closed."""
    found = [*_in_view(view)]
    if decoded := undo_escapes(view):
        found += _in_view(decoded)
    if closed := close_seams(view):
        found += _formatted(closed, _long_words(closed.text))
        found += _assigned(closed)
    return _merged(found) if len(found) > 1 else found


def _in_view(view: View) -> Iterator[_Found]:
    long = _long_words(view.text)
    yield from _marked(view)
    yield from _formatted(view, long)
    yield from _assigned(view)
    yield from _beside(view, long)


def _long_words(text: str) -> list[str]:
    return [word for word in text.split() if len(word) >= SHORTEST]


def _assigned(view: View) -> Iterator[_Found]:
    for kind, start, end in assigned_values(view.text):
        yield _as_found(view, kind, start, end)


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


def _as_found(view: View, kind: str, start: int, end: int) -> _Found:
    return _Found(Secret(kind, *view.original(start, end)), view.text[start:end])


def _formatted(view: View, long: list[str]) -> Iterator[_Found]:
    """What looks as a provider says that its keys look, what is made alike, and base64 with such a thing in it."""
    from memsheaf.guard.secret_formats import begun, found

    if not long:
        return
    for known in begun(long):
        for match in found(re.compile(known.pattern), view.text, known.needle, known.back):
            if not _stands_for(match[1][:LONGEST], known.needle):
                yield _as_found(view, known.kind, *match.span(1))
    if max(map(len, long)) >= 32:
        for match in re.finditer(_ONE_WORD, view.text):
            if _is_made_alike(match[0]):
                yield _as_found(view, "a key or token", *match.span())
        yield from _encoded(view)


_ONE_WORD = r"(?<![\w/+=.@-])[A-Za-z][A-Za-z0-9_-]{31,255}+(?![\w/+=-]|\.\w)"


def _is_made_alike(word: str) -> bool:
    """Whether a word is made as most providers make their keys."""
    from memsheaf.guard.secret_formats import PREFIXED

    prefixed = re.fullmatch(PREFIXED, word)
    return prefixed is not None and fits(prefixed[1], "random")


def _stands_for(value: str, needle: str) -> bool:
    """Whether what looks like a key is the example of one, or words in a name."""
    rest = value.removeprefix(needle)
    if is_example(rest) or (needle == "sk-" and is_name(rest) and (rest.islower() or wordiness(rest) >= 0.6)):
        return True
    if any(map(str.isdigit, rest)):
        return False
    is_listed = rest.islower() and ("-" in rest or "_" in rest)
    return (len(needle) < 5 and wordiness(rest) >= 0.6) or (is_listed and wordiness(rest) >= 0.5)


def _encoded(view: View) -> Iterator[_Found]:
    """Base64 of a private key, or of a text with a secret in it."""
    done = 0
    for match in re.finditer(r"(?<![A-Za-z0-9+/_-])[A-Za-z0-9+/_-]{24,65536}+={0,2}", view.text):
        if match.start() < done:
            continue
        if match[0][0] == "M" and _is_private(match[0]):
            done = re.compile(_KEY_LINES).match(view.text, match.end()).end()  # type: ignore[union-attr]
            yield _as_found(view, "a private key", match.start(), done)
        elif (inner := base64_text(match[0])) and any(_in_view(View(inner))):
            yield _as_found(view, "a secret in base64", *match.span())


_KEY_LINES = r"(?:(?:\\[rn]|[\s>|\"'+,])++[A-Za-z0-9+/]{16,}+={0,2})*+(?:\s++[A-Za-z0-9+/]{1,15}={1,2})?"


def _is_private(data: str) -> bool:
    """Whether base64 begins as a private key does in DER: a sequence that begins with a small version number.

    Certificates and public keys begin with a sequence inside, or with a long number. One that is encrypted says how.
    """
    head = a2b_base64(data.replace("-", "+").replace("_", "/")[:24])
    long = head[1] & 0x7F if head[1] & 0x80 else 0
    inside = head[2 + long :] if head[0] == 0x30 and long < 4 else b""
    return (inside[:2] == b"\x02\x01" and inside[2] in (0, 1, 3)) or b"\x2a\x86\x48\x86\xf7\x0d\x01\x05" in inside


_RUN_OF_WORDS = (
    r"(?<![A-Za-z])(?:(?:[0-9]{1,2}[.):]?[ \t]{1,2})?[a-z]{3,8}(?:[ \t\n,;|]{1,4}|-| - )){11,}+"
    r"(?:[0-9]{1,2}[.):]?[ \t]{1,2})?(?:[a-z]{3,8}(?![A-Za-z]))?"
)
_OF_SEEDS = r"(?i)\b(?:seed|mnemonic|wallet|bip-?39|(?:recovery|secret|backup)[ -](?:phrase|words))\b"
_OF_CODES = "2fa|mfa|otp|authenticator|one-time|set-?up|seed|secret|backup"
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


def _marked(view: View) -> Iterator[_Found]:
    """What stands where only a secret stands."""
    from memsheaf.guard.secret_formats import COOKIE, FIVE_GROUPS, GROUPED, PAIR, PLACES, TWO_GROUPS, found

    text, lowered = view.text, lower(view.text)
    for kind, needle, pattern, ask, back, probe in PLACES:
        if needle in lowered and (not probe or re.search(probe, lowered)):
            for match in found(re.compile(pattern), text, needle, back, lowered):
                start, end = match.span(1)
                if needle == "private key":  # a key block has its dashes before it, as many as were not lost
                    start -= len(re.compile(r"(?:-*+ ?)$").search(text, max(0, start - 12), start)[0])  # type: ignore[index]
                if _fits(text[start:end], ask):
                    yield _as_found(view, kind, start, end)
    for match in re.finditer(COOKIE, text) if "cookie" in lowered else ():
        for pair in re.compile(PAIR).finditer(text, *match.span(1)):
            if _fits(pair[2], "any" if pair[1] else "token"):
                yield _as_found(view, "a cookie", *pair.span(2))
    if "Secret" in text and "ata" in text:
        yield from _in_manifests(view)
    if re.search("seed|mnemonic|wallet|bip|phrase|words", lowered):
        yield from _seeds(view)
    runs = (text[max(0, one.start() - 4) : one.end()] for one in re.finditer(FIVE_GROUPS, text))
    may_be_grouped = re.search(TWO_GROUPS, text) and (
        re.search(_OF_CODES, lowered) or any(sum(map(str.isdigit, run)) > 2 for run in runs)
    )
    for match in re.finditer(GROUPED, text) if may_be_grouped else ():
        # so many groups with figures among them are one wherever they stand
        is_sure = len(match[0]) >= 29 and sum(map(str.isdigit, match[0])) > 2
        is_said = is_sure or re.compile(_OF_CODES).search(lowered, max(0, match.start() - 80), match.start())
        if is_said and _fits(match[0], "seed"):
            yield _as_found(view, "a one-time password seed", *match.span())


def _seeds(view: View) -> Iterator[_Found]:
    """The words that a wallet is made again from: as many as it takes, and nothing that makes a sentence."""
    text = view.text
    for match in re.finditer(_RUN_OF_WORDS, text):
        spoken_of = re.compile(_OF_SEEDS).search(text, max(0, match.start() - 80), match.end())
        first = max(spoken_of.end(), match.start()) if spoken_of else match.end()
        words: list[str] = []
        for line in re.finditer(r"[^\n]*\n?", text[first : match.end()]):  # the phrase ends with a line
            words += re.findall("[a-z]+", line[0])
            words = words[1:] if words[:1] == ["phrase"] else words
            if len(words) in (12, 15, 18, 21, 24) and not re.search(_SENTENCE, " ".join(words)):
                yield _as_found(view, "a wallet's seed phrase", first, first + line.end())
                break


def _in_manifests(view: View) -> Iterator[_Found]:
    """The values that a Secret of Kubernetes holds, whatever they are called."""
    text = view.text
    starts = [0, *(match.start() for match in re.finditer(r"(?m)^---", text)), len(text)]
    for first, last in pairwise(starts):
        if not re.compile(_IS_SECRET).search(text, first, last):
            continue
        for held in re.compile(_HELD).finditer(text, first, last):
            entry = re.compile(_ENTRY).match(text, held.end(), last)
            while entry and (held[1] is None or len(entry[1].rpartition("\n")[2]) > len(held[1])):
                if fits(entry[2], "held"):
                    yield _as_found(view, "a secret of Kubernetes", *entry.span(2))
                entry = re.compile(_ENTRY).match(text, entry.end(), last)


def _beside(view: View, long: list[str]) -> Iterator[_Found]:
    """A long random word in a line that speaks of a key before it, though it does not say that this is the one."""
    if max(map(len, long), default=0) < 20:
        return
    for match in re.finditer(_LONG_RUN, view.text):
        start, end = match.span()
        before = view.text[max(0, start - 100) : start].rpartition("\n")[2].lower()
        if not re.search(_SPOKEN_OF, before) or re.search(_IN_PUBLIC, before):
            continue
        if end - start <= 300 and not _is_plain(match[0]):
            yield _as_found(view, "a key or token", start, end)


def _is_plain(value: str) -> bool:
    """Whether a long word is a path, a name, a public key, or anything else but a token."""
    if value.startswith(("pk_", "pub")) or not re.match(_ALL_SORTS, value):
        return True
    named = sum(map(is_name, pieces := value.split("/"))) * 2 >= len(pieces)
    return named or not fits(value, "token")


_LONG_RUN = r"(?<![\w+/=-])[A-Za-z0-9+/_-]{32,}+={0,2}(?![\w+/=-])|(?<=: )[A-Za-z0-9_-]{20,31}(?![\w+/=-]|\.\w)"
_ALL_SORTS = r"(?=[^a-z]*[a-z])(?=[^A-Z]*[A-Z])(?=[^0-9]*[0-9])"
_SPOKEN_OF = r"\b(?:keys?|tokens?|secrets?|creds?|credentials?|passwords?)\b|\b(?:akia|asia)[a-z0-9]{16}\b"
_IN_PUBLIC = (
    r"public|publish|fingerprint|sha|hash|integrity|checksum|digest|commit|ssh|cert|signature|etag|uuid|revision"
    r"|data:\w+/"
)
