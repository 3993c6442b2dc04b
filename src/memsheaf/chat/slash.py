"""Slash commands of the chat. What the command line has runs as it does there."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches
from typing import NamedTuple

from memsheaf.chat.agent import Agent
from memsheaf.chat.screen import JsonScreen, Screen
from memsheaf.errors import MemsheafError
from memsheaf.text.neutralize import one_line

COMMANDS = {
    "memory": ("[list|show FILE|edit FILE|why TEXT|search TEXT]", "what is remembered"),
    "remember": ("TEXT", "save something now"),
    "forget": ("FILE or TEXT", "remove a memory; /undo brings it back"),
    "undo": ("[COMMIT]", "undo the last change of memory, or that one"),
    "ignore": ("TEXT", "say this without memory"),
    "notes": ("[...]", "the project's notes"),
    "task": ("[...]", "the task at hand"),
    "promote": ("[...]", "promote what a task or session found to the project"),
    "review": ("[...]", "what waits to be approved"),
    "dream": ("[status|run]", "consolidate memories, if it is due"),
    "cost": ("[--days N]", "the cost of this conversation and of all others"),
    "compact": ("", "make the conversation shorter"),
    "clear": ("", "begin a new conversation"),
    "model": ("[NAME]", "who answers from here on; offline for no model"),
    "resume": ("[ID]", "list conversations, or go on with one"),
    "plan": ("", "plan mode on or off: nothing is written or run"),
    "allow": ("[reset]", "what you allowed for good"),
    "expand": ("[N]", "a tool call in full, the last or Nth last; or Ctrl-O"),
    "help": ("", "this"),
    "exit": ("", "leave, as Ctrl-D does"),
}
KEYS = "Enter sends; Alt-Enter begins a new line; Ctrl-C stops a turn; // sends /"
MAX_SHOWN_CHARS = 300  # of the last messages
_ON_THE_COMMAND_LINE = ("notes", "task", "promote", "review", "dream")
_GOODBYE = r"(?i)(?:ok,? |thanks,? )?(?:(?:good)?bye|exit|quit|good ?night|see you|tschüss|adiós)(?: bye)?[.! ]*"


class NextStep(NamedTuple):
    """The result of a line: a message to be sent, the end, or the failure of a command."""

    message: str = ""
    leaves: bool = False
    failed: bool = False


class Commands:
    """Slash commands, for one agent.

    `run` runs a line of `memsheaf` in this process, and `files` gives the memories by the names they are shown by.
    """

    def __init__(
        self,
        agent: Agent,
        screen: Screen | JsonScreen,
        run: Callable[[Sequence[str]], int],
        files: Callable[[], Iterable[str]] = lambda: (),
    ) -> None:
        self._agent = agent
        self._screen = screen
        self._run = run
        self._files = files

    def do(self, line: str) -> NextStep:
        """Do what a line says; a line that is no command is a message."""
        name, rest = split(line)
        if not name:
            if re.fullmatch(_GOODBYE, rest):
                self._screen.say("Goodbye.")
                return NextStep(leaves=True)
            return NextStep(rest)
        if name not in COMMANDS:
            close = get_close_matches(name, COMMANDS, 1)
            meant = f"; did you mean /{close[0]} {rest}".rstrip() + "?" if close else "; /help lists them"
            self._screen.note(f"there is no command /{one_line(name, 40)}{meant}", style="red")
            return NextStep(failed=True)
        takes, _ = COMMANDS[name]
        if not rest and takes[:1].isupper():
            self._screen.note(f"/{name} takes {takes}", style="red")
            return NextStep(failed=True)
        try:
            if name in _ON_THE_COMMAND_LINE:
                self._run([name, *split_words(rest)])
                return NextStep()
            return getattr(self, f"_{name}")(rest) or NextStep()
        except MemsheafError as error:
            self._screen.note(str(error), error.hint, "red")
        return NextStep(failed=True)

    def list_candidates(self, text: str) -> list[str]:
        """Return what may stand for the last word of a line that is being typed."""
        if not text.startswith("/") or "\n" in text:
            return []
        *before, last = text.split(" ")
        candidates: Iterable[str] = ()
        if not before:
            candidates = (f"/{name}" for name in COMMANDS)
        elif before in (["/forget"], ["/memory", "show"], ["/memory", "edit"]):
            candidates = self._files()
        elif before == ["/memory"]:
            candidates = ("list", "show", "edit", "why", "search")
        return [each for each in candidates if each.startswith(last) and each != last]

    def _memory(self, rest: str) -> NextStep | None:
        verb, _, text = (rest or "list").partition(" ")
        if verb == "list":
            self._run(["list", *self._scopes(), *split_words(text)])
        elif verb in ("show", "edit", "why", "search") and text.strip():
            self._run([verb, *self._scopes(), "--", text.strip()])
        else:
            self._screen.note(f"/memory takes {COMMANDS['memory'][0]}", style="red")
            return NextStep(failed=True)
        return None

    def _undo(self, rest: str) -> None:
        self._run(["undo", *self._scopes(), *split_words(rest)])

    def _scopes(self) -> list[str]:
        """Return the scopes that this chat was started with as words for a line."""
        return [word for scope in self._agent.memory.layers.given for word in ("--scope", scope)]

    def _remember(self, rest: str) -> NextStep:
        return NextStep(f"Remember this: {rest}")

    def _forget(self, rest: str) -> NextStep | None:
        if rest in self._files():
            self._run(["forget", *self._scopes(), "--", rest])
            return None
        return NextStep(f"Forget what you know about {rest}")

    def _ignore(self, rest: str) -> NextStep:
        return NextStep(f"Ignore memory: {rest}")

    def _cost(self, rest: str) -> None:
        if not rest:
            self._screen.say(f"this conversation: {describe_cost(self._agent) or 'nothing was asked of a model'}")
        self._run(["cost", *split_words(rest)])

    def _compact(self, rest: str) -> None:
        self._screen.say(self._agent.compact())

    def _clear(self, rest: str) -> None:
        self._agent.clear()
        self._screen.say("a new conversation; /resume has the old one")

    def _model(self, rest: str) -> None:
        name = self._agent.use(rest) if rest else self._agent.model_name
        self._screen.say(f"model: {name}")

    def _resume(self, rest: str) -> None:
        if not rest:
            self._run(["conversations"])
            self._screen.note("/resume ID goes on with one; the beginning of an id is enough")
            return
        count = self._agent.resume(rest)
        self._screen.say(f"goes on with {self._agent.id}: {count} messages")
        self.show_last()

    def show_last(self) -> None:
        """Show the last two messages, so that one knows where one was."""
        texts = [said for said in self._agent.conversation if said.role in ("user", "assistant") and said.text]
        for said in texts[-2:]:
            mark = "> " if said.role == "user" else ""
            self._screen.note(mark + one_line(said.text, MAX_SHOWN_CHARS))

    def _plan(self, rest: str) -> None:
        permission = self._agent.permission
        permission.planning = {"on": True, "off": False}.get(rest, not permission.planning)
        self._screen.say("plan mode: nothing is written or run" if permission.planning else "plan mode is off")

    def _allow(self, rest: str) -> None:
        if rest == "reset":
            self._agent.permission.forget()
            self._screen.say("nothing is allowed for good any more: you are asked again")
            return
        rules = self._agent.permission.rules()
        self._screen.say("\n".join(rules) or "nothing was answered with always or never yet")

    def _expand(self, rest: str) -> None:
        self._screen.expand(int(rest) if rest.isdecimal() and len(rest) < 6 else 1)

    def _help(self, rest: str) -> None:
        for name, (takes, text) in COMMANDS.items():
            usage = f"/{name} {takes}".rstrip()
            gap = " " if len(usage) < 24 else f"\n{'':25}"
            self._screen.say(f"{usage:<24}{gap}{text}")
        self._screen.note(KEYS)

    def _exit(self, rest: str) -> NextStep:
        return NextStep(leaves=True)


def split(line: str) -> tuple[str, str]:
    """Return the name of a command and what follows it; "" and the message when a line is no command.

    >>> split("/memory how?"), split("//etc"), split("/etc/hosts is odd"), split("hello")
    (('memory', 'how?'), ('', '/etc'), ('', '/etc/hosts is odd'), ('', 'hello'))
    """
    text = line.strip()
    if text.startswith("//"):
        return "", text[1:]
    command = re.match(r"/([^\s/]+)(?:\s+|\Z)", text)
    return (command[1].lower(), text[command.end() :]) if command else ("", text)


def split_words(rest: str) -> list[str]:
    """Return a line's words as a shell cuts them; at its blanks where the quotes do not fit."""
    try:
        return shlex.split(rest)
    except ValueError:
        return rest.split()


def describe_cost(agent: Agent) -> str:
    """Return what a conversation cost so far, in words; "" when nothing was asked."""
    spent = agent.spent
    if not spent.input and not spent.output:
        return ""
    cached = f" ({spent.cached:,} cached)" if spent.cached else ""
    price = ""
    if spent.dollars:
        price = f" · ${spent.dollars:.2f}" if spent.dollars >= 0.005 else " · <$0.01"
    return f"{spent.input:,} tokens in{cached}, {spent.output:,} out{price}"
