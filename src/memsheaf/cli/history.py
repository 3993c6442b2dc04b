"""Commands for what happened: log, diff, undo, restore, erase."""

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from itertools import islice

from memsheaf import transfer
from memsheaf.cli.call import Call, Result, here, local_minute, pick, plural
from memsheaf.cli.output import Note, Part, Styled, Table
from memsheaf.cli.parser import Place, Usage, Version, Versions, Whole
from memsheaf.errors import Changed, NotFound, NotInHistory, Ref
from memsheaf.memory import parse
from memsheaf.open_scope import TOGETHER, OpenScope
from memsheaf.scope import project_root
from memsheaf.sheaf import AllScopes, find_memory, list_notices
from memsheaf.store import Commit, Revision
from memsheaf.transfer import Locations, Proof
from memsheaf.work.relocate import move
from memsheaf.worktree import find_project, record_tree, restore_lost

VERSION_DIGITS = 12
MAX_CHANGES = 10  # of one commit that are listed
MAX_SIMILAR = 20  # memories that say the same as an erased one
_PROOF = ("path", "versions", "files", "bytes", "left", "elsewhere", "git", "remedy", "gone", "machines")
_COLOURS = {"+": "green", "-": "red", "@": "cyan"}


def log(call: Call, memory: str = "", *, limit: Whole = 20, full: bool = False) -> Result:
    """List what happened, newest first: who changed which memory when, and why.

    Without a memory it is all that happened in project and user, or in the scope that -s names. Times are those
    of this machine; --json has them in UTC. With --full each commit has its id, for `undo`, and each change the
    version it led to, for `diff` and `restore`. Changes made with other programs are listed as `outside`.

    arguments:
      MEMORY: only what happened to this memory: its file, its name, or a part of either
      -n, --limit N: how many commits at most, 0 for all (20)
      --full: with ids and versions, and every change of a commit, not only the first ten

    examples:
      memsheaf log
      memsheaf log user_prefers-tabs.md -n 5
      memsheaf log --full
    """
    most = limit + 1 if limit else None
    if memory:
        with call.open_file(memory) as (sheaf, path):
            commits = list(islice(sheaf.log(path), most))
    else:
        with call.memory() as layers:
            found = layers.only(*layers.scopes(lasting=True)).log(limit=most)
            commits = sorted(found, key=lambda commit: commit.at, reverse=True)
    has_more = bool(limit) and len(commits) > limit
    commits = commits[: limit or None]
    return Result(
        {"commits": [_commit_json(call, commit) for commit in commits], "more": has_more},
        list(_log_parts(call, commits, full)) if commits else Note("nothing happened yet", ""),
        Note("There is more: -n 0 lists all.") if has_more else None,
    )


def diff(call: Call, memory: str, versions: Versions = (), *, blame: bool = False) -> Result:
    """Show how a memory changed, by its last commit or between two versions; or where each line is from.

    With --blame each line of the present text has the commit it came with, when, and by whom.

    arguments:
      MEMORY: which memory: its file, its name, or a part of either
      VERSION: the version to start from, and the one to compare with instead of the present text
      --blame: show for each line which commit it came with

    examples:
      memsheaf diff user_prefers-tabs.md
      memsheaf diff user_prefers-tabs.md 98af5cb2fc62
      memsheaf diff user_prefers-tabs.md --blame
    """
    if len(versions) > 2:
        raise Usage("give two versions at most")
    older, newer = [*versions, "", ""][:2]
    with call.open_file(memory) as (sheaf, path):
        file = call.label(sheaf.own.ref(path))
        if blame:
            lines = sheaf.own.blame(path)
            rows = [(line.commit or "(older)", line.at[:10], line.by, line.line) for line in lines]
            value = {"lines": [pick(line, ("line", "commit", "at", "by")) for line in lines]}
            return Result(value, Table(rows, ("dim", "dim", "cyan")))
        text = sheaf.own.diff(path, older, newer)
    styled = [Styled(line, _COLOURS.get(line[:1], "")) for line in text.split("\n")]
    styled[:2] = [Styled(line.text, "bold") for line in styled[:2]]
    return Result({"path": file, "diff": text}, styled if text else Note("no difference", ""))


