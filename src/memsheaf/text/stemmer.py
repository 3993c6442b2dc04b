"""English stemmer: Porter's algorithm of 1980 with its two later additions.

One rule is that of his second algorithm: `y` becomes `i` only after a consonant, so that "deploy" and
"deployment" are one.

>>> [stem(word) for word in ("deployments", "deploying", "considerations", "indices", "ran")]
['deploy', 'deploy', 'consider', 'indic', 'ran']
"""

from __future__ import annotations

import re
from functools import lru_cache

_ENDINGS_2 = {
    "ational": "ate", "tional": "tion", "enci": "ence", "anci": "ance", "izer": "ize", "bli": "ble", "alli": "al",
    "entli": "ent", "eli": "e", "ousli": "ous", "ization": "ize", "ation": "ate", "ator": "ate", "alism": "al",
    "iveness": "ive", "fulness": "ful", "ousness": "ous", "aliti": "al", "iviti": "ive", "biliti": "ble",
    "logi": "log",
}  # fmt: skip
_ENDINGS_3 = {
    "icate": "ic", "ative": "", "alize": "al", "iciti": "ic", "ical": "ic", "ful": "", "ness": "",
}  # fmt: skip
_ENDINGS_4 = (
    "ement", "ance", "ence", "able", "ible", "ment", "ent", "ant", "ism", "ate", "iti", "ous", "ive", "ize", "ion",
    "al", "er", "ic", "ou",
)  # fmt: skip
_SYLLABLE = re.compile("v+c+")


@lru_cache(maxsize=1 << 15)
def stem(word: str) -> str:
    """The stem of a word in lower case; what is not plain letters stays as it is."""
    if len(word) < 3 or not (word.isascii() and word.isalpha()):
        return word
    word = _plural(word)
    word = _past(word)
    if word.endswith("y") and (form := _form(word[:-1])).endswith("c") and "v" in form:
        word = word[:-1] + "i"
    word = _exchanged(word, _ENDINGS_2)
    word = _exchanged(word, _ENDINGS_3)
    return _tidied(_without_ending(word))


def _plural(word: str) -> str:
    if word.endswith(("sses", "ies")):
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith("ss") else word


def _past(word: str) -> str:
    if word.endswith("eed"):
        return word[:-1] if _measure(word[:-3]) else word
    for ending in ("ed", "ing"):
        start = word[: -len(ending)]
        if word.endswith(ending):
            return _mended(start) if "v" in _form(start) else word
    return word


def _mended(start: str) -> str:
    """What is left of a past or present form, as a word."""
    if start.endswith(("at", "bl", "iz")):
        return start + "e"
    if _is_double(start) and start[-1] not in "lsz":
        return start[:-1]
    return start + "e" if _measure(start) == 1 and _ends_short(start) else start


def _exchanged(word: str, endings: dict[str, str]) -> str:
    for size in range(7, 2, -1):
        other = endings.get(word[-size:]) if len(word) >= size else None
        if other is not None:
            start = word[:-size]
            return start + other if _measure(start) else word
    return word


def _without_ending(word: str) -> str:
    for ending in _ENDINGS_4:
        if word.endswith(ending):
            start = word[: -len(ending)]
            if ending == "ion" and not start.endswith(("s", "t")):
                continue
            return start if _measure(start) > 1 else word
    return word


def _tidied(word: str) -> str:
    if word.endswith("e"):
        measure = _measure(word[:-1])
        if measure > 1 or (measure == 1 and not _ends_short(word[:-1])):
            word = word[:-1]
    return word[:-1] if word.endswith("ll") and _measure(word) > 1 else word


def _form(word: str) -> str:
    """The word as vowels and consonants: `v` and `c`."""
    form = ""
    for letter in word:
        vowel = letter in "aeiou" or (letter == "y" and form.endswith("c"))
        form += "v" if vowel else "c"
    return form


def _measure(word: str) -> int:
    """How often vowels are followed by consonants."""
    return len(_SYLLABLE.findall(_form(word)))


def _is_double(word: str) -> bool:
    return len(word) > 1 and word[-1] == word[-2] and _form(word)[-1] == "c"


def _ends_short(word: str) -> bool:
    """Whether it ends consonant, vowel, consonant, the last of them none of w, x, y."""
    return _form(word)[-3:] == "cvc" and word[-1] not in "wxy"
