"""Anthropic's memory tool, `memory_20250818`, over a sheaf: the model's files are memories.

    with MemoryTool.open("project") as tool:
        client.beta.messages.tool_runner(..., tools=[tool]).until_done()

Our files end in `.md`, those of a model often do not. Each name has one file, and each file one name:

>>> [to_file(name) for name in ("user_tabs.md", "notes.txt", "todo")]
['user_tabs.md', 'notes.txt.md', 'todo.file.md']
>>> [to_name(path) for path in ("user_tabs.md", "notes.txt.md", "todo.file.md")]
['user_tabs.md', 'notes.txt', 'todo']
"""

from __future__ import annotations

import posixpath
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from threading import Lock
from typing import Any, Self

from memsheaf.adapters import missing
from memsheaf.config import Settings
from memsheaf.errors import (
    BadHeader,
    Busy,
    Changed,
    Duplicate,
    Exists,
    MemsheafError,
    NoMatch,
    NotFound,
    NotWorth,
    PathRefused,
    ReadOnly,
    Refused,
    SecretFound,
    TextRefused,
    fact_edit_error,
)
from memsheaf.gates import LAYER_FILES, WrittenFile, check_text, replace_piece, require_no_secret, update_memory
from memsheaf.guard.paths import CATALOG, check_path, fold, is_fact, is_reserved
from memsheaf.guard.secrets import without_secrets
from memsheaf.index.database import Row
from memsheaf.memory import STRICT, Allow, Memory
from memsheaf.open_scope import retry
from memsheaf.recall.inject import NOTES, text_for_model
from memsheaf.recall.session import Session
from memsheaf.sheaf import Sheaf
from memsheaf.text.neutralize import for_prompt, one_line
from memsheaf.tools import describe_failure, shorten
from memsheaf.work.notes import problems

try:
    from anthropic.tools import BetaAbstractMemoryTool, BetaAsyncAbstractMemoryTool, ToolError
    from anthropic.types.beta import BetaCacheControlEphemeralParam
    from anyio.to_thread import run_sync
except ImportError as error:
    raise missing("anthropic", error) from None

ROOT = "/memories"
MAX_LISTED_LINES = 500
MAX_ECHOED_CHARS = 1_000  # of a model's own text in an error
MAX_NAMED_LINES = 50  # line numbers in an error
PARAMETERS: dict[str, tuple[str, ...]] = {  # of each command; `view` may have a `view_range`, too
    "view": ("path",),
    "create": ("path", "file_text"),
    "str_replace": ("path", "old_str", "new_str"),
    "insert": ("path", "insert_line", "insert_text"),
    "delete": ("path",),
    "rename": ("old_path", "new_path"),
}
_TEXT_ENDINGS = (".txt", ".xml", ".json", ".jsonl", ".yaml", ".yml", ".toml", ".csv", ".html", ".log")
_OTHER_ENDING = ".file.md"


class _SheafTool:
    """The part that both tools share: the files, and the sheaf behind them."""

    def __init__(
        self,
        sheaf: Sheaf,
        *,
        session: Session | None = None,
        cache_control: BetaCacheControlEphemeralParam | None = None,
    ) -> None:
        super().__init__(cache_control=cache_control)  # type: ignore[call-arg]  # of the SDK's class
        self.sheaf = sheaf
        self._files = MemoryFiles(sheaf, session=session)

    @classmethod
    def open(cls, scope: str = "project", *, settings: Settings | None = None, by: str = "agent") -> Self:
        """Open the tool over a scope such as "project" or "agent/NAME". Close it, or use it in a `with`."""
        return cls(Sheaf.open(scope, settings=settings, by=by))

    def close(self) -> None:
        """Flush everything to disk and close the sheaf."""
        self.sheaf.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class MemoryTool(_SheafTool, BetaAbstractMemoryTool):
    """The memory tool for `Anthropic().beta.messages.tool_runner`. Failures are ToolErrors."""

    def call(self, input: object) -> str:
        """Run a command of the model. Raises ToolError."""
        return _run(self._files.call, input)

    def _run_parsed(self, command: Any) -> str:
        return self.call(command.to_dict())

    view = create = str_replace = insert = delete = rename = _run_parsed

    def clear_all_memory(self) -> str:
        """Forget everything, as one commit that `undo` takes back."""
        return _run(self._files.clear)


