"""The user's `config.toml` as a list of settings: where each comes from, and how one is changed.

A change touches the lines of its settings and leaves the rest of the file, comments included, as it is. It is checked
before it is written: the file never gets a value that `config.load` refuses.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from hashlib import sha256
from typing import NamedTuple

from memsheaf import config
from memsheaf.config import (
    DEFAULTS,
    OFFLINE,
    OPEN_TABLES,
    POLICIES,
    SWITCHES,
    Settings,
    line_of,
    split_key,
    values_of,
    variable_of,
)
from memsheaf.errors import BadSettings, Changed, NotFound, Refused, StoreFailed

CONFIG_FILE = "config.toml"

_CHOICES = {
    "scope": ("project", "user"),
    "embedder.name": ("auto", "none"),  # these send no text elsewhere
    "learning.policy": POLICIES,
    "hub.offline": OFFLINE,
}


class Setting(NamedTuple):
    """One setting. `origin` is `config.toml`, `default`, or the name of the environment variable that counts.

    `editable` is whether a page may offer it: no path, no address, no name of a key, and nothing that would send
    memories or conversations elsewhere. `choices` are the values that a page offers; () for a number or a switch.
    """

    key: str
    value: object
    default: object
    origin: str
    editable: bool
    choices: tuple[str, ...] = ()


class SettingsFile:
    """The settings of a user, and the file they are in."""

    def __init__(
        self, environment: Mapping[str, str] = os.environ, *, warn: Callable[[str], object] | None = None
    ) -> None:
        self._environment = environment
        self._warn = warn

    @property
    def path(self) -> str:
        """The place where the file is, or would be."""
        return os.path.join(config.home_folder(self._environment), CONFIG_FILE)

    @property
    def version(self) -> str:
        """A hash of the file."""
        return _version(self.lines())

    def load(self) -> Settings:
        """Return the settings that hold now. Raises BadSettings."""
        return config.load(self._environment, warn=self._warn)

    def all(self) -> list[Setting]:
        """Return every setting, in the order of the documentation. Raises BadSettings, StoreFailed."""
        lines = self.lines()
        return [self._setting(key, value, DEFAULTS.get(key, ""), lines) for key, value in values_of(self.load())]

    def find(self, key: str) -> Setting:
        """Return one setting by its name, or by the end of it. Raises NotFound, with those that could be meant."""
        settings = {setting.key: setting for setting in self.all()}
        if key in settings:
            return settings[key]
        if key.startswith(OPEN_TABLES):
            return self._setting(key, "", "", self.lines())
        fitting = [name for name in settings if name.endswith(f".{key}") or name == f"{key}.name"]
        if len(fitting) == 1:
            return settings[fitting[0]]
        fitting = fitting or get_close_matches(key, settings, 3, cutoff=0.75)
        question = f"; did you mean {' or '.join(fitting)}?" if fitting else ""
        raise NotFound(key, f"there is no setting {key!r}{question}", hint="`memsheaf config` lists them.")

    def set(self, values: Mapping[str, str | None], *, expect: str | None = None) -> None:
        """Set what is given, in the words of a person, all or nothing; None goes back to the default.

        Raises:
            Changed: the file is not at the version `expect`.
            BadSettings: a value makes no sense; `key` says which, `reason` why.
            NotFound, StoreFailed: there is no such setting; the file cannot be read or written.
        """
        lines = self.lines()
        version = _version(lines)
        if expect not in (None, version):
            raise Changed(CONFIG_FILE)
        for key, words in values.items():
            setting = self.find(key)
            line = None if words is None else to_toml(_parse_value(words, setting.value))
            _set_line(lines, setting.key, line)
        self._write("\n".join(lines).rstrip("\n") + "\n", version)

    def set_from_page(self, values: Mapping[str, str | None], *, expect: str) -> None:
        """Set what is given, for a page: what is `editable`, and of its `choices`. Raises Refused for all else."""
        for key, words in values.items():
            setting = self.find(key)
            if not setting.editable or (words is not None and setting.choices and words not in setting.choices):
                raise Refused(f"the setting {key} cannot be set to this here; `memsheaf config` can")
        self.set(values, expect=expect)

    def lines(self) -> list[str]:
        """Return the lines of the file, none when there is no file. Raises StoreFailed."""
        try:
            with open(self.path, encoding="utf-8") as file:
                return file.read().split("\n")
        except FileNotFoundError:
            return []
        except (OSError, ValueError) as error:
            raise StoreFailed(f"{self.path} cannot be read: {error}") from None

    def _setting(self, key: str, value: object, usual: object, lines: list[str]) -> Setting:
        variable = variable_of(key)
        origin = "default" if line_of(lines, key)[0] is None else CONFIG_FILE
        if self._environment.get(variable):
            origin = variable
        choices = POLICIES if key.startswith("learning.scopes.") else _CHOICES.get(key, ())
        editable = origin != variable and (bool(choices) or isinstance(value, bool | int | float))
        return Setting(key, value, usual, origin, editable, choices)

    def _write(self, text: str, version: str) -> None:
        """Replace the file if it is still at this version, and the settings that come out make sense."""
        home = os.path.dirname(self.path)
        try:
            os.makedirs(home, mode=0o700, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=home, prefix=".config-") as folder:
                draft = os.path.join(folder, CONFIG_FILE)
                with open(draft, "w", encoding="utf-8") as file:
                    file.write(text)
                    file.flush()
                    os.fsync(file.fileno())
                try:
                    config.load({**self._environment, "MEMSHEAF_HOME": folder})
                except BadSettings as error:
                    error.args = (f"{error.reason or error}; nothing was changed",)
                    raise
                if self.version != version:
                    raise Changed(CONFIG_FILE)
                os.replace(draft, os.path.realpath(self.path))
        except OSError as error:
            raise StoreFailed(f"{self.path} cannot be written: {error.strerror or error}") from None


def to_toml(value: object) -> str:
    """Return a value as TOML has it; its strings are those of JSON."""
    return f"{value:g}" if isinstance(value, float) else json.dumps(value, ensure_ascii=False)


def _parse_value(value: str, was: object) -> object:
    """Return the value of a word, of the type that the setting has."""
    if isinstance(was, bool):
        return SWITCHES.get(value.lower(), value)
    if isinstance(was, int | float) and re.fullmatch(r"\d+(?:\.\d+)?", value):
        return float(value) if "." in value else int(value)
    return value


def _set_line(lines: list[str], key: str, value: str | None) -> None:
    """Set the line of a setting, or take it out."""
    number, last = line_of(lines, key)
    table, name = split_key(key)
    if not re.fullmatch("[A-Za-z0-9_-]+", name):
        name = json.dumps(name)
    if number is not None and value is None:
        del lines[number]
    elif number is not None:
        comment = re.search(r"\s+#[^\"']*$", lines[number])
        lines[number] = f"{name} = {value}{comment[0] if comment else ''}"
    elif value is not None:
        if last == len(lines):  # there is no such table
            lines += ["", f"[{table}]"] if "".join(lines[-1:]) else [f"[{table}]"]
            last = len(lines)
        lines.insert(last + 1, f"{name} = {value}")


def _version(lines: list[str]) -> str:
    return sha256("\n".join(lines).encode("utf-8", "replace")).hexdigest()[:16]
