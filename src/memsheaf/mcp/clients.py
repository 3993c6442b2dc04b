"""What to tell a client so that it finds the server: a text for its settings, and its one-line command.

A client is a row in `CLIENTS`. `python -m memsheaf.mcp.clients > docs/mcp-clients.md` writes the page.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from memsheaf.errors import Refused, hinted
from memsheaf.mcp.settings_formats import as_json, as_json_line, as_line, as_toml, as_yaml
from memsheaf.values import NamedTuple

NAME = "memsheaf"
TOKEN = "MEMSHEAF_MCP_TOKEN"
SYSTEMS = ("Linux", "macOS", "Windows")
PASTED = "TOKEN"  # where a client reads no variable, and the token itself has to stand
ASKED = "${input:memsheaf-token}"  # where a client asks for it
_WRITERS: dict[str, Callable[[Any], str]] = {"json": as_json, "toml": as_toml, "yaml": as_yaml}


class Server(NamedTuple):
    """How to reach the server: the words that start it, or its URL, the token's variable, and how to name that."""

    words: tuple[str, ...]
    url: str
    token: str
    bearer: str

    @property
    def started(self) -> dict[str, Any]:
        """A command and its arguments, as most clients have them."""
        return {"command": self.words[0], "args": list(self.words[1:])}

    def addressed(self, key: str = "url") -> dict[str, Any]:
        """A URL and the header with the token, as most clients have them."""
        return {key: self.url, "headers": {"Authorization": self.bearer}}

    def found(self, local: str = "", remote: str = "") -> dict[str, Any]:
        """Either of them, with the name the client has for such a server."""
        kind = remote if self.url else local
        return ({"type": kind} if kind else {}) | (self.addressed() if self.url else self.started)


class Client(NamedTuple):
    """One client: where its settings are on each system, what belongs in there, and the words that do the same.

    `variable` is how its settings name a variable: "" when it takes no URL, PASTED when it reads none.
    """

    title: str
    places: tuple[str, str, str]
    settings: Callable[[Server], dict[str, Any]]
    variable: str = ""
    command: Callable[[Server], list[str]] = lambda server: []
    format: str = "json"


def described(
    client: str, *, words: Sequence[str], url: str = "", token: str = TOKEN, system: str = ""
) -> dict[str, Any]:
    """All there is to say to a client: `config` is the text for `file`, `command` the line that does the same.

    Without `url` the client starts the server itself, with `words`. `token` is the variable that holds the token.
    `system` is Linux, macOS or Windows, by default the one this runs on. Raises Refused when the client is not
    known, or cannot do that.

    >>> print(described("codex", words=["memsheaf", "mcp"])["config"])
    [mcp_servers.memsheaf]
    command = "memsheaf"
    args = ["mcp"]
    """
    if client not in CLIENTS:
        error = Refused(f"there is no client {client[:40]!r} that this knows")
        raise hinted(error, f"It knows: {', '.join(CLIENTS)}.")
    known = CLIENTS[client]
    if url and not known.variable:
        error = Refused(f"there is no text with a URL for {known.title}: it starts its servers itself")
        raise hinted(error, f"Leave the URL out: memsheaf mcp --print-config {client}")
    _require_text((*words, url, token))
    server = Server(tuple(words), url, token, f"Bearer {known.variable.replace('NAME', token)}")
    system = system or _system()
    return {
        "client": client,
        "title": known.title,
        "file": known.places[SYSTEMS.index(system)],
        "files": dict(zip(SYSTEMS, known.places, strict=True)),
        "format": known.format,
        "config": _WRITERS[known.format](known.settings(server)),
        "command": as_line(known.command(server), windows=system == "Windows"),
        "note": _note(known, server) if url else "",
    }


def printed(client: str, *, words: Sequence[str], url: str = "", token: str = TOKEN, system: str = "") -> list[str]:
    """The same as lines for a person: the command first, then the text to paste, and where."""
    told = described(client, words=words, url=url, token=token, system=system)
    lines = [f"For {told['title']}, run", "", f"    {told['command']}", ""] if told["command"] else []
    begin = "or put" if lines else f"For {told['title']}, put"
    lines += [f"{begin} this into {told['file']}:", "", *told["config"].split("\n")]
    return [*lines, "", told["note"]] if told["note"] else lines


def config_for(client: str, command: str, args: Sequence[str] = (), *, url: str = "", token_env: str = TOKEN) -> str:
    """The text that goes into a client's settings, and nothing else."""
    text: str = described(client, words=[command, *args], url=url, token=token_env)["config"]
    return text


def _require_text(words: Sequence[str]) -> None:
    for word in words:
        if "\0" in word or any("\ud800" <= char <= "\udfff" for char in word):
            shown = word.encode("ascii", "backslashreplace").decode()
            raise hinted(Refused(f"{shown!r} is no text: no settings can hold it"), "Choose names in valid UTF-8.")


