"""Checks on what enters and leaves a memory folder.

Deferred imports, to start quickly: the table of secret formats, before the first text that may hold one.
"""

from functools import lru_cache


@lru_cache(maxsize=64)  # one recall is laid out several times until it fits
def without_secrets(text: str) -> str:
    """As `secrets.without_secrets`, which is loaded by the first call."""
    from memsheaf.guard import secrets

    return secrets.without_secrets(text)
