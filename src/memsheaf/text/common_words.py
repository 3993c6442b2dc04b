"""Common words of eight languages: those that no title would have, and those at which a phrase ends.

The words are data, in `common_words.txt`, which says what its groups mean. A text is read in the language of which it
has the most words: "die" is an article in German and a verb in English.
"""

from __future__ import annotations

import re
from functools import cache

from memsheaf.text.requests import read_patterns


def common_words(text: str) -> dict[str, str]:
    """Return the common words of the language of a text, each with the first letter of its group.

    >>> common_words("Die Datenbank ist leer").get("die"), common_words("the jobs die").get("die")
    ('f', None)
    """
    words = set(re.findall(r"\w+", text.lower()))
    return max(_read_languages(), key=lambda groups: len(words.intersection(groups)))


@cache
def _read_languages() -> list[dict[str, str]]:
    languages = read_patterns(__file__).values()
    return [{word: name[0] for name in groups for word in groups[name].split("|")} for groups in languages]
