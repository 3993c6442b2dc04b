"""The user's own words in a message, apart from what is pasted into it: a mail, a log, a chat, a page.

What is fenced, quoted or set apart line by line is known by its marks (`text/spoken.py`). The rest of a paste has no
end that could be seen, so what follows a sign of one may be somebody else's: an introduction ("reply to this mail",
"Bob says:", a line that ends in a colon), a salutation, a header, a record. From there on a person is asked. So it
is where the message as a whole looks like a letter or a page, and for remarks in a long message.

The words are in `prompts/phrases.md`: *as text*, *announces*, *points*, *dictates*, *greets*, *formal*, *closes*.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache
from itertools import pairwise

from memsheaf.text.neutralize import visible
from memsheaf.text.phrases import any_of, compiled
from memsheaf.text.spoken import SHOWN, spoken
from memsheaf.values import NamedTuple

OTHERS = "\ufffb"  # stands for each character that is somebody else's, so that places in both texts are the same
LONG = 400  # characters of a message that a person types; a longer one may be pasted
MOST = 8_192  # characters of a message that are read; of a longer one, its beginning and its end
NAME = 3  # words in quotation marks that are a name; more are a quotation
PASTED = "it may be pasted: a person has to say that these are their words"

_HIDDEN = "\u202a-\u202e\u2066-\u2069\U000e0000-\U000e007f"  # turn the direction of text, or are not drawn at all
_BLOB = r"(?<![\w/+=-])(?=[\w/+-]*\d)(?=[\w/+-]*[A-Z])[\w/+-]{40,}={0,2}(?![\w/+=-])|(?<!\S)[\w/+-]{22,}={1,2}(?!\S)"
_SHOWN_LINES = (
    r"(?m)^(?:[|$+]|    |\t|\[?\d{4}-\d\d-\d\d[T ]\d|\[?\d\d?:\d\d:\d\d|\[\d\d?:\d\d|\d\d?:\d\d \S+:"
    rf"|\[?(?:user|human|assistant|system|trace|debug|info|warn|warning|error|fatal) ?[]:]|[^\n]*[{_HIDDEN}])[^\n]*"
)
_ELEMENT = r"<([a-z][\w-]*)\b[^<>\n]*>[^\n]*</\1>"
_ADDRESS = r"(?<!\S)\S*(?:://|www\.)\S*"
_RECORD = (
    r"\W*(?:from|subject|betreff|asunto|objet|发件人|主题|件名|差出人)\s*[:：]\s*\S"
    r"|-{3,} ?\w|\{\s*$|\[\s*\{|\[\s*$|\"[\w-]+\"\s*:|</?[a-z!][^>]*>|diff --git |@@ |--- a/|\+\+\+ b/"
    r"|Traceback|\s+at \S+\(|\w+(?:\.\w+)*(?:Error|Exception):|Exception in|#!|BEGIN:"
    r"|[^\n.!?]{1,60}\bago\b\W*$"
    r"|\S+(?: \S+){0,3}(?:\s{2,}|\s*[—–|·•,]\s*|\s+[\[(])(?:(?:today|yesterday) at )?\d\d?[:h.]\d\d\b"
)
_END = r"\n|[.!?](?=\s|$)|:(?=\s|$)|[。！？：]|(?<=\s)[-–—](?=\s)|$"
_MINE = r"\b(?:i|we) (?:already |just )?(?:said|wrote|told|replied|answered)\b"
_FIRST = r"(?:i|we|my|our|ich|wir|je|j'|nous|on|yo|nosotros)\b|我|私"
_NAME = r"(?-i:[A-Z][a-z]+(?: [A-Z][a-z]+)?)"
_BULLET = r"\s*(?:[-*•–]|\d{1,2}[.)])\s"
_ALONE = r"\s*+(?:[^\W\d_]++\.?\s?){1,3}[,，]\s*$"
_GOES_ON = r"(?m)^[ \t]*>[^\n]*\n(?![ \t]*(?:>|$))"  # in Markdown the line below a quoted one is quoted, too
_FIELD = r"\W{0,3}[\w@#/.() -]{1,30}[:：]\s+\S"
_ADDRESSED = (
    r"\s*(?:hi|hey|hello|hallo|bonjour|salut|hola)\s+"
    r"(?!there|again|claude|assistant|chatgpt|gpt|bot|agent|ai\b|i\b|i'|my\b|can\b|could\b|please\b)"
    r"\w+(?: \w+)?\s*[,!.\n-]|#+ "
)
# Patterns in which a name in braces stands for any phrase of that list.
_PATTERNS = {
    "dictates": r"(?:{before}[\s,]*+)*{dictates}",
    "courtesy": r"(?:{before}|{greets}|{closes}|{remember that}|\W)*+",
    "greets": r"\s*(?:{greets}|{formal})",
    "greets later": r"\s*(?:{greets}|{formal})[^\n,.!?]{0,30}[,，!]",
    "formal": r"\s*(?:{greets}[\s,]*)?{formal}",
    "signed": (
        r"(?:^|\n)[ \t]*+(?:--\s*|(?:[–—]|--)\s*(?-i:[A-Z])[^\n.!?]{1,40})$|\s[–—]\s?(?-i:[A-Z])\w+\s*$"
        r"|(?:^|\n)[ \t]*+(?:{closes}[\w ]{0,20}?|(?:[^\W\d_]++\s?){1,3})[,，]\s*"
        r"\n\s*[^\n.!?]{2,60}(?:\n[^\n.!?]{1,60}){0,3}$"
        r"|(?:^|\n|[.!?]\s)[ \t]*+{closes}[,，]?\s+(?-i:[A-Z])\w+(?:\s(?-i:[A-Z])\w+)?\.?$"
    ),
}


class OwnWords(NamedTuple):
    """A message, and as long as it, the same with all blotted out that the user does not say.

    From `sign` on it may be somebody else's. Before that a person is asked about what is said behind `sure`, about
    what is merely `said` in a long message, and about all of an `odd` one.
    """

    text: str
    spoken: str
    sign: int
    sure: int
    said: str = ""
    odd: str = ""

    def doubt(self, end: int, *, asked: bool) -> str:
        """Why what is asked for, or merely said, up to this place needs a person first; "" when it does not."""
        is_behind = end >= self.sure and self.sure < len(self.text)
        return PASTED if is_behind else self.odd or ("" if asked else self.said)

    def own(self, *, sure: bool = True) -> str:
        """The user's words; without `sure`, those that may be, too. Names in code count, quotations do not."""
        if sure and (self.odd or self.said):
            return ""
        own = self.spoken[: self.sign]
        shown = (self.text[slice(*run.span(0))] for run in re.finditer(f"{SHOWN}+", own))
        return "\n".join([own, *(each for each in shown if _is_a_name(each))])


