"""The commands that install memsheaf in coding agents, take it out again, and turn it off."""

import os
import shlex
from collections.abc import Iterator, Sequence
from shutil import which
from typing import Annotated

from memsheaf.cli.call import Call, Result, here, plural
from memsheaf.cli.output import Note, Part, Styled
from memsheaf.cli.parser import Place, Usage
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
from memsheaf.hosts.plugin import NAME, write_plugin
from memsheaf.hosts.settings_files import FileChange, SettingsFiles
from memsheaf.hosts.switch import EVERYWHERE, read_switch, set_switch
from memsheaf.scope import around, project_root

Hosts = Annotated[Sequence[str], tuple(HOSTS)]
Plans = dict[str, list[FileChange]]


def install(
    call: Call,
    host: Hosts = (),
    *,
    dry_run: bool = False,
    project: bool = False,
    no_hooks: bool = False,
    link: bool = False,
    plugin: Place = "",
) -> Result:
    """Give coding agents this memory: the server, its permission, hooks and commands.

    Without a HOST it is installed in all agents that are found. It shows what it would add to which file, and asks.
    Everything else in these files stays as it is, byte for byte, and `memsheaf uninstall` takes back what was added.
    A file that cannot be edited safely is left alone, and you are told what to put there. To run it again changes
    nothing, or brings what an older version wrote up to date. With --project the files of the repository are
    changed, and name the command `memsheaf` without its place on this machine.

    With --link Claude Code keeps its own memory in this project's folder, too: it sets `autoMemoryDirectory` in
    .claude/settings.local.json of the working tree, which is yours and not committed. What its old folder has is
    offered for import first, and that folder stays as it is. --plugin writes the Claude Code plugin instead, which
    does the same as installing, with a marketplace to install it from; write it again after an update.

    arguments:
      HOST: which agents
      --dry-run: show what would be done, and change nothing
      --project: in the settings of the repository you are in, for all who work on it
      --no-hooks: the server and its permission only: nothing is recalled or learned unasked
      --link: let Claude Code keep its own memory in this project's folder
      --plugin DIR: write the Claude Code plugin to an empty folder, or the plugin's

    examples:
      memsheaf install
      memsheaf install claude-code codex --yes
      memsheaf install cursor --project --no-hooks
      memsheaf install claude-code --link
      memsheaf install --plugin ~/memsheaf-plugin
    """
    if plugin:
        return _write_plugin(call, plugin)
    if link:
        return _link(call, host, dry_run)
    place, files = _placement(call, is_project=project, has_hooks=not no_hooks), SettingsFiles(call.settings().state)
    hosts = list(dict.fromkeys(host)) or [name for name in HOSTS if is_found(name, call.environment)]
    if not hosts:
        raise Refused("no coding agent was found on this machine", hint=f"Name one: {', '.join(HOSTS)}.")
    planned = {name: [files.plan(target) for target in make_targets(name, place)] for name in hosts}
    for name in [name for name, changes in planned.items() if not changes]:
        error = Refused(f"{CLIENTS[name]['title']} has no settings in a project")
        error.hint = f"Leave --project out: memsheaf install {name}"
        raise error
    done = _carry_out(call, files, planned, "Install", dry_run)
    learner = "" if dry_run else _choose_learner(call, hosts)
    notes = [CLIENTS[name]["then"] for name in hosts if "then" in CLIENTS[name] and place.hooks]
    if any(has_plugin(name, call.environment) for name in hosts):
        notes.append("The memsheaf plugin is on in Claude Code and does the same: remove it, or uninstall this.")
    restart = Note("start your agents anew, so that they read it; `memsheaf doctor` checks it")
    return _answer(call, done, {"learn_with": learner}, dry_run, [Note(note, "yellow") for note in notes], restart)


