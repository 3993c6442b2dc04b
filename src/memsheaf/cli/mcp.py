"""The command that serves memories to other programs over the Model Context Protocol."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from memsheaf import __version__
from memsheaf.cli.call import Call, here
from memsheaf.cli.command import Argument, Usage, takes
from memsheaf.cli.output import Note
from memsheaf.errors import Refused
from memsheaf.hosts.local_socket import work_folder
from memsheaf.mcp.catalog_head import render_instructions
from memsheaf.mcp.protocol import Instruct, Service
from memsheaf.mcp.stdio import serve
from memsheaf.scope import Scope, around, with_hub

if TYPE_CHECKING:
    from memsheaf.config import Settings
    from memsheaf.mcp.http_bind import Endpoint, Token
    from memsheaf.mcp.offer import Offer

PORT = 8377
_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
_HTTP_ONLY = ("host", "port", "allow_host", "tls_cert", "tls_key", "behind_proxy", "new_token", "hub")
_HUB_ONLY = ("team", "cache_replicas", "cache_bytes")


@takes(
    Argument("--read-only", "offer only the tools that read"),
    Argument("--http", "serve over HTTP instead of stdin and stdout"),
    Argument("--port", f"the port to listen on; {PORT} when left out, 0 for a free one", "PORT"),
    Argument("--host", "the address to listen on; 127.0.0.1 when left out", "HOST"),
    Argument("--allow-host", "another name that it is reached under, such as a proxy's", "NAME", repeated=True),
    Argument("--tls-cert", "the certificate, in PEM, to serve HTTPS with", "PATH"),
    Argument("--tls-key", "the key of the certificate, in PEM", "PATH"),
    Argument("--behind-proxy", "a proxy adds TLS; without it or a certificate only loopback is listened on"),
    Argument("--new-token", "make a new token, print it, and take no other"),
    Argument("--hub", "serve the members of teams, whom their tokens name, from this database", "URL"),
    Argument("--team", "with --hub, serve this team alone", "NAME", repeated=True),
    Argument("--cache-replicas", "with --hub, keep this many replicas here at most", "N"),
    Argument("--cache-bytes", "with --hub, keep about this many bytes of them at most", "N"),
    Argument("--print-config", "print what to paste for a client; without a name, list them", "CLIENT", bare="list"),
)
def mcp(call: Call) -> int:
    """Serve this memory to agents over the Model Context Protocol.

    Over stdin and stdout by default: the client starts it. With --http, which takes pip install 'memsheaf[mcp]', it
    listens on loopback, and every request needs the token that is printed once and kept in a file that only you can
    read; --json then prints one line, with `url` and `token_file`, as soon as it listens. It serves the project and
    the user; with --scope that scope and nothing else. With --read-only nothing can be changed.
    With --hub, which takes pip install 'memsheaf[server]', it serves the members of a team, each with their token.
    --print-config serves nothing: it tells how to add the server to a client, with the options of the line.

    examples:
      memsheaf mcp
      memsheaf mcp --scope user --read-only
      memsheaf mcp --http --port 8377
      memsheaf mcp --http --hub postgresql://memsheaf-service@db.example.com/memory
      memsheaf mcp --print-config claude-code
      memsheaf mcp --print-config cursor --scope user
      memsheaf mcp --print-config codex --http --json
    """
    options = call.options
    given = [name for name in _HTTP_ONLY if getattr(options, name) or (name == "port" and options.port == 0)]
    if given and not options.http:
        raise Usage(f"--{given[0].replace('_', '-')} goes with --http")
    if not options.hub and (given := [name for name in _HUB_ONLY if getattr(options, name)]):
        raise Usage(f"--{given[0].replace('_', '-')} goes with --hub")
    if options.print_config:
        return _print_config(call)
    if options.http:
        from signal import SIGINT

        if (_serve_hub if options.hub else _serve_http)(call) == SIGINT:
            raise KeyboardInterrupt
        return 0
    settings, scopes = call.settings(), call.scopes()
    for scope in scopes:
        Scope.parse(scope)  # what is no scope is told now, and not in every answer
    if call.console.stdin is not None and call.console.stdin.isatty():
        call.console.note("a client starts this, and talks to it over stdin and stdout; Ctrl-D ends it")
        call.console.note("`memsheaf mcp --print-config CLIENT` tells how to add it to one")
    is_whole = not scopes and not options.read_only  # then it answers the hooks of its host, too
    call.export_places()  # hooks and their worker go by these
    news = _start_upkeep(settings, scopes)

    def instruct(text: str, client: object) -> str:
        news(settings.hub.start_seconds)
        return render_instructions(settings, here(), scopes, text, client)

    def open_offer() -> Offer:
        from memsheaf.mcp.offer import Offer

        memory = call.memory(by="agent", read_only=options.read_only)
        return Offer(memory, tree=around(here()))

    serve(_service(call, instruct), open_offer, hooks=work_folder() if is_whole else "", news=news)
    return 0


def _service(call: Call, instruct: Instruct = lambda text, client: text) -> Service:
    return Service(__version__, reading=call.options.read_only, tools=call.settings().tools, instruct=instruct)


def _start_upkeep(settings: Settings, scopes: Sequence[str]) -> Callable[[float], object]:
    """Keep scopes that have a hub in step; gives what waits for their news."""
    if not (found := with_hub(scopes or settings.layers(here()), settings.places(here()))):
        return lambda seconds: None
    from memsheaf.hub.upkeep import HubUpkeep

    return HubUpkeep(settings, here(), found).wait


def _serve_http(call: Call) -> int:
    """Serve this memory until a signal, and give its number."""
    options, settings = call.options, call.settings()
    site = _endpoint(call)
    try:
        from memsheaf.mcp.http import admit_token, serve
    except ImportError as error:
        raise Refused(str(error)) from None
    from memsheaf.mcp.http_bind import load_token
    from memsheaf.mcp.offer import Offer

    site.check()
    tree = around(here())
    with call.memory(by="agent", read_only=options.read_only) as memory, site.listen() as listener:
        shown = load_token(settings.state, call.environment, renew=options.new_token)  # last: it is shown only once
        _start_upkeep(settings, call.scopes())
        return serve(
            _service(call, partial(render_instructions, settings, here(), call.scopes())),
            lambda alone: Offer(memory, tree=tree, remember=alone),
            site,
            listener,
            admit_token(shown.text),
            ready=lambda url: _announce(call, url, shown),
        )


def _serve_hub(call: Call) -> int:
    """Serve the members of teams until a signal, and give its number."""
    options, settings = call.options, call.settings()
    site = _endpoint(call)
    from contextlib import closing

    try:
        from memsheaf.hub.server_replicas import MAX_BYTES, MAX_REPLICAS, ServerReplicas
        from memsheaf.hub.service import HubService
        from memsheaf.mcp.http import serve
        from memsheaf.mcp.http_hub import MemberOffer, admit_members, turns_route
    except ImportError as error:
        from memsheaf.adapters import missing

        raise Refused(str(missing("server", error))) from None
    site.check()
    with closing(HubService(options.hub, teams=options.team or ())) as service:
        service.check()
        replicas = ServerReplicas(
            service, settings, most=options.cache_replicas or MAX_REPLICAS, size=options.cache_bytes or MAX_BYTES
        )
        with closing(replicas), site.listen() as listener:
            return serve(
                _service(call),
                lambda alone: MemberOffer(replicas, reading=options.read_only),
                site,
                listener,
                admit_members(service),
                stateless=True,
                routes=[] if options.read_only else [turns_route(service)],
                ready=lambda url: call.announce({"url": url}, f"memsheaf listens at {url}"),
            )


def _announce(call: Call, url: str, token: Token) -> None:
    """Tell where the server is and what opens it: the token itself only when it was just made."""
    where = f"in {token.file}" if token.file else "the one from the environment"
    lines = [f"token: {token.text}  (shown this once, and kept {where})"] if token.is_new else [f"token: {where}"]
    told = {"url": url, "token_file": token.file} | ({"token": token.text} if token.is_new else {})
    call.announce(told, *lines, f"memsheaf listens at {url}")


def _print_config(call: Call) -> int:
    from memsheaf.hosts.clients import CLIENTS, describe_client, render_client
    from memsheaf.hosts.installing import HOSTS, program_words

    client = "-".join(call.options.print_config.lower().split())
    if client == "list":
        return call.answer({"clients": list(CLIENTS)}, CLIENTS, Note("`memsheaf mcp --print-config NAME` prints it"))
    for scope in call.scopes():
        Scope.parse(scope)  # a server would start with any, and fail in the first call
    url = _url(call) if call.options.http else ""
    words = [*program_words(), "mcp", *_scope_words(call)]
    lines = (line + "\n" for line in render_client(client, words=words, url=url))
    also = None
    if client in HOSTS and not url:
        also = Note(f"`memsheaf install {client}` does this, and adds what else it has")
    return call.answer(lambda: describe_client(client, words=words, url=url), "".join(lines).encode(), also)


def _endpoint(call: Call) -> Endpoint:
    """Return where the line says to listen."""
    from memsheaf.mcp.http_bind import Endpoint

    options = call.options
    if bool(options.tls_cert) != bool(options.tls_key):
        raise Usage("--tls-cert and --tls-key go together")
    port = PORT if options.port is None else options.port
    names, certificate, key = tuple(options.allow_host or ()), options.tls_cert or "", options.tls_key or ""
    return Endpoint(options.host or "127.0.0.1", port, names, certificate, key, options.behind_proxy)


def _url(call: Call) -> str:
    """Where clients find the server that this line starts; under another name there is a proxy, which has TLS."""
    site = _endpoint(call)
    if not site.port:
        raise Usage("--print-config needs the port that clients will find: another than 0")
    site.check()
    given = [*site.names, *site.hosts(site.port)][0]
    name, _, port = given.rpartition(":") if given[-1:].isdigit() and ":" in given else (given, "", "")
    proxied = site.names and not site.certificate and name not in _LOOPBACK
    scheme = "https" if proxied or site.certificate else "http"
    if port or not proxied:
        name = f"{name}:{port or site.port}"
    return f"{scheme}://{name}/mcp"


def _scope_words(call: Call) -> list[str]:
    """Which memory is meant, as words for another line: a client need not hand on the environment."""
    options = call.options
    words = [word for scope in options.scope or () for word in ("--scope", scope)]
    words += [word for name in options.agent or () for word in ("--agent", name)]
    for name in ("home", "project"):
        if value := getattr(options, name) or call.environment.get(f"MEMSHEAF_{name.upper()}"):
            words += [f"--{name}", os.path.abspath(value)]
    return [*words, "--read-only"] if options.read_only else words
