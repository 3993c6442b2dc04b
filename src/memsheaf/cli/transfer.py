"""Commands that bring memories in and out: archives, and the memories of other tools."""

import os
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Annotated, Any

from memsheaf.cli.call import BY, Call, Result, here, plural
from memsheaf.cli.output import Note
from memsheaf.cli.parser import Place, Usage
from memsheaf.errors import Ref, Refused, StoreFailed
from memsheaf.hosts.importers import TOOLS, Foreign, Surroundings, read_foreign
from memsheaf.hosts.importing import ImportPlan, carry_out, plan_import
from memsheaf.memory import Allow
from memsheaf.open_scope import new_group
from memsheaf.scope import KnownScope, inside, private_root, repository_around
from memsheaf.sheaf import SCRATCH, AllScopes, Sheaf, list_notices
from memsheaf.text.neutralize import one_line
from memsheaf.transfer import Imported, list_scopes, take_in
from memsheaf.transfer import export as write_archive

EMBEDDING_SECONDS = 5.0  # that an import goes on to embed what came in
Tool = Annotated[str, tuple(TOOLS)]
_SUCH_AS = ", such as"
MAX_SAMPLES = 3  # memories of a scope and type that are shown before an import


def export(call: Call, target: Place, *, history: bool = False) -> Result:
    """Write all your memories, or those of one scope, to a new archive.

    Without -s all of them are in it: yours, those of every project with its tasks, sessions and daily log, of
    agents and teams, each scope in a folder. The answer says what is in it, and `memsheaf import` reads it back. The
    same files give the same bytes. What cannot be read whole, or is no Markdown, is left out and named, and the exit
    code is 1. Settings, what waits to be learned or reviewed, and conversations stay at home.

    arguments:
      TARGET: a new file in .zip
      --history: also the journals: what each file was before, and what was forgotten

    examples:
      memsheaf export backup.zip --history
      memsheaf export -s user mine.zip
    """
    with ExitStack() as stack, call.console.waiting("exporting"):
        if call.named:
            sheaves = {"": stack.enter_context(call.reading())}
        else:
            known = stack.enter_context(AllScopes(call.settings(), here(), read_only=True))
            found = [one for one in known.list() if one.layer not in SCRATCH and os.path.isdir(one.root)]
            sheaves = {_folder_of(known, one): known.sheaf(one) for one in found}
        done = write_archive({folder: sheaf.own for folder, sheaf in sheaves.items()}, target, history=history)
        notices = list_notices(stack.enter_context(call.memory()))
        counts = {folder or str(sheaf.scope): len(sheaf.list()) for folder, sheaf in sheaves.items()}
    if not done.written:
        call.console.note("there is nothing to export yet; the archive is empty")
    left_out = [{"path": path, "why": why} for path, why in done.left_out]
    return Result(
        {"target": target, "files": done.written, "scopes": counts, "left_out": left_out, "notices": notices},
        f"Exported {plural(done.written, 'file')} to {target}:",
        [f"  {scope}: {plural(count, 'memory', 'memories')}" for scope, count in counts.items()],
        "It is with the history." if history else "It is without the history; --history adds it.",
        [f"  left out {path}: {why}" for path, why in done.left_out],
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


def import_(
    call: Call,
    source: Place = "",
    *,
    from_: Tool = "",
    replace: bool = False,
    dry_run: bool = False,
    history: bool = False,
    anyway: bool = False,
) -> Result:
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

    arguments:
      SOURCE: a folder, a zip, tar or tar.gz file; with --from its file or folder, else its usual place
      --from TOOL: the tool whose memories these are
      --replace: let what comes in take the place of what is there
      --dry-run: show what would be done, and change nothing
      --history: also what each file was before, if the source has a journal
      --anyway: bring in what a memory here says already, and what was forgotten here

    examples:
      memsheaf import memories.zip --dry-run
      memsheaf import ./memories --replace
      memsheaf import --from claude-code --dry-run
      memsheaf import --from server-memory ~/memory.jsonl --yes
    """
    try:
        if from_:
            if replace or history:
                raise Usage("--replace and --history are for archives of memsheaf, not for --from")
            return _import_from(call, from_, source, Allow(anyway=anyway), dry_run)
        if not source:
            raise Usage("SOURCE is missing; --from TOOL knows the usual places of other tools")
        options = {"replace": replace, "dry_run": dry_run, "history": history, "allow": Allow(anyway=anyway)}
        return _import_archive(call, source, options)
    except Refused as error:
        error.hint = error.hint or "Look at it by hand, take out what does not belong, and import the rest."
        raise


def _import_archive(call: Call, source: str, options: dict[str, Any]) -> Result:
    """Bring in what `export` wrote, or any folder or archive of Markdown files."""
    folders = [] if call.named else list_scopes(source)
    group, places, done = new_group(), [], []
    is_trial = bool(options["dry_run"])
    for folder in folders or ("",):
        place, imported = _take_in(call, source, folder, {**options, "also": group})
        done.append((folder, imported))
        if count := len(imported.added) + len(imported.replaced):
            places.append(f"  {count:,} to the {place}")
    paths = {
        field: [inside(folder, path) for folder, one in done for path in getattr(one, field)]
        for field in ("added", "replaced", "same")
    }
    refused = [(inside(folder, path), why) for folder, one in done for path, why in one.refused]
    commits = sum(one.commits for _, one in done)
    added, replaced = ("to add", "to replace") if is_trial else ("added", "replaced")
    trial = [f"  + {path}" for path in paths["added"]] + [f"  ~ {path}" for path in paths["replaced"]]
    left_out = [{"path": path, "why": why} for path, why in refused]
    return Result(
        {**paths, "commits": commits, "refused": left_out, "dry_run": is_trial},
        f"{len(paths['added']):,} {added}, {len(paths['replaced']):,} {replaced}, {len(paths['same']):,} unchanged, "
        f"{len(refused):,} refused",
        places,
        f"{plural(commits, 'commit')} of their past came along" if commits else None,
        trial if is_trial else None,
        [f"  refused {path}: {why}" for path, why in refused],
        call.undo_hint() if places and not is_trial else None,
        code=1 if refused else 0,
    )


def _take_in(call: Call, source: str, folder: str, options: dict[str, Any]) -> tuple[str, Imported]:
    """Import an archive of one scope, or from one of several the scope in that folder; return where it went, too."""
    settings = call.settings()
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
            done = take_in(sheaf.own, source, below=inside(folder, ""), **options)
        except OSError as error:
            raise StoreFailed(f"{source!r} cannot be imported: {error.strerror or error}") from None
        if done.added and not options["dry_run"]:
            _embed(call, sheaf)
        place = str(sheaf.scope)
        if layer == "projects" and folder in scopes and scopes[folder].key != "project":
            place = f"project {known.tree(scopes[folder]) or sheaf.root}"
    return place, done


def _embed(call: Call, sheaf: Sheaf) -> None:
    """Make what came in findable by meaning, for a while."""
    with call.console.progress("Embedding") as progress:
        made = sheaf.own.index.embed_all(progress, seconds=EMBEDDING_SECONDS)
    if made.embedder and made.done < made.total:
        left = plural(made.total - made.done, "memory", "memories")
        call.console.note(f"{left} can be found by words only so far; `memsheaf doctor --fix` embeds the rest now")


def _import_from(call: Call, tool: str, source: str, allow: Allow, dry_run: bool) -> Result:
    """Bring in what another tool remembers."""
    place = Surroundings(here(), call.environment)
    with call.memory(read_only=dry_run) as layers:
        with call.console.waiting(f"reading what {tool} remembers"):
            plan = plan_import(layers, tool, read_foreign(tool, source, place), allow=allow)
        lines = list(_plan_lines(plan, layers.home))
        count = len(plan.memories)
        if count and not dry_run:
            if not call.yes:
                call.console.show(lines)
            memories = plural(count, "memory", "memories")
            without, left = f"{memories} would be imported", "nothing was imported"
            call.confirm(f"Import {memories}?", without=without, left=left)
            with call.console.waiting("importing"):
                carry_out(layers, plan, allow=allow)
            scopes = Counter(scope for scope, _ in plan.memories)
            for scope in scopes:
                _embed(call, layers.only(scope))
            places = ", ".join(f"{number:,} to the {scope} scope" for scope, number in scopes.items())
            details = [line.removesuffix(_SUCH_AS) for line in lines[1:] if not line.startswith("    ")]
            lines = [f"{count:,} added: {places}. {call.undo_hint()}", *(details if call.yes else [])]
        value = {
            "added": [layers.label(Ref(scope, memory.path)) for scope, memory in plan.memories],
            "unconfirmed": _count_unconfirmed(plan),
            "refused": [{"path": one.where, "why": one.why} for one in plan.left_out],
            "dry_run": dry_run,
        }
    return Result(value, lines, code=1 if plan.left_out else 0)


def _plan_lines(plan: ImportPlan, home: str) -> Iterator[str]:
    """Yield what an import would do: counts, a few samples, and what stays out."""
    groups: dict[tuple[str, str], list[str]] = {}
    for scope, memory in plan.memories:
        line = f"    + {Ref(scope, memory.path).label(home)}: {one_line(memory.body, 80)}"
        groups.setdefault((scope, memory.type), []).append(line)
    yield f"{len(plan.memories):,} to add, {len(plan.left_out):,} left out"
    for (scope, kind), found in groups.items():
        yield f"  {len(found):,} of type {kind} to the {scope} scope{_SUCH_AS * (len(found) > MAX_SAMPLES)}"
        yield from found[:MAX_SAMPLES]
    if count := _count_unconfirmed(plan):
        yield f"  {count:,} unconfirmed: recalled once you approve them with `memsheaf review`"
    yield from (f"  left out {one.where}: {one.why}" for one in plan.left_out)


def _count_unconfirmed(plan: ImportPlan) -> int:
    return sum(memory.trust == "unconfirmed" for _, memory in plan.memories)


def offer_import(call: Call, layers: Sheaf, tool: str, found: Foreign, *, dry_run: bool) -> None:
    """Show what another tool remembers, and bring it in if the person agrees; without one only with --yes."""
    plan = plan_import(layers, tool, found)
    if (plan.memories or plan.left_out) and (dry_run or not call.yes):
        call.console.show(list(_plan_lines(plan, layers.home)))
    if not plan.memories or dry_run or not (call.yes or call.console.interactive):
        return
    if call.yes or call.console.confirm(f"Import {plural(len(plan.memories), 'memory', 'memories')}?"):
        carry_out(layers, plan)
