"""Remove what host programs put around a user's message.

A message as a host keeps it holds more than its author's words: memories that we put beside it, reminders and command
output of the host. None of that may be learned as if the user had said it.
"""

from __future__ import annotations

import re

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
    return (re.sub(_SECTION, "", text) if "# Memory" in text else text).strip()


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
        unclosed |= {closing} if end < 0 else set()
    return "".join([*kept, text[start:]])
