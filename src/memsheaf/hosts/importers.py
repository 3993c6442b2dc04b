"""Readers of what other tools keep as text files: Claude Code, Codex, basic-memory, Cursor, AGENTS.md and the like.

A reader gives what it finds and what it leaves out, and writes nothing. `READERS` has them by the name that
`memsheaf import --from` takes. A file of instructions is split: each bullet is a fact, and so is the other text below
a heading. What lies in a git working tree came with a repository, and so did every rule and every file of
instructions for a project: it belongs to the project, and is nobody's word until a person confirms it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping

from memsheaf.archive import LINK, NO_MARKDOWN
from memsheaf.errors import ArchiveRefused, ScopeRefused, hinted
from memsheaf.hosts.foreign import Foreign, ForeignMemory, LeftOut, Surroundings, read_below, read_folder
from memsheaf.hosts.import_exports import read_claude_mem, read_mem0, read_server_memory
from memsheaf.scope import refuse_links, repository_around
from memsheaf.text.sections import fence_after, sections
from memsheaf.values import compiled

INSTRUCTIONS = ("AGENTS.md", "CLAUDE.md", "GEMINI.md")
SHORTEST = 6  # bytes of a fact

_BULLET = r"[-*+][ \t]+(?:\[[ xX]\][ \t]+)?"
_COMMENT = r"(?s)<!--.*?-->"
_HEADER = r"(?s)---[ \t]*\r?\n(.*?\n)?---[ \t]*(?:\r?\n|$)"
_REFERENCE = r"\s*@([\w./~-]+)\s*"  # Claude Code and Gemini load the file that such a line names
_POINTER = rf"\s*(?:{_BULLET})?\[[^\]]*\]\(([^)\s]+\.md)\).*"

Files = Iterable[ForeignMemory | LeftOut | None]


def read_foreign(what: str, source: str, place: Surroundings) -> Foreign:
    """Read what a tool remembers, from a place or with "" from its usual ones.

    Raises:
        ArchiveRefused: there is nothing, or it is not what that tool writes.
    """
    if source and not (os.path.isdir(source) or os.path.isfile(source)):
        raise _nothing(f"file or folder {source!r}")
    source = os.path.realpath(source) if source else ""
    is_shared = what in _OF_REPOSITORIES or bool(source and _is_in_repository(source))
    for one in READERS[what](source, place):
        if isinstance(one, ForeignMemory) and (is_shared or one.is_shared):
            one = one._replace(scope="project", is_shared=True)
        yield one


def _is_in_repository(path: str) -> bool:
    real = os.path.realpath(path)
    return bool(repository_around(real if os.path.isdir(real) else os.path.dirname(real))[0])


def claude_memory_folder(place: Surroundings) -> str:
    """The folder that Claude Code gives a project: named after its main working tree."""
    name = re.sub(r"[^A-Za-z0-9]", "-", place.checkout)
    return place.at_home(".claude", "projects", name, "memory", variable="CLAUDE_CONFIG_DIR")


def _read_claude_code(source: str, place: Surroundings) -> Foreign:
    folder, names = source or claude_memory_folder(place), ("CLAUDE.md", ".claude/CLAUDE.md", "CLAUDE.local.md")
    own = [] if source else [read_below(place.at_home(".claude", variable="CLAUDE_CONFIG_DIR"), "CLAUDE.md")]
    theirs = [] if source else [read_below(place.checkout, name) for name in names]
    if not os.path.isdir(folder) and not any((*own, *theirs)):
        raise _nothing(folder)
    found = list(_read_notes(folder, place)) if os.path.isdir(folder) else []
    files, is_shared = {one.where for one in found}, os.path.islink(folder) and _is_in_repository(folder)
    for one in found:
        if isinstance(one, ForeignMemory) and one.where == "MEMORY.md":  # in which a line points to a file
            kept = ("" if (to := re.fullmatch(_POINTER, line)) and to[1] in files else line for line in _lines(one))
            yield from _split([one._replace(text="\n".join(kept))], is_shared=is_shared)
        else:
            yield one._replace(is_shared=is_shared) if isinstance(one, ForeignMemory) else one
    yield from _split(own, scope="user")
    yield from _split(theirs, is_shared=True)


def _read_codex(source: str, place: Surroundings) -> Foreign:
    folder = source or place.at_home(".codex", variable="CODEX_HOME")
    files = [read_below(folder, name) for name in ("AGENTS.md", "AGENTS.override.md", "memories/MEMORY.md")]
    if not any(files):
        raise _nothing(os.path.join(folder, "AGENTS.md"))
    yield from _split(files, scope="user")
    memories = os.path.join(folder, "memories")
    for one in read_folder(memories) if os.path.isdir(memories) and not os.path.islink(memories) else ():
        if one.where != "MEMORY.md":
            why = one.why if isinstance(one, LeftOut) else "Codex makes MEMORY.md of it, or from it"
            yield LeftOut(f"memories/{one.where}", why)


def _read_notes(source: str, place: Surroundings) -> Foreign:
    """Markdown files, each a memory."""
    folder = source or place.at_home("basic-memory", variable="BASIC_MEMORY_HOME")
    if not os.path.isdir(folder):
        raise _nothing(folder)
    for one in read_folder(folder):
        yield one if isinstance(one, LeftOut) or one.path.endswith(".md") else LeftOut(one.where, NO_MARKDOWN)


def _read_cursor_rules(source: str, place: Surroundings) -> Foreign:
    root = source or place.checkout
    if os.path.isfile(root):
        yield from _read_rules([read_below(os.path.dirname(root), os.path.basename(root))])
        return
    rules, old = os.path.join(root, ".cursor", "rules"), read_below(root, ".cursorrules")
    try:
        refuse_links(root, rules)
    except ScopeRefused:
        yield LeftOut(".cursor/rules", LINK)
        rules = ""
    rules = rules if os.path.isdir(rules) else source
    if not rules and not old:
        raise _nothing(os.path.join(root, ".cursor", "rules"))
    yield from _read_rules(read_folder(rules) if rules else ())
    yield from _split([old])


def _read_rules(files: Files) -> Foreign:
    """Rules of Cursor: a header of plain lines, whose globs no YAML reader takes, and the rule."""
    for one in files:
        if isinstance(one, ForeignMemory):
            head = re.match(_HEADER, one.text)
            lines = (line.partition(":") for line in (head[1] or "").splitlines()) if head else ()
            fields = {key.strip(): value.strip().strip("\"'[]") for key, _, value in lines}
            body = one.text[head.end() :].strip() if head else one.text.strip()
            globs = f"in {fields['globs']}" if fields.get("globs") else ""
            when = ", ".join(filter(None, (fields.get("description"), globs)))
            if body and one.path.endswith((".mdc", ".md")):
                rule = one._replace(body=body, text="", path="", kind="feedback")
                stem = os.path.splitext(os.path.basename(one.path))[0]
                yield rule._replace(name=" ".join(re.split(r"[-_\s]+", stem)).strip(), description=when)
            else:
                yield LeftOut(one.where, "it is no rule: its name does not end in .mdc" if body else "it is empty")
        elif one:
            yield one


def _read_instructions(source: str, place: Surroundings) -> Foreign:
    root = source or place.checkout
    folder, name = os.path.split(root)
    files = [read_below(folder, name)] if os.path.isfile(root) else [read_below(root, one) for one in INSTRUCTIONS]
    if not any(files):
        raise _nothing(" or ".join(INSTRUCTIONS))
    yield from _split(files)


def _split(files: Files, *, scope: str = "", is_shared: bool = False) -> Foreign:
    """The facts of files of instructions: each bullet with what belongs to it, and the rest of each section."""
    for file in files:
        if not isinstance(file, ForeignMemory):
            yield from (file,) if file else ()
            continue
        text = compiled(_COMMENT).sub(lambda found: "\n" * found[0].count("\n"), "\n".join(_lines(file)))
        above: list[tuple[int, str]] = []
        for section in sections(text):
            above = [one for one in above if one[0] < section.level]
            above += [(section.level, section.title)] * (section.level > 1)
            heading = ": ".join(title for _, title in above)
            for number, body in _blocks(section.lines, section.start + 1 + bool(section.level)):
                where = f"{file.where}:{number}"
                if named := compiled(_REFERENCE).fullmatch(body):
                    yield LeftOut(where, f"it names another file, {named[1]}, which is to be imported by itself")
                elif len(body.encode()) < SHORTEST:
                    yield LeftOut(where, "it is too short to say something")
                else:
                    fact = ForeignMemory(where, body, heading=heading, day=file.day)
                    yield fact._replace(scope=scope, is_shared=is_shared)


def _lines(file: ForeignMemory) -> list[str]:
    return file.text.replace("\r\n", "\n").split("\n")


def _blocks(lines: Iterable[str], first: int) -> Iterator[tuple[int, str]]:
    """The bullets of a section, lines that name a file, and its other text, each with the number of its first line.

    A line that only leads to the bullets, such as "Always:", is none.
    """
    bullets: list[tuple[int, list[str]]] = []
    rest: list[tuple[int, str]] = []
    fence, is_inside = "", False
    for number, line in enumerate(lines, first):
        bullet = compiled(_BULLET).match(line) if not fence else None
        fence = fence_after(line, fence)
        if bullet:
            bullets.append((number, [line[bullet.end() :]]))
        elif is_inside and (line[:1].isspace() or not line.strip()):
            bullets[-1][1].append(line)
        elif compiled(_REFERENCE).fullmatch(line):
            yield number, line
        elif line.strip() or rest:
            rest.append((number, line))
        is_inside = bool(bullet) or (is_inside and (line[:1].isspace() or not line.strip()))
    said = "\n".join(line for _, line in rest).strip()
    if said and not (bullets and said.endswith(":") and "\n" not in said):
        yield rest[0][0], said
    for number, held in bullets:
        yield number, "\n".join(held).strip()


def _nothing(place: str) -> ArchiveRefused:
    return hinted(ArchiveRefused(f"there is no {place}"), "Name the file or folder to import.")


_OF_REPOSITORIES = ("cursor-rules", "agents-md")
READERS: Mapping[str, Callable[[str, Surroundings], Foreign]] = {
    "claude-code": _read_claude_code,
    "codex": _read_codex,
    "claude-mem": read_claude_mem,
    "basic-memory": _read_notes,
    "mem0": read_mem0,
    "server-memory": read_server_memory,
    "cursor-rules": _read_cursor_rules,
    "agents-md": _read_instructions,
}
