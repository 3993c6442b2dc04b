"""The user's own words in a message, apart from what is pasted into it: a mail, a log, a chat, a page.

What is fenced, quoted or set apart line by line is known by its marks (`text/spoken.py`). The rest of a paste has
no end that could be seen, so all that follows one of these is somebody else's: an introduction ("reply to this mail",
"Bob says:", "it reads as follows.", a line that ends in a colon), a salutation, a header, or the first line of a
record or a program's text. Where nothing introduces it, shape decides whether a person is asked: a signature, several
paragraphs, much text, characters that draw nothing.

The words are in `prompts/phrases.md`: *as text*, *announces*, *points*, *dictates*, *greets*, *formal*, *closes*.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import cache
from itertools import pairwise

from memsheaf.text.neutralize import visible
from memsheaf.text.phrases import any_of, compiled
from memsheaf.text.spoken import SHOWN, spoken
from memsheaf.values import NamedTuple

OTHERS = "\ufffb"
"""Stands for each character that is somebody else's, so that places in both texts are the same."""

LONG = 400
"""How many characters of a message may be a person's who types; what is longer may be pasted."""

MOST = 8_192
"""How many characters of a message are looked at; of a longer one, its beginning and its end."""

NAME = 3
"""How many words in quotation marks are a name; more are what somebody said."""

LABEL = 2
"""How many words before a colon are a label ("Decision:"); more may tell whose words follow."""

PASTED = "it may be pasted: a person has to say that these are their words"

_HIDDEN = "\u202a-\u202e\u2066-\u2069\U000e0000-\U000e007f"  # turn the direction of text, or are not drawn at all
_BLOB = r"(?<![\w/+=-])(?=[\w/+-]*\d)(?=[\w/+-]*[A-Z])[\w/+-]{40,}={0,2}(?![\w/+=-])|(?<!\S)[\w/+-]{22,}={1,2}(?!\S)"
_SHOWN_LINES = (
    r"(?m)^(?:[|$+]|    |\t|\[?\d{4}-\d\d-\d\d[T ]\d|\[?\d\d?:\d\d:\d\d|\[\d\d?:\d\d|\d\d?:\d\d \S+:"
    rf"|\[?(?:user|human|assistant|system|trace|debug|info|warn|warning|error|fatal) ?[]:]|[^\n]*[{_HIDDEN}])[^\n]*"
)
_GOES_ON = r"(?m)^[ \t]*>[^\n]*\n(?![ \t]*(?:>|$))"  # in Markdown the line below a quoted one is quoted, too
_ELEMENT = r"<([a-z][\w-]*)\b[^<>\n]*>[^\n]*</\1>"
_RECORD = (
    r"\W*(?:from|subject|betreff|asunto|objet|发件人|主题|件名|差出人)\s*[:：]\s*\S"
    r"|-{3,} ?\w|\{\s*$|\[\s*\{|\[\s*$|\"[\w-]+\"\s*:|</?[a-z!][^>]*>|diff --git |@@ |--- a/|\+\+\+ b/"
    r"|Traceback|\s+at \S+\(|\w+(?:\.\w+)*(?:Error|Exception):|Exception in|#!|BEGIN:"
    r"|[^\n.!?]{1,60}\bago\b\W*$"
    r"|\S+(?: \S+){0,3}(?:\s{2,}|\s*[—–|·•,]\s*|\s+[\[(])(?:(?:today|yesterday) at )?\d\d?[:h.]\d\d\b"
)
_MINE = r"\b(?:i|we) (?:already |just )?(?:said|wrote|told|replied|answered)\b"
_FIRST = r"(?:i|we|my|our|ich|wir|je|j'|nous|on|yo|nosotros)\b|我|私"
_SHOUTED = r"\s*(?!FYI|PSA|NOTE|TODO|IMPORTANT|REMINDER|RULE|REMEMBER)[A-Z]{3}[A-Z ]+:"
_HEADING = r"#+ |[^\n]{1,60}\n?={3,}"
_NAME = r"(?-i:[A-Z][a-z]+(?: [A-Z][a-z]+)?)"
_DASHED = r"\s*-+\s*[A-Z]\w+(?: [A-Z]\w+){0,2}\s*$"
_FIELD = r"\W{0,3}[\w@#/.() -]{1,30}[:：]\s+\S"
_ADDRESS = r"(?<!\S)\S*(?:://|www\.)\S*"
_BULLET = r"\s*(?:[-*•–]|\d{1,2}[.)])\s"
_ALONE = r"\s*+(?:[^\W\d_]++\.?\s?){1,3}[,，]\s*$"
_NAMED = (
    r"\s*(?:hi|hey|hello|hallo|bonjour|salut|hola)\s+"
    r"(?!there|again|claude|assistant|chatgpt|gpt|bot|agent|ai\b|i\b|i'|my\b|can\b|could\b|please\b)"
    r"\w+(?: \w+)?\s*[,!.\n-]"
)
# Patterns in which a name in braces stands for any phrase of that list.
_PATTERNS = {
    # where an introduction may end: at a colon, or at a stop behind words that announce what follows
    "ends": r"[:：](?=\s|$)|：|{announces}[\"'*)]*[.!。！](?=\s|$|(?<=[。！]))",
    "announces": "{announces}",
    "points": "{points}",
    "as text": "{as text}",
    "text noun": "{text noun}",
    "dictates": r"(?:{before}[\s,]*+)*{dictates}",
    "courtesy": r"(?:{before}|{greets}|{closes}|\W)*+",
    "refers back": r"(?:{before}|{closes}|{remember that}|\W)*+",
    "greets": r"\s*(?:{greets}|{formal})",
    "greets later": r"(?<=[.!?。！？]\s)(?:{greets}|{formal})[^\n,.!?]{0,30}[,，!]",
    "formal": r"\s*(?:{greets}[\s,]*)?{formal}",
    "signed": (
        r"(?:^|\n)[ \t]*+(?:--\s*|(?:[–—]|--)\s*(?-i:[A-Z])[^\n.!?]{1,40})$|\s[–—]\s?(?-i:[A-Z])\w+\s*$"
        r"|(?:^|\n)[ \t]*+(?:{closes}[\w ]{0,20}?|(?:[^\W\d_]++\s?){1,3})[,，]\s*"
        r"\n\s*[^\n.!?]{2,60}(?:\n[^\n.!?]{1,60}){0,3}$"
        r"|(?:^|\n|[.!?]\s)[ \t]*+{closes}[,，]?\s+(?-i:[A-Z])\w+(?:\s(?-i:[A-Z])\w+)?\.?$"
        r"|(?:^|\n)[ \t]*+{closes}\s*\n\s*(?-i:[A-Z])[^\n.!?]{1,40}$"
    ),
}


