"""What is installed in each host: the server, the permission to use it, the hooks; and which hosts there are."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from shutil import which
from typing import Any, NamedTuple

from memsheaf.hosts.clients import CLIENTS, fill, find_client, require_text, server_values, settings_path
from memsheaf.hosts.json_edit import merge, read_value
from memsheaf.hosts.own_commands import HOME_VARIABLE, IGNORE_FAILURE, hook_line
from memsheaf.hosts.settings_edit import NotEditable, find_foreign_entry
from memsheaf.hosts.settings_files import SettingsFiles, SettingsTarget, read_settings, read_target

HOSTS = [name for name, known in CLIENTS.items() if not known.get("by_hand")]
"""The hosts that can be installed in: those that have a settings file."""
PROMPT_HOOK_SECONDS = 5  # for a hook that starts a process where it cannot ask our server


class Placement(NamedTuple):
    """A place to install into, and the program to start there; `project` is the root of one, "" for the user."""

    words: Sequence[str]
    environment: Mapping[str, str]
    home: str = ""
    project: str = ""
    hooks: bool = True

    def hook_line(self, host: str, event: str) -> str:
        """The shell command for a hook; whatever happens, the host sees no failure."""
        return hook_line([*self.words, "hook", host, event], self.home) + IGNORE_FAILURE


def program_words() -> list[str]:
    """Return the words that start the program that is running, by its absolute path.

    A desktop app has no PATH of a shell, and the first `memsheaf` on the PATH may belong to another environment. A
    link on the PATH to this very program, such as pipx makes, is preferred: it outlives a move of the environment.
    """
    script = which("memsheaf", path=os.path.dirname(sys.executable))
    if not script:
        return [sys.executable, "-P", "-m", "memsheaf"]
    on_path = which("memsheaf")
    is_same = on_path and os.path.realpath(on_path) == os.path.realpath(script)
    return [os.path.abspath(on_path if on_path and is_same else script)]


def is_found(name: str, environment: Mapping[str, str]) -> bool:
    """Return True if a host is on this machine."""
    known = CLIENTS[name]
    folder = known.get("folder") or known["files"]
    path = settings_path(folder, environment)
    has_command = any(which(command, path=environment.get("PATH")) for command in known.get("commands", ()))
    return has_command or os.path.isdir(path if "folder" in known else os.path.dirname(path))


def has_plugin(name: str, environment: Mapping[str, str]) -> bool:
    """Return True if a host runs our plugin, which does all that an installation does."""
    file = "{CLAUDE_CONFIG_DIR:~/.claude}/settings.json"
    plugins = read_setting(file, "enabledPlugins", environment) if name == "claude-code" else None
    return isinstance(plugins, dict) and any(key.startswith("memsheaf@") and on for key, on in plugins.items())


def has_own_memory(name: str, environment: Mapping[str, str]) -> bool:
    """Return True if a host's own memory is on; it is unless its settings say otherwise."""
    file, key = CLIENTS[name].get("own_memory", ("", ""))
    return bool(key) and read_setting(file, key, environment) is not False


def read_setting(file: str, key: str, environment: Mapping[str, str]) -> object:
    """Return a value in the settings of a host by its dotted key, None without one."""
    try:
        value = read_value(read_settings(settings_path(file, environment)) or "")
    except (NotEditable, ValueError):
        return None
    for step in key.split("."):
        value = value.get(step) if isinstance(value, dict) else None
    return value


def make_targets(name: str, place: Placement) -> list[SettingsTarget]:
    """Return the files of a host with what is wanted in them, one a file.

    Where the server of our name is somebody else's, it gets no permission, and no hook sends prompts to it.
    """
    targets = list_targets(name, place)
    is_foreign = targets and find_foreign_entry(read_target(targets[0]), targets[0].format, targets[0].ours)
    return list_targets(name, place, is_own_server=False) if is_foreign else targets


def list_targets(name: str, place: Placement, *, is_own_server: bool = True) -> list[SettingsTarget]:
    """Return the files of a host as `make_targets` does, without a look at them."""
    known = find_client(name)
    require_text([*place.words, place.home])
    words = [*place.words, "mcp", *(["--home", place.home] if place.home else [])]
    server = fill(known["local"], server_values(name, words))
    parts: list[_Part] = [({**known, "file": known["files"]}, server, server)]
    for more in known.get("more", ()):
        parts += _texts(more, place) if "source" in more else [_hooks(name, more, place, is_own_server)]
    strict_reader = known["title"] if known.get("strict") else ""
    targets: dict[str, SettingsTarget] = {}
    for part, ours, wanted in parts:
        path = settings_path(part["file"], place.environment)
        if place.project:
            if not part.get("project"):
                continue
            path = os.path.join(place.project, part["project"])
        if path.endswith(".json") and not os.path.lexists(path) and os.path.lexists(f"{path}c"):
            path += "c"  # the host reads both
        if path in targets:
            ours, wanted = merge(targets[path].ours, ours), merge(targets[path].wanted, wanted or {})
        format = part.get("format", "text")
        targets[path] = SettingsTarget(name, path, format, ours, wanted or None, place.project, strict_reader)
    return list(targets.values())


_Part = tuple[Mapping[str, Any], Any, Any]  # where a file is, all that is ours in it, and what is wanted in it


def _hooks(name: str, more: Mapping[str, Any], place: Placement, is_own_server: bool) -> _Part:
    hooks = {}
    events = more["events"] | more.get("server_events", {}) if is_own_server else more["events"]
    for event, given in events.items():
        template, timeout = more["hook"], given
        if isinstance(given, dict):  # a hook that asks our server
            template, timeout = (given, 0) if is_own_server else (template, PROMPT_HOOK_SECONDS)
        hooks[event] = [fill(template, {"hook": place.hook_line(name, event), "timeout": timeout})]
    ours = {**more.get("add", {}), "hooks": hooks}
    wanted = dict(ours)
    if not place.hooks:
        del wanted["hooks"]
        wanted.pop("version", None)
    if not is_own_server:
        wanted.pop("permissions", None)
    return more, ours, wanted


def _texts(more: Mapping[str, Any], place: Placement) -> Iterator[_Part]:
    """Files that are ours as a whole: a plugin, or all commands of a folder."""
    source = os.path.join(os.path.dirname(__file__), more["source"])
    words = [*(["env", f"{HOME_VARIABLE}{place.home}"] if place.home else []), *place.words]
    values = {
        "{memsheaf}": shlex.join(words),
        '["memsheaf"]': json.dumps(words),
        "mcp__plugin_memsheaf_memsheaf": "mcp__memsheaf",
    }
    for name in sorted(os.listdir(source)) if os.path.isdir(source) else [""]:
        with open(f"{source}/{name}".rstrip("/"), encoding="utf-8") as file:
            text = file.read()
        for old, new in values.items():
            text = text.replace(old, new)
        places = {key: f"{more[key]}/{name}".rstrip("/") for key in ("file", "project")}
        yield places, {"text": text}, {"text": text} if place.hooks or not more.get("is_hook") else None


def make_removals(name: str, place: Placement, files: SettingsFiles) -> list[SettingsTarget]:
    """The files of a host that ours is to be taken out of: those of the table, and others that were recorded."""
    targets = [target._replace(wanted=None) for target in make_targets(name, place)]
    known = {os.path.realpath(target.path) for target in targets}
    for path, format in files.recorded(name, place.project):
        alike = [target for target in targets if os.path.basename(target.path) == os.path.basename(path)]
        if path not in known and alike:  # by another value of a variable, such as CODEX_HOME
            targets.append(alike[0]._replace(path=path, format=format))
    return targets
