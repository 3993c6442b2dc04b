"""Hostile names and archives, and plain mistakes, through every command that takes them: nothing changes."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from memsheaf.cli.table import COMMANDS

Run = Callable[..., tuple[int, str, str]]
Tree = Callable[[], dict[str, bytes]]
CASES = json.loads((Path(__file__).parent.parent / "corpora" / "traversal.json").read_text())["cases"]
NAMES = {case["id"]: case for case in CASES if case["surface"] == "name"}
REFUSED = [case["input"] for case in NAMES.values() if case["expect"] == "reject"]
ACCEPTED = [case["input"] for case in NAMES.values() if case["expect"] == "accept"]
FACT = b"---\nname: N\ndescription: d\ntype: user\n---\nText.\n"

BY_NAME: dict[str, tuple[str, ...]] = {
    "show": (),
    "add": ("Fact", "Text.", "--description", "d", "--type", "user", "--file"),
    "update": ("--old", "a", "--new", "b"),
    "insert": ("--line", "0", "--text", "x"),
    "edit": (),
    "forget": (),
    "log": (),
    "diff": (),
    "blame": (),
    "restore": (),
    "erase": ("--yes",),
}


@pytest.fixture
def surroundings(tmp_path: Path, tabs: str, environment: dict[str, str]) -> str:
    """Files outside that a name could reach, and an editor that would spoil what it opens."""
    (tmp_path / "secret.md").write_bytes(FACT)
    (tmp_path / "home" / "secret.md").write_bytes(FACT)
    (tmp_path / "home" / "projects" / "secret.md").write_bytes(FACT)
    spoil = tmp_path / "spoil.py"
    spoil.write_text("import sys; open(sys.argv[1], 'a').write('spoilt')")
    environment["EDITOR"] = f"'{sys.executable}' '{spoil}'"
    return tabs


def line(command: str, name: str) -> list[str]:
    """A command's line for a memory of this name."""
    options = BY_NAME[command]
    if command == "add":
        return [command, *options, name]
    return [command, *options, "--", name, *(["98af5cb2fc62"] if command == "restore" else [])]


@pytest.mark.parametrize("command", BY_NAME)
def test_no_hostile_name_gets_through(run: Run, surroundings: str, tree: Tree, command: str) -> None:
    before = tree()
    for name in REFUSED:
        code, out, err = run(*line(command, name))
        assert code in (1, 2), (name, err)
        assert out == ""
        assert err.startswith("memsheaf: ")
        assert err.replace("\n", "").isprintable(), name
        assert tree() == before, name


def test_every_hostile_name_is_refused_by_the_real_program_too(
    surroundings: str, tree: Tree, environment: dict[str, str]
) -> None:
    before = tree()
    for command in ("show", "forget", "erase"):
        for name in ("../secret.md", "/etc/passwd", "..\\..\\secret.md", "a\nb.md", ""):
            done = subprocess.run(
                [sys.executable, "-m", "memsheaf", *line(command, name)],
                env=environment,
                capture_output=True,
                check=False,
            )
            assert done.returncode in (1, 2), (command, name)
            assert done.stdout == b""
    assert tree() == before


@pytest.mark.parametrize("name", ACCEPTED)
def test_a_good_name_works_in_every_command(run: Run, environment: dict[str, str], name: str) -> None:
    environment["EDITOR"] = f"'{sys.executable}' -c ''"
    assert run(*line("add", name))[0] == 0
    version = json.loads(run("log", name, "--json")[1])["commits"][0]["changes"][0]["after"]
    assert run("update", name, "--old", "Text", "--new", "Words")[0] == 0
    for command in ("insert", "edit", "show", "log", "diff", "blame", "forget"):
        assert run(*line(command, name))[0] == 0, command
    assert run("restore", name, version)[0] == 0
    assert run("erase", name, "--yes")[0] == 0


@pytest.mark.parametrize(
    "scope", ["", "../other-tenant", "a/b", "%", "agent/", "agent/../x", "agent/a/b", "user/x", "all"]
)
def test_a_scope_that_is_none_is_refused_by_every_command(run: Run, tabs: str, tree: Tree, scope: str) -> None:
    before = tree()
    for command in BY_NAME:
        assert run(*line(command, tabs)[:1], "--scope", scope, *line(command, tabs)[1:])[0] == 1, command
        assert tree() == before


