"""What was said waits until somebody has learned from it: once, in order, and without what must not be kept.

`learn_crowd.py`, beside this file, lets many processes use one inbox or log, and kills them.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memsheaf.learn.inbox import Batch, Inbox
from memsheaf.memory import parse
from memsheaf.recall.inject import Shown, render_recall, render_section
from memsheaf.recall.turns import Message, Turn
from memsheaf.state import State

HERE = os.path.dirname(os.path.abspath(__file__))
LONG = "This is long enough to be said only once."


@pytest.fixture
def inbox(tmp_path: Path) -> Inbox:
    return Inbox(State(str(tmp_path / "state")), clock=lambda: 1_790_000_000.0)


def turn(*texts: str, conversation: str = "c", ids: bool = True) -> Turn:
    """A turn in which user and assistant speak by turns; ids tell the texts apart."""
    said = (
        Message(("user", "assistant")[n % 2], text, f"id-of-the-host-{text}" if ids else "")
        for n, text in enumerate(texts)
    )
    return Turn(conversation, tuple(said))


def texts(*turns: Turn) -> list[str]:
    return [message.text for turn in turns for message in turn.messages]


def drained(inbox: Inbox, most: int = 24_000) -> list[Turn]:
    found: list[Turn] = []
    while (batch := inbox.next_batch(most)).turns:
        found += batch.turns
        inbox.finish(batch)
    return found


# what is kept


def test_a_turn_waits_until_it_is_done(inbox: Inbox) -> None:
    told = turn("I prefer tabs.", "Noted.")
    assert inbox.append(told)

    batch = inbox.next_batch()
    assert texts(*batch.turns) == ["I prefer tabs.", "Noted."]
    inbox.finish(batch)

    assert inbox.next_batch() == Batch()
    assert inbox.count_waiting() == 0


def test_a_secret_never_reaches_the_disk_nor_half_of_one_that_a_cut_would_halve(inbox: Inbox, tmp_path: Path) -> None:
    password, key = "Corr3ct-H0rse-Fake", "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    inbox.append(turn(f"The wifi password is {password}", f"I use it: password={password}"))
    inbox.append(Turn("c", (Message("tool", "word " * 900 + f"password: {password} " + "word " * 9_000),)))
    pem = "-----BEGIN RSA PRIVATE KEY-----\n" + "MIIEow" * 1_100 + "\n-----END RSA PRIVATE KEY-----"
    for head in ("", pem):
        for at in (*range(4_060, 4_100, 7), *range(8_150, 8_196, 7)):
            text = f"{head} {'x ' * ((at - len(head)) // 2)}{key} {'y ' * 9_000}"
            inbox.append(Turn("c", (Message("tool", text),)))

    found = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert [part for part in (password.encode(), b"ghp_a", b"MIIEow") if part in found] == []
    assert b"[removed: a password]" in found


def test_a_long_message_is_cut_at_a_character_and_says_so(inbox: Inbox) -> None:
    for role, limit in (("user", 16_384), ("assistant", 16_384), ("tool", 4_096)):
        for letter in "x语🙂":
            inbox.append(Turn("c", (Message(role, letter * 40_000),)))

            said, note = texts(*inbox.turns())[-1].split("\n")
            assert set(said) == {letter}
            assert limit - 4 < len(said.encode()) <= limit
            assert f"of {len(letter.encode()) * 40_000:,} bytes were kept" in note
    assert inbox.append(turn("x" * 40_001, ids=False)), "longer by what was cut off: another message"


def test_odd_text_is_kept_and_given_back(inbox: Inbox) -> None:
    for odd in ("zero\0byte", "half \ud800 a character", "\x1b[31m", "العربية 🙂 中文", "a\u2028b"):
        assert inbox.append(Turn(odd, (Message("user", f"I say {odd} here", odd),)))
        assert not inbox.append(Turn(odd, (Message("user", f"I say {odd} here", odd),)))

        (found,) = drained(inbox)
        assert found.messages[0].text == f"I say {odd} here".replace("\ud800", "?")


def test_our_own_words_and_those_of_the_host_are_not_what_the_user_said(inbox: Inbox) -> None:
    memory = parse("user_x.md", b"---\nname: X\ndescription: d\ntype: user\n---\nPrefers tabs.\n")
    recalled = render_recall([Shown("user", memory, "2026-11-15")], "0123456789abcdef")
    section = render_section(scope="user", catalog="# Memory\n- [X](user_x.md) tabs", context="", offer="all")
    inbox.append(turn(f"{recalled}Use spaces. <system-reminder>Be brief.</system-reminder>", f"Fine.\n{section}"))

    assert texts(*inbox.turns()) == ["Use spaces.", "Fine."]


def test_a_turn_in_which_the_user_wants_no_memory_is_not_kept_even_when_told_again(
    inbox: Inbox, tmp_path: Path
) -> None:
    told = turn("Ignore your memory for this one: what would you cook?", "Lentils, as always.")

    assert not inbox.append(told)
    assert not inbox.append(Turn("other", told.messages[1:]))
    assert inbox.turns() == []
    assert b"Lentils" not in b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())


def test_a_turn_too_long_for_one_batch_comes_in_several(inbox: Inbox) -> None:
    messages = tuple(Message("tool", f"{n} " + "x" * 3_000, f"{n:020}") for n in range(40))
    assert inbox.append(Turn("c", messages, saved=True))

    found = []
    while (batch := inbox.next_batch()).turns:
        assert sum(len(text.encode()) for text in texts(*batch.turns)) <= 24_000
        assert all(one.saved for one in batch.turns)
        found += texts(*batch.turns)
        inbox.finish(batch)
    assert found == [message.text for message in messages]


# what is told again


MESSAGES = st.lists(st.integers(0, 30), min_size=1, max_size=12)
TELLING = st.tuples(MESSAGES, st.sampled_from(["c", "resumed", "d"]), st.booleans(), st.booleans())


@given(tellings=st.lists(TELLING, min_size=1, max_size=8), most=st.sampled_from([1, 60, 24_000]))
@settings(max_examples=8, derandomize=True)
def test_whatever_is_told_again_after_compactions_and_resumes_each_message_is_read_once(
    tmp_path_factory: pytest.TempPathFactory, tellings: list[tuple[list[int], str, bool, bool]], most: int
) -> None:
    box = Inbox(State(str(tmp_path_factory.mktemp("inbox"))))
    read: list[str] = []
    told: set[str] = set()
    for number, (numbers, conversation, is_compacted, is_read) in enumerate(tellings):
        said = [f"message {one}" for one in dict.fromkeys(numbers)]
        if is_compacted:
            said = [f"summary {number}", *said[len(said) // 2 :]]
        told |= set(said)
        split = len(said) // 2
        parts = [part for part in (said[:split], said[split:]) if part]
        turns = [
            Turn(conversation, tuple(Message("user", text, f"the-id-of-{text}") for text in part)) for part in parts
        ]
        added = box.extend(turns) if is_read else sum(map(box.append, turns))
        assert added <= len(turns)
        if is_read:
            handed = box.next_batch(most)
            assert box.next_batch(1)._replace(tries=1) == handed._replace(tries=1)
            read += texts(*handed.turns)
            box.finish(handed)
    read += texts(*drained(box, most))

    assert sorted(read) == sorted(told)


@given(
    said=st.lists(st.sampled_from(["yes", "no", LONG, LONG + "b"]), min_size=1, max_size=10),
    cuts=st.lists(st.integers(0, 10), max_size=4),
)
@settings(max_examples=8, derandomize=True)
def test_a_transcript_without_ids_is_read_once_however_often_it_is_told(
    tmp_path_factory: pytest.TempPathFactory, said: list[str], cuts: list[int]
) -> None:
    box = Inbox(State(str(tmp_path_factory.mktemp("inbox"))))
    read: list[str] = []
    for cut in [*sorted(cuts), len(said)]:
        box.extend([turn(text, ids=False) for text in said[:cut]])
        read += texts(*drained(box))

    assert read == said


# batches


def test_the_same_batch_comes_again_with_its_id_though_more_was_said(inbox: Inbox, tmp_path: Path) -> None:
    inbox.append(turn("a"))
    first = inbox.next_batch()
    inbox.append(turn("b"))

    again = Inbox(State(str(tmp_path / "state"))).next_batch(1)

    assert (again.id, again.turns) == (first.id, first.turns)
    assert (first.tries, again.tries) == (1, 2)
    inbox.finish(again)
    assert texts(*inbox.next_batch().turns) == ["b"]
    assert inbox.next_batch().id != first.id


def test_nothing_of_a_turn_that_is_done_stays_on_disk(inbox: Inbox, tmp_path: Path) -> None:
    inbox.append(turn("the zebra is striped"))
    inbox.append(turn("the lion is not", conversation="d"))
    inbox.finish(inbox.next_batch())

    found = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert b"zebra" not in found
    assert b"lion" in found


# what must go


def test_a_purge_drops_messages_and_they_do_not_come_back(inbox: Inbox, tmp_path: Path) -> None:
    inbox.append(turn("my phone is 12345", "Noted."))
    inbox.append(turn("12345 again"))
    inbox.next_batch()
    inbox.purge(lambda text: "12345" not in text)

    assert texts(*inbox.next_batch().turns) == ["Noted."]
    assert not inbox.append(turn("my phone is 12345", "Noted."))
    files = [path for path in tmp_path.iterdir() if path.is_file()]
    assert len(files) > 2
    assert not any(b"12345" in path.read_bytes() for path in files)


def test_clearing_drops_all_that_waits(inbox: Inbox) -> None:
    inbox.append(turn("a", "b"))
    inbox.append(turn("c"))

    assert inbox.clear() == 2
    assert (inbox.turns(), inbox.next_batch(), inbox.count_learned()) == ([], Batch(), 0)
    assert not inbox.append(turn("a", "b"))


# trouble


def test_a_damaged_state_is_set_aside_and_what_is_said_then_waits(tmp_path: Path) -> None:
    for damage in (b"", b"\0" * 8_192, b"no database, but longer than the header of one is" * 99):
        folder = tmp_path / str(len(damage))
        folder.mkdir()
        (folder / "state.db").write_bytes(damage)
        other = Inbox(State(str(folder / "state")))

        assert (other.turns(), other.count_waiting(), other.next_batch()) == ([], 0, Batch())
        assert other.append(turn("d"))
        assert texts(*drained(other)) == ["d"]
        assert [path.read_bytes() for path in folder.glob("*.damaged-*")] == [damage] * bool(damage)


# many processes, and dead ones


def show(name: str) -> str:
    """Run a show of `learn_crowd.py` that must go well, and give what it printed."""
    done = subprocess.run(
        [sys.executable, os.path.join(HERE, "learn_crowd.py"), name], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.skipif(os.name != "posix", reason="some fork")
@pytest.mark.parametrize("name", ["inbox", "log", "strike-inbox", "strike-log"])
def test_in_a_crowd_and_killed_at_any_call_nothing_is_lost_or_read_twice(name: str) -> None:
    count, rest = show(name).split(" ", 1)

    assert int(count) > 12
    assert rest.endswith(" 0 doubled\n")


@pytest.mark.skipif(sys.platform == "win32", reason="no limits to set")
def test_a_full_disk_refuses_and_leaves_nothing_half_done() -> None:
    assert show("full") == "3 refused, nothing half done\n"
