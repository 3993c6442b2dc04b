"""Commands that check: audit, citations, health, and the index."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from os.path import getsize, isabs, isdir
from typing import NamedTuple

from memsheaf.cli.call import BY, EMBEDDING, Call, here, pick, plural
from memsheaf.cli.command import Argument, Usage, takes
from memsheaf.cli.output import Note, Part, Styled, Table
from memsheaf.encode import find_problem
from memsheaf.errors import Ref, ScopeRefused
from memsheaf.guard.citations import cited, make
from memsheaf.hosts import health as host_health
from memsheaf.hosts.installing import Placement, program_words
from memsheaf.hub.scopes import examine_hub, shared_scopes
from memsheaf.hub.scopes import status as hub_status
from memsheaf.scope import FOLDER, around, project_root
from memsheaf.sheaf import Sheaf
from memsheaf.work import checks

SHOWN = 20  # findings of a section, for people
_FIELDS = ("kind", "level", "path", "problem", "advice", "others")
_SECTIONS = {
    "duplicates": "Duplicate groups",
    "citations": "Stale citations",
    "pollution": "Pollution",
    "waiting": "Waiting",
}
_OF_A_PROJECT = ("project", "task", "session")


@takes(
    Argument("--tree", "the working tree that citations are checked against; the one around you if left out", "DIR"),
    Argument("--check", "print a line for each finding, and fail if one is an error or a warning"),
)
def audit(call: Call) -> int:
    """Report duplicates, stale citations, pollution and what waits, in project and user.

    In a group of memories with nearly the same words, the keeper is the most specific and recent one, and the
    others are candidates for natural decay. What cites a place that is gone is a candidate for a
    superseding fact. The citations of memories that belong to no project are only checked with --tree. Nothing is
    changed. With --check, for CI, a line is `FILE: KIND: what`, and the exit code is 1 when one of them is an error
    or a warning, and when there is no such scope. --scope names one scope.

    examples:
      memsheaf audit
      memsheaf audit --scope user --json
      memsheaf audit --check
    """
    audits = _run_audits(call)
    trees = [audit.tree for audit in audits if audit.tree]
    there = [audit.report.scope for audit in audits if isdir(audit.root)]
    findings = [finding for audit in audits for finding in audit.report.findings]
    sections = {
        name: [finding for audit in audits for finding in audit.report.section(name)]
        for name in checks.AUDIT_SECTIONS
    }
    files = sum(audit.report.files for audit in audits)
    failed = any(finding.level != checks.INFO for finding in findings)
    value = {
        "scopes": there,
        "tree": "".join(trees[:1]),
        "files": files,
        "failed": failed,
        "clean": not findings,
        **{name: [pick(finding, _FIELDS) for finding in section] for name, section in sections.items()},
    }
    roots = ", ".join(audit.root for audit in audits)
    if call.options.check:
        if not there:  # else a scope that is mistyped keeps a build green for ever
            raise ScopeRefused(f"there is no folder {roots}", hint="`memsheaf scopes` shows what there is.")
        lines = [f"{finding.path}: {finding.kind}: {finding.problem}" for finding in findings]
        return call.answer(value, lines or Note("nothing to report"), code=int(failed))
    checked = f"checked {plural(files, 'file')} of {', '.join(there)}; nothing was changed"
    note = Note(checked if there else f"there is nothing to check: no folder {roots}", "")
    return call.answer(value, _audit_parts(sections, is_unchecked=bool(files and not trees)), note)


class _ScopeAudit(NamedTuple):
    """The audit of a scope, its folder, and the tree that it was held against, "" without one."""

    report: checks.Audit
    root: str
    tree: str


def _run_audits(call: Call) -> list[_ScopeAudit]:
    """Audit the scopes that the line names, else project and user; findings have names as `list` shows them."""
    audits = []
    scopes = call.scopes() or ["project", "user"]
    with Sheaf.open(settings=call.settings(), cwd=here(), by=BY, read_only=True) as layers:
        for scope in scopes:
            sheaf = layers.only(scope)
            folder = call.options.tree or (around(here()) if sheaf.scope.layer in _OF_A_PROJECT else "")
            with (
                call.tree(sheaf.root, folder) if folder else nullcontext() as tree,
                call.console.waiting(f"auditing {scope}"),
            ):
                report = checks.audit(sheaf, today=sheaf.today, tree=tree)
            named = [
                finding._replace(
                    path=Ref(scope, finding.path).label(scopes[0]),
                    others=tuple(Ref(scope, other).label(scopes[0]) for other in finding.others),
                )
                for finding in report.findings
            ]
            report = report._replace(scope=scope, findings=tuple(named))
            audits.append(_ScopeAudit(report, sheaf.root, tree.root if tree else ""))
    return audits


def _audit_parts(sections: Mapping[str, Sequence[checks.Finding]], *, is_unchecked: bool) -> Iterator[Part]:
    for name, findings in sections.items():
        yield Styled(_SECTIONS[name], "bold")
        yield [[f"  {line}" for line in _finding_lines(finding)] for finding in findings[:SHOWN]]
        if len(findings) > SHOWN:
            yield f"  and {len(findings) - SHOWN:,} more; `memsheaf audit --check` shows all"
        if not findings:
            skipped = name == "citations" and is_unchecked
            yield "  not checked; --tree DIR names a working tree" if skipped else "  none"


def _finding_lines(one: checks.Finding) -> list[str]:
    if one.kind != "duplicate":
        return [f"{one.path}: {one.problem}", f"  {one.advice}"]
    decaying = [f"  {path}: candidate for natural decay" for path in one.others]
    return [one.problem, f"  {one.path}: keeper, the most specific and recent", *decaying]


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
        citation = make(tree, tree.spell_from_root(call.options.place, here()))
    value = {"citation": str(citation), **citation._asdict()}
    if not call.options.memory:
        return call.answer(value, str(citation))
    with call.memory() as layers:
        memory = layers.read(call.options.memory)
        memory = layers.put(memory.ref, cited(memory, citation), expect=memory.version, why=f"cite {citation}")
    value = {**value, "memory": call.label(memory.ref), "version": memory.version}
    return call.answer(value, f"Updated {call.label(memory.ref)}: {citation}")


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
            ref = layers.resolve(file)
            named.setdefault(layers.only(ref.scope), []).append(ref.path)
        found = [
            (layers.label(memory.ref), evidence)
            for sheaf, paths in (named or {layers.only(layers.home): []}).items()
            for memory, evidence in checks.verify(sheaf, tree, paths)
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
        code=1 if any(checks.has_drifted(evidence) for _, evidence in found) else 0,
    )


@takes(
    Argument("--prune", "also drop what is past retention from the journal"),
    Argument("--fix", "also remove the indexes of scopes that are gone, and of other versions, from the cache"),
)
def doctor(call: Call) -> int:
    """Check the health of project, user and coding agents, and say what to do about it.

    Of each agent that is found or installed in, it tells whether our server and hook answer as your settings start
    them and how long that took, when a hook ran last, and what failed. Another program in them is shown, not run. Of
    each scope with a hub, whether that answers and what waits for it; of the encoder, whether it runs. Nothing is
    changed, except with --prune and --fix. The exit code is 1 when something does not work.

    examples:
      memsheaf doctor
      memsheaf doctor --scope user --prune
      memsheaf doctor --fix
    """
    settings = call.settings()
    scopes: list[dict[str, str]] = []
    findings: list[checks.Finding] = []
    dropped = 0
    with call.memory() as layers:
        for sheaf in map(layers.only, layers.scopes(lasting=True)):
            if scopes and not isdir(sheaf.root):
                continue
            scopes.append({"scope": str(sheaf.scope), "root": sheaf.root})
            for finding in checks.examine(sheaf):
                name = finding.path if isabs(finding.path) else layers.label(sheaf.own.ref(finding.path))
                findings.append(finding._replace(path=name))
            if call.options.prune and isdir(sheaf.root):
                dropped += sheaf.own.store.prune()
    findings += checks.examine_cache(settings.cache, settings.state, fix=call.options.fix)
    if unused := call.unused_folder():
        findings.insert(0, checks.Finding("warning", FOLDER, unused, "look at it, then accept it or leave it alone"))
    if problem := find_problem(settings.embedder, settings.embedder_url, settings.embedder_key):
        findings.append(checks.Finding("warning", "encoder", problem, ""))
    place = Placement(program_words(), call.environment)
    with call.console.waiting("trying the agents"):
        hosts = host_health.examine_hosts(place, settings.state, here())
    findings += [finding for host in hosts for finding in host.findings()]
    with call.console.waiting("asking the hubs"):
        hubs = [hub_status(scope, settings, here()) for scope in shared_scopes(settings, here())]
    findings += [finding for hub in hubs for finding in examine_hub(hub)]
    if hosts:
        root = project_root(settings.places(here()))
        findings += host_health.examine_switch(place, settings.state, root)
    failures = host_health.last_failures(settings.state)
    return call.answer(
        {
            "scopes": scopes,
            "findings": [pick(finding, ("level", "path", "problem", "advice")) for finding in findings],
            "dropped": dropped,
            "hosts": hosts,
            "hubs": [{"scope": one.scope, "hub": one.hub.shown, "problem": one.problem} for one in hubs],
            "failures": failures,
        },
        Table(((host.title, host.summary()) for host in hosts), ("bold",)),
        Table(((hub.scope, f"shared through {hub.hub.shown}") for hub in hubs), ("bold",)),
        [f"hook failed: {line}" for line in failures],
        _health_parts(findings, [f"All is well: {one['scope']} in {one['root']}" for one in scopes]),
        f"Dropped {plural(dropped, 'text')} past retention from the journal." if call.options.prune else None,
        code=1 if any(finding.level == "error" for finding in findings) else 0,
    )


def _health_parts(findings: Sequence[checks.Finding], well: Part) -> Iterator[Part]:
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
            sheaf.own.index.delete()
        memories = len(sheaf.list())
        with console.progress("Embedding") as progress:
            made = sheaf.own.index.embedding() if options.status else sheaf.own.index.embed_all(progress)
    # once closed, only the files that stay are left
    files = []
    for path in sheaf.own.index.files():
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
