"""The commands that install memsheaf in coding agents, and take it out again."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from shutil import which

from memsheaf.cli.call import Call, here, plural
from memsheaf.cli.command import DRY_RUN, Argument, Usage, takes
from memsheaf.cli.output import Note, Part, Styled
from memsheaf.cli.settings import settings_file
from memsheaf.cli.transfer import offer_import
from memsheaf.errors import Refused
from memsheaf.hosts.clients import CLIENTS
from memsheaf.hosts.formats import RENDER
from memsheaf.hosts.importers import Surroundings, claude_memory_folder, read_claude_memory
from memsheaf.hosts.installing import (
    HOSTS,
    Placement,
    has_plugin,
    is_found,
    make_removals,
    make_targets,
    program_words,
)
from memsheaf.hosts.linking import plan_link
from memsheaf.hosts.settings_files import FileChange, SettingsFiles
from memsheaf.scope import around, project_root

_RULES = "rules"
_LEARNERS = ("claude", "codex", _RULES)
_HOST = Argument("host", "which agents", "HOST", repeated=True, choices=tuple(HOSTS))
_YES = Argument("--yes", "do not ask")
_LINKED = Argument("host", "which agent", "HOST", required=True, choices=("claude-code",))
_PROJECT = Argument("--project", "in the settings of the repository you are in, for all who work on it")


@takes(
    _HOST,
    _YES,
    DRY_RUN,
    _PROJECT,
    Argument("--no-hooks", "the server and its permission only: nothing is recalled or learned by itself"),
    Argument(
        "--learn-with", "what reads conversations: your own claude or codex, or rules", "NAME", choices=_LEARNERS
    ),
    scoped=False,
)
def install(call: Call) -> int:
    """Give coding agents this memory: the server, its permission, hooks and commands.

    Without a HOST it is installed in all agents that are found. It shows what it would add to which file, and asks.
    Everything else in these files stays as it is, byte for byte, and `memsheaf uninstall` takes back what was added.
    A file that cannot be edited safely is left alone, and you are told what to put there. To run it again changes
    nothing, or brings what an older version wrote up to date. With --project the files of the repository are
    changed, and name the command `memsheaf` without its place on this machine.

    examples:
      memsheaf install
      memsheaf install claude-code codex --yes
      memsheaf install --dry-run
      memsheaf install cursor --project --no-hooks
      memsheaf install claude-code --learn-with claude
    """
    place, files = _placement(call), SettingsFiles(call.settings().state)
    hosts = _named(call) or [host for host in HOSTS if is_found(host, call.environment)]
    if not hosts:
        raise Refused("no coding agent was found on this machine", hint=f"Name one: {', '.join(HOSTS)}.")
    planned = {host: [files.plan(target) for target in make_targets(host, place)] for host in hosts}
    for host in [host for host, changes in planned.items() if not changes]:
        raise Refused(
            f"{CLIENTS[host]['title']} has no settings in a project",
            hint=f"Leave --project out: memsheaf install {host}",
        )
    done = _carry_out(call, files, planned, "Install")
    if done is None:
        return 0
    learner = "" if call.options.dry_run else _choose_learner(call, hosts)
    notes = [CLIENTS[host]["then"] for host in hosts if "then" in CLIENTS[host] and place.hooks]
    if any(has_plugin(host, call.environment) for host in hosts):
        notes.append("The memsheaf plugin is on in Claude Code and does the same: remove it, or uninstall this.")
    restart = Note("start your agents anew, so that they read it; `memsheaf doctor` checks it")
    return _answer(call, done, {"learn_with": learner}, [Note(note, "yellow") for note in notes], restart)


@takes(_HOST, _YES, DRY_RUN, _PROJECT, scoped=False)
def uninstall(call: Call) -> int:
    """Take out what `memsheaf install` added to the settings of coding agents.

    Without a HOST it is taken out of all. What was there before is there again, byte for byte; where somebody changed
    a file since, only what is ours goes. Your memories and entries of your own stay where they are.

    examples:
      memsheaf uninstall
      memsheaf uninstall codex --yes
      memsheaf uninstall --dry-run --json
    """
    place, files = _placement(call), SettingsFiles(call.settings().state)
    planned = {}
    for host in _named(call) or HOSTS:
        found = [files.plan(target) for target in make_removals(host, place, files)]
        if ours := [one for one in found if one.is_change or (one.problem and "memsheaf" in (one.before or ""))]:
            planned[host] = ours
    if not planned:
        return call.answer({"hosts": []}, Note("memsheaf is in the settings of no agent; nothing was changed"))
    done = _carry_out(call, files, planned, "Take this out")
    return 0 if done is None else _answer(call, done, {}, Note("your memories stay where they are"))


@takes(_LINKED, _YES, DRY_RUN)
def link(call: Call) -> int:
    """Let Claude Code keep its own memory in this project's folder.

    Both then read and write the same files. It sets `autoMemoryDirectory` in .claude/settings.local.json of the
    working tree you are in, which is yours and not committed; all else in that file stays as it is. The memories in
    its old folder are offered for import first, and that folder stays as it is. `memsheaf unlink` takes the setting
    out again.

    examples:
      memsheaf link claude-code
      memsheaf link claude-code --dry-run
    """
    files, place = SettingsFiles(call.settings().state), Surroundings(here(), call.environment)
    folder = claude_memory_folder(place)
    with call.memory(scopes=["project"], read_only=call.options.dry_run) as layers:
        change = plan_link(files, here(), layers.root, wanted=True)
        if change.is_change and os.path.isdir(folder):
            offer_import(call, layers, "claude-code", read_claude_memory(folder))
        done = _carry_out(call, files, {"claude-code": [change]}, "Link")
        if done is None:
            return 1
        if not call.options.dry_run:
            os.makedirs(layers.root, 0o700, exist_ok=True)  # else the client makes it, for all to read
        return _answer(
            call, done, {"root": layers.root}, Note("start it anew, so that it uses this project's folder")
        )


@takes(_LINKED, _YES, DRY_RUN)
def unlink(call: Call) -> int:
    """Let Claude Code keep its own memory where it did before `memsheaf link`.

    The settings file is again what it was, byte for byte, or without our line where somebody changed it since. No
    memory is deleted: what was saved meanwhile stays in this project's folder.

    examples:
      memsheaf unlink claude-code
    """
    files, root = SettingsFiles(call.settings().state), project_root(call.settings().places(here()))
    change = plan_link(files, here(), root, wanted=False)
    if not (change.is_change or change.problem):
        return call.answer({"hosts": [], "root": root}, Note("it is not linked; nothing was changed"))
    done = _carry_out(call, files, {"claude-code": [change]}, "Unlink")
    return 1 if done is None else _answer(call, done, {"root": root}, Note("start it anew; no memory was deleted"))


def _named(call: Call) -> list[str]:
    return list(dict.fromkeys(call.options.host))


def _placement(call: Call) -> Placement:
    """Where the line says to install. `--project` has a meaning of its own here: settings do not read it."""
    options = call.options
    is_project, options.project = options.project, None
    if is_project:
        return Placement(["memsheaf"], call.environment, "", around(here()), not getattr(options, "no_hooks", False))
    home = options.home or call.environment.get("MEMSHEAF_HOME") or ""
    home = os.path.abspath(home) if home else ""
    return Placement(program_words(), call.environment, home, "", not getattr(options, "no_hooks", False))


def _carry_out(
    call: Call, files: SettingsFiles, planned: dict[str, list[FileChange]], question: str
) -> dict[str, list[FileChange]] | None:
    """Show what would change, ask, and do it; None when the person said no."""
    count = plural(sum(change.is_change for found in planned.values() for change in found), "file")
    is_asked = not call.options.dry_run and not count.startswith("0 ")
    if not call.console.json and (call.options.dry_run or (call.console.interactive and not call.options.yes)):
        call.answer(None, _plan_parts(planned))
    if not is_asked:
        return planned
    without, left = f"this changes {count} of other programs; --dry-run shows how", "Nothing was changed."
    if not call.confirm(f"{question} ({count})?", without=without, left=left):
        return None
    return {host: [files.apply(change.target) for change in found] for host, found in planned.items()}


def _plan_parts(planned: dict[str, list[FileChange]]) -> Iterator[Part]:
    """The changes as diffs; of files that are ours as a whole only their names."""
    for host, changes in planned.items():
        yield Styled(CLIENTS[host]["title"], "bold")
        for change in changes:
            if change.is_change and change.target.format == "text":
                yield f"{'remove' if change.after is None else 'write'} {change.target.path}"
            elif change.is_change:
                yield [Styled(line, {"+": "green", "-": "red"}.get(line[:1], "")) for line in change.diff()]
        yield ""


def _answer(call: Call, done: dict[str, list[FileChange]], more: dict[str, object], *notes: Part) -> int:
    """Tell what was done to each file, and what to paste into those that were left alone."""
    rows = [
        {
            "host": host,
            "found": is_found(host, call.environment),
            "files": [
                {
                    "path": one.target.path,
                    "status": _status(call, one),
                    "problem": one.problem,
                    "warning": one.warning,
                    "diff": one.diff(),
                }
                for one in changes
            ],
        }
        for host, changes in done.items()
    ]
    parts: list[Part] = []
    for host, changes in done.items():
        title = CLIENTS[host]["title"]
        for one in changes:
            if one.warning:
                parts.append(Styled(f"{title}: {one.warning}", "yellow"))
            if one.problem:
                parts += _refusal_parts(one)
            elif one.is_change and not call.options.dry_run:
                parts.append(f"{title}: {_status(call, one)} {one.target.path}")
        if not any(one.is_change or one.problem or one.warning for one in changes):
            parts.append(f"{title}: everything is there already")
    is_refused = any(one.problem for changes in done.values() for one in changes)
    is_changed = any(one.is_change for changes in done.values() for one in changes) and not call.options.dry_run
    return call.answer({"hosts": rows, **more}, parts, *(notes if is_changed else ()), code=1 if is_refused else 0)


def _status(call: Call, change: FileChange) -> str:
    if change.problem:
        return "refused"
    if not change.is_change:
        return "unchanged"
    if call.options.dry_run:
        return "would change"
    return "removed" if change.after is None else "wrote" if change.before is None else "changed"


def _refusal_parts(change: FileChange) -> Iterator[Part]:
    target = change.target
    yield Styled(f"{target.path} was left alone: {change.problem}.", "yellow")
    if target.format == "text":
        return
    if target.wanted is None:
        yield "Take out what names memsheaf by hand."
    else:
        yield "Put this into it by hand:"
        yield RENDER[target.format](target.wanted)


def _choose_learner(call: Call, hosts: Sequence[str]) -> str:
    """Ask once what may read conversations, and keep the answer in the settings; "" when nothing was chosen."""
    chosen = call.options.learn_with
    known = {"claude-code": "claude", "codex": "codex"}
    there = [known[host] for host in hosts if host in known and which(known[host], path=call.environment.get("PATH"))]
    if not chosen:
        is_set = settings_file(call).find("model.name").origin != "default"
        if call.options.yes or not there or not call.console.interactive or is_set:
            return ""
        caps = call.settings().spend
        question = (
            f"What may read your conversations to learn from them? Your own `{there[0]}` finds more than rules, and "
            f"counts against your plan: at most {caps.requests_per_day:,} requests a day. Use it?"
        )
        chosen = there[0] if call.console.confirm(question) else _RULES
    if chosen != _RULES and not which(chosen, path=call.environment.get("PATH")):
        raise Usage(f"--learn-with {chosen}: there is no command {chosen} on the PATH")
    settings_file(call).set({"model.name": "" if chosen == _RULES else chosen})
    call.forget_settings()
    call.console.note(f"learning goes by {chosen}; `memsheaf config set model.name NAME` changes it")
    return str(chosen)