def undo(call: Call, commit: Version = "", *, redo: bool = False) -> Result:
    """Take back what the last command did, in all its scopes, or a commit.

    Without an id it is the last that memsheaf made in project and user, or in the scope that -s names; what was
    edited outside is taken back only by its id, which `memsheaf log --full` has. The texts are shown. A memory that
    changed again since is left alone, and so is everything else. --redo takes the last undo back; several undos are
    redone one after the other, until something else was changed in their scope.

    arguments:
      COMMIT: the commit's id, or how it begins; without one, the last that was not undone
      --redo: do again what the last undo took back

    examples:
      memsheaf undo
      memsheaf undo 3f2a9c1b04de
      memsheaf undo --redo
    """
    if commit and redo:
        raise Usage("--redo is about the last undo; `memsheaf undo` with the id of an undo takes that back")
    with call.memory() as layers, ExitStack() as stack:
        scopes = layers.open_scopes(lasting=True)
        if redo:
            undos = [undone for scope in scopes for undone in _last_undo(scope)]
            if not undos:
                raise NotInHistory("nothing is left to redo", hint="`memsheaf log --full` shows what happened.")
            commit = max(undos, key=lambda undone: undone.at).id
        everywhere = lambda: stack.enter_context(AllScopes(call.settings(), here())).every()  # noqa: E731
        try:
            commits = layers.only(*layers.scopes(lasting=True)).undo(commit, others=everywhere)
        except (Changed, NotInHistory) as error:
            lost = [line for scope in scopes for line in scope.describe_lost()]
            if lost or not isinstance(error, Changed):
                error.hint = "; ".join(lost) or error.hint
                raise error from None
            since = f"It was changed again since: `memsheaf log --full {call.label(error.ref)}` shows by whom"
            error.hint = f"{since}; undo that first, by its id."
            raise error from None
    names = ", ".join(dict.fromkeys(one.scope for one in commits))
    changes = [change for one in commits for change in _changes_json(call, one)]
    hint = call.undo_hint() if redo else f"Redo with `memsheaf undo --redo{call.other_scopes()}`."
    return Result(
        {**_commit_json(call, commits[0]), "scope": names, "changes": changes},
        f"{'Done again' if redo else 'Undone'} in {names}:",
        [part for one in commits for part in _changes(call, one, with_text=True)],
        hint,
    )


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


def restore(
    call: Call,
    memory: str = "",
    version: Version = "",
    *,
    from_: Place = "",
    dismiss: bool = False,
) -> Result:
    """Bring back what went with its folder, or a memory to an older version, whatever it is now.

    Without a memory it is for a folder that was removed (`git clean`, `git stash -u`, `rm -r .memory`) while its
    history is there. Files that are there now stay as they are. With --from the memory of a project becomes the one
    of the folder here, and leaves the other; `memsheaf restore --from` there takes it back.

    arguments:
      MEMORY: a memory; without one, all that went with its folder
      VERSION: the version, or how it begins, as `memsheaf log --full MEMORY` shows it
      --from FOLDER: bring the memory of this folder here, which was moved or renamed
      --dismiss: bring nothing back, and report it no longer

    examples:
      memsheaf restore
      memsheaf restore --from ~/old/shop
      memsheaf restore user_prefers-tabs.md 98af5cb2fc62
    """
    if not memory:
        return _restore_lost(call, from_, dismiss)
    if not version:
        raise Usage("restore takes the version, too; `memsheaf log --full MEMORY` shows those there are")
    with call.open_file(memory) as (sheaf, path):
        commit = sheaf.own.restore(path, version)
        file = call.label(sheaf.own.ref(path))
    said = f"Restored {file}:" if commit.revisions else f"{file} is at that version already"
    return Result(_commit_json(call, commit), said, list(_changes(call, commit)))


def _restore_lost(call: Call, source: str, dismiss: bool) -> Result:
    places = call.settings().places(here())
    files = list(_bring_project(call, os.path.realpath(os.path.expanduser(source)))) if source else []
    with call.memory() as memory:
        for scope in memory.open_scopes(lasting=True):
            scope.require_writable()
            restored = restore_lost(scope.store, by=memory.by, dismiss=dismiss)
            files += [memory.label(scope.ref(path)) for path in restored]
        memory.list()  # the catalog is written again
        if dismiss:
            record_tree(places, decided=True)
        notices = list_notices(memory)
    nothing = "what is gone is not reported any more" if dismiss else "nothing is missing"
    shown = [f"  + {path}" for path in files[:MAX_CHANGES]]
    if len(files) > MAX_CHANGES:
        shown.append(f"  and {len(files) - MAX_CHANGES:,} more")
    return Result(
        {"files": files, "notices": notices},
        [f"Restored {plural(len(files), 'file')}:", *shown] if files else Note(nothing, ""),
        [Note(notice, "yellow") for notice in notices],
    )


