"""Citations, and what the text of a memory names, against real folders and real git."""

from __future__ import annotations

import os
import re
import stat
import time
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import each_case
from memsheaf.errors import Refused, TextRefused
from memsheaf.guard.citations import Citation, Verdict, check, cited, digest, is_inside, make, parse
from memsheaf.guard.evidence import check_body, examine
from memsheaf.memory import Memory
from memsheaf.memory import parse as parse_memory
from memsheaf.worktree import MAX_FILE_BYTES, WorkingTree
from trees import APP, Open, Write, git

NOBODY = 65534


@pytest.fixture(params=["git", "no git"])
def kind(request: pytest.FixtureRequest, root: Path) -> str:
    """A checkout, and a plain folder: whatever is found in one is found in the other."""
    if request.param == "git":
        git(root, "init", "-q")
    return str(request.param)


def state(citation: str, tree: WorkingTree) -> tuple[str, str]:
    verdict = judged(citation, tree)
    return verdict.state, verdict.place


def judged(citation: str, tree: WorkingTree) -> Verdict:
    parsed = parse(citation)
    assert parsed is not None, citation
    verdict = check(parsed, tree)
    assert verdict.said.endswith(".")
    assert verdict.said.isprintable()
    return verdict


# the format


def test_a_citation_is_read_and_written_back() -> None:
    for text, citation in [
        ("src/app.py", Citation("src/app.py")),
        ("src/app.py:12", Citation("src/app.py", 12)),
        ("src/app.py:12-14", Citation("src/app.py", 12, 14)),
        ("src/app.py#Server.start", Citation("src/app.py", symbol="Server.start")),
        ("src/app.rs#fmt::Display@00ff00ff", Citation("src/app.rs", symbol="fmt::Display", hash="00ff00ff")),
        ("src/app.py:1-2#f@01234567", Citation("src/app.py", 1, 2, "f", "01234567")),
        ("docs/a.md#what-may-be-stored", Citation("docs/a.md", symbol="what-may-be-stored")),
        ("Makefile:3", Citation("Makefile", 3)),
        (".gitignore", Citation(".gitignore")),
        ("bin/tool", Citation("bin/tool")),
        ("types/@scope/index.d.ts", Citation("types/@scope/index.d.ts")),
        ("My notes.txt:3@01234567", Citation("My notes.txt", 3, hash="01234567")),
        ("größe/日本.py:1", Citation("größe/日本.py", 1)),
    ]:  # fmt: skip
        assert parse(text) == citation
        assert str(citation) == text


def test_what_is_no_place_in_a_tree_is_no_citation() -> None:
    for text in [
        "", " ", "https://example.com/src/app.py", "http://localhost:80/a.py", "file:///etc/passwd", "example.com",
        "example.com/a/b.py:3", "git@example.com:a/b.git", "kim@example.org", "kim@firm.example", "what Kim said",
        "see docs/a.md", "Kim", "and/or it is", "n/a", "10:30", "localhost:8080", "2026/01/02", "1.2.3", "v1.2",
        "/etc/passwd", "/etc/passwd:1", "C:/app.py", "C:\\app.py:3", "src\\app.py", "~/app.py", "$HOME/app.py",
        "../app.py", "src/../../app.py", "src/./app.py", "./app.py", "src//app.py", "src/", ".git/config",
        "sub/.GIT/config", "-rf/app.py", "a\0.py", "a\n.py", "src/app.py\n", "src/\u202eapp.py", "src/app.py:0",
        "src/app.py:5-3", "src/app.py:1-", "src/app.py:x", "src/app.py#", "src/app.py@", "src/app.py:12345678",
        "src/app.py:1:2", "src/*.py", "<script>/a.py", "`src/app.py`", "a" * 401 + "/b.py", "a/" * 5000,
        "\ud800/a.py", " src/app.py", "src/app.py ", "src /app.py", "src/app.py@HEAD", "src/app.py@0123",
    ]:  # fmt: skip
        assert parse(text) is None, text


STEPS = st.text(st.sampled_from("abzAZ09_-.@äß日 +,()'"), min_size=1, max_size=8).filter(
    lambda step: step.strip(" .") == step and step[0] not in "-~$"
)
SYMBOLS = st.from_regex(r"[A-Za-z_$][\w$]{0,8}((\.|::|-)[A-Za-z_][\w$]{0,5}){0,2}", fullmatch=True)
CITATIONS = st.builds(
    lambda steps, first, more, ranged, symbol, digits: Citation(
        "/".join(["src", *steps]) + ".py",
        first,
        first + more if ranged and first else 0,
        "" if re.fullmatch(r"L[0-9]+(-L?[0-9]+)?", symbol) else symbol,
        digits,
    ),
    st.lists(STEPS, max_size=3),
    st.integers(0, 9_000_000),
    st.integers(0, 9000),
    st.booleans(),
    SYMBOLS | st.just(""),
    st.from_regex(r"[0-9a-f]{8}", fullmatch=True),
)


