"""Commands that save, change, edit and forget a memory."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from memsheaf.cli.call import Call, insisting
from memsheaf.cli.command import ALLOW_SECRET, ANYWAY, FILE, Argument, positive, takes, text, whole
from memsheaf.errors import MemsheafError, NotFound, SecretFound, TextRefused
from memsheaf.guard.secrets import new_secrets, removed
from memsheaf.memory import KINDS, Allow, Memory, parse
from memsheaf.recall.inject import CONTEXT, NOTES
from memsheaf.store import ABSENT

# Known to type checkers under this name, so that a command imports only what it uses.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from memsheaf.sheaf import Sheaf


@takes(
    Argument("name", "a short title, such as 'Prefers tabs'", "NAME", required=True),
    Argument(
        "text",
        "the fact; - reads it from standard input, which is also the way when it is left out",
        "TEXT",
        convert=text,
    ),
    Argument("--description", "one line that tells when this matters", "LINE", required=True),
    Argument("--type", "what it is about", "TYPE", required=True, choices=KINDS),
    Argument("--content", "the fact, if it does not stand behind the name", "TEXT", convert=text),
    Argument("--file", "the file to keep it in; made from type and name when left out", "FILE"),
    Argument("--pin", "keep it in the catalog however many memories there are"),
    Argument(
        "--cite", "a place that shows it to be true, such as src/app.py:12; may be repeated", "PLACE", repeated=True
    ),
    Argument("--expires", "the day it stops being true, such as 2026-12-31", "DATE"),
    Argument("--replace", "take the place of the memory that has this name or file"),
    ALLOW_SECRET,
    ANYWAY,
)
def add(call: Call) -> int:
    """Save one fact as a memory.

    Description and type are asked for because they decide when an agent reads the memory: `user` is about
    the person, `feedback` a correction or confirmation, `project` about the work, `reference` where to look.
    Without --scope it goes where it belongs: what is about the person, and feedback that holds in all projects
    ("always", "everywhere"), to the user, all else to the project.

    examples:
      memsheaf add "Prefers tabs" "Use tabs, not spaces." --description "Indentation of code" --type user
      git log -1 --format=%B | memsheaf add "Why we left X" - --description "Choice of database" --type project
      memsheaf add "Release day" "Fridays." --description "When releases go out" --type project --replace
    """
    options = call.options
    content = call.given_text(options.text, options.content)
    with call.memory() as layers, insisting():
        memory = layers.remember(
            options.name,
            options.description,
            options.type,
            content,
            path=options.file or "",
            replace=options.replace,
            citations=options.cite or (),
            pinned=options.pin,
            expires=options.expires or "",
            allow=call.allow(),
        )
    return _changed(call, "Saved", memory)


@takes(
    FILE,
    Argument("--old", "the exact text that is to change", "TEXT", required=True, convert=text),
    Argument("--new", "what shall stand there instead", "TEXT", required=True, convert=text),
    Argument("--count", "how often the old text occurs; all of them change (1)", "N", default=1, convert=positive),
    ALLOW_SECRET,
    ANYWAY,
)
def update(call: Call) -> int:
    """Replace a piece of a memory's text.

    The old text must occur exactly --count times; otherwise nothing changes and the lines are named.

    examples:
      memsheaf update project_release-day.md --old Fridays --new Mondays
    """
    options = call.options
    with call.memory() as layers, insisting():
        memory = layers.revise(options.file, options.old, options.new, count=options.count, allow=call.allow())
    return _changed(call, "Updated", memory)


@takes(
    FILE,
    Argument("--line", "insert after this line of the text; 0 puts it first", "N", required=True, convert=whole),
    Argument("--text", "what to insert; read from standard input when it is - or left out", "TEXT", convert=text),
    ALLOW_SECRET,
    ANYWAY,
)
def insert(call: Call) -> int:
    """Insert lines into a memory's text, below its header.

    examples:
      memsheaf insert project_release-day.md --line 0 --text "Ask Kim before a release."
    """
    options = call.options
    text = call.given_text(options.text)
    with call.memory() as layers, insisting():
        memory = layers.insert(options.file, options.line, text, allow=call.allow())
    return _changed(call, "Updated", memory)


@takes(FILE, Argument("--why", "a reason, for the log", "TEXT"))
def forget(call: Call) -> int:
    """Remove a memory; `memsheaf undo` brings it back while the journal keeps it.

    To remove all its versions for good, use `memsheaf erase`.

    examples:
      memsheaf forget project_release-day.md --why "no releases any more"
    """
    with call.memory() as layers:
        commit = layers.forget(call.options.file, why=call.options.why or "")
    path = commit.revisions[0].path
    said = f"Forgot {path}; `memsheaf undo {commit.id}{_scoped(path)}` brings it back."
    return call.answer({"path": path, "commit": commit.id}, said)


@takes(FILE, ALLOW_SECRET)
def edit(call: Call) -> int:
    """Open a memory in your editor, and store it when the editor ends.

    The editor is $VISUAL or $EDITOR. The text is checked before it is stored. When it is refused, or the memory
    changed meanwhile, nothing is stored and your text stays in a file that is named, without the password or key that
    it was refused for. CONTEXT.md and NOTES.md need not exist yet.

    examples:
      memsheaf edit user_prefers-tabs.md
      EDITOR="code --wait" memsheaf edit CONTEXT.md --agent researcher
    """
    with call.open_file(call.options.file) as (sheaf, path):
        memory = _read_or_empty(sheaf, path)
        draft = _draft(memory.path.rpartition("/")[2], memory.data, call.environment)
        try:
            _run_editor(call.environment, draft)
            data = _read(draft)
            if data != memory.data:
                with insisting():
                    _store(sheaf, memory, data, allow=Allow(call.options.allow_secret, anyway=True))
        except MemsheafError as error:
            if isinstance(error, SecretFound):
                _take_out_secrets(draft, memory.text)
            if not _discard(draft, unless_not=memory.data):
                error.add_note(f"Nothing was changed. Your text is kept in {draft}")
            raise
        _discard(draft)
        version = sheaf.read(memory.path).version if data or memory.data else ABSENT
    file = call.options.file
    said = f"Updated {file}" if data != memory.data else f"{file} is as it was"
    return call.answer({"path": file, "version": version, "changed": data != memory.data}, said)


def _read_or_empty(sheaf: Sheaf, path: str) -> Memory:
    """The memory, or an empty one for a file that stands in every prompt and need not be there yet."""
    try:
        return sheaf.read(path)
    except NotFound:
        if path not in (CONTEXT, NOTES):
            raise
        return parse(path, b" ")._replace(data=b"")


def _changed(call: Call, verb: str, memory: Memory) -> int:
    said = f"{verb} {memory.path}"
    if scoped := _scoped(memory.path):
        said += f"; `memsheaf undo{scoped}` takes it back."
    return call.answer({"path": memory.path, "version": memory.version}, said)


def _scoped(name: str) -> str:
    """What names the scope of a file on another line, "" for the one that commands are about anyway."""
    scope = name.rpartition(":")[0]
    return f" --scope {scope}" if scope else ""


def edited_text(environment: Mapping[str, str], name: str, text: str) -> str:
    """What a person makes of a text in the editor. Raises TextRefused when nothing is left of it."""
    draft = _draft(name, text.encode(), environment)
    try:
        _run_editor(environment, draft)
        edited = _read(draft).decode("utf-8", "replace")
    finally:
        _discard(draft)
    if not edited.strip():
        raise TextRefused("the edited text is empty")
    return edited


def _draft(name: str, data: bytes, environment: Mapping[str, str]) -> str:
    """A copy for the editor, in a folder of its own that nobody else can read."""
    from tempfile import mkdtemp

    chosen = environment.get("TMPDIR", "")
    folder = mkdtemp(prefix="memsheaf-", dir=chosen if os.path.isdir(chosen) else None)
    draft = os.path.join(folder, name)
    with open(draft, "xb") as file:
        file.write(data)
    return draft


def _run_editor(environment: Mapping[str, str], draft: str) -> None:
    import shlex
    import subprocess

    usual = "notepad" if sys.platform == "win32" else "vi"
    editor = environment.get("VISUAL") or environment.get("EDITOR") or usual
    try:
        words = shlex.split(editor, posix=sys.platform != "win32")
        code = subprocess.run([*words, draft], env=dict(environment), check=False).returncode
    except (OSError, ValueError) as error:
        raise MemsheafError(f"the editor {editor!r} cannot be run: {error}") from None
    if code != 0:
        raise MemsheafError(f"the editor {editor!r} ended with status {code}")


def _read(draft: str) -> bytes:
    try:
        with open(draft, "rb") as file:
            return file.read()
    except OSError as error:
        raise MemsheafError(f"the edited text cannot be read: {error}") from None


def _store(sheaf: Sheaf, memory: Memory, data: bytes, *, allow: Allow) -> None:
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise TextRefused(f"the edited text is not UTF-8 at byte {error.start}") from None
    free = memory.state == "free" or not memory.data
    expect = memory.version if memory.data or memory.state != "free" else ABSENT
    sheaf.put(memory.path, text, expect=expect, free=free, allow=allow)


def _take_out_secrets(draft: str, old: str) -> None:
    """Leave a person's text without the secrets it was refused for, and none of the copies that editors make."""
    text = _read(draft).decode("utf-8", "replace")
    with open(draft, "wb") as file:
        file.write(removed(text, new_secrets(text, old)).encode())
    folder = os.path.dirname(draft)
    for entry in os.scandir(folder):
        if entry.path != draft and entry.is_file(follow_symlinks=False):
            os.unlink(entry.path)


def _discard(draft: str, *, unless_not: bytes | None = None) -> bool:
    """Remove the copy; with `unless_not` only if that is what it holds. Says whether it is gone."""
    if unless_not is not None and os.path.exists(draft) and _read(draft) != unless_not:
        return False
    import shutil

    # editors leave backups beside it
    shutil.rmtree(os.path.dirname(draft), ignore_errors=True)
    return True
