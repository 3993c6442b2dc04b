"""The story of the README, typed into a temporary home that is deleted afterwards."""

from __future__ import annotations

import io
import os
import shlex
import tempfile
from collections.abc import Iterator, Mapping
from itertools import chain

from memsheaf.cli import main
from memsheaf.cli.call import Call, Result, here
from memsheaf.cli.output import Styled

STORY = """
# An agent forgets: a new conversation knows nothing.
shop $ memsheaf list
# Tell it once.
shop $ memsheaf remember "I prefer pnpm"
shop $ memsheaf remember "We deploy on Fridays"
# Each fact is a Markdown file that you can read, edit, diff and delete.
shop $ memsheaf show pnpm
# Another conversation, another folder, and it remembers.
blog $ memsheaf list
# With each message an agent gets the memories that matter, found without a key or a network.
shop $ memsheaf recall "when do we ship the next deployment?"
# It also learns from what was said: kept is what lasts, not what holds for the moment.
shop $ echo "User: For now skip the tests. And from now on write commit messages in English." | memsheaf learn -
# Facts change. The old one is replaced, and shown.
shop $ memsheaf remember "We now deploy on Mondays"
# Every change can be taken back, by you or by an agent.
shop $ memsheaf undo
shop $ memsheaf log -n 4
# Secrets are refused.
shop $ memsheaf remember "The admin password is Tr0ub4dor-and-3"
# The catalog goes into the system prompt: one line per memory.
shop $ memsheaf show
"""
END = """
Now your agent: `memsheaf mcp --print-config claude-code` (or codex, cursor, gemini, ...).
That was a temporary home, which is gone now. Yours begins with `memsheaf remember`."""


def demo(call: Call) -> Result:
    """Show what memsheaf does, step by step, in a temporary folder.

    It needs no key and no network, takes a few seconds, and leaves your own memories alone.

    examples:
      memsheaf demo
    """
    lines = chain(play(STORY, call.environment), [END])
    if call.console.json:
        return Result({"text": "\n".join(line.text if isinstance(line, Styled) else line for line in lines)})
    return Result(None, lines)


def play(story: str, environment: Mapping[str, str]) -> Iterator[str | Styled]:
    """Type the lines of a story, each in its folder of a temporary home, and give what they answer."""
    home = here()
    with tempfile.TemporaryDirectory(prefix="memsheaf-demo-") as folder:
        kept = {name: value for name, value in environment.items() if not name.startswith("MEMSHEAF_")}
        environment = {**kept, "MEMSHEAF_HOME": os.path.join(folder, "home")}
        for line in story.strip().split("\n"):
            if line.startswith("# "):
                yield from ("", Styled(line[2:], "bold"), "")
                continue
            place, _, typed = line.partition(" $ ")
            os.makedirs(os.path.join(folder, place, ".git"), exist_ok=True)
            yield Styled(f"  ~/{place} $ {typed}", "cyan")
            words, said = shlex.split(typed), io.StringIO()
            given = io.StringIO(words[1] if words[0] == "echo" else "")
            os.chdir(os.path.join(folder, place))
            try:
                typed_words = words[words.index("memsheaf") + 1 :]
                main(typed_words, environment=environment, stdin=given, stdout=said, stderr=said)
            finally:
                os.chdir(home)
            yield from (f"  {line}".rstrip() for line in said.getvalue().rstrip().split("\n"))
