"""The commands that serve memories: to agents, to the workers of a hub, and to a browser."""

import os
import signal
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from memsheaf import __version__
from memsheaf.adapters import missing
from memsheaf.cli.call import Call, Result, has_windows, here, plural
from memsheaf.cli.output import Note
from memsheaf.cli.parser import AnyText, Place, Port, Positive, Usage, Words
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
    from memsheaf.web.links import NewLink

MCP_PORT, WEB_PORT = 8377, 8378
_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")


def mcp(
    call: Call,
    *,
    read_only: bool = False,
    http: bool = False,
    port: Port = None,
    host: str = "",
    allow_host: Words = (),
    tls_cert: Place = "",
    tls_key: Place = "",
    behind_proxy: bool = False,
    new_token: bool = False,
    hub: str = "",
    cache_replicas: Positive = 0,
    print_config: AnyText = None,
) -> Result | int:
    """Serve this memory to agents over the Model Context Protocol.

    Over stdin and stdout by default: the client starts it. With --http, which takes pip install 'memsheaf[mcp]', it
    listens on loopback, and every request needs the token that is printed once and kept in a file that only you can
    read; --json then prints one line, with `url` and `token_file`, as soon as it listens. It serves the project and
    the user; with -s that scope and nothing else. With --read-only nothing can be changed.
    With --hub, which takes pip install 'memsheaf[server]', it serves the members of teams, whom their tokens name,
    or with -s team/NAME of one. --print-config serves nothing: it tells how to add the server to a client, with the
    options of the line.

    arguments:
      --read-only: offer only the tools that read
      --http: serve over HTTP instead of stdin and stdout
      --port PORT: the port to listen on; 8377 when left out, 0 for a free one
      --host HOST: the address to listen on; 127.0.0.1 when left out
      --allow-host NAME: another name that it is reached under, such as a proxy's; may be repeated
      --tls-cert PATH: the certificate, in PEM, to serve HTTPS with
      --tls-key PATH: the key of the certificate, in PEM
      --behind-proxy: a proxy adds TLS; without it or a certificate only loopback is listened on
      --new-token: make a new token, print it, and take no other
      --hub URL: serve the members of teams, whom their tokens name, from this database
      --cache-replicas N: with --hub, keep this many replicas here at most
      --print-config [CLIENT]: print what to paste for a client; without a name, list them

    examples:
      memsheaf mcp
      memsheaf mcp -s user --read-only
      memsheaf mcp --http --port 8377
      memsheaf mcp --http --hub postgresql://memsheaf-service@db.example.com/memory
      memsheaf mcp --print-config claude-code
      memsheaf mcp --print-config codex --http --json
    """
    http_only = {
        "--host": host,
        "--port": port is not None,
        "--allow-host": allow_host,
        "--tls-cert": tls_cert,
        "--tls-key": tls_key,
        "--behind-proxy": behind_proxy,
        "--new-token": new_token,
        "--hub": hub,
    }
    if not http and (given := [name for name, value in http_only.items() if value]):
        raise Usage(f"{given[0]} goes with --http")
    if bool(tls_cert) != bool(tls_key):
        raise Usage("--tls-cert and --tls-key go together")
    site = None
    if http:
        from memsheaf.mcp.http_bind import Endpoint

        number = MCP_PORT if port is None else port
        site = Endpoint(host or "127.0.0.1", number, tuple(allow_host), tls_cert, tls_key, behind_proxy)
    if print_config is not None:
        return _print_config(call, print_config, site, read_only)
    if site:
        if hub:
            ended = _serve_hub(call, hub, site, read_only, cache_replicas)
        else:
            ended = _serve_http(call, site, read_only, new_token)
        if ended == signal.SIGINT:
            raise KeyboardInterrupt
        return 0
    return _serve_stdio(call, read_only)


def _serve_stdio(call: Call, read_only: bool) -> int:
    settings, scopes = call.settings(), call.scopes()
    for scope in scopes:
        Scope.parse(scope)  # what is no scope is told now, and not in every answer
    if call.console.stdin is not None and call.console.stdin.isatty():
        call.console.note("a client starts this, and talks to it over stdin and stdout; Ctrl-D ends it")
        call.console.note("`memsheaf mcp --print-config CLIENT` tells how to add it to one")
    is_whole = not scopes and not read_only  # then it answers the hooks of its host, too
    call.export_places()  # hooks and their worker go by these
    news = _start_upkeep(settings, scopes)

    def instruct(text: str, client: object) -> str:
        news(settings.hub.start_seconds)
        return render_instructions(settings, here(), scopes, text, client)

    def open_offer() -> "Offer":
        from memsheaf.mcp.offer import Offer

        return Offer(call.memory(by="agent", read_only=read_only), tree=around(here()))

    serve(_service(call, read_only, instruct), open_offer, hooks=work_folder() if is_whole else "", news=news)
    return 0


