"""Commands that save, change and forget a memory."""

from __future__ import annotations

from memsheaf.cli.call import Call, insisting
from memsheaf.cli.command import ALLOW_SECRET, ANYWAY, FILE, Argument, filled, positive, takes, whole

# Known to type checkers under this name, so that a command imports only what it uses.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from memsheaf.memory import Memory

KINDS = ("user", "feedback", "project", "reference")


@takes(
    Argument("name", "a short title, such as 'Prefers tabs'", "NAME", required=True, convert=filled),
    Argument("text", "the fact; - reads it from standard input, which is also the way when it is left out", "TEXT"),
    Argument("--description", "one line that tells when this matters", "LINE", required=True, convert=filled),
    Argument("--type", "what it is about", "TYPE", required=True, choices=KINDS),
    Argument("--content", "the fact, if it does not stand behind the name", "TEXT"),
    Argument("--file", "the file to keep it in; made from type and name when left out", "FILE", convert=filled),
    Argument("--pin", "keep it in the catalog however many memories there are"),
    Argument(
        "--cite",
        "a place that shows it to be true, such as src/app.py:12; may be repeated",
        "PLACE",
        repeated=True,
        convert=filled,
    ),
    Argument("--expires", "the day it stops being true, such as 2026-12-31", "DATE", convert=filled),
    Argument("--replace", "take the place of the memory that has this name or file"),
    ALLOW_SECRET,
    ANYWAY,
)
def add(call: Call) -> int:
    """Save one fact as a memory.

    Description and type are asked for because they decide when an agent reads the memory: `user` is about
    the person, `feedback` a correction or confirmation, `project` about the work, `reference` where to look.
    Without --scope it goes where it belongs: what is about the person, and feedback that holds in all projects
    ("always", "everywhere"), to the user, all else to the project.

    examples:
      memsheaf add "Prefers tabs" "Use tabs, not spaces." --description "Indentation of code" --type user
      git log -1 --format=%B | memsheaf add "Why we left X" - --description "Choice of database" --type project
      memsheaf add "Release day" "Fridays." --description "When releases go out" --type project --replace
    """
    options = call.options
    content = call.given_text(options.text, options.content)
    with call.memory() as layers, insisting():
        memory = layers.remember(
            options.name,
            options.description,
            options.type,
            content,
            path=options.file or "",
            replace=options.replace,
            citations=options.cite or (),
            pinned=options.pin,
            expires=options.expires or "",
            allow=call.allow(),
        )
    return _changed(call, "Saved", memory)


@takes(
    FILE,
    Argument("--old", "the exact text that is to change", "TEXT", required=True),
    Argument("--new", "what shall stand there instead", "TEXT", required=True),
    Argument("--count", "how often the old text occurs; all of them change (1)", "N", default=1, convert=positive),
    ALLOW_SECRET,
    ANYWAY,
)
def update(call: Call) -> int:
    """Replace a piece of a memory's text.

    The old text must occur exactly --count times; otherwise nothing changes and the lines are named.

    examples:
      memsheaf update project_release-day.md --old Fridays --new Mondays
    """
    options = call.options
    with call.memory() as layers, insisting():
        memory = layers.revise(
            options.file,
            options.old,
            options.new,
            count=options.count,
            allow=call.allow(),
        )
    return _changed(call, "Updated", memory)


@takes(
    FILE,
    Argument("--line", "insert after this line of the text; 0 puts it first", "N", required=True, convert=whole),
    Argument("--text", "what to insert; read from standard input when it is - or left out", "TEXT"),
    ALLOW_SECRET,
    ANYWAY,
)
def insert(call: Call) -> int:
    """Insert lines into a memory's text, below its header.

    examples:
      memsheaf insert project_release-day.md --line 0 --text "Ask Kim before a release."
    """
    options = call.options
    text = call.given_text(options.text)
    with call.memory() as layers, insisting():
        memory = layers.insert(options.file, options.line, text, allow=call.allow())
    return _changed(call, "Updated", memory)


@takes(FILE, Argument("--why", "a reason, for the log", "TEXT", convert=filled))
def forget(call: Call) -> int:
    """Remove a memory; `memsheaf undo` brings it back while the journal keeps it.

    To remove all its versions for good, use `memsheaf erase`.

    examples:
      memsheaf forget project_release-day.md --why "no releases any more"
    """
    with call.memory() as layers:
        commit = layers.forget(call.options.file, why=call.options.why or "")
    path = commit.revisions[0].path
    said = f"Forgot {path}; `memsheaf undo {commit.id}{_scoped(path)}` brings it back."
    return call.console.answer({"path": path, "commit": commit.id}, [said])


def _changed(call: Call, verb: str, memory: Memory) -> int:
    said = f"{verb} {memory.path}"
    if scoped := _scoped(memory.path):
        said += f"; `memsheaf undo{scoped}` takes it back."
    return call.console.answer({"path": memory.path, "version": memory.version}, [said])


def _scoped(name: str) -> str:
    """What names the scope of a file on another line, "" for the one that commands are about anyway."""
    scope = name.rpartition(":")[0]
    return f" --scope {scope}" if scope else ""
