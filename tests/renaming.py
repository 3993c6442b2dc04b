"""Give the file of a memory another name, as a framework's memory tool does."""

from __future__ import annotations

from memsheaf import Sheaf
from memsheaf.gates import WrittenFile
from memsheaf.memory import Allow


def rename(sheaf: Sheaf, old: str, new: str) -> str:
    was = sheaf.read(old)
    files = [WrittenFile(old, None, was), WrittenFile(new, was._replace(path=new))]
    sheaf.own.change_many(files, f"rename {old} to {new}", allow=Allow(anyway=True))
    return new
