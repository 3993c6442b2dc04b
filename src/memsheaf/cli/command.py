"""The commands, what each may take, and how the words of a line become its options.

Read without argparse: the standard library's parser takes longer to load than most commands take to run. Only the
command that runs is imported.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import SimpleNamespace
from typing import NamedTuple

Options = SimpleNamespace  # the values of a line: an attribute for each argument
Run = Callable[..., int]  # of a Call

MODULES = {
    "changes": "remember add update edit forget",
    "history": "log diff blame undo redo restore erase",
    "read": "list show search recall why catalog prompt",
    "checks": "cite verify audit doctor index",
    "learn": "inbox extract review diary",
    "consolidate": "consolidate dream expect compact",
    "notes": "brief notes fact",
    "tasks": "session task",
    "promote": "promote",
    "admin": "scopes models cost",
    "transfer": "export import",
    "settings": "config",
    "repository": "init trust",
    "hub": "hub",
    "team": "team",
    "chat": "chat conversations",
    "mcp": "mcp",
    "worker": "worker",
    "web": "web",
    "install": "install uninstall link unlink",
    "plugin": "plugin",
    "hosts": "on off",
    "demo": "demo",
    "reference": "help completion",
}
COMMANDS = {name: module for module, names in MODULES.items() for name in names.split()}
HIDDEN = {"hook": "hosts"}  # what coding agents call

EVERYDAY = {
    "remember TEXT": "save a fact; type, name and scope are chosen for you",
    "recall MESSAGE": "what an agent would see with that message",
    "list": "what is remembered here: the project's and yours",
    "search WORDS": "find memories by words",
    "show MEMORY": "read one; its file, its name or a part of it",
    "edit MEMORY": "change one in your editor",
    "forget MEMORY": "delete one, or many with --all",
    "undo": "take the last change back, whatever it was",
    "log": "what changed, when and by whom",
    "review": "approve or reject what was learned",
    "web": "look at all of it in your browser",
    "chat": "talk with an agent that remembers",
    "install": "in Claude Code, Codex, Cursor and others",
}
"""What the first screen shows."""

THEMES = {
    "Save and change": "remember add update edit forget",
    "Look": "list show search recall why catalog prompt",
    "Evidence": "cite verify",
    "Learn": "inbox extract review consolidate dream expect",
    "Notes and tasks": "brief notes fact session task promote audit compact diary",
    "What happened": "log diff blame undo redo restore erase",
    "Move": "export import",
    "Share": "hub team",
    "Talk": "chat conversations web",
    "Agents": "install uninstall link unlink on off mcp worker plugin",
    "Set up": "demo config scopes init trust doctor index models cost",
    "Help": "help completion",
}

_OTHER_NAMES = {
    "forget": "remove delete rm",
    "show": "cat read view",
    "remember": "save note store learn",
    "add": "write new",
    "config": "settings set",
    "edit": "correct change fix insert pin unpin rename move mv",
    "list": "ls",
    "search": "find",
    "log": "history",
    "update": "replace",
    "verify": "check",
}
ALIASES = {alias: name for name, aliases in _OTHER_NAMES.items() for alias in aliases.split()}
"""What people type who are used to other programs."""


class Usage(Exception):
    """The line was written wrongly; nothing was done."""


class UnquotedText(Usage):
    """An option stands between two words of a text, where it would be missing from the text."""


def text(value: str) -> str:
    """Refuse bytes that are not UTF-8, which reach a program as half characters."""
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError("it is not UTF-8 text") from None
    return value


def non_empty(value: str) -> str:
    """Refuse an empty text, so that an unset variable never means a default."""
    if not value.strip():
        raise ValueError("it is empty")
    return text(value)


def place(value: str) -> str:
    """The name of a file or folder of this machine, in whatever encoding."""
    if not value or "\0" in value:
        raise ValueError("it is empty, or holds a zero byte")
    return value


def version(value: str) -> str:
    """The beginning of a version or commit, as `log` prints it.

    >>> version("98AF5CB2FC62")
    '98af5cb2fc62'
    """
    if not re.fullmatch(r"[0-9a-f]{4,64}", value.lower()):
        raise ValueError("give at least 4 of the digits that `memsheaf log --full` shows")
    return value.lower()


def whole(value: str) -> int:
    """A whole number, 0 or more."""
    if not (value.isascii() and value.isdigit() and len(value) < 10):
        raise ValueError("it is not a whole number, 0 or more")
    return int(value)


def positive(value: str) -> int:
    """A whole number, 1 or more."""
    if (number := whole(value)) == 0:
        raise ValueError("it must be 1 or more")
    return number


def port(value: str) -> int:
    """A port to listen on, 0 for a free one."""
    if (number := whole(value)) > 65_535:
        raise ValueError("it must be at most 65535")
    return number


_CONVERT: Mapping[str, Callable[[str], object]] = {
    **dict.fromkeys(("DIR", "PATH", "SOURCE", "TARGET"), place),
    **dict.fromkeys(("OLDER", "NEWER", "COMMIT", "VERSION"), version),
    **dict.fromkeys(("N", "DAYS", "TOKENS"), positive),
    "PORT": port,
}
_FREE_TEXT = ("TEXT", "MESSAGE", "WORD", "WORDS")
"""Values that are a person's own sentence, if they may take several words."""


