"""Commands that check: the memories against each other and the code, and the health of all of it."""

from collections.abc import Iterator, Sequence
from os.path import isabs, isdir

from memsheaf.cli.call import EMBEDDING, Call, Result, here, pick, plural
from memsheaf.cli.output import Note, Part, Styled, Table
from memsheaf.cli.parser import Days, Words
from memsheaf.cli.read import describe_embedding
from memsheaf.encode import find_problem
from memsheaf.errors import Ref, ScopeRefused
from memsheaf.guard.citations import cited, make
from memsheaf.hosts import health as host_health
from memsheaf.hosts.installing import Placement, program_words
from memsheaf.hub.scopes import examine_hub, shared_scopes
from memsheaf.hub.scopes import status as hub_status
from memsheaf.llm.providers import way, ways
from memsheaf.llm.spend import Ledger
from memsheaf.scope import FOLDER, around, project_root
from memsheaf.work import checks

MAX_FINDINGS = 20  # of a section, for people
_SECTIONS = {
    "duplicates": "Duplicate groups",
    "citations": "Stale citations",
    "pollution": "Pollution",
    "waiting": "Waiting",
}
_OF_A_PROJECT = ("project", "task", "session")


def audit(call: Call, memory: Words = (), *, cite: str = "") -> Result:
    """Report duplicates, stale citations, pollution and what waits; or check the citations of some memories.

    In a group of memories with nearly the same words, the keeper is the most specific and recent one, and the
    others are candidates for natural decay. What cites a place that is gone is a candidate for a superseding fact.
    Nothing is changed. The exit code is 1 when a finding is an error or a warning, and when -s names a scope that is
    not there. Without -s it is about project and user.

    Of the memories that are named, each citation is `verified`; `drifted`, when it changed or moved, with its new
    place if that was found; `missing`; or `unchecked`, when there is nothing to compare. Files and symbols that a
    text names and the tree does not have are told as `gone`. The exit code is 1 when one is drifted or missing.

    --cite makes a citation: a place in the working tree, with a hash of what is there now. It is added to the memory
    that is named, in the place of an older one of the same lines.

    arguments:
      MEMORY: the memories whose citations are checked, or with --cite the one to add it to
      --cite PLACE: cite PATH, PATH:LINE, PATH:LINE-LINE or PATH#SYMBOL

    examples:
      memsheaf audit
      memsheaf audit project_release-day.md --json
      memsheaf audit project_server.md --cite src/app.py#Server.start
    """
    if cite:
        return _cite(call, cite, memory)
    if memory:
        return _verify(call, memory)
    scopes = call.scopes() or ["project", "user"]
    reports: list[checks.Audit] = []
    trees, roots = [], []
    with call.memory() as layers:
        for scope in scopes:
            sheaf = layers.only(scope)
            roots.append(sheaf.root)
            with call.console.waiting(f"auditing {scope}"):
                if sheaf.scope.layer in _OF_A_PROJECT and around(here()):
                    with call.tree(sheaf.root) as tree:
                        checks.verify(sheaf, tree, body=False)  # lists know from then on what has drifted
                        report = checks.audit(sheaf, today=sheaf.today, tree=tree)
                        trees.append(tree.root)
                else:
                    report = checks.audit(sheaf, today=sheaf.today, tree=None)
            named = [_with_labels(finding, scope, scopes[0]) for finding in report.findings]
            reports.append(report._replace(scope=scope, findings=tuple(named)))
    there = [scope for scope, root in zip(scopes, roots, strict=True) if isdir(root)]
    findings = [finding for report in reports for finding in report.findings]
    has_failed = any(finding.level != checks.INFO for finding in findings)
    sections = {name: [one for report in reports for one in report.section(name)] for name in checks.AUDIT_SECTIONS}
    files = sum(report.files for report in reports)
    value = {
        "scopes": there,
        "tree": "".join(trees[:1]),
        "files": files,
        "failed": has_failed,
        "clean": not findings,
        **sections,
    }
    nothing = f"there is no folder {', '.join(roots)}"
    if call.named and not there:  # else a scope that is mistyped keeps a build green for ever
        raise ScopeRefused(nothing, hint="`memsheaf scopes` shows what there is.")
    checked = f"checked {plural(files, 'file')} of {', '.join(there)}; nothing was changed"
    parts = [part for name, section in sections.items() for part in _section_parts(name, section)]
    return Result(value, parts, Note(checked if there else nothing, ""), code=int(has_failed))


