"""Commands that bring memories in and out: archives, and the memories of other tools."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from memsheaf.cli.call import Call, here, pick, plural
from memsheaf.cli.command import ALLOW_SECRET, ANYWAY, DRY_RUN, Argument, Usage, takes
from memsheaf.cli.output import Note
from memsheaf.errors import ArchiveRefused, StoreFailed, hinted
from memsheaf.hosts.foreign import Foreign, Surroundings
from memsheaf.hosts.importers import READERS, read_foreign
from memsheaf.hosts.importing import ImportPlan, carry_out, plan_import
from memsheaf.scope import shown
from memsheaf.sheaf import Sheaf
from memsheaf.text.neutralize import one_line
from memsheaf.transfer import Imported
from memsheaf.work.layers import Layers

EMBEDDING_TIME = 5.0  # seconds that an import goes on to embed what came in
FEW = 5  # names of a long list that are shown
SUCH_AS = ", such as"
SAMPLES = 3  # memories of a scope and type that are shown before an import


@takes(
    Argument("target", "a new folder, or a new file in .zip", "TARGET", required=True),
    Argument("--history", "also the journals: what each file was before, and what was forgotten"),
    Argument("--only", "just this file of the scope; may be repeated", "FILE", repeated=True),
)
def export(call: Call) -> int:
    """Write every file of a scope to a new archive or folder.

    A project's tasks, sessions and daily log go along. The same files give the same bytes. What cannot be read whole,
    or is no Markdown, is left out and named, and the exit code is 1. What waits to be learned or reviewed, and
    conversations, stay at home.

    examples:
      memsheaf export memories.zip
      memsheaf export project.zip --history
      memsheaf export --scope user ./memories
    """
    target = call.options.target
    with call.reading() as sheaf, call.console.waiting("exporting"):
        try:
            done = sheaf.export(target, history=call.options.history, only=call.options.only or ())
            notices = sheaf.notices()
        except ArchiveRefused as error:
            raise hinted(error, "Choose a name that is not there yet, of a folder or a .zip file.") from None
        except OSError as error:
            raise StoreFailed(f"{target!r} cannot be written: {error.strerror or error}") from None
    left_out = [{"path": path, "why": why} for path, why in done.left_out]
    if done.written and not call.options.history:
        call.console.note("the history is not included; --history adds it")
    return call.answer(
        {"target": target, "files": done.written, "left_out": left_out, "notices": notices},
        f"Exported {plural(done.written, 'file')} to {target}",
        (f"  left out {path}: {why}" for path, why in done.left_out),
        [Note(notice, "yellow") for notice in notices],
        code=1 if left_out else 0,
    )


@takes(
    Argument(
        "source",
        "a folder, a zip, tar or tar.gz file; with --from its file or folder, else its usual place",
        "SOURCE",
    ),
    Argument("--from", "the tool whose memories these are", "TOOL", choices=tuple(READERS)),
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
    whole project's folder with its tasks, sessions and log, which come into a project. What is refused stays out and
    is named, and the exit code is 1; so does a file with a password or a key in it, one that says what a memory here
    says already, a link, and what is no Markdown; hidden files and MEMORY.md are passed over. What had come with a
    repository where it was exported comes in unconfirmed, and stays out if it has no header to say so.
    An archive that reaches outside, or is too large, is refused as a whole.

    --from reads what another tool remembers, shows counts and samples, and asks. What is about you goes to the user,
    all else to the project; what lies in a repository is unconfirmed until you approve it (`memsheaf review`). One
    `memsheaf undo` takes it back. What is left out is named, and a second run finds nothing new.

    examples:
      memsheaf import memories.zip --dry-run
      memsheaf import ./memories --replace
      memsheaf import --from claude-code --dry-run
      memsheaf import --from server-memory ~/memory.jsonl --yes
    """
    options = call.options
    if getattr(options, "from"):
        return _import_from(call, getattr(options, "from"))
    if not options.source:
        raise Usage("SOURCE is missing; --from TOOL knows the usual places of other tools")
    with call.changing() as sheaf:
        try:
            with call.console.waiting("importing"):
                done = sheaf.take_in(
                    options.source,
                    replace=options.replace,
                    dry_run=options.dry_run,
                    allow=call.allow(),
                    history=options.history,
                )
        except OSError as error:
            raise StoreFailed(f"{options.source!r} cannot be imported: {error.strerror or error}") from None
        if done.added and not options.dry_run:
            _embed(call, sheaf)
    value = {
        **pick(done, ("added", "replaced", "same", "commits", "derived")),
        "refused": [{"path": path, "why": why} for path, why in done.refused],
        "dry_run": options.dry_run,
    }
    return call.answer(value, _imported_lines(done, options.dry_run), code=1 if done.refused else 0)


