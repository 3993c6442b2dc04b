"""Settings: from the environment and the user's own `config.toml`, never from a repository.

    scope = "project"            # what commands use when none is named
    retention_days = 30          # how long retired texts stay in the journal
    tools = true                 # false: agents get the catalog and CONTEXT.md, but no tools

    [projects]                   # memory of a folder kept elsewhere
    "~/code/app" = "~/notes/app-memory"

    [embedder]                   # what finds memories by meaning
    name = "auto"                # what is installed; or "none", "static", "minilm", or "provider:model"
    url = ""                     # where a provider answers, if not at its usual address
    key = ""                     # the NAME of the environment variable with its key, if not the usual one

Environment: MEMSHEAF_HOME (default ~/.memsheaf), MEMSHEAF_PROJECT (the project's root), MEMSHEAF_SCOPE,
MEMSHEAF_CACHE, MEMSHEAF_RETENTION_DAYS, MEMSHEAF_TOOLS, MEMSHEAF_EMBEDDER (with it, the table above does not count),
MEMSHEAF_EMBEDDER_URL, MEMSHEAF_EMBEDDER_KEY.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from typing import NamedTuple

from memsheaf.errors import BadSettings
from memsheaf.scope import Places

_KNOWN = ("scope", "retention_days", "tools", "projects", "embedder")


class Settings(NamedTuple):
    """What the user chose."""

    home: str
    cache: str
    scope: str = "project"
    retention_days: float = 30.0
    tools: bool = True
    project: str = ""
    projects: tuple[tuple[str, str], ...] = ()
    embedder: str = "auto"
    embedder_url: str = ""
    embedder_key: str = ""

    def places(self, cwd: str) -> Places:
        """What the scope resolver goes by, for a working directory."""
        return Places(self.home, cwd, self.project, self.projects)


def load(environment: Mapping[str, str] = os.environ, *, platform: str = sys.platform) -> Settings:
    """Read the settings that hold for this user.

    Raises:
        BadSettings: the file cannot be read, or a value is not what it should be.
    """
    home = environment.get("MEMSHEAF_HOME") or os.path.join(_user_home(environment), ".memsheaf")
    home = os.path.abspath(os.path.expanduser(home))
    file = _read_file(os.path.join(home, "config.toml"))
    embedder, embedder_url, embedder_key = _embedder(environment, file.get("embedder", {}))
    return Settings(
        home=home,
        cache=os.path.abspath(environment.get("MEMSHEAF_CACHE") or _cache(environment, platform)),
        scope=_text("scope", environment.get("MEMSHEAF_SCOPE") or file.get("scope", "project")),
        retention_days=_days(environment.get("MEMSHEAF_RETENTION_DAYS") or file.get("retention_days", 30)),
        tools=_flag("tools", environment.get("MEMSHEAF_TOOLS") or file.get("tools", True)),
        project=environment.get("MEMSHEAF_PROJECT", ""),
        projects=_projects(file.get("projects", {})),
        embedder=embedder,
        embedder_url=embedder_url,
        embedder_key=embedder_key,
    )


def _user_home(environment: Mapping[str, str]) -> str:
    return environment.get("HOME") or os.path.expanduser("~")


def _cache(environment: Mapping[str, str], platform: str) -> str:
    home = _user_home(environment)
    if platform == "win32":
        base = environment.get("LOCALAPPDATA") or os.path.join(home, "AppData", "Local")
        return os.path.join(base, "memsheaf", "Cache")
    if platform == "darwin":
        return os.path.join(home, "Library", "Caches", "memsheaf")
    return os.path.join(environment.get("XDG_CACHE_HOME") or os.path.join(home, ".cache"), "memsheaf")


def _read_file(path: str) -> dict[str, object]:
    if not os.path.exists(path):
        return {}
    import tomllib  # 10 ms that most runs do not need

    try:
        with open(path, "rb") as file:
            found = tomllib.load(file)
    except (OSError, ValueError) as error:
        raise BadSettings(f"{path} cannot be read: {error}") from None
    if unknown := sorted(set(found) - set(_KNOWN)):
        raise BadSettings(f"{path} has unknown settings: {', '.join(unknown)}; known are {', '.join(_KNOWN)}")
    return found


def _text(name: str, value: object) -> str:
    if isinstance(value, str) and value:
        return value
    raise BadSettings(f"the setting {name} must be a text, not {value!r}")


def _days(value: object) -> float:
    try:
        days = float(str(value))
    except ValueError:
        days = -1.0
    if not 0 <= days < float("inf"):
        raise BadSettings(f"the setting retention_days must be a number of days, not {value!r}")
    return days


def _flag(name: str, value: object) -> bool:
    if isinstance(value, bool):
        return value
    known = {
        "1": True,
        "true": True,
        "yes": True,
        "on": True,
        "0": False,
        "false": False,
        "no": False,
        "off": False,
    }
    if str(value).lower() in known:
        return known[str(value).lower()]
    raise BadSettings(f"the setting {name} must be true or false, not {value!r}")


def _projects(value: object) -> tuple[tuple[str, str], ...]:
    if isinstance(value, dict) and all(isinstance(root, str) for root in value.values()):
        if loose := [root for root in value.values() if not os.path.isabs(os.path.expanduser(root))]:
            raise BadSettings(f"the setting projects needs whole paths, from / or ~: {loose[0]!r} is not one")
        return tuple(value.items())
    raise BadSettings('the setting projects must be a table of folder = "root"')


def _embedder(environment: Mapping[str, str], value: object) -> tuple[str, str, str]:
    """Name, address, and the variable with the key. They go together: a name from here takes no key from there."""
    if not isinstance(value, dict) or not all(isinstance(part, str) for part in value.values()):
        raise BadSettings("the setting embedder must be a table with the texts name, url and key")
    if unknown := sorted(set(value) - {"name", "url", "key"}):
        raise BadSettings(f"the setting embedder has no {unknown[0]!r}, only name, url and key")
    named = environment.get("MEMSHEAF_EMBEDDER", "")
    table = {} if named else value
    name = _text("embedder.name", named or table.get("name", "auto"))
    url = environment.get("MEMSHEAF_EMBEDDER_URL") or table.get("url", "")
    key = environment.get("MEMSHEAF_EMBEDDER_KEY") or table.get("key", "")
    if key and not re.fullmatch("[A-Z_][A-Z0-9_]{0,63}", key):  # it may be the key itself, so it is not shown
        raise BadSettings(
            "the setting embedder.key must be the name of an environment variable, such as OPENAI_API_KEY: "
            "not the key itself, which does not belong into a file"
        )
    if name == "auto" and (url or key):
        raise BadSettings("the settings embedder.url and embedder.key need an embedder.name, such as openai:MODEL")
    return name, url, key