class Argument(NamedTuple):
    """One thing that may stand on a command's line.

    An option's `name` begins with `--`, and without `value` it is a switch. `convert` need not be given where the
    `value` tells. A value must not be empty unless `convert` says otherwise. `short` is another way to write an
    option, such as -p. An option with a `bare` value may stand without one, before another option or at the end, and
    means that.
    """

    name: str
    help: str
    value: str = ""
    required: bool = False
    repeated: bool = False
    choices: tuple[str, ...] = ()
    default: object = None
    convert: Callable[[str], object] | None = None
    short: str = ""
    bare: str = ""

    @property
    def is_option(self) -> bool:
        """Whether it is written with its name."""
        return self.name.startswith("--")

    @property
    def attribute(self) -> str:
        """The name its value has among the options."""
        return self.name.removeprefix("--").replace("-", "_")

    @property
    def shown(self) -> str:
        """How the argument is written in a usage line."""
        if not self.is_option:
            return self.value
        value = f"[{self.value}]" if self.bare else self.value
        return f"{self.name} {value}".rstrip()

    def converted(self, value: str) -> object:
        """The value of a word. Raises Usage."""
        what = self.name if self.is_option else self.value
        try:
            converted = (self.convert or _CONVERT.get(self.value, non_empty))(value)
        except ValueError as error:
            raise Usage(f"{what} {value[:80]!r}: {error}") from None
        if self.choices and converted not in self.choices:
            raise Usage(f"{what} {value[:80]!r} is none of {', '.join(self.choices)}")
        return converted


class Command(NamedTuple):
    """A command: its help, what it runs and what its line may hold; or a group of actions, such as `task start`.

    One that is not `scoped` works on the project with its tasks and sessions, whatever scope is usual. A group's line
    that names no action is one for the `default` action.
    """

    help: str
    run: Run | None = None
    arguments: tuple[Argument, ...] = ()
    scoped: bool = True
    actions: dict[str, "Command"] = {}  # noqa: RUF012
    default: str = ""

    def action(self, *arguments: Argument) -> Callable[[Run], "Command"]:
        """Add a function to the group as the action of its name."""

        def add(run: Run) -> Command:
            name = run.__name__.partition("_")[0]
            self.actions[name] = Command(_unindented(run.__doc__), run, arguments, self.scoped)
            return self.actions[name]

        return add

    @property
    def summary(self) -> str:
        """The sentence that says what the command does."""
        return self.help.partition("\n")[0]

    @property
    def details(self) -> str:
        """What else there is to know, without the examples."""
        return self.help.partition("\n")[2].partition("examples:\n")[0].strip("\n")

    @property
    def examples(self) -> list[str]:
        """Lines that can be typed as they stand."""
        return [line.strip() for line in self.help.partition("examples:\n")[2].split("\n") if line.strip()]


def takes(*arguments: Argument, scoped: bool = True) -> Callable[[Run], Command]:
    """Make a function a command that takes these arguments. Its docstring is the help."""
    return lambda run: Command(_unindented(run.__doc__), run, arguments, scoped)


