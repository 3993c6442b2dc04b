"""The Claude Code plugin: its files, in a folder that is a marketplace of one plugin as well."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

from memsheaf import __version__
from memsheaf.errors import Exists, PathRefused, StoreFailed
from memsheaf.scope import parse_object
from memsheaf.store.safe_dir import Folder, read_file, replace, walk

NAME = "memsheaf"
DESCRIPTION = "Memory that outlives a conversation: plain Markdown files, recalled and learned without being asked."
MANIFEST = ".claude-plugin/plugin.json"
SERVER = f"plugin:{NAME}:{NAME}"  # the name of the plugin's own server in its hooks
TEXTS = os.path.join(os.path.dirname(__file__), "claude_plugin")
MAX_MANIFEST_BYTES = 64 << 10
PROMPT_SECONDS, HOOK_SECONDS = 2, 10  # the hook has a deadline of its own, which is shorter
FIELDS = ("hook_event_name", "session_id", "prompt_id", "agent_id", "transcript_path", "cwd", "prompt")
"""What the client fills in for `memory_hook`, from the JSON that a command would get."""


def plugin_files(words: Sequence[str]) -> Mapping[str, str]:
    """The files of the plugin; `words` start the program."""
    owner = {"name": NAME}
    marketplace = {
        "name": NAME,
        "owner": owner,
        "description": DESCRIPTION,
        "plugins": [{"name": NAME, "source": "./", "description": DESCRIPTION}],
    }
    plugin = {
        "name": NAME,
        "version": __version__,
        "description": DESCRIPTION,
        "author": owner,
        "license": "Apache-2.0",
        "keywords": ["memory", "recall", "markdown"],
    }
    server = {"command": words[0], "args": [*words[1:], "mcp"], "alwaysLoad": True}
    settings = {
        MANIFEST: plugin,
        ".claude-plugin/marketplace.json": marketplace,
        ".mcp.json": {"mcpServers": {NAME: server}},
        "hooks/hooks.json": {"description": "Recall and learn", "hooks": hooks(words)},
    }
    files = {name: f"{json.dumps(value, indent=2, ensure_ascii=False)}\n" for name, value in settings.items()}
    return files | {name: text.replace("{memsheaf}", shlex.join(words)) for name, text in _texts()}


def hooks(words: Sequence[str]) -> dict[str, object]:
    """Return what the client runs at its events: recall in the server that runs already, the rest in a process."""
    recall = {
        "type": "mcp_tool",
        "server": SERVER,
        "tool": "memory_hook",
        "input": {"host": "claude-code"} | {name: f"${{{name}}}" for name in FIELDS},
        "timeout": PROMPT_SECONDS,
    }
    events = {
        event: {
            "type": "command",
            "command": f"{shlex.join([*words, 'hook', 'claude-code', event])} || exit 0",
            "timeout": HOOK_SECONDS,
        }
        for event in ("SessionStart", "Stop", "PreCompact", "SessionEnd")
    }
    return {event: [{"hooks": [hook]}] for event, hook in {**events, "UserPromptSubmit": recall}.items()}


def _texts() -> Iterator[tuple[str, str]]:
    for folder, _, names in os.walk(TEXTS):
        for name in sorted(names):
            path = os.path.join(folder, name)
            with open(path, encoding="utf-8") as file:
                yield os.path.relpath(path, TEXTS).replace(os.sep, "/"), file.read()


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