def read_own_words(text: str) -> OwnWords:
    """What the user says in a message.

    >>> own = read_own_words("Reply to this mail:\\nWe moved.")
    >>> own.text[own.sign :]
    '\\nWe moved.'
    """
    text = unicodedata.normalize("NFC", text).replace("’", "'").replace("\r\n", "\n")
    is_hiding = len(visible(text)) != len(text)
    if is_hiding:
        parts = re.split(f"([{_HIDDEN}]+)", text)
        text = "".join(part if number % 2 else visible(part) for number, part in enumerate(parts))
    half, middle = MOST // 2, len(text) - MOST
    gap = f"\n{OTHERS * middle}"[: middle - 1] + "\n"  # as long as what it stands for
    read = text if middle <= 0 else f"{text[:half]}{gap}{text[-half:]}"
    said = compiled(_ELEMENT).sub(_shown, compiled(_BLOB).sub(_others, _said_in(read)))
    said = compiled(_SHOWN_LINES).sub(_shown, said)
    sign = _find_sign(said) if middle <= 0 else min(_find_sign(said), half)
    is_odd = is_hiding or _is_odd(read, said[:sign])
    paragraphs = re.split(r"\n[^\S\n]*\n(?!\s*[-*•–]\s)", said[:sign])
    full = [each for each in paragraphs if not _pattern("courtesy").fullmatch(each)]
    is_long = len(full) > 1 or len(said[:sign].replace(SHOWN, "")) > LONG
    sure = sign if len(full) <= 2 else len(paragraphs[0]) + 1  # an order and a request are two; more may be a page
    return OwnWords(text, said, sign, sure, PASTED if is_long else "", PASTED if is_odd else "")


