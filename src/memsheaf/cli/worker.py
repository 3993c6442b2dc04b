"""The command that learns for the scopes of a hub."""

from __future__ import annotations

from contextlib import closing

from memsheaf.adapters import missing
from memsheaf.cli.call import Call, plural
from memsheaf.cli.command import Argument, takes
from memsheaf.errors import Refused

HUB = Argument("--hub", "the database, with a service login: postgresql://…", "URL", required=True)


@takes(
    HUB,
    Argument("--team", "work for this team alone", "NAME", repeated=True),
    Argument("--concurrency", "do this many jobs at a time; 1 when left out", "N"),
    Argument("--once", "end when nothing is waiting; what fails is left for later"),
)
def worker(call: Call) -> int:
    """Learn from the conversations that wait on a hub, for all its members.

    Turns that were sent to `memsheaf mcp --http --hub URL` become memories, in their member's name; those for a team
    become proposals that wait for `memsheaf review --scope team/NAME`. Any number of workers may run. A model is
    asked when the settings name one; the caps under [spend] then hold for each team, all workers together.

    examples:
      memsheaf worker --hub postgresql://memsheaf-service@db.example.com/memory
      memsheaf worker --hub "$HUB" --concurrency 4
      memsheaf worker --hub "$HUB" --once
    """
    try:
        from memsheaf.hub.jobs import HubWorker
        from memsheaf.hub.service import HubService
    except ImportError as error:
        raise Refused(str(missing("server", error))) from None
    options = call.options
    with closing(HubService(options.hub, teams=options.team or ())) as service:
        service.check()
        if not options.once:
            call.console.note(f"memsheaf learns from what waits at {service.shown}; Ctrl-C ends it")
        with closing(HubWorker(service, call.settings())) as working:
            working.run(concurrency=options.concurrency or 1, once=options.once)
            said, failed = f"Learned from {plural(working.turns, 'turn')}", len(working.failed)
            if failed:
                said += f"; {plural(failed, 'job')} failed and will be tried again"
            return call.answer({"turns": working.turns, "failed": failed}, said, code=1 if failed else 0)
