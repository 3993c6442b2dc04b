"""Nothing is written, run or read elsewhere without the user's yes, and a yes reaches no further than was meant."""

from __future__ import annotations

from pathlib import Path

import pytest

from cases import each_case
from memsheaf.chat.permissions import Permission, PermissionRequest
from memsheaf.chat.tools import FolderTools
from memsheaf.errors import Refused

RUN = PermissionRequest("shell", "run: make", "make", reach="run", key="run make")
WRITE = PermissionRequest("write", "write a.txt", reach="write", key="write")
OUT = PermissionRequest("write", "write /etc/x", reach="write", outside=True, key="write /etc/x")
HERE = PermissionRequest("read", "read a.txt")
ELSEWHERE = PermissionRequest("read", "read /etc/x", outside=True, key="read /etc")


class User:
    """Somebody at the terminal who gives these answers, one after the other, and remembers what was asked."""

    def __init__(self, *answers: str) -> None:
        self.answers = list(answers)
        self.asked: list[PermissionRequest] = []

    def __call__(self, wish: PermissionRequest) -> str:
        self.asked.append(wish)
        return self.answers.pop(0)


def is_allowed(permission: Permission, wish: PermissionRequest) -> bool:
    try:
        permission.require(wish)
    except Refused:
        return False
    return True


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "root").mkdir()
    return tmp_path / "root"


# answers


@each_case(
    "wish, answer, allowed",
    [(wish, *given) for wish in (RUN, WRITE, OUT, ELSEWHERE) for given in (("always", True), ("never", False))],
)
def test_an_answer_for_good_is_asked_for_once(wish: PermissionRequest, answer: str, allowed: bool) -> None:
    user = User(answer)
    permission = Permission(user)
    assert [is_allowed(permission, wish) for _ in range(3)] == [allowed] * 3
    assert len(user.asked) == 1


def test_to_walk_away_is_a_no_and_to_interrupt_the_question_interrupts_the_turn() -> None:
    def walk_away(wish: PermissionRequest) -> str:
        raise EOFError

    def interrupt(wish: PermissionRequest) -> str:
        raise KeyboardInterrupt

    assert not is_allowed(Permission(walk_away), RUN)
    with pytest.raises(KeyboardInterrupt):
        Permission(interrupt).require(RUN)


# nobody there, and what was allowed beforehand


@each_case(
    "allow, wishes",
    [
        ((), []),
        (("read",), [ELSEWHERE]),
        (("write",), [WRITE]),
        (("shell",), [RUN]),
        (("outside",), [ELSEWHERE]),
        (("write", "outside"), [WRITE, OUT, ELSEWHERE]),
        (("read", "write", "shell", "outside"), [RUN, WRITE, OUT, ELSEWHERE]),
    ],
)
def test_with_nobody_there_only_what_was_allowed_beforehand_is_done(
    allow: tuple[str, ...], wishes: list[PermissionRequest]
) -> None:
    permission = Permission(None, allow=allow)
    assert [wish for wish in (RUN, WRITE, OUT, ELSEWHERE) if is_allowed(permission, wish)] == wishes


def test_in_plan_mode_nothing_is_written_or_run_whatever_was_allowed() -> None:
    user = User("always", "always", "once")
    permission = Permission(user, allow=("write", "shell", "outside"))
    assert is_allowed(permission, RUN)

    permission.planning = True
    for wish in (RUN, WRITE, OUT):
        with pytest.raises(Refused, match=r"plan mode.*Describe"):
            permission.require(wish)
    assert is_allowed(permission, HERE)

    permission.planning = False
    assert is_allowed(permission, RUN)


# in the workshop


def test_a_write_outside_is_asked_for_and_said_to_be_outside(root: Path) -> None:
    user = User("no")
    target = root.parent / "other.txt"
    for path in ("../other.txt", str(target), "sub/../../other.txt"):
        user.answers = ["no"]
        answer = FolderTools(str(root), Permission(user)).answer("write", {"path": path, "content": "x\n"})
        assert answer.failed
        assert "the user said no" in answer.text
        assert f"{target} (new, 1 line) (outside the working directory)" in answer.text
    assert all(wish.outside and str(target) in wish.line for wish in user.asked)
    assert len(user.asked) == 3
    assert not target.exists()