@pytest.mark.parametrize("agent", ["", "..", "a/b", "x'; DROP TABLE memories;--", "con", "ä"])
def test_an_agent_that_is_none_is_refused(run: Run, tabs: str, tree: Tree, agent: str) -> None:
    before = tree()

    assert run("list", "--agent", agent)[0] == 1
    assert run(*line("add", "x.md"), "--agent", agent)[0] == 1
    assert tree() == before


MISTAKES: dict[str, list[tuple[int, list[str]]]] = {
    "add": [
        (2, []),
        (2, ["Fact", "Text.", "--type", "user"]),
        (2, ["Fact", "Text.", "--description", "d"]),
        (2, ["Fact", "Text.", "--description", "d", "--type", "recipe"]),
        (2, ["Fact", "Text.", "--description", "d", "--type", "user", "--content", "again"]),
        (2, ["", "Text.", "--description", "d", "--type", "user"]),
        (1, ["Fact", "", "--description", "d", "--type", "user"]),
        (1, ["Fact", "Text.", "--description", "d\ntype: evil", "--type", "user"]),
        (1, ["Fact\x1b[31m", "Text.", "--description", "d", "--type", "user"]),
        (1, ["Fact", "Text.", "--description", "d", "--type", "user", "--expires", "soon"]),
        (1, ["Fact", "x" * 300_000, "--description", "d", "--type", "user"]),
        (1, ["Prefers tabs", "Text.", "--description", "d", "--type", "user"]),
    ],
    "update": [
        (2, ["user_prefers-tabs.md", "--old", "tabs"]),
        (1, ["user_prefers-tabs.md", "--old", "", "--new", "x"]),
        (1, ["user_prefers-tabs.md", "--old", "zebra", "--new", "x"]),
        (1, ["user_prefers-tabs.md", "--old", "e", "--new", "x"]),
        (1, ["user_prefers-tabs.md", "--old", "type: user", "--new", "type: ../../x"]),
        (2, ["user_prefers-tabs.md", "--old", "tabs", "--new", "x", "--count", "0"]),
        (2, ["user_prefers-tabs.md", "--old", "tabs", "--new", "x", "--count", "many"]),
        (1, ["nothing.md", "--old", "a", "--new", "b"]),
    ],
    "insert": [
        (2, ["user_prefers-tabs.md", "--text", "x"]),
        (2, ["user_prefers-tabs.md", "--line", "-1", "--text", "x"]),
        (1, ["user_prefers-tabs.md", "--line", "99", "--text", "x"]),
        (1, ["nothing.md", "--line", "0", "--text", "x"]),
        (1, ["user_prefers-tabs.md", "--line", "0", "--text", "zero\0byte"]),
    ],
    "edit": [(2, []), (1, ["nothing.md"])],
    "forget": [(2, []), (1, ["nothing.md"]), (2, ["user_prefers-tabs.md", "--why", ""])],
    "list": [(2, ["x"]), (2, ["--type", ""]), (2, ["--typ", "user"]), (2, ["--scope"])],
    "show": [(2, []), (1, ["nothing.md"]), (2, ["a.md", "b.md"])],
    "search": [(2, []), (2, ["x", "--limit", "0"])],
    "catalog": [(2, ["--page", "0"]), (2, ["--page", "x"])],
    "prompt": [(1, ["--scope", "user", "--scope", "nobody"])],
    "log": [(2, ["--limit", "-1"]), (2, [""])],
    "diff": [(2, []), (1, ["nothing.md"]), (1, ["user_prefers-tabs.md", "0123456789ab"]), (2, ["x.md", "HEAD"])],
    "blame": [(2, []), (1, ["nothing.md"])],
    "undo": [(1, ["0123456789ab"]), (2, [""]), (2, ["last"])],
    "restore": [
        (2, ["user_prefers-tabs.md"]),
        (2, ["user_prefers-tabs.md", ""]),
        (2, ["user_prefers-tabs.md", "abc"]),
        (1, ["user_prefers-tabs.md", "0123456789ab"]),
        (1, ["nothing.md", "0123456789ab"]),
    ],
    "erase": [(2, ["user_prefers-tabs.md"]), (1, ["nothing.md", "--yes"])],
    "export": [(2, []), (2, [""])],
    "import": [(2, []), (2, [""]), (1, ["nowhere.zip"])],
    "scopes": [(2, ["x"])],
    "init": [(2, ["x"]), (1, [])],
    "doctor": [(2, ["x"])],
    "completion": [(2, []), (2, ["tcsh"])],
    "help": [(2, ["nothing"])],
}


