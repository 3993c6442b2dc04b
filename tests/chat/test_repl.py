"""The chat as a person has it: the real program in a pseudo-terminal, offline or with a model on this machine."""

from __future__ import annotations

import io
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest

from chat.scene import Scene, calling
from llm.talkers import Asked, Reply, Server, breaks_after, call, hangs, openai_server, say, status, waits
from memsheaf.chat.events import Event, Text
from memsheaf.chat.permissions import Wish
from memsheaf.chat.terminal.line_editor import interrupted_once
from memsheaf.chat.terminal.repl import Asking, Repl, greeting, take_turn
from memsheaf.chat.terminal.screen import Printed, Screen, Unwritten
from memsheaf.chat.terminal.slash import Commands
from memsheaf.errors import ModelFailed
from memsheaf.llm.talker import Request, Said, Step

if sys.platform == "win32":
    pytest.skip("there are no pseudo-terminals", allow_module_level=True)

from chat.terminal import CTRL_C, CTRL_D, CTRL_J, CTRL_O, ENTER, ESCAPE, TAB, UP, Terminal

WITHOUT = "import sys; sys.modules['prompt_toolkit'] = None; from memsheaf.cli import main; sys.exit(main())"
READERS = {"full": ["-m", "memsheaf"], "plain": ["-c", WITHOUT]}
Chat = Callable[..., Terminal]


@pytest.fixture(params=list(READERS))
def reader(request: pytest.FixtureRequest) -> str:
    """With prompt_toolkit, and without it."""
    if request.param == "full":
        pytest.importorskip("prompt_toolkit")
    return str(request.param)