def _with_labels(finding: checks.Finding, scope: str, home: str) -> checks.Finding:
    """Return a finding with the names of its memories as `list` shows them."""
    others = tuple(Ref(scope, other).label(home) for other in finding.others)
    return finding._replace(path=Ref(scope, finding.path).label(home), others=others)


def _section_parts(name: str, findings: Sequence[checks.Finding]) -> Iterator[Part]:
    yield Styled(_SECTIONS[name], "bold")
    for finding in findings[:MAX_FINDINGS]:
        if finding.kind == "duplicate":
            yield f"  {finding.problem}"
            yield f"    {finding.path}: keeper, the most specific and recent"
            yield [f"    {path}: candidate for natural decay" for path in finding.others]
        else:
            yield f"  {finding.path}: {finding.problem}"
            yield f"    {finding.advice}"
    if len(findings) > MAX_FINDINGS:
        yield f"  and {len(findings) - MAX_FINDINGS:,} more; --json has all"
    if not findings:
        yield "  none"


def _cite(call: Call, place: str, memory: Sequence[str]) -> Result:
    """Make a citation, and add it to the memory that is named."""
    with call.tree() as tree:
        citation = make(tree, tree.spell_from_root(place, here()))
    value = {"citation": str(citation), **citation._asdict()}
    if not memory:
        return Result(value, str(citation))
    with call.memory() as layers:
        old = layers.read(memory[0])
        new = layers.put(old.ref, cited(old, citation), expect=old.version, why=f"cite {citation}")
    file = call.label(new.ref)
    return Result({**value, "memory": file, "version": new.version}, f"Updated {file}: {citation}")


def _verify(call: Call, files: Sequence[str]) -> Result:
    """Check the citations of some memories against the working tree."""
    rows: list[tuple[str, str, str]] = []
    memories = []
    has_drifted = False
    with call.memory() as layers, call.tree(layers.root) as tree, call.console.waiting("verifying"):
        for ref in map(layers.resolve, files):
            for memory, evidence in checks.verify(layers.only(ref.scope), tree, [ref.path]):
                path = layers.label(memory.ref)
                rows += [(verdict.state, path, verdict.said) for _, verdict in evidence.citations]
                rows += [
                    ("gone", path, f"`{name}` is named, and is not in the working tree") for name in evidence.gone
                ]
                citations = [
                    {"citation": text, **pick(one, ("state", "said", "place"))} for text, one in evidence.citations
                ]
                memories.append({"path": path, "citations": citations, "gone": evidence.gone})
                has_drifted |= checks.has_drifted(evidence)
        value = {"scope": layers.home, "tree": tree.root, "memories": memories}
    return Result(value, Table(rows, ("", "bold"), empty="there are no citations"), code=int(has_drifted))