class AsyncMemoryTool(_SheafTool, BetaAsyncAbstractMemoryTool):
    """The memory tool for `AsyncAnthropic().beta.messages.tool_runner`: no event loop waits for a disk."""

    async def call(self, input: object) -> str:
        """Run a command of the model, in a thread. Raises ToolError."""
        return await run_sync(_run, self._files.call, input)

    async def _run_parsed(self, command: Any) -> str:
        return await self.call(command.to_dict())

    view = create = str_replace = insert = delete = rename = _run_parsed

    async def clear_all_memory(self) -> str:
        """Forget everything, as one commit that `undo` takes back."""
        return await run_sync(_run, self._files.clear)


def _run(command: Callable[..., str], *arguments: object) -> str:
    """Return the answer of a command. Raises ToolError, which the model gets as the tool's error."""
    try:
        return command(*arguments)
    except MemsheafError as error:
        raise ToolError(explain(error)) from error
    except Exception as error:  # a defect of ours must not end the agent's run
        raise ToolError(describe_failure(error)) from error


class MemoryFiles:
    """The memory of one scope as a model sees it through the memory tool.

    A command that fails raises MemsheafError, and `explain` words it for a model. With its `session`, no command does
    anything in a turn in which the user asked to ignore memory.
    """

    def __init__(self, sheaf: Sheaf, *, session: Session | None = None) -> None:
        self.sheaf = sheaf.only(sheaf.home)
        self._session = session
        self._lock = Lock()  # a model may call several at once
        self._refused: object = None  # the last command refused as not worth keeping; a repeat is accepted
        self._allow = STRICT

    def call(self, given: object) -> str:
        """Carry out a command as the model gave it, and return the answer. Raises MemsheafError."""
        command, arguments = read_command(given)
        if not self.sheaf.settings.tools:
            raise Refused("Memory tools are switched off in the settings; answer without memory.")
        if self._session and (reason := self._session.refusal(command == "view")):
            raise Refused(reason.capitalize())
        with self._lock:
            self._allow = Allow(anyway=self._refused == (command, arguments))
            try:
                return getattr(self, command)(*arguments)  # type: ignore[no-any-return]
            except NotWorth:
                self._refused = command, arguments
                raise

    def view(self, path: str, view_range: Sequence[int] = ()) -> str:
        """Return a file with line numbers, or the content of a folder."""
        name = parse_path(path)
        memory = self._find(name) if name and name != CATALOG else None
        notes: list[str] = []
        if name == CATALOG:
            text = self.sheaf.catalog().text
        elif memory is None:
            rows = self._below(name)
            if name and not rows:
                raise _absent(name, f"The path {path} does not exist. Please provide a valid path.")
            return list_folder(path, name, rows, view_range)
        elif memory.state == "held":
            raise Refused(f"{path} cannot be shown: {memory.problem}.")
        else:
            self.sheaf.own.count_use([memory.path])
            text = text_for_model(memory)
            if memory.problem:
                notes.append(f"{path}: {memory.problem}")
            else:
                notes += [*self.sheaf.own.caveats(memory), *(self._session.verdicts(memory) if self._session else ())]
        warnings = "".join(f"({one_line(for_prompt(note), 300)})\n" for note in notes)
        lines = text.split("\n")
        numbered = _number_lines(lines, *_bounds(view_range, len(lines)))
        return f"{warnings}Here's the content of {path} with line numbers:\n{numbered}"

    def create(self, path: str, file_text: str) -> str:
        """Make a new file: a typed memory when its text has a header, a free file otherwise."""
        target = self._new_file(path)
        name = parse_path(path)
        if self._find(name) or self._below(name):
            raise Refused(f"File {path} already exists")
        self._refuse_managed(target, file_text)
        try:
            self.sheaf.put(target, file_text, free=True, allow=self._allow)
        except (Exists, Changed) as error:  # somebody was quicker
            raise Refused(f"File {path} already exists") from error
        return f"File created successfully at: {path}"

    def str_replace(self, path: str, old_str: str, new_str: str) -> str:
        """Replace a piece of a file's text, header included, that occurs once."""
        quoted = f"old_str `{_shorten(old_str)}`"

        def replace(memory: Memory) -> str:
            try:
                return replace_piece(memory, old_str, new_str, count=1)
            except NoMatch as error:
                lines = ", ".join(map(str, error.lines[:MAX_NAMED_LINES]))
                if not lines:
                    reason = f", {quoted} did not appear verbatim in {path}."
                    raise Refused(f"No replacement was performed{reason}") from None
                if len(error.lines) > MAX_NAMED_LINES:
                    lines += ", …"
                reason = f"Multiple occurrences of {quoted} in lines: {lines}. Please ensure it is unique"
                raise Refused(f"No replacement was performed. {reason}") from None

        before, after = self._edit(path, replace)
        start = before.text.find(old_str)
        if start < 0:
            start = before.text.find(old_str.replace("\n", "\r\n"))
        line = before.text.count("\n", 0, start)
        lines = text_for_model(after._replace(shared=before.shared)).split("\n")
        snippet = _number_lines(lines, max(0, line - 2), min(len(lines), line + 3))
        return (
            f"The memory file has been edited. Here is the snippet showing the change (with line numbers):\n{snippet}"
        )

    def insert(self, path: str, insert_line: int, insert_text: str) -> str:
        """Put text after a line of a file, header included; 0 is the start."""

        def insert(memory: Memory) -> str:
            lines = memory.text.removesuffix("\n").split("\n")
            if not 0 <= insert_line <= len(lines):
                within = f"It should be within the range [0, {len(lines)}]."
                raise Refused(f"Invalid `insert_line` parameter: {insert_line}. {within}")
            lines.insert(insert_line, insert_text.rstrip("\n"))
            return "\n".join(lines) + "\n"

        self._edit(path, insert)
        return f"The file {path} has been edited."

    def delete(self, path: str) -> str:
        """Forget a file, or all files in a folder, as one commit."""
        name = parse_path(path)
        if not name:
            raise Refused("Cannot delete the /memories directory itself")
        memory = self._find(name)
        memories = [memory] if memory else [self.sheaf.read(row.path) for row in self._below(name)]
        if not memories:
            raise _absent(name, f"The path {path} does not exist")
        for each in memories:
            self._refuse_removal(each)
        self._forget(memories, f"forget {name}", by=self.sheaf.by)
        return f"Successfully deleted {path}"

    def rename(self, old_path: str, new_path: str) -> str:
        """Give a file or a folder another name, as one commit."""
        old, new = parse_path(old_path), parse_path(new_path)
        if not old:
            raise Refused("Cannot rename the /memories directory itself")
        if not new or self._find(new) or self._below(new):
            raise Refused(f"The destination {new_path} already exists")
        if memory := self._find(old):
            moves = [(memory, self._new_file(new_path))]
        else:
            moves = [(self.sheaf.read(row.path), f"{new}/{_inside(row.path, old)}") for row in self._below(old)]
        if not moves:
            raise _absent(old, f"The path {old_path} does not exist")
        if fold(f"{new}/").startswith(fold(f"{old}/")):
            raise Refused(f"{new_path} is inside of {old_path}; a folder cannot be moved into itself")
        if not memory:
            self._refuse_folder(new)
        files: list[WrittenFile] = []
        try:
            for moved, target in moves:
                path = check_path(target)
                self._refuse_removal(moved)
                self._refuse_managed(path, moved.text)
                require_no_secret(check_text(path, moved.text, moved, free=moved.state == "free"), moved)
                files += [WrittenFile(moved.path, None, moved), WrittenFile(path, moved._replace(path=path))]
            # these were checked above, and their texts were kept before
            self.sheaf.own.change_many(files, f"rename {old} to {new}", allow=Allow(secrets=True, anyway=True))
        except Exists as error:
            raise Refused(f"The destination {new_path} already exists as {ROOT}/{to_name(error.ref.path)}") from error
        return f"Successfully renamed {old_path} to {new_path}"

    def clear(self) -> str:
        """Forget everything, as one commit of the user. For programs; no tool of a model calls it."""
        rows = [row for row in self._below("") if not self._is_managed(row.path)]
        if rows:
            self._forget([self.sheaf.read(row.path) for row in rows], "clear all memory", by="user")
        return "All memory cleared"

    def _find(self, name: str) -> Memory | None:
        """Return the file of a name; None when there is none, or can be none. Raises Refused for a link."""
        try:
            return self.sheaf.read(to_file(name))
        except NotFound:
            return None
        except PathRefused as error:
            if "link" not in error.why:
                return None
            raise Refused(f"Path {ROOT}/{name} would escape {ROOT} directory: {error.why}") from None

    def _below(self, name: str) -> Sequence[Row]:
        """Return all files in a folder, however deep; "" is the root. Another spelling of its name will do."""
        self.sheaf.own.index.look()
        return self.sheaf.own.rows_under(name, any_case=True)

    def _new_file(self, path: str) -> str:
        """Return the file for a name that is not taken. Raises PathRefused, Refused."""
        name = parse_path(path)
        if not name or path.endswith("/"):
            raise Refused(f"{path} is a folder; name a file in it")
        if name.endswith(" "):  # which some systems drop, and our ending would hide
            raise PathRefused(path, "it ends in a space")
        target = check_path(to_file(name))
        if to_name(target) != name:
            raise Refused(f"{path} cannot be told from {ROOT}/{to_name(target)}; use that name, or another")
        self._refuse_folder(posixpath.dirname(name))
        return target

    def _refuse_folder(self, name: str) -> None:
        """Raise Refused when this, or a folder that it is in, is a file, looks like one, or is spelled otherwise."""
        while name:
            if name.endswith(".md") or self._find(name):
                raise Refused(f"{ROOT}/{name} is a file's name, so nothing can be in it; choose another")
            rows = self._below(name)
            if rows and (there := _spelling(name, rows)) != name:
                raise Refused(f"The folder {ROOT}/{there} is there already; spell it like that")
            name = posixpath.dirname(name)

    def _edit(self, path: str, change: Callable[[Memory], str]) -> tuple[Memory, Memory]:
        """Apply a change to a file, again after a concurrent write; return the memory before and after."""
        name = parse_path(path)

        def edit() -> tuple[Memory, Memory]:
            memory = self._find(name) if name else None
            if memory is None:
                if not name or self._below(name):
                    raise Refused(f"The path {path} is not a file.")
                raise _absent(name, f"The path {path} does not exist. Please provide a valid path.")
            if memory.state not in ("ok", "free"):
                raise BadHeader(memory.path, memory.problem)
            text = change(memory)
            self._refuse_managed(memory.path, text)
            if memory.updated:
                text = update_memory(memory, text, self.sheaf.today).text
            return memory, self.sheaf.put(
                memory.path, text, expect=memory.version, free=memory.state == "free", allow=self._allow
            )

        return retry(edit, busy=f"{path} changes faster than it can be read")

    def _forget(self, memories: Sequence[Memory], why: str, *, by: str) -> None:
        if not self.sheaf.read_only:
            self.sheaf.own.bury(memories)
        self.sheaf.own.change_many([WrittenFile(memory.path, None, memory) for memory in memories], why, by=by)

    def _refuse_removal(self, memory: Memory) -> None:
        """Raise what stands against moving or forgetting a file, unless the user does it."""
        if self.sheaf.by == "user":
            return
        self._refuse_managed(memory.path, None)
        if is_fact(memory.path):
            raise fact_edit_error(memory.path)
        if memory.state in ("bad", "held"):
            raise BadHeader(memory.path, memory.problem)

    def _is_managed(self, path: str) -> bool:
        return self.sheaf.scope.layer in ("task", "session") and fold(path) in map(fold, LAYER_FILES)

    def _refuse_managed(self, path: str, text: str | None) -> None:
        """Raise TextRefused for files of tasks and sessions, and for notes that would be gone or out of order."""
        if self._is_managed(path):
            raise TextRefused(f"{path!r} is kept by `memsheaf {self.sheaf.scope.layer}`, step by step")
        is_notes = fold(path) == fold(NOTES)
        if is_notes and text is None:
            raise TextRefused(f"{path!r} stands in every prompt, and is not removed; change its text")
        if is_notes and (wrong := problems(text or "", self.sheaf.today)):
            raise TextRefused(f"{path!r} would be out of order: {wrong[0].what}; {wrong[0].advice}")


