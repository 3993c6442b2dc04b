"""The texts that are data: prompts for models, and phrases and answers by language."""

from __future__ import annotations

import os
from functools import cache

_FOLDER = os.path.dirname(__file__)


@cache
def read_prompt(name: str) -> str:
    """The text of `NAME.md` in this folder."""
    with open(os.path.join(_FOLDER, f"{name}.md"), encoding="utf-8") as file:
        return file.read()