class Paragraph(NamedTuple):
    """A paragraph: where it is, and why what it asks for, or merely says, needs a person first; "" when it does not.

    What is `behind` a paste is the user's only where it asks for something.
    """

    start: int
    end: int
    asked: str = ""
    said: str = ""
    behind: bool = False


class OwnWords(NamedTuple):
    """A message, and as long as it, the same with all blotted out that the user does not say; and its paragraphs."""

    text: str
    spoken: str
    paragraphs: tuple[Paragraph, ...]

    def paragraph(self, at: int) -> Paragraph:
        """The paragraph at this place."""
        return next((one for one in self.paragraphs if one.start <= at < one.end), Paragraph(at, at))

    def own(self, *, sure: bool = True) -> str:
        """The user's words; without `sure`, those that may be, too. Names in code count, quotations do not."""
        found = []
        for piece in self.paragraphs:
            if not (sure and piece.said):
                shown = (self.text[slice(*run.span(0))] for run in re.finditer(f"{SHOWN}+", self._of(piece)))
                found += [self._of(piece), *(each for each in shown if _is_a_name(each))]
        return "\n".join(found)

    def _of(self, piece: Paragraph) -> str:
        return self.spoken[piece.start : piece.end]


class _Line(NamedTuple):
    start: int
    end: int
    text: str


def read_own_words(text: str) -> OwnWords:
    """What the user says in a message.

    >>> read_own_words("Reply to this mail:\\nWe moved.").spoken.replace(OTHERS, ".")
    'Reply to this mail:\\n.........'
    """
    text = unicodedata.normalize("NFC", text).replace("’", "'").replace("\r\n", "\n")
    is_hiding = len(visible(text)) != len(text)
    if is_hiding:
        parts = re.split(f"([{_HIDDEN}]+)", text)
        text = "".join(part if number % 2 else visible(part) for number, part in enumerate(parts))
    middle = len(text) - MOST
    if middle <= 0:
        return _read_own_words(text, is_hiding)
    at = MOST // 2
    ends = _read_own_words(f"{text[:at]}\n\n{text[-at:]}", is_hiding)

    def moved(place: int) -> int:
        return place if place <= at else max(at, place - 2) + middle

    pieces = (piece._replace(start=moved(piece.start), end=moved(piece.end)) for piece in ends.paragraphs)
    return OwnWords(text, ends.spoken[:at] + OTHERS * middle + ends.spoken[at + 2 :], tuple(pieces))


