"""Commands that look at a whole scope and change nothing: a report for people, and lines for a build."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from os.path import isdir

from memsheaf.cli.call import BY, Call, here, pick, plural
from memsheaf.cli.command import Argument, place, takes
from memsheaf.errors import ScopeRefused, hinted

# Known to type checkers under this name, so that a command imports only what it uses.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from memsheaf.work.audit import Audit, Finding

SHOWN = 20  # findings of one kind, for people
NAMED = 5  # and of one crowd, files
_FIELDS = ("kind", "level", "path", "said", "advice", "others")
_TREE = Argument(
    "--tree",
    "the working tree that citations are checked against; the one around you when left out",
    "DIR",
    convert=place,
    complete="folders",
)
_OF_A_PROJECT = ("project", "task", "session")


@takes(_TREE)
def audit(call: Call) -> int:
    """Report duplicates, stale citations, pollution and what waits, and change nothing.

    In a group of memories that say the same, the keeper is the most specific and recent one, and the others are
    candidates for natural decay. What cites or names a place that is gone is a candidate for a superseding fact.
    The citations of memories that belong to no project are only checked with --tree. The exit code is 0, also when
    there is no such scope yet.

    examples:
      memsheaf audit
      memsheaf audit --scope user --json
    """
    report, tree, root = _audited(call)
    exists = isdir(root)
    if call.console.json:
        call.console.document(_report_json(report, tree, exists=exists))
        return 0
    sections = {
        "Duplicate groups": report.duplicates,
        "Stale citations": report.citations,
        "Pollution": report.pollution,
        "Waiting": report.waiting,
    }
    for title, found in sections.items():
        call.console.say(title, style="bold")
        for line in _told(found):
            call.console.say(f"  {line}")
        if not found:
            unchecked = title == "Stale citations" and not tree and report.files
            call.console.say("  not checked; --tree DIR names a working tree" if unchecked else "  none")
    looked = f"looked at {plural(report.files, 'file')} of the scope {report.scope}; nothing was changed"
    call.console.note(looked if exists else _nothing_there(report, root))
    return 0


@takes(_TREE, Argument("--strict", "fail for notes, too"))
def lint(call: Call) -> int:
    """Print what an audit finds, one line each, and fail if it matters.

    A line is `FILE: KIND: what`. The exit code is 1 when one of them is an error or a warning, with --strict when
    there is any, and when there is no such scope; nothing is changed.

    examples:
      memsheaf lint
      memsheaf lint --strict --json
    """
    report, tree, root = _audited(call)
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
    call.console.answer(value, (f"{one.path}: {one.kind}: {one.said}" for one in found))
    return 1 if failed else 0


def _audited(call: Call) -> tuple[Audit, str, str]:
    """The audit of the scope that the line names, the tree it was held against, "" without one, and its folder."""
    from memsheaf.scope import around
    from memsheaf.work.audit import audit
    from memsheaf.work.layers import Layers
    from memsheaf.worktree import WorkingTree

    scope = call.scope()
    with Layers.open(settings=call.settings(), cwd=here(), by=BY, read_only=True) as layers:
        sheaf = layers.sheaf(scope)
        folder = call.options.tree or (around(here()) if sheaf.scope.layer in _OF_A_PROJECT else "")
        with (
            WorkingTree.open(folder, memories=sheaf.root, environment=call.environment)
            if folder
            else nullcontext() as tree,
            call.console.progress("auditing") as progress,
        ):
            around_it = layers if sheaf.scope.layer == "project" else None
            report = audit(sheaf, today=sheaf.today, layers=around_it, tree=tree, progress=progress)
        return report, tree.root if tree else "", sheaf.root


def _nothing_there(report: Audit, root: str) -> str:
    return f"there is nothing there: the scope {report.scope} has no folder {root}"


def _told(found: Sequence[Finding]) -> Iterator[str]:
    """The findings of a section as people read them; of one kind the first ones, and how many more there are."""
    counts: dict[str, int] = {}
    for one in found:
        counts[one.kind] = counts.get(one.kind, 0) + 1
        if counts[one.kind] <= SHOWN:
            yield from _lines(one)
    for kind, count in counts.items():
        if count > SHOWN:
            yield f"and {count - SHOWN:,} more of the kind {kind}; `memsheaf lint` shows all"


def _lines(one: Finding) -> Iterator[str]:
    if one.kind == "duplicate":
        yield one.said
        yield f"  {one.path}: keeper, the most specific and recent"
        yield from (f"  {path}: candidate for natural decay" for path in one.others)
        return
    yield f"{one.path}: {one.said}"
    if one.kind == "crowded":
        more = len(one.others) - NAMED
        yield f"  with {', '.join(one.others[:NAMED])}" + (f" and {more:,} more" if more > 0 else "")
    yield f"  {one.advice}"


def _report_json(report: Audit, tree: str, *, exists: bool) -> dict[str, object]:
    sections = ("duplicates", "citations", "pollution", "waiting")
    found = {name: [pick(one, _FIELDS) for one in getattr(report, name)] for name in sections}
    told = {"scope": report.scope, "exists": exists, "tree": tree, "files": report.files, "clean": report.clean}
    return {**told, **found}