def read_command(given: object) -> tuple[str, list[object]]:
    """Return the command that a model gave, and its arguments in their order. Raises Refused.

    >>> read_command({"command": "insert", "path": "/memories/todo", "insert_line": 0, "insert_text": "Buy milk."})
    ('insert', ['/memories/todo', 0, 'Buy milk.'])
    """
    values = {str(name): value for name, value in given.items()} if isinstance(given, Mapping) else {}
    command = values.get("command")
    if not isinstance(command, str) or command not in PARAMETERS:
        raise Refused(f"Unknown command: {_shorten(str(command))}. There are {', '.join(PARAMETERS)}.")
    for name in PARAMETERS[command]:
        wanted, words = (int, "a whole number") if name == "insert_line" else (str, "a text")
        if type(values.get(name)) is not wanted:
            raise Refused(f"{command} needs {name}, {words}.")
    arguments = [values[name] for name in PARAMETERS[command]]
    if command == "view":
        view_range = values.get("view_range") or []
        if not isinstance(view_range, list | tuple) or [type(number) for number in view_range] not in ([], [int] * 2):
            raise Refused("view_range is two whole numbers: the first line and the last, or -1 for the end.")
        arguments.append(view_range)
    return command, arguments


def to_file(name: str) -> str:
    """Return the file that a model means by a name."""
    if name.endswith(".md"):
        return name
    return name + (".md" if name.endswith(_TEXT_ENDINGS) else _OTHER_ENDING)


