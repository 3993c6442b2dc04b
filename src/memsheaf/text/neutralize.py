"""Neutralise text on its way into a prompt, a terminal or a page.

Whoever wrote a memory, its text is data. It may not end the envelope it stands in, drive a terminal, hide
words from the person who reviews it, or break out of its line in the catalog. Spelling survives: the joiners
that Persian or Hindi need and the sequences that make one emoji stay as they are.
"""

from __future__ import annotations

import re
import unicodedata

from memsheaf.memory import DRAWS_NOTHING, HIDDEN

_SYMBOLS = r"\xa9\xae\u203c\u2049\u20e3\u2100-\u2bff\u3030\u303d\u3297\u3299\U0001f000-\U0001faff"
_IDEOGRAPHS = r"\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
# Scripts whose spelling uses the joiners: Arabic to Tibetan, Myanmar, Khmer, Mongolian, and the Indic rest.
_JOINING_SCRIPTS = (
    r"\u0600-\u061b\u061d-\u109f\u1780-\u17b3\u17b6-\u180a\u1810-\u18af\u1900-\u1cff\ua800-\uabff"
    r"\ufb50-\ufdff\ufe70-\ufefc\U00010a00-\U00011fff\U0001e900-\U0001e95f"
)
# Each of these looks back only at characters that are never removed, so cleaning twice changes nothing more.
_STRAY_JOINER = (
    rf"(?<![{_JOINING_SCRIPTS}{_SYMBOLS}])(?<![{_SYMBOLS}0-9#*]\ufe0f)[\u200c\u200d]"
    rf"|(?<![{_SYMBOLS}{_IDEOGRAPHS}{_JOINING_SCRIPTS}0-9#*])[\ufe00-\ufe0f]"
    rf"|(?<![{_IDEOGRAPHS}])[\U000e0100-\U000e01ef]"
)
# The three flags in common use that are spelt with tag characters: England, Scotland, Wales.
_TAGGED_FLAG = (
    r"\U0001f3f4\U000e0067\U000e0062(?:\U000e0065\U000e006e\U000e0067|\U000e0073\U000e0063\U000e0074"
    r"|\U000e0077\U000e006c\U000e0073)\U000e007f"
)
_CONTROL_CHARS = r"\x00-\x08\x0b-\x1f\x7f-\x9f"
# Patterns that are needed rarely stay text until they are: compiling these costs many milliseconds.
_ACTS_OR_HIDES = rf"[{_CONTROL_CHARS}\u2028\u2029{HIDDEN}]|{_STRAY_JOINER}"
_DRAWS_NOTHING = rf"({_TAGGED_FLAG})|[{_CONTROL_CHARS}{HIDDEN}]|{_STRAY_JOINER}"

_LINE_BREAK = r"[\r\x0b\x0c\x85\u2028\u2029]"
_BREAK_OR_CONTROL = rf"[{_CONTROL_CHARS}\u2028\u2029]"

# A `<` stays only where it can be nothing but a comparison or an arrow: `< 5`, `<=`, `<-`.
_TAG_OPENING = r"[<\uff1c\ufe64](?![ \t]?[0-9]|[=-])"
_TEMPLATE_OPENING = (
    r"(?i)[\[\uff3b](?=\s{0,8}[/\uff0f]?\s{0,8}"
    r"(?:INST|SYS|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS|TOOL_CONTENT|ARGS|CALL_ID|THINK)"
    r"\s{0,8}[\]\uff3d])"
)
_LINK_SIGNS = str.maketrans({"[": "(", "]": ")", "\\": "/", "`": "'", "<": "‹", ">": "›"})


def for_terminal(text: str) -> str:
    """Return the text as a terminal may show it: what would act or hide is spelt out.

    >>> for_terminal("\\x1b[31mred\\u202e")
    '<U+001B>[31mred<U+202E>'
    """
    text = text.replace("\r\n", "\n")
    if _is_plain(text):
        return text
    return re.sub(_ACTS_OR_HIDES, lambda sign: f"<U+{ord(sign[0]):04X}>", text)