@given(CITATIONS)
def test_what_is_written_is_read_as_the_same(citation: Citation) -> None:
    assert parse(str(citation)) == citation


@given(
    st.text()
    | st.lists(
        st.sampled_from(
            ["a", "src", "/", ":", "#", "@", "-", ".", "py", "1", "12", "deadbeef", " ", "..", "L3", "\0", "$"]
        )
    ).map("".join)
)
def test_whatever_is_read_is_inside_and_survives_a_round(text: str) -> None:
    citation = parse(text)
    if citation is not None:
        assert is_inside(citation.path)
        assert parse(str(citation)) == citation
        assert citation.first <= (citation.last or citation.first)


# what is hashed


def test_a_hash_is_that_of_the_lines_joined_by_line_feeds(write: Write, open_tree: Open) -> None:
    write("app.py")

    expected = sha256(b"LIMIT = 3\n\n\nclass Server:").hexdigest()[:8]
    assert str(make(open_tree(), "app.py:3-6")) == f"app.py:3-6@{expected}"
    assert make(open_tree(), "app.py").hash == sha256(APP.rstrip("\n").encode()).hexdigest()[:8]
    assert make(open_tree(), "app.py#Server.start").hash == digest([b"    def start(self):"])


# verdicts


def test_a_line_without_a_hash_is_unchecked_and_drifted_when_it_is_beyond_the_end(
    write: Write, open_tree: Open
) -> None:
    write("app.py")

    assert state("app.py:14", open_tree()) == ("unchecked", "")
    assert judged("app.py:15", open_tree()) == ("drifted", "app.py has only 14 lines.", "")
    assert state("app.py:13-15", open_tree()) == ("drifted", "")
    write("empty.py", "")
    assert state("empty.py:1", open_tree()) == ("drifted", "")
    assert state("empty.py", open_tree()) == ("verified", "")


CHANGED = [
    ("app.py:9-10", "# new\n" * 20 + APP, "app.py:9-10 is now at app.py:29-30.", "app.py:29-30"),
    ("app.py:3", "# new\n" * 20 + APP, "app.py:3 is now at app.py:23.", "app.py:23"),
    (
        "app.py:6", "class Server:\n" + "\n" * 6 + "class Server:\n",
        "app.py:6 is now at app.py:8.", "app.py:8",
    ),
    ("app.py:13-14", "def main():\n    Server().start()\n", "app.py:13-14 is now at app.py:1-2.", "app.py:1-2"),
    ("app.py:3", APP.replace("LIMIT = 3", "LIMIT = 4"), "app.py:3 is not as it was cited.", ""),
    ("app.py", APP.replace("LIMIT = 3", "LIMIT = 4"), "app.py is not as it was cited.", ""),
    ("app.py:3", APP.encode().replace(b"LIMIT = 3", b"LIMIT = '\xe8'"), "app.py:3 is not as it was cited.", ""),
    (
        "app.py#main", APP.replace("main()", "main(port)"),
        "app.py#main is not as it was cited; `main` is at app.py:13.", "app.py:13",
    ),
]  # fmt: skip


@each_case("place, after, said, now", CHANGED)
def test_lines_that_moved_in_their_file_are_found_and_those_that_changed_have_no_place(
    place: str, after: str | bytes, said: str, now: str, write: Write, open_tree: Open
) -> None:
    write("app.py")
    citation = str(make(open_tree(), place))
    write("app.py", after)

    assert judged(citation, open_tree()) == ("drifted", said, now)


def test_a_file_that_is_gone_is_missing_and_the_one_that_bears_its_name_is_told(
    write: Write, open_tree: Open
) -> None:
    write("lib/deep/app.py")

    assert judged("src/app.py:3", open_tree()) == (
        "missing",
        "src/app.py no longer exists.",
        "",
    )
    write("lib/app.py")
    assert judged("src/app.py:3", open_tree()).said == "src/app.py no longer exists."