def _service(call: Call, read_only: bool, instruct: Instruct = lambda text, client: text) -> Service:
    return Service(__version__, reading=read_only, tools=call.settings().tools, instruct=instruct)


def _start_upkeep(settings: "Settings", scopes: Sequence[str]) -> Callable[[float], object]:
    """Keep scopes that have a hub in step; return what waits for their news."""
    if not (shared := with_hub(scopes or settings.layers(here()), settings.places(here()))):
        return lambda seconds: None
    from memsheaf.hub.upkeep import HubUpkeep

    return HubUpkeep(settings, here(), shared).wait


def _serve_http(call: Call, site: "Endpoint", read_only: bool, new_token: bool) -> int:
    """Serve this memory until a signal, and return its number."""
    settings = call.settings()
    try:
        from memsheaf.mcp.http import admit_token, serve
    except ImportError as error:
        raise Refused(str(error)) from None
    from memsheaf.mcp.http_bind import load_token
    from memsheaf.mcp.offer import Offer

    site.check()
    tree = around(here())
    with call.memory(by="agent", read_only=read_only) as memory, site.listen() as listener:
        token = load_token(settings.state, call.environment, renew=new_token)  # last: it is shown only once
        _start_upkeep(settings, call.scopes())
        return serve(
            _service(call, read_only, partial(render_instructions, settings, here(), call.scopes())),
            lambda alone: Offer(memory, tree=tree, remember=alone),
            site,
            listener,
            admit_token(token.text),
            ready=lambda url: _announce_server(call, url, token),
        )


def _serve_hub(call: Call, url: str, site: "Endpoint", read_only: bool, replicas: int) -> int:
    """Serve the members of teams until a signal, and return its number."""
    try:
        from memsheaf.hub.server_replicas import MAX_BYTES, MAX_REPLICAS, ServerReplicas
        from memsheaf.hub.service import HubService
        from memsheaf.mcp.http import serve
        from memsheaf.mcp.http_hub import MemberOffer, admit_members, turns_route
    except ImportError as error:
        raise Refused(str(missing("server", error))) from None
    site.check()
    with closing(HubService(url, teams=_teams(call))) as service:
        service.check()
        cache = ServerReplicas(service, call.settings(), most=replicas or MAX_REPLICAS, size=MAX_BYTES)
        with closing(cache), site.listen() as listener:
            return serve(
                _service(call, read_only),
                lambda alone: MemberOffer(cache, reading=read_only),
                site,
                listener,
                admit_members(service),
                stateless=True,
                routes=[] if read_only else [turns_route(service)],
                ready=lambda url: call.announce({"url": url}, f"memsheaf listens at {url}"),
            )


def _teams(call: Call) -> list[str]:
    """Return the teams that -s names. Raises Usage for any other scope."""
    scopes = [Scope.parse(scope) for scope in call.named]
    if any(scope.layer != "team" for scope in scopes):
        raise Usage("--hub serves teams; -s names one, as in -s team/platform")
    return [scope.name for scope in scopes]


def _announce_server(call: Call, url: str, token: "Token") -> None:
    """Tell where the server is and what opens it: the token itself only when it was just made."""
    where = f"in {token.file}" if token.file else "the one from the environment"
    value, line = {"url": url, "token_file": token.file}, f"token: {where}"
    if token.is_new:
        value["token"] = token.text
        line = f"token: {token.text}  (shown this once, and kept {where})"
    call.announce(value, line, f"memsheaf listens at {url}")


def _print_config(call: Call, client: str, site: "Endpoint | None", read_only: bool) -> Result:
    from memsheaf.hosts.clients import CLIENTS, describe_client, render_client
    from memsheaf.hosts.installing import HOSTS, program_words

    client = "-".join(client.lower().split())
    if not client:
        return Result({"clients": [*CLIENTS]}, CLIENTS, Note("`memsheaf mcp --print-config NAME` prints it"))
    for scope in call.scopes():
        Scope.parse(scope)  # a server would start with any, and fail in the first call
    url = _address(site) if site else ""
    words = [*program_words(), "mcp"]  # a client need not hand on the environment
    for scope in call.named:
        words += ["--scope", scope]
    for name, given in (("home", call.home), ("project", call.project)):
        if value := given or call.environment.get(f"MEMSHEAF_{name.upper()}"):
            words += [f"--{name}", os.path.abspath(value)]
    words += ["--read-only"] if read_only else []
    lines = [line + "\n" for line in render_client(client, words=words, url=url)]
    also = f"`memsheaf install {client}` does this, and adds what else it has"
    is_installable = client in HOSTS and not url
    described = describe_client(client, words=words, url=url)
    return Result(described, "".join(lines).encode(), Note(also) if is_installable else None)