def _read_own_words(text: str, is_hiding: bool) -> OwnWords:
    blotted = compiled(_ELEMENT).sub(_shown, compiled(_BLOB).sub(_others, _said_in(text)))
    blotted = compiled(_SHOWN_LINES).sub(_shown, blotted)
    lines = [one for one in _lines(blotted) if one.text.strip(f" \t\r{SHOWN}")]
    cut, dictated = _cut(lines, len(blotted))
    own = blotted[:cut]
    is_odd = is_hiding or _is_odd(text, [line for line in lines if line.start < cut]) or _is_pointed_at(own)
    pieces = _pieces(own, dictated, PASTED if is_odd else "")
    last = blotted.rfind("\n\n", cut)
    last = last if last > cut else len(blotted)
    if last < len(blotted):
        pieces.append(Paragraph(last, len(blotted), PASTED, PASTED, behind=True))
    return OwnWords(text, own + re.sub(r"[^\n]+", _others, blotted[cut:last]) + blotted[last:], tuple(pieces))


def _cut(lines: list[_Line], end: int) -> tuple[int, set[int]]:
    """Where the words of somebody else begin, and the lines before that which the user dictates."""
    dictated: set[int] = set()
    for number, line in enumerate(lines):
        if compiled(_RECORD).match(line.text):
            return line.start, dictated
        if number and (_pattern("greets").match(line.text) or re.match(_ALONE, line.text)):
            return line.start, dictated
        if greeting := _pattern("greets later").search(line.text):
            return line.start + greeting.start(), dictated
        done = 0
        for mark in _pattern("ends").finditer(line.text):
            sentence = line.text[max(done, mark.end() - LONG) : mark.end()].rstrip(" :：.!。！")
            done = mark.end()
            before = re.split(r"[.!?。！？]\s", sentence)[-1].strip(" *#-")
            if _introduces(before) or (
                _pattern("points").search(before)
                and not _pattern("dictates").fullmatch(before)
                and not compiled(_FIRST).match(before)
            ):
                return line.start + mark.end(), dictated
        if number + 1 == len(lines) or re.match(_BULLET, line.text):
            continue
        if line.text.rstrip().endswith((":", "：")):
            if not _pattern("dictates").fullmatch(line.text.strip(" :：*#")):
                return line.end, dictated
            dictated |= {line.start, *_listed(lines[number + 1 :], line.end)}
        elif _introduces(line.text):
            return line.end, dictated
    return end, dictated


def _listed(lines: list[_Line], end: int) -> Iterator[int]:
    """The lines of a list, or of one paragraph, behind a line that announces them."""
    for number, line in enumerate(lines):
        if number and line.start > end + 1 and not re.match(_BULLET, line.text):
            return
        end = line.end
        yield line.start


def _pieces(own: str, dictated: set[int], odd: str) -> list[Paragraph]:
    """The paragraphs of what is the user's, each with what speaks against it."""
    borders = [0, *(match.end() for match in re.finditer(r"\n[^\S\n]*\n", own)), len(own)]
    spans = [(start, end) for start, end in pairwise(borders) if start < end]
    full = [span for span in spans if not _pattern("courtesy").fullmatch(own[slice(*span)])]
    doubt = PASTED if len(full) > 1 or len(own.replace(SHOWN, "")) > LONG else ""
    pointed, told = _pointed(own)
    pieces = []
    follows_order = len(full) == 2 and _is_an_order(own[slice(*full[0])])
    for first, last in spans:
        is_own = any(first <= line < last for line in dictated)
        asked = PASTED if full and full[0][0] < first and not is_own and not follows_order else ""
        said = "" if is_own else doubt
        places = sorted({first, *(place for place in (pointed, told) if first < place < last), last})
        for start, end in pairwise(places):
            is_after, is_told = start >= pointed, start >= min(pointed, told)
            pieces.append(Paragraph(start, end, odd or asked or PASTED * is_after, odd or said or PASTED * is_told))
    return pieces