def _note(client: Client, server: Server) -> str:
    if client.variable == PASTED:
        return f"Put the token itself where {PASTED} stands: {client.title} reads no variable there."
    if client.variable == ASKED:
        return f"{client.title} asks for the token when it starts the server, and keeps it."
    return f"{client.title} takes the token from the variable `{server.token}` of its environment."


def _system() -> str:
    return "Windows" if os.name == "nt" else "macOS" if sys.platform == "darwin" else "Linux"


# What belongs into the settings of each, and the words of its own command.


def _standard(server: Server) -> dict[str, Any]:
    return {"mcpServers": {NAME: server.found()}}


def _claude_code(server: Server) -> dict[str, Any]:
    return {"mcpServers": {NAME: _claude_code_server(server)}}


def _claude_code_server(server: Server) -> dict[str, Any]:
    # without the last the model sees only the names of the tools, and has to look for them first
    return server.found("stdio", "http") | {"alwaysLoad": True}


def _claude_code_command(server: Server) -> list[str]:
    return ["claude", "mcp", "add-json", "--scope", "user", NAME, as_json_line(_claude_code_server(server))]


def _codex(server: Server) -> dict[str, Any]:
    found = {"url": server.url, "bearer_token_env_var": server.token} if server.url else server.started
    return {f"mcp_servers.{NAME}": found}


def _codex_command(server: Server) -> list[str]:
    words = ["codex", "mcp", "add", NAME]
    if server.url:
        return [*words, "--url", server.url, "--bearer-token-env-var", server.token]
    return [*words, "--", *server.words]


def _gemini(server: Server) -> dict[str, Any]:
    return {"mcpServers": {NAME: server.found("", "http")}}


def _gemini_command(server: Server) -> list[str]:
    words = ["gemini", "mcp", "add", "--scope", "user"]
    if server.url:
        return [*words, "--transport", "http", "--header", f"Authorization: {server.bearer}", NAME, server.url]
    return [*words, NAME, server.words[0], "--", *server.words[1:]]


def _copilot(server: Server) -> dict[str, Any]:
    return {"mcpServers": {NAME: server.found("local", "http") | {"tools": ["*"]}}}


def _copilot_command(server: Server) -> list[str]:
    words = ["copilot", "mcp", "add"]
    if server.url:
        return [*words, "--transport", "http", "--header", f"Authorization: {server.bearer}", NAME, server.url]
    return [*words, NAME, "--", *server.words]


def _vscode(server: Server) -> dict[str, Any]:
    asked = {"type": "promptString", "id": "memsheaf-token", "description": "Token of memsheaf", "password": True}
    return ({"inputs": [asked]} if server.url else {}) | {"servers": {NAME: server.found("stdio", "http")}}


def _vscode_command(server: Server) -> list[str]:
    return [] if server.url else ["code", "--add-mcp", as_json_line({"name": NAME} | server.started)]


def _windsurf(server: Server) -> dict[str, Any]:
    return {"mcpServers": {NAME: server.addressed("serverUrl") if server.url else server.started}}


def _zed(server: Server) -> dict[str, Any]:
    return {"context_servers": {NAME: server.found()}}


def _opencode(server: Server) -> dict[str, Any]:
    if server.url:
        return {"mcp": {NAME: server.found("", "remote") | {"oauth": False}}}
    return {"mcp": {NAME: {"type": "local", "command": list(server.words)}}}


def _opencode_command(server: Server) -> list[str]:
    words = ["opencode", "mcp", "add", NAME]
    if server.url:
        return [*words, "--url", server.url, "--header", f"Authorization={server.bearer}"]
    return [*words, "--", *server.words]


def _cline(server: Server) -> dict[str, Any]:
    return {"mcpServers": {NAME: server.found("", "streamableHttp")}}


def _cline_command(server: Server) -> list[str]:
    return [] if server.url else ["cline", "mcp", "add", NAME, "--yes", "--", *server.words]


def _continue(server: Server) -> dict[str, Any]:
    options = {"headers": {"Authorization": server.bearer}}
    remote = {"type": "streamable-http", "url": server.url, "requestOptions": options}
    return {"mcpServers": [{"name": NAME} | (remote if server.url else server.found("stdio"))]}


def _goose(server: Server) -> dict[str, Any]:
    named = {"enabled": True, "name": NAME, "description": "Memory in Markdown files", "timeout": 300}
    remote = {"type": "streamable_http"} | server.addressed("uri") | {"env_keys": [server.token]}
    local = {"type": "stdio", "cmd": server.words[0], "args": list(server.words[1:])}
    return {"extensions": {NAME: named | (remote if server.url else local)}}