def _address(site: "Endpoint") -> str:
    """Return where clients find the server; under another name there is a proxy, which has TLS."""
    if not site.port:
        raise Usage("--print-config needs the port that clients will find: another than 0")
    site.check()
    given = [*site.names, *site.hosts(site.port)][0]
    name, _, port = given.rpartition(":") if given[-1:].isdigit() and ":" in given else (given, "", "")
    is_proxied = site.names and not site.certificate and name not in _LOOPBACK
    scheme = "https" if is_proxied or site.certificate else "http"
    if port or not is_proxied:
        name = f"{name}:{port or site.port}"
    return f"{scheme}://{name}/mcp"


def worker(call: Call, *, hub: str, concurrency: Positive = 1, once: bool = False) -> Result:
    """Learn from the conversations that wait on a hub, for all its members.

    Turns that were sent to `memsheaf mcp --http --hub URL` become memories, in their member's name; those for a team
    become proposals that wait for `memsheaf review -s team/NAME`. Any number of workers may run. A model is asked
    when the settings name one; the caps under [spend] then hold for each team, all workers together. -s team/NAME
    works for one team alone.

    arguments:
      --hub URL: the database, with a service login: postgresql://…
      --concurrency N: do this many jobs at a time (1)
      --once: end when nothing is waiting; what fails is left for later

    examples:
      memsheaf worker --hub postgresql://memsheaf-service@db.example.com/memory
      memsheaf worker --hub "$HUB" --concurrency 4
    """
    try:
        from memsheaf.hub.jobs import HubWorker
        from memsheaf.hub.service import HubService
    except ImportError as error:
        raise Refused(str(missing("server", error))) from None
    with closing(HubService(hub, teams=_teams(call))) as service:
        service.check()
        if not once:
            call.console.note(f"memsheaf learns from what waits at {service.shown}; Ctrl-C ends it")
        with closing(HubWorker(service, call.settings())) as working:
            working.run(concurrency=concurrency, once=once)
            said, failed = f"Learned from {plural(working.turns, 'turn')}", len(working.failed)
            if failed:
                said += f"; {plural(failed, 'job')} failed and will be tried again"
            return Result({"turns": working.turns, "failed": failed}, said, code=1 if failed else 0)


def web(call: Call, *, port: Port = None, read_only: bool = False) -> int:
    """Look at memory in the browser: search, edit, approve, undo. Ctrl-C ends it.

    Takes pip install 'memsheaf[web]'. It serves every scope you have, to this machine alone. The link that is printed
    lets one browser in, once; Enter prints another. The browser is opened where a person sits at it. --json prints
    the link as one JSON line once the page is there. From another machine: ssh -L 8378:127.0.0.1:8378 THIS-MACHINE.

    arguments:
      --port PORT: the port to listen on; 8378 when left out, or a free one if it is taken
      --read-only: show everything, change nothing

    examples:
      memsheaf web
      memsheaf web --read-only
      memsheaf web --json --port 0
    """
    try:
        from memsheaf.web.server import serve
    except ImportError as error:
        raise Refused(str(error)) from None
    from memsheaf.hub.scopes import shared_scopes
    from memsheaf.hub.upkeep import HubUpkeep
    from memsheaf.mcp.http_bind import Endpoint
    from memsheaf.sheaf import AllScopes
    from memsheaf.web.page import Site

    settings = call.settings()
    endpoint = Endpoint(port=WEB_PORT if port is None else port)
    try:
        listener = endpoint.listen()
    except Refused:
        if port is not None:
            raise
        listener = endpoint._replace(port=0).listen()
    call.export_places()  # for the process that makes vectors
    scopes = AllScopes(settings, here(), read_only=read_only)
    upkeep = HubUpkeep(settings, here(), [str(one) for one in shared_scopes(settings, here())])
    with listener, scopes, closing(upkeep), TemporaryDirectory(prefix="memsheaf-") as folder:
        site = Site(scopes, read_only=read_only)
        opens = folder if call.console.interactive and has_windows(call.environment) else ""
        ended = serve(site, endpoint, listener, lambda new_link: _announce_page(call, new_link, opens))
    if ended == signal.SIGINT and not call.console.json:
        call.console.note("ended")
    return 0


def _announce_page(call: Call, new_link: "NewLink", folder: str) -> None:
    """Print a link, open the browser with another, and print one more for each line that comes in."""
    from memsheaf.web.links import hand_out_links, is_pipe

    link, console = new_link(), call.console
    more = "Enter shows another, " if console.interactive else ""
    call.announce({"url": link}, f"memsheaf is at {link}", f"This link works once; {more}Ctrl-C ends it")
    hand_out_links(
        new_link,
        lambda link: call.announce({"url": link}, link),
        folder=folder,
        asks=console.interactive or (console.json and is_pipe(0)),
    )