def test_always_for_writes_here_covers_no_write_elsewhere(root: Path) -> None:
    user = User("always", "no")
    workshop = FolderTools(str(root), Permission(user))
    assert not workshop.answer("write", {"path": "a.txt", "content": "1\n"}).failed
    assert not workshop.answer("write", {"path": "b.txt", "content": "2\n"}).failed
    assert not workshop.answer("edit", {"path": "a.txt", "old_text": "1", "new_text": "3"}).failed
    assert len(user.asked) == 1

    assert workshop.answer("write", {"path": "../c.txt", "content": "4\n"}).failed
    assert not (root.parent / "c.txt").exists()


def test_always_for_one_file_elsewhere_covers_no_other(root: Path) -> None:
    workshop = FolderTools(str(root), Permission(User("always", "no", "no")))
    assert not workshop.answer("write", {"path": "../c.txt", "content": "1\n"}).failed
    assert not workshop.answer("edit", {"path": "../c.txt", "old_text": "1", "new_text": "2"}).failed
    assert workshop.answer("write", {"path": "../d.txt", "content": "1\n"}).failed
    assert workshop.answer("write", {"path": "e.txt", "content": "1\n"}).failed
    assert (root.parent / "c.txt").read_text() == "2\n"


@each_case(
    "other", ["git status; rm -rf x", "git status ", "git  status", "git status\nrm -rf x", "git statu", "Git status"]
)
def test_always_for_a_command_covers_that_very_command_only(root: Path, other: str) -> None:
    (root / "x").mkdir(exist_ok=True)
    user = User("always", "no")
    workshop = FolderTools(str(root), Permission(user))
    workshop.answer("shell", {"command": "git status"})
    workshop.answer("shell", {"command": "git status"})
    assert len(user.asked) == 1

    assert "said no" in workshop.answer("shell", {"command": other}).text
    assert user.asked[-1].detail == other
    assert (root / "x").exists()


def test_the_question_shows_the_whole_command_and_nothing_of_it_drives_the_terminal(root: Path) -> None:
    user = User("no")
    command = f"echo {'a' * 500}\necho \x1b[1A\x1b[2K hidden \u202e; rm -rf x"
    FolderTools(str(root), Permission(user)).answer("shell", {"command": command})
    (wish,) = user.asked
    assert "\n" not in wish.line
    assert "\x1b" not in wish.line + wish.detail
    assert "a" * 500 in wish.detail
    assert "<U+001B>[1A<U+001B>[2K hidden <U+202E>; rm -rf x" in wish.detail


@each_case(
    "name, arguments",
    [
        ("read", {"path": "../out/a.txt"}),
        ("grep", {"pattern": "x", "path": "../out"}),
        ("glob", {"pattern": "../out/*"}),
    ],
)
def test_reading_elsewhere_is_asked_for(root: Path, name: str, arguments: dict[str, object]) -> None:
    (root.parent / "out").mkdir(exist_ok=True)
    (root.parent / "out" / "a.txt").write_text("xyz\n")
    user = User("no", "once")
    workshop = FolderTools(str(root), Permission(user))
    refused = workshop.answer(name, arguments)
    assert refused.failed
    assert "xyz" not in refused.text
    assert "a.txt" in workshop.answer(name, arguments).text or name == "read"
    assert all(wish.outside and wish.reach == "read" for wish in user.asked)
    assert len(user.asked) == 2


def test_always_for_a_file_elsewhere_covers_no_file_beside_or_below_it(root: Path) -> None:
    for name in ("out/a.txt", "out/b.txt", "out/below/c.txt", "outer/d.txt"):
        (root.parent / name).parent.mkdir(exist_ok=True)
        (root.parent / name).write_text("text\n")
    user = User("always", "no", "no", "no", "no")
    workshop = FolderTools(str(root), Permission(user))
    paths = ("../out/a.txt", "../out/a.txt", "../out/b.txt", "../out/below/c.txt", "../outer/d.txt")
    failed = [workshop.answer("read", {"path": path}).failed for path in paths]
    assert failed == [False, False, True, True, True]
    assert workshop.answer("grep", {"pattern": "text", "path": "../out"}).failed