def uninstall(call: Call, host: Hosts = (), *, dry_run: bool = False, project: bool = False) -> Result:
    """Take out what `memsheaf install` added to the settings of coding agents.

    Without a HOST it is taken out of all. What was there before is there again, byte for byte; where somebody changed
    a file since, only what is ours goes, and with it the link of Claude Code's own memory to the project you are in.
    Your memories and entries of your own stay where they are.

    arguments:
      HOST: which agents
      --dry-run: show what would be done, and change nothing
      --project: from the settings of the repository you are in

    examples:
      memsheaf uninstall
      memsheaf uninstall codex --yes
      memsheaf uninstall --dry-run --json
    """
    place, files = _placement(call, is_project=project), SettingsFiles(call.settings().state)
    planned: Plans = {}
    for name in dict.fromkeys(host) or HOSTS:
        found = [files.plan(target) for target in make_removals(name, place, files)]
        if name == "claude-code" and not project:
            found.append(plan_link(files, here(), project_root(call.settings().places(here())), wanted=False))
        if ours := [one for one in found if one.is_change or (one.problem and "memsheaf" in (one.before or ""))]:
            planned[name] = ours
    if not planned:
        return Result({"hosts": []}, Note("memsheaf is in the settings of no agent; nothing was changed"))
    done = _carry_out(call, files, planned, "Take this out", dry_run)
    return _answer(call, done, {}, dry_run, Note("your memories stay where they are"))


def _link(call: Call, hosts: Sequence[str], dry_run: bool) -> Result:
    """Let Claude Code keep its own memory in this project's folder."""
    if [*hosts] not in ([], ["claude-code"]):
        raise Usage("--link is for claude-code alone")
    files, place = SettingsFiles(call.settings().state), Surroundings(here(), call.environment)
    folder = claude_memory_folder(place)
    with call.memory(scopes=["project"], read_only=dry_run) as layers:
        change = plan_link(files, here(), layers.root, wanted=True)
        if change.is_change and os.path.isdir(folder):
            offer_import(call, layers, "claude-code", read_claude_memory(folder), dry_run=dry_run)
        done = _carry_out(call, files, {"claude-code": [change]}, "Link", dry_run)
        if not dry_run:
            os.makedirs(layers.root, 0o700, exist_ok=True)  # else the client makes it, for all to read
        restart = Note("start it anew, so that it uses this project's folder")
        return _answer(call, done, {"root": layers.root}, dry_run, restart)


def _write_plugin(call: Call, place: str) -> Result:
    """Write the Claude Code plugin, with a marketplace to install it from."""
    folder = os.path.abspath(place)
    home = call.home or call.environment.get("MEMSHEAF_HOME")
    variables = ["env", f"MEMSHEAF_HOME={os.path.abspath(home)}"] if home else []
    files = write_plugin(folder, [*variables, *program_words()])
    lines = [f"claude plugin marketplace add {shlex.quote(folder)}", f"claude plugin install {NAME}@{NAME}"]
    return Result(
        {"folder": folder, "files": files, "commands": lines},
        f"Wrote {plural(len(files), 'file')} to {folder}. To install it:",
        [f"  {line}" for line in lines],
        Note("restart Claude Code afterwards"),
    )


def off(call: Call) -> Result:
    """Turn memory off in coding agents: nothing is recalled, and nothing is kept.

    In the project you are in, or with -s user in every project; `export MEMSHEAF_OFF=1` does it for one shell.
    Nothing that is remembered changes, and commands work as ever.

    examples:
      memsheaf off
      memsheaf off -s user
    """
    return _switch(call, is_off=True)


def on(call: Call) -> Result:
    """Turn memory on again in coding agents.

    examples:
      memsheaf on
      memsheaf on -s user
    """
    return _switch(call, is_off=False)


def _switch(call: Call, *, is_off: bool) -> Result:
    settings = call.settings()
    root = project_root(settings.places(here()))
    where = EVERYWHERE if call.named == ["user"] else root
    set_switch(settings.state, where, off=is_off)
    still = [one for one in read_switch(settings.state) if one in (EVERYWHERE, root)]
    place = "in every project" if where == EVERYWHERE else "in this project"
    said = f"memory is {'off' if is_off else 'on'} {place}"
    if still and not is_off:
        rest = "everywhere: `memsheaf on -s user`" if EVERYWHERE in still else "in this project: `memsheaf on`"
        said += f"; it is still off {rest}"
    return Result({"off": still}, said)


