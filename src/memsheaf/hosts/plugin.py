"""The Claude Code plugin: its files, in a folder that is a marketplace of one plugin as well."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress

from memsheaf import __version__
from memsheaf.errors import Exists, PathRefused, StoreFailed
from memsheaf.hosts.formats import as_json_lines
from memsheaf.hosts.installing import Placement, list_targets
from memsheaf.scope import parse_object
from memsheaf.store.safe_dir import Folder, read_file, replace, walk

NAME = "memsheaf"
MANIFEST = ".claude-plugin/plugin.json"
TEXTS = os.path.join(os.path.dirname(__file__), "claude_plugin")
MAX_MANIFEST_BYTES = 64 << 10


def plugin_files(words: Sequence[str]) -> Mapping[str, str]:
    """The files of the plugin; `words` start the program."""
    server, settings, *_ = list_targets("claude-code", Placement(words, {}, project=os.sep))
    hooks = {"description": "Recall and learn", "hooks": (settings.wanted or {})["hooks"]}
    files = {
        ".mcp.json": as_json_lines(server.wanted, "  "),
        # the name of the plugin's own server in its hooks
        "hooks/hooks.json": as_json_lines(hooks, "  ").replace(
            '"server": "memsheaf"', '"server": "plugin:memsheaf:memsheaf"'
        ),
    }
    for folder, _, names in os.walk(TEXTS):
        for name in names:
            path = os.path.join(folder, name)
            place = os.path.relpath(path, TEXTS).replace(os.sep, "/")
            if place.endswith(".json"):
                place = f".claude-plugin/{place}"
            with open(path, encoding="utf-8") as file:
                text = file.read()
            files[place] = text.replace("{memsheaf}", shlex.join(words)).replace("{version}", __version__)
    return files


def write_plugin(folder: str, words: Sequence[str]) -> list[str]:
    """Write the plugin into a folder that is empty or holds it already; gives the names of its files.

    Raises:
        Exists: the folder holds something else.
        PathRefused: a link that may have come with a repository stands in the way.
        StoreFailed: it cannot be written.
    """
    files = plugin_files(words)
    _refuse_repository_links(folder)
    try:
        with Folder.open(folder, create=True) as opened:
            if opened.names() and not _holds_plugin(opened):
                raise Exists(folder, hint="Name an empty folder, or one that holds the plugin.")
            for name, text in files.items():
                with walk(opened, name, create=True) as (inner, base):
                    with suppress(FileNotFoundError):
                        read_file(inner, base, 1)  # raises PathRefused for a link
                    replace(inner, base, text.encode(), durable=False)
    except OSError as error:
        raise StoreFailed(f"the plugin cannot be written to {folder!r}: {error.strerror}") from None
    return sorted(files)


def _refuse_repository_links(path: str) -> None:
    """Raise PathRefused when a step of an absolute path is a link inside a repository."""
    step, is_in_repository = os.sep, False
    for name in path.split(os.sep)[1:]:
        is_in_repository = is_in_repository or os.path.lexists(os.path.join(step, ".git"))
        step = os.path.join(step, name)
        if is_in_repository and os.path.islink(step):
            raise PathRefused(step, "it is a link in a repository", hint="Name the folder that it leads to.")


def _holds_plugin(folder: Folder) -> bool:
    try:
        with walk(folder, MANIFEST) as (inner, name):
            found = parse_object(read_file(inner, name, MAX_MANIFEST_BYTES))
    except OSError:
        return False
    return bool(found and found.get("name") == NAME)
