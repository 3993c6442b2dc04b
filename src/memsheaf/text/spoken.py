"""Mask what is only shown in a text: code, addresses, quoted lines, quotations."""

from __future__ import annotations

import re
from functools import cache

SHOWN = "\ufffc"
"""Stands for each character that is shown, so that places in both texts are the same."""

_FENCED = r"(?ms)^[ \t]*+(`{3,}+|~{3,}+)[^\n`]*+\n.*?(?:^[ \t]*+\1[`~]*+[ \t]*+$|\Z)"
_INLINE = r"(`{1,3})(?!`)[^`\n]+\1"
_ADDRESS = r"\b[a-z][a-z0-9+.-]{1,12}://[^\s<>()（）、。，\"“”»」』]+|\bwww\.[^\s<>()\"“”»」』]+|(?<![\w.+-])[\w.+-]++@[\w-]++\.[\w.]++"
_LINE = r"(?m)^[ \t]*>[^\n]*"
_QUOTATION = (
    r"„[^„“”]{1,4000}[“”]|“[^“”]{1,4000}”|«[^«»]{1,4000}»|「[^「」]{1,4000}」|『[^『』]{1,4000}』|《[^《》\n]{1,300}》"
    r"|(?m:^)[ \t]*\"(?=\S)[^\"]{1,4000}\"(?=[.,]?[ \t]*(?m:$))"
    r"|(?<![\w\"])\"(?=\S)[^\"\n]{1,300}(?<=\S)\"(?![\w\"])|(?<![\w'])'(?=\S)[^'\n]{1,200}(?<=\S)'(?![\w'])"
    r"|(?<!\w)‘[^‘’\n]{1,200}’(?!\w)"
)


def spoken(text: str) -> str:
    """The text with all that is shown blotted out; as long as the text, and with the same lines.

    >>> spoken("run `make` now").replace(SHOWN, ".")
    'run ...... now'
    """
    for mark, pattern in (
        (("```", "~~~"), _FENCED),
        (("`",), _INLINE),
        (("://", "www.", "@"), _ADDRESS),
        ((">",), _LINE),
        (('"', "'", "„", "“", "«", "「", "『", "《", "‘"), _QUOTATION),
    ):
        if any(each in text for each in mark):
            text = _compiled(pattern).sub(_blotted, text)
    return text


def _blotted(match: re.Match[str]) -> str:
    shown = match[0]
    if "\n" not in shown:
        return SHOWN * len(shown)
    return "\n".join(SHOWN * len(line) for line in shown.split("\n"))


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)