class SafeStream:
    """Text that comes in pieces, made harmless piece by piece: it comes out as the whole would.

    >>> flow = SafeStream()
    >>> [flow.piece(text) for text in ("a\\r", "\\nb\\x1b", "[31m")]
    ['a', '\\nb<U+001B>', '[31m']
    """

    def __init__(self) -> None:
        self._before = ""  # what the next piece may belong to: a joiner looks back at two characters
        self._held = ""

    def piece(self, text: str) -> str:
        """Return what to show of the next piece; half a line end is held back until the other half is there."""
        text = self._held + text
        self._held = "\r" if text.endswith("\r") else ""
        text = text.removesuffix("\r").replace("\r\n", "\n")
        shown = for_terminal(self._before + text)[len(for_terminal(self._before)) :]
        self._before = (self._before + text)[-2:].replace("\r", " ")
        return shown

    def rest(self) -> str:
        """Return what was held back, at the end."""
        held, self._held, self._before = self._held, "", ""
        return for_terminal(held)


def for_prompt(text: str) -> str:
    """Return the text as data inside a prompt: it can neither close its envelope nor open another.

    Doing it twice changes nothing more.

    >>> for_prompt("Use tabs.</memory> if x <= 3")
    'Use tabs.&lt;/memory> if x <= 3'
    """
    # First what is invisible, since a hidden character could hold a tag apart until it is gone.
    text = visible(text)
    if "<" in text or not text.isascii():
        text = re.sub(_TAG_OPENING, "&lt;", text)
    return re.sub(_TEMPLATE_OPENING, "&#91;", text) if "[" in text or "\uff3b" in text else text


def visible(text: str) -> str:
    """Return the text without what draws nothing, and with one kind of line end.

    >>> visible("re\\u200bad\\r\\nme")
    'read\\nme'
    """
    text = text.replace("\r\n", "\n")
    if _is_plain(text):
        return text
    return _visible(re.sub(_LINE_BREAK, "\n", text))


def one_line(text: str, limit: int) -> str:
    """Return one printable line of at most `limit` characters; "…" shows that it was cut.

    >>> one_line("first\\r\\n# second", 10)
    'first # s…'
    """
    if not _is_plain(text):
        text = _visible(re.sub(_BREAK_OR_CONTROL, " ", text))
    text = " ".join(text.split())
    if len(text) <= limit:
        return text
    if limit <= 0:
        return ""
    # The cut may leave half of a flag or a joiner that joins nothing.
    return _visible(text[: limit - 1]).rstrip(" \u200c\u200d") + "…"


def link_text(text: str, limit: int) -> str:
    """Return one line that can stand between the brackets of a Markdown link and not end them.

    >>> link_text("prefs](http://evil.example) [x", 80)
    'prefs)(http://evil.example) (x'
    """
    return one_line(text, limit).translate(_LINK_SIGNS)


def cut_bytes(text: str, limit: int) -> str:
    """Return the beginning of the text, at most `limit` bytes of UTF-8, never half a character.

    >>> cut_bytes("naïve", 3)
    'na'
    """
    data = text.encode("utf-8", "replace")
    if len(data) <= limit:
        return text
    return data[: max(limit, 0)].decode("utf-8", "ignore")


def _is_plain(text: str) -> bool:
    """Return True if every character is one that draws something, a line feed or a tab."""
    is_printable = text.replace("\n", "").replace("\t", "").isprintable()
    return is_printable and (text.isascii() or not re.search(DRAWS_NOTHING, text))


def _visible(text: str) -> str:
    return text if _is_plain(text) else re.sub(_DRAWS_NOTHING, r"\1", text)


def columns(text: str) -> int:
    """Return how many columns of a terminal a text takes: two for wide characters, none for marks.

    >>> columns("abc"), columns("日本"), columns("e\u0301")
    (3, 4, 1)
    """
    width = 0
    for letter in text.expandtabs():
        if not unicodedata.combining(letter) and letter not in "\u200c\u200d\ufe0f":
            width += 2 if unicodedata.east_asian_width(letter) in "WF" else 1
    return width


def plain_name(who: str) -> str:
    """Return the name of an author, neutralized for a prompt: it is free text of others."""
    return one_line("".join(char for char in for_prompt(who) if char.isalnum() or char in " .-_@'"), 40)
