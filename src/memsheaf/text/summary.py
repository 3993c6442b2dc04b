"""Names and descriptions made from a text. Both repeat the user's words; neither ever replaces the text itself."""

from __future__ import annotations

import re

MAX_NAME_CHARS = 60
MAX_DESCRIPTION_CHARS = 120

_SENTENCE_END = re.compile(r"(?<=[^\W\d_][.!?])\s+(?![a-z])|(?<=[。！？])|\n+")
_TOPICS = re.compile(
    r"When it is about |Wenn es um .+ geht|Quand il s'agit de |Cuando se trata de |涉及.+时|.+のとき…?$"
)
_LIST_MARK = re.compile(r"(?:[-*•>]|#+|\d{1,2}[.)])\s+")
_REQUEST = re.compile(
    r"""(?ix)\s*
    (?: (?:please|pls|bitte|por\ favor|s'il\ (?:te|vous)\ pla[iî]t)[\s,]+ )?
    (?: (?:remember|(?:take\ |make\ a\ )?note|keep\ in\ mind|don'?t\ forget|do\ not\ forget
        |merke?\ dir|vergiss\ nicht|beachte
        |souviens-toi|retiens|n'oublie\ pas
        |recuerda|ten\ en\ cuenta|no\ olvides)
        (?: ,?\s+(?:bitte|please|por\ favor) )?
        (?: ,?\s+(?:that|dass|que)\b(?!\ down\b)\s*[:,]? | ,?\s+qu'(?=\w) | (?:\s+this)?\s*[:,] ) \s*
    | (?:请|請)?(?:记住|記住)\s*[:：,，]?\s*
    | 覚えておいて(?:ください)?\s*[:：、]\s*
    )(?=\S)"""
)


def leading_request(text: str) -> int:
    """Return the length of the request to remember that a text begins with, 0 if there is none."""
    request = _REQUEST.match(text)
    return request.end() if request else 0


def without_request(text: str) -> str:
    """Return a text without the request to remember at its beginning; everything else stays as it was typed.

    >>> without_request("Please remember that No. 5 is the test account.")
    'No. 5 is the test account.'
    >>> without_request("no emojis in commit messages"), without_request("Remember to call Kim")
    ('no emojis in commit messages', 'Remember to call Kim')
    """
    return text[leading_request(text) :].strip()


def make_name(text: str) -> str:
    """Return the first sentence of a text, cut at a word where it is long.

    >>> make_name("I prefer pnpm."), make_name("- No emojis in commits\\n- No tabs")
    ('I prefer pnpm', 'No emojis in commits')
    """
    return cut_at_word(_first_sentence(text), MAX_NAME_CHARS)


def make_description(text: str) -> str:
    """Return the fact itself as one line: the first sentence, cut at a word where it is long."""
    return cut_at_word(_first_sentence(text), MAX_DESCRIPTION_CHARS)


def is_made_from(body: str, description: str) -> bool:
    """Return True if nobody wrote this description: it repeats the text, or lists topics as earlier versions did.

    >>> is_made_from("I prefer pnpm.", "I prefer pnpm"), is_made_from("I prefer pnpm.", "Package manager")
    (True, False)
    """
    line = " ".join(body.split()).rstrip(" .。")
    return bool(_TOPICS.match(description)) or line.startswith(description.rstrip(" .。…"))


def cut_at_word(text: str, limit: int) -> str:
    """Return a text of at most `limit` characters, cut behind a word and marked with an ellipsis where it is longer.

    >>> cut_at_word("one two three", 9), cut_at_word("one two", 9)
    ('one two…', 'one two')
    """
    if len(text) <= limit:
        return text
    head = text[: limit - 1]
    if not text[limit - 1].isspace() and " " in head:
        head = head.rpartition(" ")[0]
    return head.rstrip(" ,;:(–—-") + "…"


def _first_sentence(text: str) -> str:
    sentence = _SENTENCE_END.split(text.strip(), maxsplit=1)[0]
    sentence = " ".join(_LIST_MARK.sub("", sentence, count=1).split())
    return sentence.rstrip(" .。:：") or sentence
