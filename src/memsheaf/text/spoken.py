"""The words of a person in a text: without what is only shown in it, and without what host programs put around it."""

from __future__ import annotations

import re

SHOWN = "\ufffc"  # stands for each character that is shown, so that places in both texts are the same
FENCED_CODE = r"(?ms)^[ \t]*+(`{3,}+|~{3,}+)[^\n`]*+\n.*?(?:^[ \t]*+\1[`~]*+[ \t]*+$|\Z)"
_INLINE_CODE = r"(`{1,3})(?!`)[^`\n]+\1"
_WEB_ADDRESS = (  # the stop behind an address ends the sentence
    r"\b[a-z][a-z0-9+.-]{1,12}://[^\s<>()（）、。，\"“”»」』]+(?<![.,;:!?])|\bwww\.[^\s<>()\"“”»」』]+(?<![.,;:!?])"
    r"|(?<![\w.+-])[\w.+-]++@[\w-]++\.[\w.]+(?<!\.)"
)
_QUOTED_LINE = r"(?m)^[ \t]*>[^\n]*"
_CODE_COMMENT = (
    r"(?s)/\*.{0,4000}?\*/|<!--.{0,4000}?-->|\{-.{0,4000}?-\}|--\[\[.{0,4000}?\]\]|\(\*.{0,4000}?\*\)"
    r"|(?m:^)=begin\b.{0,4000}?\n=end\b|\\begin\{(\w+)\}.{0,4000}?\\end\{\1\}"
    r"|<([A-Za-z][\w-]*)\b[^<>\n]*>[^\n]*</\2>"
)
_OPENING_MARKS = "\"'„“«「『《‘>/<{-(=\\"  # of quotations, comments and elements
_QUOTED_WORDS = (
    r"(?s:\"{3}.{1,4000}?\"{3}|'{3}.{1,4000}?'{3})"
    r"|„[^„“”]{1,4000}[“”]|“[^“”]{1,4000}”|«[^«»]{1,4000}»|「[^「」]{1,4000}」|『[^『』]{1,4000}』|《[^《》\n]{1,300}》"
    r"|(?m:^)[ \t]*\"(?=\S)[^\"]{1,4000}\"(?=[.,]?[ \t]*(?m:$))"
    r"|(?<![\w\"])\"(?=\S)[^\"\n]{1,300}(?<=\S)\"(?![\w\"])|(?<![\w'])'(?=\S)[^'\n]{1,200}(?<=\S)'(?![\w'])"
    r"|(?<!\w)‘[^‘’\n]{1,200}’(?!\w)"
)


def without_fences(text: str) -> str:
    """Return a text without its blocks of code."""
    return re.sub(FENCED_CODE, "", text)


def spoken(text: str) -> str:
    """Return the text with all that is shown blotted out; as long as the text, and with the same lines.

    >>> spoken("run `make` now").replace(SHOWN, ".")
    'run ...... now'
    """
    for mark, pattern in (
        (("```", "~~~"), FENCED_CODE),
        (("`",), _INLINE_CODE),
        (("/*", "<!--", "{-", "--[[", "(*", "=begin", "\\begin{", "</"), _CODE_COMMENT),
        (("://", "www.", "@"), _WEB_ADDRESS),
        ((">",), _QUOTED_LINE),
        (('"', "'", "„", "“", "«", "「", "『", "《", "‘"), _QUOTED_WORDS),
    ):
        if any(each in text for each in mark):
            text = re.sub(pattern, lambda shown: re.sub(r"[^\n]", SHOWN, shown[0]), text)
    return text


def without_quotations(text: str, spoken: str) -> str:
    """Return a text, of which `spoken` is what is said, with … for what is quoted in it; code in its line stays.

    >>> without_quotations("run `make`, not 'now'", spoken("run `make`, not 'now'"))
    'run `make`, not …'
    """

    def fill(masked: re.Match[str]) -> str:
        original = text[slice(*masked.span())]
        return "…" if original[:1] in _OPENING_MARKS else original

    return re.sub(f"{SHOWN}+", fill, spoken)


# A message as a host keeps it holds more than its author's words: memories that we put beside it, reminders and
# command output of the host. None of that may be learned as if the user had said it.

# Elements that hosts put around or into a message. `command-args` is left: the user typed it behind a command.
# Patterns stay text until one is needed: a hook that keeps a turn has no time to compile them all.
_HOST_ELEMENT = (
    r"<(system-reminder|command-(?:name|message|contents)|local-command-(?:stdout|stderr|caveat)"
    r"|bash-(?:input|stdout|stderr)|ide_(?:opened_file|selection|diagnostics)|user-prompt-submit-hook"
    r"|task-notification|environment_context|user_instructions)(?:\s[^<>]{0,500})?>"
)
_OUR_ELEMENT = r"<(memor(?:ies|y)-[0-9a-z]{8,64})(?:\s[^<>]{0,2000})?>"
_HOST_MARKS = r"</?command-args>|\[Request interrupted by user(?: for tool use)?\]"
# Our section of a system prompt, by how each of the texts in `prompts/` for it begins, up to the next heading.
_OUR_SECTION = (
    r"(?ms)^# Memory\n{1,3}(?:You have a memory that outlives|You can read what was saved|What was saved in earlier)"
    r".*?(?=^# (?!Persistent Memory$)|\Z)"
)


def unwrapped(text: str) -> str:
    """Return the text without our memories, without the elements of hosts, and without half characters.

    >>> unwrapped("<system-reminder>It is Monday.</system-reminder>Deploy it, please.")
    'Deploy it, please.'
    """
    if not text.isascii():
        text = text.encode("utf-8", "replace").decode()
    if "<" in text:
        text = _remove_elements(_OUR_ELEMENT, text, ends_at_close=False)
        text = _remove_elements(_HOST_ELEMENT, text, ends_at_close=True)
    return re.sub(_OUR_SECTION, "", re.sub(_HOST_MARKS, "", text)).strip()


def _remove_elements(opening: str, text: str, *, ends_at_close: bool) -> str:
    """Return the text without some elements.

    One that is never closed stays, or reaches to the end of the text unless it `ends_at_close`.
    """
    pieces: list[str] = []
    unclosed: set[str] = set()
    start = 0
    pattern = re.compile(opening)
    while match := pattern.search(text, start):
        closing = f"</{match[1]}>"
        end = -1 if closing in unclosed else text.find(closing, match.end())
        if end >= 0:
            pieces.append(text[start : match.start()])
            start = end + len(closing)
        elif ends_at_close:
            unclosed.add(closing)  # looked for once, however often it is opened
            pieces.append(text[start : match.end()])
            start = match.end()
        else:
            text = text[: match.start()]
    return "".join([*pieces, text[start:]])