def doctor(call: Call, *, fix: bool = False, cost: Days = None) -> Result:
    """Check the health of memory, index, models, hubs and coding agents, and say what to do about it.

    Of each agent that is found or installed in, it tells whether our server and hook answer as your settings start
    them and how long that took, when a hook ran last, and what failed. Another program in them is shown, not run. Of
    each scope with a hub, whether that answers and what waits for it; of the encoder, whether it runs; of the model
    in the settings, whether it can be used. Nothing is sent to a model, and nothing
    is changed without --fix. With -s it is about that scope alone. The exit code is 1 when something does not work.

    --cost shows what models were asked and what it cost instead, by day, purpose and model. Tokens are those that a
    model reports, or what the bytes of question and answer come to, if that is more. A request that never came back
    counts at the most it may have cost. The caps are in the settings, under [spend], and under [chat] for chats.

    arguments:
      --fix: embed what is not embedded yet, drop old texts past retention, remove indexes that nobody uses
      --cost DAYS: show what so many days cost, today included; the ledger goes 400 days back

    examples:
      memsheaf doctor
      memsheaf doctor -s user --fix
      memsheaf doctor --cost 7
    """
    if cost is not None:
        return _show_cost(call, cost)
    settings = call.settings()
    scopes: list[dict[str, object]] = []
    rows: list[tuple[str, str]] = []
    findings: list[checks.Finding] = []
    dropped = 0
    with call.memory() as layers:
        for sheaf in map(layers.only, layers.scopes(lasting=True)):
            if scopes and not isdir(sheaf.root):
                continue
            for finding in checks.examine(sheaf):
                name = finding.path if isabs(finding.path) else layers.label(sheaf.own.ref(finding.path))
                findings.append(finding._replace(path=name))
            made = sheaf.own.index.embedding()
            if fix and isdir(sheaf.root):
                dropped += sheaf.own.store.prune()
                with call.console.progress("Embedding") as progress:
                    made = sheaf.own.index.embed_all(progress)
            count = len(sheaf.list()) if isdir(sheaf.root) else 0
            rows.append((str(sheaf.scope), f"{plural(count, 'file')} in {sheaf.root}, {describe_embedding(made)}"))
            scopes.append({"scope": rows[-1][0], "root": sheaf.root, "memories": count, **pick(made, EMBEDDING)})
    findings += checks.examine_cache(settings.cache, settings.state, fix=fix)
    if unused := call.unused_folder():
        findings.insert(0, checks.Finding("warning", FOLDER, unused, "look at it, then accept it or leave it alone"))
    if problem := find_problem(settings.embedder, settings.embedder_url, settings.embedder_key):
        findings.append(checks.Finding("warning", "encoder", problem, ""))
    model = None
    if settings.model:
        model = way(settings.model, url=settings.model_url, key=settings.model_key, environment=call.environment)
        if model.problem:
            findings.append(checks.Finding("error", "model", model.problem, model.hint))
    others = [one for one in ways(call.environment) if not one.problem]
    place = Placement(program_words(), call.environment)
    hosts, hubs = [], []
    if not call.named:
        with call.console.waiting("trying the agents and the hubs"):
            hosts = host_health.examine_hosts(place, settings.state, here())
            hubs = [hub_status(scope, settings, here()) for scope in shared_scopes(settings, here())]
    findings += [finding for host in hosts for finding in host.findings()]
    findings += [finding for hub in hubs for finding in examine_hub(hub)]
    if hosts:
        root = project_root(settings.places(here()))
        findings += host_health.examine_switch(place, settings.state, root)
    failures = host_health.last_failures(settings.state)
    usable = ", ".join(other.name for other in others) or "none"
    rows.append(("model", f"{settings.model or 'none, rules learn'}; can be used: {usable}"))
    rows += [(host.title, host.summary()) for host in hosts]
    rows += [(hub.scope, f"shared through {hub.hub.shown}") for hub in hubs]
    return Result(
        {
            "scopes": scopes,
            "findings": findings,
            "dropped": dropped,
            "model": model,
            "models": others,
            "hosts": hosts,
            "hubs": [pick(hub, ("scope", "problem")) for hub in hubs],
            "failures": failures,
        },
        Table(rows, ("bold",)),
        [f"hook failed: {line}" for line in failures],
        list(_health_parts(findings)),
        f"Dropped {plural(dropped, 'text')} past retention from the journal." if fix else None,
        code=int(any(finding.level == "error" for finding in findings)),
    )


def _health_parts(findings: Sequence[checks.Finding]) -> Iterator[Part]:
    colours = {"error": "red", "warning": "yellow"}
    for finding in findings:
        yield Styled(f"{finding.level}: {finding.path}: {finding.problem}", colours.get(finding.level, ""))
        if finding.advice:
            yield f"    {finding.advice}"
    if not any(finding.level != "info" for finding in findings):
        yield "All is well."


def _show_cost(call: Call, days: int) -> Result:
    """Show what models were asked and what it cost, by day, purpose and model."""
    settings = call.settings()
    ledger = Ledger.of(settings.state)
    rows = ledger.summary(days)
    cells, left = [], {}
    for row in rows:
        numbers = [f"{number:,}" for number in (row.requests, row.failures, row.open, row.input, row.output)]
        cells.append((row.day, row.purpose, row.model, *numbers, f"{row.seconds:.1f}"))
    for name, caps in (("learning", settings.spend), ("chats", settings.chat)):
        spent = ledger.spent(chat=name == "chats")
        left[name] = {
            "requests": max(caps.requests_per_day - spent.requests, 0),
            "tokens": max(caps.tokens_per_day - spent.tokens, 0),
        }
    head = ("DAY", "PURPOSE", "MODEL", "REQUESTS", "FAILED", "OPEN", "TOKENS IN", "OUT", "SECONDS")
    return Result(
        {"spent": rows, "by_day": ledger.by_day(days), "left": left, "until": ledger.ends(), "caps": settings.spend},
        Table(cells, ("dim", "bold"), head) if rows else f"no model requests in the last {plural(days, 'day')}",
        f"left until {ledger.ends()}:",
        [
            f"  {name}: {plural(one['requests'], 'request')}, {plural(one['tokens'], 'token')}"
            for name, one in left.items()
        ],
    )
