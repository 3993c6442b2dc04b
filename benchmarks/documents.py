"""What memsheaf is measured against: the algorithm of the documents that describe such a memory.

Every save reads all files again, takes their headers apart with one regular expression, groups them by type
and writes the catalog anew. Nothing is flushed, so nothing saved is promised to survive a power cut.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from benchmarks.memories import Made

CATALOG = "MEMORY.md"
SHOWN = 200
_HEADER = re.compile(r"\A---\n(.*?)\n---\n(.*)", re.DOTALL)
_HEADINGS = {
    "user": "User",
    "feedback": "Feedback",
    "project": "Project",
    "reference": "Reference",
    "other": "Other",
}


class Documents:
    """A memory folder as the documents keep it."""

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)

    def save(self, made: Made) -> None:
        """Write one memory and rebuild the catalog."""
        today = datetime.now().strftime("%Y-%m-%d")
        text = (
            f"---\nname: {made.name}\ndescription: {made.description}\n"
            f"type: {made.kind}\nupdated: {today}\n---\n\n{made.content}\n"
        )
        (self._folder / made.file).write_text(text)
        self.rebuild()

    def rebuild(self) -> None:
        """Make the catalog from all files."""
        groups: dict[str, list[str]] = {}
        for path, fields in self._all():
            line = f"- [{fields.get('name', path.stem)}]({path.name}) - {fields.get('description', path.stem)}"
            groups.setdefault(fields.get("type", "other"), []).append(line)
        lines = ["# Memory\n"]
        for kind, heading in _HEADINGS.items():
            if kind in groups:
                lines += [f"## {heading}", *groups[kind], ""]
        (self._folder / CATALOG).write_text("\n".join(lines).strip() + "\n")

    def read(self, file: str) -> str:
        """Give one memory."""
        return (self._folder / file).read_text()

    def files(self) -> list[str]:
        """Give a line for every memory."""
        return [
            f"{path.name}  [{fields.get('type', '?')}]  {fields.get('description', '')}  "
            f"(updated: {fields.get('updated', '?')})"
            for path, fields in self._all()
        ]

    def search(self, query: str, limit: int) -> list[str]:
        """Give the files whose name and description hold most words of the query."""
        words = set(query.lower().split())
        scored = []
        for path, fields in self._all():
            known = set(f"{fields.get('name', '')} {fields.get('description', '')}".lower().split())
            if hits := len(words & known):
                scored.append((-hits, path.name))
        return [name for _, name in sorted(scored)[:limit]]

    def start(self) -> str:
        """Give the part of the catalog that goes into a prompt."""
        lines = (self._folder / CATALOG).read_text().splitlines()
        return "\n".join(lines[:SHOWN])

    def _all(self) -> Iterator[tuple[Path, dict[str, str]]]:
        for path in sorted(self._folder.glob("*.md")):
            if path.name != CATALOG:
                yield path, _fields(path.read_text())


def _fields(text: str) -> dict[str, str]:
    found = _HEADER.match(text)
    if not found:
        return {}
    found.group(2).strip()  # the body is cut out too, whether or not it is needed
    fields = {}
    for line in found.group(1).strip().splitlines():
        if ":" in line:
            key, value = line.split(":", 1)
            fields[key.strip()] = value.strip()
    return fields
