"""The command that opens the web page."""

from __future__ import annotations

import os
from contextlib import closing

from memsheaf.cli.call import Call, here
from memsheaf.cli.command import LISTENING, Argument, takes, whole
from memsheaf.errors import Refused

PORT = 8378


@takes(
    Argument(
        "--port", f"the port to listen on; {PORT} when left out, or a free one if it is taken", "N", convert=whole
    ),
    Argument("--no-open", "do not open the browser"),
    Argument("--read-only", "show everything, change nothing"),
    *LISTENING,
    scoped=False,
)
def web(call: Call) -> int:
    """Look at memory in the browser: search, edit, approve, undo. Ctrl-C ends it.

    Takes pip install 'memsheaf[web]'. It serves every scope you have, to this machine alone: the address that is
    printed has a token in it, which the browser exchanges for a cookie. --json prints that address as one JSON line
    once the page is there, and opens no browser. From another machine: ssh -L 8378:127.0.0.1:8378 THIS-MACHINE.

    examples:
      memsheaf web
      memsheaf web --read-only
      memsheaf web --no-open --json --port 0
    """
    options, settings, endpoint = call.options, call.settings(), call.endpoint(PORT)
    try:
        from memsheaf.web.server import serve
    except ImportError as error:
        raise Refused(str(error)) from None
    from signal import SIGINT

    from memsheaf.web.page import Site
    from memsheaf.work.all_scopes import AllScopes
    from memsheaf.work.hub_scopes import shared_scopes
    from memsheaf.work.hub_upkeep import HubUpkeep

    endpoint.check()
    try:
        listener = endpoint.listen()
    except Refused:
        if options.port is not None:
            raise
        listener = endpoint._replace(port=0).listen()
    named = {"MEMSHEAF_HOME": options.home and settings.home, "MEMSHEAF_PROJECT": options.project}
    os.environ.update({name: value for name, value in named.items() if value})  # for the process that makes vectors
    scopes = AllScopes(settings, here(), by="user", read_only=options.read_only)
    upkeep = HubUpkeep(settings, here(), [str(one) for one in shared_scopes(settings, here())])
    with listener, scopes, closing(upkeep):
        ended = serve(Site(scopes, read_only=options.read_only), endpoint, listener, lambda url: _announce(call, url))
    if ended == SIGINT and not call.console.json:
        call.console.note("ended")
    return 0


def _announce(call: Call, url: str) -> None:
    """Tell where the page is, and open it."""
    call.announce({"url": url}, f"memsheaf is at {url}", "Ctrl-C ends it")
    if not call.options.no_open and not call.console.json:
        import threading
        import webbrowser

        threading.Thread(target=webbrowser.open, args=(url,), daemon=True).start()
