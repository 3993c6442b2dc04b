"""Characters that a reader cannot see."""

from __future__ import annotations

import re

# What a reader cannot see in one line of text, or what turns it around: controls and line breaks, direction
# controls, zero-width characters, tags, runs of variation selectors. The joiners are spelling in some scripts
# and glue in emoji, so they are refused only among ASCII, where they do nothing but hide. (These patterns are
# needed rarely, so they stay text until they are.)
_UNSEEN = (
    r"[\x00-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f\u2028-\u202e"
    r"\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e00ff]"
    r"|[\ufe00-\ufe0f\U000e0100-\U000e01ef]{2}"
    r"|(?<![^\x00-\x7f])[\u200c\u200d]+(?![^\x00-\x7f])"
)
_DRAWS_NOTHING = r"[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
BREAKS = r"[\x7f-\x9f\u2028\u2029]"


def is_blank(text: str) -> bool:
    """Whether there is nothing to see in a text.

    >>> is_blank(" \\n"), is_blank("\\ufeff\\u200b\\u3164"), is_blank("a")
    (True, True, False)
    """
    return all(
        character.isspace() or not character.isprintable() or re.match(_DRAWS_NOTHING, character)
        for character in text
    )


def invisible_in(value: str) -> str:
    """What stands in a line that a reader cannot see, in words; "" when nothing does.

    >>> invisible_in("two\\nlines"), invisible_in("caf\\u00e9")
    ('a line break or control character', '')
    """
    if value.isascii():
        return "" if value.isprintable() else "a line break or control character"
    unseen = re.search(_UNSEEN, value)
    return f"an invisible or control character (U+{ord(unseen[0][0]):04X})" if unseen else ""
