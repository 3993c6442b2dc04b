"""Slash commands of the chat. What the command line has runs as it does there."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches
from typing import NamedTuple

from memsheaf.chat.agent import Agent
from memsheaf.chat.terminal.screen import JsonScreen, Screen
from memsheaf.errors import MemsheafError
from memsheaf.text.neutralize import one_line


class SlashCommand(NamedTuple):
    """One command: what it takes, what it does, and the words that may follow it."""

    takes: str
    help: str
    words: tuple[str, ...] = ()


COMMANDS = {
    "memory": SlashCommand(
        "[list|show FILE|edit FILE|why TEXT|search TEXT|undo|web]",
        "what is remembered; web: in the browser",
        ("list", "show", "edit", "why", "search", "undo", "web"),
    ),
    "remember": SlashCommand("TEXT", "save something now"),
    "forget": SlashCommand("FILE or TEXT", "remove a memory; /undo brings it back"),
    "undo": SlashCommand("[COMMIT]", "undo the last change of memory, or that one"),
    "recall": SlashCommand("TEXT", "what would be recalled for such a message"),
    "ignore": SlashCommand("TEXT", "say this without memory"),
    "notes": SlashCommand("[...]", "the project's notes"),
    "task": SlashCommand("[...]", "the task at hand"),
    "promote": SlashCommand("[...]", "promote what a task or session found to the project"),
    "review": SlashCommand("[...]", "what waits to be approved"),
    "dream": SlashCommand("[status|run]", "consolidate memories, if it is due", ("status", "run")),
    "cost": SlashCommand("[--days N]", "what this conversation and all others cost"),
    "compact": SlashCommand("", "make the conversation shorter"),
    "clear": SlashCommand("", "begin a new conversation"),
    "model": SlashCommand("[NAME]", "who answers from here on; offline for no model"),
    "resume": SlashCommand("[ID]", "list conversations, or go on with one"),
    "plan": SlashCommand("", "plan mode on or off: nothing is written or run"),
    "allow": SlashCommand("[reset]", "what you allowed for good", ("reset",)),
    "expand": SlashCommand("[N]", "a tool call in full, the last or Nth last; or Ctrl-O"),
    "help": SlashCommand("", "this"),
    "exit": SlashCommand("", "leave, as Ctrl-D does"),
}
KEYS = "Enter sends; Alt-Enter begins a new line (with memsheaf[chat]); Ctrl-C stops a turn; // sends /"
_ALIASES = {"quit": "exit", "q": "exit", "?": "help", "new": "clear", "models": "model"}
_ON_A_LINE = ("notes", "task", "promote", "review", "dream")  # as the command line has them
_SHOWN_LAST = 300


class NextStep(NamedTuple):
    """What is to happen next: a message to be sent, or the end; or that nothing came of a command."""

    message: str = ""
    ignore: bool = False
    leave: bool = False
    failed: bool = False


class Commands:
    """Slash commands, for one agent.

    `run` runs a line of `memsheaf` in this process, `complete` tells what may stand on such a line, `files` which
    memories there are, by the names under which they are shown. `web` opens the page and gives its address.
    """

    def __init__(
        self,
        agent: Agent,
        screen: Screen | JsonScreen,
        run: Callable[[Sequence[str]], int],
        *,
        files: Callable[[], Iterable[str]] = lambda: (),
        conversations: Callable[[], Iterable[str]] = lambda: (),
        complete: Callable[[Sequence[str]], list[str]] = lambda words: [],
        web: Callable[[], str] = lambda: "",
    ) -> None:
        self._agent = agent
        self._screen = screen
        self._run = run
        self._files = files
        self._conversations = conversations
        self._complete = complete
        self._web = web
        self._known: dict[str, list[str]] = {}  # looked up once for each line that is typed

    def do(self, line: str) -> NextStep:
        """Do what a line says; a line that is no command is a message."""
        self._known.clear()
        name, rest = split(line)
        if name is None:
            return NextStep(leave=True) if rest.strip().lower() in ("exit", "quit") else NextStep(rest)
        name = _ALIASES.get(name, name)
        if name not in COMMANDS:
            if close := get_close_matches(name, [*COMMANDS, *_ALIASES], 1):
                self._suggest(f"there is no command /{one_line(name, 40)}", f"/{close[0]} {rest}".rstrip())
            else:
                self._screen.note(f"there is no command /{one_line(name, 40)}", "/help lists them.", "red")
        elif not rest and COMMANDS[name].takes[:1].isupper():
            self._refuse(name)
        else:
            try:
                if name not in _ON_A_LINE:
                    return getattr(self, f"_{name}")(rest) or NextStep()
                self._run([name, *split_words(rest)])
                return NextStep()
            except MemsheafError as error:
                self._screen.note(str(error), error.hint, "red")
        return NextStep(failed=True)

    def _suggest(self, problem: str, line: str) -> None:
        self._screen.note(f"{problem}; did you mean {line}?", style="red")

    def _refuse(self, name: str) -> None:
        self._screen.note(f"/{name} takes {COMMANDS[name].takes}", style="red")

    def candidates(self, text: str) -> list[str]:
        """What may stand for the last word of a line that is being typed."""
        if not text.startswith("/") or "\n" in text:
            return []
        name, space, rest = text[1:].partition(" ")
        if not space:
            return [f"/{one}" for one in COMMANDS if one.startswith(name)]
        words = rest.split(" ")
        found = self._words(_ALIASES.get(name, name), words)
        return [one for one in found if one.startswith(words[-1]) and one != words[-1]]

    def _words(self, name: str, words: list[str]) -> Iterable[str]:
        first = len(words) == 1
        if (name == "memory" and len(words) == 2 and words[0] in ("show", "edit")) or (name == "forget" and first):
            return self._known.get("files") or self._known.setdefault("files", list(self._files()))
        if name == "resume" and first:
            return self._known.get("ids") or self._known.setdefault("ids", list(self._conversations()))
        if name in COMMANDS and COMMANDS[name].words and first:
            return COMMANDS[name].words
        return self._complete([name, *words]) if name in (*_ON_A_LINE, "cost") else ()

    def _memory(self, rest: str) -> None:
        what, _, rest = (rest or "list").partition(" ")
        rest = rest.strip()
        if what == "list":
            self._run(["list", *self._scopes(), *split_words(rest)])
        elif what in ("show", "edit", "why", "search") and rest:
            self._run_about(what, rest)
        elif what == "undo":
            self._undo(rest)
        elif what == "web":
            self._screen.say(f"the memories are at {self._web()}")
            self._screen.note("the page is served until this chat ends")
        elif close := get_close_matches(what, set(COMMANDS["memory"].words) - {what}, 1):
            self._suggest(f"/memory has no {one_line(what, 40)}", f"/memory {close[0]} {rest}".rstrip())
        else:
            self._refuse("memory")

    def _undo(self, rest: str) -> None:
        self._run(["undo", *self._scopes(), *split_words(rest)])

    def _run_about(self, command: str, text: str) -> None:
        """Run a command about a text or a file that is taken as it was typed."""
        self._run([command, *(["--help"] if text in ("--help", "-h") else [*self._scopes(), "--", text])])

    def _scopes(self) -> list[str]:
        """The scopes of this chat as words for a line, where it is not about those that commands are about anyway."""
        return [word for scope in self._agent.memory.layers.given for word in ("--scope", scope)]

    def _remember(self, rest: str) -> NextStep:
        return NextStep(f"Remember this: {rest}")

    def _forget(self, rest: str) -> NextStep | None:
        is_file = rest.endswith(".md") and (" " not in rest or rest in self._files())
        if not is_file and rest not in ("--help", "-h"):
            return NextStep(f"Forget what you know about {rest}")
        self._run_about("forget", rest)
        return None

    def _recall(self, rest: str) -> None:
        self._run_about("recall", rest)

    def _ignore(self, rest: str) -> NextStep:
        return NextStep(rest, ignore=True)

    def _cost(self, rest: str) -> None:
        if not rest:
            self._screen.say(f"this conversation: {render_cost(self._agent) or 'nothing was asked of a model'}")
        self._run(["cost", *split_words(rest)])

    def _compact(self, rest: str) -> None:
        self._screen.say(self._agent.compact())

    def _clear(self, rest: str) -> None:
        self._agent.clear()
        self._screen.say("a new conversation; /resume has the old one")

    def _model(self, rest: str) -> None:
        if not rest:
            self._screen.say(f"model: {self._agent.talker.name}")
            self._screen.note("/model NAME switches to another; `memsheaf models` lists them")
            return
        self._screen.say(f"model: {self._agent.use(rest)}")

    def _resume(self, rest: str) -> None:
        if not rest:
            self._run(["conversations"])
            self._screen.note("/resume ID goes on with one; the beginning of an id is enough")
            return
        count = self._agent.resume(rest)
        self._screen.say(f"goes on with {self._agent.id}: {count} messages")
        self.show_last()

    def show_last(self) -> None:
        """Show what was said last, so that one knows where one was."""
        said = [one for one in self._agent.conversation if one.role in ("user", "assistant") and one.text]
        for one in said[-2:]:
            self._screen.note(f"{'> ' if one.role == 'user' else ''}{one_line(one.text, _SHOWN_LAST)}")

    def _plan(self, rest: str) -> None:
        permission = self._agent.permission
        permission.planning = {"on": True, "off": False}.get(rest, not permission.planning)
        self._screen.say("plan mode: nothing is written or run" if permission.planning else "plan mode is off")

    def _allow(self, rest: str) -> None:
        if rest == "reset":
            self._agent.permission.forget()
            self._screen.say("nothing is allowed for good any more: you are asked again")
            return
        if rest:
            self._refuse("allow")
            return
        rules = self._agent.permission.rules()
        self._screen.say("\n".join(rules) or "nothing was answered with always or never yet")

    def _expand(self, rest: str) -> None:
        self._screen.expand(int(rest) if rest.isdecimal() and len(rest) < 6 else 1)

    def _help(self, rest: str) -> None:
        shown = {f"/{name} {one.takes}".rstrip(): one.help for name, one in COMMANDS.items()}
        cells = [(usage if len(usage) <= 24 else f"{usage}\n{'':<24}", said) for usage, said in shown.items()]
        self._screen.say("\n".join(f"{usage:<24}  {said}" for usage, said in cells))
        self._screen.note(KEYS)

    def _exit(self, rest: str) -> NextStep:
        return NextStep(leave=True)


def split(line: str) -> tuple[str | None, str]:
    """The name of a command and what follows it; None and the message when a line is no command.

    >>> split("/recall how?"), split("//etc"), split("/etc/hosts is odd"), split("hello")
    (('recall', 'how?'), (None, '/etc'), (None, '/etc/hosts is odd'), (None, 'hello'))
    """
    text = line.strip()
    if text.startswith("//"):
        return None, text[1:]
    first, *more = text.split(None, 1)[:2] or [""]
    if not first.startswith("/") or "/" in first[1:]:
        return None, text
    return first[1:].lower(), more[0].strip() if more else ""


def split_words(rest: str) -> list[str]:
    """A line's words as a shell cuts them; at its blanks where the quotes do not fit."""
    try:
        return shlex.split(rest)
    except ValueError:
        return rest.split()


def render_cost(agent: Agent) -> str:
    """What a conversation cost so far, in words; "" when nothing was asked."""
    spent = agent.spent
    if not spent.input and not spent.output:
        return ""
    cached = f" ({spent.cached:,} cached)" if spent.cached else ""
    price = "" if spent.dollars is None else f" · ${spent.dollars:.2f}" if spent.dollars >= 0.005 else " · <$0.01"
    return f"{spent.input:,} tokens in{cached}, {spent.output:,} out{price if spent.dollars != 0 else ''}"
