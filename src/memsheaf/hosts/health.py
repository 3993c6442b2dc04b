"""Health checks for coding agents: what is installed, whether server and hooks answer, when a hook ran last.

Only the program that is running is ever started, never the words of a settings file. These decide whether they name
this program; if so, and the file is the user's own and not a repository's, it is started as the host would start it.
Any other command is shown as text.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from shutil import which
from typing import NamedTuple

from memsheaf.guard import without_secrets
from memsheaf.hosts.clients import CLIENTS
from memsheaf.hosts.conversation import FOLDER
from memsheaf.hosts.events import KINDS, START
from memsheaf.hosts.failure_log import LOG, PROBE, SILENT
from memsheaf.hosts.installing import HOSTS, Placement, has_own_memory, has_plugin, is_found, make_targets
from memsheaf.hosts.own_commands import OwnCommand, read_command
from memsheaf.hosts.settings_edit import find_commands, list_ours
from memsheaf.hosts.settings_files import SettingsTarget, read_target
from memsheaf.hosts.switch import is_off
from memsheaf.memory import utc_time
from memsheaf.scope import around, parse_json
from memsheaf.text.neutralize import one_line
from memsheaf.work.checks import Finding

ANSWER_SECONDS = 15
MAX_FAILURES = 5  # lines of the log that are shown
MAX_LINE_CHARS = 300
MAX_COMMAND_CHARS = 2_000  # of a command that is not ours, so that nothing hides at its end
_INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "doctor", "version": "1"}},
}


class Answered(NamedTuple):
    """The milliseconds after which something answered, or the reason why it did not; neither if it was not tried."""

    milliseconds: int = 0
    problem: str = ""


class HostHealth(NamedTuple):
    """The state of one host.

    `installed` are the files that ours is in, `last` says when hooks ran. `others` are commands under our name that
    start something else, and `rejected` settings files that the host cannot read.
    """

    host: str
    title: str
    installed: Sequence[str]
    missing: Sequence[str]
    server: Answered
    hook: Answered
    last: Mapping[str, str]
    own_memory: bool
    plugin: bool
    others: Sequence[str] = ()
    rejected: Sequence[str] = ()

    def findings(self) -> Iterator[Finding]:
        """Return what is to be done."""
        again = f"`memsheaf install {self.host}` puts it right"
        for what, answered in (("server", self.server), ("hook", self.hook)):
            if answered.problem:
                yield Finding("error", self.title, f"its {what} does not answer: {answered.problem}", again)
        for rejected in self.rejected:
            yield Finding("error", self.title, rejected, "edit that file")
        for line in self.others:
            yield Finding("warning", self.title, f"not tried, since it is not exactly ours: {line}", "look at it")
        for path in self.missing if self.installed else ():
            yield Finding("warning", self.title, f"memsheaf is not in {path}, or that cannot be read", again)
        if self.hook.milliseconds and not self.last:
            advice = CLIENTS[self.host].get("then") or "start a conversation in it"
            yield Finding("info", self.title, "none of its hooks has run yet", advice)
        if self.installed and self.plugin:
            said = "memsheaf is in its settings and in a plugin as well; one of them is enough"
            yield Finding("warning", self.title, said, f"`memsheaf uninstall {self.host}`, or remove the plugin")
        if self.installed and self.own_memory:
            said = "its own memory is on as well: both may bring up the same"
            yield Finding("info", self.title, said, "turn one of them off if that is too much")

    def summary(self) -> str:
        """The state in a few words."""
        if not self.installed:
            return "installed as a plugin" if self.plugin else f"found, not installed: memsheaf install {self.host}"
        parts = ["installed"]
        for what, (took, problem) in (("server", self.server), ("hook", self.hook)):
            if took or problem:
                parts.append(f"{what} does not answer" if problem else f"{what} answers in {took} ms")
        if self.last:
            event, at = max(self.last.items(), key=lambda one: one[1])
            parts.append(f"last hook {event} at {at}")
        return "; ".join(parts)


def examine_hosts(place: Placement, state: str, cwd: str, *, trying: bool = True) -> list[HostHealth]:
    """Look at the hosts that are found or installed in; with `trying`, start our program as they would."""
    tried: dict[str, Answered] = {}
    hosts = []
    for name in HOSTS:
        targets = make_targets(name, place)
        known = {target.path for target in targets}
        targets += [one for one in make_targets(name, place._replace(project=around(cwd))) if one.path not in known]
        texts = [(target, read_target(target)) for target in targets]
        rejected = [f"{target.path}: {why}" for target, text in texts if (why := target.find_objection(text))]
        answers = {"mcp": Answered(), "hook": Answered()}
        others: dict[str, str] = {}
        installed: list[SettingsTarget] = []
        missing: list[SettingsTarget] = []
        for target, text in texts:
            commands = list(_commands(target, text))
            foreign_count = 0
            for line, command in commands:
                kind = command.arguments[0] if command else ""
                if command and _is_this_program(command, place):
                    is_start = kind == "mcp" or KINDS.get(command.arguments[-1]) == START
                    if trying and not target.project and is_start:
                        key = str(command)
                        tried[key] = tried.get(key) or _try(command, place, cwd)
                        answers[kind] = tried[key]
                elif not command or target.project or which(command.program[0], path=place.environment.get("PATH")):
                    shown = one_line(without_secrets(f"{target.path}: {line}"), MAX_COMMAND_CHARS)
                    who = command._replace(arguments=()) if command else line
                    others.setdefault(f"{target.path} {who}", shown)
                    foreign_count += 1
                else:
                    answers[kind] = Answered(0, f"there is no program {one_line(command.program[0], MAX_LINE_CHARS)}")
            if (not commands or foreign_count < len(commands)) and list_ours(text, target.format, target.ours):
                installed.append(target)
            elif not foreign_count:
                missing.append(target)
        if not installed and not others and not is_found(name, place.environment):
            continue
        levels = {target.project for target in installed}
        hosts.append(
            HostHealth(
                host=name,
                title=CLIENTS[name]["title"],
                installed=[target.path for target in installed],
                missing=[target.path for target in missing if target.project in levels],
                server=answers["mcp"],
                hook=answers["hook"],
                last=last_runs(state, name),
                own_memory=has_own_memory(name, place.environment),
                plugin=has_plugin(name, place.environment),
                others=list(others.values()),
                rejected=rejected,
            )
        )
    return hosts


def examine_switch(place: Placement, state: str, root: str) -> Iterator[Finding]:
    """Say when memory is off."""
    if is_off(state, root):
        yield Finding("info", root, "memory is off here for coding agents", "`memsheaf on` turns it on again")
    if name := next((name for name in SILENT if place.environment.get(name)), ""):
        yield Finding("info", name, "with this variable, hooks do nothing in this shell", f"unset {name}")


def last_failures(state: str) -> list[str]:
    """The last lines of the log of hooks that failed."""
    try:
        with open(os.path.join(state, LOG), encoding="utf-8", errors="replace") as file:
            return file.read().splitlines()[-MAX_FAILURES:]
    except OSError:
        return []


def last_runs(state: str, host: str) -> dict[str, str]:
    """Return when the hook of each event ran last, in UTC."""
    found = {}
    for event in KINDS:
        with suppress(OSError):
            found[event] = utc_time(os.stat(os.path.join(state, FOLDER, f"{host}-{event}")).st_mtime)
    return found


def _try(command: OwnCommand, place: Placement, cwd: str) -> Answered:
    """Start our program with the arguments of a command; greet the server, or tell the hook of a made-up start."""
    environment = {name: value for name, value in place.environment.items() if name not in SILENT}
    environment[PROBE] = "1"
    if command.home:
        environment["MEMSHEAF_HOME"] = command.home
    is_server = command.arguments[0] == "mcp"
    event = {"session_id": "probe", "cwd": cwd, "hook_event_name": "SessionStart", "source": "startup"}
    asked = json.dumps(_INITIALIZE if is_server else event) + "\n"
    began = time.monotonic()
    try:
        done = subprocess.run(
            [*place.words, *command.arguments],
            input=asked.encode(),
            capture_output=True,
            timeout=ANSWER_SECONDS,
            check=False,
            env=environment,
            cwd=cwd,
        )
    except subprocess.TimeoutExpired:
        return Answered(0, f"no answer within {ANSWER_SECONDS} seconds")
    except OSError as error:
        return Answered(0, f"{error.filename or place.words[0]}: {error.strerror}")
    has_answered = b'"serverInfo"' in done.stdout if is_server else b"memsheaf hook answered" in done.stderr
    if not has_answered:
        last_line = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        return Answered(0, last_line[:MAX_LINE_CHARS] or "it says nothing")
    return Answered(max(1, round(1000 * (time.monotonic() - began))))


def _commands(target: SettingsTarget, text: str) -> Iterator[tuple[str, OwnCommand | None]]:
    """Yield each command under our name as text, and how it starts memsheaf, None if it is not exactly ours."""
    if target.format == "text":
        program = re.search(r"^const PROGRAM = (\[.*\])$", text, re.MULTILINE)
        words = parse_json(program[1]) if program else None
        if isinstance(words, list) and words:
            yield shlex.join(map(str, words)), read_command([*words, "hook", target.host, START], "hook")
    else:
        yield from find_commands(text, target.format, target.ours, is_repository=bool(target.project))


def _is_this_program(command: OwnCommand, place: Placement) -> bool:
    """Return True if a command starts the program that is running, by the same words or through the PATH."""
    words = list(command.program)
    path = which(words[0], path=place.environment.get("PATH")) if len(words) == 1 else None
    is_same = path and [os.path.realpath(path)] == [os.path.realpath(word) for word in place.words]
    return words == list(place.words) or bool(is_same)
