"""Adapters for agent frameworks: one module a framework, imported only by those who use it."""

from __future__ import annotations


def missing(extra: str, error: ImportError) -> ImportError:
    """The error for a framework package that is missing or has the wrong version, with what to install.

    >>> str(missing("langgraph", ModuleNotFoundError("No module named 'langgraph'", name="langgraph")))
    "langgraph is not installed: pip install 'memsheaf[langgraph]'"
    >>> str(missing("langgraph", ImportError("cannot import name 'Op' from 'langgraph'", name="langgraph")))
    "cannot import name 'Op' from 'langgraph': pip install 'memsheaf[langgraph]'"
    """
    what = f"{error.name or extra} is not installed" if isinstance(error, ModuleNotFoundError) else str(error)
    return ImportError(f"{what}: pip install 'memsheaf[{extra}]'", name=error.name)