@pytest.fixture
def work(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return {
        "MEMSHEAF_HOME": str(tmp_path / "home"),
        "MEMSHEAF_CACHE": str(tmp_path / "cache"),
        "MEMSHEAF_EMBEDDER": "none",
        "HOME": str(tmp_path),
        "PATH": os.environ["PATH"],
        "INPUTRC": os.devnull,
    }


@pytest.fixture
def chat(environment: dict[str, str], work: Path) -> Chat:
    """Start the real program."""

    def started(*words: str, reader: str = "full", **more: str) -> Terminal:
        return Terminal([sys.executable, *READERS[reader], "chat", *words], {**environment, **more}, work)

    return started


@contextmanager
def served(
    chat: Chat, *script: Reply, reader: str = "full", aside: Callable[[Asked], Reply] = lambda asked: status(503)
) -> Iterator[tuple[Terminal, Server]]:
    """A chat with a model on this machine that says this."""
    pytest.importorskip("pydantic_ai")
    pytest.importorskip("openai")
    with openai_server(script, aside=aside) as server:
        words = ("--model", "openai-compatible:test", "--url", server.url)
        with chat(*words, reader=reader, OPENAI_API_KEY="") as terminal:
            terminal.prompt()
            yield terminal, server


def messages(server: Server) -> list[str]:
    """What the user said last in each request."""
    found = []
    for asked in server.requests:
        said = [one["content"] for one in asked.body["messages"] if one["role"] == "user"][-1]
        found.append(said if isinstance(said, str) else "".join(part["text"] for part in said))
    return found


# with a person, offline


def test_a_chat_begins_with_what_it_is_answers_and_ends(chat: Chat, reader: str) -> None:
    with chat(reader=reader) as terminal:
        terminal.prompt()
        first = terminal.text().split("\n>")[0].splitlines()
        assert len(first) <= 4
        assert "offline" in first[1]
        assert "project (0), user (0)" in first[2]
        assert "/help" in first[3]

        terminal.tell("Remember that I prefer tabs over spaces.")
        answer = terminal.tell("What do you remember?")
        assert "tabs" in answer

        terminal.send(CTRL_D)
        assert terminal.end() == 0


def test_what_is_learned_stands_in_one_line_after_the_answer_and_the_next_chat_knows_it(
    chat: Chat, reader: str
) -> None:
    with chat(reader=reader) as terminal:
        terminal.prompt()
        answer = terminal.tell("Remember that I prefer tabs over spaces.")
        assert "[memory: 1 learned: " in answer
        assert "[memory: left out of this turn]" in terminal.tell("/ignore what is my indentation?")
        terminal.send(CTRL_D)
        terminal.end()
    with chat(reader=reader) as terminal:
        terminal.prompt()
        assert "(1)" in terminal.text()
        assert "tabs" in terminal.tell("What do you know about my preferences?")


def test_a_program_that_types_may_end_a_line_with_a_line_feed(chat: Chat, reader: str) -> None:
    with chat(reader=reader) as terminal:
        terminal.prompt()
        place = terminal.cells.place
        terminal.send("What do you remember?\n")
        terminal.wait("Nothing is remembered yet.")
        terminal.prompt(below=place)


def test_ctrl_c_at_the_prompt_clears_the_line_and_twice_says_how_to_leave(chat: Chat) -> None:
    pytest.importorskip("prompt_toolkit")
    with chat() as terminal:
        terminal.prompt()
        terminal.type("half a thought")
        place = terminal.cells.place
        terminal.send(CTRL_C)
        terminal.prompt(below=place)
        assert "leaves" not in terminal.text().split("half a thought")[1]
        place = terminal.cells.place
        terminal.send(CTRL_C)
        terminal.wait("Ctrl-D or /exit leaves")
        terminal.prompt(below=place)
        terminal.type("/exit")
        terminal.send(ENTER)
        assert terminal.end() == 0


def test_ctrl_c_at_a_plain_prompt_clears_the_line_and_says_how_to_leave(chat: Chat) -> None:
    with chat(reader="plain") as terminal:
        terminal.prompt()
        terminal.type("half a thought")
        pressed = iter(range(200))  # CPython's readline loses the one that comes just before it waits

        def is_told() -> bool:
            if next(pressed) % 10 == 0:
                terminal.send(CTRL_C)
            return "Ctrl-D or /exit leaves" in terminal.text()

        terminal.until(is_told, "how to leave")
        terminal.until(terminal.is_at_prompt, "the prompt")
        assert "Without a model" not in terminal.text()
        terminal.send(CTRL_D)
        assert terminal.end() == 0


def test_slash_commands_run_and_say_so_when_they_do_not_exist(chat: Chat, reader: str) -> None:
    with chat(reader=reader) as terminal:
        terminal.prompt()
        assert "/memory" in terminal.tell("/help")
        assert "did you mean /memory?" in terminal.tell("/memroy")
        assert "usage: memsheaf notes" in terminal.tell("/notes --help")
        terminal.tell("/remember I prefer tabs over spaces")
        listed = terminal.tell("/memory")
        assert "tabs" in listed
        file = next(word for word in listed.split() if word.endswith(".md"))
        assert "tabs" in terminal.tell(f"/memory show {file}")
        assert "no memory at 'nobody.md'" in terminal.tell("/memory show nobody.md")
        assert "Forgot" in terminal.tell(f"/forget {file}")
        terminal.tell("/memory undo")
        assert "tabs" in terminal.tell("/memory")


def test_a_word_is_completed(chat: Chat, reader: str) -> None:
    with chat(reader=reader) as terminal:
        terminal.prompt()
        terminal.type("/mem")
        terminal.send(TAB)
        terminal.wait("> /memory")
        terminal.type(" li")
        terminal.send(TAB)
        terminal.wait("> /memory list")
        place = terminal.cells.place
        terminal.send(ENTER)
        terminal.wait("no memories in project, user")
        terminal.prompt(below=place)


def test_what_was_typed_is_there_in_the_next_chat(chat: Chat, reader: str) -> None:
    with chat(reader=reader) as terminal:
        terminal.prompt()
        terminal.tell("What do you remember?")
        terminal.send(CTRL_D)
        terminal.end()
    with chat(reader=reader) as terminal:
        terminal.prompt()
        terminal.send(UP)
        terminal.wait("> What do you remember?")


def test_a_status_line_says_who_answers_where_and_whether_it_is_plan_mode(chat: Chat) -> None:
    pytest.importorskip("prompt_toolkit")
    with chat() as terminal:
        terminal.prompt()
        terminal.wait("offline · project")
        terminal.tell("/plan")
        terminal.wait("offline · project · plan mode")


def test_no_colour_is_used_where_none_is_wanted(chat: Chat) -> None:
    with chat(reader="plain", NO_COLOR="1") as terminal:
        terminal.prompt()
        terminal.tell("/help")
        assert b"\x1b[2m" not in terminal.raw
        assert b"\x1b[3" not in terminal.raw


# permission


@pytest.mark.parametrize(
    ("key", "is_written", "said"),
    [("y", True, "once"), ("a", True, "always"), ("n", False, "no"), ("N", False, "never"),
     (CTRL_C, False, "no"), (CTRL_D, False, "no")],
)  # fmt: skip
def test_a_file_is_written_only_after_a_yes(chat: Chat, work: Path, key: str, is_written: bool, said: str) -> None:
    with chat(reader="plain") as terminal:
        terminal.prompt()
        terminal.type("Create a Python file called test.py")
        place = terminal.cells.place
        terminal.send(ENTER)
        terminal.wait("y once, a always, n no, N never?")
        terminal.send(key)
        terminal.prompt(below=place)
        assert f"never? {said}" in terminal.text()
        assert (work / "test.py").exists() == is_written


def test_what_was_typed_before_a_question_is_no_answer(chat: Chat, work: Path) -> None:
    may_ask = threading.Event()
    asks = say("I begin") + waits(may_ask) + call("shell", {"command": "echo > ran"})
    with served(chat, asks, say("Done."), reader="plain") as (terminal, _):
        terminal.type("run it")
        terminal.send(ENTER)
        terminal.wait("I begin")
        terminal.send("y")
        may_ask.set()
        terminal.wait("N never?")
        terminal.send("n")
        terminal.wait("Done.")
        assert "N never? no" in terminal.text()
        assert not (work / "ran").exists()


def test_what_is_pasted_into_a_question_is_no_answer(chat: Chat, work: Path) -> None:
    with served(chat, call("shell", {"command": "echo > ran"}), say("Done."), reader="plain") as (terminal, _):
        terminal.type("run it")
        terminal.send(ENTER)
        terminal.wait("N never?")
        terminal.send("yes\n")
        terminal.wait("N never?", times=2)
        terminal.send("n\n")
        terminal.wait("Done.")
        assert not (work / "ran").exists()


def test_a_command_that_is_always_allowed_is_not_asked_for_again_and_another_is(chat: Chat, work: Path) -> None:
    again = call("shell", {"command": "echo >> ran"})
    script = (again, say("One."), again, say("Two."), call("shell", {"command": "echo >> ran; ls"}), say("Three."))
    with served(chat, *script) as (terminal, _):
        terminal.type("go")
        terminal.send(ENTER)
        terminal.wait("N never?")
        terminal.send("a")
        terminal.wait("One.")
        terminal.prompt(below=terminal.cells.place)
        assert "never?" not in terminal.tell("again")
        assert "echo >> ran" in terminal.tell("/allow")
        terminal.type("another")
        terminal.send(ENTER)
        terminal.wait("N never?", times=2)
        terminal.send("n")
        terminal.wait("Three.")
        assert (work / "ran").read_text() == "\n\n"


def test_a_long_detail_is_cut_and_d_shows_all_of_it() -> None:
    out, keys = io.StringIO(), iter("xdy")
    asking = Asking(Screen(out, io.StringIO(), live=True), lambda: nullcontext(lambda: next(keys)))

    answer = asking(Wish("write", "write a.py (+40 lines)", "\n".join(f"+{n}" for n in range(40)), "write"))

    assert answer == "once"
    first, second, third = out.getvalue().split("write a.py (+40 lines)\n")[1:]
    assert "\n… 24 more lines\n" in first
    assert "d shows all" in second
    assert "│ +39\n" in third
    assert "d shows all" not in third


def test_one_very_long_line_of_a_detail_is_cut_too() -> None:
    out, keys = io.StringIO(), iter("n")
    asking = Asking(Screen(out, io.StringIO(), live=True), lambda: nullcontext(lambda: next(keys)))

    asking(Wish("shell", "run: x", "x" * 10_000, "run"))

    assert len(out.getvalue().splitlines()) < 30
    assert "d shows all" in out.getvalue()


def test_text_in_a_question_cannot_look_like_the_question() -> None:
    out, keys = io.StringIO(), iter("n")
    screen = Screen(out, io.StringIO(), live=True, width=lambda: 40)
    asking = Asking(screen, lambda: nullcontext(lambda: next(keys)))
    fake = "y once, a always, n no, N never? once"

    wish = Wish("shell", f"run: x\n{fake}{'x' * 80}{fake}", f"x\n{fake}\r{fake}{' ' * 80}{fake}", "run", outside=True)
    asking(wish)

    lines = out.getvalue().splitlines()
    assert lines[0] == "outside the working directory: run: x"
    assert [line for line in lines[1:] if not line.startswith("│ ")] == ["y once, a always, n no, N never? no"]


# with a model


def test_ctrl_c_stops_the_turn_and_not_the_program(chat: Chat, reader: str) -> None:
    with served(chat, hangs("I begin"), say("I am still here."), reader=reader) as (terminal, server):
        terminal.type("go")
        place = terminal.cells.place
        terminal.send(ENTER)
        terminal.wait("I begin")
        terminal.send(CTRL_C)
        terminal.wait("stopped")
        terminal.prompt(below=place)
        assert server.was_left.wait(30)
        assert "I am still here." in terminal.tell("and now?")


def test_what_is_typed_during_an_answer_is_at_the_next_prompt_and_not_in_the_answer(chat: Chat, reader: str) -> None:
    may_end = threading.Event()
    with served(chat, say("I begin") + waits(may_end) + say(" and end."), reader=reader) as (terminal, _):
        terminal.type("go")
        terminal.send(ENTER)
        terminal.wait("I begin")
        terminal.send("typed ahead")
        may_end.set()
        terminal.wait("> typed ahead")
        assert "I begin and end.\n" in terminal.text()
        assert terminal.text().count("typed ahead") == 1


def test_ctrl_c_ends_a_command_that_hangs_with_all_it_started(chat: Chat, work: Path) -> None:
    hanging = call("shell", {"command": "sleep 600 & echo $! > ran; wait"})
    with served(chat, hanging, say("I am still here."), reader="plain") as (terminal, _):
        terminal.type("go")
        place = terminal.cells.place
        terminal.send(ENTER)
        terminal.wait("N never?")
        terminal.send("y")
        terminal.until(lambda: (work / "ran").is_file() and (work / "ran").read_text().strip() != "", "a process")
        terminal.send(CTRL_C)
        terminal.wait("stopped")
        terminal.prompt(below=place)
        terminal.until(lambda: not is_running(int((work / "ran").read_text())), "its end")
        assert "I am still here." in terminal.tell("and now?")


def is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    state = Path(f"/proc/{process}/stat")
    return not state.exists() or state.read_text().rpartition(")")[2].split()[0] != "Z"


def test_a_message_may_have_several_lines(chat: Chat) -> None:
    pytest.importorskip("prompt_toolkit")
    with served(chat, *[say("ok")] * 4) as (terminal, server):
        terminal.type("one")
        terminal.type(CTRL_J + "two")
        terminal.tell("")
        terminal.type("one" + ESCAPE + ENTER + "three")
        terminal.tell("")
        terminal.type("one\\" + ENTER + "four")
        terminal.tell("")
        terminal.send("\x1b[200~one\r\nfive\n\x1b[201~")
        terminal.type("six")
        terminal.tell("")
        assert messages(server) == ["one\ntwo", "one\nthree", "one\nfour", "one\nfive\nsix"], terminal.text()


def test_a_message_may_have_several_lines_without_prompt_toolkit_too(chat: Chat) -> None:
    with served(chat, *[say("ok")] * 2, reader="plain") as (terminal, server):
        terminal.type("one\\")
        terminal.send(ENTER)
        terminal.tell("two")
        terminal.send("\x1b[200~one\nthree\x1b[201~")
        terminal.wait("three")
        place = terminal.cells.place
        terminal.send(ENTER)
        terminal.prompt(below=place)
        assert messages(server) == ["one\ntwo", "one\nthree"], terminal.text()


def test_what_a_model_says_cannot_drive_the_terminal(chat: Chat) -> None:
    evil = ("\x1b", "]0;owned", "\x07", "\x1b[2", "J", "\x9b1m", "\u202egnp.exe")
    with served(chat, say(*evil)) as (terminal, _):
        answer = terminal.tell("go")
        assert "<U+001B>]0;owned<U+0007><U+001B>[2J<U+009B>1m<U+202E>gnp.exe" in answer
        assert b"\x1b]0;" not in terminal.raw
        assert "\u202e" not in terminal.raw.decode()


@pytest.mark.parametrize(
    ("trouble", "said"),
    [(status(401, message="bad key"), "401"), (breaks_after("Half an"), "Half an"), (status(400), "400")],
)
def test_a_model_that_fails_ends_in_a_line_and_the_prompt(chat: Chat, trouble: Reply, said: str) -> None:
    with served(chat, trouble, say("Well again."), reader="plain") as (terminal, _):
        answer = terminal.tell("go")
        assert said in answer
        assert "Traceback" not in answer
        assert "Well again." in terminal.tell("again")


def test_a_call_is_one_line_and_ctrl_o_shows_it_in_full(chat: Chat, work: Path) -> None:
    pytest.importorskip("prompt_toolkit")
    (work / "notes.txt").write_text("first line\nsecond line\n")
    with served(chat, call("read", {"path": "notes.txt"}), say("Read it."), reader="full") as (terminal, _):
        answer = terminal.tell("read it")
        assert "· read notes.txt — " in answer
        assert "second line" not in answer
        terminal.type("half typed")
        terminal.send(CTRL_O)
        terminal.wait("second line")
        terminal.wait("> half typed")
        terminal.wait("tokens in")


def test_what_is_learned_later_is_told_above_what_is_being_typed(chat: Chat) -> None:
    pytest.importorskip("prompt_toolkit")
    may_answer = threading.Event()

    def distilled(asked: Asked) -> Reply:
        assert may_answer.wait(60)
        return say('{"memories": []}')

    with served(chat, say("Noted."), aside=distilled) as (terminal, _):
        answer = terminal.tell("Remember that I prefer tabs over spaces.")
        assert "Noted." in answer
        assert "[memory" not in answer
        terminal.type("half a thought")
        may_answer.set()
        shown = terminal.wait("[memory: 1 learned: ")
        terminal.wait("> half a thought")
        assert shown.index("Noted.") < shown.index("[memory: 1 learned: ")


def test_who_leaves_while_something_is_learned_waits_for_it_or_does_not(chat: Chat) -> None:
    may_answer = threading.Event()

    def distilled(asked: Asked) -> Reply:
        may_answer.wait(60)
        return say('{"memories": []}')

    try:
        with served(chat, say("Noted."), reader="plain", aside=distilled) as (terminal, _):
            terminal.tell("Remember that I prefer tabs over spaces.")
            terminal.send(CTRL_D)
            terminal.wait("Ctrl-C leaves it for later")
            terminal.send(CTRL_C)
            assert terminal.end() == 0
            assert "left for later" in terminal.text()
            assert "Traceback" not in terminal.text()
            may_answer.set()  # the server waits for it, too
    finally:
        may_answer.set()
    with chat() as terminal:
        terminal.prompt()
        terminal.tell("Hello")
        terminal.send(CTRL_D)
        terminal.end()
        assert "tabs" in terminal.text()


# pieces of it


class Typed:
    """A reader with what will be typed; an exception is raised."""

    shows_status = False

    def __init__(self, *lines: str | type[BaseException]) -> None:
        self._lines = iter(lines)

    def read(self) -> str:
        line = next(self._lines, EOFError)
        if isinstance(line, str):
            return line
        raise line


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def test_a_turn_that_fails_is_told_and_the_next_one_goes_on(scene: Scene) -> None:
    out = io.StringIO()
    screen = Screen(out, io.StringIO(), live=True)
    with scene.chat([ModelFailed("the API is down"), ZeroDivisionError("odd"), "Here I am."]) as agent:
        Repl(agent, screen, io.StringIO()).run(
            Typed("one", "two", KeyboardInterrupt, "three"), Commands(agent, screen, lambda words: 0)
        )

    assert "the API is down\n" in out.getvalue()
    assert "the turn failed: ZeroDivisionError: odd\n" in out.getvalue()
    assert "Here I am.\n" in out.getvalue()


def interrupted(request: Request) -> str:
    raise KeyboardInterrupt


def test_a_turn_says_how_it_went(scene: Scene) -> None:
    screen = Printed(io.StringIO())
    with scene.chat(["Fine.", ModelFailed("down"), interrupted]) as agent:
        assert take_turn(agent, screen, "one") == (False, False)
        assert take_turn(agent, screen, "two") == (True, False)
        assert take_turn(agent, screen, "three") == (False, True)


def test_ctrl_c_again_does_not_break_into_the_tidying_up() -> None:
    seconds = iter([0.0, 10.0, 10.4, 10.9, 11.0])
    with interrupted_once(clock=lambda: next(seconds)):
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


def test_ctrl_c_while_drawing_stops_the_turn(scene: Scene) -> None:
    class Pressed(Screen):
        def draw(self, event: Event) -> None:
            super().draw(event)
            if isinstance(event, Text):
                raise KeyboardInterrupt

    out = io.StringIO()
    with scene.chat([["a", "b", "c"], "Fine."]) as agent:
        assert take_turn(agent, Pressed(out, io.StringIO(), live=True), "one").stopped
        assert out.getvalue() == "a\nstopped\n"
        assert not take_turn(agent, Screen(out, io.StringIO()), "two").failed


def test_a_screen_that_is_gone_ends_the_chat_and_not_in_a_loop(scene: Scene) -> None:
    class Gone(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError

    with scene.chat(["Fine."]) as agent, pytest.raises(Unwritten):
        take_turn(agent, Screen(Gone(), io.StringIO()), "one")


def test_what_is_learned_later_is_told_once_with_the_next_look(scene: Scene) -> None:
    out = io.StringIO()
    screen = Screen(out, io.StringIO(), live=True)
    with scene.chat(["Noted."]) as agent:
        repl = Repl(agent, screen, io.StringIO())
        for _ in agent.turn("Remember that I prefer tabs over spaces."):
            pass
        while repl.has_news() is False:
            agent.mind.learning.distiller.wait(1)

        assert repl.has_news()
        repl.tell_news()
        assert repl.has_news() is None
        assert out.getvalue().startswith("[memory: 1 learned: ")


def test_the_first_screen_has_at_most_four_lines(scene: Scene) -> None:
    with scene.chat([]) as agent:
        lines = greeting(agent, [("project", 1_200), ("user", 3)])

    assert len(lines) <= 4
    assert "project (1,200), user (3)" in lines[2]


def test_a_plain_terminal_is_told_the_cost_after_the_answer(scene: Scene) -> None:
    out = io.StringIO()
    screen = Screen(out, io.StringIO(), live=True)
    with scene.chat(["Fine.", ["Good.", Step(Said("assistant", ""), input=1_200, output=30)]]) as agent:
        Repl(agent, screen, io.StringIO()).run(Typed("one", "two"), Commands(agent, screen, lambda words: 0))

    assert out.getvalue().splitlines()[:3] == ["Fine.", "Good.", "scripted · project · 1.2k tokens in, 30 out"]


def test_the_end_of_a_turn_draws_what_tools_did(scene: Scene) -> None:
    out = io.StringIO()
    with scene.chat([calling("glob", '{"pattern": "*"}'), "None."]) as agent:
        take_turn(agent, Screen(out, io.StringIO(), live=True), "which files?")

    assert out.getvalue().startswith("· glob * — ")
    assert out.getvalue().endswith("None.\n")
