"""What was noted in the file of a session: not the words of the template that it began with.

Such a file is called session.md and has in its header, as `blank`, the digest of its template.
"""

from __future__ import annotations

from memsheaf.memory import Memory
from memsheaf.text.headings import written
from memsheaf.values import sha256

FILE = "session.md"


def sayings(memory: Memory) -> tuple[str, str, str]:
    """The name, description and text by which a memory is found; "" for what nobody said."""
    name, description, body = memory.name, memory.description, memory.body
    if not _has_template(memory):
        return name, description, body
    if is_blank(memory):
        return "", "", ""
    usual = untitled(memory.created)
    return (
        "" if name == usual else name,
        "" if description == usual else description,
        written(body, titled=False),
    )


def shown(memory: Memory) -> str:
    """The text of a memory as it stands beside a message."""
    return written(memory.body) if _has_template(memory) else memory.body


def is_blank(memory: Memory) -> bool:
    """Whether the text is still that of the template."""
    given = memory.page.get("blank")
    return bool(given) and given == digest(memory.body)


def digest(body: str) -> str:
    """What tells a text from another, line ends and blank lines around it aside."""
    return sha256(body.replace("\r\n", "\n").strip().encode("utf-8", "replace")).hexdigest()[:16]


def untitled(day: str) -> str:
    """What a session is called that began on a day and that nobody gave a title."""
    return f"Session of {day}"


def _has_template(memory: Memory) -> bool:
    # the name first: this is asked of every memory that is saved
    return memory.path.rpartition("/")[2] == FILE and bool(memory.page.get("blank"))
