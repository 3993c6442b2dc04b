"""One call of a command: what every command takes, the memory it is about, and where the answer goes."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from io import TextIOWrapper
from typing import TYPE_CHECKING

from memsheaf.cli.output import Console, Note
from memsheaf.cli.output import Result as Result  # for the commands
from memsheaf.cli.parser import Declined, Usage
from memsheaf.config import Settings, load
from memsheaf.errors import (
    Duplicate,
    Exists,
    MemsheafError,
    NotWorth,
    Ref,
    ScopeRefused,
    SecretFound,
    TextRefused,
)
from memsheaf.memory import plural as plural  # for the commands
from memsheaf.scope import Scope, around, open_plain, resolve, unused_folder
from memsheaf.worktree import WorkingTree, describe_moved

if TYPE_CHECKING:
    from memsheaf.open_scope import OpenScope
    from memsheaf.recall.turns import Turn
    from memsheaf.sheaf import Sheaf
    from memsheaf.state import State

PROGRESS_SECONDS = 2.0
BY = "user"  # author of changes that come from the command line
EMBEDDING = ("embedder", "done", "total", "running", "problem")  # fields of an index's embedding state in JSON
MAX_TRANSCRIPT_BYTES = 1 << 28
TRANSCRIPT_HINT = "Give a transcript: Claude Code's JSONL, messages in JSON, or plain text with User: and Assistant:."


class Call:
    """What a command gets besides its arguments."""

    def __init__(
        self,
        console: Console,
        environment: Mapping[str, str],
        *,
        scope: Sequence[str] = (),
        home: str = "",
        project: str = "",
        yes: bool = False,
        **layers: Sequence[str],
    ) -> None:
        self.console = console
        self.environment = environment
        self.named = [*scope, *(f"{layer}/{name}" for layer in layers for name in layers[layer])]
        self.home = home
        self.project = project
        self.yes = yes
        self._settings: Settings | None = None
        self._opened: list[OpenScope] = []
        self._warned: set[str] = set()

    def confirm(self, question: str, *, without: str, left: str) -> None:
        """Ask a person unless --yes was given.

        Raises:
            Declined: the answer is no.
            Usage: nobody can be asked.
        """
        if self.yes:
            return
        if not self.console.interactive:
            raise Usage(f"{without}; confirm it with --yes where nobody can be asked")
        if not self.console.confirm(question):
            raise Declined(left)

    def settings(self) -> Settings:
        """Return the user's settings, with what the line says on top."""
        if self._settings is None:
            self._settings = load(self.variables(), warn=self.warn)
        return self._settings

    def variables(self) -> dict[str, str]:
        """Return the environment, with what the line says on top."""
        given = {"MEMSHEAF_HOME": self.home, "MEMSHEAF_PROJECT": self.project}
        return {**self.environment, **{key: value for key, value in given.items() if value}}

    def export_places(self) -> None:
        """Put the folders that the line names into the environment of what this process starts."""
        if self.home:
            os.environ["MEMSHEAF_HOME"] = self.settings().home
        if self.project:
            os.environ["MEMSHEAF_PROJECT"] = self.project

    def warn(self, message: str) -> None:
        """Tell once what is wrong with a setting."""
        if message not in self._warned:
            self.console.note(f"memsheaf: {message}", style="yellow")
            self._warned.add(message)

    def forget_settings(self) -> None:
        """Have the settings read again when they are next asked for."""
        self._settings = None

    def scopes(self) -> list[str]:
        """Return the scopes that the line or the settings name; none for those around the working directory."""
        usual = "project" if self.named else self.settings().scope
        return self.named or [scope for scope in [usual] if scope != "project"]

    def scope(self) -> str:
        """Return the one scope that this command is about."""
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
        return "".join(f" -s {name}" for name in names if name not in ("project", "user"))

    def undo_hint(self, ref: Ref | None = None) -> str:
        """Return the sentence that says how to take back what this command did, to a memory if one is named."""
        return f"Undo with `memsheaf undo{self.other_scopes(ref)}`."

    def memory(
        self,
        *,
        settings: Settings | None = None,
        by: str = BY,
        scopes: Sequence[str] | None = None,
        task: str = "",
        session: str = "",
        read_only: bool = False,
    ) -> Sheaf:
        """Open what this command is about: the scopes that the line names, else project and user."""
        from memsheaf.sheaf import Sheaf

        return Sheaf.open(
            settings=settings or self.settings(),
            cwd=here(),
            by=by,
            scopes=self.scopes() if scopes is None else scopes,
            task=task,
            session=session,
            read_only=read_only,
            on_open=self._report_progress,
        )

    @contextmanager
    def open_file(self, file: str) -> Iterator[tuple[Sheaf, str]]:
        """Open the scope that a file is in, or was, by any part of its name, and give its path there."""
        from memsheaf.sheaf import find_memory

        with self.memory() as memory:
            ref = find_memory(memory, file) if file else Ref(memory.home, "")
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
        return self.memory(scopes=[self.scope()], read_only=not os.access(self.root(), os.W_OK))

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
        layers = ("project", "task", "session")
        if not any(scope.startswith(layers) for scope in self.scopes() or ["project"]):
            return ""
        places = self.settings().places(here())
        return unused_folder(places) or describe_moved(places)

    def others_note(self, others: int, layer: str, name: str) -> Note | None:
        """Return a line that other tasks or sessions go on, too, so that one has to be named."""
        count = plural(others, f"other {layer} goes on", f"other {layer}s go on")
        return Note(f"{count}: name this one with -s {layer}/{name}", "") if others else None

    def _report_progress(self, scope: OpenScope) -> None:
        """Let a scope report progress to people when a look takes long."""
        self._opened.append(scope)
        due = time.monotonic() + PROGRESS_SECONDS

        def tell(read: int) -> None:
            nonlocal due
            if time.monotonic() > due:
                due = time.monotonic() + PROGRESS_SECONDS
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
                if replica.was_cut_short and self.environment is os.environ and not self.home:
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

    def layers(self, *, task: str = "", session: str = "", read_only: bool = False) -> Sheaf:
        """Open project and user around the working directory, with the task and the session that the line names."""
        chosen = {"task": task, "session": session}
        for scope in self.named:
            layer, _, name = scope.partition("/")
            if layer not in chosen:
                raise Usage("this command works on the project; -s names a task or a session, as in -s task/login")
            chosen[layer] = name
        return self.memory(scopes=(), task=chosen["task"], session=chosen["session"], read_only=read_only)

    def transcript(self, source: str, folders: Sequence[str] = ()) -> list[Turn]:
        """Return the turns of a conversation in a file, or with - on standard input. Raises Usage, TextRefused."""
        from memsheaf.learn.transcripts import read_transcript

        text = self.file_text(source, MAX_TRANSCRIPT_BYTES)
        if "\0" in text[:4096]:
            raise TextRefused(f"{source!r} is not UTF-8 text", hint=TRANSCRIPT_HINT)
        name = "standard input" if source == "-" else os.path.basename(source)
        turns = read_transcript(text, conversation=name, folders=folders)
        if not turns:
            raise TextRefused("there is no message in it", hint=TRANSCRIPT_HINT)
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

    def given_text(self, text: str = "") -> str:
        """Return the text that the line gives, or that comes on standard input."""
        if text not in ("", "-"):
            return text
        stdin = self.console.stdin
        can_read = text == "-" or (stdin is not None and not stdin.isatty())
        read = self.console.read_all() if can_read else ""
        if not text and not read.strip():
            raise Usage("there is no text; give it on the line, or give - and type it, Ctrl-D at the end")
        return read


def has_windows(environment: Mapping[str, str]) -> bool:
    """Return True where a browser opens a window, instead of taking the terminal."""
    return sys.platform in ("darwin", "win32") or any(map(environment.get, ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")))


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
        error.hint = f"--replaces {error.ref.path} puts this in its place; or choose another name. {error.hint}"
        raise error from None
    except SecretFound as error:
        error.hint = f"{error.hint} If you must, --allow-secret stores it as it is."
        raise error from None
    except (Duplicate, NotWorth) as error:
        error.hint = f"{error.hint} --anyway stores it as it is."
        raise error from None


def local_minute(at: str) -> str:
    """Return a UTC time such as 2026-11-15T14:32:05Z as people read it, in the time zone of this machine."""
    return f"{datetime.fromisoformat(at).astimezone():%Y-%m-%d %H:%M}" if at.endswith("Z") else at


def pick(value: object, names: Sequence[str]) -> dict[str, object]:
    """Some attributes of a value, for JSON."""
    return {name: getattr(value, name) for name in names}