def group(help: str, *, default: str = "", scoped: bool = True) -> Command:
    """Make a command of actions, which `Command.action` adds."""
    return Command(_unindented(help), scoped=scoped, actions={}, default=default)


def _unindented(text: str | None) -> str:
    return "\n".join(line.removeprefix("    ") for line in (text or "").strip().split("\n"))


def load(name: str) -> Command:
    """The command of that name. Raises Usage when there is none."""
    module_name = COMMANDS.get(name) or HIDDEN.get(name)
    if not module_name:
        meant = f"; did you mean {ALIASES[name]}?" if name in ALIASES else _closest(name, COMMANDS)
        raise Usage(f"there is no command {name!r}{meant}")
    module = __import__(f"memsheaf.cli.{module_name}", fromlist=(name,))
    command = getattr(module, f"{name}_", None) or getattr(module, name)  # `list_`, where Python has the name
    assert isinstance(command, Command)
    return command


FILE = Argument("file", "which memory: its file, its name, or a part of either", "MEMORY", required=True)
ANYWAY = Argument("--anyway", "store it even if another memory says it already")
ALLOW_SECRET = Argument("--allow-secret", "store it even if a password, a key or a token is in it, in plain text")
DRY_RUN = Argument("--dry-run", "show what would be done, and change nothing")
MODEL = Argument("--model", "ask this model instead of the one in the settings; none: rules alone", "NAME")
_SOURCE = "a conversation: Claude Code's JSONL, JSON messages or plain text; - is standard input"
CONVERSATION = Argument("source", _SOURCE, "FILE", convert=place)
TASK = Argument("--task", "which task; else MEMSHEAF_TASK, else the only active one", "SLUG")
_WHICH = "which session; else MEMSHEAF_SESSION, else the only open one"
SESSION = Argument("--session", _WHICH, "ID")
_WHOSE = "whose memory: user, project, agent/NAME, task/SLUG, session/ID or team/NAME"

EVERYWHERE = (
    Argument("--scope", _WHOSE, "SCOPE", repeated=True),
    Argument("--agent", "the same as --scope agent/NAME", "NAME", repeated=True),
    Argument("--home", "where memories live, instead of ~/.memsheaf", "DIR"),
    Argument("--project", "where the project's memories live, instead of its usual place", "DIR"),
    Argument("--json", "print one JSON document, also for errors"),
    Argument("--help", "show this", short="-h"),
)
"""What every command takes, before or after its name."""


def all_arguments(command: Command) -> tuple[Argument, ...]:
    """What a command takes; its own arguments count more than those of every command."""
    own = {one.attribute for one in command.arguments}
    return (*command.arguments, *(one for one in EVERYWHERE if one.attribute not in own))


def empty_options(arguments: Iterable[Argument]) -> Options:
    """An attribute for each argument, None or its default, as if nothing stood on the line."""
    options = Options()
    for one in arguments:
        is_switch, is_list = one.is_option and not one.value, one.repeated and not one.is_option
        setattr(options, one.attribute, False if is_switch else [] if is_list else one.default)
    return options


def split_first(words: Sequence[str], arguments: Iterable[Argument] = EVERYWHERE) -> tuple[str, list[str]]:
    """The first word that is no option nor its value ("" when there is none), and all other words.

    >>> split_first(["--scope", "user", "list", "--json"])
    ('list', ['--scope', 'user', '--json'])
    """
    valued = {argument.name for argument in arguments if argument.is_option and argument.value}
    at = 0
    while at < len(words) and _is_option(words[at]) and words[at] != "--":
        at += 2 if words[at] in valued else 1
    if at >= len(words) or words[at] == "--":
        return "", list(words)
    return words[at], [*words[:at], *words[at + 1 :]]


def split_action(name: str, command: Command, words: Sequence[str]) -> tuple[str, list[str]]:
    """The action of a group that a line is about, and its words. Raises Usage when there is no such action."""
    known = [one for action in command.actions.values() for one in action.arguments]
    first, rest = split_first(words, [*known, *EVERYWHERE])
    if first in command.actions:
        return first, rest
    default = command.actions.get(command.default)
    if default and (not first or any(not one.is_option for one in default.arguments)):
        return command.default, list(words)
    wrong = f"there is no action {first!r}{_closest(first, command.actions)}" if first else "ACTION is missing"
    raise Usage(f"{wrong}; `memsheaf {name}` has the actions {', '.join(command.actions)}")


