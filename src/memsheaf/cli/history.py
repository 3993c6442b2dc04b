"""Commands for what happened: log, diff, blame, undo, restore, erase."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from itertools import islice

from memsheaf import transfer
from memsheaf.cli.call import Call, here, local_minute, pick, plural
from memsheaf.cli.command import FILE, Argument, Usage, takes, whole
from memsheaf.cli.output import Note, Part, Styled, Table
from memsheaf.errors import Changed, NotFound, NotInHistory, Ref
from memsheaf.memory import parse
from memsheaf.open_scope import TOGETHER, OpenScope
from memsheaf.scope import project_root
from memsheaf.sheaf import AllScopes, find_memory, list_notices
from memsheaf.store import Commit, Revision
from memsheaf.transfer import Locations, Proof
from memsheaf.work.relocate import move
from memsheaf.worktree import find_project, record_tree, restore_lost

SHORT = 12
FOLDED = 10  # so many changes of one commit are listed
NEAR = 20  # so many memories that say the same are named
_COLOURS = {"+": "green", "-": "red", "@": "cyan"}


@takes(
    FILE._replace(help="only what happened to this memory: its file, its name, or a part of either", required=False),
    Argument("--limit", "how many commits at most, 0 for all (20)", "N", default=20, convert=whole),
    Argument("--full", f"with ids and versions, and every change of a commit, not only the first {FOLDED}"),
)
def log(call: Call) -> int:
    """List what happened, newest first: who changed which memory when, and why.

    Without a memory it is all that happened in project and user, or in the scope that --scope names. Times are those
    of this machine; --json has them in UTC. With --full each commit has its id, for `undo`, and each change the
    version it led to, for `diff` and `restore`. Changes made with other programs are listed as `outside`.

    examples:
      memsheaf log
      memsheaf log user_prefers-tabs.md --limit 5
      memsheaf log --full
    """
    limit = call.options.limit
    if call.options.file:
        with call.open_file(call.options.file) as (sheaf, path):
            commits = list(islice(sheaf.log(path), limit + 1 if limit else None))
    else:
        with call.memory() as memory:
            found = memory.only(*memory.scopes(lasting=True)).log(limit=limit + 1 if limit else None)
            commits = sorted(found, key=lambda commit: commit.at, reverse=True)
    more = bool(limit) and len(commits) > limit
    commits = commits[: limit or None]
    nothing = Note("nothing happened yet", "") if not commits else None
    return call.answer(
        {"commits": [_commit_json(call, commit) for commit in commits], "more": more},
        nothing or _log_parts(call, commits, call.options.full),
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
        text = sheaf.own.diff(path, call.options.older or "", call.options.newer or "")
    lines = enumerate(text.split("\n"))
    styled = (Styled(line, "bold" if number < 2 else _COLOURS.get(line[:1], "")) for number, line in lines)
    return call.answer({"path": call.shown, "diff": text}, styled if text else Note("no difference", ""))


@takes(FILE)
def blame(call: Call) -> int:
    """Show for each line of a memory which commit it came with, when, and by whom.

    examples:
      memsheaf blame user_prefers-tabs.md
    """
    with call.open_file(call.options.file) as (sheaf, path):
        lines = sheaf.own.blame(path)
    rows = ((line.commit or "(older)", line.at[:10], line.by, line.line) for line in lines)
    return call.answer(
        {"lines": [pick(line, ("line", "commit", "at", "by")) for line in lines]}, Table(rows, ("dim", "dim", "cyan"))
    )


@takes(Argument("commit", "the commit's id, or how it begins; without one, the last that was not undone", "COMMIT"))
def undo(call: Call) -> int:
    """Take back what the last command did, in all its scopes, or a commit.

    Without an id it is the last that memsheaf made in project and user, or in the scope that --scope names; what was
    edited outside is taken back only by its id, which `memsheaf log --full` has. The texts are shown. A memory that
    changed again since is left alone, and so is everything else. `memsheaf redo` takes the undo back.

    examples:
      memsheaf undo
      memsheaf undo 3f2a9c1b04de
    """
    return _undo(call, call.options.commit or "", "Undone", f"Redo with `memsheaf redo{call.other_scopes()}`.")


@takes()
def redo(call: Call) -> int:
    """Do again what the last undo took back.

    Several undos are redone one after the other. Once something else was changed in their scope, they stand:
    `memsheaf undo` with the id of an undo, which `memsheaf log --full` has, takes it back all the same.

    examples:
      memsheaf redo
    """
    with call.memory() as memory:
        undos = [undo for scope in memory.open_scopes(lasting=True) for undo in _last_undo(scope)]
    if not undos:
        raise NotInHistory("nothing is left to redo", hint="`memsheaf log --full` shows what happened.")
    last = max(undos, key=lambda undo: undo.at)
    return _undo(call, last.id, "Done again", call.undo_hint())


def _last_undo(scope: OpenScope) -> Iterator[Commit]:
    """Yield the last undo of a scope that still stands, unless something else was changed there since."""
    redone: set[str] = set()
    for commit in scope.log():
        if not commit.undoes:
            return
        with suppress(NotInHistory):
            if scope.last_change(commit.undoes).undoes:
                redone.add(commit.undoes)
                continue
        if commit.id not in redone:
            yield commit
            return


def _undo(call: Call, commit_id: str, title: str, hint: str) -> int:
    with call.memory() as memory, ExitStack() as stack:
        everywhere = lambda: stack.enter_context(AllScopes(call.settings(), here())).every()  # noqa: E731
        try:
            commits = memory.only(*memory.scopes(lasting=True)).undo(commit_id, others=everywhere)
        except (Changed, NotInHistory) as error:
            lost = [line for scope in memory.open_scopes(lasting=True) for line in scope.describe_lost()]
            if lost or not isinstance(error, Changed):
                error.hint = "; ".join(lost) or error.hint
                raise
            since = f"It was changed again since: `memsheaf log --full {call.label(error.ref)}` shows by whom"
            error.hint = f"{since}; undo that first, by its id."
            raise
    scopes = ", ".join(dict.fromkeys(commit.scope for commit in commits))
    changes = [change for commit in commits for change in _changes_json(call, commit)]
    return call.answer(
        {**_commit_json(call, commits[0]), "scope": scopes, "changes": changes},
        f"{title} in {scopes}:",
        [_changes(call, commit, with_text=True) for commit in commits],
        hint,
    )


@takes(
    FILE._replace(help="a memory; without one, all that went with its folder", required=False),
    Argument("version", "the version, or how it begins, as `memsheaf log --full FILE` shows it", "VERSION"),
    Argument("--from", "bring the memory of this folder here, which was moved or renamed", "FOLDER"),
    Argument("--branches", "also bring back what branches of git have, and this commit has not"),
    Argument("--dismiss", "bring nothing back, and report it no longer"),
)
def restore(call: Call) -> int:
    """Bring back what went with its folder, or a memory to an older version, whatever it is now.

    Without a memory it is for a folder that was removed (`git clean`, `git stash -u`, `rm -r .memory`) while its
    history is there. Files that are there now stay as they are. With --from the memory of a project becomes the one
    of the folder here, and leaves the other; `memsheaf restore --from` there takes it back.

    examples:
      memsheaf restore
      memsheaf restore --from ~/old/shop
      memsheaf restore user_prefers-tabs.md 98af5cb2fc62
    """
    if not call.options.file:
        return _restore_lost(call)
    if not call.options.version:
        raise Usage("restore takes the version, too; `memsheaf log --full FILE` shows those there are")
    with call.open_file(call.options.file) as (sheaf, path):
        commit = sheaf.own.restore(path, call.options.version)
    said = f"Restored {call.shown}:" if commit.revisions else f"{call.shown} is at that version already"
    return call.answer(_commit_json(call, commit), said, _changes(call, commit))


def _restore_lost(call: Call) -> int:
    settings, dismiss = call.settings(), call.options.dismiss
    files: list[str] = []
    if source := getattr(call.options, "from"):
        files += _bring_project(call, os.path.realpath(os.path.expanduser(source)))
    with call.memory() as memory:
        for scope in memory.open_scopes(lasting=True):
            scope.require_writable()
            restored = restore_lost(scope.store, by=memory.by, with_git=call.options.branches, dismiss=dismiss)
            files += [memory.label(scope.ref(path)) for path in restored]
        memory.list()  # the catalog is written again
        if dismiss:
            record_tree(settings.places(here()), decided=True)
        notices = list_notices(memory)
    nothing = "what is gone is not reported any more" if dismiss else "nothing is missing"
    shown = [f"  + {path}" for path in files[:FOLDED]]
    if len(files) > FOLDED:
        shown.append(f"  and {len(files) - FOLDED:,} more")
    return call.answer(
        {"files": files, "notices": notices},
        (f"Restored {plural(len(files), 'file')}:", shown) if files else Note(nothing, ""),
        [Note(said, "yellow") for said in notices],
    )


def _bring_project(call: Call, source: str) -> Sequence[str]:
    """Make the memory of another folder the one of the project here, and return its files."""
    settings = call.settings()
    root = project_root(settings.places(here()))
    other = find_project(settings.places(here()), source)
    if not other or other == root:
        raise Usage(f"no other project has its memory in MEMSHEAF_HOME for {source}; `memsheaf scopes` lists them")
    files = move(Locations(other, root, settings.home, settings.state, settings.cache), lambda: None).files
    record_tree(settings.places(here()), decided=True)
    call.console.note(f"The memory of {source} is the one of {here()} now.")
    return files


@takes(FILE, Argument("--yes", "do not ask"))
def erase(call: Call) -> int:
    """Remove a memory and all its versions for good, and prove it.

    Nothing brings it back. Afterwards every file that is left is searched for traces; if there are any, they
    are named and the exit code is 1. In a git repository its history is searched, too: what it has of the text is
    named with how to remove it, and not touched. With a hub it is erased there, too, and on every other machine when
    that next syncs: those that have not reported it yet are named here and by `memsheaf hub status`. Other copies
    are not reached.

    examples:
      memsheaf erase user_phone-number.md
      memsheaf erase user_phone-number.md --yes --json
    """
    with call.memory() as memory:
        file = memory.label(find_memory(memory, call.options.file))
    if call.options.yes and file != call.options.file:
        raise Usage(f"erase cannot be undone: with --yes give the whole name, {file}")
    question = f"Erase {file} and all its versions for good?"
    if not call.confirm(question, without="erase cannot be undone", left="Nothing was erased."):
        return 1
    with call.open_file(file) as (sheaf, path):
        if not os.path.isdir(sheaf.root) and not sheaf.own.has_history(
            path
        ):  # looking for it must not make the folder
            raise NotFound(sheaf.own.ref(path))
        with AllScopes(call.settings(), here()) as known:
            proof = transfer.erase(sheaf.own, path, others=known.every())
    fields = ("path", "versions", "files", "bytes", "left", "elsewhere", "git", "remedy", "gone")
    machines = [one._asdict() for one in proof.machines]
    value = {**pick(proof, fields), "machines": machines, "waiting": [one.id for one in proof.waiting]}
    return call.answer(value, _proof_lines(proof), code=0 if proof.gone else 1)


def _proof_lines(proof: Proof) -> Iterator[str]:
    yield f"Erased {proof.path}: {plural(proof.versions, 'version')}."
    looked = f"Looked at {plural(proof.files, 'file')} ({plural(proof.bytes, 'byte')}) afterwards"
    yield f"{looked}: no trace is left." if proof.gone else f"{looked}. Traces are left in:"
    yield from (f"  {place}" for place in (*proof.left, *proof.git))
    if proof.machines:
        lost = [one for one in proof.machines if one.is_lost]
        awaited = len(proof.machines) - len(lost)
        yield f"The hub forgot it; {awaited - len(proof.waiting)} of {plural(awaited, 'machine')} reported the same."
        yield "Each keeps the name, so that it is erased wherever it is found."
        yield from (f"  not yet: {one.shown}" for one in proof.waiting)
        yield from (f"  not waited for: {one.shown}" for one in lost)
    if proof.git:
        yield "What git has was not touched. To remove it:"
        yield from (f"  {line}" for line in proof.remedy)
    if proof.elsewhere:
        yield "Other memories say some of the same words; they were not touched:"
        yield from (f"  {place}" for place in proof.elsewhere[:NEAR])
    if len(proof.elsewhere) > NEAR:
        yield f"  and {len(proof.elsewhere) - NEAR:,} more (--json names all)"


def _commit_json(call: Call, commit: Commit) -> dict[str, object]:
    return {**pick(commit, ("id", "at", "by", "why", "undoes")), "changes": _changes_json(call, commit)}


def _changes_json(call: Call, commit: Commit) -> list[dict[str, object]]:
    return [
        {"path": call.label(Ref(commit.scope, revision.path)), **pick(revision, ("before", "after"))}
        for revision in commit.revisions
    ]


def _log_parts(call: Call, commits: Sequence[Commit], full: bool) -> Iterator[Part]:
    for commit in commits:
        why = " ".join(commit.why.split())
        if not full:
            why = "undo" if commit.undoes else re.sub(r"^learn \w+", "learn", why.partition(TOGETHER)[0])
        head = [commit.id] if full else []
        yield Styled("  ".join([*head, local_minute(commit.at), commit.by, why]).rstrip(), "bold")
        yield _changes(call, commit, full)


def _changes(call: Call, commit: Commit, full: bool = False, *, with_text: bool = False) -> Iterator[Part]:
    """Return what a commit did to each memory, unless `full` only to the first few."""
    for revision in commit.revisions[: None if full else FOLDED]:
        sign = "-" if not revision.after else "~"
        version = f"  {revision.after[:SHORT] or 'removed'}" if full else ""
        yield f"  {sign if revision.before else '+'} {call.label(Ref(commit.scope, revision.path))}{version}"
        if with_text:
            yield _changed_lines(revision)
    if not full and len(commit.revisions) > FOLDED:
        yield Styled(f"  and {len(commit.revisions) - FOLDED:,} more (`memsheaf log --full` lists all)", "dim")


def _changed_lines(revision: Revision) -> Iterator[Part]:
    """Return the lines of a memory's text that a change took away and those it brought."""
    texts = (revision.old, revision.new)
    old, new = (re.findall(".+", parse("any.md", data).body) if data else [] for data in texts)
    yield from (Styled(f"    - {line}", "red") for line in old if line not in new)
    yield from (Styled(f"    + {line}", "green") for line in new if line not in old)
