"""The agent's tools for one directory: shell, read, write, edit, glob and grep.

Each tool is a function, its signature the schema and its docstring the prompt, as those for memory are. Before it
does what needs a yes, it asks for permission. What goes back to the model goes without the secrets that are in it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from itertools import accumulate, count
from typing import Annotated, Any

from memsheaf.chat.permissions import Permission, PermissionRequest
from memsheaf.chat.tools.files import (
    BOM,
    MAX_FILE_BYTES,
    FileContent,
    ResolvedPath,
    diff_texts,
    fetch,
    is_within,
    keep_form,
    quote_path,
    refuse_masks,
    replace_file,
    replace_text,
    resolve_path,
)
from memsheaf.chat.tools.find import find_files, find_lines, mask_lines, split_pattern
from memsheaf.chat.tools.shell import run_command
from memsheaf.errors import MemsheafError, Refused
from memsheaf.guard.secrets import without_secrets
from memsheaf.memory import plural
from memsheaf.scope import FOLDER
from memsheaf.store import version_of
from memsheaf.text.neutralize import for_terminal, one_line
from memsheaf.tools import Tool, ToolAnswer, read_arguments, schema, shorten

MAX_COMMAND_SECONDS = 600
MAX_READ_LINES = 2_000  # by default
MAX_READ_CHARS = 100_000
MAX_LINE_CHARS = 2_000  # of a line that is read
MAX_SUMMARY_CHARS = 200  # of a command or a path, where there is one line for it
MAX_PATH_CHARS = 4_096


def shell(
    desk: FolderTools,
    command: Annotated[str, "A line for sh, run in the working directory"],
    seconds: Annotated[int, "When to give up, 1 to 600"] = 0,
) -> ToolAnswer:
    """Run a command and see what it prints. It gets no input, and what it leaves running in the background is ended
    with it. Use read, grep and glob to look at files: they need no permission."""
    if not command.strip() or "\0" in command:
        raise Refused("a command must not be empty, nor hold a NUL character")
    if seconds and not 1 <= seconds <= MAX_COMMAND_SECONDS:
        raise Refused(f"seconds must be between 1 and {MAX_COMMAND_SECONDS}")
    line = f"run: {one_line(command, MAX_SUMMARY_CHARS)}"
    desk.permission.require(
        PermissionRequest("shell", line, for_terminal(command), reach="run", key=f"run {command}")
    )
    given = seconds or desk.seconds
    outcome = run_command(command, folder=desk.root, environment=desk.environment, seconds=given)
    return ToolAnswer(
        f"{outcome.text.rstrip() or '(no output)'}\n({_describe_end(outcome.code, given)})", failed=outcome.code != 0
    )


def read(
    desk: FolderTools,
    path: Annotated[str, "The file, from the working directory"],
    start: Annotated[int, "The first line, from 1"] = 1,
    lines: Annotated[int, "How many lines"] = MAX_READ_LINES,
) -> str:
    """Read a text file, with the numbers of its lines."""
    if start < 1 or lines < 1:
        raise Refused("start and lines are at least 1")
    place = desk.readable("read", path)
    content = fetch(desk.root, place)
    if content is None:
        raise Refused(f"there is no file {quote_path(place.shown)}")
    if b"\0" in content.data:
        raise Refused(f"{quote_path(place.shown)} is a binary file")
    text = content.data.decode("utf-8", "replace").removeprefix(BOM)
    all_lines = text.removesuffix("\n").split("\n") if text else []
    if start > max(1, len(all_lines)):
        raise Refused(f"{quote_path(place.shown)} has no line {start}; it has {len(all_lines)}")
    sizes = accumulate(map(len, all_lines[start - 1 : start - 1 + lines]))
    last = start - 1 + max(sum(size <= MAX_READ_CHARS for size in sizes), min(1, len(all_lines)))
    shown = mask_lines(all_lines, start - 1, last)
    desk.read_versions[place.real] = version_of(content.data)
    notes = []
    if last < len(all_lines):
        notes.append(f"(lines {start} to {last} of {len(all_lines)}; go on with start={last + 1})")
    elif shown and not text.endswith("\n"):
        notes.append("(no line break at the end of the file)")
    return "\n".join([*map(_number_line, count(start), shown), *notes]) or "(the file is empty)"


def write(
    desk: FolderTools,
    path: Annotated[str, "The file, from the working directory"],
    content: Annotated[str, "All of its text"],
) -> str:
    """Make a file, or replace all of one that you have read. To change a part, use edit."""
    place = desk.writable("write", path)
    old = fetch(desk.root, place)
    was = None if old is None else old.data.decode("utf-8", "surrogateescape")
    if old is not None:
        desk.refuse_unseen(place, old.data)
        refuse_masks(content, was or "", place.shown)
    data = keep_form(content, was).encode()
    if old is not None and data == old.data:
        return f"{place.shown} has this text already."
    desk.change("write", place, old, data)
    return f"{'Made' if old is None else 'Replaced'} {place.shown} ({plural(_count(data), 'line')})."


def edit(
    desk: FolderTools,
    path: Annotated[str, "The file, from the working directory"],
    old_text: Annotated[str, "The exact text to replace; it must occur once"],
    new_text: Annotated[str, "What to put in its place"],
    count: Annotated[int, "How often old_text occurs, when all of them are meant"] = 1,
) -> str:
    """Replace a piece of text in a file."""
    place = desk.writable("edit", path)
    if place.outside and place.real not in desk.read_versions:  # the answer would tell what stands there
        why = "is outside the working directory, and you have not read it. Read it first"
        raise Refused(f"{quote_path(place.shown)} {why}")
    old = fetch(desk.root, place)
    if old is None:
        raise Refused(f"there is no file {quote_path(place.shown)}; write makes one")
    if b"\0" in old.data:
        raise Refused(f"{quote_path(place.shown)} is a binary file; change it with the shell")
    was = old.data.decode("utf-8", "surrogateescape")
    now = replace_text(was, old_text, new_text, count=count, name=place.shown)
    return f"Changed {place.shown} ({desk.change('edit', place, old, now.encode('utf-8', 'surrogateescape'))})."


def glob(
    desk: FolderTools,
    pattern: Annotated[str, "Such as **/*.py or docs/*.{md,txt}"],
    path: Annotated[str, "The folder to look in; the working directory if left out"] = "",
) -> str:
    """Find files by their names, newest first. Without ** it lists one folder, with the folders in it."""
    certain, rest = split_pattern(pattern)
    base = desk.readable("glob", os.path.join(path, certain) or ".")
    return find_files(desk.root, base, rest or "*", desk.keep_out)


def grep(
    desk: FolderTools,
    pattern: Annotated[str, "A regular expression; (?i) at its start ignores case"],
    path: Annotated[str, "The file or folder to search; the working directory if left out"] = "",
    glob: Annotated[str, "Only files with such names, such as *.py"] = "",
) -> str:
    """Find lines in files by a regular expression, each line by itself."""
    base = desk.readable("grep", path or ".")
    return find_lines(desk.root, base, pattern, names=glob, keep_out=desk.keep_out)


TOOLS: Mapping[str, Tool] = {tool.__name__: tool for tool in (shell, read, write, edit, glob, grep)}


class FolderTools:
    """The tools, bound to one working directory, for one conversation.

    It knows which files the model has read: none is replaced unseen. What is in the folders of memories and in
    `keep_out` is neither read nor written, and no search goes there; nor is anything written into a folder of git.
    Commands get the `environment` without what looks like a key, and `seconds` of time, or what the model asks for.

    >>> FolderTools(".", Permission()).answer("read", {"path": "README.md"})        # doctest: +SKIP
    """

    names: tuple[str, ...] = tuple(TOOLS)

    def __init__(
        self,
        root: str,
        permission: Permission,
        *,
        environment: Mapping[str, str] = os.environ,
        seconds: float = 120.0,
        keep_out: Sequence[str] = (),
    ) -> None:
        self.root = os.path.realpath(root)
        self.permission = permission
        self.environment = environment
        self.seconds = seconds
        self.keep_out = tuple(map(os.path.realpath, keep_out))
        self.read_versions: dict[str, str] = {}  # of the files that the model has read, by their paths

    def schemas(self) -> list[dict[str, Any]]:
        """Return name, description and JSON schema of each tool."""
        return list(map(schema, TOOLS.values()))

    def line(self, name: str, arguments: Mapping[str, object]) -> str:
        """Return a call in a few words on one line, such as `read src/app.py`."""
        about = " in ".join(str(arguments[key]) for key in ("command", "pattern", "path") if arguments.get(key))
        return without_secrets(one_line(f"{name} {about}", MAX_SUMMARY_CHARS))

    def answer(self, name: str, arguments: Mapping[str, object]) -> ToolAnswer:
        """Run a tool and return its answer; errors and refusals are answers, too."""
        try:
            answer = self._run(name, arguments)
        except MemsheafError as error:
            answer = _fail(str(error))
        except OSError as error:
            answer = _fail(f"{name} could not be done: {error.strerror or error}")
        except Exception as error:  # noqa: BLE001 - a mistake of ours must not end the conversation
            answer = _fail(f"{name} broke off with {type(error).__name__}: {one_line(str(error), 200)}")
        text = without_secrets(answer.text)
        return answer._replace(text=text.encode("utf-8", "backslashreplace").decode())

    def _run(self, name: str, arguments: Mapping[str, object]) -> ToolAnswer:
        tool = TOOLS.get(name)
        if tool is None:
            return _fail(f"there is no tool '{one_line(name, 60)}'; there are: {', '.join(self.names)}")
        given = read_arguments(tool, arguments)
        if any(isinstance(value, str) and re.search("[\ud800-\udfff]", value) for value in given.values()):
            return _fail(f"{name}: an argument holds unpaired surrogates")
        answer = tool(self, **given)
        return answer if isinstance(answer, ToolAnswer) else ToolAnswer(answer)

    def readable(self, tool: str, path: str) -> ResolvedPath:
        """Return where a path leads that may be read. Raises Refused."""
        place = self._resolve(path)
        self._refuse_memory(place, "read")
        if place.outside:
            verb = "read" if tool == "read" else "search"
            key = f"{verb} {place.real}"
            line = f"{verb} {one_line(place.real, MAX_SUMMARY_CHARS)}"
            self.permission.require(PermissionRequest(tool, line, for_terminal(place.real), outside=True, key=key))
        return place

    def writable(self, tool: str, path: str) -> ResolvedPath:
        """Return where a path leads that may be written, once the user agrees. Raises Refused."""
        place = self._resolve(path)
        if path.endswith(("/", os.sep)):
            raise Refused(f"{quote_path(path)} names a folder; files are written, with the folders they need")
        if self.permission.planning:
            self.permission.require(
                PermissionRequest(tool, f"{tool} {one_line(place.shown, MAX_SUMMARY_CHARS)}", reach="write")
            )
        self._refuse_memory(place, "change")
        if ".git" in place.real.casefold().split(os.sep):
            raise Refused(f"{quote_path(place.shown)} belongs to git; change it with git, through the shell")
        return place

    def _resolve(self, path: str) -> ResolvedPath:
        if len(path) > MAX_PATH_CHARS:
            raise Refused(f"a path has at most {MAX_PATH_CHARS:,} characters")
        return resolve_path(self.root, path)

    def _refuse_memory(self, place: ResolvedPath, what: str) -> None:
        """Raise Refused for what belongs to memory: its own tools know scopes, versions and turns that ignore it."""
        real = place.real.casefold()
        if FOLDER in real.split(os.sep) or any(is_within(real, kept.casefold()) for kept in self.keep_out):
            raise Refused(
                f"{quote_path(place.shown)} belongs to memory; use the memory tools to {what} what is remembered"
            )

    def forget(self) -> None:
        """Begin anew: the model has read no file yet."""
        self.read_versions.clear()

    def refuse_unseen(self, place: ResolvedPath, data: bytes) -> None:
        """Raise Refused for a file that the model does not know as it is."""
        name = quote_path(place.shown)
        if b"\0" in data:
            raise Refused(f"{name} is a binary file; change it with the shell")
        if place.real not in self.read_versions:
            raise Refused(f"{name} exists, and you have not read it. Read it first, or use edit to change a part")
        if self.read_versions[place.real] != version_of(data):
            raise Refused(f"{name} was changed since you read it. Read it again, then write")

    def change(self, tool: str, place: ResolvedPath, old: FileContent | None, data: bytes) -> str:
        """Replace a file, once the user agrees; return how large the change is.

        Raises:
            Refused: it may not be written, or somebody else has changed it meanwhile.
            OSError: the disk refused it.
        """
        if len(data) > MAX_FILE_BYTES:
            raise Refused(f"a file that is written here has at most {MAX_FILE_BYTES >> 10} KiB")
        if old is not None and not old.mode & 0o222:
            raise Refused(f"{quote_path(place.shown)} is read-only, and stays so; tell the user")
        was = "" if old is None else old.data.decode("utf-8", "replace")
        text, added, taken = diff_texts(place.shown, was, data.decode("utf-8", "replace"))
        size = f"new, {plural(_count(data), 'line')}" if old is None else f"+{added} -{taken} lines"
        line = f"{tool} {one_line(place.shown, MAX_SUMMARY_CHARS)} ({size})"
        key = f"write {place.real}" if place.outside else "write"
        self.permission.require(PermissionRequest(tool, line, for_terminal(text), "write", place.outside, key))
        replace_file(self.root, place, data, old)
        if old is None or self.read_versions.get(place.real) == version_of(old.data):
            self.read_versions[place.real] = version_of(data)
        return size


def _fail(why: str) -> ToolAnswer:
    return ToolAnswer(f"Error: {shorten(why).rstrip('.')}.", failed=True)


def _describe_end(code: int | None, seconds: float) -> str:
    if code is None:
        return f"it did not finish within {seconds:g} seconds, and was killed with its child processes"
    return f"exit code {code}" if code >= 0 else f"ended by signal {-code}"


def _count(data: bytes) -> int:
    """Return how many lines a text has, the last one with or without its line break."""
    return data.count(b"\n") + (data != b"" and not data.endswith(b"\n"))


def _number_line(number: int, line: str) -> str:
    line = line.removesuffix("\r")
    more = "… (the rest of the line is not shown)" if len(line) > MAX_LINE_CHARS else ""
    return f"{number:>6}\t{line[:MAX_LINE_CHARS]}{more}"