def to_name(path: str) -> str:
    """Return the name by which a model knows a file: the one that `to_file` turns into it."""
    for ending in (_OTHER_ENDING, ".md"):
        if path.endswith(ending) and to_file(name := path.removesuffix(ending)) == path:
            return name
    return path


def parse_path(path: str) -> str:
    """Return the part of a path below /memories; "" for that folder itself. Raises Refused for one outside of it.

    >>> parse_path("/memories/projects/"), parse_path("/memories/projects/..")
    ('projects', '')
    """
    if path != ROOT and not path.startswith(f"{ROOT}/"):
        raise Refused(f"Path must start with {ROOT}, got: {_shorten(path)}")
    whole = posixpath.normpath(path)
    if whole == ROOT:
        return ""
    if not whole.startswith(f"{ROOT}/"):
        raise Refused(f"Path {_shorten(path)} would escape {ROOT} directory")
    name = unicodedata.normalize("NFC", path.removeprefix(f"{ROOT}/").rstrip("/"))  # `..` is refused as in any name
    if name != CATALOG and is_reserved(posixpath.basename(name)):
        raise PathRefused(path, "it is not a memory: it is generated, or loaded as instructions")
    return name


def list_folder(path: str, folder: str, rows: Sequence[Row], view_range: Sequence[int]) -> str:
    """Return the content of a folder, two levels deep; a folder has the size of all files in it.

    Of more than 500 lines, the first 500 are shown, or those from the beginning of `view_range` on.
    """
    here = f"{ROOT}/{_spelling(folder, rows)}" if folder else ROOT
    sizes: Counter[tuple[str, ...]] = Counter()
    for row in rows:
        first, *rest = to_name(_inside(row.path, folder)).split("/")
        # a last part of "" makes it a folder: it ends in "/" when joined, and sorts before its content
        sizes[(first, "") if rest else (first,)] += row.size
        if rest:
            sizes[(first, rest[0], "") if len(rest) > 1 else (first, rest[0])] += row.size
    entries = sorted(sizes)
    start, end = _bounds(view_range, len(entries))
    end = min(end, start + MAX_LISTED_LINES)
    lines = [f"Here're the files and directories up to 2 levels deep in {path}, excluding hidden items:"]
    lines.append(f"{_format_size(sum(row.size for row in rows))}\t{here}")
    lines += [f"{_format_size(sizes[entry])}\t{here}/{'/'.join(entry)}" for entry in entries[start:end]]
    if end < len(entries):
        following = f"view_range [{end + 1}, {end + MAX_LISTED_LINES}] shows the next"
        shown = f"{max(0, end - start)} of {len(entries)} are shown"
        lines.append(f"({shown}; {following}; {ROOT}/{CATALOG} lists what matters most)")
    return "\n".join(lines)