def _placement(call: Call, *, is_project: bool, has_hooks: bool = True) -> Placement:
    """Return where to install, and how the program is started from there."""
    if is_project:
        return Placement(["memsheaf"], call.environment, "", around(here()), has_hooks)
    home = call.home or call.environment.get("MEMSHEAF_HOME") or ""
    home = os.path.abspath(home) if home else ""
    return Placement(program_words(), call.environment, home, "", has_hooks)


def _carry_out(call: Call, files: SettingsFiles, planned: Plans, question: str, dry_run: bool) -> Plans:
    """Show what would change, ask, and do it."""
    count = plural(sum(change.is_change for changes in planned.values() for change in changes), "file")
    if dry_run or (call.console.interactive and not call.yes):
        call.console.show(list(_plan_parts(planned)))
    if dry_run or count.startswith("0 "):
        return planned
    without, left = f"this changes {count} of other programs; --dry-run shows how", "Nothing was changed."
    call.confirm(f"{question} ({count})?", without=without, left=left)
    return {host: [files.apply(change.target) for change in changes] for host, changes in planned.items()}


def _plan_parts(planned: Plans) -> Iterator[Part]:
    """Yield the changes as diffs; of files that are ours as a whole only their names."""
    for host, changes in planned.items():
        yield Styled(CLIENTS[host]["title"], "bold")
        for change in changes:
            if change.is_change and change.target.format == "text":
                yield f"{'remove' if change.after is None else 'write'} {change.target.path}"
            elif change.is_change:
                yield [Styled(line, {"+": "green", "-": "red"}.get(line[:1], "")) for line in change.diff()]
        yield ""


def _answer(call: Call, done: Plans, more: dict[str, object], dry_run: bool, *notes: Part) -> Result:
    """Tell what was done to each file, and what to paste into those that were left alone."""
    rows = []
    parts: list[Part] = []
    for host, changes in done.items():
        title = CLIENTS[host]["title"]
        files = []
        for change in changes:
            path, status = change.target.path, _status(change, dry_run)
            files.append(
                {
                    "path": path,
                    "status": status,
                    "problem": change.problem,
                    "warning": change.warning,
                    "diff": change.diff(),
                }
            )
            if change.warning:
                parts.append(Styled(f"{title}: {change.warning}", "yellow"))
            if change.problem:
                parts += _refusal_parts(change)
            elif change.is_change and not dry_run:
                parts.append(f"{title}: {status} {path}")
        rows.append({"host": host, "found": is_found(host, call.environment), "files": files})
        if not any(one.is_change or one.problem or one.warning for one in changes):
            parts.append(f"{title}: everything is there already")
    every = [one for changes in done.values() for one in changes]
    has_changed = any(one.is_change for one in every) and not dry_run
    code = 1 if any(one.problem for one in every) else 0
    return Result({"hosts": rows, **more}, parts, notes if has_changed else None, code=code)


def _status(change: FileChange, dry_run: bool) -> str:
    if change.problem:
        return "refused"
    if not change.is_change:
        return "unchanged"
    if dry_run:
        return "would change"
    if change.after is None:
        return "removed"
    return "wrote" if change.before is None else "changed"


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
    known = {"claude-code": "claude", "codex": "codex"}
    there = [known[host] for host in hosts if host in known and which(known[host], path=call.environment.get("PATH"))]
    is_set = settings_file(call).find("model.name").origin != "default"
    if call.yes or not there or not call.console.interactive or is_set:
        return ""
    question = (
        f"What may read your conversations to learn from them? Your own `{there[0]}` finds more than rules, and "
        f"counts against your plan: at most {call.settings().spend.requests_per_day:,} requests a day. Use it?"
    )
    chosen = there[0] if call.console.confirm(question) else "rules"
    settings_file(call).set({"model.name": "" if chosen == "rules" else chosen})
    call.forget_settings()
    call.console.note(f"learning goes by {chosen}; `memsheaf config model.name NAME` changes it")
    return chosen
