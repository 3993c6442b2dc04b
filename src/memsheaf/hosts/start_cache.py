"""The text for the start of a conversation, as it was last rendered: served while no file behind it changed.

A start looks at the folders of each scope and at the files that the text shows, as a look of the index does in a
large scope; in a small one at all files. The cache can be deleted at any moment.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable

from memsheaf import __version__
from memsheaf.config import Settings
from memsheaf.errors import MemsheafError
from memsheaf.hosts.conversation import load, save
from memsheaf.scope import Scope, checkout_of, has_hub, resolve
from memsheaf.values import file_stamp, json, sha256

SMALL = 200  # files of a scope that are all looked at
RACY = 0.1  # seconds: a file that changed so recently may change again without a trace in its times
LOST = ".history/lost"
_ASIDE = ("tasks", "sessions", "logs", ".history")
_SHOWN = r"(?m)^- \[[^\]\n]*\]\(<?(?:([\w/-]+):)?([^()<>\n]+)>?\)"


def read_start(settings: Settings, cwd: str) -> str | None:
    """The text that was rendered last; None when something changed since, or a repository keeps the memories."""
    try:
        roots = _roots(settings, cwd)
    except MemsheafError:
        return None
    found = load(_path(settings, roots)) if roots else {}
    stamps, text = found.get("stamps"), found.get("text")
    if found.get("key") != _key(settings) or not isinstance(stamps, dict) or not isinstance(text, str):
        return None
    return text if all([*(file_stamp(path) or ())] == stamp for path, stamp in stamps.items()) else None


def write_start(settings: Settings, cwd: str, text: str) -> None:
    """Keep a text that was just rendered, unless a file changed in the last moment."""
    roots = _roots(settings, cwd)
    if not roots:
        return
    paths = [os.path.join(settings.home, "config.toml")]
    for scope, root in roots.items():
        paths += _watched(root, [path for named, path in re.findall(_SHOWN, text) if (named or "project") == scope])
    stamps = {path: file_stamp(path) or () for path in paths}
    if not any(stamp and time.time() - stamp[0] / 1e9 < RACY for stamp in stamps.values()):
        record = {"key": _key(settings), "stamps": stamps, "text": text}
        save(_path(settings, roots), json.dumps(record).encode())


def _roots(settings: Settings, cwd: str) -> dict[str, str]:
    """The folders of project, team and user; {} when others may have written in one, and not all is trusted."""
    places = settings.places(cwd)
    roots = {scope: resolve(Scope.parse(scope), places) for scope in settings.layers(cwd)}
    for scope, root in roots.items():
        if checkout_of(root, settings.home) or (scope.startswith("team/") and has_hub(root, settings.home)):
            return {}
    return roots


def _key(settings: Settings) -> list[object]:
    return [__version__, time.strftime("%Y-%m-%d"), settings.tools]


def _path(settings: Settings, roots: dict[str, str]) -> str:
    name = sha256("\n".join(roots.values()).encode("utf-8", "replace")).hexdigest()[:24]
    return os.path.join(settings.cache, f"start-{name}.json")


def _watched(root: str, shown: Iterable[str]) -> list[str]:
    """The folders below a root, and the files that tell whether its text is still right."""
    folders, files = [root], [os.path.join(root, name) for name in ("MEMORY.md", "CONTEXT.md", "NOTES.md", LOST)]
    for folder in folders:
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        folders += [entry.path] if entry.name not in _ASIDE else []
                    elif entry.name.endswith(".md"):
                        files.append(entry.path)
        except OSError:
            continue
    if len(files) > SMALL:
        files = files[:4] + [os.path.join(root, path) for path in shown]
    return [*folders, *files]
