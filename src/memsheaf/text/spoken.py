"""What somebody says in a text: without what is only shown in it, and without what host programs put around it."""

from __future__ import annotations

import re

SHOWN = "\ufffc"  # stands for each character that is shown, so that places in both texts are the same
_FENCED = r"(?ms)^[ \t]*+(`{3,}+|~{3,}+)[^\n`]*+\n.*?(?:^[ \t]*+\1[`~]*+[ \t]*+$|\Z)"
_INLINE = r"(`{1,3})(?!`)[^`\n]+\1"
_ADDRESS = (  # the stop behind an address ends the sentence
    r"\b[a-z][a-z0-9+.-]{1,12}://[^\s<>()（）、。，\"“”»」』]+(?<![.,;:!?])|\bwww\.[^\s<>()\"“”»」』]+(?<![.,;:!?])"
    r"|(?<![\w.+-])[\w.+-]++@[\w-]++\.[\w.]+(?<!\.)"
)
_LINE = r"(?m)^[ \t]*>[^\n]*"
_COMMENT = (
    r"(?s)/\*.{0,4000}?\*/|<!--.{0,4000}?-->|\{-.{0,4000}?-\}|--\[\[.{0,4000}?\]\]|\(\*.{0,4000}?\*\)"
    r"|(?m:^)=begin\b.{0,4000}?\n=end\b|\\begin\{(\w+)\}.{0,4000}?\\end\{\1\}"
    r"|<([A-Za-z][\w-]*)\b[^<>\n]*>[^\n]*</\2>"
)
_QUOTATION = (
    r"(?s:\"{3}.{1,4000}?\"{3}|'{3}.{1,4000}?'{3})"
    r"|„[^„“”]{1,4000}[“”]|“[^“”]{1,4000}”|«[^«»]{1,4000}»|「[^「」]{1,4000}」|『[^『』]{1,4000}』|《[^《》\n]{1,300}》"
    r"|(?m:^)[ \t]*\"(?=\S)[^\"]{1,4000}\"(?=[.,]?[ \t]*(?m:$))"
    r"|(?<![\w\"])\"(?=\S)[^\"\n]{1,300}(?<=\S)\"(?![\w\"])|(?<![\w'])'(?=\S)[^'\n]{1,200}(?<=\S)'(?![\w'])"
    r"|(?<!\w)‘[^‘’\n]{1,200}’(?!\w)"
)


def without_fences(text: str) -> str:
    """Return a text without its blocks of code."""
    return re.sub(_FENCED, "", text)


def spoken(text: str) -> str:
    """The text with all that is shown blotted out; as long as the text, and with the same lines.

    >>> spoken("run `make` now").replace(SHOWN, ".")
    'run ...... now'
    """
    for mark, pattern in (
        (("```", "~~~"), _FENCED),
        (("`",), _INLINE),
        (("/*", "<!--", "{-", "--[[", "(*", "=begin", "\\begin{", "</"), _COMMENT),
        (("://", "www.", "@"), _ADDRESS),
        ((">",), _LINE),
        (('"', "'", "„", "“", "«", "「", "『", "《", "‘"), _QUOTATION),
    ):
        if any(each in text for each in mark):
            text = re.sub(pattern, lambda shown: re.sub(r"[^\n]", SHOWN, shown[0]), text)
    return text


# A message as a host keeps it holds more than its author's words: memories that we put beside it, reminders and
# command output of the host. None of that may be learned as if the user had said it.

# What hosts wrap around or into a message. `command-args` is left: it is what the user typed behind a command.
WRAPPERS = (
    "system-reminder", "command-name", "command-message", "command-contents", "local-command-stdout",
    "local-command-stderr", "local-command-caveat", "bash-input", "bash-stdout", "bash-stderr", "ide_opened_file",
    "ide_selection", "ide_diagnostics", "user-prompt-submit-hook", "task-notification", "environment_context",
    "user_instructions",
)  # fmt: skip
# Patterns stay text until one is needed: a hook that keeps a turn has no time to compile them all.
_WRAPPED = rf"<({'|'.join(WRAPPERS)})(?:\s[^<>]{{0,500}})?>"
_OURS = r"<(memor(?:ies|y)-[0-9a-z]{8,64})(?:\s[^<>]{0,2000})?>"
_NOT_SAID = ("<command-args>", "</command-args>", "[Request interrupted by user]",
             "[Request interrupted by user for tool use]")  # fmt: skip
# Our section of a system prompt, by how each of the texts in `prompts/` for it begins, up to the next heading.
_SECTION = (
    r"(?ms)^# Memory\n{1,3}(?:You have a memory that outlives|You can read what was saved|What was saved in earlier)"
    r".*?(?=^# (?!Persistent Memory$)|\Z)"
)


def unwrapped(text: str) -> str:
    """The text without our memories, without the wrappers of hosts, and without half characters.

    >>> unwrapped("<system-reminder>It is Monday.</system-reminder>Deploy it, please.")
    'Deploy it, please.'
    """
    if not text.isascii():
        text = text.encode("utf-8", "replace").decode()
    if "<" in text:
        text = _without(_WRAPPED, _without(_OURS, text, to_the_end=True), to_the_end=False)
    for words in _NOT_SAID:
        text = text.replace(words, "")
    return re.sub(_SECTION, "", text).strip()


def _without(opening: str, text: str, *, to_the_end: bool) -> str:
    """The text without what stands between marks. One that is never closed reaches to the end, or is none."""
    kept: list[str] = []
    unclosed: set[str] = set()
    start = 0
    pattern = re.compile(opening)
    while found := pattern.search(text, start):
        closing = f"</{found[1]}>"
        end = -1 if closing in unclosed else text.find(closing, found.end())
        if end < 0 and to_the_end:
            return "".join([*kept, text[start : found.start()]])
        kept.append(text[start : found.end() if end < 0 else found.start()])
        start = found.end() if end < 0 else end + len(closing)
        if end < 0:
            unclosed.add(closing)
    return "".join([*kept, text[start:]])
