"""The line editor of the chat, made with prompt_toolkit: several lines, completion, a status line, news above it.

It comes with `pip install 'memsheaf[chat]'`; without it importing this fails, and `input` reads plain lines.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from prompt_toolkit import PromptSession
from prompt_toolkit.application import run_in_terminal
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition
from prompt_toolkit.history import InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.styles import Style

from memsheaf.chat.conversations import InputHistory
from memsheaf.chat.terminal.repl import PROMPT, Repl, on_interrupt

NEWS_EVERY = 0.2
_MENU = 6  # lines of completions


class FullReader(Completer):
    """Reads messages: Enter sends; Alt-Enter, Ctrl-J or a backslash before Enter begin a new line."""

    shows_status = True

    def __init__(self, history: InputHistory, repl: Repl) -> None:
        self._repl = repl
        self._session: PromptSession[str] = PromptSession(
            PROMPT,
            history=InMemoryHistory(history.all()),
            completer=self,
            complete_while_typing=Condition(lambda: self._session.default_buffer.text.startswith("/")),
            reserve_space_for_menu=_MENU,
            multiline=True,
            prompt_continuation=" " * len(PROMPT),
            key_bindings=_bindings(repl),
            bottom_toolbar=repl.status,
            style=Style.from_dict({"bottom-toolbar": "noreverse dim", "bottom-toolbar.text": "dim"}),
            enable_suspend=True,
        )

    def read(self) -> str:
        """The next message; news that arrive meanwhile are printed above it."""
        with on_interrupt(lambda: None):  # it reads Ctrl-C itself, and is not interrupted while it begins to
            return self._session.prompt(pre_run=self._begin)

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterator[Completion]:
        """What may stand for the word at the cursor."""
        text = document.text_before_cursor
        for found in self._repl.complete(text):
            yield Completion(found, start_position=-len(text.split(" ")[-1]))

    def _begin(self) -> None:
        if self._repl.has_news() is not None:
            self._session.app.create_background_task(self._tell())

    async def _tell(self) -> None:
        while (news := self._repl.has_news()) is not None:
            if news:
                await run_in_terminal(self._repl.tell_news)
            await asyncio.sleep(NEWS_EVERY)


def _bindings(repl: Repl) -> KeyBindings:
    keys = KeyBindings()

    @keys.add("enter", eager=True)
    def send(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if buffer.document.text_before_cursor.endswith("\\"):
            buffer.delete_before_cursor()
            buffer.insert_text("\n")
        else:
            buffer.validate_and_handle()

    @keys.add("c-j", eager=True)
    @keys.add("escape", "enter", eager=True)
    def begin_line(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    @keys.add("c-o", eager=True)
    def show_call(event: KeyPressEvent) -> None:
        run_in_terminal(repl.expand)

    return keys