def _is_an_order(paragraph: str) -> bool:
    """Whether a paragraph asks for work and speaks of no text: what follows it is not what it is about."""
    if len(paragraph) > LONG:
        return False
    is_asked = re.search(r"[?？]\W*$", paragraph)
    speaks = _pattern("points").search(paragraph) or _has_noun(paragraph) or _introduces(paragraph)
    return not is_asked and not speaks


def _has_noun(sentence: str) -> bool:
    return bool(_pattern("text noun").search(sentence))


def _speaks_of_text(sentence: str) -> bool:
    """Whether a statement names a text that somebody else wrote, which may be what follows."""
    return _has_noun(sentence) and _introduces(sentence)


def _pointed(own: str) -> tuple[int, int]:
    """Where words may begin that a sentence before speaks of, and where a sentence does that tells whose they are."""
    told, done = len(own), 0
    for end in re.finditer(r"[.!?。！？:](?=\s+\S)|(?<=\s)[-–—](?=\s+\S)", own):
        least = max(0, end.start() - LONG)
        start = max(least - 1, *(own.rfind(mark, least, end.start()) for mark in ".!?。！？\n")) + 1
        clause, done = own[max(start, done) : end.start()].strip(), end.end()
        sentence = own[start : end.start()].strip()
        if end[0] in ":-–—":  # a line that begins with a dash is one of a list
            is_said = _introduces(clause) or _pattern("announces").search(clause)
            names = re.fullmatch(_NAME, sentence) if end[0] == ":" else _pattern("points").search(clause)
            if (is_said or names) and not (
                _pattern("dictates").fullmatch(sentence) or (end[0] != ":" and compiled(_FIRST).match(sentence))
            ):
                told = min(told, start)
            continue
        is_asked = end[0] in "?？"
        points = (
            (_introduces(sentence) or _pattern("points").search(sentence)) if is_asked else _speaks_of_text(sentence)
        )
        if points and not _pattern("refers back").fullmatch(own, end.end()):
            return end.end(), told
    return len(own), told


def _is_odd(text: str, lines: list[_Line]) -> bool:
    """Whether a message looks like a letter, a list of fields, a table or a page."""
    if _pattern("signed").search(text.rstrip()) or re.search(_GOES_ON, text):
        return True
    said = [line.text for line in lines]
    if not said:
        return False
    pairs = list(pairwise(said))
    return (
        bool(
            _pattern("formal").match(said[0]) or compiled(_NAMED).match(f"{said[0]}\n") or re.match(_SHOUTED, said[0])
        )
        or bool(pairs and (re.match(_ALONE, said[0]) or re.match(_HEADING, said[0])))
        or bool(pairs and re.match(_DASHED, said[-1]) and not re.match(_BULLET, said[-2]))
        or any(_are_records(first, second) for first, second in pairs)
    )


def _are_records(first: str, second: str) -> bool:
    """Whether two lines are of one form: fields, rows of a table, or lines that a program prints."""
    if all(compiled(_FIELD).match(line) and not _pattern("dictates").match(line) for line in (first, second)):
        return True
    commas = [len(re.findall(r"[,;](?=\S)", line)) for line in (first, second)]
    begins = [line.split()[:2] for line in (first, second)]
    return commas[0] == commas[1] > 1 or (
        begins[0] == begins[1] and bool(re.search(r"\w[^\w\s,.]", " ".join(begins[0])))
    )


def _is_pointed_at(own: str) -> bool:
    """Whether the end of a message asks about what stands before it."""
    before, _, last = own.rstrip().rpartition("\n")
    if not before.strip():
        return False
    is_apart = not before.rpartition("\n")[2].strip()
    is_asked = is_apart and bool(re.search(r"[?？]\W*$", last)) and bool(_pattern("points").search(last))
    return is_asked or bool(_introduces(last) and not re.match(_BULLET, last))


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


def _lines(text: str) -> Iterator[_Line]:
    start = 0
    for line in text.split("\n"):
        yield _Line(start, start + len(line), line)
        start += len(line) + 1


def _introduces(sentence: str) -> bool:
    """Whether the end of a sentence speaks of a text, or of what somebody else said."""
    return bool(_pattern("as text").search(compiled(_MINE).sub("", sentence[-LONG:])))


@cache
def _pattern(title: str) -> re.Pattern[str]:
    return compiled(re.sub(r"\{([a-z ]+)\}", lambda found: any_of("phrases", found[1]), _PATTERNS[title]))