def test_an_edit_elsewhere_tells_nothing_of_a_file_that_was_not_allowed_to_be_read(root: Path) -> None:
    (root.parent / "a.txt").write_text("one\ntwo\n")
    user = User("no", "once", "once")
    workshop = FolderTools(str(root), Permission(user))
    edits = [{"path": path, "old_text": text, "new_text": "x"} for path in ("../a.txt", "../b.txt") for text in "on"]
    said = {workshop.answer("edit", edit).text.replace("b.txt", "a.txt") for edit in edits}
    assert len(said) == 1
    assert "Read it first" in said.pop()
    assert user.asked == []

    assert workshop.answer("read", {"path": "../a.txt"}).failed
    assert "Read it first" in workshop.answer("edit", edits[1]).text
    assert not workshop.answer("read", {"path": "../a.txt"}).failed
    assert not workshop.answer("edit", edits[1]).failed
    assert (root.parent / "a.txt").read_text() == "oxe\ntwo\n"


def test_a_link_is_judged_by_where_it_leads(root: Path) -> None:
    out = root.parent / "out"
    out.mkdir()
    (out / "a.txt").write_text("elsewhere\n")
    (root / "folder").symlink_to(out)
    (root / "file").symlink_to(out / "a.txt")
    (root / "new").symlink_to(out / "b.txt")
    (root / "own").symlink_to(root / "plain.txt")
    (root / "plain.txt").write_text("here\n")
    user = User(*["no"] * 5)
    workshop = FolderTools(str(root), Permission(user))
    for path in ("folder/a.txt", "file"):
        assert workshop.answer("read", {"path": path}).failed
    for path in ("folder/b.txt", "new"):
        assert workshop.answer("write", {"path": path, "content": "x"}).failed
    assert [wish.outside for wish in user.asked] == [True] * 4
    assert all(str(out) in wish.line for wish in user.asked)

    assert "here" in workshop.answer("read", {"path": "own"}).text
    assert sorted(path.name for path in out.iterdir()) == ["a.txt"]


@pytest.mark.parametrize("swapped", ["sub", "sub/a.txt"])
def test_a_link_that_is_swapped_in_while_the_user_is_asked_leads_nowhere(root: Path, swapped: str) -> None:
    out = root.parent / "out"
    out.mkdir()
    (out / "a.txt").write_text("not for you\n")
    (root / "sub").mkdir()
    (root / "sub" / "a.txt").write_text("mine\n")

    def ask(wish: PermissionRequest) -> str:
        assert not wish.outside
        (root / swapped).rename(root / "aside")
        (root / swapped).symlink_to(out if swapped == "sub" else out / "a.txt")
        return "always"

    workshop = FolderTools(str(root), Permission(ask))
    answer = workshop.answer("edit", {"path": "sub/a.txt", "old_text": "mine", "new_text": "yours"})
    assert answer.failed
    assert (out / "a.txt").read_text() == "not for you\n"
    assert sorted(path.name for path in out.iterdir()) == ["a.txt"]


def test_a_folder_that_becomes_a_link_while_the_user_is_asked_gets_no_new_file(root: Path) -> None:
    out = root.parent / "out"
    out.mkdir()
    (root / "sub").mkdir()

    def ask(wish: PermissionRequest) -> str:
        (root / "sub").rmdir()
        (root / "sub").symlink_to(out)
        return "once"

    assert (
        FolderTools(str(root), Permission(ask)).answer("write", {"path": "sub/deep/new.txt", "content": "x"}).failed
    )
    assert list(out.iterdir()) == []


def test_what_the_user_allowed_to_read_is_what_is_read(root: Path) -> None:
    out = root.parent / "out"
    out.mkdir()
    (out / "a.txt").write_text("harmless\n")
    (root.parent / "private.txt").write_text("private\n")

    def ask(wish: PermissionRequest) -> str:
        (out / "a.txt").unlink()
        (out / "a.txt").symlink_to(root.parent / "private.txt")
        return "once"

    answer = FolderTools(str(root), Permission(ask)).answer("read", {"path": "../out/a.txt"})
    assert answer.failed
    assert "private\n" not in answer.text