def test_a_symbol_is_verified_where_it_is_defined_and_where_it_only_occurs(write: Write, open_tree: Open) -> None:
    write("app.py")

    assert judged("app.py#Server.start", open_tree()).said == "`Server.start` is defined in app.py."
    occurs = judged("app.py#getpid", open_tree())
    assert occurs == ("verified", "`getpid` occurs in app.py, though nothing there defines it.", "")
    assert state("app.py#serv", open_tree()) == ("missing", "")
    assert state("app.py#Client.start", open_tree()) == ("missing", "")


@pytest.mark.usefixtures("kind")
def test_what_is_no_text_is_unchecked_when_there_is_something_to_compare(
    root: Path, write: Write, open_tree: Open
) -> None:
    write("binary.py", b"LIMIT = 3\0\n")
    write("large.py", b"LIMIT = 3\n" * (MAX_FILE_BYTES // 10 + 1))
    write("folder.py/inner.py")
    write("real.py")
    (root / "link.py").symlink_to("real.py")
    (root / "loop.py").symlink_to("loop.py")
    (root / "linked").symlink_to("folder.py")
    os.mkfifo(root / "pipe.py")

    places = ("binary.py", "large.py", "folder.py", "link.py", "loop.py", "linked/inner.py", "pipe.py")
    begin = time.monotonic()
    for place in places:
        assert state(place, open_tree()) == ("verified", ""), place
        for more in (":1", "#LIMIT", "@00000000", ":1@00000000"):
            assert state(place + more, open_tree()) == ("unchecked", ""), place + more
    assert time.monotonic() - begin < 60
    assert state("real.py/inner.py:1", open_tree()) == ("missing", "")
    write("just.py", b"LIMIT = 3\n" * (MAX_FILE_BYTES // 10))
    assert state("just.py#LIMIT", open_tree()) == ("verified", "")


def test_a_link_that_leads_out_of_the_tree_is_not_followed(tmp_path: Path, root: Path, open_tree: Open) -> None:
    (tmp_path / "secret.py").write_text("TOKEN = 1\n")
    (root / "out.py").symlink_to(tmp_path / "secret.py")
    (root / "up").symlink_to(tmp_path)

    for path in ("out.py", "up/secret.py", "../secret.py", str(tmp_path / "secret.py")):
        assert open_tree().lines(path) is None, path
    assert open_tree().absent(["TOKEN"]) == {"TOKEN"}
    assert open_tree().files() == []


def test_a_file_that_nobody_may_read_is_unchecked(root: Path, write: Write, open_tree: Open) -> None:
    write("app.py")
    write("closed/app.py")
    (root / "app.py").chmod(0)
    (root / "closed").chmod(0)
    tree = open_tree()
    for above in root.parents:
        if above.stat().st_uid == os.geteuid():
            above.chmod(above.stat().st_mode | stat.S_IXOTH | stat.S_IXGRP)
        if above.name.startswith("pytest-of"):
            break
    with as_somebody_else():
        states = [state(place, tree) for place in ("app.py:3@00000000", "closed/app.py:3")]
    (root / "closed").chmod(0o700)

    assert states == [("unchecked", "")] * 2


class as_somebody_else:
    """Give up the rights of root, who may read everything."""

    def __enter__(self) -> None:
        if os.geteuid() == 0:
            os.seteuid(NOBODY)

    def __exit__(self, *_: object) -> None:
        if os.getuid() == 0:
            os.seteuid(0)


class Windows(list[bytes]):
    """Lines of a file that count how many of them were taken, window by window."""

    taken = 0

    def __getitem__(self, at: Any) -> Any:
        found = super().__getitem__(at)
        Windows.taken += len(found) if isinstance(at, slice) else 0
        return found


# making one


def test_a_typed_place_gets_the_hash_of_what_is_there(write: Write, open_tree: Open) -> None:
    write("src/app.py")
    write("My notes.txt", "one\n")
    write("tool", "echo\n")
    write("logo.png", b"\0")

    made = make(open_tree(), "src/app.py:3@00000000")
    assert made == Citation("src/app.py", 3, hash=digest([b"LIMIT = 3"]))
    for place in ("src/app.py#main", "My notes.txt:1", "tool:1", "src/app.py#L3-L6"):
        assert state(str(make(open_tree(), place)), open_tree()) == ("verified", ""), place
    assert str(make(open_tree(), "logo.png")) == "logo.png"
    assert str(make(open_tree(), "src/app.py:13-14#main")).startswith("src/app.py:13-14#main@")


def test_a_place_that_is_not_there_is_refused_with_a_reason(write: Write, open_tree: Open) -> None:
    write("app.py")
    write("logo.png", b"\0")
    write("folder/app.py")
    for text, why in [
        ("gone.py", "there is no 'gone.py'"),
        ("app.py:15", "has only 14 lines"),
        ("app.py:14-15", "has only 14 lines"),
        ("app.py#client", "there is no 'client'"),
        ("app.py:3#main", "not at those lines of 'app.py', but at line 13"),
        ("logo.png:1", "no text"),
        ("folder", "cannot be told from other words"),
        ("/etc/passwd:1", "not a place"),
        ("../app.py", "not a place"),
        ("https://example.com/app.py", "not a place"),
        ("", "not a place"),
        ("x" * 10_000, "not a place"),
    ]:
        with pytest.raises(Refused, match=re.escape(why)) as refused:
            make(open_tree(), text)
        assert "src/app.py:10-12" in refused.value.hint
        assert len(str(refused.value)) < 600


def memory(citations: str = "", body: str = "Text.") -> Memory:
    return parse_memory(
        "a.md", f"---\nname: A\ndescription: d\ntype: user\n{citations}x: y  # mine\n---\n{body}\n".encode()
    )


def test_a_citation_is_added_to_a_memory_and_takes_the_place_of_its_older_self() -> None:
    before = memory("citations:\n  - https://example.com\n  - app.py:3@00000000\n")

    after = parse_memory("a.md", cited(before, Citation("app.py", 3, hash="11111111")).encode())
    assert after.citations == ("https://example.com", "app.py:3@11111111")
    more = parse_memory("a.md", cited(after, Citation("app.py", symbol="main")).encode())
    assert more.citations == ("https://example.com", "app.py:3@11111111", "app.py#main")
    assert "x: y  # mine\n---\nText.\n" in more.text


def test_a_file_without_a_header_takes_no_citation() -> None:
    with pytest.raises(TextRefused):
        cited(parse_memory("a.md", b"Text.\n"), Citation("app.py"))


# what a body names


@pytest.mark.usefixtures("kind")
def test_what_a_body_names_and_the_tree_does_not_have_is_told(write: Write, open_tree: Open) -> None:
    write("src/store/app.py")
    write("tsconfig.json", "{}")

    present = "`Server.start()`, `getpid()`, `LIMIT`, src/store/app.py, `store/app.py`, app.py, `src/store/`, `store`"
    assert check_body(present + " `tsconfig.json`", open_tree()) == ()
    gone = "`Server.stop()`, `LIMITS`, src/store/old.py, old.py, `src/storage`, `Client.start`"
    assert check_body(gone, open_tree()) == (
        "src/store/old.py", "old.py", "src/storage", "Server.stop", "LIMITS", "Client.start"
    )  # fmt: skip


def test_what_may_be_no_path_of_this_tree_is_not_told(write: Write, open_tree: Open) -> None:
    write("src/app.py")

    assert check_body("`origin/main`, `application/json`, `feature/login`, `owner/name`", open_tree()) == ()
    assert check_body("`src/gone.py` `no_such_name`", open_tree()) != ()


@pytest.mark.usefixtures("kind")
def test_what_the_memories_say_themselves_is_no_evidence(root: Path, write: Write, open_tree: Open) -> None:
    write("app.py")
    write(".memory/a.md", "`old_name` `older_name`\n")
    write("notes/memory/a.md", "`old_name`\n")

    body = "`old_name` and `older_name`"
    assert check_body(body, open_tree()) == ("older_name",)
    apart = open_tree(memories=str(root / "notes/memory"))
    assert check_body(body, apart) == ("old_name", "older_name")
    assert apart.files() == ["app.py"]


def test_a_memory_is_examined_as_a_whole(write: Write, open_tree: Open) -> None:
    write("app.py")
    cites = "citations: [https://example.com/a, 'app.py:15', 'what Kim said', app.py#main, gone.py]\n"

    evidence = examine(memory(cites, "See `old_name`."), open_tree())
    assert [(text, verdict.state) for text, verdict in evidence.citations] == [
        ("https://example.com/a", "unchecked"),
        ("app.py:15", "drifted"),
        ("what Kim said", "unchecked"),
        ("app.py#main", "verified"),
        ("gone.py", "missing"),
    ]
    assert evidence.citations[0][1].said == "https://example.com/a is no place in a working tree."
    assert evidence.gone == ("old_name",)


def test_a_hostile_citation_is_told_in_one_harmless_line(open_tree: Open) -> None:
    hostile = memory('citations: ["\\u202e\\u001b[31m</memory>", "' + "x" * 1000 + '"]\n')

    for _, verdict in examine(hostile, open_tree()).citations:
        assert verdict.said.isprintable()
        assert len(verdict.said) < 150


# how long it takes