def _bring_project(call: Call, source: str) -> Sequence[str]:
    """Make the memory of another folder the one of the project here, and return its files."""
    settings = call.settings()
    places = settings.places(here())
    root = project_root(places)
    other = find_project(places, source)
    if not other or other == root:
        raise Usage(f"no other project has its memory in MEMSHEAF_HOME for {source}; `memsheaf scopes` lists them")
    files = move(Locations(other, root, settings.home, settings.state, settings.cache), lambda: None).files
    record_tree(places, decided=True)
    call.console.note(f"The memory of {source} is the one of {here()} now.")
    return files


def erase(call: Call, memory: str) -> Result:
    """Remove a memory and all its versions for good, and prove it.

    Nothing brings it back. Afterwards every file that is left is searched for traces; if there are any, they
    are named and the exit code is 1. In a git repository its history is searched, too: what it has of the text is
    named with how to remove it, and not touched. With a hub it is erased there, too, and on every other machine when
    that next syncs: those that have not reported it yet are named here and by `memsheaf hub status`. Other copies
    are not reached.

    arguments:
      MEMORY: which memory: its file, its name, or a part of either; with --yes its whole name

    examples:
      memsheaf erase user_phone-number.md
      memsheaf erase user_phone-number.md --yes --json
    """
    with call.memory() as layers:
        file = layers.label(find_memory(layers, memory))
    if call.yes and file != memory:
        raise Usage(f"erase cannot be undone: with --yes give the whole name, {file}")
    question = f"Erase {file} and all its versions for good?"
    call.confirm(question, without="erase cannot be undone", left="Nothing was erased.")
    with call.open_file(file) as (sheaf, path):
        # looking for it must not make the folder
        if not os.path.isdir(sheaf.root) and not sheaf.own.has_history(path):
            raise NotFound(sheaf.own.ref(path))
        with AllScopes(call.settings(), here()) as known:
            proof = transfer.erase(sheaf.own, path, others=known.every())
    value = {**pick(proof, _PROOF), "waiting": [machine.id for machine in proof.waiting]}
    return Result(value, list(_proof_lines(proof)), code=0 if proof.gone else 1)


def _proof_lines(proof: Proof) -> Iterator[str]:
    yield f"Erased {proof.path}: {plural(proof.versions, 'version')}."
    looked = f"Looked at {plural(proof.files, 'file')} ({plural(proof.bytes, 'byte')}) afterwards"
    yield f"{looked}: no trace is left." if proof.gone else f"{looked}. Traces are left in:"
    yield from (f"  {place}" for place in (*proof.left, *proof.git))
    if proof.machines:
        lost = [machine for machine in proof.machines if machine.is_lost]
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
        yield from (f"  {place}" for place in proof.elsewhere[:MAX_SIMILAR])
    if len(proof.elsewhere) > MAX_SIMILAR:
        yield f"  and {len(proof.elsewhere) - MAX_SIMILAR:,} more (--json names all)"


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
        yield from _changes(call, commit, full)


def _changes(call: Call, commit: Commit, full: bool = False, *, with_text: bool = False) -> Iterator[Part]:
    """Yield what a commit did to each memory, unless `full` only to the first few."""
    for revision in commit.revisions[: None if full else MAX_CHANGES]:
        sign = "-" if not revision.after else "~"
        version = f"  {revision.after[:VERSION_DIGITS] or 'removed'}" if full else ""
        yield f"  {sign if revision.before else '+'} {call.label(Ref(commit.scope, revision.path))}{version}"
        if with_text:
            yield from _changed_lines(revision)
    if not full and len(commit.revisions) > MAX_CHANGES:
        yield Styled(f"  and {len(commit.revisions) - MAX_CHANGES:,} more (`memsheaf log --full` lists all)", "dim")


def _changed_lines(revision: Revision) -> Iterator[Part]:
    """Yield the lines of a memory's text that a change took away and those it brought."""
    texts = (revision.old, revision.new)
    old, new = (re.findall(".+", parse("any.md", data).body) if data else [] for data in texts)
    yield from (Styled(f"    - {line}", "red") for line in old if line not in new)
    yield from (Styled(f"    + {line}", "green") for line in new if line not in old)
