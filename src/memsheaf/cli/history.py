"""Commands about what happened to memories, and taking it back."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import islice

from memsheaf.cli.call import Call, pick, plural
from memsheaf.cli.command import FILE, Argument, Usage, filled, takes, version, whole
from memsheaf.errors import Changed, NotFound, hinted

# Known to type checkers under this name, so that a command imports only what it uses.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from memsheaf.erasure import Proof
    from memsheaf.store import Commit, Revision

SHORT = 12
NEAR = 20  # so many memories that say the same are named


@takes(
    Argument("file", "only what happened to this memory", "FILE", convert=filled, complete="files"),
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
    with call.placed(call.options.file or "") as (sheaf, path):
        found = sheaf.log(path)
        commits = list(islice(found, limit or None))
        more = next(iter(found), None) is not None if limit else False
    if call.console.json:
        return call.console.answer({"commits": [_commit_json(commit) for commit in commits], "more": more})
    for commit in commits:
        said = f"{commit.id}  {_when(commit.at)}  {commit.by}  {_one_line(commit.why)}"
        call.console.say(said.rstrip(), style="bold")
        call.console.answer(None, _changes(commit))
    if not commits:
        call.console.note("nothing happened yet")
    elif more:
        call.console.note("There is more: --limit 0 lists all.", style="dim")
    return 0


@takes(
    FILE,
    Argument(
        "older", "the version to start from; without it, what the last commit changed", "OLDER", convert=version
    ),
    Argument("newer", "the version to compare with; without it, the present text", "NEWER", convert=version),
)
def diff(call: Call) -> int:
    """Show how a memory changed, by its last commit or between two versions.

    examples:
      memsheaf diff user_prefers-tabs.md
      memsheaf diff user_prefers-tabs.md 98af5cb2fc62
    """
    with call.placed(call.options.file) as (sheaf, path):
        text = sheaf.diff(path, call.options.older or "", call.options.newer or "")
    if call.console.json:
        return call.console.answer({"path": call.options.file, "diff": text})
    if not text:
        call.console.note("no difference")
        return 0
    colours = {"+": "green", "-": "red", "@": "cyan"}
    for number, line in enumerate(text.split("\n")):
        call.console.say(line, style="bold" if number < 2 else colours.get(line[:1], ""))
    return 0


@takes(FILE)
def blame(call: Call) -> int:
    """Show for each line of a memory which commit it came with, when, and by whom.

    examples:
      memsheaf blame user_prefers-tabs.md
    """
    with call.placed(call.options.file) as (sheaf, path):
        lines = sheaf.blame(path)
    if call.console.json:
        return call.console.answer({"lines": [pick(line, ("line", "commit", "at", "by")) for line in lines]})
    older = "(older)"
    call.console.table(
        [(line.commit or older, _when(line.at)[:10], line.by, line.line) for line in lines], ("dim", "dim", "cyan")
    )
    return 0


@takes(
    Argument(
        "commit",
        "the commit's id, or how it begins; the last one that stands when left out",
        "COMMIT",
        convert=version,
    )
)
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
    said = [f"Undid {commit.undoes} in {scope}:", *_changes(commit)]
    return call.console.answer({"scope": scope, **_commit_json(commit)}, said)


@takes(
    FILE,
    Argument(
        "version",
        "the version, or how it begins, as `memsheaf log FILE` shows it",
        "VERSION",
        required=True,
        convert=version,
    ),
)
def restore(call: Call) -> int:
    """Bring a memory back to an older version, whatever it is now.

    examples:
      memsheaf restore user_prefers-tabs.md 98af5cb2fc62
    """
    with call.placed(call.options.file) as (sheaf, path):
        commit = sheaf.restore(path, call.options.version)
    said = [f"Restored {call.options.file}:", *_changes(commit)]
    if not commit.revisions:
        said = [f"{call.options.file} is at that version already"]
    return call.console.answer(_commit_json(commit), said)


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
    if not call.options.yes:
        if not call.console.interactive:
            raise Usage("erase cannot be undone; confirm it with --yes where nobody can be asked")
        if not call.console.confirm(f"Erase {file} and all its versions for good?"):
            call.console.note("Nothing was erased.")
            return 1
    with call.placed(file) as (sheaf, path):
        if not os.path.isdir(sheaf.root):  # looking for it must not make the folder
            raise NotFound(path)
        proof = sheaf.erase(path)
    fields = ("path", "versions", "files", "bytes", "left", "elsewhere", "git", "remedy", "gone")
    call.console.answer(pick(proof, fields), _proof(proof))
    return 0 if proof.gone else 1


def _proof(proof: Proof) -> Iterator[str]:
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


def _changes(commit: Commit) -> Iterator[str]:
    return map(_change, commit.revisions)


def _change(revision: Revision) -> str:
    sign = "+" if not revision.before else "-" if not revision.after else "~"
    return f"  {sign} {revision.path}  {revision.after[:SHORT] or 'removed'}"


def _when(at: str) -> str:
    """A time as people read it, still in UTC.

    >>> _when("2026-11-15T04:59:04.123Z")
    '2026-11-15 04:59Z'
    """
    return f"{at[:10]} {at[11:16]}Z" if at else ""


def _one_line(text: str) -> str:
    return " ".join(text.split())