def _home(path: str) -> tuple[str, str, str]:
    return f"~/{path}", f"~/{path}", "%USERPROFILE%\\" + path.replace("/", "\\")


def _application(path: str) -> tuple[str, str, str]:
    return f"~/.config/{path}", f"~/Library/Application Support/{path}", "%APPDATA%\\" + path.replace("/", "\\")


_SHELL, _ENV = "${NAME}", "${env:NAME}"
_MENU = "Settings | Tools | AI Assistant | Model Context Protocol (MCP) | Add | As JSON"
_GOOSE = ("~/.config/goose/config.yaml", "~/.config/goose/config.yaml", r"%APPDATA%\Block\goose\config\config.yaml")
_ZED = ("~/.config/zed/settings.json", "~/.config/zed/settings.json", r"%APPDATA%\Zed\settings.json")

CLIENTS = {
    "claude-code": Client("Claude Code", _home(".claude.json"), _claude_code, _SHELL, _claude_code_command),
    "claude-desktop": Client("Claude Desktop", _application("Claude/claude_desktop_config.json"), _standard),
    "codex": Client("Codex", _home(".codex/config.toml"), _codex, _SHELL, _codex_command, "toml"),
    "gemini": Client("Gemini CLI", _home(".gemini/settings.json"), _gemini, _SHELL, _gemini_command),
    "copilot": Client("Copilot CLI", _home(".copilot/mcp-config.json"), _copilot, _SHELL, _copilot_command),
    "vscode": Client("VS Code", _application("Code/User/mcp.json"), _vscode, ASKED, _vscode_command),
    "cursor": Client("Cursor", _home(".cursor/mcp.json"), _standard, _ENV),
    "windsurf": Client("Windsurf", _home(".codeium/windsurf/mcp_config.json"), _windsurf, _ENV),
    "zed": Client("Zed", _ZED, _zed, PASTED),
    "opencode": Client(
        "opencode", _home(".config/opencode/opencode.json"), _opencode, "{env:NAME}", _opencode_command
    ),
    "cline": Client("Cline", _home(".cline/data/settings/cline_mcp_settings.json"), _cline, PASTED, _cline_command),
    "continue": Client("Continue", _home(".continue/config.yaml"), _continue, "${{ secrets.NAME }}", format="yaml"),
    "goose": Client("goose", _GOOSE, _goose, _SHELL, format="yaml"),
    "jetbrains": Client("JetBrains AI Assistant", (_MENU, _MENU, _MENU), _standard),
}
"""Every client this knows, by the name that `--print-config` takes."""


# docs/mcp-clients.md

_START = f"""\
# Clients of the MCP server

<!-- Made from the table of clients by `python -m memsheaf.mcp.clients`. -->

`memsheaf mcp --print-config CLIENT` prints what a client has to be told, with the paths of this machine. Most clients
start the server themselves and talk to it over stdio. The texts for HTTP are for a server that runs already
(`memsheaf mcp --http`); the token stays out of them where the client can read a variable, here `{TOKEN}`:
`export {TOKEN}="$(cat FILE)"` in the shell that starts the client sets it, with the file that the server names
when it starts. Where settings have servers already, put ours beside them.

The texts and lines for Claude Code, Codex, Gemini CLI, Copilot CLI, opencode, Cline and Continue were tried with the
clients themselves, in November 2026. The others follow what their makers document.

When `memsheaf` is not on the PATH, or only as long as a virtual environment is active, the command is its full path.

Without `--scope` the server has the memory of the project that it is started in. Claude Desktop starts its servers in
no folder of yours: `memsheaf mcp --print-config claude-desktop --scope user`. Do the same for any client that may not
start them in the folder of your project.
"""


def page() -> str:
    """The page of all clients, as it stands in the documentation."""
    return "\n".join([_START, *(part for name in CLIENTS for part in _section(name))])


def _section(name: str) -> Iterator[str]:
    told = described(name, words=["memsheaf", "mcp"], system="Linux")
    yield f"## {told['title']}\n\n`memsheaf mcp --print-config {name}`\n"
    if told["command"]:
        yield f"```sh\n{told['command']}\n```\n"
    yield f"In {', '.join(f'`{place}`' for place in dict.fromkeys(told['files'].values()))}:\n"
    yield f"```{told['format']}\n{told['config']}\n```\n"
    if not CLIENTS[name].variable:
        yield "It starts its servers itself; there is no text for HTTP here.\n"
        return
    told = described(name, words=["memsheaf", "mcp"], url="http://127.0.0.1:8377/mcp", system="Linux")
    yield f"Over HTTP: {told['note']}\n\n```{told['format']}\n{told['config']}\n```\n"


if __name__ == "__main__":
    sys.stdout.write(page())