def explain(error: MemsheafError) -> str:
    """Return an error in words that a model can act on, with the names it knows."""
    hint = ""
    if isinstance(error, SecretFound | Duplicate | Busy | Changed):
        hint = error.hint
    elif isinstance(error, NotWorth):
        hint = f"{error.hint} Repeat the command to keep it all the same."
    elif isinstance(error, PathRefused):
        hint = f"Use a plain name such as {ROOT}/notes.md."
    elif isinstance(error, ReadOnly) and error.ref.path:  # a fact
        how = "the same name in its header, citations, a reason, and 'supersedes:' with the old file"
        hint = f"To correct it, create a new file below {ROOT}/facts: {how}."
    elif isinstance(error, BadHeader):
        hint = "A person has to fix it; create another file instead."
    text = shorten(error.message(None))
    if type(error) is not Refused:  # else it is ours, and may repeat the model's own words
        text = re.sub(r"'([^'\n]+\.md)'", lambda quoted: f"{ROOT}/{to_name(quoted[1])}", text)
    if hint:
        text = f"{text}. {hint}"
    return without_secrets(text).encode("utf-8", "replace").decode()


def _absent(name: str, text: str) -> MemsheafError:
    """Return the error for a name that no file has: the reason why none can have it, if there is one."""
    try:
        check_path(to_file(name))
    except PathRefused as error:
        return error
    return Refused(text)


