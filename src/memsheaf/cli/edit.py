"""The command that opens a memory in a person's editor."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from memsheaf.cli.call import Call, insisting
from memsheaf.cli.command import ALLOW_SECRET, FILE, takes
from memsheaf.errors import MemsheafError, NotFound, SecretFound, TextRefused
from memsheaf.memory import Allow
from memsheaf.store import ABSENT

# Known to type checkers under this name, so that a command imports only what it uses.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from memsheaf.memory import Memory
    from memsheaf.sheaf import Sheaf


@takes(FILE, ALLOW_SECRET)
def edit(call: Call) -> int:
    """Open a memory in your editor, and store it when the editor ends.

    The editor is $VISUAL or $EDITOR. The text is checked before it is stored; when it is refused, or the
    memory changed meanwhile, nothing is stored and your text is kept in a file that is named; when that is for a
    password or a key in it, without that. CONTEXT.md and NOTES.md need not be there yet.

    examples:
      memsheaf edit user_prefers-tabs.md
      EDITOR="code --wait" memsheaf edit CONTEXT.md --agent researcher
    """
    with call.placed(call.options.file) as (sheaf, path):
        memory = _opened(sheaf, path)
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
    return call.console.answer({"path": file, "version": version, "changed": data != memory.data}, [said])


def _opened(sheaf: Sheaf, path: str) -> Memory:
    """The memory, or an empty one for a file that stands in every prompt and need not be there yet."""
    from memsheaf.memory import parse
    from memsheaf.recall.inject import CONTEXT, NOTES

    try:
        return sheaf.read(path)
    except NotFound:
        if path not in (CONTEXT, NOTES):
            raise
        return parse(path, b" ")._replace(data=b"")


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
    from memsheaf.guard.secrets import new_secrets, removed

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
