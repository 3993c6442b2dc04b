"""Conversations that are kept: what is written of them, how they are found again, and what an erasure takes out."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from cases import each_case
from memsheaf.chat.conversations import Conversation, Conversations, InputHistory
from memsheaf.config import Settings
from memsheaf.errors import StoreFailed
from memsheaf.learn.conversation_file import ConversationLine, append_lines, forget
from memsheaf.llm.model import Said, ToolCall
from memsheaf.sheaf import Sheaf
from memsheaf.state import State
from memsheaf.transfer import erase

POSIX = pytest.mark.skipif(os.name != "posix", reason="needs permissions and limits of POSIX")
BEGAN = 1_794_744_000.0  # 2026-11-15, noon in UTC
TALK = (
    Said("user", "Which port does the proxy use?", beside="<memory>The proxy listens on 8080.</memory>"),
    Said("assistant", "I look.", (ToolCall("c1", "grep", '{"pattern": "listen"}'),)),
    Said("tool", "proxy.conf:3: listen 8080", answers="c1", tool="grep"),
    Said("assistant", "It uses 8080."),
)


class Clock:
    """A clock that goes on by a second whenever somebody looks."""

    def __init__(self) -> None:
        self.now = BEGAN

    def __call__(self) -> float:
        self.now += 1.0
        return self.now


@pytest.fixture
def state(tmp_path: Path) -> State:
    return State(str(tmp_path / "state" / ("0" * 24)))


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def kept(state: State, clock: Clock) -> Conversations:
    return Conversations(state, clock=clock)


def bare(*said: Said) -> list[Said]:
    return [one._replace(beside="") for one in said]


def files(state: State) -> dict[str, bytes]:
    return {name: Path(state.folder, name).read_bytes() for name in state.names(drafts=True)}


def spoken(kept: Conversations, *texts: str) -> Conversation:
    """A conversation in which the user said this, closed."""
    with kept.begin() as conversation:
        for text in texts:
            conversation.add(Said("user", text), Said("assistant", "Yes."))
    return conversation


# keeping


def test_what_was_said_is_there_again_without_what_stood_beside_it(kept: Conversations, state: State) -> None:
    with kept.begin() as begun:
        begun.add(*TALK[:2])
        begun.add(*TALK[2:])

    with kept.open(begun.id) as conversation:
        assert conversation.messages() == bare(*TALK)
    assert b"<memory>" not in b"".join(files(state).values())


def test_each_message_is_a_line_of_json_for_this_user_alone(kept: Conversations, state: State) -> None:
    conversation = spoken(kept, "Tabs or spaces? 日本語")

    place = Path(state.folder, f"conversation-{conversation.id}.jsonl")
    records = [json.loads(line) for line in place.read_text(encoding="utf-8").splitlines()]

    assert [record["role"] for record in records] == ["user", "assistant"]
    assert records[0] == {
        "role": "user", "text": "Tabs or spaces? 日本語", "calls": [], "answers": "", "tool": "",
        "at": records[0]["at"],
    }  # fmt: skip
    assert records[0]["at"].startswith("2026-11-15T12:00:")
    if os.name == "posix":
        assert place.stat().st_mode & 0o777 == 0o600


# secrets, and what is off the record


def test_a_secret_reaches_the_file_in_no_part_of_a_message(kept: Conversations, state: State) -> None:
    secret = "Corr3ct-H0rse-Fake"
    token = "ghp_" + "a1B2c3D4e5F6g7H8i9J0" + "k1L2m3N4o5P6q7R8"
    call = ToolCall(
        "c", "shell", json.dumps({"command": f"curl -H 'Authorization: token {token}' x", "password": secret})
    )
    with kept.begin(model="m") as conversation:
        conversation.add(
            Said("user", f"the password is {secret}"),
            Said("assistant", f"I use {token}.", (call,)),
            Said("tool", f"password: {secret}", answers="c", tool="shell"),
        )
        conversation.mark(model=f"token {token}")
        conversation.replace_messages([Said("user", f"the password is {secret}")])
        assert isinstance(json.loads(list(conversation.lines())[2].said.calls[0].arguments), dict)  # type: ignore[union-attr]
        InputHistory(state).add(f"the password is {secret}")

    written = b"".join(files(state).values())
    assert secret.encode() not in written
    assert token.encode() not in written
    assert "[removed: " in kept.list()[0].title


def test_a_turn_off_the_record_is_kept_without_a_word_of_it(kept: Conversations, state: State) -> None:
    call = ToolCall("c", "shell", '{"command": "echo Quentin"}')
    with kept.begin() as conversation:
        conversation.add(Said("user", "Off the record: Quentin leaves."))
    with kept.open() as conversation:  # another process goes on with it
        conversation.add(Said("assistant", "Quentin?", (call,)))
        conversation.add(Said("tool", "Quentin", answers="c", tool="shell"), Said("assistant", "Quentin, indeed."))
        conversation.add(Said("user", "And now?"), Said("assistant", "Lunch."))
        conversation.replace_messages(
            [Said("user", "Off the record: Quentin leaves."), Said("assistant", "Quentin?"), Said("user", "Now.")]
        )
        InputHistory(state).add("Off the record: Quentin leaves.")
    with kept.open() as again:
        assert [one.text for one in again.messages()] == ["(off the record)", "(off the record)", "Now."]

    assert b"Quentin" not in b"".join(files(state).values())
    assert b"Lunch" in b"".join(files(state).values())


# two at once


def test_whoever_wants_to_go_on_with_one_that_is_open_is_told_and_may_read_it(
    kept: Conversations, state: State
) -> None:
    program = (
        "import sys; from memsheaf.chat.conversations import Conversations; from memsheaf.llm.model import Said\n"
        "from memsheaf.state import State; from memsheaf.errors import Refused\n"
        "kept = Conversations(State(sys.argv[1]))\n"
        "print(kept.open('last', reading=True).messages()[0].text)\n"
        "for attempt in (lambda: kept.open(), lambda: kept.remove('last'),\n"
        "                lambda: kept.open(reading=True).add(Said('user', 'mine'))):\n"
        "    try: attempt()\n"
        "    except Refused as error: print(error)\n"
        "print(kept.prune(-1.0))\n"
    )
    with kept.begin() as conversation:
        conversation.add(Said("user", "Hello."))
        before = files(state)
        command = [sys.executable, "-c", program, state.folder]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
        assert files(state) == before

    refused = f"the conversation {conversation.id} is open already, here or in another process"
    assert said == ["Hello.", refused, refused, refused, "0"]
    with kept.open() as again:
        assert again.id == conversation.id


# what happens to files


def test_a_torn_line_and_garbage_cost_only_themselves(kept: Conversations, state: State) -> None:
    with kept.begin() as conversation:
        conversation.add(*TALK)
    place = Path(state.folder, conversation.name)
    garbage = b'\xff\xfe\n[1]\n{"role": "nobody", "text": ""}\n{"role": "user"}\n"x"\n\n' + b"[" * 100_000 + b"\n"
    torn = b'{"role": "user", "text": "half of'
    place.write_bytes(garbage + place.read_bytes() + garbage + torn)
    odd = spoken(kept, "x")
    Path(state.folder, odd.name).write_bytes(b"\0" * 5_000)
    assert (kept.list()[-1].id, kept.list()[-1].title, kept.list()[-1].turns) == (odd.id, "", 0)
    kept.remove(odd.id)

    with kept.open() as conversation:
        assert conversation.messages() == bare(*TALK)
        conversation.add(Said("user", "And now?"))
        assert conversation.messages() == [*bare(*TALK), Said("user", "And now?")]
    (one,) = kept.list()
    assert (one.turns, one.began < one.last) == (2, True)


@POSIX
def test_a_full_disk_is_told_and_adds_nothing(kept: Conversations, state: State) -> None:
    conversation = spoken(kept, "Hello.")
    before = files(state)
    program = (
        "import resource, signal, sys; from memsheaf.chat.conversations import Conversations, InputHistory\n"
        "from memsheaf.llm.model import Said; from memsheaf.state import State\n"
        "from memsheaf.errors import StoreFailed\n"
        "with Conversations(State(sys.argv[1])).open() as conversation:\n"
        "    allowed = resource.getrlimit(resource.RLIMIT_FSIZE)\n"
        "    resource.setrlimit(resource.RLIMIT_FSIZE, (700, allowed[1]))\n"
        "    for attempt in (lambda: conversation.add(*[Said('user', 'x' * 150)] * 9),\n"
        "                    lambda: conversation.replace_messages([Said('user', 'x' * 1000)])):\n"
        "        try: attempt()\n"
        "        except StoreFailed as error: print(error)\n"
        "    InputHistory(State(sys.argv[1])).add('x' * 1000)\n"
    )
    command = [sys.executable, "-c", program, state.folder]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()

    assert len(said) == 2
    place = f"{conversation.name} in {state.folder!r} cannot be written: "
    assert all(line.startswith(place) for line in said)
    assert {name: data for name, data in files(state).items() if name != "history"} == before
    with kept.open() as conversation:
        conversation.add(Said("user", "Again."))
        assert [one.text for one in conversation.messages()] == ["Hello.", "Yes.", "Again."]


@POSIX
def test_a_link_in_the_place_of_a_conversation_is_neither_followed_nor_cut(
    kept: Conversations, state: State, tmp_path: Path
) -> None:
    conversation = spoken(kept, "x")
    (tmp_path / "victim").write_bytes(b"precious, and longer than a name")
    place = Path(state.folder, conversation.name)
    place.unlink()
    place.symlink_to(tmp_path / "victim")

    with kept.open() as conversation, pytest.raises(StoreFailed):
        conversation.add(Said("user", "more"))

    assert (tmp_path / "victim").read_bytes() == b"precious, and longer than a name"
    assert kept.list()[0].turns == 0


# erasing


FACT = 'The vault in Zürich opens at "noon", and\tKim has the key.'
FILE = "user_vault-hours.md"


def text_of(body: str, name: str = "V", description: str = "d") -> bytes:
    return f"---\nname: {name}\ndescription: {description}\ntype: user\n---\n{body}\n".encode()


def told(sheaf: Sheaf) -> Conversation:
    """A conversation in which a fact is said, saved, listed and made short, among other things."""
    arguments = {"name": "Vault hours", "description": "When the vault can be opened", "content": FACT}
    conversation = Conversations(sheaf.own.state).begin(model="scripted")
    with conversation:
        conversation.add(
            Said("user", f"Good morning.\n{FACT}\nRemember that."),
            Said("assistant", "I save it.", (ToolCall("c1", "memory_write", json.dumps(arguments)),)),
            Said("tool", f"Memory saved: {FILE}", answers="c1", tool="memory_write"),
            Said("assistant", f"Saved as `{FILE}`; the catalog has [Vault hours]({FILE}) now."),
            Said("user", "Which editor do I use?"),
            Said("assistant", f"Helix.\nAs to the vault: {FACT}"),
        )
        version = sheaf.read(FILE).version
        facts = {"state": {"surfaced": [["user", FILE, version]], "spent": 12}}
        append_lines(sheaf.own.state, conversation.name, [ConversationLine("2026-11-15T12:00:00.000Z", facts=facts)])
        conversation.replace_messages([Said("user", f"You said: {FACT}\nWe spoke of editors.")])
    InputHistory(sheaf.own.state).add(FACT)
    InputHistory(sheaf.own.state).add("Which editor do I use?")
    return conversation


def traces(folder: Path, *texts: str) -> list[str]:
    """The files under a folder that hold one of these, as they are or as JSON spells them, once or twice over."""
    wanted = set()
    for text in texts:
        for ascii in (True, False):
            once = json.dumps(text, ensure_ascii=ascii)[1:-1]
            wanted |= {text.encode(), once.encode(), json.dumps(once, ensure_ascii=ascii)[1:-1].encode()}
    every = [path for path in folder.rglob("*") if path.is_file()]
    return [str(path.relative_to(folder)) for path in every if any(one in path.read_bytes() for one in wanted)]


def test_what_an_erased_memory_said_is_in_no_conversation_and_the_rest_is(sheaf: Sheaf, tmp_path: Path) -> None:
    sheaf.write("Vault hours", "When the vault can be opened", "user", FACT)
    version = sheaf.read(FILE).version
    conversation = told(sheaf)
    everything = (FACT, FILE, "Kim has the key", "When the vault can be opened", version)
    assert len(traces(tmp_path / "state", FACT)) == 2

    proof = erase(sheaf.own, FILE)

    assert (proof.gone, proof.left) == (True, ())
    assert traces(tmp_path, *everything) == []
    with Conversations(sheaf.own.state).open(conversation.id) as conversation:
        assert [one.text for one in conversation.messages()] == ["(erased)"]
        messages = [line.said for line in conversation.lines() if line.said]
        assert [one.text for one in messages] == [
            "(erased)",
            "(erased)",
            "(erased)",
            "(erased)",
            "Which editor do I use?",
            "(erased)",
        ]
        assert messages[1].calls[0].arguments == "{}"
        facts = [line.facts for line in conversation.lines() if line.facts]
        assert facts == [{"model": "scripted"}]
    assert InputHistory(sheaf.own.state).all() == ["Which editor do I use?"]


def test_an_erasure_reaches_the_conversations_of_every_scope(settings: Settings, tmp_path: Path) -> None:
    with Sheaf.open("user", settings=settings) as sheaf, Sheaf.open("agent/writer", settings=settings) as other:
        sheaf.write("Vault hours", "When the vault can be opened", "user", FACT)
        with Conversations(other.own.state).begin() as conversation:
            conversation.add(Said("user", FACT))
        assert traces(tmp_path / "state", FACT)

        assert erase(sheaf.own, FILE).gone

    assert traces(tmp_path / "state", FACT) == []


def test_a_conversation_that_is_open_is_cleaned_and_goes_on(sheaf: Sheaf, tmp_path: Path) -> None:
    sheaf.write("Vault hours", "When the vault can be opened", "user", FACT)
    with Conversations(sheaf.own.state).begin() as conversation:
        conversation.add(Said("user", FACT))

        assert erase(sheaf.own, FILE).gone

        conversation.add(Said("assistant", "Yes."))
        assert [one.text for one in conversation.messages()] == ["(erased)", "Yes."]


def test_a_torn_line_that_holds_an_erased_memory_goes_too(sheaf: Sheaf, tmp_path: Path) -> None:
    sheaf.write("Vault hours", "When the vault can be opened", "user", FACT)
    conversation = told(sheaf)
    place = Path(sheaf.own.state.folder, conversation.name)
    place.write_bytes(place.read_bytes() + json.dumps({"role": "user", "text": FACT}).encode()[:-1])
    (place.parent / f"draft-{conversation.name}-0123").write_bytes(FACT.encode())
    (place.parent / "draft-history-0123").write_bytes(FACT.encode())

    assert erase(sheaf.own, FILE).gone

    assert traces(tmp_path / "state", FACT) == []


def test_the_proof_names_a_conversation_that_still_holds_the_text(sheaf: Sheaf) -> None:
    sheaf.write("Vault hours", "When the vault can be opened", "user", FACT)
    arguments = json.dumps({"content": FACT}, ensure_ascii=False)
    record = json.dumps({"calls": [{"arguments": arguments}]}, ensure_ascii=False)
    os.makedirs(sheaf.own.state.folder, exist_ok=True)
    Path(sheaf.own.state.folder, "elsewhere.jsonl").write_text(record, encoding="utf-8")

    proof = erase(sheaf.own, FILE)

    assert not proof.gone
    assert proof.left[0].endswith("elsewhere.jsonl")


DEPLOYS = "Deploys run on Tuesdays, from the blue runner in Oslo, never before nine, and Maria signs each of them."
PARTS = ["Deploys run on Tuesdays", "from the blue runner in Oslo", "never before nine", "Maria signs each of them"]
CATALOG = "# Memory\n{}\n- [Tabs](user_tabs.md): indentation"


@each_case(
    "text, left, body",
    [
        ("We spoke of vaults and of noon.", None, FACT),
        ("See notes.md in the repository.", None, FACT),
        ("Kim has the key.", None, FACT),
        (f"one\n{FACT.upper()}\nthree", "(erased)", FACT),
        ("\n".join(PARTS), "(erased)", DEPLOYS),
        (CATALOG.format(f"- [Vault hours]({FILE}): the opening times"), "(erased)", FACT),
    ],
)
def test_a_message_that_says_the_same_is_taken_out_and_no_other(
    text: str, left: str | None, body: str, kept: Conversations, state: State
) -> None:
    conversation = spoken(kept, text)

    forget(state, [text_of(body, "Vault hours", "The opening times")], ["notes.md", FILE])

    assert conversation.messages()[0].text == (text if left is None else left)


@each_case(
    "arguments, body",
    [
        (json.dumps({"lines": PARTS, "count": 4}), DEPLOYS),
        (json.dumps({"files": [{"text": FACT, "size": 3}], "to": "x.md"}), FACT),
        (f'{{"content": "{FACT}', FACT),  # it is no JSON
    ],
)
def test_arguments_of_a_call_that_say_the_same_are_taken_out(
    arguments: str, body: str, kept: Conversations, state: State
) -> None:
    with kept.begin() as conversation:
        conversation.add(Said("assistant", "", (ToolCall("c", "write", arguments),)))

    forget(state, [text_of(body)])

    assert conversation.messages()[0].calls[0].arguments == "{}"


def test_an_erasure_meets_lines_that_are_added_at_the_same_time(kept: Conversations, state: State) -> None:
    program = (
        "import sys; from memsheaf.chat.conversations import Conversations; from memsheaf.llm.model import Said\n"
        "from memsheaf.state import State\n"
        "with Conversations(State(sys.argv[1])).begin() as conversation:\n"
        "    for number in range(30):\n"
        "        conversation.add(Said('user', f'message {number}'), Said('assistant', sys.argv[2]))\n"
    )
    spoken(kept, FACT)
    writers = [subprocess.Popen([sys.executable, "-c", program, state.folder, FACT]) for _ in range(2)]
    text = text_of(FACT)
    rounds = 0
    while any(writer.poll() is None for writer in writers):
        forget(state, [text])
        rounds += 1
    assert [writer.wait() for writer in writers] == [0, 0]
    forget(state, [text])

    assert rounds
    expected = [f"message {number}" for number in range(30)]
    said = [kept.open(one.id, reading=True).messages() for one in kept.list() if one.turns == 30]
    assert [[one.text for one in whole if one.role == "user"] for whole in said] == [expected, expected]
    assert {one.text for whole in said for one in whole if one.role == "assistant"} == {"(erased)"}


@each_case("before", ["x\n", "x\t", "x ", '"'])
def test_a_secret_behind_a_line_break_in_a_calls_arguments_is_taken_out(before: str) -> None:
    from memsheaf.learn.conversation_file import clean_message

    token = "ghp_" + "16C7e42F292c6912E771" + "0c838347Ae178B4a"
    call = ToolCall("c", "memory_write", json.dumps({"content": before + token, "list": [before + token]}))
    kept = clean_message(Said("assistant", "", (call,))).calls[0].arguments
    assert token not in kept
    assert isinstance(json.loads(kept), dict)