def _embed(call: Call, sheaf: Sheaf) -> None:
    """Make what came in findable by meaning, for a while."""
    with call.console.progress("Embedding") as progress:
        made = sheaf.reader.embed_all(progress, seconds=EMBEDDING_TIME)
    if made.embedder and made.done < made.total:
        left = plural(made.total - made.done, "memory", "memories")
        call.console.note(f"{left} can be found by words only so far; `memsheaf index` embeds the rest now")


def _imported_lines(done: Imported, dry_run: bool) -> Iterator[str]:
    counts = [
        f"{len(done.added):,} {'to add' if dry_run else 'added'}",
        f"{len(done.replaced):,} {'to replace' if dry_run else 'replaced'}",
        f"{len(done.same):,} unchanged",
        f"{len(done.refused):,} refused",
    ]
    yield ", ".join(counts)
    if done.commits:
        yield f"{plural(done.commits, 'commit')} of their past came along"
    if dry_run:
        yield from (f"  + {path}" for path in done.added)
        yield from (f"  ~ {path}" for path in done.replaced)
    if done.derived:
        some = ", ".join(done.derived[:FEW]) + ", …" * (len(done.derived) > FEW)
        yield f"  listed by file name and first line, as the header has no name, description or type: {some}"
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
                _embed(call, layers.sheaf(scope))
        value = {
            "added": [shown(scope, memory.path, layers.home) for scope, memory in plan.memories],
            "unconfirmed": _count_unconfirmed(plan),
            "refused": [{"path": one.where, "why": one.why} for one in plan.left_out],
            "dry_run": options.dry_run,
        }
        said = list(_plan_lines(plan, layers.home)) if not is_shown else []
    if scopes and not options.dry_run:
        places = ", ".join(f"{count:,} to the {scope} scope" for scope, count in scopes.items())
        done = f"{len(plan.memories):,} added: {places}; `memsheaf undo` takes all of it back"
        kept = (line.removesuffix(SUCH_AS) for line in said[1:] if not line.startswith("    "))  # without the samples
        said = [done, *kept]
    return call.answer(value, said, code=1 if plan.left_out else 0)


def _plan_lines(plan: ImportPlan, home: str) -> Iterator[str]:
    """What an import would do: counts, a few samples, and what stays out."""
    groups: dict[tuple[str, str], list[str]] = {}
    for scope, memory in plan.memories:
        line = f"    + {shown(scope, memory.path, home)}: {one_line(memory.body, 80)}"
        groups.setdefault((scope, memory.kind), []).append(line)
    yield f"{len(plan.memories):,} to add, {len(plan.left_out):,} left out"
    for (scope, kind), found in groups.items():
        yield f"  {len(found):,} of type {kind} to the {scope} scope{SUCH_AS * (len(found) > SAMPLES)}"
        yield from found[:SAMPLES]
    if count := _count_unconfirmed(plan):
        yield f"  {count:,} unconfirmed: recalled once you approve them with `memsheaf review`"
    yield from (f"  left out {one.where}: {one.why}" for one in plan.left_out)


def _count_unconfirmed(plan: ImportPlan) -> int:
    return sum(memory.trust == "unconfirmed" for _, memory in plan.memories)


def offer_import(call: Call, layers: Layers, what: str, found: Foreign) -> None:
    """Show what another tool remembers, and bring it in if the person agrees; without one only with --yes."""
    plan, options = plan_import(layers, what, found), call.options
    if (plan.memories or plan.left_out) and not call.console.json and (options.dry_run or not options.yes):
        call.answer(None, _plan_lines(plan, layers.home))
    if not plan.memories or options.dry_run or not (options.yes or call.console.interactive):
        return
    if options.yes or call.console.confirm(f"Import {plural(len(plan.memories), 'memory', 'memories')}?"):
        carry_out(layers, plan)
