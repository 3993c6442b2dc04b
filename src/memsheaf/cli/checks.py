"""Commands that check: audit, lint, citations, health, and the index."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from os.path import getsize, isdir
from time import time

from memsheaf import doctor as health
from memsheaf.cli.call import BY, EMBEDDING, Call, here, pick, plural
from memsheaf.cli.command import DRY_RUN, Argument, Usage, takes
from memsheaf.cli.output import Note, Part, Styled, Table
from memsheaf.errors import NotFound, ScopeRefused, hinted
from memsheaf.guard.citations import cited, make
from memsheaf.scope import FOLDER, around, project_root
from memsheaf.sheaf import Sheaf
from memsheaf.work import audit as auditing
from memsheaf.work.browse import verify as verified
from memsheaf.work.hub_scopes import shared_scopes
from memsheaf.work.hub_scopes import status as hub_status
from memsheaf.work.layers import Layers
from memsheaf.worktree import WorkingTree

SHOWN = 20  # findings of a section, for people
_FIELDS = ("kind", "level", "path", "said", "advice", "others", "id", "fix")
_TREE = Argument(
    "--tree", "the working tree that citations are checked against; the one around you when left out", "DIR"
)
_SECTIONS = {
    "duplicates": "Duplicate groups",
    "citations": "Stale citations",
    "pollution": "Pollution",
    "waiting": "Waiting",
}
_OF_A_PROJECT = ("project", "task", "session")


@takes(
    _TREE,
    Argument("--fix", "do what settles the findings of these ids", "ID", repeated=True),
    Argument("--fix-descriptions", "describe by their first sentence what earlier versions described by topics"),
    DRY_RUN,
)
def audit(call: Call) -> int:
    """Report duplicates, stale citations, pollution and what waits; --fix settles findings.

    In a group of memories with nearly the same words, the keeper is the most specific and recent one, and the
    others are candidates for natural decay. What cites or names a place that is gone is a candidate for a
    superseding fact. The citations of memories that belong to no project are only checked with --tree. The exit
    code is 0, also when there is no such scope yet. --fix-descriptions audits nothing: it changes "When it is about
    …" in project and user, or in the scope that is named, and shows what; one `memsheaf undo` takes it back.

    examples:
      memsheaf audit
      memsheaf audit --scope user --json
      memsheaf audit --fix 3f9a12c4
      memsheaf audit --fix-descriptions --dry-run
    """
    if call.options.fix_descriptions:
        is_dry = call.options.dry_run
        with call.memory(read_only=is_dry) as layers:
            rows, commits = auditing.fix_descriptions(layers, apply=not is_dry)
        done = "would be changed" if is_dry else "changed; `memsheaf undo` takes it back"
        said = f"{plural(len(rows), 'description')} {done}" if rows else "no description has to be changed"
        changed = {"changes": dict(rows), "commits": [commit.id for commit in commits]}
        return call.answer(changed, Table(rows, ("bold",)), Note(said, ""))
    if call.options.fix:
        return _fix_findings(call, call.options.fix)
    report, tree, root = _run_audit(call)
    exists = isdir(root)
    sections = {name: [pick(one, _FIELDS) for one in getattr(report, name)] for name in _SECTIONS}
    value = {"scope": report.scope, "exists": exists, "tree": tree, "files": report.files, "clean": report.clean}
    checked = f"checked {plural(report.files, 'file')} of the scope {report.scope}; nothing was changed"
    note = Note(checked if exists else _nothing_there(report, root), "")
    return call.answer({**value, **sections}, _audit_parts(report, tree), note)


@takes(_TREE, Argument("--strict", "fail for notes, too"))
def lint(call: Call) -> int:
    """Print what an audit finds, one line each, and fail if it matters.

    A line is `FILE: KIND: what`. The exit code is 1 when one of them is an error or a warning, with --strict when
    there is any, and when there is no such scope; nothing is changed.

    examples:
      memsheaf lint
      memsheaf lint --strict --json
    """
    report, tree, root = _run_audit(call)
    if not isdir(root):  # else a scope that is mistyped keeps a build green for ever
        raise hinted(ScopeRefused(_nothing_there(report, root)), "`memsheaf scopes` shows what there is.")
    found = list(report.findings())
    failed = any(call.options.strict or one.level != "note" for one in found)
    value = {
        "scope": report.scope,
        "tree": tree,
        "files": report.files,
        "failed": failed,
        "findings": [pick(one, _FIELDS) for one in found],
    }
    lines = [f"{one.path}: {one.kind}: {one.said}" for one in found]
    return call.answer(value, lines or Note("nothing to report"), code=1 if failed else 0)


def _run_audit(call: Call) -> tuple[auditing.Audit, str, str]:
    """The audit of the scope that the line names, the tree it was held against, "" without one, and its folder."""
    with _audited(call, read_only=True) as (report, layers, tree):
        return report, tree.root if tree else "", layers.sheaf(call.scope()).root


@contextmanager
def _audited(call: Call, *, read_only: bool) -> Iterator[tuple[auditing.Audit, Layers, WorkingTree | None]]:
    with Layers.open(settings=call.settings(), cwd=here(), by=BY, read_only=read_only) as layers:
        sheaf = layers.sheaf(call.scope())
        folder = call.options.tree or (around(here()) if sheaf.scope.layer in _OF_A_PROJECT else "")
        with call.tree(sheaf.root, folder) if folder else nullcontext() as tree:
            with call.console.progress("auditing") as progress:
                around_it = layers if sheaf.scope.layer == "project" else None
                report = auditing.audit(sheaf, today=sheaf.today, layers=around_it, tree=tree, progress=progress)
            yield report, layers, tree


def _fix_findings(call: Call, ids: Sequence[str]) -> int:
    """Do what settles findings; each is one commit."""
    done = []
    with _audited(call, read_only=False) as (report, layers, tree):
        known = {one.id: one for one in (*report.findings(), *report.duplicates) if one.id}
        if unknown := [id for id in ids if id not in known]:
            error = NotFound(unknown[0], f"no finding {unknown[0]!r}")
            raise hinted(error, "`memsheaf audit` shows those there are.")
        for id in ids:
            sheaf, commit = auditing.fix(known[id].fix, layers.sheaf(call.scope()), layers=layers, tree=tree)
            done.append({"id": id, "do": known[id].fix.do, "scope": str(sheaf.scope), "commit": commit})
    lines = [f"{one['do']}: done for {one['id']}. Undo with `memsheaf undo {one['commit']}`." for one in done]
    return call.answer({"fixed": done}, lines)


def _audit_parts(report: auditing.Audit, tree: str) -> Iterator[Part]:
    for name, title in _SECTIONS.items():
        found = getattr(report, name)
        yield Styled(title, "bold")
        yield [[f"  {line}" for line in _finding_lines(one)] for one in found[:SHOWN]]
        if len(found) > SHOWN:
            yield f"  and {len(found) - SHOWN:,} more; `memsheaf lint` shows all"
        if not found:
            is_unchecked = name == "citations" and not tree and report.files
            yield "  not checked; --tree DIR names a working tree" if is_unchecked else "  none"


def _nothing_there(report: auditing.Audit, root: str) -> str:
    return f"there is nothing there: the scope {report.scope} has no folder {root}"


def _finding_lines(one: auditing.AuditFinding) -> list[str]:
    if one.kind != "duplicate":
        return [f"{one.path}: {one.said}", f"  {one.advice}", *_how_to_fix(one)]
    decaying = [f"  {path}: candidate for natural decay" for path in one.others]
    return [one.said, f"  {one.path}: keeper, the most specific and recent", *decaying, *_how_to_fix(one)]


def _how_to_fix(one: auditing.AuditFinding) -> list[str]:
    return [f"  --fix {one.id}: {one.fix.do} {one.fix.place}".rstrip()] if one.id else []


@takes(
    Argument("place", "what to cite: PATH, PATH:LINE, PATH:LINE-LINE, PATH#SYMBOL", "PLACE", required=True),
    Argument("--memory", "the memory to add it to, as `memsheaf list` shows it", "FILE"),
)
def cite(call: Call) -> int:
    """Make a citation: a place in the working tree, with a hash of what is there now.

    By its hash `memsheaf verify` sees later whether the place changed or moved. A path is taken from where you
    are, else from the root of the checkout. With --memory the citation is added to that memory, and takes the
    place of an older one of the same lines.

    examples:
      memsheaf cite src/app.py:10-12
      memsheaf cite src/app.py#Server.start --memory project_server.md
    """
    with call.tree() as tree:
        citation = make(tree, tree.spelled(call.options.place, here()))
    value = {"citation": str(citation), **citation._asdict()}
    if not call.options.memory:
        return call.answer(value, str(citation))
    with call.memory() as layers:
        memory = layers.read(call.options.memory)
        memory = layers.put(memory.path, cited(memory, citation), expect=memory.version, why=f"cite {citation}")
    value = {**value, "memory": memory.path, "version": memory.version}
    return call.answer(value, f"Updated {memory.path}: {citation}")


@takes(Argument("file", "the memories to check; all of the scope when left out", "FILE", repeated=True))
def verify(call: Call) -> int:
    """Check the citations of memories against the working tree you are in.

    Each is `verified`; `drifted`, when it changed or moved, with its new place if that was found; `missing`; or
    `unchecked`, when there is nothing to compare. Files and symbols that a text names and the tree does not have
    are told as `gone`. The exit code is 1 when a citation is drifted or missing.

    examples:
      memsheaf verify
      memsheaf verify project_release-day.md --json
    """
    with call.memory() as layers, call.tree(layers.root) as tree, call.console.waiting("verifying"):
        named: dict[Sheaf, list[str]] = {}
        for file in call.options.file or ():
            sheaf, path = layers.place(file)
            named.setdefault(sheaf, []).append(path)
        found = [
            (layers.name(sheaf, memory.path), evidence)
            for sheaf, paths in (named or {layers.own: []}).items()
            for memory, evidence in verified(sheaf, tree, paths)
        ]
    rows: list[tuple[str, str, str]] = []
    memories = []
    for path, evidence in found:
        rows += [(verdict.state, path, verdict.said) for _, verdict in evidence.citations]
        gone = "is named in the text, and is not in the working tree."
        rows += [("gone", path, f"`{name}` {gone}") for name in evidence.gone]
        citations = [{"citation": text, **pick(one, ("state", "said", "place"))} for text, one in evidence.citations]
        memories.append({"path": path, "citations": citations, "gone": evidence.gone})
    return call.answer(
        {"scope": layers.home, "tree": tree.root, "memories": memories},
        Table(rows, ("", "bold"), empty=f"no citations in the scope {layers.home}"),
        code=1 if {state for state, _, _ in rows} & {"drifted", "missing"} else 0,
    )


@takes(
    Argument("--prune", "also drop what is past retention from the journal"),
    Argument("--fix", "also remove the indexes of scopes that are gone, and of other versions, from the cache"),
)
def doctor(call: Call) -> int:
    """Run health checks on a scope and the coding agents, and say what to do about findings.

    Of each agent that is found or installed in, it tells whether our server and hook answer as your settings start
    them and how long that took, when a hook ran last, and what failed. Another program in them is shown, not run. Of
    each scope with a hub, whether that answers and what waits for it. Nothing is changed, except with --prune and
    --fix. The exit code is 1 when something does not work.

    examples:
      memsheaf doctor
      memsheaf doctor --scope user --prune
      memsheaf doctor --fix
    """
    removed = health.remove_abandoned_indexes(call.settings().cache) if call.options.fix else []
    with call.reading() as sheaf:
        findings = health.examine(sheaf, cache=call.settings().cache)
    if unused := call.unused_folder():
        findings.insert(0, health.Finding("warning", FOLDER, unused, "look at it, then accept it or leave it alone"))
    dropped = 0
    if call.options.prune and isdir(sheaf.root):
        with call.changing() as changed:
            dropped = changed.writer.prune()
    from memsheaf.hosts import health as host_health
    from memsheaf.hosts.installing import Placement, program_words

    place = Placement(program_words(), call.environment)
    with call.console.waiting("trying the agents"):
        hosts = host_health.examine_hosts(place, call.settings().state, here())
    findings += [finding for host in hosts for finding in host.findings()]
    with call.console.waiting("asking the hubs"):
        hubs = [hub_status(scope, call.settings(), here()) for scope in shared_scopes(call.settings(), here())]
    findings += [finding for hub in hubs for finding in health.examine_hub(hub, time())]
    if hosts:
        root = project_root(call.settings().places(here()))
        findings += host_health.examine_switch(place, call.settings().state, root)
    failures = host_health.last_failures(call.settings().state)
    size, indexes = sum(one.size for one in removed), plural(len(removed), "index", "indexes")
    return call.answer(
        {
            "scope": str(sheaf.scope),
            "root": sheaf.root,
            "findings": [pick(finding, ("level", "path", "problem", "advice")) for finding in findings],
            "dropped": dropped,
            "removed": [one.base for one in removed],
            "hosts": hosts,
            "hubs": [{"scope": one.scope, "hub": one.hub.shown, "problem": one.problem} for one in hubs],
            "failures": failures,
        },
        Table(((host.title, host.summary()) for host in hosts), ("bold",)),
        Table(((hub.scope, f"shared through {hub.hub.shown}") for hub in hubs), ("bold",)),
        [f"hook failed: {line}" for line in failures],
        _health_parts(findings, f"All is well: {sheaf.scope} in {sheaf.root}"),
        f"Dropped {plural(dropped, 'text')} past retention from the journal." if call.options.prune else None,
        f"Removed {indexes} ({plural(size, 'byte')}) from the cache." if call.options.fix else None,
        code=1 if any(finding.level == "error" for finding in findings) else 0,
    )


def _health_parts(findings: Sequence[health.Finding], well: str) -> Iterator[Part]:
    colours = {"error": "red", "warning": "yellow"}
    for finding in findings:
        said = f"{finding.level}: {finding.path}: {finding.problem}"
        yield Styled(said, colours.get(finding.level, ""))
        if finding.advice:
            yield f"    {finding.advice}"
    if not any(finding.level != "info" for finding in findings):
        yield well


@takes(
    Argument("--status", "only show it"),
    Argument("--rebuild", "throw the index away first, vectors included, and make it anew"),
)
def index(call: Call) -> int:
    """Show the search index, and embed what is not embedded yet.

    Memories are embedded automatically, a few in each search and many in the background. This embeds all of them now.
    It may be interrupted with Ctrl-C: what was done is kept. The exit code is 1 when the embedder fails.

    examples:
      memsheaf index
      memsheaf index --status --json
    """
    options, console = call.options, call.console
    if options.status and options.rebuild:
        raise Usage("--status changes nothing, so it cannot go with --rebuild")
    with call.reading() as sheaf:
        if options.rebuild:
            sheaf.reader.delete_index()
        memories = len(sheaf.list())
        with console.progress("Embedding") as progress:
            made = sheaf.reader.embedding() if options.status else sheaf.reader.embed_all(progress)
    # once closed, only the files that stay are left
    files = []
    for path in sheaf.reader.index_files():
        with suppress(FileNotFoundError):
            files.append((path, getsize(path)))
    rows = [("file", f"{path} ({plural(size, 'byte')})") for path, size in files]
    rows += [("memories", f"{memories:,}"), ("embedder", made.embedder or "none: search goes by words")]
    if made.embedder:
        running = ", more are being made" if made.running else ""
        rows.append(("vectors", f"{made.done:,} of {made.total:,} memories{running}"))
    if made.problem:
        rows.append(("problem", made.problem))
    sizes = [{"path": path, "bytes": size} for path, size in files]
    value = {"scope": str(sheaf.scope), "files": sizes, "memories": memories, **pick(made, EMBEDDING)}
    return call.answer(value, Table(rows, ("bold",)), code=1 if made.problem else 0)
