"""The handlers of MCP requests: tools, resources and prompts, for any transport.

Nothing here knows a transport or an era of the protocol. What goes wrong in a tool is an answer; for a resource or a
prompt it is a MemsheafError.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from typing import NamedTuple

from memsheaf.errors import MemsheafError, NotFound, Refused, hinted
from memsheaf.guard import without_secrets
from memsheaf.hosts.switch import is_off
from memsheaf.memory import KINDS
from memsheaf.prompts import read_prompt
from memsheaf.sheaf import Sheaf
from memsheaf.text.neutralize import for_prompt, one_line
from memsheaf.tools import ToolAnswer, Tools, memory_read
from memsheaf.work.layers import Layers

CATALOG, CONTEXT, FILE = "memory://catalog", "memory://context", "memory://file/"
MARKDOWN = "text/markdown"
PAGE = 100  # memories on one page of resources
SHOWN = 50  # findings of an audit in a prompt
OFF, TURN_ON = "memory is off here", "A person turns it on with `memsheaf on`."

Progress = Callable[[int, int, str], None]
"""Told how far a long call is, of how much (0 when nobody knows), and what it does; what it raises ends the call."""


class Resource(NamedTuple):
    """One thing to read."""

    uri: str
    name: str
    description: str


class ResourceChange(NamedTuple):
    """What changed: resources that have another text now, and whether memories came or went."""

    uris: tuple[str, ...]
    listed: bool


class Offer:
    """What one client is offered. Clients that cannot be told apart share one that does not `remember`.

    Whoever serves it calls `changes` now and then: large scopes are looked through there, while nobody waits.

    With `tree`, the folder of the work, what is read comes with the verdict on its citations.
    """

    def __init__(self, memory: Layers | Sheaf, *, tree: str = "", remember: bool = True) -> None:
        self.memory = memory if isinstance(memory, Layers) else Layers.of(memory)
        self.has_listed = False
        """Whether resources were listed: only then, or after a subscription, is the client told of new ones."""
        self._tree = tree
        self._tools = Tools(self.memory, tree=tree, remember=remember)

    def _sheaves(self) -> list[Sheaf]:
        """The scopes that are served now."""
        sheaves = self.memory.sheaves()
        for sheaf in sheaves:
            sheaf.reader.leave_sweeps_to_others()
        return sheaves

    def call(self, name: str, arguments: object, *, progress: Progress | None = None) -> ToolAnswer:
        """Run a tool."""
        given: Mapping[str, object] = {} if arguments is None else arguments  # type: ignore[assignment]
        if is_off(self.memory.settings.state, self.memory.root):
            return ToolAnswer(f"Error: {OFF}. {TURN_ON}", failed=True)
        with ExitStack() as stack:
            if progress:
                with suppress(MemsheafError):  # the tool says what is wrong
                    for sheaf in self._sheaves():
                        stack.enter_context(sheaf.reader.reporting(_reporting(progress)))
            return self._tools.answer(name, given)

    def _require_on(self) -> None:
        if is_off(self.memory.settings.state, self.memory.root):
            raise hinted(Refused(OFF), TURN_ON)

    def resources(self, cursor: str = "") -> tuple[list[Resource], str]:
        """A page of what can be read, and the cursor of the next. The catalog and the context stand first."""
        self._require_on()
        if cursor and not (cursor.isascii() and cursor.isdigit() and 1 < int(cursor[:9]) < 1_000_000):
            raise Refused(f"there is no page {one_line(cursor, 20)!r}")
        number = int(cursor or 1)
        rows = self.memory.ranked(PAGE + 1, (number - 1) * PAGE)
        self.has_listed = True
        found = [] if number > 1 else list(STANDING)
        found += [
            Resource(uri_of(row.path), row.path, one_line(row.masked().description, 160)) for row in rows[:PAGE]
        ]
        return found, str(number + 1) if len(rows) > PAGE else ""

    def read(self, uri: str) -> str:
        """The text of a resource. Raises NotFound, Refused."""
        self._require_on()
        if uri == CATALOG:
            return self.memory.catalog().text
        if uri == CONTEXT:
            return self.memory.prompt()
        path = path_of(uri)
        if not path:
            raise NotFound(one_line(uri, 200))
        return memory_read(self._tools.seen, path)

    def prompt(self, name: str, arguments: Mapping[str, str], *, progress: Progress | None = None) -> str:
        """What a prompt says, for the user's side of the conversation. Raises Refused."""
        self._require_on()
        for argument, (_, required) in self._prompt_arguments(name).items():
            if required and not arguments.get(argument, "").strip():
                raise Refused(f"the prompt {name!r} needs {argument!r}")
        if name == "recall":
            return self._recalled(arguments["query"])
        if name == "remember":
            kind = arguments.get("type", "").strip()
            fact = for_prompt(arguments["fact"]) + (f"\n\n(as type {one_line(kind, 20)})" if kind else "")
            return read_prompt("ask-remember").replace("{fact}", fact)
        if name == "audit":
            return self._audited(progress)
        return read_prompt("ask-reflect" if name == "reflect" else "ask-ignore")

    @staticmethod
    def _prompt_arguments(name: str) -> Mapping[str, tuple[str, bool]]:
        if name not in PROMPTS:
            raise Refused(f"there is no prompt {one_line(name, 40)!r}; there are: {', '.join(PROMPTS)}")
        return PROMPTS[name][1]

    def _recalled(self, query: str) -> str:
        found = self.memory.recall(query, tree=self._tree)
        before, _, after = read_prompt("ask-recall").partition("{recalled}")
        recalled = found.text or f"({self._near(query)})"
        return before.replace("{query}", for_prompt(query)) + recalled + after

    def _near(self, query: str) -> str:
        """The nearest memories, for a person who asked; plain recall shows nothing when unsure."""
        rows = [row for row in self.memory.search(query, limit=5) if row.trust == "confirmed"]
        if not rows:
            return "Nothing that is remembered has to do with it."
        near = "\n".join(f"- {row.path}: {one_line(for_prompt(row.description), 160)}" for row in rows)
        return f"Nothing fits well. Nearest, to be read with `memory_read` if they help:\n{near}"

    def _audited(self, progress: Progress | None) -> str:
        from memsheaf.work.audit import audit

        found, files = [], 0
        for sheaf in self._sheaves():
            report = audit(sheaf, today=sheaf.today, progress=_counting(progress))
            files += report.files
            found += [
                f"- {self.memory.name(sheaf, one.path)}: {one.kind}: {one_line(for_prompt(one.said), 200)}"
                for one in report.findings()
            ]
        lines = found[:SHOWN]
        if len(found) > SHOWN:
            lines.append(f"- and {len(found) - SHOWN} more; `memsheaf audit` shows all")
        shown = (
            read_prompt("ask-audit")
            .replace("{files}", f"{files:,}")
            .replace("{scope}", ", ".join(self.memory.scopes()))
        )
        return shown.replace("{report}", without_secrets("\n".join(lines)) or "Nothing was found.")

    def last(self) -> str:
        """Where the journals are now, for `changes` later."""
        return " ".join(f"{sheaf.scope}={sheaf.reader.last_id()}" for sheaf in self._sheaves())

    def changes(self, since: str | None, *, look: bool = True) -> tuple[ResourceChange | None, str]:
        """What changed since `last` gave `since`, and what it gives now. Without `look`, edits by hand are missed."""
        if look:
            for sheaf in self._sheaves():
                sheaf.reader.look(sweep=True)
        last = self.last()
        if since is None or last == since:
            return None, last
        known = dict(one.partition("=")[::2] for one in since.split())
        paths: dict[str, None] = {}
        listed = False
        for sheaf in self._sheaves():
            for commit in sheaf.reader.since(known.get(str(sheaf.scope), "")):
                for revision in commit.revisions:
                    paths[self.memory.name(sheaf, revision.path)] = None
                    listed |= not (revision.before and revision.after)
        uris = (CATALOG, CONTEXT, *map(uri_of, list(paths)[: 10 * PAGE]))
        return ResourceChange(uris, listed), last


