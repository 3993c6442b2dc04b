"""The handlers of MCP requests that need the memories: tools, resources and prompts.

Nothing here knows a transport or an era of the protocol. What goes wrong in a tool is an answer; for a resource or a
prompt it is a MemsheafError.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from typing import Any
from urllib.parse import quote, unquote

from memsheaf.errors import MemsheafError, NotFound, Ref, Refused
from memsheaf.guard import without_secrets
from memsheaf.hosts.switch import is_off
from memsheaf.mcp.protocol import tool_result
from memsheaf.memory import KINDS
from memsheaf.open_scope import list_best
from memsheaf.prompts import read_prompt
from memsheaf.sheaf import Sheaf
from memsheaf.text.neutralize import for_prompt, one_line
from memsheaf.tools import ToolAnswer, Tools, memory_read

CATALOG, CONTEXT, FILE = "memory://catalog", "memory://context", "memory://file/"
MARKDOWN = "text/markdown"
MAX_URI_CHARS = 10_000  # no path has more, each byte of it written as %XX
PAGE_RESOURCES = 100
MAX_FINDINGS = 50  # of an audit in a prompt
OFF, TURN_ON = "memory is off here", "A person turns it on with `memsheaf on`."

Progress = Callable[[int, int, str], None]
"""Told how far a long call is, of how much (0 when nobody knows), and what it does; what it raises ends the call."""


class Offer:
    """The tools and resources for one client. Clients that cannot be told apart share one that does not `remember`.

    With `tree`, the folder of the work, what is read comes with the verdict on its citations.
    """

    def __init__(self, memory: Sheaf, *, tree: str = "", remember: bool = True) -> None:
        self.memory = memory
        self.has_listed = False
        """Only a client that has listed resources is told of new ones: the Python client up to 1.5.0 blocks on
        notifications that nobody reads."""
        self._tree = tree
        self._tools = Tools(self.memory, tree=tree, remember=remember)

    def answer(self, method: str, params: Mapping[str, Any], progress: Progress) -> dict[str, Any]:
        """Return the result of a request. Raises MemsheafError, for anything but a tool."""
        if method == "tools/call":
            answer = self.call(params["name"], params.get("arguments") or {}, progress)
            return tool_result(answer.text, failed=answer.failed)
        if is_off(self.memory.settings.state, self.memory.root):
            raise Refused(OFF, hint=TURN_ON)
        if method == "resources/list":
            return self._list_resources(params.get("cursor") or "")
        if method == "resources/read":
            uri = params["uri"]
            return {"contents": [{"uri": uri, "mimeType": MARKDOWN, "text": self._read(uri)}]}
        name = params["name"]
        text = self._render_prompt(name, params.get("arguments") or {})
        message = {"role": "user", "content": {"type": "text", "text": text}}
        return {"description": PROMPTS[name][0], "messages": [message]}

    def call(self, name: str, arguments: Mapping[str, object], progress: Progress) -> ToolAnswer:
        """Run a tool."""
        if is_off(self.memory.settings.state, self.memory.root):
            return ToolAnswer(f"Error: {OFF}. {TURN_ON}", failed=True)
        with ExitStack() as stack:
            with suppress(MemsheafError):  # the tool says what is wrong
                for scope in self.memory.open_scopes():
                    stack.enter_context(scope.index.reporting(lambda done: progress(done, 0, "reading memories")))
            return self._tools.answer(name, arguments)

    def _list_resources(self, cursor: str) -> dict[str, Any]:
        """Return a page of resources. The catalog and the context stand first."""
        if cursor and not (cursor.isdecimal() and 1 < int(cursor[:9]) < 1_000_000):
            raise Refused(f"there is no page {one_line(cursor, 20)!r}")
        number = int(cursor or 1)
        end = number * PAGE_RESOURCES
        rows = list_best(self.memory.open_scopes(), end + 1)
        self.has_listed = True
        listed = list(STANDING) if number == 1 else []
        for row in rows[end - PAGE_RESOURCES : end]:
            file = self.memory.label(row.ref)
            listed.append((uri_of(file), file, one_line(row.masked().description, 160)))
        page: dict[str, Any] = {
            "resources": [
                {"uri": uri, "name": name, "description": description, "mimeType": MARKDOWN}
                for uri, name, description in listed
            ]
        }
        if len(rows) > end:
            page["nextCursor"] = str(number + 1)
        return page

    def _read(self, uri: str) -> str:
        """Return the text of a resource. Raises NotFound, Refused."""
        if uri == CATALOG:
            return self.memory.catalog().text
        if uri == CONTEXT:
            return self.memory.prompt()
        path = path_of(uri) if len(uri) <= MAX_URI_CHARS else ""
        if not path:
            raise NotFound(one_line(uri[:MAX_URI_CHARS], 200))
        return memory_read(self._tools.seen, path)

    def _render_prompt(self, name: str, arguments: Mapping[str, str]) -> str:
        """Return the text of a prompt, for the user's side of the conversation. Raises Refused."""
        if name not in PROMPTS:
            raise Refused(f"there is no prompt {one_line(name, 40)!r}; there are: {', '.join(PROMPTS)}")
        for argument, (_, required) in PROMPTS[name][1].items():
            if required and not arguments.get(argument, "").strip():
                raise Refused(f"the prompt {name!r} needs {argument!r}")
        if name == "recall":
            return self._fill_recall_prompt(arguments["query"])
        if name == "remember":
            kind = arguments.get("type", "").strip()
            fact = for_prompt(arguments["fact"]) + (f"\n\n(as type {one_line(kind, 20)})" if kind else "")
            return read_prompt("ask-remember").replace("{fact}", fact)
        if name == "audit":
            return self._fill_audit_prompt()
        return read_prompt("ask-reflect" if name == "reflect" else "ask-ignore")

    def _fill_recall_prompt(self, query: str) -> str:
        found = self.memory.recall(query, tree=self._tree)
        before, _, after = read_prompt("ask-recall").partition("{recalled}")
        recalled = found.text or self._tools.answer("memory_search", {"query": query, "limit": 5}).text
        return before.replace("{query}", for_prompt(query)) + recalled + after

    def _fill_audit_prompt(self) -> str:
        from memsheaf.work.checks import audit

        lines, files = [], 0
        scopes = self.memory.scopes()
        for sheaf in map(self.memory.only, scopes):
            report = audit(sheaf, today=sheaf.today)
            files += report.files
            for finding in report.findings:
                said = one_line(for_prompt(finding.problem), 200)
                lines.append(f"- {self.memory.label(Ref(sheaf.home, finding.path))}: {finding.kind}: {said}")
        if len(lines) > MAX_FINDINGS:
            lines[MAX_FINDINGS:] = [f"- and {len(lines) - MAX_FINDINGS} more; `memsheaf audit` shows all"]
        prompt = read_prompt("ask-audit").replace("{files}", f"{files:,}").replace("{scope}", ", ".join(scopes))
        return prompt.replace("{report}", without_secrets("\n".join(lines)) or "Nothing was found.")

    def last(self) -> str:
        """Return where the journals are now, for `has_new_list` later."""
        return " ".join(f"{scope.name}={scope.store.last_id()}" for scope in self.memory.open_scopes())

    def has_new_list(self, since: str | None, *, look: bool) -> tuple[bool, str]:
        """Return whether memories came or went since `last` gave `since`, and what it gives now.

        Without `look`, edits by hand are missed.
        """
        if look:
            for scope in self.memory.open_scopes():
                scope.index.look()
        last = self.last()
        if since is None or last == since:
            return False, last
        known = dict(part.partition("=")[::2] for part in since.split())
        commits = (commit for scope in self.memory.open_scopes() for commit in scope.since(known.get(scope.name, "")))
        return any(not (change.before and change.after) for commit in commits for change in commit.revisions), last


STANDING = (
    (CATALOG, "catalog", "One line for each memory, the most important first"),
    (CONTEXT, "context", "How to use memory, the catalog, CONTEXT.md and NOTES.md: what a conversation begins with"),
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
    return FILE + quote(path, safe="/,()'+&@")  # as a client fills in the template


def path_of(uri: str) -> str:
    """The memory that an address names, "" when it names none.

    >>> path_of("memory://file/facts%2Fa.md"), path_of("memory://catalog"), path_of("memory://file/%ff.md")
    ('facts/a.md', '', '')
    """
    try:
        return unquote(uri.removeprefix(FILE), errors="strict") if uri.startswith(FILE) else ""
    except UnicodeDecodeError:
        return ""
