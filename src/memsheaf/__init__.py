"""Memory that AI agents keep as plain files.

    from memsheaf import Sheaf

    with Sheaf.open() as memory:  # the project of this folder, and the user
        memory.remember("Releases go out on Fridays")
        memory.recall("when do releases go out?").text
        system_prompt = "You are a helpful agent.\\n\\n" + memory.prompt()

The names below are the public ones; they are loaded when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.1.0"

__all__ = [
    "ABSENT",
    "Allow",
    "Blamed",
    "Commit",
    "Distilled",
    "Exported",
    "Finding",
    "Hit",
    "Imported",
    "Memory",
    "MemsheafError",
    "Message",
    "Page",
    "Proof",
    "Recall",
    "Ref",
    "Revision",
    "Row",
    "Saved",
    "Scope",
    "Session",
    "Settings",
    "Sheaf",
    "Tools",
    "Turn",
    "__version__",
    "load_model",
]

_HOME = {
    "ABSENT": "store",
    "Allow": "memory",
    "Blamed": "open_scope",
    "Commit": "store",
    "Distilled": "learn.learner",
    "Exported": "transfer",
    "Finding": "work.checks",
    "Hit": "sheaf",
    "Imported": "transfer",
    "Memory": "memory",
    "MemsheafError": "errors",
    "Message": "recall.turns",
    "Page": "index.catalog",
    "Proof": "transfer",
    "Recall": "recall.recall",
    "Ref": "errors",
    "Revision": "store",
    "Row": "index.database",
    "Saved": "sheaf",
    "Scope": "scope",
    "Session": "recall.session",
    "Settings": "config",
    "Sheaf": "sheaf",
    "Tools": "tools",
    "Turn": "recall.turns",
    "load_model": "llm",
}

if TYPE_CHECKING:
    from memsheaf.config import Settings
    from memsheaf.errors import MemsheafError, Ref
    from memsheaf.index.catalog import Page
    from memsheaf.index.database import Row
    from memsheaf.learn.learner import Distilled
    from memsheaf.llm import load_model
    from memsheaf.memory import Allow, Memory
    from memsheaf.open_scope import Blamed
    from memsheaf.recall.recall import Recall
    from memsheaf.recall.session import Session
    from memsheaf.recall.turns import Message, Turn
    from memsheaf.scope import Scope
    from memsheaf.sheaf import Hit, Saved, Sheaf
    from memsheaf.store import ABSENT, Commit, Revision
    from memsheaf.tools import Tools
    from memsheaf.transfer import Exported, Imported, Proof
    from memsheaf.work.checks import Finding


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'memsheaf' has no attribute {name!r}")
    value = getattr(import_module(f"memsheaf.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
