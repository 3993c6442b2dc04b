"""Commands that bring memories in and out: archives, and the memories of other tools."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack

from memsheaf.cli.call import BY, Call, here, plural
from memsheaf.cli.command import ALLOW_SECRET, ANYWAY, DRY_RUN, Argument, Usage, takes
from memsheaf.cli.output import Note
from memsheaf.errors import Ref, Refused, StoreFailed
from memsheaf.hosts.importers import TOOLS, Foreign, Surroundings, read_foreign
from memsheaf.hosts.importing import ImportPlan, carry_out, plan_import
from memsheaf.open_scope import new_group
from memsheaf.scope import KnownScope, inside, private_root, repository_around
from memsheaf.sheaf import SCRATCH, AllScopes, Sheaf, list_notices
from memsheaf.text.neutralize import one_line
from memsheaf.transfer import Imported, list_scopes, take_in
from memsheaf.transfer import export as write_archive

EMBEDDING_TIME = 5.0  # seconds that an import goes on to embed what came in
SUCH_AS = ", such as"
SAMPLES = 3  # memories of a scope and type that are shown before an import


@takes(
    Argument("target", "a new file in .zip", "TARGET", required=True),
    Argument("--history", "also the journals: what each file was before, and what was forgotten"),
)
def export(call: Call) -> int:
    """Write all your memories, or those of one scope, to a new archive.

    Without --scope all of them are in it: yours, those of every project with its tasks, sessions and daily log, of
    agents and teams, each scope in a folder. The answer says what is in it, and `memsheaf import` reads it back. The
    same files give the same bytes. What cannot be read whole, or is no Markdown, is left out and named, and the exit
    code is 1. Settings, what waits to be learned or reviewed, and conversations stay at home.

    examples:
      memsheaf export backup.zip --history
      memsheaf export --scope project project.zip
      memsheaf export --scope user mine.zip
    """
    target, options = call.options.target, call.options
    with ExitStack() as stack, call.console.waiting("exporting"):
        if options.scope or options.agent:
            sheaves = {"": stack.enter_context(call.reading())}
        else:
            known = stack.enter_context(AllScopes(call.settings(), here(), read_only=True))
            found = [one for one in known.list() if one.layer not in SCRATCH and os.path.isdir(one.root)]
            sheaves = {_folder_of(known, one): known.sheaf(one) for one in found}
        done = write_archive(
            {folder: sheaf.own for folder, sheaf in sheaves.items()}, target, history=options.history
        )
        notices = list_notices(stack.enter_context(call.memory()))
        counts = {folder or str(sheaf.scope): len(sheaf.list()) for folder, sheaf in sheaves.items()}
    left_out = [{"path": path, "why": why} for path, why in done.left_out]
    if not done.written:
        call.console.note("there is nothing to export yet; the archive is empty")
    return call.answer(
        {"target": target, "files": done.written, "scopes": counts, "left_out": left_out, "notices": notices},
        f"Exported {plural(done.written, 'file')} to {target}:",
        (f"  {scope}: {plural(count, 'memory', 'memories')}" for scope, count in counts.items()),
        "It is with the history." if options.history else "It is without the history; --history adds it.",
        (f"  left out {path}: {why}" for path, why in done.left_out),
        [Note(notice, "yellow") for notice in notices],
        code=1 if left_out else 0,
    )


def _folder_of(known: AllScopes, scope: KnownScope) -> str:
    """Return the folder of a scope in an archive of all: where it is in MEMSHEAF_HOME, or would be."""
    home = known.settings.home
    if scope.layer != "project" or os.path.dirname(scope.root) == os.path.join(home, "projects"):
        return os.path.relpath(scope.root, home)
    tree = known.tree(scope)
    return os.path.relpath(private_root(home, repository_around(tree)[1] if tree else scope.root), home)


@takes(
    Argument(
        "source",
        "a folder, a zip, tar or tar.gz file; with --from its file or folder, else its usual place",
        "SOURCE",
    ),
    Argument("--from", "the tool whose memories these are", "TOOL", choices=tuple(TOOLS)),
    Argument("--replace", "let what comes in take the place of what is there"),
    DRY_RUN,
    Argument("--history", "also what each file was before, if the source has a journal"),
    Argument("--yes", "with --from, do it without asking"),
    ALLOW_SECRET,
    ANYWAY,
)
def import_(call: Call) -> int:
    """Bring in the memories of a folder, an archive or another tool.

    Each scope gets one commit. A folder or archive may be what `export` wrote, any folder of Markdown files, or a
    whole project's folder with its tasks, sessions and log, which come into a project. What `export` wrote of several
    scopes goes back into each of them. What is refused stays out and
    is named, and the exit code is 1; so does a file with a password or a key in it, one that says what a memory here
    says already, a link, and what is no Markdown; hidden files and MEMORY.md are passed over. What had come with a
    repository where it was exported comes in unconfirmed, and stays out if it has no header to say so.
    An archive that reaches outside, or is too large, is refused as a whole.

    --from reads what another tool remembers, shows counts and samples, and asks. What is about you goes to the user,
    all else to the project; what lies in a repository is unconfirmed until you approve it (`memsheaf review`). One
    `memsheaf undo` undoes it. What is left out is named, and a second run finds nothing new.

    examples:
      memsheaf import memories.zip --dry-run
      memsheaf import ./memories --replace
      memsheaf import --from claude-code --dry-run
      memsheaf import --from server-memory ~/memory.jsonl --yes
    """
    try:
        return _import_from(call, foreign) if (foreign := getattr(call.options, "from")) else _import_archive(call)
    except Refused as error:
        error.hint = error.hint or "Look at it by hand, take out what does not belong, and import the rest."
        raise


def _import_archive(call: Call) -> int:
    """Bring in what `export` wrote, or any folder or archive of Markdown files."""
    options = call.options
    if not options.source:
        raise Usage("SOURCE is missing; --from TOOL knows the usual places of other tools")
    folders = [] if options.scope or options.agent else list_scopes(options.source)
    group, places, done = new_group(), [], []
    for folder in folders or ("",):
        place, imported = _take_in(call, folder, group)
        done.append((folder, imported))
        if count := len(imported.added) + len(imported.replaced):
            places.append(f"  {count:,} to the {place}")
    paths: dict[str, list[str]] = {
        field: [inside(folder, path) for folder, one in done for path in getattr(one, field)]
        for field in ("added", "replaced", "same")
    }
    refused = [(inside(folder, path), why) for folder, one in done for path, why in one.refused]
    commits = sum(one.commits for _, one in done)
    left_out = [{"path": path, "why": why} for path, why in refused]
    lines = _imported_lines(Imported(**paths, refused=refused, commits=commits), places, options.dry_run)
    value = {**paths, "commits": commits, "refused": left_out, "dry_run": options.dry_run}
    hint = call.undo_hint() if places and not options.dry_run else None
    return call.answer(value, lines, hint, code=1 if refused else 0)


def _take_in(call: Call, folder: str, group: str) -> tuple[str, Imported]:
    """Import an archive of one scope, or from one of several the scope in that folder; return where it went, too."""
    options, settings = call.options, call.settings()
    layer, _, name = folder.partition("/")
    scope = f"{layer.removesuffix('s')}/{name}" if name else layer or call.scope()
    with ExitStack() as stack, call.console.waiting("importing"):
        known = stack.enter_context(AllScopes(settings, here()))
        scopes = {_folder_of(known, one): one for one in known.list() if one.layer not in SCRATCH}
        if layer == "projects" and folder not in scopes:
            scope, settings = "project", settings._replace(project=os.path.join(settings.home, folder))
        if folder in scopes:
            sheaf = known.sheaf(scopes[folder])
        else:
            sheaf = stack.enter_context(Sheaf.open(scope, settings=settings, cwd=here(), by=BY))
        try:
            done = take_in(
                sheaf.own,
                options.source,
                replace=options.replace,
                dry_run=options.dry_run,
                allow=call.allow(),
                history=options.history,
                below=inside(folder, ""),
                also=group,
            )
        except OSError as error:
            raise StoreFailed(f"{options.source!r} cannot be imported: {error.strerror or error}") from None
        if done.added and not options.dry_run:
            _embed(call, sheaf)
        place = str(sheaf.scope)
        if layer == "projects" and folder in scopes and scopes[folder].key != "project":
            place = f"project {known.tree(scopes[folder]) or sheaf.root}"
    return place, done


def _embed(call: Call, sheaf: Sheaf) -> None:
    """Make what came in findable by meaning, for a while."""
    with call.console.progress("Embedding") as progress:
        made = sheaf.own.index.embed_all(progress, seconds=EMBEDDING_TIME)
    if made.embedder and made.done < made.total:
        left = plural(made.total - made.done, "memory", "memories")
        call.console.note(f"{left} can be found by words only so far; `memsheaf index` embeds the rest now")


def _imported_lines(done: Imported, places: list[str], dry_run: bool) -> Iterator[str]:
    counts = [
        f"{len(done.added):,} {'to add' if dry_run else 'added'}",
        f"{len(done.replaced):,} {'to replace' if dry_run else 'replaced'}",
        f"{len(done.same):,} unchanged",
        f"{len(done.refused):,} refused",
    ]
    yield ", ".join(counts)
    yield from places
    if done.commits:
        yield f"{plural(done.commits, 'commit')} of their past came along"
    if dry_run:
        yield from (f"  + {path}" for path in done.added)
        yield from (f"  ~ {path}" for path in done.replaced)
    yield from (f"  refused {path}: {why}" for path, why in done.refused)


def _import_from(call: Call, what: str) -> int:
    """Bring in what another tool remembers."""
    options = call.options
    if options.replace or options.history:
        raise Usage("--replace and --history are for archives of memsheaf, not for --from")
    place = Surroundings(here(), call.environment)
    is_shown = False
    with call.memory(read_only=options.dry_run) as layers:
        with call.console.waiting(f"reading what {what} remembers"):
            plan = plan_import(layers, what, read_foreign(what, options.source or "", place), allow=call.allow())
        scopes = Counter(scope for scope, _ in plan.memories)
        if scopes and not options.dry_run:
            count = plural(len(plan.memories), "memory", "memories")
            if is_shown := not options.yes and not call.console.json:
                call.answer(None, _plan_lines(plan, layers.home))
            if not call.confirm(
                f"Import {count}?", without=f"{count} would be imported", left="nothing was imported"
            ):
                return 1
            with call.console.waiting("importing"):
                carry_out(layers, plan, allow=call.allow())
            for scope in scopes:
                _embed(call, layers.only(scope))
        value = {
            "added": [layers.label(Ref(scope, memory.path)) for scope, memory in plan.memories],
            "unconfirmed": _count_unconfirmed(plan),
            "refused": [{"path": one.where, "why": one.why} for one in plan.left_out],
            "dry_run": options.dry_run,
        }
        said = list(_plan_lines(plan, layers.home)) if not is_shown else []
    if scopes and not options.dry_run:
        places = ", ".join(f"{count:,} to the {scope} scope" for scope, count in scopes.items())
        done = f"{len(plan.memories):,} added: {places}. {call.undo_hint()}"
        kept = (line.removesuffix(SUCH_AS) for line in said[1:] if not line.startswith("    "))  # without the samples
        said = [done, *kept]
    return call.answer(value, said, code=1 if plan.left_out else 0)


def _plan_lines(plan: ImportPlan, home: str) -> Iterator[str]:
    """What an import would do: counts, a few samples, and what stays out."""
    groups: dict[tuple[str, str], list[str]] = {}
    for scope, memory in plan.memories:
        line = f"    + {Ref(scope, memory.path).label(home)}: {one_line(memory.body, 80)}"
        groups.setdefault((scope, memory.type), []).append(line)
    yield f"{len(plan.memories):,} to add, {len(plan.left_out):,} left out"
    for (scope, kind), found in groups.items():
        yield f"  {len(found):,} of type {kind} to the {scope} scope{SUCH_AS * (len(found) > SAMPLES)}"
        yield from found[:SAMPLES]
    if count := _count_unconfirmed(plan):
        yield f"  {count:,} unconfirmed: recalled once you approve them with `memsheaf review`"
    yield from (f"  left out {one.where}: {one.why}" for one in plan.left_out)


def _count_unconfirmed(plan: ImportPlan) -> int:
    return sum(memory.trust == "unconfirmed" for _, memory in plan.memories)


def offer_import(call: Call, layers: Sheaf, what: str, found: Foreign) -> None:
    """Show what another tool remembers, and bring it in if the person agrees; without one only with --yes."""
    plan, options = plan_import(layers, what, found), call.options
    if (plan.memories or plan.left_out) and not call.console.json and (options.dry_run or not options.yes):
        call.answer(None, _plan_lines(plan, layers.home))
    if not plan.memories or options.dry_run or not (options.yes or call.console.interactive):
        return
    if options.yes or call.console.confirm(f"Import {plural(len(plan.memories), 'memory', 'memories')}?"):
        carry_out(layers, plan)
