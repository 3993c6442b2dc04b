"""Commands that save, change and forget memories, and those for their history: log, diff, undo, restore, erase."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from itertools import islice

from memsheaf.cli.call import Call, insisting, minute, pick, plural
from memsheaf.cli.command import ALLOW_SECRET, ANYWAY, FILE, Argument, takes, text, whole
from memsheaf.cli.output import Note, Part, Styled, Table
from memsheaf.erasure import Proof
from memsheaf.errors import Changed, MemsheafError, NotFound, SecretFound, TextRefused, hinted
from memsheaf.guard.secrets import new_secrets, removed
from memsheaf.memory import KINDS, Allow, Memory, parse
from memsheaf.recall.inject import CONTEXT, NOTES
from memsheaf.sheaf import Sheaf
from memsheaf.store import ABSENT, Commit, Revision

SHORT = 12
_COLOURS = {"+": "green", "-": "red", "@": "cyan"}
NEAR = 20  # so many memories that say the same are named


@takes(
    Argument("name", "a short title, such as 'Prefers tabs'", "NAME", required=True),
    Argument("text", "the fact; - reads it from standard input, which is also the way when it is left out", "TEXT"),
    Argument("--description", "one line that tells when this matters", "LINE", required=True),
    Argument("--type", "what it is about", "TYPE", required=True, choices=KINDS),
    Argument("--content", "the fact, if it does not stand behind the name", "TEXT"),
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
    Argument("--count", "how often the old text occurs; all of them change (1)", "N", default=1),
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
    file = call.options.file
    with call.open_file(file) as (sheaf, path):
        memory = _read_or_empty(sheaf, path)
        name = memory.path.rpartition("/")[2]
        draft = _draft(name, memory.data, call.environment)
        try:
            _run_editor(call.environment, draft)
            data = _read(draft)
            if data != memory.data:
                with insisting():
                    _store(sheaf, memory, data, allow=Allow(call.options.allow_secret, anyway=True))
        except MemsheafError as error:
            data = _read(draft) if os.path.exists(draft) else memory.data
            if isinstance(error, SecretFound):
                text = data.decode("utf-8", "replace")
                data = removed(text, new_secrets(text, memory.text)).encode()
            if data != memory.data:
                kept = _draft(name, data, call.environment)
                error.add_note(f"Nothing was changed. Your text is kept in {kept}")
            _discard(draft)
            raise
        _discard(draft)  # not when interrupted: then the text may be in no other place
        version = sheaf.read(memory.path).version if data or memory.data else ABSENT
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


def _discard(draft: str) -> None:
    """Remove the copy, and the backups that editors leave beside it."""
    import shutil

    shutil.rmtree(os.path.dirname(draft), ignore_errors=True)


@takes(
    Argument("file", "only what happened to this memory", "FILE"),
    Argument("--limit", "how many commits at most, 0 for all (20)", "N", default=20, convert=whole),
)
def log(call: Call) -> int:
    """List what happened, newest first: who changed which memory when, and why.

    Each commit has an id for `undo`; each change has the version it led to, for `diff` and `restore`.
    Changes made with other programs are listed as `outside`.

    examples:
      memsheaf log
      memsheaf log user_prefers-tabs.md --limit 5
    """
    limit = call.options.limit
    with call.open_file(call.options.file or "") as (sheaf, path):
        found = sheaf.log(path)
        commits = list(islice(found, limit or None))
        more = next(iter(found), None) is not None if limit else False
    nothing = Note("nothing happened yet", "") if not commits else None
    return call.answer(
        {"commits": map(_commit_json, commits), "more": more},
        nothing or map(_commit_parts, commits),
        Note("There is more: --limit 0 lists all.") if more else None,
    )


@takes(
    FILE,
    Argument("older", "the version to start from; without it, what the last commit changed", "OLDER"),
    Argument("newer", "the version to compare with; without it, the present text", "NEWER"),
)
def diff(call: Call) -> int:
    """Show how a memory changed, by its last commit or between two versions.

    examples:
      memsheaf diff user_prefers-tabs.md
      memsheaf diff user_prefers-tabs.md 98af5cb2fc62
    """
    with call.open_file(call.options.file) as (sheaf, path):
        text = sheaf.diff(path, call.options.older or "", call.options.newer or "")
    lines = enumerate(text.split("\n"))
    styled = (Styled(line, "bold" if number < 2 else _COLOURS.get(line[:1], "")) for number, line in lines)
    return call.answer({"path": call.options.file, "diff": text}, styled if text else Note("no difference", ""))


@takes(FILE)
def blame(call: Call) -> int:
    """Show for each line of a memory which commit it came with, when, and by whom.

    examples:
      memsheaf blame user_prefers-tabs.md
    """
    with call.open_file(call.options.file) as (sheaf, path):
        lines = sheaf.blame(path)
    rows = ((line.commit or "(older)", line.at[:10], line.by, line.line) for line in lines)
    value = {"lines": [pick(line, ("line", "commit", "at", "by")) for line in lines]}
    return call.answer(value, Table(rows, ("dim", "dim", "cyan")))


@takes(Argument("commit", "the commit's id, or how it begins; the last one that stands when left out", "COMMIT"))
def undo(call: Call) -> int:
    """Take back a commit, by a commit of its own.

    Without an id it is the last that memsheaf made in project and user, or in the scope that --scope names; what was
    edited outside is taken back only by its id. Undo an undo by naming its id. A memory that changed again since is
    left alone, and so is everything else.

    examples:
      memsheaf undo
      memsheaf undo 3f2a9c1b04de
    """
    with call.memory() as memory:
        try:
            scope, commit = memory.lasting().undo(call.options.commit or "")
        except Changed as error:
            since = (
                f"It was changed again since: `memsheaf log {error.path}` shows by whom; undo that first, by its id."
            )
            raise hinted(error, since) from None
    said = f"Undid {commit.undoes} in {scope}:"
    return call.answer({"scope": scope, **_commit_json(commit)}, said, map(_change, commit.revisions))


@takes(
    FILE,
    Argument("version", "the version, or how it begins, as `memsheaf log FILE` shows it", "VERSION", required=True),
)
def restore(call: Call) -> int:
    """Bring a memory back to an older version, whatever it is now.

    examples:
      memsheaf restore user_prefers-tabs.md 98af5cb2fc62
    """
    with call.open_file(call.options.file) as (sheaf, path):
        commit = sheaf.restore(path, call.options.version)
    file = call.options.file
    said = f"Restored {file}:" if commit.revisions else f"{file} is at that version already"
    return call.answer(_commit_json(commit), said, map(_change, commit.revisions))


@takes(FILE, Argument("--yes", "do not ask"))
def erase(call: Call) -> int:
    """Remove a memory and all its versions for good, and prove it.

    Nothing brings it back. Afterwards every file that is left is searched for traces; if there are any, they
    are named and the exit code is 1. In a git repository its history is searched, too: what it has of the text is
    named with how to remove it, and not touched. Other copies are not reached.

    examples:
      memsheaf erase user_phone-number.md
      memsheaf erase user_phone-number.md --yes --json
    """
    file = call.options.file
    question = f"Erase {file} and all its versions for good?"
    if not call.confirm(question, without="erase cannot be undone", left="Nothing was erased."):
        return 1
    with call.open_file(file) as (sheaf, path):
        if not os.path.isdir(sheaf.root):  # looking for it must not make the folder
            raise NotFound(path)
        proof = sheaf.erase(path)
    fields = ("path", "versions", "files", "bytes", "left", "elsewhere", "git", "remedy", "gone")
    return call.answer(pick(proof, fields), _proof_lines(proof), code=0 if proof.gone else 1)


def _proof_lines(proof: Proof) -> Iterator[str]:
    yield f"Erased {proof.path}: {plural(proof.versions, 'version')}."
    looked = f"Looked at {plural(proof.files, 'file')} ({plural(proof.bytes, 'byte')}) afterwards"
    yield f"{looked}: no trace is left." if proof.gone else f"{looked}. Traces are left in:"
    yield from (f"  {place}" for place in (*proof.left, *proof.git))
    if proof.git:
        yield "What git has was not touched. To remove it:"
        yield from (f"  {line}" for line in proof.remedy)
    if proof.elsewhere:
        yield "Other memories say some of the same words; they were not touched:"
        yield from (f"  {place}" for place in proof.elsewhere[:NEAR])
    if len(proof.elsewhere) > NEAR:
        yield f"  and {len(proof.elsewhere) - NEAR:,} more (--json names all)"


def _commit_json(commit: Commit) -> dict[str, object]:
    revisions = [pick(revision, ("path", "before", "after")) for revision in commit.revisions]
    return {**pick(commit, ("id", "at", "by", "why", "undoes")), "changes": revisions}


def _commit_parts(commit: Commit) -> Iterator[Part]:
    why = " ".join(commit.why.split())
    yield Styled(f"{commit.id}  {minute(commit.at)}  {commit.by}  {why}".rstrip(), "bold")
    yield from map(_change, commit.revisions)


def _change(revision: Revision) -> str:
    sign = "+" if not revision.before else "-" if not revision.after else "~"
    return f"  {sign} {revision.path}  {revision.after[:SHORT] or 'removed'}"
