"""Files read, written, edited and found for a model, in one working directory."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cases import each_case
from memsheaf.chat.permissions import Permission, PermissionRequest
from memsheaf.chat.tools import FolderTools
from memsheaf.chat.tools.files import ResolvedPath
from memsheaf.chat.tools.find import find_lines
from memsheaf.errors import Refused
from memsheaf.text.neutralize import for_terminal
from memsheaf.tools import ToolAnswer

TOKEN = "ghp_16C7e42F292c6912E7710c838347Ae178B4a"
KEY = "-----BEGIN RSA PRIVATE KEY-----\n" + "MIIEpAIBAAKCAQEA7bq9Zk\n" * 20 + "-----END RSA PRIVATE KEY-----\n"
Call = Callable[..., ToolAnswer]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "root").mkdir()
    return tmp_path / "root"


@pytest.fixture
def workshop(root: Path) -> FolderTools:
    return FolderTools(str(root), Permission(allow=("write",)))


@pytest.fixture
def call(workshop: FolderTools) -> Call:
    return lambda name, **arguments: workshop.answer(name, arguments)


def failure(answer: ToolAnswer) -> str:
    assert answer.failed
    assert answer.text.startswith("Error: ")
    return answer.text


# what a model is told about the tools


@each_case(
    "name, arguments, said",
    [
        ("sing", {}, "there is no tool 'sing'; there are: shell, read, write, edit, glob, grep."),
        ("read", {}, "read needs path."),
        ("read", {"path": 3}, "read: 'path' must be a text."),
        ("read", {"path": "a", "start": "b"}, "read: 'start' must be a number."),
        ("read", {"path": "a", "start": 0}, "start and lines are at least 1."),
        ("read", {"path": ""}, "a path must not be empty."),
        ("read", {"path": "a\0b"}, "a path must not hold a NUL character."),
        ("read", {"path": "~/a"}, "'~' is not expanded: write the path in full"),
        ("read", {"path": "a\ud800"}, "read: an argument holds unpaired surrogates."),
        ("read", {"path": "x" * 4_000}, "read could not be done: File name too long."),
        ("read", {"path": "a" + "/b" * 3_000}, "a path has at most 4,096 characters."),
        ("write", {"path": "a/" * 2_500_000 + "b", "content": ""}, "a path has at most 4,096 characters."),
        ("read", {"path": "/proc/self/environ"}, "is not a regular file"),
        *(
            ("grep", {"pattern": wrong}, "the expression cannot be read: ")
            for wrong in ("(", "a{2,1}", "(?P<x>", "\\")
        ),
        ("grep", {"pattern": "x" * 2_000}, "an expression has at most 1000 characters."),
        ("write", {"path": "folder/", "content": ""}, "'folder/' names a folder"),
        ("glob", {"pattern": "*/../../*"}, "must not hold '..' behind a wildcard"),
        ("glob", {"pattern": "{a,b}" * 10}, "use fewer braces"),
        ("write", {"path": "a", "content": "x" * (1 << 21)}, "has at most 1024 KiB."),
    ],
)
def test_a_wrong_call_is_answered_with_what_is_right(
    workshop: FolderTools, name: str, arguments: dict[str, object], said: str
) -> None:
    assert said in failure(workshop.answer(name, arguments))


@pytest.fixture(scope="module")
def forbidden(tmp_path_factory: pytest.TempPathFactory) -> FolderTools:
    root = tmp_path_factory.mktemp("root")
    (root / "a.txt").write_text("text\n")
    return FolderTools(str(root), Permission())


VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.binary(), st.lists(st.text()),
    st.sampled_from(["a.txt", "..", "/", ".", "**", "a.txt/", "//", "\ud800", "(", "{", "~"]),
)  # fmt: skip
NAMES = ["path", "content", "old_text", "new_text", "count", "pattern", "glob", "context", "start", "command"]


@given(
    st.sampled_from([*FolderTools.names, "", "memory_read"]),
    st.dictionaries(st.one_of(st.sampled_from(NAMES), st.text()), VALUES, max_size=4),
)
@settings(max_examples=60, derandomize=True)
def test_whatever_a_model_calls_for_is_answered(
    forbidden: FolderTools, name: str, arguments: dict[str, object]
) -> None:
    answer = forbidden.answer(name, arguments)
    assert answer.text.encode()
    assert "broke off" not in answer.text
    assert os.listdir(forbidden.root) == ["a.txt"]
    line = forbidden.line(name, arguments)
    assert line == for_terminal(line)
    assert "\n" not in line


# read


@pytest.mark.skipif(os.name != "posix", reason="these are things of POSIX")
def test_what_is_no_plain_text_is_not_read_and_nothing_hangs(root: Path) -> None:
    os.mkfifo(root / "pipe")
    (root / "folder").mkdir()
    (root / "binary").write_bytes(b"\x7fELF\0\0")
    (root / "loop").symlink_to("loop")
    (root / "zero").symlink_to("/dev/zero")
    workshop = FolderTools(str(root), Permission(allow=("read", "write", "outside")))
    for path, said in (
        ("pipe", "is no plain file"),
        ("folder", "is a folder; glob lists"),
        (".", "is a folder; glob lists"),
        ("binary", "is a binary file"),
        ("loop", "is no plain file"),
        ("/dev/zero", "is no plain file"),
        ("zero", "is no plain file"),
        ("missing", "there is no file 'missing'"),
        ("binary/below", "a step of it is a link or not a folder"),
    ):
        assert said in failure(workshop.answer("read", {"path": path})), path
    for path in ("pipe", "folder", "binary", "/dev/zero", "loop"):
        assert workshop.answer("write", {"path": path, "content": "x"}).failed, path
        assert workshop.answer("edit", {"path": path, "old_text": "E", "new_text": "x"}).failed, path
        assert workshop.answer("grep", {"pattern": "x", "path": path}).failed or path in ("folder", "binary"), path


@each_case("arguments", [{}, {"start": 8, "lines": 4}, {"start": 30, "lines": 1}])
def test_a_secret_in_a_file_does_not_reach_the_model_and_lines_keep_their_numbers(
    call: Call, root: Path, arguments: dict[str, int]
) -> None:
    (root / "a").write_text(f"first\n{KEY}token {TOKEN}\n" + "".join(f"line {n}\n" for n in range(25, 40)))
    text = call("read", path="a", **arguments).text
    assert "MIIE" not in text
    assert TOKEN not in text
    assert "    30\tline 30" in text or arguments.get("start") == 8
    if not arguments:
        assert "[removed: a private key]" in text
        assert "token [removed: a GitHub token]" in text


def test_a_long_file_is_read_in_pieces(call: Call, root: Path) -> None:
    (root / "a").write_text("".join(f"{number} {'x' * 990}\n" for number in range(1, 600)))
    first = call("read", path="a").text
    assert len(first) < 110_000
    start = int(first.rpartition("start=")[2].rstrip(")"))
    assert call("read", path="a", start=start, lines=1).text.startswith(f"{start:>6}\t{start} x")


# write


def test_a_new_file_is_made_with_its_folders_and_the_usual_modes(call: Call, root: Path) -> None:
    (root / "plain").mkdir()
    (root / "plain" / "file").write_text("")
    assert call("write", path="src/deep/app.py", content="one\ntwo\n") == ToolAnswer(
        "Made src/deep/app.py (2 lines)."
    )
    assert (root / "src/deep/app.py").read_text() == "one\ntwo\n"
    assert stat.S_IMODE((root / "src").stat().st_mode) == stat.S_IMODE((root / "plain").stat().st_mode)
    mode = stat.S_IMODE((root / "plain" / "file").stat().st_mode)
    assert stat.S_IMODE((root / "src/deep/app.py").stat().st_mode) == mode
    assert sorted(path.name for path in (root / "src/deep").iterdir()) == ["app.py"]


def test_a_file_is_replaced_once_it_was_read_and_keeps_its_mode(call: Call, root: Path) -> None:
    (root / "run.sh").write_text("echo old\n")
    (root / "run.sh").chmod(0o750)
    assert "you have not read it" in failure(call("write", path="run.sh", content="echo new\n"))
    assert (root / "run.sh").read_text() == "echo old\n"

    call("read", path="run.sh")
    assert call("write", path="run.sh", content="echo new\n").text == "Replaced run.sh (1 line)."
    assert (root / "run.sh").read_text() == "echo new\n"
    assert stat.S_IMODE((root / "run.sh").stat().st_mode) == 0o750
    assert not call("write", path="run.sh", content="echo newer\n").failed, "what one wrote, one has seen"


def test_a_file_that_has_changed_since_it_was_read_is_not_replaced(call: Call, root: Path) -> None:
    (root / "a").write_text("1\n2\n3\n")
    call("read", path="a")
    (root / "a").write_text("1\n2\n4\n")
    assert "was changed since you read it" in failure(call("write", path="a", content="x\n"))
    assert (root / "a").read_text() == "1\n2\n4\n"
    call("read", path="a", start=2)
    assert not call("write", path="a", content="x\n").failed


@each_case("before, after", [(None, "theirs\n"), ("old\n", "theirs\n"), ("old\n", None)])
def test_what_somebody_does_while_the_user_is_asked_is_not_lost(
    root: Path, before: str | None, after: str | None
) -> None:
    def save(text: str | None) -> str:
        (root / "a").unlink(missing_ok=True)
        if text is not None:
            (root / "a").write_text(text)
        return "once"

    save(before)
    workshop = FolderTools(str(root), Permission(lambda wish: save(after)))
    workshop.answer("read", {"path": "a"})
    assert "was changed by somebody else" in failure(workshop.answer("write", {"path": "a", "content": "ours\n"}))
    assert [path.read_text() for path in root.iterdir()] == [after] * (after is not None)


def test_the_question_before_a_write_shows_the_change(root: Path) -> None:
    asked: list[PermissionRequest] = []
    workshop = FolderTools(str(root), Permission(lambda wish: asked.append(wish) or "once"))  # type: ignore[func-returns-value]
    workshop.answer("write", {"path": "a.txt", "content": "one\ntwo\n"})
    workshop.answer("edit", {"path": "a.txt", "old_text": "two\n", "new_text": "2\n3\x1b[2J\n"})
    assert [wish.line for wish in asked] == ["write a.txt (new, 2 lines)", "edit a.txt (+2 -1 lines)"]
    assert "+one\n+two" in asked[0].detail
    assert "-two\n+2\n+3<U+001B>[2J" in asked[1].detail
    assert {(wish.reach, wish.outside, wish.key) for wish in asked} == {("write", False, "write")}


def test_what_belongs_to_memory_or_git_is_not_written(root: Path, tmp_path: Path) -> None:
    (root / ".memory").mkdir()
    (root / ".memory" / "MEMORY.md").write_text("# Memory\n")
    (root / "link").symlink_to(".memory")
    (tmp_path / "home").mkdir()
    everything = ("read", "write", "outside")
    workshop = FolderTools(str(root), Permission(allow=everything), keep_out=[str(tmp_path / "home")])
    inside = (".memory/MEMORY.md", ".memory/new.md", ".MEMORY/new.md", "link/x.md", "sub/.memory/x")
    for path in (*inside, "../home/user/x.md"):
        answer = workshop.answer("write", {"path": path, "content": "x"})
        assert "use the memory tools" in failure(answer), path
    assert "use the memory tools" in failure(
        workshop.answer("edit", {"path": ".memory/MEMORY.md", "old_text": "Memory", "new_text": "x"})
    )
    assert "belongs to git" in failure(workshop.answer("write", {"path": ".git/hooks/pre-commit", "content": "x"}))
    assert not (root / ".git").exists()
    assert list((tmp_path / "home").iterdir()) == []


def test_a_place_where_a_secret_is_hidden_does_not_replace_the_secret(call: Call, root: Path) -> None:
    (root / ".env").write_text(f"A=1\nTOKEN={TOKEN}\n")
    shown = call("read", path=".env").text
    assert TOKEN not in shown
    hidden = shown.partition("TOKEN=")[2]

    assert "hidden from you" in failure(call("write", path=".env", content=f"A=2\nTOKEN={hidden}\n"))
    assert "hidden from you" in failure(call("edit", path=".env", old_text="A=1", new_text=f"A=2\nB={hidden}"))
    assert not call("edit", path=".env", old_text="A=1", new_text="A=2").failed
    assert (root / ".env").read_text() == f"A=2\nTOKEN={TOKEN}\n"


def test_a_full_disk_is_an_answer_and_the_old_text_stays(root: Path) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full here")
    import resource
    import signal

    (root / "a").write_text("old\n")
    limits, handler = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, limits[1]))
    try:
        workshop = FolderTools(str(root), Permission(allow=("write",)))
        answer = workshop.answer("edit", {"path": "a", "old_text": "old", "new_text": "x" * 5_000})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert "edit could not be done: " in failure(answer)
    assert (root / "a").read_text() == "old\n"
    assert [path.name for path in root.iterdir()] == ["a"]


# edit


@each_case(
    "data, old, new, after",
    [
        (b"a\r\nb\r\nc\r\n", "a\nb", "1\n2", b"1\r\n2\r\nc\r\n"),
        (b"a\r\nb\r\nc\r\n", "b", "2\n3", b"a\r\n2\r\n3\r\nc\r\n"),
        (b"a\r\nb\r\n", "a\r\nb", "c", b"c\r\n"),
        (b"a\nb\n", "a\r\nb", "c\r\nd", b"c\nd\n"),
        (b"\xef\xbb\xbfa\n", "a", "b", b"\xef\xbb\xbfb\n"),
        (b"a\nb", "b", "c", b"a\nc"),
        (b"caf\xe9 a\n", "a\n", "b\n", b"caf\xe9 b\n"),
        (b"a\nb\r\nc\n", "a", "1\n2", b"1\n2\nb\r\nc\n"),
        (b"a\nb\r\nc\n", "b\nc", "x", b"a\nx\n"),
    ],
)
def test_an_edit_leaves_the_form_of_a_file_as_it_is(
    call: Call, root: Path, data: bytes, old: str, new: str, after: bytes
) -> None:
    (root / "f").write_bytes(data)
    assert not call("edit", path="f", old_text=old, new_text=new).failed
    assert (root / "f").read_bytes() == after


@pytest.fixture(params=["rg", "python"] if shutil.which("rg") else ["python"])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "python":
        monkeypatch.setenv("PATH", "/nowhere")
    return str(request.param)


# glob


def tree(root: Path, *paths: str) -> None:
    for age, path in enumerate(paths):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(f"text of {path}\n")
        os.utime(root / path, (1_000_000 - age, 1_000_000 - age))


def test_files_are_found_by_their_names_newest_first(call: Call, root: Path) -> None:
    tree(root, "src/b.py", "src/deep/er/a.py", "top.py", "src/c.md", ".github/ci.yml")
    assert call("glob", pattern="**/*.py").text == "src/b.py\nsrc/deep/er/a.py\ntop.py"
    assert call("glob", pattern="*.py").text == "top.py"
    assert call("glob", pattern="src/*").text.split("\n")[-2:] == ["src/b.py", "src/c.md"]
    assert "src/deep/" in call("glob", pattern="src/*").text
    assert call("glob", pattern="src/**/*.{py,md}").text == "src/b.py\nsrc/deep/er/a.py\nsrc/c.md"
    assert call("glob", pattern="**/[ab].py", path="src").text == "src/b.py\nsrc/deep/er/a.py"
    assert call("glob", pattern=f"{root}/src/*.py").text == "src/b.py"
    assert call("glob", pattern="**/*.yml").text == ".github/ci.yml"
    assert call("glob", pattern="src/deep/**").text == "src/deep/er/a.py"
    assert call("glob", pattern="**/nothing*") == ToolAnswer("No file fits.")
    assert "No such file" in failure(call("glob", pattern="missing/*.py"))


def test_what_tools_made_and_gitignore_names_is_passed_over(call: Call, root: Path) -> None:
    tree(root, "a.py", ".git/a.py", "node_modules/x/a.py", ".venv/a.py", "dist/a.py", "build/out/a.py", "build/a.py")
    tree(root, "sub/dist/a.py", ".memory/a.py", "sub/build/out/a.py")
    (root / ".gitignore").write_text("# made\ndist/\n/build/out\n*.log\n!kept\n")
    assert set(call("glob", pattern="**/a.py").text.split("\n")) == {"a.py", "build/a.py", "sub/build/out/a.py"}
    assert call("glob", pattern="node_modules/**/*.py").text == "node_modules/x/a.py"


@pytest.mark.usefixtures("engine")
def test_links_are_not_followed(call: Call, root: Path) -> None:
    tree(root, "a/x.py")
    (root.parent / "out").mkdir()
    (root.parent / "out" / "y.py").write_text("text\n")
    (root / "a" / "loop").symlink_to(root)
    (root / "a" / "out").symlink_to(root.parent / "out")
    (root / "a" / "y.py").symlink_to(root.parent / "out" / "y.py")
    assert set(call("glob", pattern="**/*.py").text.split("\n")) == {"a/x.py", "a/y.py"}
    assert call("grep", pattern="text").text == "a/x.py:1:text of a/x.py"


def test_a_pattern_that_could_take_for_ever_does_not(call: Call, root: Path) -> None:
    tree(root, "a" * 100, "/".join("a" * 20) + "/b")
    for pattern in ("*a" * 30 + "*b", "**/a/" * 30 + "c", "x" * 2_000):
        assert "a pattern has at most" in failure(call("glob", pattern=pattern))
    assert call("glob", pattern="*a*a*b").text == "No file fits."


# grep


@pytest.mark.usefixtures("engine")
def test_lines_are_found_with_their_places(call: Call, root: Path) -> None:
    tree(root, "b.py", "a/c.py", "a/d.md")
    (root / "b.py").write_bytes(b"import os\r\n\r\ndef start():\r\n    pass\r\n")
    assert call("grep", pattern=r"^def \w+\(").text == "b.py:3:def start():"
    assert call("grep", pattern="TEXT").text == "No line matches."
    assert call("grep", pattern="^$").text == "b.py:2:"
    assert call("grep", pattern="(?i)TEXT OF").text == "a/c.py:1:text of a/c.py\na/d.md:1:text of a/d.md"
    assert call("grep", pattern="text", glob="*.md").text == "a/d.md:1:text of a/d.md"
    assert call("grep", pattern="text", glob="a/*.{md,py}").text.count("\n") == 1
    assert call("grep", pattern="import|text", path="a/c.py").text == "a/c.py:1:text of a/c.py"


def test_an_expression_that_takes_for_ever_is_given_up(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")  # with `rg` none does
    (root / "a").write_text("a" * 60 + "\n")
    with pytest.raises(Refused, match="given up after 1 seconds"):
        find_lines(str(root), ResolvedPath(".", str(root), False), "(a+)+$b", patience=1.0)


@pytest.mark.usefixtures("engine")
def test_a_secret_that_is_found_is_not_shown(call: Call, root: Path) -> None:
    (root / "key").write_text(f"first\n{KEY}last {TOKEN}\n")
    assert "MIIE" not in call("grep", pattern="MIIE").text
    assert call("grep", pattern="last").text == "key:24:last [removed: a GitHub token]"


def test_an_rg_in_the_working_directory_is_not_run(call: Call, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / "rg").write_text(f"#!/bin/sh\ntouch {root}/ran\n")
    (root / "rg").chmod(0o755)
    (root / "a.txt").write_text("needle\n")
    monkeypatch.setenv("PATH", f"{root}:/usr/bin:/bin")
    assert "a.txt:1:needle" in call("grep", pattern="needle", glob="a.txt").text
    assert not (root / "ran").exists()


def test_nothing_in_the_working_directory_is_run_by_a_search(
    call: Call, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("re.py", "json.py", "memsheaf.py", "sitecustomize.py"):
        (root / name).write_text("raise SystemExit('needle')\n")
    monkeypatch.chdir(root)
    monkeypatch.setenv("PYTHONPATH", str(root))
    assert call("grep", pattern="needle", glob="re.py").text == "re.py:1:raise SystemExit('needle')"


@pytest.mark.usefixtures("engine")
def test_names_that_are_no_plain_text_are_spelt_out(call: Call, root: Path) -> None:
    (root / "a\nb\x1b").write_text("needle\n")
    assert call("glob", pattern="*").text == r"'a\nb\x1b'"
    assert call("grep", pattern="needle").text == r"'a\nb\x1b':1:needle"
