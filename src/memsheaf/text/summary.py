"""Names and descriptions made from a text. Both repeat the user's words; neither ever replaces the text itself."""

from __future__ import annotations

import re

from memsheaf.text.sentences import NO_SENTENCE_END, may_have_borders

MAX_NAME_CHARS = 60
MAX_DESCRIPTION_CHARS = 120

_SENTENCE_END = rf"(?<=[^\W\d_][.!?])(?i:{NO_SENTENCE_END})\s+(?![a-z])|(?<=[。！？])|\n+"
_TOPICS = r"When it is about |Wenn es um .+ geht|Quand il s'agit de |Cuando se trata de |涉及.+时|.+のとき…?$"
_LIST_MARK = r"(?:[-*•>]|#+|\d{1,2}[.)])\s+"


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
    return bool(re.match(_TOPICS, description)) or line.startswith(description.rstrip(" .。…"))


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
    sentence = text.strip()
    if may_have_borders(sentence):
        sentence = re.split(_SENTENCE_END, sentence, maxsplit=1)[0]
    mark = re.match(_LIST_MARK, sentence)
    sentence = " ".join(sentence[mark.end() if mark else 0 :].split())
    return sentence.rstrip(" .。:：") or sentence
