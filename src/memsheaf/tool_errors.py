"""What a model is told when a tool fails: what went wrong, and what to do next."""

from __future__ import annotations

from memsheaf.errors import (
    CreateOnly,
    Duplicate,
    HubRefused,
    MemsheafError,
    NoMatch,
    NotFound,
    NotWorth,
    PathRefused,
    ReviewRequired,
    SecretFound,
    StoreFailed,
)

ECHOED = 2_000  # characters of an error
# what these say to do, a model can do or tell
_HINTED = (HubRefused, PathRefused, ReviewRequired, SecretFound, StoreFailed)


def explain_error(error: MemsheafError) -> str:
    """An error in the words a model can act on."""
    if isinstance(error, NotFound):
        found = "memory_list shows what exists." if error.hint == NotFound.hint else error.hint
        return f"Memory file '{error.path}' not found. {found}"
    if isinstance(error, NoMatch):
        lines = ", ".join(map(str, error.lines))
        if not lines:
            return f"String not found in '{error.path}'. Read it with memory_read and copy the text exactly."
        if len(error.lines) == 1:
            return f"The string occurs once in '{error.path}', at line {lines}. Leave the count out."
        return f"Multiple occurrences found at lines {lines}. Provide more context, or say the count."
    if isinstance(error, CreateOnly):
        how = "write a new file below facts/ with memory_write: the same name in its header, citations, a reason"
        return f"{error}. To correct it, {how}, and 'supersedes:' with '{error.path}'."
    if isinstance(error, Duplicate):
        return f"{error}. If this corrects it, change it with memory_update; else say how it differs."
    if isinstance(error, NotWorth):
        return f"{error}. {error.hint} Call again with the same arguments to keep it all the same."
    return f"{error}.{' ' + error.hint if isinstance(error, _HINTED) else ''}"


def broken(error: Exception) -> str:
    """The message to a model about an unexpected error.

    >>> broken(OSError(28, "No space left on device"))
    'the memory could not be used: No space left on device (OSError); tell the user.'
    """
    said = (error.strerror if isinstance(error, OSError) else "") or "an error of its own"
    return f"the memory could not be used: {said} ({type(error).__name__}); tell the user."


def shortened(text: str) -> str:
    """What an error says, cut in the middle if it repeats much of what a model gave: the reason stands at the end."""
    return text if len(text) <= ECHOED else f"{text[: ECHOED // 2]} … {text[-ECHOED // 2 :]}"
