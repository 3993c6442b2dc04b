"""Commands about the coding agents that memsheaf is a guest in: their hooks, and memory on and off."""

from __future__ import annotations

from memsheaf.cli.call import Call, here
from memsheaf.cli.command import Argument, takes
from memsheaf.hosts import hook as hooks
from memsheaf.hosts.events import KINDS
from memsheaf.hosts.switch import EVERYWHERE, read_switch, set_switch
from memsheaf.scope import project_root


@takes(
    Argument("host", "the agent that calls, such as claude-code", "HOST", required=True),
    Argument("event", "the agent's own name of the event", "EVENT", choices=tuple(KINDS)),
)
def hook(call: Call) -> int:
    """Answer an event of a coding agent; `memsheaf install` puts this into its settings.

    The agent's JSON comes on standard input, and what it is to take over goes to standard output. It always exits
    with 0: what went wrong is in `hooks.log` of the state directory, and `memsheaf doctor` shows it. The deadline is
    4 seconds; MEMSHEAF_HOOK_MS sets another.

    examples:
      echo '{"session_id": "s1"}' | memsheaf hook claude-code SessionStart
      echo '{"session_id": "s1", "prompt": "when do we deploy?"}' | memsheaf hook claude-code UserPromptSubmit
    """
    return hooks.run([call.options.host, call.options.event or ""])


_EVERYWHERE = Argument("--everywhere", "in every project")


@takes(_EVERYWHERE)
def off(call: Call) -> int:
    """Turn memory off in coding agents: nothing is recalled, and nothing is kept.

    In the project you are in, or in every project; `export MEMSHEAF_OFF=1` does it for one shell. Nothing that is
    remembered changes, and commands work as ever.

    examples:
      memsheaf off
      memsheaf off --everywhere
    """
    return _switch(call, off=True)


@takes(_EVERYWHERE)
def on(call: Call) -> int:
    """Turn memory on again in coding agents.

    examples:
      memsheaf on
      memsheaf on --everywhere
    """
    return _switch(call, off=False)


def _switch(call: Call, *, off: bool) -> int:
    settings = call.settings()
    root = project_root(settings.places(here()))
    where = EVERYWHERE if call.options.everywhere else root
    set_switch(settings.state, where, off=off)
    still = [one for one in read_switch(settings.state) if one in (EVERYWHERE, root)]
    said = f"memory is {'off' if off else 'on'} {'in every project' if where == EVERYWHERE else 'in this project'}"
    if still and not off:
        rest = "everywhere: `memsheaf on --everywhere`" if EVERYWHERE in still else "in this project: `memsheaf on`"
        said += f"; it is still off {rest}"
    return call.answer({"off": still}, said)
