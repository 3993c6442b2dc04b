"""Health checks for coding agents: what is installed, whether server and hooks answer, when a hook ran last."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from memsheaf.doctor import Finding
from memsheaf.hosts.clients import CLIENTS, settings_path
from memsheaf.hosts.conversation import FOLDER
from memsheaf.hosts.events import KINDS, START
from memsheaf.hosts.failure_log import LOG, PROBE, SILENT
from memsheaf.hosts.installing import HOSTS, Placement, has_plugin, is_found, make_targets
from memsheaf.hosts.json_edit import read_value
from memsheaf.hosts.settings_edit import NotEditable, find_hooks, find_server, list_ours
from memsheaf.hosts.settings_files import SettingsTarget, read_settings
from memsheaf.hosts.switch import is_off
from memsheaf.scope import around
from memsheaf.values import NamedTuple, utc_time

PATIENCE = 15.0  # seconds for an answer
FAILURES = 5  # lines of the log that are shown
_INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "doctor", "version": "1"}},
}


class Answered(NamedTuple):
    """How something answered: in how many milliseconds, or why it did not; both empty when it was not tried."""

    milliseconds: int = 0
    problem: str = ""


class HostHealth(NamedTuple):
    """What there is to say about one host; `installed` are the files that ours is in, `last` when hooks ran."""

    host: str
    title: str
    found: bool
    installed: Sequence[str]
    missing: Sequence[str]
    server: Answered
    hook: Answered
    last: Mapping[str, str]
    own_memory: bool
    plugin: bool

    def findings(self) -> Iterator[Finding]:
        """What is to be done."""
        again = f"`memsheaf install {self.host}` puts it right"
        for what, answered in (("server", self.server), ("hook", self.hook)):
            if answered.problem:
                yield Finding("error", self.title, f"its {what} does not answer: {answered.problem}", again)
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
    """Look at the hosts that are found or installed in; with `trying`, start their servers and hooks."""
    tried: dict[str, Answered] = {}
    found = []
    for name in HOSTS:
        targets = make_targets(name, place)
        known = {target.path for target in targets}
        shared = make_targets(name, place._replace(project=around(cwd)))
        texts = [(one, _read(one)) for one in (*targets, *(one for one in shared if one.path not in known))]
        ours = [(target, text) for target, text in texts if list_ours(text, target.format, target.ours)]
        if not ours and not is_found(name, place.environment):
            continue
        server = hook = Answered()
        if ours and trying:
            words = next(
                (words for target, text in ours if (words := find_server(text, target.format, target.ours))), []
            )
            if words and str(words) not in tried:
                tried[str(words)] = try_server(words, place.environment, cwd)
            server = tried.get(str(words), server)
            line = next(filter(None, (_start_hook(target, text) for target, text in ours)), "")
            hook = try_hook(line, place.environment, cwd) if line else hook
        installed = [target.path for target, _ in ours]
        used = {target.project for target, _ in ours}
        missing = [one.path for one, _ in texts if one.project in used and one.path not in installed]
        own = _has_own_memory(name, place.environment)
        title = CLIENTS[name]["title"]
        is_there = is_found(name, place.environment)
        last = last_runs(state, name)
        plugin = has_plugin(name, place.environment)
        found.append(HostHealth(name, title, is_there, installed, missing, server, hook, last, own, plugin))
    return found


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
            return file.read().splitlines()[-FAILURES:]
    except OSError:
        return []


def last_runs(state: str, host: str) -> dict[str, str]:
    """When the hook of each event ran last, in UTC."""
    found = {}
    for event in KINDS:
        with suppress(OSError):
            found[event] = utc_time(os.stat(os.path.join(state, FOLDER, f"{host}-{event}")).st_mtime)
    return found


def try_server(words: Sequence[str], environment: Mapping[str, str], cwd: str) -> Answered:
    """Start a server as a host does, and greet it."""
    asked = json.dumps(_INITIALIZE).encode() + b"\n"
    took, done, problem = _run(list(words), asked, environment, cwd)
    if problem or b'"serverInfo"' not in done.stdout:
        return Answered(0, problem or _last_line(done.stderr) or "it says nothing")
    return Answered(took)


def try_hook(line: str, environment: Mapping[str, str], cwd: str) -> Answered:
    """Run the command of a hook at the start of a conversation that there is not."""
    event = {"session_id": "probe", "cwd": cwd, "hook_event_name": "SessionStart", "source": "startup"}
    variables = {name: value for name, value in environment.items() if name not in SILENT}
    took, done, problem = _run(line, json.dumps(event).encode(), {**variables, PROBE: "1"}, cwd)
    if problem or b"memsheaf hook answered" not in done.stderr:
        return Answered(0, problem or _last_line(done.stderr) or "it does nothing")
    if done.stdout.strip():
        try:
            json.loads(done.stdout)
        except ValueError:
            return Answered(0, "what it prints is not JSON")
    return Answered(took)


def _run(
    line: str | list[str], data: bytes, environment: Mapping[str, str], cwd: str
) -> tuple[int, subprocess.CompletedProcess[bytes], str]:
    """Run a command with that input; the milliseconds it took, what it printed, and why it could not be run."""
    began = time.monotonic()
    done = subprocess.CompletedProcess(line, 1, b"", b"")
    try:
        done = subprocess.run(
            line, shell=isinstance(line, str), input=data, capture_output=True, timeout=PATIENCE, check=False,
            env=dict(environment), cwd=cwd,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return 0, done, f"no answer within {PATIENCE:g} seconds"
    except OSError as error:
        return 0, done, f"{error.filename or line[0]}: {error.strerror}"
    return max(1, round(1000 * (time.monotonic() - began))), done, ""


def _last_line(said: bytes) -> str:
    return said.decode(errors="replace").strip().rpartition("\n")[2][:200]


def _read(target: SettingsTarget) -> str:
    try:
        return read_settings(os.path.realpath(target.path)) or ""
    except NotEditable:
        return ""


def _start_hook(target: SettingsTarget, text: str) -> str:
    """The command of the hook that runs at the start of a conversation, "" without one."""
    if target.format == "text":
        program = re.search(r"^const PROGRAM = (\[.*\])$", text, re.MULTILINE)
        return shlex.join([*json.loads(program[1]), "hook", target.host, START]) if program else ""
    lines = find_hooks(text, target.format, target.ours)
    events = ((line, re.search(r"\bhook\s+\S+\s+(\w+)", line)) for line in lines)
    return next((line for line, event in events if event and KINDS.get(event[1]) == START), "")


def _has_own_memory(name: str, environment: Mapping[str, str]) -> bool:
    """Whether a host's own memory is on; it is unless its settings say otherwise."""
    if "own_memory" not in CLIENTS[name]:
        return False
    place, key = CLIENTS[name]["own_memory"]
    try:
        found: Any = read_value(read_settings(settings_path(place, environment)) or "")
    except (NotEditable, ValueError):
        return True
    for step in key.split("."):
        found = found.get(step) if isinstance(found, dict) else None
    return found is not False
