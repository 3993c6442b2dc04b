"""Memory that AI agents keep as plain files.

    from memsheaf import Sheaf

    with Sheaf.open("project") as sheaf:
        sheaf.remember("Release day", "When releases go out", "project", "Releases go out on Fridays.")
        system_prompt = "You are a helpful agent.\\n\\n" + sheaf.prompt()

The names below are the public ones; they are loaded when they are first used.

Deferred imports, to start quickly: of the modules beside this one, `sheaf`, `reader`, `writer`, `tools` and `editing`
load learning, recall, erasure, transfer, git, and the checks of a text when they are first needed.
"""

from __future__ import annotations

__version__ = "0.1.0"

__all__ = [
    "ABSENT", "Allow", "Blamed", "Commit", "Distilled", "Exported", "Finding", "Imported", "Layers", "Memory",
    "MemsheafError", "Message", "Page", "Proof", "Recall", "Revision", "Row", "Scope", "Session", "Settings",
    "Sheaf", "Tools", "Turn", "__version__", "load_model",
]  # fmt: skip

_HOME = {
    "ABSENT": "store", "Allow": "memory", "Blamed": "history", "Commit": "store", "Distilled": "learn.learner",
    "Exported": "transfer", "Finding": "doctor", "Imported": "transfer", "Layers": "work.layers",
    "Memory": "memory", "MemsheafError": "errors", "Message": "recall.turns", "Page": "index.catalog",
    "Proof": "erasure", "Recall": "recall.recall", "Revision": "store", "Row": "index.database", "Scope": "scope",
    "Session": "recall.session", "Settings": "config", "Sheaf": "sheaf", "Tools": "tools", "Turn": "recall.turns",
    "load_model": "llm",
}  # fmt: skip

TYPE_CHECKING = False  # known to type checkers by this name; `import memsheaf` itself stays free
if TYPE_CHECKING:
    from memsheaf.config import Settings
    from memsheaf.doctor import Finding
    from memsheaf.erasure import Proof
    from memsheaf.errors import MemsheafError
    from memsheaf.history import Blamed
    from memsheaf.index.catalog import Page
    from memsheaf.index.database import Row
    from memsheaf.learn.learner import Distilled
    from memsheaf.llm import load_model
    from memsheaf.memory import Allow, Memory
    from memsheaf.recall.recall import Recall
    from memsheaf.recall.session import Session
    from memsheaf.recall.turns import Message, Turn
    from memsheaf.scope import Scope
    from memsheaf.sheaf import Sheaf
    from memsheaf.store import ABSENT, Commit, Revision
    from memsheaf.tools import Tools
    from memsheaf.transfer import Exported, Imported
    from memsheaf.work.layers import Layers


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'memsheaf' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"memsheaf.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