def _inside(path: str, folder: str) -> str:
    """Return a path as seen from a folder that it is in, however that was spelled; "" is the root."""
    return "/".join(path.split("/")[folder.count("/") + 1 if folder else 0 :])


def _spelling(folder: str, rows: Sequence[Row]) -> str:
    """Return a folder as it is spelled in the paths of its files."""
    return "/".join(rows[0].path.split("/")[: folder.count("/") + 1])


def _shorten(text: str) -> str:
    return text if len(text) <= MAX_ECHOED_CHARS else f"{text[:MAX_ECHOED_CHARS]}…"


def _bounds(view_range: Sequence[int], count: int) -> tuple[int, int]:
    """Return the start and end of a range of lines, counted from 1, within the number of lines."""
    if not view_range:
        return 0, count
    first, last = view_range
    return max(1, first) - 1, count if last < 0 else min(last, count)


def _number_lines(lines: Sequence[str], start: int, end: int) -> str:
    return "\n".join(f"{number + 1:6}\t{lines[number]}" for number in range(start, end))


def _format_size(size: int) -> str:
    """Return a size in the unit that fits.

    >>> [_format_size(size) for size in (0, 900, 1536, 2 << 20)]
    ['0B', '900B', '1.5K', '2M']
    """
    unit = min((max(size, 1).bit_length() - 1) // 10, 3)
    amount = size / 1024**unit
    return (f"{amount:.0f}" if amount.is_integer() else f"{amount:.1f}") + "BKMG"[unit]
