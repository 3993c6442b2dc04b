"""The command that opens the web page."""

from __future__ import annotations

import signal
from contextlib import closing
from tempfile import TemporaryDirectory

from memsheaf.cli.call import Call, here
from memsheaf.cli.command import Argument, takes
from memsheaf.errors import Refused
from memsheaf.mcp.http_bind import Endpoint
from memsheaf.sheaf import AllScopes
from memsheaf.web.links import NewLink, hand_out_links, is_pipe

PORT = 8378


@takes(
    Argument("--port", f"the port to listen on; {PORT} when left out, or a free one if it is taken", "PORT"),
    Argument("--no-open", "do not open the browser"),
    Argument("--read-only", "show everything, change nothing"),
    scoped=False,
)
def web(call: Call) -> int:
    """Look at memory in the browser: search, edit, approve, undo. Ctrl-C ends it.

    Takes pip install 'memsheaf[web]'. It serves every scope you have, to this machine alone. The link that is printed
    lets one browser in, once; Enter prints another. --json prints the link as one JSON line once the page is there,
    and opens no browser. From another machine: ssh -L 8378:127.0.0.1:8378 THIS-MACHINE.

    examples:
      memsheaf web
      memsheaf web --read-only
      memsheaf web --no-open --json --port 0
    """
    options, settings = call.options, call.settings()
    endpoint = Endpoint(port=PORT if options.port is None else options.port)
    try:
        from memsheaf.web.server import serve
    except ImportError as error:
        raise Refused(str(error)) from None

    from memsheaf.hub.scopes import shared_scopes
    from memsheaf.hub.upkeep import HubUpkeep
    from memsheaf.web.page import Site

    try:
        listener = endpoint.listen()
    except Refused:
        if options.port is not None:
            raise
        listener = endpoint._replace(port=0).listen()
    call.export_places()  # for the process that makes vectors
    scopes = AllScopes(settings, here(), read_only=options.read_only)
    upkeep = HubUpkeep(settings, here(), [str(one) for one in shared_scopes(settings, here())])
    with listener, scopes, closing(upkeep), TemporaryDirectory(prefix="memsheaf-") as folder:
        made = Site(scopes, read_only=options.read_only)
        ended = serve(made, endpoint, listener, lambda new_link: _announce(call, new_link, folder))
    if ended == signal.SIGINT and not call.console.json:
        call.console.note("ended")
    return 0


def _announce(call: Call, new_link: NewLink, folder: str) -> None:
    """Print a link, open the browser with another, and print one more for each line that comes in."""
    link, console = new_link(), call.console
    more = "Enter shows another, " if console.interactive else ""
    call.announce({"url": link}, f"memsheaf is at {link}", f"This link works once; {more}Ctrl-C ends it")
    hand_out_links(
        new_link,
        lambda link: call.announce({"url": link}, link),
        folder="" if call.options.no_open or console.json else folder,
        asks=console.interactive or (console.json and is_pipe(0)),
    )
