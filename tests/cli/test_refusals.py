"""Plain mistakes and hostile words, through every command that takes them: nothing changes.

The whole path corpus goes through the commands in `tests/test_traversal.py`.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from memsheaf.cli.registry import COMMANDS

Run = Callable[..., tuple[int, str, str]]
Tree = Callable[[], dict[str, bytes]]
CASES = json.loads((Path(__file__).parent.parent / "corpora" / "traversal.json").read_text())["cases"]
ACCEPTED = [case["input"] for case in CASES if case["surface"] == "name" and case["expect"] == "accept"]
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


def line(command: str, name: str) -> list[str]:
    """A command's line for a memory of this name."""
    options = BY_NAME[command]
    if command == "add":
        return [command, *options, name]
    return [command, *options, "--", name, *(["98af5cb2fc62"] if command == "restore" else [])]


def test_hostile_names_are_refused_by_the_real_program_too(
    tmp_path: Path, tabs: str, tree: Tree, environment: dict[str, str]
) -> None:
    (tmp_path / "home" / "projects" / "secret.md").write_bytes(FACT)
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
    assert run(*line("add", name), "--scope", "project")[0] == 0
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
    "chat": [
        (2, ["hello"]),
        (2, ["-p"]),
        (2, ["-p", ""]),
        (2, ["-p", "-"]),
        (2, ["-q", "hello"]),
        (2, ["--model", ""]),
        (2, ["--resume="]),
        (2, ["--url", "http://127.0.0.1:9/v1", "-p", "hello"]),
        (2, ["--allow", "everything", "-p", "hello"]),
        (1, ["--model", "no model", "-p", "hello"]),
        (1, ["--model", "nobody:x", "-p", "hello"]),
        (1, ["--scope", "nobody", "-p", "hello"]),
        (1, ["--resume", "20990101", "-p", "hello"]),
        (1, ["--resume", "-p", "hello"]),
    ],
    "extract": [
        (2, ["missing.jsonl"]),
        (2, ["a", "b"]),
        (2, [""]),
        (1, ["--model", "nonsense:model"]),
        (2, ["--model", ""]),
    ],
    "review": [(1, ["--approve", "ffff"]), (1, ["--reject", "none.md"]), (2, ["--edit", ""]), (2, ["ffff"])],
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
        (1, ["Fact", "The password is Corr3ct-H0rse-Fake", "--description", "d", "--type", "user"]),
        (1, ["Prefers tabs", "Text.", "--description", "d", "--type", "user"]),
    ],
    "update": [
        (2, ["user_prefers-tabs.md", "--old", "tabs"]),
        (1, ["user_prefers-tabs.md", "--old", "", "--new", "x"]),
        (1, ["user_prefers-tabs.md", "--old", "zebra", "--new", "x"]),
        (1, ["user_prefers-tabs.md", "--old", "Use tabs.", "--new", "password: Corr3ct-H0rse-Fake"]),
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
        (1, ["user_prefers-tabs.md", "--line", "0", "--text", "password: Corr3ct-H0rse-Fake"]),
        (1, ["nothing.md", "--line", "0", "--text", "x"]),
        (1, ["user_prefers-tabs.md", "--line", "0", "--text", "zero\0byte"]),
    ],
    "edit": [(2, []), (1, ["nothing.md"])],
    "forget": [(2, []), (1, ["nothing.md"]), (2, ["user_prefers-tabs.md", "--why", ""])],
    "list": [(2, ["x"]), (2, ["--type", ""]), (2, ["--typ", "user"]), (2, ["--scope"])],
    "show": [(2, []), (1, ["nothing.md"]), (2, ["a.md", "b.md"])],
    "search": [(2, []), (2, ["x", "--limit", "0"])],
    "recall": [(2, []), (1, ["--scope", "nobody", "tabs or spaces?"])],
    "why": [(2, []), (1, ["--scope", "user", "--scope", "nobody", "tabs or spaces?"])],
    "cite": [(2, []), (1, ["nothing.py"]), (1, ["../x.py"]), (1, ["https://example.com/x"])],
    "verify": [(1, ["nothing.md"]), (1, ["--scope", "nobody"])],
    "inbox": [
        (2, ["x"]),
        (2, ["--add", ""]),
        (2, ["--yes"]),
        (2, ["--add", "-", "--clear"]),
        (2, ["--add", "nowhere.jsonl"]),
        (1, ["--add", "-"]),
        (1, ["--scope", "nobody"]),
    ],
    "conversations": [
        (2, [""]),
        (2, ["--show", ""]),
        (2, ["--yes"]),
        (2, ["--show", "last", "--yes"]),
        (2, ["--show", "last", "--export", "last"]),
        (2, ["words", "--remove", "last"]),
        (2, ["--limit", "0"]),
        (2, ["--older-than", "soon"]),
        (1, ["--show", "last"]),
        (1, ["--export", "2026"]),
        (1, ["--remove", "../secret", "--yes"]),
        (1, ["--scope", "nobody"]),
    ],
    "consolidate": [
        (2, ["x"]),
        (2, ["--apply", "--dry-run"]),
        (2, ["--model", ""]),
        (1, ["--scope", "nobody"]),
        (1, ["--model", "no model"]),
    ],
    "dream": [(2, ["often"]), (2, ["status", "--model", "none"]), (1, ["status", "--scope", "nobody"])],
    "expect": [
        (2, ["a question"]),
        (2, ["a question", "user_prefers-tabs.md", "--drop", "another"]),
        (2, ["--drop", "what nobody asked"]),
        (1, ["a question", "nothing.md"]),
        (1, ["a question", "../secret.md"]),
        (1, ["is the password Corr3ct-H0rse-Fake good?", "user_prefers-tabs.md"]),
    ],
    "compact": [
        (2, []),
        (2, [""]),
        (2, ["missing.jsonl"]),
        (2, ["a", "b"]),
        (1, ["-"]),
        (2, ["-", "--budget", "0"]),
        (2, ["-", "--trigger", "whim"]),
        (2, ["-", "--approve", "--dry-run"]),
        (1, ["-", "--scope", "nobody"]),
    ],
    "brief": [(2, ["extra"]), (2, ["--scope", "user"]), (1, ["--task", "../x"]), (1, ["--session", "no/pe"])],
    "diary": [
        (2, ["--show", "--list"]),
        (2, ["--show", "yesterday"]),
        (2, ["--since", "2026-13-01"]),
        (2, ["--since", "20261115"]),
        (2, ["--list", "a note"]),
        (2, ["--list", "--allow-secret"]),
        (1, [""]),
        (1, ["-"]),
        (1, ["x" * 20_000]),
        (1, ["the password is Corr3ct-H0rse-Fake"]),
        (1, ["a note", "--scope", "nobody"]),
        (1, ["--list", "--scope", "nobody"]),
    ],
    "catalog": [(2, ["--page", "0"]), (2, ["--page", "x"])],
    "prompt": [(1, ["--scope", "user", "--scope", "nobody"])],
    "promote": [
        (1, ["ffffff"]),
        (1, ["ffffff", "--to", "nobody"]),
        (2, [""]),
        (2, ["--session", "a", "--task", "b"]),
        (2, ["--session", ""]),
        (1, ["--session", "../x"]),
        (1, ["--task", "nothing"]),
        (2, ["--subject", "Test command"]),
        (2, ["ffffff", "--category", "recipe"]),
        (2, ["ffffff", "--anyway", ""]),
        (1, ["--to", "nobody"]),
        (1, ["--to", "agent/x"]),
        (2, ["--scope", "user"]),
    ],
    "session": [
        (2, []),
        (2, ["often"]),
        (1, ["show"]),
        (1, ["note", "x"]),
        (1, ["end", "--session", "nobody"]),
        (1, ["start", "--id", "../x"]),
        (1, ["start", "The password is Corr3ct-H0rse-Fake"]),
        (1, ["start", "--template", "missing.md"]),
        (2, ["start", "--template", "x.md", "--long"]),
        (2, ["start", "--section", "x"]),
        (2, ["note"]),
        (2, ["note", ""]),
        (1, ["end", "x"]),
        (2, ["end", "x", "--session", "y"]),
        (2, ["list", "x"]),
        (2, ["list", "--yes"]),
        (2, ["list", "--scope", "user"]),
    ],
    "task": [
        (2, []),
        (2, ["often"]),
        (2, ["start"]),
        (2, ["start", ""]),
        (2, ["start", "Feature X", "more"]),
        (2, ["start", "Feature X", "--task", "x"]),
        (2, ["start", "Feature X", "--phases", "0"]),
        (1, ["start", "Feature X", "--phases", "1000"]),
        (1, ["start", "Feature X", "--slug", "../x"]),
        (1, ["start", "con"]),
        (1, ["start", "Feature\nX"]),
        (1, ["start", "The password is Corr3ct-H0rse-Fake"]),
        (1, ["start", "Feature X", "--goal", "The password is Corr3ct-H0rse-Fake"]),
        (2, ["note"]),
        (1, ["note", "x"]),
        (1, ["note", "x", "--task", "../x"]),
        (1, ["status", "--task", "nobody"]),
        (1, ["status", "nobody"]),
        (1, ["status", "../x"]),
        (2, ["status", "nobody", "--task", "x"]),
        (1, ["verify", "two words", "d"]),
        (1, ["done"]),
        (2, ["done", "--reason", "x"]),
        (2, ["drop"]),
        (2, ["revise", "x"]),
        (2, ["verify"]),
        (2, ["verify", "login", "--reason", "x"]),
        (2, ["phase", "0"]),
        (2, ["phase", "two"]),
        (2, ["phase", "--report", ""]),
        (2, ["event", "--limit", "0"]),
        (1, ["event", "not JSON"]),
        (2, ["event", "{}", "--limit", "3"]),
        (2, ["list", "x"]),
        (2, ["list", "--scope", "user"]),
    ],
    "audit": [(2, ["x"]), (1, ["--tree", "missing"]), (2, ["--tree", ""]), (1, ["--scope", "nonsense"])],
    "lint": [
        (2, ["x"]),
        (1, ["--tree", "missing"]),
        (2, ["--tree", ""]),
        (2, ["--scope", "user", "--scope", "project"]),
    ],
    "notes": [
        (2, ["often"]),
        (2, ["set"]),
        (2, ["show", "x"]),
        (2, ["block", "x", "--phase", "2"]),
        (2, ["check", "--apply"]),
        (2, ["set", "--objective", ""]),
        (2, ["--scope", "user"]),
        (2, ["block", ""]),
        (2, ["block"]),
        (2, ["pending"]),
        (2, ["done"]),
        (2, ["clear"]),
        (2, ["clear", "pending"]),
        (1, ["clear", "phase"]),
        (1, ["block", "two\nlines"]),
        (1, ["block", "x" * 400]),
        (1, ["block", "iteration 3 passed"]),
        (1, ["block", "the password is Corr3ct-H0rse-Fake"]),
        (1, ["set", "--objective", "```"]),
        (1, ["done", "1"]),
        (1, ["done", "nothing"]),
    ],
    "fact": [
        (2, ["often"]),
        (2, ["add"]),
        (2, ["show"]),
        (2, ["list", "x"]),
        (2, ["show", "x.md", "--reason", "r"]),
        (2, ["add", "Subject", "Tests run with make.", "--category", "recipe"]),
        (2, ["--agent", "researcher"]),
        (2, ["add", "Subject"]),
        (1, ["add", "Subject", "Tests run with make."]),
        (1, ["add", "Subject", "Maybe.", "--cite", "x.py:1", "--reason", "r", "--category", "project"]),
        (1, ["show", "nothing.md"]),
        (1, ["show", "../user_prefers-tabs.md"]),
        (1, ["supersede", "nothing.md", "Tests run with make.", "--reason", "r"]),
    ],
    "mcp": [
        (2, ["x"]),
        (1, ["--scope", "nonsense"]),
        (2, ["--port", "8377"]),
        (2, ["--new-token"]),
        (2, ["--http", "--port", "high"]),
        (2, ["--http", "--port", "65536"]),
        (2, ["--http", "--host", ""]),
        (2, ["--http", "--tls-cert", "cert.pem"]),
        (2, ["--http", "--tls-key", "key.pem"]),
        (1, ["--http", "--port", "0", "--scope", "nonsense"]),
        (1, ["--http", "--port", "0", "--host", "0.0.0.0"]),
        (1, ["--http", "--port", "0", "--host", "::", "--behind-proxy"]),
        (1, ["--http", "--port", "0", "--allow-host", "*.example.com"]),
        (1, ["--http", "--port", "0", "--tls-cert", "missing.pem", "--tls-key", "missing.pem"]),
    ],
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
    "trust": [(2, ["x"]), (1, []), (1, ["--yes"])],
    "doctor": [(2, ["x"])],
    "index": [(2, ["x"]), (2, ["--status", "--rebuild"]), (1, ["--scope", "nobody"])],
    "models": [(2, [""]), (2, ["--try"]), (1, ["--try", "nobody:x"]), (1, ["--try", "no model"])],
    "cost": [(2, ["x"]), (2, ["--days", "0"]), (2, ["--days", "many"])],
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


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE])
@pytest.mark.parametrize("options", [(), ("--replace",), ("--dry-run",)])
def test_an_archive_with_a_link_or_a_device_is_refused_whole(
    run: Run, tabs: str, tmp_path: Path, tree: Tree, kind: bytes, options: tuple[str, ...]
) -> None:
    (tmp_path / "good.md").write_bytes(FACT)
    odd = tarfile.TarInfo("odd.md")
    odd.type, odd.linkname = kind, "/etc/passwd"
    with tarfile.open(tmp_path / "in.tar", "w") as archive:
        archive.add(tmp_path / "good.md", "good.md")
        archive.addfile(odd)
    before = tree()

    code, out, err = run("import", str(tmp_path / "in.tar"), *options)

    assert (code, out) == (1, "")
    assert err.startswith("memsheaf: ")
    assert tree() == before
