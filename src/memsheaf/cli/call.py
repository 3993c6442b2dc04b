"""One call of a command: what was asked, by whom, and where the answer goes."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from memsheaf.cli.command import Usage
from memsheaf.errors import Duplicate, NotWorth, ScopeRefused, SecretFound, hinted

# Known to type checkers under this name: settings and sheaf are imported by the commands that need them.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from memsheaf.cli.output import Console
    from memsheaf.cli.parser import Options
    from memsheaf.config import Settings
    from memsheaf.layers import Layers
    from memsheaf.sheaf import Sheaf


BY = "user"
"""Who made the changes that come from the command line."""


class Call:
    """What a command gets: its options, the console, and the memory it is about."""

    def __init__(self, options: Options, console: Console, environment: Mapping[str, str]) -> None:
        self.options = options
        self.console = console
        self.environment = environment
        self._settings: Settings | None = None

    def settings(self) -> Settings:
        """The user's settings, with what the line says on top."""
        if self._settings is not None:
            return self._settings
        from memsheaf import config

        chosen = {"MEMSHEAF_HOME": self.options.home, "MEMSHEAF_PROJECT": self.options.project}
        given = {key: value for key, value in chosen.items() if value}
        self._settings = config.load({**self.environment, **given})
        return self._settings

    def scopes(self) -> list[str]:
        """The scopes the line names; the one from the settings when it names none."""
        named = [*(self.options.scope or ()), *(f"agent/{name}" for name in self.options.agent or ())]
        return named or [self.settings().scope]

    def scope(self) -> str:
        """The one scope this command is about."""
        first, *more = self.scopes()
        if more:
            raise Usage("this command works on one scope at a time")
        return first

    def reading(self, scope: str = "", settings: Settings | None = None, *, read_only: bool = False) -> Sheaf:
        """Open the memory to look at it. A folder that is not there, or not ours to write, is left alone."""
        from memsheaf.scope import Scope, resolve
        from memsheaf.sheaf import Sheaf

        settings = settings or self.settings()
        parsed = Scope.parse(scope or self.scope())
        root = resolve(parsed, settings.places(here()))
        read_only = read_only or not os.access(root, os.W_OK)
        return Sheaf.open(parsed, settings=settings, cwd=here(), by=BY, read_only=read_only)

    def unused_folder(self) -> str:
        """A line about a `.memory` here that nobody accepted, when this command is about the project; else ""."""
        from memsheaf.scope import unused_folder

        layers = ("project", "task", "session")
        if not any(scope.partition("/")[0] in layers for scope in self.scopes()):
            return ""
        return unused_folder(self.settings().places(here()))

    def changing(self) -> Sheaf:
        """Open the memory to change it."""
        from memsheaf.sheaf import Sheaf

        return Sheaf.open(self.scope(), settings=self.settings(), cwd=here(), by=BY)

    def layers(self, *, task: str | None = "", session: str | None = "", read_only: bool = False) -> Layers:
        """Open the layers around the working directory, of the task and the session that the line names."""
        from memsheaf.layers import Layers

        if self.options.scope or self.options.agent:
            raise Usage("this command works on the project's layers; --project says which project")
        return Layers.open(
            settings=self.settings(),
            cwd=here(),
            by=BY,
            task=task or "",
            session=session or "",
            read_only=read_only,
        )

    def file_text(self, source: str, most: int) -> str:
        """The text of a file of this machine, or with - of standard input; refused when it is longer than that."""
        if source == "-":
            return self.console.read_all(most=most)
        try:
            with open(source, encoding="utf-8", errors="replace") as file:
                text = file.read(most + 1)
        except OSError as error:
            raise Usage(f"{source!r} cannot be read: {error.strerror}") from None
        if len(text) > most:
            raise Usage(f"{source!r} is longer than {most >> 20} MiB; split it")
        return text

    def given_text(self, *texts: str | None) -> str:
        """The text that the line gives, or that comes on standard input."""
        given = [text for text in texts if text is not None]
        if len(given) > 1:
            raise Usage("the text is given twice")
        if given and given[0] != "-":
            return given[0]
        stdin = self.console.stdin
        text = "" if not given and (stdin is None or stdin.isatty()) else self.console.read_all()
        if not given and not text.strip():
            raise Usage("there is no text; give it on the line, or give - and type it, Ctrl-D at the end")
        return text


def here() -> str:
    """The working directory. Raises ScopeRefused when it was removed."""
    try:
        return os.getcwd()
    except FileNotFoundError:
        raise ScopeRefused("the working directory does not exist any more; go to another") from None


@contextmanager
def insisting() -> Iterator[None]:
    """Tell a person whose text is refused for what it says how to insist."""
    try:
        yield
    except SecretFound as error:
        raise hinted(error, f"{error.hint} If you must, --allow-secret stores it as it is.") from None
    except (Duplicate, NotWorth) as error:
        raise hinted(error, f"{error.hint} --anyway stores it as it is.") from None


def plural(count: int, one: str, many: str = "") -> str:
    """A number with its noun.

    >>> plural(1, "memory", "memories"), plural(1200, "file")
    ('1 memory', '1,200 files')
    """
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def pick(value: object, names: Sequence[str]) -> dict[str, object]:
    """Some attributes of a value, for JSON."""
    return {name: getattr(value, name) for name in names}
