"""One call of a command: its options, the memory it is about, and where the answer goes."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from io import TextIOWrapper
from typing import TYPE_CHECKING

from memsheaf.cli.command import Usage
from memsheaf.config import load
from memsheaf.errors import (
    Duplicate,
    Exists,
    MemsheafError,
    NotWorth,
    Ref,
    ScopeRefused,
    SecretFound,
    TextRefused,
    hinted,
)
from memsheaf.memory import Allow
from memsheaf.memory import plural as plural  # for the commands
from memsheaf.scope import Scope, around, open_plain, resolve, unused_folder
from memsheaf.worktree import WorkingTree, describe_moved

if TYPE_CHECKING:
    from memsheaf.cli.command import Options
    from memsheaf.cli.output import Console, Part
    from memsheaf.config import Settings
    from memsheaf.open_scope import OpenScope
    from memsheaf.recall.turns import Turn
    from memsheaf.sheaf import Sheaf
    from memsheaf.state import State

PATIENCE = 2.0  # seconds after which progress is shown
BY = "user"  # author of changes that come from the command line
EMBEDDING = ("embedder", "done", "total", "running", "problem")  # fields of an index's embedding state in JSON
TRANSCRIPT = 1 << 28  # bytes
TRANSCRIPT_HINT = "Give a transcript: Claude Code's JSONL, messages in JSON, or plain text with User: and Assistant:."


class Call:
    """What a command gets: its options, the console, and the memory it is about."""

    def __init__(self, options: Options, console: Console, environment: Mapping[str, str]) -> None:
        self.options = options
        self.console = console
        self.environment = environment
        self._settings: Settings | None = None
        self._opened: list[OpenScope] = []
        self._warned: list[str] = []
        self.shown = ""

    def answer(self, value: object, *parts: Part, code: int = 0) -> int:
        """Print the result: as JSON if that was asked for, else the parts. Gives the exit code."""
        return self.console.answer(value, *parts, code=code)

    def confirm(self, question: str, *, without: str, left: str) -> bool:
        """Whether --yes was given or a person agrees; raises Usage with the reason where stdin is no terminal."""
        if self.options.yes:
            return True
        if not self.console.interactive:
            raise Usage(f"{without}; confirm it with --yes where nobody can be asked")
        if self.console.confirm(question):
            return True
        self.console.note(left)
        return False

    def settings(self) -> Settings:
        """The user's settings, with what the line says on top."""
        if self._settings is None:
            self._settings = load(self.chosen(), warn=self.warn)
        return self._settings

    def chosen(self) -> dict[str, str]:
        """The environment, with what the line says on top."""
        chosen = {"MEMSHEAF_HOME": self.options.home, "MEMSHEAF_PROJECT": self.options.project}
        return {**self.environment, **{key: value for key, value in chosen.items() if value}}

    def export_places(self) -> None:
        """Put the folders that the line names into the environment of what this process starts."""
        named = {
            "MEMSHEAF_HOME": self.options.home and self.settings().home,
            "MEMSHEAF_PROJECT": self.options.project,
        }
        os.environ.update({name: value for name, value in named.items() if value})

    def warn(self, said: str) -> None:
        """Tell once what is wrong with a setting."""
        if said not in self._warned:
            self.console.note(f"memsheaf: {said}", style="yellow")
            self._warned.append(said)

    def forget_settings(self) -> None:
        """Have the settings read again when they are next asked for."""
        self._settings = None

    def allow(self) -> Allow:
        """The checks that --allow-secret and --anyway skip."""
        return Allow(self.options.allow_secret, self.options.anyway)

    def scopes(self) -> list[str]:
        """The scopes the line or the settings name; none for those around the working directory."""
        named = [*(self.options.scope or ()), *(f"agent/{name}" for name in self.options.agent or ())]
        usual = self.settings().scope if not named else ""
        return named or ([usual] if usual != "project" else [])

    def scope(self) -> str:
        """The one scope this command is about."""
        first, *more = self.scopes() or ["project"]
        if more:
            raise Usage("this command works on one scope at a time")
        return first

    def label(self, ref: Ref) -> str:
        """Return the name under which this command shows a memory."""
        return ref.label((self.scopes() or ["project"])[0])

    def other_scopes(self, ref: Ref | None = None) -> str:
        """Return the options with which `undo` finds a change of this command; "" where it looks anyway."""
        names = [ref.scope] if ref else self.scopes()
        return "".join(f" --scope {name}" for name in names if name not in ("project", "user"))

    def undo_hint(self, ref: Ref | None = None) -> str:
        """Return the sentence that says how to take back what this command did, to a memory if one is named."""
        return f"Undo with `memsheaf undo{self.other_scopes(ref)}`."

    def memory(
        self,
        *,
        settings: Settings | None = None,
        by: str = BY,
        scopes: Sequence[str] | None = None,
        task: str | None = "",
        session: str | None = "",
        read_only: bool = False,
    ) -> Sheaf:
        """Open what this command is about: the scopes that the line names, else project and user."""
        from memsheaf.sheaf import Sheaf

        return Sheaf.open(
            settings=settings or self.settings(),
            cwd=here(),
            by=by,
            scopes=self.scopes() if scopes is None else scopes,
            task=task or "",
            session=session or "",
            read_only=read_only,
            on_open=self._report_progress,
        )

    @contextmanager
    def open_file(self, file: str) -> Iterator[tuple[Sheaf, str]]:
        """Open the scope that a file is in, or was, by any part of its name, `shown` then; its path there."""
        with self.memory() as memory:
            from memsheaf.sheaf import find_memory

            ref = find_memory(memory, file) if file else Ref(memory.home, "")
            self.shown = memory.label(ref)
            try:
                yield memory.only(ref.scope), ref.path
            except MemsheafError as error:
                error.hint = error.hint.replace(" SCOPE", f" {ref.scope}")
                raise

    def root(self) -> str:
        """The folder of the one scope this command is about."""
        return resolve(Scope.parse(self.scope()), self.settings().places(here()))

    def state(self) -> State:
        """What is kept for that scope outside its folder."""
        return self.settings().state_of(self.root())

    def reading(self) -> Sheaf:
        """Open one scope to look at it. A folder that is not there, or not ours to write, is left alone."""
        return self._open(read_only=not os.access(self.root(), os.W_OK))

    def changing(self) -> Sheaf:
        """Open one scope to change it."""
        return self._open(read_only=False)

    def _open(self, *, read_only: bool) -> Sheaf:
        from memsheaf.sheaf import Sheaf

        return Sheaf.open(
            self.scope(),
            settings=self.settings(),
            cwd=here(),
            by=BY,
            read_only=read_only,
            on_open=self._report_progress,
        )

    def tree(self, memories: str = "", folder: str = "") -> WorkingTree:
        """Open the working tree around the working directory, or another."""
        return WorkingTree(folder or around(here()), memories=memories, environment=self.environment)

    def announce(self, value: Mapping[str, object], *lines: str) -> None:
        """Tell that a server listens: as one line of JSON, or to a person."""
        if self.console.json:
            self.console.say(json.dumps(value))
            self.console.flush()
        else:
            self.console.note("\n".join(lines))

    def unused_folder(self) -> str:
        """A line about memory of the project here that is not in use, when this command is about it; else ""."""
        if not any(scope.startswith(("project", "task", "session")) for scope in self.scopes() or ("project",)):
            return ""
        places = self.settings().places(here())
        return unused_folder(places) or describe_moved(places)

    def _report_progress(self, scope: OpenScope) -> None:
        """Let a scope report progress to people when a look takes long."""
        self._opened.append(scope)
        due = time.monotonic() + PATIENCE

        def tell(read: int) -> None:
            nonlocal due
            if time.monotonic() > due:
                due = time.monotonic() + PATIENCE
                self.console.note(f"memsheaf: looking at {scope.root}: {read:,} files read")

        scope.index.report_to(tell)

    def tell_news(self) -> None:
        """Tell of changes that wait for a hub, and of files that were moved out of the way of the catalog."""
        for sheaf in self._opened:
            replica = sheaf.replica
            if replica and replica.settings.unreadable:
                self.console.note(f"{sheaf.scope} has {replica.settings.shown}; nothing is saved there")
            elif replica and len((state := replica.state()).pending) > len(state.held):
                reason = (state.refused or state.failed).replace(" SCOPE", f" {sheaf.scope}")
                where = replica.settings.shown
                if reason:
                    where = reason if where in reason else f"{where} ({reason})"
                self.console.note(f"{sheaf.scope}: changes wait here for {where}; `memsheaf hub sync` tries again")
                if replica.was_cut_short and self.environment is os.environ and not self.options.home:
                    from memsheaf.hosts.answer import spawn_apart

                    spawn_apart("sync", here(), sheaf.name)  # who is slow gets it all the same
            if sheaf.store.problem:
                self.console.note(
                    f"{sheaf.scope}: the history is damaged, and known in part. The memories are not affected. The "
                    "next change begins a new history; `memsheaf doctor` says more."
                )
            for path in sheaf.index.publisher.moved:
                self.console.note(
                    f"MEMORY.md in {sheaf.root} was not written by memsheaf, which generates that file. What it said "
                    f"is in {path} now; `memsheaf log --full {path}` has the id for `memsheaf undo`."
                )

    def layers(self, *, task: str | None = "", session: str | None = "", read_only: bool = False) -> Sheaf:
        """Open project and user around the working directory, with the task and the session that the line names."""
        if self.options.scope or self.options.agent:
            raise Usage("this command works on the project's layers; --project says which project")
        return self.memory(scopes=(), task=task, session=session, read_only=read_only)

    def transcript(self, source: str, folders: Sequence[str] = ()) -> list[Turn]:
        """Return the turns of a conversation in a file, or with - on standard input. Raises Usage, TextRefused."""
        from memsheaf.learn.transcripts import read_transcript

        text = self.file_text(source, TRANSCRIPT)
        if "\0" in text[:4096]:
            raise hinted(TextRefused(f"{source!r} is not UTF-8 text"), TRANSCRIPT_HINT)
        name = "standard input" if source == "-" else os.path.basename(source)
        turns = read_transcript(text, conversation=name, folders=folders)
        if not turns:
            raise hinted(TextRefused("there is no message in it"), TRANSCRIPT_HINT)
        return turns

    def file_text(self, source: str, most: int) -> str:
        """The text of a file of this machine, or with - of standard input; refused when it is longer than that."""
        if source == "-":
            return self.console.read_all(most=most)
        try:
            with TextIOWrapper(open_plain(source), encoding="utf-8", errors="replace") as file:
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
    """Tell a person whose text is refused how to insist."""
    try:
        yield
    except Exists as error:
        raise hinted(error, f"--replace puts this in its place; or choose another name. {error.hint}") from None
    except SecretFound as error:
        raise hinted(error, f"{error.hint} If you must, --allow-secret stores it as it is.") from None
    except (Duplicate, NotWorth) as error:
        raise hinted(error, f"{error.hint} --anyway stores it as it is.") from None


def local_minute(at: str) -> str:
    """Return a UTC time such as 2026-11-15T14:32:05Z as people read it, in the time zone of this machine."""
    return f"{datetime.fromisoformat(at).astimezone():%Y-%m-%d %H:%M}" if at.endswith("Z") else at


def pick(value: object, names: Sequence[str]) -> dict[str, object]:
    """Some attributes of a value, for JSON."""
    return {name: getattr(value, name) for name in names}
