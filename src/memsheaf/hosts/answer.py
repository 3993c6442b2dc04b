"""Answers to the events of a host: what to put into its context, and what to keep of the conversation.

Deferred imports, to start quickly: the memories, which the end of a turn does not need.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from hashlib import sha256
from typing import TYPE_CHECKING

from memsheaf import config
from memsheaf.errors import Busy, StoreFailed
from memsheaf.guard import without_secrets
from memsheaf.hosts.conversation import (
    FOLDER,
    HostConversation,
    hook_state,
    load,
    name_conversation,
    open_conversation,
    save,
    size_of,
)
from memsheaf.hosts.events import (
    COMPACT,
    END,
    PROMPT,
    START,
    SUB_AGENT,
    TOOL,
    WITHOUT_END,
    HookEvent,
    HookReply,
    parse_event,
    render_reply,
)
from memsheaf.hosts.failure_log import INSIDE, PROBE, note_failure
from memsheaf.hosts.switch import is_off
from memsheaf.scope import around, file_stamp, project_root, with_hub
from memsheaf.store.sqlite_file import in_hook
from memsheaf.worktree import describe_moved

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from memsheaf.config import Settings
    from memsheaf.hosts.path_rules import PathRules
    from memsheaf.index.database import Row
    from memsheaf.recall.recall import Recall
    from memsheaf.recall.session import Session
    from memsheaf.sheaf import Sheaf

START_BYTES = 9_600  # hosts take 10,000 characters of a hook, and put more into a file
PROMPTS = 8  # the latest messages, which are answered once
KEPT = 32_768  # characters of a message that waits for its answer
SESSIONS = 32  # conversations whose last messages a server keeps in memory
AGAIN = 600.0  # seconds between two workers for a host that does not tell when a conversation ends
TWICE = 10.0  # seconds in which a second start is another hook of ours: the plugin, beside `memsheaf install`
ROOM = 0.3  # seconds to spare for the answer to a start
NOTE_WAIT_SECONDS = 0.5  # for other processes that write the state, before a message is answered without notes
WAITING = "waiting"
NEWS = "news"
MAX_TASKS = 8  # of sub-agents that are about to begin
RECALL_EVENTS = ("UserPromptSubmit", "PreToolUse", "SubagentStart")
"""The events with which Claude Code calls the tool `memory_hook`."""


class HookAnswers:
    """Answer hook events, either in a one-shot process or inside a running MCP server.

    A server passes the memories that it has open as `layers`, and what brings `news` of its hubs. A one-shot process
    has until `ends`.
    """

    def __init__(
        self,
        layers: Sheaf | None = None,
        cwd: str = "",
        news: Callable[[float], object] | None = None,
        ends: float = float("inf"),
    ) -> None:
        self._layers = layers
        self._cwd = cwd
        self._news = news
        self.ends = ends
        self.sessions: dict[str, Session] = {}
        self.tasks: dict[str, list[tuple[str, str]]] = {}  # of sub-agents that are about to begin, with their types
        self._rules: PathRules | None = None

    def answer(self, host: str, event: str, cwd: str, data: bytes) -> bytes:
        """Return what the host is to read on standard output; after an error, which is logged, nothing."""
        return self._answer(parse_event(host, event, data), cwd)

    def recall(self, fields: dict[str, object]) -> bytes:
        """Answer the call of a tool with which Claude Code asks what to recall for a message, a file or a sub-agent.

        Every caller of tools can make such a call, a model that a web page talked into it included. So any other
        event is answered with nothing, nothing is captured, and no file or folder that is named is looked at.
        """
        name = fields.get("hook_event_name")
        if fields.get("host") != "claude-code" or name not in RECALL_EVENTS:
            return b""
        return self._answer(HookEvent("claude-code", str(name), fields, is_from_host=False), self._cwd)

    def _answer(self, event: HookEvent, cwd: str) -> bytes:
        if os.environ.get(INSIDE):
            return b""
        try:
            settings = self._layers.settings if self._layers else config.load(warn=lambda said: None)
            call = _Call(self, event, self._cwd or event.folder or cwd, settings)
            with in_hook():
                return b"" if call.stays_silent() else render_reply(event, call.reply())
        except Exception as error:  # noqa: BLE001  a guest never fails its host
            note_failure(event.host, event.event, f"{type(error).__name__}: {error}")
            return b""

    def layers(self, settings: Settings, cwd: str, *, read_only: bool) -> AbstractContextManager[Sheaf]:
        """Return the memories that the server has open, or open those around a folder."""
        if self._layers:
            return nullcontext(self._layers)
        from memsheaf.sheaf import Sheaf

        return Sheaf.open(settings=settings, cwd=cwd, by="agent", read_only=read_only)

    def begin_news(self, settings: Settings, cwd: str) -> Callable[[float], object] | None:
        """Begin to bring what other machines learned, if a scope has a hub; gives what waits for it, once."""
        if self._news:
            return self._news
        scopes = with_hub(settings.layers(cwd), settings.places(cwd))
        if not scopes or (ended := spawn(["sync", cwd, *scopes])) < 0:
            return None

        def wait(seconds: float) -> None:
            from select import select

            select([ended], [], [], seconds)
            os.close(ended)

        return wait

    def find_rules(self, layers: Sheaf, cwd: str, file: str) -> list[Row]:
        """Return the memories with a rule for a file of the working tree around a folder."""
        from memsheaf.hosts.path_rules import PathRules, path_in

        self._rules = self._rules or PathRules()
        path = path_in(around(cwd), file)
        return self._rules.find(layers, path) if path else []

    def session(self, name: str, layers: Sheaf, tree: str) -> Session:
        """The memory side of a conversation; a server knows what was said before in it."""
        found = self.sessions.pop(name, None) or layers.session(tree=tree)
        self.sessions[name] = found
        if len(self.sessions) > SESSIONS:
            del self.sessions[next(iter(self.sessions))]
        return found


class _Call:
    """One event, with the settings and the project that it is about."""

    def __init__(self, answers: HookAnswers, event: HookEvent, cwd: str, settings: Settings) -> None:
        self.answers = answers
        self.event = event
        self.cwd = cwd
        self.settings = settings
        self.root = project_root(settings.places(cwd))
        self.conversation = settings.state, name_conversation(event.host, event.conversation)
        self.is_sub_agent = bool(event.text("agent_id"))
        self.is_probe = bool(os.environ.get(PROBE))

    def stays_silent(self) -> bool:
        """Return True if there is nothing to do: an unknown event, or memory is off; that turn is skipped."""
        if not self.event.kind:
            note_failure(self.event.host, self.event.event, "unknown event")
        if not self.event.kind or not is_off(self.settings.state, self.root):
            return not self.event.kind
        if self.event.transcript and not self.is_probe:
            with open_conversation(*self.conversation, durably=True) as found:
                found.pass_over(self.event.transcript)
        return True

    def reply(self) -> HookReply:
        """Do what the event asks for."""
        if self.is_probe:
            return HookReply(self._start_text())
        kind = self.event.kind
        if kind == TOOL:
            return self._use_tool()
        self._stamp()
        if kind == SUB_AGENT:
            return self._begin_sub_agent()
        if kind == START:
            return self._start()
        if kind == PROMPT:
            return self._prompt()
        if not self.is_sub_agent:
            self._capture()
            last = (file_stamp(self._own("worked")) or [0])[0] / 1e9
            is_due = self.event.host in WITHOUT_END and time.time() - last > AGAIN
            if kind == END or (kind != COMPACT and is_due):
                save(self._own("worked"), b"")
                spawn_apart("work", self.cwd)
        return HookReply()

    def _start(self) -> HookReply:
        source, transcript = self.event.text("source"), self.event.transcript
        news = None
        if source != "compact" and not self.is_sub_agent:
            news = self.answers.begin_news(self.settings, self.cwd)
        began = time.monotonic()
        text = self._start_text()
        if news:  # what they need to be shown has to be left of the time
            took = time.monotonic() - began
            left = self.answers.ends - time.monotonic() - ROOM - 2 * took
            news(max(0.0, min(self.settings.hub.start_seconds - took, left)))
            text = self._start_text()
        told = sha256(text.encode()).hexdigest()[:16]
        with self._noting() as found:
            is_twice = found.text("source") == source and time.time() - found.number("started") < TWICE
            if found.text("told") == told and (source == "resume" or is_twice):
                text = ""  # it is in the conversation already, or another hook of ours tells it
            if source in ("compact", "clear"):
                found.data.pop("shown", None)  # what was shown is gone
            found.data |= {"told": told, "source": source, "started": int(time.time()), **self._names()}
            if transcript:
                found.follow(transcript, from_end=source in ("resume", "fork") and not found.text("transcript"))
        places = (self._own("started"), self.root, os.path.join(self.settings.home, "user"))
        started, *saved = ((file_stamp(path) or (0,))[0] for path in places)
        if max(saved) > started or os.path.exists(self._own(WAITING)):  # what is new has no vector yet
            with suppress(OSError):
                save(self._own("started"), b"")
            spawn_apart("work", self.cwd)
        return HookReply(text, self._line(0))

    def _layers(self, *, read_only: bool = False) -> AbstractContextManager[Sheaf]:
        return self.answers.layers(self.settings, self.cwd, read_only=read_only)

    def _start_text(self) -> str:
        with self._layers() as layers:
            lost = [line for scope in layers.open_scopes(lasting=True) for line in scope.describe_lost()]
            moved = describe_moved(self.settings.places(self.cwd))
            lines = "".join(f"(memsheaf: {said})\n" for said in (*lost, moved) if said)
            from memsheaf.hosts.opening import render_opening

            is_compacted = self.event.text("source") == "compact"
            return lines + render_opening(layers, START_BYTES - len(lines.encode()), is_compacted=is_compacted)

    @contextmanager
    def _noting(self) -> Iterator[HostConversation]:
        """Open the conversation to note something; where that cannot be noted, the host is answered all the same."""
        conversation = None
        try:
            with open_conversation(*self.conversation, wait=NOTE_WAIT_SECONDS) as conversation:
                yield conversation
        except (Busy, StoreFailed) as error:
            note_failure(self.event.host, self.event.event, f"answered, and not noted: {error}")
        if conversation is None:
            yield self._read_notes()

    def _read_notes(self) -> HostConversation:
        return HostConversation(hook_state(self.settings.state).load(self.conversation[1]) or {})

    def _prompt(self) -> HookReply:
        prompt = self.event.prompt
        if not prompt:
            return HookReply()
        name = self.event.text("prompt_id", "turn_id")
        mark = sha256((name or prompt).encode("utf-8", "replace")).hexdigest()[:16]
        with self._noting() as found:
            if self.event.transcript and not found.text("transcript"):
                found.follow(self.event.transcript, from_end=False)
            seen = found.data.get("prompts")
            prompts = seen if isinstance(seen, list) else []
            is_recent = prompts[-1:] == [mark] and time.time() - found.number("at") < 60
            if mark in prompts if name else is_recent:
                return HookReply()  # another hook of ours has answered it
            found.data["prompts"] = [*prompts, mark][-PROMPTS:]
        from memsheaf.text.requests import is_silent

        session, recalled = self._recall(found, lambda session: session.recall(prompt))
        with self._noting() as found:
            found.data["reach"] = session.privacy
            if recalled.memories:
                found.data["shown"] = session.state()
            if self.event.typed and not self.event.transcript and not self.is_sub_agent:
                is_kept = not (session.ignoring or is_silent(session.privacy))
                # half a secret would not be recognised
                found.data["pending"] = without_secrets(self.event.typed[: 2 * KEPT])[:KEPT] if is_kept else ""
        return HookReply(recalled.text, self._line(len(recalled.memories)))

    def _recall(self, noted: HostConversation, ask: Callable[[Session], Recall]) -> tuple[Session, Recall]:
        """Return the session of this conversation and what it recalls beside what is noted as shown."""
        from memsheaf.index.database import existing_vectors

        with self._layers(read_only=self.is_sub_agent) as layers:
            session = self.answers.session(self.event.conversation, layers, self.cwd)
            session.resume({**(noted.data.get("shown") or {}), "privacy": noted.text("reach")})
            with existing_vectors():  # the worker makes those that are missing
                return session, ask(session)

    def _show(self, ask: Callable[[Session], Recall]) -> HookReply:
        """Show what a session recalls, and note that it was shown; nothing while memory is ignored."""
        main = self.answers.sessions.get(self.event.text("session_id"))
        if main and main.ignoring:
            return HookReply()
        session, recalled = self._recall(self._read_notes(), ask)
        if recalled.memories:
            with self._noting() as noted:
                noted.data["shown"] = session.state()
        return HookReply(recalled.text)

    def _use_tool(self) -> HookReply:
        """Show the memories with a rule for a file that is about to be touched; note the task of a sub-agent."""
        conversation = self.event.text("session_id")
        if task := self.event.text("prompt"):
            waiting = self.answers.tasks.setdefault(conversation, [])
            waiting[:] = [*waiting, (self.event.text("subagent_type"), task)][-MAX_TASKS:]
            if len(self.answers.tasks) > SESSIONS:
                self.answers.tasks.clear()
        rows = []
        if file := self.event.text("file_path"):
            with self._layers(read_only=True) as layers:
                rows = self.answers.find_rules(layers, self.cwd, file)
        return self._show(lambda session: session.show(rows)) if rows else HookReply()

    def _begin_sub_agent(self) -> HookReply:
        """Show the memories that fit the task of a sub-agent; where that is not known, the user's last message."""
        conversation, kind = self.event.text("session_id"), self.event.text("agent_type")
        main, waiting = self.answers.sessions.get(conversation), self.answers.tasks.get(conversation, [])
        texts = [main.texts[-1]] if main and main.texts else []
        for task in [task for task in waiting if task[0] in ("", kind)][:1]:
            waiting.remove(task)
            texts = [task[1]]
        return self._show(lambda session: session.recall(texts[0])) if texts else HookReply()

    def _line(self, recalled: int) -> str:
        """The status line, each item once: recalled now, learned since the last time, waiting for review."""
        if not self.settings.hooks.line or self.is_sub_agent:
            return ""
        news = load(self._own(NEWS))
        counts = {"recalled": recalled, "learned": news.get("learned"), "to review": news.get("review")}
        with suppress(OSError):
            os.unlink(self._own(NEWS))
        told = [f"{count} {what}" for what, count in counts.items() if count]
        return f"memory: {' · '.join(told)}" if told else ""

    def _capture(self) -> None:
        """Note what was said, durably: where the transcript holds it, or what the event says of it."""
        transcript = self.event.transcript
        if transcript and size_of(transcript):
            with open_conversation(*self.conversation, durably=True) as found:
                found.capture(transcript)
                found.data |= self._names()
            if found.has_more:
                save(self._own(WAITING), b"")
        elif self.event.kind != COMPACT:
            self._learn()

    def _learn(self) -> None:
        from memsheaf.recall.turns import Message, Turn

        with open_conversation(*self.conversation) as found:
            prompt = self.event.typed or found.text("pending")
            found.data.pop("pending", None)
        messages = (Message("user", prompt), Message("assistant", self.event.response))
        if prompt:
            with self._layers() as layers:
                layers.learn(Turn(self.event.conversation, messages if self.event.response else messages[:1]))
            save(self._own(WAITING), b"")

    def _names(self) -> dict[str, str]:
        return {"id": self.event.conversation, "host": self.event.host, "root": self.root, "cwd": self.cwd}

    def _own(self, name: str) -> str:
        return own_file(self.settings.state, self.root, name)

    def _stamp(self) -> None:
        """Note that this event came, for `memsheaf doctor`."""
        name = "".join(char for char in f"{self.event.host}-{self.event.event}" if char.isalnum() or char in "-_")
        with suppress(OSError):
            save(os.path.join(self.settings.state, FOLDER, name[:80]), b"")


def own_file(state: str, root: str, name: str) -> str:
    """A small file of the hooks about one project."""
    return os.path.join(state, FOLDER, f"{name}-{sha256(os.fsencode(root)).hexdigest()[:16]}")


def spawn_apart(*words: str) -> None:
    """Start a process of the hooks, and leave it alone: one that learns, or syncs."""
    if (ended := spawn(list(words))) >= 0:
        os.close(ended)


def spawn(words: list[str]) -> int:
    """Start a process of the hooks, apart from this one: it goes on when the host and its hooks have ended.

    Gives a descriptor that can be read from once it has ended, to be closed; -1 where there is none.
    """
    from subprocess import DEVNULL, Popen

    words = [sys.executable, "-P", "-m", "memsheaf", "hook", *words]
    if os.name == "posix":
        words = ["/bin/sh", "-c", '"$@" &', "sh", *words]  # a host ends its server with all that descends from it
    ended, output = os.pipe()
    try:
        process = Popen(words, stdin=DEVNULL, stdout=output, stderr=DEVNULL, start_new_session=True)
        if os.name == "posix":
            process.wait()
    except OSError:
        os.close(ended)
        return -1
    finally:
        os.close(output)
    return ended