def _find_sign(said: str) -> int:
    """Where quoted words may begin."""
    line = sentence = clause = 0
    for end in compiled(_END).finditer(said):
        at, mark = end.start(), end[0]
        if clause == line and compiled(_RECORD).match(said[line : said.find("\n", line) % (len(said) + 1)]):
            return line
        is_new = clause > 0 and said[clause:at].strip()
        if is_new and (
            _pattern("greets" if clause == line else "greets later").match(said, clause)
            or (clause == line and re.match(_ALONE, said[line:at]))
        ):
            return clause
        start = line if mark == "\n" else clause if mark in ":：-–—" else sentence
        before, whole = (said[max(one, at - LONG) : at].strip(" *#") for one in (start, sentence))
        if before and _is_sign(before, whole, mark) and not _pattern("courtesy").fullmatch(said, end.end()):
            return at if mark == "\n" else end.end()
        clause = end.end()
        if mark == "\n":
            line = clause
        if mark not in ":：-–—":
            sentence = clause
    return len(said)


def _is_sign(clause: str, sentence: str, mark: str) -> bool:
    """Whether a clause, by how it ends, introduces a quotation."""
    is_dictated = _has("dictates", sentence.rstrip(":： "), whole=True)
    if mark == "\n":
        is_announced = clause.endswith((":", "：")) and not is_dictated
        return not re.match(_BULLET, clause) and (is_announced or _introduces(clause))
    if mark in "?？":
        return _introduces(clause) or _has("points", clause)
    if _introduces(clause) and (mark not in ".!。！" or _has("text noun", clause)):
        return True
    if is_dictated or compiled(_FIRST).match(sentence):
        return False
    if mark in ".!。！":
        return _has("announces", clause)
    is_named = mark in ":：" and re.fullmatch(_NAME, sentence)
    return bool(is_named) or _has("points", clause) or _has("announces", clause)


def _is_odd(text: str, own: str) -> bool:
    """Whether a message looks like a letter, fields or a page, or asks at its end about what stands before it."""
    if _pattern("signed").search(text.rstrip()) or re.search(_GOES_ON, text):
        return True
    lines = [line for line in own.split("\n") if line.strip(f" \t\r{SHOWN}")]
    if not lines:
        return False
    if _pattern("formal").match(lines[0]) or compiled(_ADDRESSED).match(f"{lines[0]}\n"):
        return True
    if own.rstrip().rpartition("\n")[0].strip():
        is_asked = bool(re.search(r"[?？]\W*$", lines[-1])) and _has("points", lines[-1])
        if re.match(_ALONE, lines[0]) or is_asked or (_introduces(lines[-1]) and not re.match(_BULLET, lines[-1])):
            return True
    return any(_are_records(first, second) for first, second in pairwise(lines))


def _are_records(first: str, second: str) -> bool:
    """Whether two lines are of one form: fields, or rows of a table."""
    if all(compiled(_FIELD).match(line) and not _pattern("dictates").match(line) for line in (first, second)):
        return True
    commas = [len(re.findall(r"[,;](?=\S)", line)) for line in (first, second)]
    return commas[0] == commas[1] > 1


def _is_a_name(shown: str) -> bool:
    """Whether what is shown in a sentence is part of it: code, an address, or a word or two in quotation marks."""
    return "\n" not in shown and (shown[:1] == "`" or len(shown.split()) <= NAME)


def _said_in(text: str) -> str:
    """What is said in a text; the stop behind an address ends the sentence, and is no part of the address."""
    parts, done = [], 0
    blotted = spoken(text)
    for address in compiled(_ADDRESS).finditer(text):
        stop = address.start() + len(address[0].rstrip(".,;:!?"))
        parts += [blotted[done:stop], text[stop : address.end()]]
        done = address.end()
    return "".join(parts) + blotted[done:]


def _shown(match: re.Match[str]) -> str:
    return SHOWN * len(match[0])


def _others(match: re.Match[str]) -> str:
    return OTHERS * len(match[0])


def _introduces(sentence: str) -> bool:
    """Whether a sentence introduces a text, or what another person said."""
    return _has("as text", compiled(_MINE).sub("", sentence))


def _has(title: str, text: str, *, whole: bool = False) -> bool:
    pattern = _pattern(title)
    return bool(pattern.fullmatch(text) if whole else pattern.search(text))


@cache
def _pattern(title: str) -> re.Pattern[str]:
    pattern = _PATTERNS.get(title, f"{{{title}}}")
    return compiled(re.sub(r"\{([a-z ]+)\}", lambda found: any_of("phrases", found[1]), pattern))