def test_every_command_has_its_mistakes_tried() -> None:
    assert set(MISTAKES) == set(COMMANDS)


@pytest.mark.parametrize("command", MISTAKES)
def test_a_mistake_is_told_and_changes_nothing(run: Run, tabs: str, tree: Tree, command: str) -> None:
    before = tree()
    for expected, words in MISTAKES[command]:
        code, out, err = run(command, *words)
        assert (code, out) == (expected, ""), (words, err)
        assert err.startswith("memsheaf: ")
        assert len(err.strip().splitlines()) >= 2, f"no hint: {words}"
        assert tree() == before, words


@pytest.mark.parametrize(
    "command", ["update", "insert", "edit", "forget", "diff", "blame", "restore", "erase", "undo"]
)
def test_a_change_to_a_scope_that_is_not_there_does_not_create_it(
    run: Run, tabs: str, tree: Tree, command: str
) -> None:
    before = tree()

    first, *rest = ["undo"] if command == "undo" else line(command, tabs)
    assert run(first, "--agent", "nobody", *rest)[0] == 1
    assert tree() == before


def zipped(path: Path, *members: tuple[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members:
            archive.writestr(name, data)
    return path


def tarred(path: Path, *members: tarfile.TarInfo) -> Path:
    with tarfile.open(path, "w") as archive:
        for member in members:
            member.size = len(FACT) if member.isreg() else 0
            archive.addfile(member, io.BytesIO(FACT))
    return path


def member(name: str, kind: bytes = tarfile.REGTYPE, target: str = "", mode: int = 0o600) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.mode = kind, target, mode
    return info


def archive(case: str, path: Path) -> Path:
    """An archive as the corpus describes it, with a good memory in front."""
    good = ("good.md", FACT)
    match case:
        case "Z01":
            return zipped(path, good, ("../../evil.md", FACT))
        case "Z02":
            return zipped(path, good, ("/etc/cron.d/evil", FACT))
        case "Z04":
            return tarred(path, member("good.md"), member("hard", tarfile.LNKTYPE, "../../x"))
        case "Z05":
            return zipped(path, good, ("..\\..\\evil.md", FACT))
        case "Z07":
            return zipped(path, good, ("bomb.md", bytes(50_000_000)))
        case "Z08":
            return zipped(path, good, *((f"{number}.md", b"") for number in range(200_001)))
        case "Z11":
            return zipped(path, ("a.md", FACT), ("A.md", FACT))
        case "link":
            return tarred(path, member("good.md"), member("evil.md", tarfile.SYMTYPE, "/etc/passwd"))
        case _:
            return tarred(path, member("good.md"), member("null.md", tarfile.CHRTYPE))


ARCHIVES = ["Z01", "Z02", "Z04", "Z05", "Z07", "Z11", "link", "device"]


@pytest.mark.parametrize("case", ARCHIVES)
@pytest.mark.parametrize("options", [(), ("--replace",), ("--dry-run",)])
def test_an_archive_that_reaches_out_or_is_too_large_is_refused_whole(
    run: Run, surroundings: str, tmp_path: Path, tree: Tree, case: str, options: tuple[str, ...]
) -> None:
    source = archive(case, tmp_path / "in.bin")
    before = tree()

    code, out, err = run("import", str(source), *options)

    assert (code, out) == (1, "")
    assert err.startswith("memsheaf: ")
    assert tree() == before


@pytest.mark.long
def test_an_archive_of_too_many_members_is_refused_whole(run: Run, tabs: str, tmp_path: Path, tree: Tree) -> None:
    source = archive("Z08", tmp_path / "in.bin")
    before = tree()

    assert run("import", str(source))[0] == 1
    assert tree() == before


def test_every_archive_of_the_corpus_is_tried() -> None:
    corpus = {case["id"] for case in CASES if case["surface"] == "archive"}

    assert corpus == {case for case in ARCHIVES if case.startswith("Z")} | {"Z08", "Z10"}


def test_modes_do_not_come_in_with_an_archive(
    run: Run, tabs: str, tmp_path: Path, environment: dict[str, str]
) -> None:
    source = tarred(tmp_path / "in.tar", member("evil.md", mode=0o4777))

    assert run("import", str(source))[0] == 0
    (root,) = Path(environment["MEMSHEAF_HOME"], "projects").iterdir()
    assert os.stat(root / "evil.md").st_mode & 0o7077 == 0
