"""The state of memory in coding agents: where it is installed, if it answers there, and what went wrong lately.

Only the program that is running is ever started, never the words of a settings file. A command under our name that
`memsheaf install` would not write there is shown as text.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from operator import itemgetter
from typing import NamedTuple

from memsheaf.guard import without_secrets
from memsheaf.hosts.clients import CLIENTS
from memsheaf.hosts.conversation import FOLDER
from memsheaf.hosts.events import KINDS
from memsheaf.hosts.failure_log import LOG, PROBE, SILENT
from memsheaf.hosts.installing import HOSTS, Placement, has_own_memory, has_plugin, is_found, make_targets
from memsheaf.hosts.settings_edit import find_strangers, keep_choices, list_ours
from memsheaf.hosts.settings_files import SettingsTarget, read_target
from memsheaf.hosts.switch import is_off
from memsheaf.memory import utc_time
from memsheaf.scope import around
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
    `memsheaf install` would not write, and `rejected` settings files that the host cannot read.
    """

    host: str
    title: str
    installed: Sequence[str]
    missing: Sequence[str]
    others: Sequence[str]
    rejected: Sequence[str]
    server: Answered
    hook: Answered
    last: Mapping[str, str]
    own_memory: bool
    plugin: bool

    def findings(self) -> Iterator[Finding]:
        """Return what is to be done."""
        again = f"`memsheaf install {self.host}` puts it right"
        for name, answered in (("server", self.server), ("hook", self.hook)):
            if answered.problem:
                yield Finding("error", self.title, f"its {name} does not answer: {answered.problem}", again)
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
            problem = "memsheaf is in its settings and in a plugin as well; one of them is enough"
            yield Finding("warning", self.title, problem, f"`memsheaf uninstall {self.host}`, or remove the plugin")
        if self.installed and self.own_memory:
            problem = "its own memory is on as well: both may bring up the same"
            yield Finding("info", self.title, problem, "turn one of them off if that is too much")

    def summary(self) -> str:
        """The state in a few words."""
        if not self.installed:
            return "installed as a plugin" if self.plugin else f"found, not installed: memsheaf install {self.host}"
        text = "installed"
        for name, (milliseconds, problem) in (("server", self.server), ("hook", self.hook)):
            if milliseconds or problem:
                text += f"; {name} does not answer" if problem else f"; {name} answers in {milliseconds} ms"
        for event, at in sorted(self.last.items(), key=itemgetter(1))[-1:]:
            text += f"; last hook {event} at {at}"
        return text


def examine_hosts(place: Placement, state: str, cwd: str, *, trying: bool = True) -> list[HostHealth]:
    """Look at the hosts that are found or installed in; with `trying`, start our program as they would."""
    home = place.environment.get("MEMSHEAF_HOME")
    place = place._replace(home=os.path.abspath(home) if home else "")
    repository = place._replace(words=["memsheaf"], home="", project=around(cwd))
    hosts = []
    for name in HOSTS:
        targets = {target.path: target for at in (repository, place) for target in make_targets(name, at)}
        texts = [(target, read_target(target)) for target in targets.values()]
        installed: list[SettingsTarget] = []
        missing: list[SettingsTarget] = []
        others: list[str] = []
        for target, text in texts:
            wanted = target.wanted or {}
            if not target.project:  # what the user added to our server is theirs
                wanted = keep_choices(text, target.format, wanted)
            if strangers := find_strangers(text, target.format, wanted):
                others += [f"{target.path}: {line}" for line in strangers]
            elif list_ours(text, target.format, target.ours):
                installed.append(target)
            else:
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
                others=[one_line(without_secrets(line), MAX_COMMAND_CHARS) for line in dict.fromkeys(others)],
                rejected=[f"{target.path}: {why}" for target, text in texts if (why := target.find_objection(text))],
                server=Answered(),
                hook=Answered(),
                last=last_runs(state, name),
                own_memory=has_own_memory(name, place.environment),
                plugin=has_plugin(name, place.environment),
            )
        )
    if trying and any(host.installed and not host.others for host in hosts):
        server, hook = _try("mcp", place, cwd), _try("hook", place, cwd)
        for number, host in enumerate(hosts):
            if host.installed and not host.others:
                has_hooks = "more" in CLIENTS[host.host]
                hosts[number] = host._replace(server=server, hook=hook if has_hooks else Answered())
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


def _try(command: str, place: Placement, cwd: str) -> Answered:
    """Start our program; greet the server, or tell the hook of a made-up start."""
    environment = {name: value for name, value in place.environment.items() if name not in SILENT}
    environment[PROBE] = "1"
    arguments, sign = ["mcp"], b'"serverInfo"'
    message: object = _INITIALIZE
    if command == "hook":
        arguments, sign = ["hook", "claude-code", "SessionStart"], b"memsheaf hook answered"
        message = {"session_id": "probe", "cwd": cwd, "hook_event_name": "SessionStart", "source": "startup"}
    began = time.monotonic()
    try:
        done = subprocess.run(
            [*place.words, *arguments],
            input=json.dumps(message).encode() + b"\n",
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
    if sign not in done.stdout + done.stderr:
        last_line = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        return Answered(0, last_line[:MAX_LINE_CHARS] or "it says nothing")
    return Answered(max(1, round(1000 * (time.monotonic() - began))))