def parse(command: Command, words: Sequence[str], siblings: Mapping[str, Command] | None = None) -> Options:
    """Return the values on the line.

    An option may stand before or after a text of several words, but not inside it: `remember always pass --json to
    it` would store a sentence without its `--json`.

    Raises:
        UnquotedText: an option stands inside a text.
        Usage: the line makes no sense; the message names the sibling that has an option.
    """
    arguments = all_arguments(command)
    named = {name: one for one in arguments if one.is_option for name in (one.name, one.short) if name}
    options, given = empty_options(arguments), set()
    places = [one for one in arguments if not one.is_option]
    rest, only_words = list(words), False
    text_start, last_option = 0, ""
    while rest:
        at = len(words) - len(rest)
        word = rest.pop(0)
        if word == "--" and not only_words:
            only_words, last_option = True, word
            continue
        if only_words or not _is_option(word):
            if not places:
                raise Usage(f"{word[:80]!r} is one word too many; quote a text that has spaces")
            argument, value = places[0], word
            if not argument.repeated:
                places.pop(0)
            elif argument not in given:
                text_start = at
            elif last_option and argument.value in _FREE_TEXT:
                raise UnquotedText(_advise_quotes(command, words, text_start, at))
            last_option = ""
        else:
            name, sign, value = word.partition("=")
            last_option = word
            if name not in named and places and places[0] in given and places[0].value in _FREE_TEXT:
                raise UnquotedText(_advise_quotes(command, words, text_start, at))
            if name not in named:
                raise Usage(f"there is no option {name}{_whose_option(name, named, siblings or {})}")
            argument = named[name]
            if sign and not argument.value:
                raise Usage(f"{name} takes no value")
            if argument.value and not sign:
                is_bare = argument.bare and (not rest or rest[0].startswith("-"))
                if not is_bare and not rest:
                    raise Usage(f"{argument.name} needs a value")
                value = argument.bare if is_bare else rest.pop(0)
        given.add(argument)
        found = argument.converted(value) if argument.value else True
        before = getattr(options, argument.attribute)
        setattr(options, argument.attribute, [*(before or ()), found] if argument.repeated else found)
    missing = [one for one in arguments if one.required and one not in given]
    if words_missing := [one.value for one in missing if not one.is_option]:
        raise Usage(f"{words_missing[0]} is missing")
    if missing:
        raise Usage(f"{' and '.join(one.shown for one in missing)} must be given")
    return options


def _advise_quotes(command: Command, words: Sequence[str], start: int, at: int) -> str:
    """Return the line as it should be typed: the text reaches from `start` to the first option behind `at`."""
    end = next((place for place in range(at + 1, len(words)) if _is_option(words[place])), len(words))
    name = command.run.__name__ if command.run else ""
    quoted = re.sub(r'(["$`\\])', r"\\\1", " ".join(words[start:end]))
    return f'an option inside the text would be missing from it; quote the text: memsheaf {name} "{quoted}"'


def _whose_option(name: str, named: Iterable[str], siblings: Mapping[str, Command]) -> str:
    takers = [action for action, other in siblings.items() if name in [each.name for each in other.arguments]]
    return f" here; it goes with {', '.join(takers)}" if takers else _closest(name, named)


def _closest(name: str, known: Iterable[str]) -> str:
    from difflib import get_close_matches

    found = get_close_matches(name, known, 1, cutoff=0.75)
    return f"; did you mean {found[0]}?" if found else ""


def _is_option(word: str) -> bool:
    """Whether a word is an option, or `--`: not a bullet, a negative number or a sentence that begins with a dash.

    >>> [_is_option(word) for word in ("- one", "-5", "--force is off", "-", "-x", "--old=a b")]
    [False, False, False, False, True, True]
    """
    is_number = not word.startswith("--") and word[1:2].isdigit()
    return word[:1] == "-" and word != "-" and not is_number and " " not in word.partition("=")[0]