STANDING = (
    Resource(CATALOG, "catalog", "One line for each memory, the most important first"),
    Resource(
        CONTEXT, "context", "How to use memory, the catalog, CONTEXT.md and NOTES.md: what a conversation begins with"
    ),
)

PROMPTS: Mapping[str, tuple[str, Mapping[str, tuple[str, bool]]]] = {
    "recall": ("What is remembered about something", {"query": ("What it is about", True)}),
    "remember": (
        "Save something for later conversations",
        {"fact": ("What to remember", True), "type": (", ".join(KINDS), False)},
    ),
    "reflect": ("Look back over this conversation and save what will matter later", {}),
    "audit": ("Go through what is remembered: duplicates, stale citations, what waits", {}),
    "ignore_memory": ("Do without memory in this turn", {}),
}
"""The prompts: what each is for, and its arguments with what they mean and whether they must be given."""


def uri_of(path: str) -> str:
    """The address of a memory.

    >>> uri_of("facts/project_caf\\u00e9 au lait.md")
    'memory://file/facts/project_caf%C3%A9%20au%20lait.md'
    """
    from urllib.parse import quote

    return FILE + quote(path, safe="/,()'+&@")  # as a client fills in the template


def path_of(uri: str) -> str:
    """The memory that an address names, "" when it names none.

    >>> path_of("memory://file/facts%2Fa.md"), path_of("memory://catalog"), path_of("memory://file/%ff.md")
    ('facts/a.md', '', '')
    """
    from urllib.parse import unquote

    try:
        return unquote(uri.removeprefix(FILE), errors="strict") if uri.startswith(FILE) else ""
    except UnicodeDecodeError:
        return ""


def _reporting(progress: Progress) -> Callable[[int], None]:
    return lambda done: progress(done, 0, "reading memories")


def _counting(progress: Progress | None) -> Callable[[int, int], None] | None:
    return (lambda done, total: progress(done, total, "looking at memories")) if progress else None
