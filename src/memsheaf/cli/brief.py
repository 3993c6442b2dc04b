"""The command that tells where the work stands."""

from __future__ import annotations

from memsheaf.cli.command import SESSION, TASK, takes

# Known to type checkers under this name, so that a command imports only what it uses.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from memsheaf.cli.call import Call


@takes(TASK, SESSION, scoped=False)
def brief(call: Call) -> int:
    """Tell where the work stands: NOTES.md, the task, and the notes of the session.

    It is made of the files alone, so it is what an agent needs to go on after its context was lost. Where several
    tasks are active or several sessions open and none is named, they are listed.

    examples:
      memsheaf brief
      memsheaf brief --task feature-x --json
    """
    with call.layers(task=call.options.task, session=call.options.session, read_only=True) as layers:
        if call.console.json:
            return call.console.answer(layers.standing())
        text = layers.brief()
    if not text:
        call.console.note("there are no notes, no task and no session here yet; `memsheaf task start` begins one")
        return 0
    call.console.exact(text.encode())
    return 0
